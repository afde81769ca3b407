#!/bin/sh
# Runs README's two commands in a bare Debian 12, and then the installed tests as other
# machines would run them. Prints a table.
#
#   sh tests/machines.sh                      every line of the table (hours)
#   sh tests/machines.sh bare turkish         only these lines
#   sh tests/machines.sh --at FOLDER ...      keeps system and logs in FOLDER; a later
#                                             call with this folder does not install again
#
# The lines; several conditions can be joined by a plus (one-core+avx2):
#   demo        a short demo in the bare system, as .ci/run does
#   bare        the demo and tests/run.sh in the bare system
#   one-core    tests/run.sh on one processor
#   neighbours  beside two processes that are always busy
#   avx2        without AVX-512 (PATHLOOM_CPU=avx2)
#   portable    without AVX2 (PATHLOOM_CPU=portable)
#   user        as an ordinary user; in a copy of the sources, which is built there
#   turkish     with LANG=tr_TR.UTF-8, whose letter i has other capitals
#   blank       in a folder with a blank in its name
#   2GiB        with at most 2 GiB of address space per process (ulimit -v)
#
# Needs root, debootstrap, unshare and about 10 GB of disk. Everything runs in a system
# of its own with its own processes and mounts, which end with the script; all lines
# except demo and bare have no network.
#
# Exit codes: 0; 1 if a command failed, if a test was left out although the machine could
# run it, or if the demo prints more than 60 lines; 64 for a wrong argument; 77 if this
# machine cannot run the script.
set -u
cd "$(dirname "$0")/.." || exit 70
conditions='one-core neighbours avx2 portable user turkish blank 2GiB'
at='' kept='' failed=0
if [ "${1:-}" = --at ]; then
    at=${2:?} kept=1
    shift 2
fi
[ $# -gt 0 ] || set -- bare one-core+avx2 neighbours+portable user+turkish+blank 2GiB
for line; do
    for name in $(echo "$line" | tr + ' '); do
        case " demo bare $conditions " in
        *" $name "*) ;;
        *)
            echo "machines: there is no \`$name\`; known are demo, bare and $conditions" >&2
            exit 64
            ;;
        esac
    done
done
[ "$(id -u)" -eq 0 ] || {
    echo "skipped: this needs root"
    exit 77
}
for tool in debootstrap unshare setpriv; do
    command -v "$tool" >/dev/null || {
        echo "skipped: there is no $tool; apt-get install debootstrap util-linux"
        exit 77
    }
done
unshare --mount --pid --fork --net true 2>/dev/null || {
    echo "skipped: this machine does not permit namespaces"
    exit 77
}

child=''
if [ -z "$at" ]; then
    at=$(mktemp -d "${TMPDIR:-/tmp}/pathloom-machines-XXXXXX") || exit 73
fi
mkdir -p "$at/logs" || exit 73
at=$(cd "$at" && pwd)
system=$at/system
# All mounts are in the mount namespace of enter, so none is visible here. If one is
# nevertheless, nothing is deleted.
leave() {
    [ -z "$child" ] || kill -9 "$child" 2>/dev/null
    [ -n "$kept" ] && return
    if grep -qF " $at/" /proc/self/mounts; then
        echo "machines: $at stays, because something is mounted in it" >&2
    else
        rm -rf --one-file-system "$at"
    fi
}
trap leave EXIT
trap 'exit 130' INT TERM

