#!/bin/sh
# Tests that a phase which waits for merged versions (streaming) is not begun again because
# a home is away for longer than workers.patience_s.
#
# usage: home_away.sh PATHLOOM CHAOS_LEDGER WORKFOLDER
#
# The home stops itself at a merge in the middle of the mixture. Workers that fetch a task
# give it back, but nobody may drop a phase that it trains. The versions must be those of an
# undisturbed run.
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
make_corpus outer workers

run() { # folder, options
    tiny_job "$@" --set outer.method=streaming --set outer.fragments=2 --set outer.overlap=1 \
        --set fleet.backup=off --set workers.ttl_ms=600000
}
(run calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the undisturbed run has too few modules"
take_data calm away
half=$(versions --run "$work/calm" | awk '{ n += $2 } END { print int(n / 2) }')
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:50,home.merge.before@home:stop:$half \
    run away --set workers.patience_s=5 >"$work/away.out" 2>&1 &
job=$!
home_is_stopped() {
    stopped=$(members "$job" home | xargs -r ps -o pid=,stat= -p | awk '$2 ~ /^T/ { print $1 }')
    [ -n "$stopped" ]
}
tries=1200
until home_is_stopped; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "the home does not stop"
    kill -0 "$job" 2>/dev/null || fail "the job ended before the home was stopped"
    sleep 0.1
done
grep -q 'lease.granted task=mix' "$work/away/log/hub.log" || fail "the home stopped too early"
sleep 15 # three times the patience
kill -CONT "$stopped"
stopped=''
wait "$job" || fail "the job ended with $?"
job=''
! grep -h 'task.abandoned.*the task was cancelled' "$work"/away/log/worker*.log ||
    fail "a phase was trained in vain"
same_facts calm away || fail "versions or states differ"
echo "no phase was trained in vain"
rm -rf "$work"
