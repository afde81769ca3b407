#!/bin/sh
# Tests `pathloom eval --on`, `pathloom eval --every` and `pathloom route`. `eval` must
# score any text document by document, and must choose the path again every W tokens.
# `route` must name the path that answers.
#
# usage: eval_text.sh PATHLOOM WORKFOLDER   (in the project's root)
set -u
. tests/support/job.sh
begin "$@"
run=$work/run

# Prints the number that follows the first occurrence of a field's name.
number() { # file, field
    sed -n "s/.*\"$2\":\\([-0-9.e+]*\\).*/\\1/p" "$1" | head -n 1
}

# Prints the list of documents, one object per line.
documents() { # file
    grep -o '{"document":[^}]*}' "$1"
}

about() { # number, number: true if they differ by less than 1e-6
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6) }'
}

evaluates() { # output file, options
    out=$work/$1
    shift
    "$pathloom" eval --run "$run" "$@" --json >"$out" 2>"$work/eval.out" ||
        fail "eval $*"
}

make_corpus base eval
(small_job run --set train.tau=10 --set train.phases=2 --set train.base_steps=20 \
    --set workers.precision=f32) >"$work/run.out" 2>&1 || fail "the job"

# Writes the text whose tokens, with BOS, are the first 16 (router.prefix) of a file. It
# ends before a blank, because a part of a word may have other tokens than the word.
# False if the 16 tokens end within a word.
beginning() { # file
    for bytes in $(head -c 200 "$1" | grep -obE '[^[:space:]][[:space:]]' | sed 's/:.*//'); do
        head -c $((bytes + 1)) "$1" >"$work/beginning"
        "$pathloom" route --run "$run" --file "$work/beginning" --json >"$work/route.json" ||
            fail "route"
        tokens=$(number "$work/route.json" tokens)
        [ "$tokens" -lt 15 ] || break
    done
    [ "$tokens" -eq 15 ]
}
for code in base/buf.h base/*.h; do
    ! beginning "$code" || break
done
[ "$tokens" -eq 15 ] || fail "in no header of base do the first 16 tokens end with a word"

# A text of three documents: code, a text that is shorter than the prefix, and prose.
{
    printf '{"text": "%s", "domain": "code"}\n' \
        "$(sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/ /g; s/$/\\n/' "$code" | tr -d '\n')"
    printf '{"text": "int x;"}\n'
    printf '{"text": "%s", "domain": "prose"}\n' \
        "$(sed 's/\\/\\\\/g; s/"/\\"/g; s/$/\\n/' docs/GLOSSARY.md | tr -d '\n')"
} >"$work/text.jsonl"

# ---- every document, with its path ----
evaluates on.json --on "$work/text.jsonl"
[ "$(documents "$work/on.json" | wc -l)" -eq 2 ] || fail "not two documents"
[ "$(number "$work/on.json" documents_too_short)" -eq 1 ] || fail "not one document is counted as too short"
documents "$work/on.json" | sed -n 2p | grep -q '"document":3,.*"domain":"prose"' ||
    fail "the second line is not document 3"
# The bytes and bits of the documents must add up to those of the whole text.
documents "$work/on.json" | sed 's/.*"scored_bytes":\([0-9]*\).*"bits_per_byte":\([0-9.]*\).*/\1 \2/' |
    awk '{ bytes += $1; bits += $1 * $2 } END { printf "%d %.9f\n", bytes, bits / bytes }' >"$work/sum"
read -r bytes bits <"$work/sum"
[ "$bytes" -eq "$(number "$work/on.json" eval_bytes)" ] || fail "bytes do not add up"
whole=$(grep -o '"row":"mix-likelihood"[^}]*' "$work/on.json" |
    sed 's/.*"bits_per_byte":\([0-9.]*\).*/\1/')
about "$bits" "$whole" || fail "documents have $bits bits per byte, the whole $whole"

# The document's path must be the path that answers a prompt with the same beginning.
path=$(documents "$work/on.json" | sed -n "1s/.*\"path\":\"\([^\"]*\)\".*/\1/p")
"$pathloom" generate --run "$run" --prompt "$(cat "$work/beginning")" --max-tokens 1 \
    --json >"$work/generate.json" 2>"$work/generate.out" || fail "generate"
grep -q "\"path\":\"$path\"" "$work/generate.json" || fail "generate and eval --on choose different paths"

