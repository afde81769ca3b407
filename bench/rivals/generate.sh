#!/bin/sh
# Generation beside llama.cpp: tokens/s of reading a prompt and of one stream, in turn.
#
#   sh bench/rivals/generate.sh [--model 2m,13m,124m] [--run RUN] [--threads N] [--rounds N]
#
# The program is PATHLOOM, else build/release/pathloom. Needs a Python (as PYTHON, else
# python3) with xllamacpp, gguf and numpy; says how to get them. Exit code 77 without.
set -eu
cd "$(dirname "$0")/../.."
pathloom=${PATHLOOM:-build/release/pathloom}
[ -x "$pathloom" ] || {
    echo "generate.sh: there is no $pathloom; build it first (sh tools/build.sh)" >&2
    exit 66
}
exec "${PYTHON:-python3}" bench/rivals/llama_generate.py --pathloom "$pathloom" "$@"
