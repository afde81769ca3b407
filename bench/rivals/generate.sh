#!/bin/sh
# Compares generation with llama.cpp: measures the tokens/s of reading a prompt and of
# writing one answer, with both programs in turn.
#
#   sh bench/rivals/generate.sh [--model 2m,13m,124m] [--run RUN] [--threads N] [--rounds N]
#
# With --serve the script compares the HTTP servers of both programs: the tokens/s of one
# request and of several requests at once, for one path and for four paths. FOLDER gets
# the models (2.5 GB).
#
#   sh bench/rivals/generate.sh --serve --work FOLDER [--threads N] [--rounds N] [--tokens N]
#
# PATHLOOM names the binary (default build/release/pathloom). Needs a Python (PYTHON, by
# default python3) with xllamacpp and other packages; if one is missing, the script says
# how to get them and ends with exit code 77.
set -eu
cd "$(dirname "$0")/../.."
pathloom=${PATHLOOM:-build/release/pathloom}
[ -x "$pathloom" ] || {
    echo "generate.sh: there is no $pathloom; build it first (sh tools/build.sh)" >&2
    exit 66
}
script=llama_generate.py
if [ "${1:-}" = --serve ]; then
    script=llama_serve.py
    shift
fi
exec "${PYTHON:-python3}" bench/rivals/$script --pathloom "$pathloom" "$@"
