# shellcheck shell=sh disable=SC2034
# This file is sourced by test scripts. It sets the locale, and defines own_folder and a
# `fail`, which a script or another sourced file may replace.
# awk, sort, printf and [a-z] depend on the locale: in Turkish the decimal point is a
# comma, and the letter i is not in [a-z].
export LC_ALL=C

# Sets `work` to $1, which becomes an empty folder. The script and all processes that it
# starts hold a lock beside it, so that a second run cannot empty it under the first one.
own_folder() { # folder
    work=${1%/}
    [ "${work#/}" != "$work" ] || work=$PWD/$work
    mkdir -p "$(dirname "$work")" && exec 8>"$work.lock" || exit 1
    flock -w 60 8 || {
        echo "FAILED: another run of this script, or a process that one left, uses $work"
        exit 1
    }
    rm -rf "$work"
    mkdir -p "$work"
}

# Options for a small model, which trains within seconds.
small_model="--set data.vocab=512 --set data.valid_share=0.1 --set model.width=48
    --set model.heads=2 --set model.blocks=2 --set model.context=64 --set train.batch=4
    --set router.prefix=16 --set eval.baselines=none --set eval.max_tokens=500
    --set eval.sample_tokens=0"

# Sets `pathloom` and `work` for a script with these arguments.
begin() { # PATHLOOM WORKFOLDER
    pathloom=$1
    own_folder "$2"
}

# Prints $1 and the last lines of all outputs, and exits with 1.
fail() {
    echo "FAILED: $1"
    for log in "$work"/*.out; do
        [ ! -f "$log" ] || { echo "--- $log" && tail -n 12 "$log"; }
    done
    exit 1
}

# Repeats the command until it succeeds. If it has not succeeded after about the given
# time, which is far more than any machine needs, the script fails with the message.
await() { # seconds, message, command
    left=$(($1 * 20))
    what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "$what"
        sleep 0.05
    done
}

# Notes a finding, after which the script goes on. The script ends with `exit $found`.
found=0
complain() { # sentence
    echo "FAILED: $1"
    found=1
}

skip() {
    echo "skipped: $1"
    exit 77
}

# Skips the test unless all these programs are there.
needs() { # programs
    for tool; do
        command -v "$tool" >/dev/null || skip "there is no $tool; sh tools/install.sh tests"
    done
}

# Begins the script again, with --inside before its arguments, as root of a network of its
# own. Skips the test if the machine does not permit this.
enter_network() { # option of unshare or "", arguments of the script
    PATH=$PATH:/usr/sbin:/sbin
    needs unshare nsenter ip
    with="--net $1"
    shift
    for how in "" --map-root-user; do
        # shellcheck disable=SC2086 # lists of words
        unshare $how $with true 2>/dev/null && exec unshare $how $with sh "$0" --inside "$@"
    done
    skip "this user may not make network namespaces"
}
