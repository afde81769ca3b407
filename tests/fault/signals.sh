#!/bin/sh
# Sends a signal to all processes of a job at once, as Slurm, systemd and submitit do. The
# job must end in the same way as after a signal to `train` alone: hub and home live until
# the workers have delivered their last tasks. TERM, USR1 and USR2 are tested one after the
# other with the same run, which must end with the hashes of an undisturbed run.
#
# usage: signals.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
make_corpus base corpus

run() { # folder
    small_job "$1" --set train.tau=250 --set train.phases=10 --set train.base_steps=20 \
        --set workers.ttl_ms=2000
}
granted() {
    grep -s 'lease.granted task=mix' "$work/all/log/hub.log" | wc -l
}
another_task() { # of the mixture
    [ "$(granted)" -gt "$before" ]
}

(run calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
hashes calm

take_data calm all
for signal in TERM USR1 USR2; do
    before=$(granted)
    export pathloom work
    # A worker without processor time must not lose its lease. (A longer life of leases would
    # cost time, because the hub waits for it when the run continues.)
    setsid sh -c '. tests/support/job.sh; small_job all --set train.tau=250 \
        --set train.phases=10 --set train.base_steps=20 --set workers.ttl_ms=10000' >"$work/$signal.out" 2>&1 &
    job=$!
    await_in_job 120 "$signal: no task is leased" "$signal: the job ended before it was told to" \
        another_task
    for log in hub home worker-1 worker-2; do
        wc -l <"$work/all/log/$log.log" >"$work/$log.lines"
    done
    kill -s "$signal" -- "-$job" || fail "$signal: no such group"
    wait "$job"
    code=$?
    job=
    [ "$code" -eq 130 ] || fail "$signal: exit code $code instead of 130"
    for log in hub home worker-1 worker-2; do
        tail -n "+$(cat "$work/$log.lines")" "$work/all/log/$log.log" >"$work/$signal.$log.out"
        grep -q 'process.end.*status=ok' "$work/$signal.$log.out" ||
            fail "$signal: $log did not end as it should"
        # A task whose data a worker still fetches is given back. A process may be silent for
        # some seconds, so peer.away is no loss.
        grep 'did not answer\|task.abandoned\|lease.expired' \
            "$work/$signal.$log.out" | grep -qv 'the worker was told to stop' &&
            fail "$signal: $log lost something"
        :
    done
    # the processes that receive results end after those that send them
    for log in hub home; do
        end=$(sed -n '$p' "$work/$signal.$log.out" | cut -c1-24)
        for worker in worker-1 worker-2; do
            left=$(grep 'process.end' "$work/$signal.$worker.out" | cut -c1-24)
            [ "$(printf '%s\n%s\n' "$left" "$end" | sort | tail -n 1)" = "$end" ] ||
                fail "$signal: $log ended at $end, before $worker at $left"
        done
    done
    echo "$signal to all processes: the workers delivered their tasks"
done
(run all) >"$work/all.out" 2>&1 || fail "the run after the signals"
hashes all
cmp "$work/calm.hashes" "$work/all.hashes" || fail "the hashes differ"
echo "$(wc -l <"$work/all.hashes") modules, the same as without signals"