# `route` must name the same path and say why. The path that answers must have the
# fewest nats, the margin must be the one in the list of documents, and the posteriors
# must add up to 1.
"$pathloom" route --run "$run" --file "$work/beginning" --json >"$work/route.json" ||
    fail "route"
grep -q "^{\"path\":\"$path\",\"route\":\"likelihood\"" "$work/route.json" ||
    fail "route and eval --on choose different paths"
margin=$(documents "$work/on.json" | sed -n "1s/.*\"margin_nats\":\([0-9.]*\).*/\1/p")
awk -v a="$(number "$work/route.json" margin_nats)" -v b="$margin" \
    'BEGIN { exit !(a - b < 1e-3 && b - a < 1e-3) }' || fail "route and eval --on print different margins"
grep -o '{"path":"p[^}]*}' "$work/route.json" | tr -d '{}"' | tr ',' '\n' |
    awk -F: -v path="$path" '$1 == "path" { name = $2; n++ } $1 == "posterior" { sum += $2 }
        $1 == "nats" { if (n == 1 || $2 < least) { least = $2; best = name } }
        END { exit !(n == 4 && best == path && sum > 0.9999 && sum < 1.0001) }' ||
    fail "the list of paths of route does not agree with its answer"
"$pathloom" route --run "$run" --prompt "$(cat "$work/beginning")" --json >"$work/prompt.json" ||
    fail "route --prompt"
cmp -s "$work/route.json" "$work/prompt.json" || fail "--prompt and --file differ"
# Later tokens must count, and only by the router's counts: for each path they must add
# the same number to its nats and to its router cost.
head -c 600 "$code" >"$work/longer"
"$pathloom" route --run "$run" --file "$work/longer" --json >"$work/longer.json" ||
    fail "route of a longer text"
for json in route longer; do
    grep -o '{"path":"p[^}]*}' "$work/$json.json" |
        sed 's/.*"nats":\([0-9.]*\).*"router_cost":\([0-9.]*\).*/\1 \2/' >"$work/$json.nats"
done
paste -d ' ' "$work/route.nats" "$work/longer.nats" |
    awk '{ own = $3 - $1; router = $4 - $2; wrong += !(router > 1 && own - router < 1e-3 && router - own < 1e-3) }
        END { exit !(NR == 4 && !wrong) }' || fail "the tokens after the prefix count wrongly"
"$pathloom" route --run "$run" --route router --json --file - <"$work/beginning" \
    >"$work/router.json" || fail "route --route router"
answer=$(sed 's/^{"path":"\([^"]*\)".*/\1/' "$work/router.json")
grep -q "\"route\":\"router\".*\"router_path\":\"$answer\"" "$work/router.json" ||
    fail "the router does not decide"
"$pathloom" generate --run "$run" --route router --prompt "$(cat "$work/beginning")" \
    --max-tokens 1 --json >"$work/generate.json" 2>"$work/generate.out" || fail "generate"
grep -q "\"path\":\"$answer\"" "$work/generate.json" || fail "route and generate differ"
"$pathloom" route --run "$run" --prompt int >"$work/route" || fail "route as text"
[ "$(grep -c '^p[01][01] *\* ' "$work/route")" -eq 1 ] || fail "not one path with a star"
grep -q '^p[01][01] answers: its likelihood' "$work/route" || fail "route does not say why"

# Standard input and a compressed file must give the same numbers.
"$pathloom" eval --run "$run" --on - --json <"$work/text.jsonl" >"$work/stdin.json" ||
    fail "eval --on -"
gzip -c "$work/text.jsonl" >"$work/text.jsonl.gz"
evaluates gz.json --on "$work/text.jsonl.gz"
for other in stdin gz; do
    documents "$work/$other.json" | sed 's/"source":"[^"]*"//' >"$work/$other.lines"
    documents "$work/on.json" | sed 's/"source":"[^"]*"//' |
        cmp -s - "$work/$other.lines" || fail "eval of $other gives other numbers"
done

# ---- every W tokens ----
evaluates every.json --on "$work/text.jsonl" --every 100000,16,8
row() { # rule, W, field
    grep -o "{\"rule\":\"$1\",\"every\":$2,[^}]*}" "$work/every.json" |
        sed "s/.*\"$3\":\\([-0-9.e+]*\\).*/\\1/"
}
about "$(row once 0 bits_per_byte)" "$whole" || fail "the rule once and the mixture have different bits per byte"
about "$(row history 100000 bits_per_byte)" "$whole" || fail "pieces that are longer than the text change the path"
for w in 100000 16 8; do
    awk -v o="$(row oracle $w bits_per_byte)" -v h="$(row history $w bits_per_byte)" \
        -v g="$(row gate $w bits_per_byte)" \
        'BEGIN { exit !(o > 0 && o <= h && o <= g) }' || fail "at $w tokens a rule is better than the oracle"
