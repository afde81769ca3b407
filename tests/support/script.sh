# shellcheck shell=sh disable=SC2034
# This file is sourced by test scripts. It sets the locale, and defines own_folder and a
# `fail`, which a script or another sourced file may replace.
# awk, sort, printf and [a-z] depend on the locale: in Turkish the decimal point is a
# comma, and the letter i is not in [a-z].
export LC_ALL=C

# Sets `work` to $1, which becomes an empty folder that only this script uses.
own_folder() { # folder
    work=$1
    [ "${work#/}" != "$work" ] || work=$PWD/$work
    rm -rf "$work"
    mkdir -p "$work"
}

# Prints $1 and the last lines of all outputs, and exits with 1.
fail() {
    echo "FAILED: $1"
    for log in "$work"/*.out; do
        [ ! -f "$log" ] || { echo "--- $log" && tail -n 12 "$log"; }
    done
    exit 1
}

# Ends the test as skipped (77) unless all these programs are there.
needs() { # programs
    for tool; do
        command -v "$tool" >/dev/null || {
            echo "skipped: there is no $tool; sh tools/install.sh tests"
            exit 77
        }
    done
}
