# shellcheck shell=sh disable=SC2034,SC2154
# This file is sourced by scripts that start a service on loopback. Such a script sets
# `service` (its name) and `pathloom`, and then makes its folder with service_folder.
. tests/support/job.sh
work=

say() {
    echo "$service: $*"
}

skip() {
    say "cannot run here: $1"
    exit 77
}

fail() {
    say "FAILED: $1"
    for log in "$work"/*.out "$work"/*.log "$work"/run/log/hub.log; do
        [ ! -f "$log" ] || { echo "--- $log" && tail -n 15 "$log"; }
    done
    exit 1
}

# Prints which of these programs, and of these files, are missing.
missing() { # programs and absolute paths
    for tool; do
        case $tool in
        /*) [ -f "$tool" ] ;;
        *) command -v "$tool" >/dev/null 2>&1 ;;
        esac || echo "$tool"
    done
}

# Makes a temporary folder, which is deleted when the script ends.
service_folder() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/pathloom-$service.XXXXXX") || fail "no temporary folder"
    work=$(readlink -f "$work")
}

# Prints the processes of this script: those whose current folder is below the script's
# folder or whose command line contains it.
ours() {
    for process in /proc/[0-9]*; do
        [ "${process#/proc/}" != $$ ] || continue
        case $(readlink "$process/cwd" 2>/dev/null) in
        "$work" | "$work"/*) echo "${process#/proc/}" && continue ;;
        esac
        ! tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -qF "$work/" ||
            echo "${process#/proc/}"
    done
}

# Cleans up, however the script ends. Ends the service first, because it would start
# processes again.
clean() {
    trap - EXIT
    [ -n "$work" ] || return
    for signal in CONT TERM KILL; do
        # shellcheck disable=SC2046 # the list is several process ids
        kill "-$signal" $(ours) 2>/dev/null && [ $signal != CONT ] && sleep 1
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

# Sets `port` to the first of so many free ports.
free_ports() { # number
    port=$((20000 + $$ % 10000 - $1))
    free=0
    while [ $free -lt "$1" ]; do
        port=$((port + $1)) free=0
        [ $port -lt 31000 ] || fail "no free ports"
        while [ $free -lt "$1" ] &&
            ! grep -qi ":$(printf %04X $((port + free))) " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
            free=$((free + 1))
        done
    done
}