done
router=$(grep -o '"row":"mix","title":"[^"]*","bits_per_byte":[0-9.]*' "$work/every.json")
about "$(row gate 100000 bits_per_byte)" "${router##*:}" ||
    fail "a gate that chooses once and the router have different bits per byte"
awk -v a="$(row oracle 8 ppl)" -v b="$(row oracle 16 ppl)" 'BEGIN { exit !(a <= b) }' ||
    fail "the oracle is worse with smaller pieces"
# The prefix has 16 tokens, so the row re-routed is the rule `history` of 16 tokens.
about "$(row history 16 bits_per_byte)" \
    "$(sed -n 's/.*"row":"mix-windows","title":"[^"]*","bits_per_byte":\([0-9.]*\).*/\1/p' \
        "$work/every.json")" || fail "the row re-routed is another rule than history"
"$pathloom" eval --run "$run" --on "$work/text.jsonl" --every 16 >"$work/text" ||
    fail "eval as text"
for rule in history gate oracle; do
    grep -q "^   $rule, every 16 " "$work/text" || fail "no row $rule, every 16"
done
grep -q '^ *3  prose ' "$work/text" || fail "no line for document 3"
# The advice to route again must be there if re-routing lowers perplexity by a tenth.
awk '/mixture, by likelihood/ && !once { once = $(NF - 3) }
    /mixture, re-routed/ && !again { again = $(NF - 3) }
    /route_every/ { advice = 1 }
    END { exit !(once > 0 && again > 0 && advice + 0 == (again <= 0.9 * once)) }' \
    "$work/text" || fail "the advice to route again does not fit the rows"

# ---- a path for each piece of the text that the program writes ----
rerouted() { # file, options
    out=$1
    shift
    "$pathloom" generate --run "$run" --prompt "$(cat "$work/beginning")" --max-tokens 20 \
        --json "$@" >"$work/$out" 2>"$work/generate.out" || fail "generate $*"
}
rerouted every4.json --route-every 4
grep -q '"route":"history","paths":\[{"from":[0-9]*,"path":"p[01][01]"}' "$work/every4.json" ||
    fail "generate --route-every names no paths"
rerouted again.json --route-every 4
rerouted once.json
rerouted late.json --route-every 1000
rerouted once16.json --precision bf16
rerouted late16.json --precision bf16 --route-every 1000
text() { # file
    grep -o '"text":"[^"]*"' "$work/$1"
}
[ "$(text every4.json)" = "$(text again.json)" ] || fail "the same request gave two texts"
[ "$(text late.json)" = "$(text once.json)" ] || fail "--route-every 1000, more than the text has tokens, changes the text"
[ "$(text late16.json)" = "$(text once16.json)" ] || fail "--route-every 1000, more than the text has tokens, changes the text in bf16"
rerouted gate4.json --route router --route-every 4
rerouted oncerouter.json --route router
rerouted lategate.json --route router --route-every 1000
grep -q '"route":"gate","paths":.*"routing_tokens":[0-9]' "$work/gate4.json" || fail "no cost of the gate"
grep -q '"routing_tokens":0,' "$work/lategate.json" || fail "tokens were read for routing although the path never changes"
[ "$(text lategate.json)" = "$(text oncerouter.json)" ] || fail "--route-every 1000, more than the text has tokens, changes the text of a gate"
"$pathloom" generate --run "$run" --prompt "$(cat "$work/beginning")" --max-tokens 20 \
    --route-every 4 >"$work/generate.out" 2>&1 || fail "generate as text"
grep -q "^\[chosen by the paths' losses: paths read [1-9][0-9]* more tokens" \
    "$work/generate.out" || fail "the cost is not printed: $(cat "$work/generate.out")"

# ---- an arm with one path, as in serve ----
"$pathloom" generate --run "$run" --prompt "int main" --path base --max-tokens 4 --json \
    >"$work/arm" 2>"$work/generate.out" || fail "generate --path base"
grep -q '"path":"base"' "$work/arm" || fail "not the arm base: $(cat "$work/arm")"
refused 66 'there is no path `p99`' "$pathloom" generate --run "$run" --prompt a --path p99
refused 66 'there is no path `mix`' "$pathloom" generate --run "$run" --prompt a --path mix

# ---- refused options ----
refused 64 'nothing to choose' "$pathloom" generate --run "$run" --prompt a --path p00 \
    --route-every 8
refused 64 'route-every' "$pathloom" generate --run "$run" --prompt a --route-every 0
refused 64 'numbers of tokens' "$pathloom" eval --run "$run" --every 0
refused 64 'numbers of tokens' "$pathloom" eval --run "$run" --every 16,,8
refused 64 'numbers of tokens' "$pathloom" eval --run "$run" --every sixteen
refused 64 'at most 8' "$pathloom" eval --run "$run" --every 1,2,3,4,5,6,7,8,9
refused 66 'nothing.txt' "$pathloom" eval --run "$run" --on "$work/nothing.txt"
: >"$work/empty.txt"
refused 65 'there is no text' "$pathloom" eval --run "$run" --on "$work/empty.txt"
echo "int x;" >"$work/short.txt"
refused 65 'nothing to score' "$pathloom" eval --run "$run" --on "$work/short.txt"
refused 64 'either --prompt TEXT or --file' "$pathloom" route --run "$run"
refused 64 'not both' "$pathloom" route --run "$run" --prompt a --file b
refused 64 'is empty' "$pathloom" route --run "$run" --prompt ''
refused 64 'likelihood' "$pathloom" route --run "$run" --prompt a --route fate
refused 65 'there is no text' "$pathloom" route --run "$run" --file "$work/empty.txt"
refused 66 'nothing.txt' "$pathloom" route --run "$run" --file "$work/nothing.txt"
# ---- text with a letter that the tokenizer does not know: no bits per byte ----
awk 'BEGIN { printf "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
    printf "{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,\"content\":\"</s>\",\"special\":true}],"
    printf "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\342\226\201\","
    printf "\"prepend_scheme\":\"never\",\"split\":false},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\","
    printf "\"byte_fallback\":false,\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"\342\226\201\":3"
    n = split("abcdefghijklmnopqrstuvwxyz.0123456789", letter, "")
    for (i = 1; i <= n; i++) printf ",\"%s\":%d", letter[i], i + 3
    print "},\"merges\":[]}}" }' >"$work/letters.json"