# Runs a command in the system, in namespaces that end with it. The system is their root,
# not a chroot, in which nobody may make further namespaces. The devices are the few
# that a container has.
enter() { # --net or nothing, command
    net=''
    [ "$1" != --net ] || { net=--net && shift; }
    # shellcheck disable=SC2016,SC2086 # the script is for sh; $net is empty or one word
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/srv \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        unshare --mount --propagation private --pid --fork --kill-child $net sh -c '
        set -e
        system=$1
        shift
        mount --bind "$system" "$system"
        mount -t proc proc "$system/proc"
        mount -t sysfs -o ro sysfs "$system/sys"
        mount -t tmpfs -o mode=755 tmpfs "$system/dev"
        for node in null zero full random urandom tty; do
            : >"$system/dev/$node"
            mount --bind "/dev/$node" "$system/dev/$node"
        done
        mkdir "$system/dev/pts" "$system/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$system/dev/pts"
        mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
        ln -s pts/ptmx "$system/dev/ptmx"
        ln -s /proc/self/fd "$system/dev/fd"
        ln -s fd/0 "$system/dev/stdin"
        ln -s fd/1 "$system/dev/stdout"
        ln -s fd/2 "$system/dev/stderr"
        cd "$system"
        pivot_root . .
        umount -l .
        cd /
        exec "$@"' sh "$system" "$@" </dev/null &
    child=$!
    wait "$child"
    code=$?
    child=''
    return $code
}

# Copies the sources of this project into a folder of the system. Of an earlier call's
# files only those of build/ stay.
copy_sources() { # folder
    mkdir -p "$system$1"
    find "$system$1" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    { git ls-files -co --exclude-standard 2>/dev/null ||
        find . -path ./build -prune -o -type f -print; } |
        tar -cf - --files-from - 2>/dev/null | tar -xf - -C "$system$1"
}

# Makes the bare system, with the settings of this machine's apt for proxies and dates.
make_system() {
    [ ! -e "$at/complete" ] || return 0
    rm -rf --one-file-system "$system"
    unshare --mount --propagation private --pid --fork --kill-child \
        debootstrap --variant=minbase bookworm "$system" \
        "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$at/logs/debootstrap.log" 2>&1 </dev/null &
    child=$!
    wait "$child" || {
        tail -n 5 "$at/logs/debootstrap.log"
        echo "skipped: debootstrap cannot make a Debian 12 here"
        exit 77
    }
    child=''
    grep -lsi '^ *acquire::' /etc/apt/apt.conf /etc/apt/apt.conf.d/* |
        while read -r file; do cp "$file" "$system/etc/apt/apt.conf.d/"; done
    : >"$at/complete"
}

row() { # columns
    printf '| %s | %s | %s | %s | %s | %s |\n' "$@" | tee -a "$at/table"
}

# Adds a line of the table for a run of tests/run.sh. Every test that was left out must
# have printed what the machine or the user lacks; a missing program is an error, because
# tests/run.sh installs programs.
judge() { # line, exit code, seconds
    log=$at/logs/$1.log
    [ "$2" -eq 0 ] || failed=1
    passed=$(grep -c '^ *[0-9]*/[0-9]* Test.* Passed ' "$log")
    left=$(sed -n 's/^.*- \([^ ]*\) (Skipped).*/\1/p' "$log" | tr '\n' ' ')
    parts=$(sed -n '/^Left out of tests/,$s/^    //p' "$log" | wc -l)
    bad=$(sed -n 's/^.*- \([^ ]*\) (\(Failed\|Timeout\|SEGFAULT\|Not Run\|Subprocess.*\)).*/\1/p' "$log" | tr '\n' ' ')
    lacks=$(grep -h 'there is no [^ ]*; sh tools' "$log" | sort -u | tr '\n' ' ')
    result=passed
    [ "$2" -eq 0 ] || result="failed ($2): $bad"
    [ -z "$lacks" ] || { failed=1 && result="$result; $lacks"; }
    [ "$passed" -gt 0 ] || { failed=1 && result="$result; no test ran"; }
    case $1 in
    # a user cannot make network namespaces; the emulated GPU needs more than 2 GiB
    *user* | *2GiB*) ;;
    *) [ -z "$left" ] || { failed=1 && result="$result; left out: $left"; } ;;
    esac
    row "$1" "sh tests/run.sh" "$result" "$3 s" "$passed" "${left:-0 tests }and $parts parts"
    sed -n '/^Left out of tests/,$s/^    //p' "$log" >>"$at/parts"
}

