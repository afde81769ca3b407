#!/bin/sh
# Asks `pathloom serve` with the unchanged clients of other people.
#
#   sh tests/clients.sh [PATHLOOM]
#
# Installs the newest openai, litellm, langchain-openai, llama-index, pydantic-ai, llm and
# lm-evaluation-harness from the Python package index into a folder (the variable CLIENTS,
# or else a temporary one; it needs about 1 GB), trains and serves a small run on
# loopback, and prints which calls work and which are refused by design, with the
# server's sentence. Node's fetch needs Debian's package nodejs. lm_eval.sh compares the
# numbers of lm-evaluation-harness.
#
# Exit codes: 0; 1 if a call that should work fails, or the reverse; 77 if the clients
# cannot be installed here. Takes some minutes.
set -eu
cd "$(dirname "$0")/.."
pathloom=${1:-build/release/pathloom}
. tests/support/script.sh
. tests/support/server.sh
work=$(mktemp -d)
home=${CLIENTS:-$work/clients}
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
needs python3 "$pathloom"

if [ ! -e "$home/installed" ]; then
    python3 -m venv "$home" >"$work/log" 2>&1 ||
        skip "no virtual environment in $home: $(tail -n 1 "$work/log")"
    "$home/bin/pip" install -q openai litellm langchain-openai llama-index-llms-openai-like \
        llama-index-embeddings-openai-like 'pydantic-ai-slim[openai]' \
        llm 'lm-eval[api]' >"$work/log" 2>&1 ||
        skip "the package index cannot be reached: $(tail -n 1 "$work/log")"
    touch "$home/installed"
fi

train_run --set eval.baselines=dense --set model.context=256 --set topology.levels=2 \
    --set model.chat=plain
start
mkdir "$work/files"
"$home/bin/python" tests/job/clients/clients.py "$at/v1" "$work/files"
