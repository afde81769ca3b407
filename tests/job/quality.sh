#!/bin/sh
# Tests that training makes a good mixture. On a small fixed text, whose entropy is
# known, the mixture must come near to the entropy, and must be better than its base
# model and than one model with as many steps as one path, by a margin of three standard
# errors. Then the margin must fail for a merge whose weights add up to four, and for a
# router that knows nothing of the text: the test would notice these faults.
#
# usage: quality.sh PATHLOOM WORKFOLDER
# shellcheck disable=SC2154 # some variables belong to job.sh
set -u
. tests/support/job.sh
begin "$@"

# Writes documents of four domains as JSON lines. The domains have words in common, but
# in each of them other words follow a word: one of two, with equal probability. So a
# path that knows its domain needs one bit per word of three bytes, 0.333 bits per byte.
# All numbers are below 2^53, so every awk writes the same text.
documents() { # number of documents, seed
    awk -v n="$1" -v seed="$2" '
        function draw(below) { # a generator of Lehmer
            state = state * 48271 % 2147483647
            return int(state / 65536) % below
        }
        BEGIN {
            split("b d f g k l m n p r s t", first, " ")
            split("a e i o u", second, " ")
            for (w = 0; w < 48; w++)
                word[w] = first[w % 12 + 1] second[int(w / 12) + 1]
            state = 20261129
            for (d = 0; d < 4; d++)
                for (w = 0; w < 48; w++)
                    for (k = 0; k < 2; k++)
                        next_word[d, w, k] = (12 * d + draw(30)) % 48
            state = seed
            for (i = 0; i < n; i++) {
                d = i % 4
                w = (12 * d + draw(30)) % 48
                text = word[w]
                for (t = 1; t < 150; t++) {
                    w = next_word[d, w, draw(2)]
                    text = text " " word[w]
                }
                printf("{\"text\": \"%s\", \"domain\": \"d%d\"}\n", text, d)
            }
        }'
}

train() { # folder, options
    out=$1
    shift
    "$pathloom" train --corpus "$work/train.jsonl" --valid "$work/valid.jsonl" \
        --out "$work/$out" --workers 1 --set data.vocab=340 --set model.width=32 \
        --set model.heads=2 --set model.blocks=2 --set model.context=32 \
        --set train.batch=8 --set train.tau=40 --set train.phases=4 \
        --set train.base_steps=160 --set router.prefix=16 --set eval.baselines=dense \
        --set eval.sample_tokens=0 --set workers.threads=1 --set workers.ttl_ms=20000 \
        --set workers.precision=f32 "$@" >"$work/ask.out" 2>&1 || fail "the run $out"
}

# Prints whether the mixture is better than a row by at least LEAST percent, in spite of
# three standard errors over documents.
beats() { # folder, row, least
    awk -F'": *' -v row="$2" -v least="$3" '
        { value = $2; sub(/,$/, "", value); gsub(/"/, "", value) }
        /"row":/ { here = value == row }
        /"answer_percent_below":/ && here { percent = value; known = 1 }
        /"answer_percent_error":/ && here { error = value }
        END {
            if (!known) { print "unknown"; exit }
            printf("%s: %.2f +- %.2f percent better than %s\n",
                   percent - 3 * error >= least ? "yes" : "no", percent, error, row)
        }' "$work/$1/report.json"
}

must() { # yes or no, folder, row, least
    verdict=$(beats "$2" "$3" "$4")
    echo "$2: $verdict"
    case $verdict in
    "$1:"*) ;;
    *) fail "$2: the mixture should be $4 percent better than $3: $1" ;;
    esac
}

documents 480 1 >"$work/train.jsonl"
documents 80 2 >"$work/valid.jsonl"
[ "$(cksum <"$work/train.jsonl" | cut -d' ' -f1)" = 3411198267 ] || fail "awk wrote another text"

LEAST=7
train sound
# A fault that hurts every row alike changes no margin.
awk -F'": *' '
    /"row":/ { here = /"mix-likelihood"/ }
    /"bits_per_byte":/ && here { bits = $2 + 0 }
    END { exit !(bits > 0.30 && bits < 0.42) }' "$work/sound/report.json" ||
    fail "the mixture is far from the entropy of the text"
! grep -q 'is better than the mixture' "$work/ask.out" || fail "the report says that it lost"
must yes sound base $LEAST
must yes sound dense $LEAST

# The weights of the updates add up to four.
wrong='--set outer.lr=4 --set outer.momentum=0 --set outer.settle=false --set outer.curvature=0.1'
# shellcheck disable=SC2086 # words without blanks
train wrong-weights $wrong
must no wrong-weights dense $LEAST
grep -q '"one machine, same time" is better than the mixture:' "$work/ask.out" &&
    grep -q 'these numbers do not say why' "$work/ask.out" ||
    fail "the report names a reason for which it has no number"

# One phase of four paths and the base model: 320 steps, 2.1 tokens per parameter.
# shellcheck disable=SC2086 # words without blanks
train little $wrong --set train.phases=1
grep -q 'all paths together were trained on 2.1 tokens per parameter' "$work/ask.out" ||
    fail "the report does not say why it lost"

# The first token is the same in every document: the router knows nothing, and deals
# documents without regard to their domain.
train no-router --set router.prefix=1 --set router.sees=0
must no no-router dense $LEAST