# Runs the demo. Its log must fit on one screen, and end with the result.
run_demo() { # line, arguments of the demo
    line=$1
    shift
    log=$at/logs/$line-demo.log
    begun=$(date +%s)
    enter sh -c 'cd /srv/pathloom && exec sh examples/demo.sh "$@"' sh "$@" >"$log" 2>&1
    code=$? lines=$(wc -l <"$log") result=passed
    [ $code -eq 0 ] || result="failed ($code)"
    grep -q 'mixture, by likelihood' "$log" || result="$result; no result"
    [ "$lines" -le 60 ] || result="$result; too many lines"
    [ "$result" = passed ] || failed=1
    row "$line" "sh examples/demo.sh $*" "$result" "$(($(date +%s) - begun)) s" - "$lines lines"
}

# Runs tests/run.sh with the conditions of a line, for at most two hours.
run_tests() { # line
    line=$1 folder=/srv/pathloom user='' prefix='' net=--net
    for name in $(echo "$line" | tr + ' '); do
        case $name in
        bare) net='' ;;
        one-core) prefix="taskset -c 0 $prefix" ;;
        avx2 | portable) prefix="env PATHLOOM_CPU=$name $prefix" ;;
        turkish) prefix="env LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8 $prefix" ;;
        2GiB) prefix="prlimit --as=2147483648 $prefix" ;;
        user) user=tester folder=/srv/tester/pathloom ;;
        esac
    done
    case +$line+ in
    *+blank+*) folder="${folder%/*}/path loom" ;;
    esac
    [ "$folder" = /srv/pathloom ] || copy_sources "$folder"
    [ -z "$user" ] || prefix="setpriv --reuid=tester --regid=tester --init-groups env HOME=/srv/tester $prefix"
    log=$at/logs/$line.log
    begun=$(date +%s)
    # shellcheck disable=SC2016 # the script is for the sh in the system
    enter $net sh -c '
        line=$1 folder=$2 prefix=$3
        ip link set lo up 2>/dev/null
        case +$line+ in
        *+neighbours+*)
            for _ in 1 2; do timeout 7200 sh -c "while :; do :; done" & done
            ;;
        esac
        case +$line+ in
        *+user+*)
            id tester >/dev/null 2>&1 || useradd --home-dir /srv/tester --create-home tester
            chown -R tester: /srv/tester "$folder"
            ;;
        esac
        cd "$folder" || exit 70
        # shellcheck disable=SC2086 # several words
        exec timeout 7200 $prefix sh tests/run.sh' sh "$line" "$folder" "$prefix" >"$log" 2>&1
    judge "$line" $? $(($(date +%s) - begun))
}

make_system
echo '127.0.0.1 localhost' >"$system/etc/hosts" # also of a system that was kept
copy_sources /srv/pathloom
: >"$at/table"
: >"$at/parts"
echo "$(date -u +%Y-%m-%d), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
row machine command result time 'tests passed' 'left out, or lines of output'
row --- --- --- --- --- ---
for line; do
    case $line in
    demo) run_demo demo --set train.phases=2 --set train.tau=6 --set train.base_steps=12 \
        --set data.max_bytes=1M --set eval.max_tokens=8000 ;;
    bare)
        run_demo bare
        run_tests bare
        ;;
    *)
        # The lines without a network need the packages that tests/run.sh installs.
        enter sh -c 'cd /srv/pathloom && sh tools/install.sh tests && [ -e /etc/locale.gen ] ||
            { apt-get install -y locales && localedef -i tr_TR -f UTF-8 tr_TR.UTF-8; }' \
            >"$at/logs/install.log" 2>&1
        run_tests "$line"
        ;;
    esac
done
if [ -s "$at/parts" ]; then
    printf '\nParts that were left out, because of the machine or the user:\n'
    LC_ALL=C sort -u "$at/parts" | sed 's/^/- /'
fi
[ $failed -eq 0 ] && echo "machines: all lines passed"
exit $failed
