#!/bin/sh
# Measures jobs over slow, long and lossy links, and checks that they use the links.
#
# usage: sh tests/wan.sh [--build FOLDER] [--work FOLDER] [--rates "KBIT..."] [--tcp "bbr..."]
#            [--no-times] [FIGURE...]
#
# With --no-times, times are printed but not judged: on a machine that does other work they
# say nothing about the links.
#
# Figures (default: all):
#   rate     one worker behind one link. The bytes must be at most 1.05 times those of
#            the same job on a fast link, and the time at most 1.2 times the time on the
#            fast link plus bytes / rate. Once more with bbr and 1 % of loss, where only
#            bytes count, because the rate that TCP reaches is not known. If iperf3 is
#            installed, prints the rate that it reaches on the link
#   eight    eight workers behind one link must not be slower than one, and move at most
#            1.25 times the bytes of eight workers on a fast link. (Which worker gets
#            which path differs between two jobs, and a path that moves needs its state
#            and data there: 1.0 to 1.1 was seen. Transfers that repeat bytes had 2.)
#   staging  eight workers and a home with room for two of them must move at most 1.25
#            times the bytes of the same job with enough room, and lose no phase
#   sites    two more sites with long and slow links must not change the modules of a
#            job of two good workers. Prints both times, which depend on the machine
#
# The links are made in network namespaces, which end with this script; no packet leaves
# them. Exit codes: 0; 1 if a figure was not reached; 77 if this machine cannot run the
# test, and a line says why. The default takes about five minutes.
# shellcheck disable=SC2086 # lists of words
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/links.sh

build=build/release work='' rates=1000 tcp=cubic figures='' times=yes
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2 && shift ;;
    --work) work=$2 && shift ;;
    --rates) rates=$2 && shift ;;
    --tcp) tcp=$2 && shift ;;
    --no-times) times='' ;;
    *) figures="$figures $1" ;;
    esac
    shift
done
figures=${figures:-rate eight staging sites}
links_begin "$build" "${work:-$build/wan}"
failed=''

train() { # folder, options
    out=$1
    shift
    exec "$pathloom" train --corpus "$work/corpus" --out "$work/$out" $small_model \
        --set model.width=32 --set train.tau=20 --set train.base_steps=20 \
        --set eval.curves=0 --set workers.local=false \
        --set net.hub=tcp://0.0.0.0:* --set net.home=tcp://0.0.0.0:* \
        --set net.advertise=$home_at "$@"
}

# Prints a line, and notes a figure that was not reached.
check() { # name, seconds, most seconds, bytes, most bytes
    [ -n "$times" ] || set -- "$1" "$2" 99999 "$4" "$5"
    echo "$*" | awk '{ sec = $2 <= $3; by = $4 <= $5
        printf "%-28s %6.1f s (at most %6.1f)  %6.2f MB (at most %6.2f)%s\n", $1, $2, $3,
            $4 / 1e6, $5 / 1e6, sec && by ? "" : "  NOT REACHED"
        exit !(sec && by) }' || failed="$failed $1"
}

number() { # a, b, c...: prints a * b + c
    echo "$*" | awk '{ print $1 * $2 + $3 }'
}

same_versions() { # folder, folder
    cmp -s "$work/$1.versions" "$work/$2.versions" || {
        echo "$2: the modules differ from those of $1"
        failed="$failed $2"
    }
}

fast() { # one worker on a link that limits nothing
    [ -z "${needed-}" ] || return
    links_up bbr a:20:0:200000
    run_job fast a1 --set train.phases=1
    links_down
    needed=$bytes alone=$seconds
    echo "needed on a fast link        $alone s  $(number "$needed" 1e-6 0) MB"
}

# Prints the rate of one connection from the site, and its share of the link.
tcp_alone() { # site, link's kbit/s
    command -v iperf3 >/dev/null || return 0
    iperf3 -s -1 -B $home_at >/dev/null 2>&1 &
    server=$!
    sleep 0.5
    at "$1" iperf3 -c $home_at -t 8 -f k |
        awk -v link="$2" '/receiver/ { for (i = 2; i <= NF; i++) if ($i == "Kbits/sec")
            printf "%-28s %6.0f kbit/s, %.0f %% of the link\n", "iperf3", $(i - 1),
                100 * $(i - 1) / link }'
    kill $server 2>/dev/null # still runs if the client failed
    wait $server
    server=''
}

figure_rate() {
    fast
    for kbit in $rates; do
        most=$(echo "$needed $kbit $alone" | awk '{ print 1.2 * ($1 * 0.008 / $2 + $3) }')
        for pair in $(printf '%s:0 ' $tcp) bbr:1; do
            cc=${pair%:*} loss=${pair#*:} slowest=$most
            [ "$loss" -eq 0 ] || slowest=99999
            links_up $cc a:20:$loss:$kbit
            tcp_alone a "$kbit"
            run_job "rate.$kbit.$cc.$loss" a1 --set train.phases=1
            links_down
            check "rate-$kbit-$cc-loss-$loss" "$seconds" "$slowest" "$bytes" \
                "$(number "$needed" 1.05 0)"
            same_versions fast "rate.$kbit.$cc.$loss"
        done
    done
}

crowd="a1 a2 a3 a4 a5 a6 a7 a8"
figure_eight() {
    # each worker needs data of its own; what a backup fetches in vain is not counted
    options="--set topology.levels=4x2 --set train.phases=2 --set fleet.backup=off"
    links_up bbr a:20:0:200000
    run_job eight.fast "$crowd" $options
    fast_bytes=$bytes
    links_down
    for cc in $tcp; do
        links_up $cc a:20:0:10000
        run_job one.$cc a1 $options
        one=$seconds
        run_job eight.$cc "$crowd" $options
        links_down
        check "eight-workers-$cc" "$seconds" "$one" "$bytes" "$(number "$fast_bytes" 1.25 0)"
        same_versions one.$cc eight.$cc
    done
}

figure_staging() {
    # a backup whose task is done by another worker is given up, which is no loss
    options="--set topology.levels=4x2 --set train.phases=2 --set fleet.backup=off"
    links_up bbr a:20:0:50000
    run_job roomy "$crowd" $options
    roomy=$bytes
    run_job full "$crowd" $options --set store.staging=1600000
    links_down
    check full-staging "$seconds" 99999 "$bytes" "$(number "$roomy" 1.25 0)"
    same_versions roomy full
    if grep -h 'task.abandoned' "$work"/full.a*.out; then
        echo "full-staging: a finished phase was lost"
        failed="$failed full-staging"
    fi
}

figure_sites() {
    links_up bbr a:10:0.5:50000 b:40:1:20000 c:100:2:5000
    run_job good "a1 a2" --set train.phases=12
    good=$seconds
    run_job all "a1 a2 b1 c1" --set train.phases=12
    links_down
    echo "four-sites                   $seconds s, and $good s with two good ones"
    same_versions good all
}

make_corpus --whole base modules docs home
for figure in $figures; do
    case $figure in
    rate | eight | staging | sites) "figure_$figure" ;;
    *) fail "there is no figure $figure" ;;
    esac
done
[ -z "$failed" ] || { echo "not reached:$failed" && exit 1; }
rm -rf "$work"
