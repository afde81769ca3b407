# shellcheck shell=sh disable=SC2034,SC2154
# This file is sourced by scripts that ask a server of $work/run. Such a script sets
# `pathloom` and sources script.sh first.
server='' clients=
checks=0
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || :' EXIT

ok() {
    checks=$((checks + 1))
}

# Trains a small run.
train_run() { # options
    "$pathloom" train --corpus tests --out "$work/run" --set data.valid_share=0.2 \
        --set data.vocab=600 --set data.max_bytes=600000 --set model.width=48 \
        --set model.heads=2 --set model.blocks=2 --set train.tau=10 --set train.phases=2 \
        --set train.batch=4 --set train.base_steps=20 --set router.prefix=8 \
        --set eval.sample_tokens=0 --set eval.max_tokens=2000 "$@" >"$work/log" 2>&1 ||
        fail "training: $(tail -n 3 "$work/log")"
}

# Waits for the processes $clients, which must succeed.
clients_end() { # message
    for client in $clients; do
        wait "$client" || fail "$1"
    done
    clients=
}

# The server must end with exit code 0.
ends() { # [signal]
    kill "-${1:-TERM}" "$server"
    code=0
    wait "$server" || code=$?
    server=
    [ "$code" -eq 0 ] || fail "the server ended with $code: $(cat "$work/stderr")"
    ok
}

# Runs a command, which must end with this exit code and print these words.
refuses() { # exit code, words, command
    wanted=$1 words=$2 code=0
    shift 2
    timeout 120 "$@" > "$work/answer" 2>&1 || code=$?
    [ "$code" -eq "$wanted" ] || fail "exit code $code instead of $wanted: $*"
    grep -q -- "$words" "$work/answer" || fail "\`$(cat "$work/answer")\` does not say \`$words\`"
    ok
}

# start ARGUMENT ...: starts a server; sets $server to its process and $at to its
# address
start() {
    : >"$work/stdout"
    "$pathloom" serve --run "$work/run" --listen '127.0.0.1:*' --threads 1 "$@" \
        >"$work/stdout" 2>"$work/stderr" &
    server=$!
    at=
    for _ in $(seq 600); do
        at=$(sed -n 's/.* at \(http.*\)\/v1$/\1/p' "$work/stdout")
        [ -z "$at" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    fail "no server: $(cat "$work/stderr")"
}
