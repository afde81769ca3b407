#!/usr/bin/env bash
# Trains a small run with real processes. Then checks the numbers in the report, the
# versions in the store and the text from a path. Also checks that no process is left,
# and that a second call trains nothing again. Needs jq.
#   bash tools/check_demo.sh PROGRAM FOLDER [options of `pathloom train` ...]
set -euo pipefail
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
program=$1
run=$2/run
shift 2
trap 'echo "check_demo: line $LINENO failed: $BASH_COMMAND" >&2' ERR

# Prints the processes that name this run on their command line.
processes() {
    local file
    for file in /proc/[0-9]*/cmdline; do
        [ "$file" = "/proc/$$/cmdline" ] && continue
        { tr '\0' ' ' <"$file" | grep -F -- "$run"; } 2>/dev/null || true
    done
}

train() {
    "$program" train --out "$run" --set train.phases=2 --set train.tau=6 \
        --set train.base_steps=12 --set data.max_bytes=1M \
        --set eval.max_tokens=8000 "$@"
}

echo "-- train"
train "$@"
[ -z "$(processes)" ]

echo "-- report"
jq -e '[.ppl_routed, .ppl_dense, .ppl_diloco, .ppl_dense_equal_tokens]
       | all(type == "number" and . > 1 and . < 1e5)' "$run/report.json"
jq -e '.tokens_total > .tokens_per_path and .tokens_per_path > 0 and
       .router_purity > 0 and .router_purity <= 1' "$run/report.json"
# A random choice among the 2048 tokens has a perplexity of 2048. The base model learns a
# little in its 12 steps, and the paths start from it, so they must be better.
jq -e '.ppl_base < 2048 and .ppl_routed < .ppl_base' "$run/report.json"

echo "-- eval"
"$program" eval --run "$run" --json >"$run/eval.json"
jq -e -s '.[0].ppl_routed == .[1].ppl_routed' "$run/eval.json" "$run/report.json"

echo "-- store log"
"$program" store log mix/L1.E0 --store "$run/store" --json >"$run/log.jsonl"
jq -e -s 'length == 3 and ([.[].version] | sort) == [0, 1, 2] and
          all(.hash | test("^[0-9a-f]{64}$")) and
          all(.version == 0 or (.contributions | length) == 2)' "$run/log.jsonl"

echo "-- generate"
text=$("$program" generate --run "$run" --prompt "The" --max-tokens 16 --seed 1)
[ -n "$text" ]
[ "$text" = "$("$program" generate --run "$run" --prompt "The" --max-tokens 16 --seed 1)" ]

echo "-- the same command again: nothing is trained twice"
before=$("$program" store ls --store "$run/store" --json)
started=$SECONDS
train "$@" >"$run/second.txt"
echo "   took $((SECONDS - started)) s"
[ "$before" = "$("$program" store ls --store "$run/store" --json)" ]
[ -z "$(processes)" ]

echo "-- the error for a wrong key names the most similar key"
if "$program" train --out "$run" --set train.taus=3 2>"$run/wrong.txt"; then
    exit 1
fi
grep -q 'train.tau' "$run/wrong.txt"
echo "check_demo: ok"
