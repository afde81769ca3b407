#!/bin/sh
# Tests exported paths with two programs that read them: transformers and llama.cpp.
#
#   sh tests/job/export_oracle.sh [PATHLOOM] [PATH_LOGITS]
#
# Trains three small runs on the text of the tests, exports a path of each run in every
# type, and compares logits, perplexity, tokens and greedy text with those of pathloom.
# Then trains the path further with transformers, and imports and serves what it saves.
# Needs a Python (as PYTHON, else python3) with the packages
#
#   numpy sentencepiece protobuf torch transformers safetensors gguf xllamacpp
#
# in an environment outside the tree:
#
#   python3 -m venv ORACLE && ORACLE/bin/pip install numpy sentencepiece ...
#   PYTHON=ORACLE/bin/python sh tests/job/export_oracle.sh
#
# If the packages of a comparison are missing, the comparison is skipped, and a line
# says so. Exit code: 77 if all comparisons are skipped, 1 if one failed.
set -eu
cd "$(dirname "$0")/../.."
pathloom=${1:-build/release/pathloom}
path_logits=${2:-build/release/tests/path_logits}
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

for program in "$pathloom" "$path_logits"; do
    [ -x "$program" ] || {
        echo "export_oracle: there is no $program; build it first (sh tools/build.sh)" >&2
        exit 66
    }
done
command -v "$python" > /dev/null || {
    echo "SKIP   there is no $python"
    exit 77
}

failed=0
compared=0
# Pathloom computes in f32, like the other programs. In bf16 its greedy text could
# differ where two tokens are nearly equally likely.
oracle() { # NAME PATH SETTING ...
    name=$1
    path=$2
    shift 2
    settings=
    for pair in "$@"; do
        settings="$settings --set $pair"
    done
    mkdir "$work/$name"
    echo "       $name: $*"
    # shellcheck disable=SC2086  # $settings is one word per setting
    "$pathloom" train --corpus tests --out "$work/$name/run" $settings \
        --set data.valid_share=0.2 --set data.vocab=700 --set train.tau=40 --set train.phases=2 \
        --set train.base_steps=200 --set train.batch=8 --set router.prefix=16 \
        --set eval.baselines=none --set workers.precision=f32 > "$work/$name/log" 2>&1 || {
        tail -n 5 "$work/$name/log"
        exit 1
    }
    code=0
    "$python" tests/job/oracle/export_oracle.py "$pathloom" "$path_logits" \
        "$work/$name/run" "$path" "$work/$name" 2> "$work/$name/errors" || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || {
        tail -n 3 "$work/$name/errors"
        failed=1
    }
    [ "$code" -eq 77 ] || compared=1
    code=0
    "$python" tests/job/oracle/finetune.py "$pathloom" "$path_logits" "$work/$name/f32" \
        cli "$work/$name" 2> "$work/$name/errors" || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || {
        tail -n 3 "$work/$name/errors"
        failed=1
    }
}

oracle tied p10 model.width=64 model.heads=4 model.blocks=2 model.context=64
oracle grouped p01 preset= model.width=96 model.heads=4 model.kv_heads=2 model.head_size=32 \
    model.ffn=160 model.blocks=3 model.context=48 model.tied=false topology.levels=1x2 \
    topology.blocks=2,1 topology.private=1 model.rope_theta=5000 model.norm_eps=1e-6
oracle qk_norm p10 model.width=64 model.heads=4 model.kv_heads=2 model.head_size=24 \
    model.blocks=2 model.context=64 model.qk_norm=true
[ "$failed" -eq 0 ] || exit 1
[ "$compared" -eq 1 ] || exit 77
