# shellcheck shell=sh disable=SC2034,SC2154
# This file is sourced by scripts that ask a server of $work/run. Such a script sets
# `pathloom` and sources script.sh first.
server=
checks=0
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || :' EXIT

ok() {
    checks=$((checks + 1))
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
