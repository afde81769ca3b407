#!/bin/sh
# Tests an encrypted job beside strangers who open silent, half-open and slow connections
# to hub, home and metrics all the time, far more than the processes may open files. The
# job must end with exit code 0, no process may have been started again, and the versions
# must be those of an undisturbed job.
#
# usage: strangers.sh PATHLOOM WORKFOLDER SERVE_ODD   (in the project's root)
set -u
. tests/support/job.sh
. tests/support/by_hand.sh
begin "$@"
serve_odd=$3
strangers='' workers=''
trap 'kill $strangers $workers $job 2>/dev/null' EXIT
trap 'exit 1' INT TERM
make_corpus base docs

listening_job() { # folder, options
    small_job "$@" --set train.tau=10 --set train.phases=6 --set train.base_steps=20 \
        --set net.encrypt=on --set 'net.hub=tcp://127.0.0.1:*' \
        --set 'net.home=tcp://127.0.0.1:*'
}

echo "the undisturbed job"
(listening_job calm) >"$work/calm.out" 2>&1 || fail "the undisturbed job"
facts_of_run calm

echo "the same job, whose processes may open 256 files, beside strangers with 3,000 connections"
take_data calm run
# Only here: 256 files. The strangers may open more. If another process has the port of the
# metrics, the job ends with 75. The workers start when the strangers have come, so that
# the job cannot end before.
port=$((20000 + $$ % 12000))
has_addresses() { # of hub and home
    [ "$(find "$work/run/proc" -name '*.address' 2>/dev/null | wc -l)" -ge 2 ] && return
    [ -z "$job" ] || ! kill -0 "$job" 2>/dev/null || return
    port=$((port + 1))
    # shellcheck disable=SC3045 # Debian's sh has ulimit -n
    (ulimit -n 256 && listening_job run --set workers.local=false \
        --set "net.metrics=127.0.0.1:$port") >"$work/run.out" 2>&1 &
    job=$!
    return 1
}
has_closed() { grep -q 'disconnected, because at most' "$work"/run/log/home*.log; }
await 1200 "hub and home have no addresses" has_addresses
for port in $(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' "$work"/run/proc/*.address) $port; do
    "$serve_odd" silent 127.0.0.1 "$port" 1000 >>"$work/strangers.out" 2>&1 &
    strangers="$strangers $!"
done
[ "$(echo "$strangers" | wc -w)" -eq 3 ] || fail "no addresses of hub and home"
await 1200 "the home did not say that it closed connections" has_closed
for index in 1 2; do
    # shellcheck disable=SC3045
    (ulimit -n 256 && exec "$pathloom" worker --run "$work/run" --index $index) \
        >"$work/worker-$index.out" 2>&1 &
    workers="$workers $!"
done
job_ends
for pid in $strangers; do
    kill -0 "$pid" 2>/dev/null || fail "the strangers have ended: $(cat "$work/strangers.out")"
done
kill $strangers
strangers=''
facts_of_run run
diff "$work/calm.facts" "$work/run.facts" || fail "strangers changed versions"
for name in hub home; do
    [ "$(cat "$work"/run/log/$name*.log | grep -c "$name.ready")" -le 1 ] || fail "a process was started again"
done
"$pathloom" store fsck --run "$work/run" >"$work/fsck.out" 2>&1 || fail fsck

echo "strangers: done"
