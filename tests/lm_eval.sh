#!/bin/sh
# Tests `pathloom serve` with the unchanged lm-evaluation-harness.
#
#   sh tests/lm_eval.sh [PATHLOOM] [PATH_LOGITS]
#
# Installs the harness from the Python package index into a folder outside of the tree
# (the variable LM_EVAL, or else ~/.cache/pathloom/lm_eval). The folder needs about 800
# MB and is kept for the next call. The script trains and serves a small run. The
# harness's model `local-completions` uses the server as tokenizer and model, and scores
# held-out documents, documents of several windows, and a multiple-choice task. Every
# sample is compared with the losses of the exported path on the reference backend, and
# the sums are compared with `pathloom eval`: first for a single model of the run, then
# with a path that is chosen for each request.
#
# Exit codes: 0; 1 if a comparison failed; 77 if the harness cannot be installed here,
# and a line says why. Takes about a minute after the installation.
set -eu
cd "$(dirname "$0")/.."
pathloom=${1:-build/release/pathloom}
path_logits=${2:-build/release/tests/path_logits}
home=${LM_EVAL:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/pathloom/lm_eval}
version=0.4.13
context=128
prefix=8
work=$(mktemp -d)
. tests/support/script.sh
. tests/support/server.sh
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

for program in "$pathloom" "$path_logits"; do
    [ -x "$program" ] || {
        echo "lm_eval: there is no $program; build it first (sh tools/build.sh)" >&2
        exit 66
    }
done
[ -x "$home/bin/lm_eval" ] || {
    command -v python3 > "$work/log" || skip "there is no python3"
    python3 -m venv "$home" > "$work/log" 2>&1 ||
        skip "no virtual environment in $home: $(tail -n 1 "$work/log")"
    "$home/bin/pip" install -q "lm_eval[api]==$version" > "$work/log" 2>&1 ||
        skip "the package index cannot be reached: $(tail -n 1 "$work/log")"
}

"$home/bin/python" tests/job/lm_eval/make_data.py "$work"
"$pathloom" train --corpus "$work/train.jsonl" --valid "$work/held_out.jsonl" \
    --out "$work/run" --set train.tau=20 --set train.phases=4 --set train.batch=4 \
    --set router.prefix=$prefix --set eval.baselines=dense --set eval.sample_tokens=0 \
    --set data.vocab=400 --set model.width=48 --set model.heads=2 \
    --set model.kv_heads=1 --set model.blocks=2 --set model.context=$context \
    --set train.base_steps=100 --set topology.levels=2 --set workers.precision=f32 \
    > "$work/log" 2>&1 || fail "training: $(tail -n 3 "$work/log")"
"$pathloom" eval --run "$work/run" --json > "$work/eval.json"
"$pathloom" export --run "$work/run" --path p0 --out "$work/p0" > "$work/log"
"$pathloom" export --run "$work/run" --path p1 --out "$work/p1" > "$work/log"
"$pathloom" export --run "$work/run" --arm dense --path 0 --out "$work/dense" \
    > "$work/log"

start
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME="$work/hf"
for model in dense auto; do
    "$home/bin/lm_eval" --model local-completions --include_path "$work" \
        --model_args "base_url=$at/v1/completions,model=$model,max_length=$((context + 1))" \
        --tasks held_out,long,endings --batch_size 8 --log_samples \
        --output_path "$work/out/$model" > "$work/log" 2>&1 ||
        fail "lm_eval: $(tail -n 5 "$work/log")"
done
"$home/bin/python" tests/job/lm_eval/compare.py "$path_logits" "$work" "$at" \
    "$context" "$prefix" dense auto
