#!/bin/sh
# Tests rounds that are merged with a quorum (outer.quorum) while a worker is stopped.
#
# usage: fault_quorum.sh PATHLOOM WORKFOLDER
#
# One worker is stopped (SIGSTOP) in the middle of a phase, under a lease of 400 s.
# Meanwhile the paths of the other workers must end. Then the worker continues, and the
# run must end. No sample may be lost or counted twice, and it must be possible to
# compute every version again from its record.
set -u
. tests/fault/chaos_job.sh
begin "$@"
make_corpus base modules docs
# In the middle of a task for all workers: the base model has 8 steps, a phase has 100.
mkdir "$work/once"
PATHLOOM_FAILPOINT=worker.step.before@worker:stop:150 PATHLOOM_FAILPOINT_ONCE=$work/once tiny_job run --workers 4 --set train.tau=100 --set outer.quorum=0.5 \
    --set outer.deadline_s=0.1 --set fleet.backup=off $patient --set store.keep_updates=true \
    --set store.keep_momentum=true >"$work/run.out" 2>&1 &
job=$!
await_stopped
sleep 3 # the hub still answers requests that the worker sent before it was stopped
held=$(held_by run "$name")
[ "$held" -gt 0 ] && [ "$held" -lt 4 ] || fail "$name holds $held paths"
others_ended() {
    paths=$(finished run 6)
    [ "$paths" -ge $((4 - held)) ]
}
await_in_job 300 "too few paths end while a worker is stopped" \
    "the run ended while a worker was stopped" others_ended
[ "$(finished run 6)" -eq $((4 - held)) ] || fail "paths of the stopped worker ended"
kill -CONT "$stopped"
job_ends "the run"
passes coverage "data coverage" "$pathloom" data coverage mix --run "$work/run"
grep -q 'more records were left out by quorums' "$work/coverage.out" ||
    fail "data coverage does not show the updates that were left out"
grep -q 'update.dropped' "$work/run/log/$name.log" ||
    fail "$name is not told that its updates were dropped"
for module in embed L1.E0 L1.E1 L2.E0 L2.E1 head; do
    "$pathloom" store verify "$module" --history --run "$work/run" \
        >>"$work/verify.out" 2>&1 || fail "store verify $module"
done
fsck_is_clean run || fail "fsck"
echo "$(grep -c update.dropped "$work/run/log/$name.log") updates of" \
    "$name were dropped; $(tail -n 1 "$work/coverage.out"); $(wc -l <"$work/verify.out") lines of verify"
rm -rf "$work"
