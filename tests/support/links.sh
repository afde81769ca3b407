# shellcheck shell=sh disable=SC2034,SC2086,SC2154
# This file is sourced by scripts that run jobs over slow, long and lossy links. It enters
# a network of its own, in which every site is a namespace behind one link of
# tests/wan/wan_link.c; no packet leaves it, and it ends with the script. Such a script
# runs in the project's root, passes its arguments, and defines `train FOLDER OPTION...`,
# which becomes the launcher. Then it calls links_begin.
. tests/support/job.sh
. tests/support/by_hand.sh
[ "${1-}" = --inside ] || enter_network "" "$@"
shift
home_at=10.88.0.1
work='' spaces='' joiner='' server='' workers=''

links_begin() { # build folder, folder for the runs
    [ -c /dev/net/tun ] || skip "there is no /dev/net/tun"
    pathloom=$(realpath "$1")/pathloom
    link=$(find "$1" -name wan_link -type f | head -n 1)
    [ -n "$link" ] || fail "there is no program wan_link in $1; build the project first"
    own_folder "$2"
    trap 'kill $spaces $joiner $server $workers 2>/dev/null; [ -z "$job" ] || kill $job 2>/dev/null' EXIT
    trap 'exit 1' INT TERM
    if ! ip link set lo up || ! ip addr add $home_at/32 dev lo; then
        skip "ip cannot set up a network here"
    fi
}

# ---- links ----
# Makes sites, each a namespace behind one link: `links_up cubic a:20:0:1000` makes the
# site a with a delay of 20 ms each way, no loss and 1000 kbit/s.
links_up() { # bbr or cubic, sites
    cc=$1
    shift
    list='' n=0
    mkdir -p "$work/stat"
    for site in "$@"; do
        name=${site%%:*}
        unshare --net sleep 3600 &
        spaces="$spaces $!"
        eval "space_$name=$!"
        list="$list wan_$name:$!:${site#*:}"
    done
    own=$(readlink /proc/self/ns/net)
    for process in $spaces; do
        await 600 "a site has no network" sh -c "[ \"\$(readlink /proc/$process/ns/net)\" != '$own' ]"
    done
    rm -f "$work/end" && mkfifo "$work/end"
    "$link" "$work/stat" $list <"$work/end" &
    joiner=$!
    exec 9>"$work/end"
    for site in "$@"; do
        name=${site%%:*} n=$((n + 1))
        await 600 "no link of $name" has_link
        if ! ip addr add 10.88.$n.1/24 dev wan_$name || ! ip link set wan_$name up; then
            skip "a TUN device cannot be used"
        fi
        at $name ip link set lo up
        at $name ip addr add 10.88.$n.2/24 dev wan_$name
        at $name ip link set wan_$name up
        ip route replace 10.88.$n.0/24 dev wan_$name src $home_at congctl lock $cc
        at $name ip route replace default dev wan_$name congctl lock $cc
    done
}

has_link() { # also true if the program has failed
    ip link show wan_$name || ! kill -0 $joiner
}

links_down() {
    exec 9>&-
    wait $joiner 2>/dev/null
    kill $spaces 2>/dev/null
    wait $spaces 2>/dev/null
    spaces='' joiner=''
}

at() { # site, command: runs it there
    where=''
    eval "where=\$space_$1"
    shift
    mkdir -p "$work/far"
    nsenter -t "$where" -n env HOME="$work/far" XDG_CONFIG_HOME= XDG_CACHE_HOME= "$@"
}

# Prints the bytes that have entered all links, in both directions.
bytes_moved() {
    cat "$work"/stat/wan_* | awk '{ n += $1 + $2 } END { print n }'
}

# ---- jobs ----
# Works for the job in $work/FOLDER until the job has ended. With `lifetime` in seconds,
# the worker is killed (kill -9) at this age and starts again.
work_at() { # folder, name
    process=''
    # ALRM makes `timeout` send its signal at once
    trap 'kill -ALRM $process 2>/dev/null; exit 0' TERM
    eval "where=\$space_${2%%[0-9]*}"
    while :; do
        timeout -s KILL "${lifetime:-3600}" nsenter -t "$where" -n env HOME="$work/far" \
            XDG_CONFIG_HOME= XDG_CACHE_HOME= "$pathloom" join "$token" --name "$2" \
            --key "$work/far/$1.$2.key" --cache "$work/far/$1.$2" --threads 1 --verbose &
        process=$!
        wait $process && return
        [ -n "${lifetime-}" ] || return
    done
}

# Starts a job and these workers ("a1 a2" are two at site a). Notes when it began, in
# milliseconds, and the bytes so far.
start_job() { # folder, workers, options
    folder=$1 names=$2
    shift 2
    [ ! -d "$work/data" ] || { mkdir -p "$work/$folder" && cp -r "$work/data" "$work/$folder/data"; }
    before=$(bytes_moved)
    begin=$(date +%s%3N)
    (train "$folder" "$@") >"$work/$folder.out" 2>&1 &
    job=$!
    tries=3000
    until [ -s "$work/$folder/proc/hub.address" ] && "$pathloom" key invite --run "$work/$folder" \
        --uses 16 >"$work/token" 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "the job $folder does not begin"
        kill -0 $job 2>/dev/null || fail "the job $folder ended before it began"
        sleep 0.1
    done
    token=$(sed 's/^pathloom join //' "$work/token")
    mkdir -p "$work/far"
    for name in $names; do
        work_at "$folder" "$name" >"$work/$folder.$name.out" 2>&1 &
        workers="$workers $!"
    done
}

# Waits until the job's launcher has ended, and ends its workers. Sets `seconds` and
# `bytes`.
end_job() { # exit code that the launcher must have
    code=0
    wait $job || code=$?
    job=''
    seconds=$(echo "$begin $(date +%s%3N)" | awk '{ printf "%.1f", ($2 - $1) / 1000 }')
    sleep 0.5
    kill $workers 2>/dev/null
    wait $workers 2>/dev/null
    workers=''
    [ "$code" -eq "$1" ] || fail "the job $folder ended with $code"
    bytes=$(($(bytes_moved) - before))
}

run_job() { # folder, workers, options
    start_job "$@"
    end_job 0
    [ -d "$work/data" ] || cp -r "$work/$folder/data" "$work/data"
    versions --run "$work/$folder" | LC_ALL=C sort >"$work/$folder.versions"
}
