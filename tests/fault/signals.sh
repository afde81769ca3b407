#!/bin/sh
# Sends a signal to all processes of a job at once, as Slurm, systemd and submitit do. The
# job must end in the same way as after a signal to `train` alone: hub and home live until
# the workers have delivered their last tasks. TERM, USR1 and USR2 are tested at the same
# time, each with its own run, which must end with the hashes of an undisturbed run.
#
# usage: signals.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
make_corpus base corpus
processes="hub home worker-1 worker-2"

run() { # folder, options
    small_job "$@" --set train.tau=20 --set train.phases=8 --set train.base_steps=20 \
        --set workers.ttl_ms=2000
}

# Starts the run SIGNAL in a process group of its own, and sends the signal to the group
# while tasks of the mixture are trained. A task takes more than a second.
interrupt() { # signal
    # A worker without processor time must not lose its lease. (A longer life of leases
    # would cost time if a run that has leases continued.)
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:60 pathloom=$pathloom work=$work \
        setsid sh -c '. tests/support/job.sh; small_job "$@"' sh "$1" --set train.tau=20 \
        --set train.phases=8 --set train.base_steps=20 --set workers.ttl_ms=10000 \
        >"$work/$1.out" 2>&1 &
    job=$!
    await_in_job 120 "$1: no task is leased" "$1: the job ended before it was told to" \
        grep -s 'lease.granted task=mix' "$work/$1/log/hub.log"
    kill -s "$1" -- "-$job" || fail "$1: no such group"
    wait "$job"
    code=$?
    job=
    [ "$code" -eq 130 ] || fail "$1: exit code $code instead of 130"
    for log in $processes; do
        cp "$work/$1/log/$log.log" "$work/$1.$log.out"
    done
}

nothing_is_lost() { # signal
    for log in $processes; do
        grep -q 'process.end.*status=ok' "$work/$1.$log.out" ||
            fail "$1: $log did not end as it should"
        # A task whose data a worker still fetches is given back. A process may be silent for
        # some seconds, so peer.away is no loss.
        ! grep 'did not answer\|task.abandoned\|lease.expired' "$work/$1.$log.out" |
            grep -qv 'the worker was told to stop' || fail "$1: $log lost something"
    done
    # the processes that receive results end after those that send them
    for log in hub home; do
        end=$(sed -n '$p' "$work/$1.$log.out" | cut -c1-24)
        for worker in worker-1 worker-2; do
            left=$(grep 'process.end' "$work/$1.$worker.out" | cut -c1-24)
            [ "$(printf '%s\n%s\n' "$left" "$end" | sort | tail -n 1)" = "$end" ] ||
                fail "$1: $log ended at $end, before $worker at $left"
        done
    done
}

test_signal() { # signal
    take_data calm "$1"
    interrupt "$1"
    nothing_is_lost "$1"
    (run "$1") >"$work/$1.again.out" 2>&1 || fail "the run after $1"
    hashes "$1"
    cmp "$work/calm.hashes" "$work/$1.hashes" || fail "the hashes differ after $1"
    echo "$1 to all processes: the workers delivered their tasks; the same hashes as without it"
}

(run calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
hashes calm
tests=
for signal in TERM USR1 USR2; do
    test_signal $signal &
    tests="$tests $!"
done
for test in $tests; do
    wait "$test" || exit 1
done
