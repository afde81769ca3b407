# shellcheck shell=sh disable=SC2154
# Sourced by scripts that start processes by hand and wait for their results. Such scripts
# must set `pathloom` and `work` (a folder of their own), and define `fail`.

children=
trap 'kill -9 $children 2>/dev/null' EXIT INT TERM

# Starts a command in the background. The output of the command goes to NAME.out, and
# the variable `pid` gets its process id.
start() { # name, command
    out=$1
    shift
    "$@" >>"$work/$out.out" 2>&1 &
    pid=$!
    children="$children $pid"
}

await() { # tenths of a second, what is waited for, command
    left=$1
    what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "$what"
        sleep 0.1
    done
}