for i in $(seq 40); do
    printf '{"text": "document %d. the quick brown fox jumps over the lazy dog %d times. sphinx of black quartz."}\n' \
        "$i" $((i * 7919))
done >"$work/known.jsonl"
tail -n 3 "$work/known.jsonl" | sed '2s/quartz/qu@rtz/' >"$work/held.jsonl"
head -n 37 "$work/known.jsonl" >"$work/letters.jsonl"
"$pathloom" train --corpus "$work/letters.jsonl" --valid "$work/held.jsonl" --out "$work/lost" \
    --workers 2 --set data.tokenizer="$work/letters.json" --set model.width=48 --set model.heads=2 \
    --set model.blocks=2 --set model.context=64 --set train.batch=4 --set train.tau=4 \
    --set train.phases=2 --set train.base_steps=8 --set router.prefix=8 --set topology.levels=2 \
    --set eval.sample_tokens=0 --set eval.baselines=dense >"$work/lost.out" 2>&1 ||
    fail "training on letters"
grep -q '^ \* mixture, by likelihood  *- ' "$work/lost.out" || fail "bits per byte of lost text are printed"
grep -q 'bits/byte is not known' "$work/lost.out" || fail "nothing says why there are no bits per byte"
grep -q '"bits_per_byte":[0-9i-]\|"bits_per_byte": *[0-9i-]' "$work/lost/report.json" &&
    fail "report.json has bits per byte of lost text"
grep -q '"ppl": *[0-9]' "$work/lost/report.json" || fail "no perplexity"
"$pathloom" eval --run "$work/lost" --on "$work/letters.jsonl" >"$work/lost.out" 2>&1 || fail "eval of known text"
grep -q '^ \* mixture, by likelihood  *[0-9]' "$work/lost.out" || fail "no bits per byte of known text"
"$pathloom" eval --run "$work/lost" --on "$work/held.jsonl" >"$work/lost.out" 2>&1 || fail "eval of lost text"
grep -q '^       3 .* - ' "$work/lost.out" || fail "a document has bits per byte"
refused 65 'does not know parts' "$pathloom" store bisect --run "$work/lost"

rm -rf "$work"
echo "eval_text: all checks passed"
