# shellcheck shell=sh disable=SC2154
# This file is sourced by scripts that start the processes of a job one by one and wait
# for results. Such a script must set `pathloom` (the program) and `work` (a folder that
# only this script uses), and define `fail`.

# awk, sort, printf and [a-z] depend on it: in Turkish the decimal point is a comma, and
# the letter i is not in [a-z].
export LC_ALL=C
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

# Repeats the command until it succeeds. If it has not succeeded after about the given
# time, the script fails with the message.
await() { # tenths of a second, message, command
    left=$1
    what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "$what"
        sleep 0.1
    done
}
