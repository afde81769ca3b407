#!/bin/sh
# Compares generation with llama.cpp: measures the tokens/s of reading a prompt and of
# writing one answer, with both programs in turn.
#
#   sh bench/rivals/generate.sh [--model 2m,13m,124m] [--run RUN] [--threads N] [--rounds N]
#
# PATHLOOM names the binary (default build/release/pathloom). Needs a Python (PYTHON, by
# default python3) with xllamacpp, gguf and numpy; if they are missing, the script says
# how to get them and ends with exit code 77.
set -eu
cd "$(dirname "$0")/../.."
pathloom=${PATHLOOM:-build/release/pathloom}
[ -x "$pathloom" ] || {
    echo "generate.sh: there is no $pathloom; build it first (sh tools/build.sh)" >&2
    exit 66
}
exec "${PYTHON:-python3}" bench/rivals/llama_generate.py --pathloom "$pathloom" "$@"
