#!/bin/sh
# Tests that examples/train_one.c learns to count within a second. Its documents repeat
# "one two ... ten", so the right loss on held-out documents and the right continuation
# of a prompt are known.
#
# usage: train_one.sh TRAIN_ONE PATHLOOM WORKFOLDER
set -eu
train_one=$1
pathloom=$2
. tests/support/script.sh
own_folder "$3"

fail() {
    echo "FAILED: $1"
    cat "$work"/said* 2>/dev/null || true
    exit 1
}

# Makes 600 documents of 20 to 80 words. A document begins with any of the ten numbers.
awk 'BEGIN {
    split("one two three four five six seven eight nine ten", word, " ")
    for (d = 0; d < 600; d++) {
        text = word[d % 10 + 1]
        for (i = 1; i < 20 + d * 7 % 61; i++)
            text = text " " word[(d + i) % 10 + 1]
        print "{\"text\":\"" text "\"}"
    }
}' >"$work/count.jsonl"

train() { # FOLDER STEPS
    "$train_one" --out "$work/$1" --text "$work/count.jsonl" --vocab 300 --steps "$2" \
        --threads 1 --prompt "three four" >"$work/said-$1" 2>&1 || fail "train_one ended with $?"
}
train a 60

# Before the training all 300 pieces are equally likely, so the loss is ln 300 = 5.70.
# After the training only the first number of a document and its end are unknown.
awk '/^valid / { before = $3; after = $6; found = 1 }
    END { exit !(found && before > 5.5 && before < 5.9 && after < 0.2) }' "$work/said-a" ||
    fail "the losses are not those of a model that has learned to count"
grep -q "^text   three four five six seven eight nine ten one two three four five six" \
    "$work/said-a" || fail "the model does not continue to count"

# The same text and options must give the same model, and other programs must be able to
# read it.
train b 10
train c 10
cmp "$work/b/model/model.safetensors" "$work/c/model/model.safetensors" ||
    fail "a second training gave other parameters"
"$pathloom" import "$work/a/model" --out "$work/base.yaml" >"$work/said-import" 2>&1 ||
    fail "pathloom import refuses the saved model"

# An unknown option, or a folder that cannot be written, must be refused.
for options in "--nosuch 1" "--steps 5"; do
    code=0
    # shellcheck disable=SC2086 # the list is several words
    "$train_one" $options >"$work/said-usage" 2>&1 || code=$?
    [ "$code" -eq 64 ] || fail "train_one $options ended with $code instead of 64"
done
grep '^valid' "$work/said-a"
