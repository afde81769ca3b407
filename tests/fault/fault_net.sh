#!/bin/sh
# Tests a job in a network namespace whose links fail and return, lose packets, or are
# slow. When the links work again, the job must end with the versions of an undisturbed
# run.
#
# usage: fault_net.sh PATHLOOM LEDGER WORKFOLDER [short]
#
# Needs network namespaces (root, or a kernel that permits them to users). Without them
# the exit code is 77. The case `loss` needs nftables (`nft`). Without nftables the case
# is skipped, and a line says so.
#
#   cut      the loopback interface is down for 0.5, 3 and 8 s. The longest cut
#            outlasts the leases, and the time for which a connection waits for
#            heartbeats
#   hub cut, home cut    packets to one process are dropped, those to others are
#                        delivered
#   loss     5 and 20 % of all packets are dropped
#   slow     64 kbit/s for 4 s; the queue holds packets for up to 400 ms
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/support/script.sh
[ "${1-}" = --inside ] || enter_network "" "$@"
pathloom=$2
ledger=$3
mode=${5:-all}
. tests/fault/chaos_job.sh
own_folder "$4"
seed=$(date +%s)
job="" name="" skipped="" n_cases=0
trap '[ -z "$job" ] || kill -9 "$job" 2>/dev/null' EXIT

fail() { fail_of_shot "FAILED: $name: $1"; }

# The job takes so long that the network can be cut in the middle of it.
job_of() {
    tiny_job "$1" --set train.phases=60 --set 'net.hub=tcp://127.0.0.1:*' \
        --set 'net.home=tcp://127.0.0.1:*'
}

start() { # name
    name=$1
    n_cases=$((n_cases + 1))
    rm -rf "$work/shot" "$work/shot.out"
    take_data calm shot
    (PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:5 job_of shot) >"$work/shot.out" 2>&1 &
    job=$!
    await 120 "the mixture does not begin" \
        grep 'lease.granted task=mix/.* phase=2' "$work/shot/log/hub.log"
}

# The network works again from here on, so the job must end soon.
end() {
    healed=$(date +%s%3N)
    granted=$(grep -c 'lease.granted' "$work/shot/log/hub.log")
    resumed=""
    i=0
    while kill -0 "$job" 2>/dev/null; do
        i=$((i + 1))
        [ "$i" -lt 2400 ] || fail "the job does not end after the network works again"
        [ -n "$resumed" ] || [ "$(grep -c 'lease.granted' "$work/shot/log/hub.log")" -le "$granted" ] ||
            resumed=$(($(date +%s%3N) - healed))
        sleep 0.05
    done
    code=0
    wait "$job" || code=$?
    job=""
    [ "$code" -eq 0 ] || fail "the job ended with $code"
    same_facts calm shot || fail "the store differs from that of the undisturbed run"
    echo "$name: the same facts; next grant ${resumed:-0} ms after the network worked again"
}

port_of() { sed 's/.*://; s/#.*//' "$work/shot/proc/$1.address"; }

ip link set lo up || exit 77
# The text of the base model must be longer than the longest message, which has 1 MiB of
# data, so that workers need several messages for it.
make_corpus --whole base modules docs home
name="the undisturbed run"
(job_of calm) >"$work/shot.out" 2>&1 || fail "the undisturbed job ended with $?"
bytes=$("$pathloom" store ls shard/base --objects --run "$work/calm" --json |
    sed -n 's/.*"bytes":\([0-9]*\).*/\1/p')
[ "${bytes:-0}" -gt 1100000 ] || fail "the text of the base model has only ${bytes:-0} bytes"
facts calm || fail "the undisturbed run has too little in its store"

cuts="0.5 3 8"
[ "$mode" != short ] || cuts=3
for seconds in $cuts; do
    start "everything cut for $seconds s"
    ip link set lo down
    sleep "$seconds"
    ip link set lo up
    end
done
if [ "$mode" = short ]; then
    rm -rf "$work"
    exit 0
fi

start "64 kbit/s for 4 s"
if tc qdisc add dev lo root tbf rate 64kbit burst 4kb latency 400ms 2>/dev/null; then
    sleep 4
    tc qdisc del dev lo root
    end
else
    skipped="$skipped slow-link"
    end
fi

if nft add table inet faults 2>/dev/null; then
    drop() { # rule
        nft "add chain inet faults out { type filter hook output priority 0 ; }"
        # shellcheck disable=SC2086 # words of the rule
        nft add rule inet faults out $1 drop
    }
    whole() { nft delete chain inet faults out; }
    for role in hub home; do
        start "the $role unreachable for 4 s"
        drop "tcp dport $(port_of $role)"
        sleep 4
        whole
        end
        start "the $role unheard for 4 s"
        drop "tcp sport $(port_of $role)"
        sleep 4
        whole
        end
    done
    for percent in 5 20; do
        start "$percent % of packets lost for 5 s"
        drop "meta l4proto tcp numgen random mod 100 < $percent"
        sleep 5
        whole
        end
    done
else
    skipped="$skipped partial-cuts loss"
fi
echo "$n_cases cases, the same facts in all${skipped:+; skipped:$skipped}"
rm -rf "$work"
