# shellcheck shell=sh disable=SC2034,SC2154
# This file is sourced by scripts that need the small S3 server (tests/fault/s3_server.c).
# Such a script sets `tests` (the folder of the built tests) and has its own folder, $work.
AWS_ACCESS_KEY_ID=tester AWS_SECRET_ACCESS_KEY=secret-that-nobody-sees
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

# Starts a server, which runs until no process has its pipe open, and sets `url` to the
# engine on it.
serve() { # name, options
    name=$1
    shift
    mkfifo "$work/$name.pipe"
    "$tests/s3_server" "$work/$name.port" "$@" <"$work/$name.pipe" &
    exec 9>"$work/$name.pipe"
    i=0
    until [ -s "$work/$name.port" ]; do
        i=$((i + 1))
        [ $i -lt 1200 ] || fail "the server does not begin"
        sleep 0.05
    done
    url="s3://bucket/$name?endpoint=http://127.0.0.1:$(cat "$work/$name.port")"
}
