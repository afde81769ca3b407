#!/bin/sh
# Tests that a phase which waits for merged versions (streaming) is not begun again because
# a home is away for longer than workers.patience_s.
#
# usage: home_away.sh PATHLOOM CHAOS_LEDGER WORKFOLDER
#
# The home is stopped in the middle of the mixture. Workers that fetch a task
# give it back, but nobody may drop a phase that it trains. The versions must be those of an
# undisturbed run. A worker that was stopped as long does not end either, because silence of
# the hub counts only while it listens.
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
make_corpus outer workers

run() { # folder, options
    tiny_job "$@" --set outer.method=streaming --set outer.fragments=2 --set outer.overlap=1 \
        --set fleet.backup=off --set workers.ttl_ms=600000 --set train.phases=2
}
(run calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the undisturbed run has too few modules"
take_data calm away
# The steps sleep, so that the mixture cannot end before this script stops its home.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:800 \
    run away --set workers.patience_s=4 >"$work/away.out" 2>&1 &
job=$!
await_in_job 120 "no path finishes its first phase" "the job ended before the home was stopped" \
    grep 'task.done task=mix/.* phase=0 ' "$work/away/log/hub.log"
stopped=$(members "$job" home)
stopped="$stopped $(members "$job" worker | head -n 1)"
# shellcheck disable=SC2086 # two processes
kill -STOP $stopped || fail "no home or no worker"
sleep 9 # more than twice the patience
# shellcheck disable=SC2086
kill -CONT $stopped
stopped=''
job_ends
! grep -h 'task.abandoned.*the task was cancelled' "$work"/away/log/worker*.log ||
    fail "a phase was trained in vain"
! grep -h ' process.failed ' "$work"/away/log/worker*.log || fail "a worker ended"
same_facts calm away || fail "versions or states differ"
echo "no phase was trained in vain"
rm -rf "$work"
