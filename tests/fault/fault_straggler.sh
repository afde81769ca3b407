#!/bin/sh
# Tests noloco with a deadline while a worker is stopped.
#
# usage: fault_straggler.sh PATHLOOM HOLDER_MEAN WORKFOLDER
#
# Four workers train the four paths of a 2x2 grid. One worker is stopped (SIGSTOP) in
# the middle of a phase, and its lease does not run out. Meanwhile the other three must
# reach the end of the arm, because each of them waits for the stopped mate at most one
# deadline per phase. Then the stopped worker continues, and the run must end. Every
# update must be counted, the home's versions must be the means of the holders, and the
# records must name the pairs that were split.
set -u
pathloom=$1
holder_mean=$2
phases=6
. tests/fault/chaos_job.sh
own_folder "$3"
make_corpus base outer home net

# After 43 steps a worker is near the end of a task, and has long delivered its earlier
# results. If it were stopped between the offer and the sending of an update, the others
# would wait until its lease runs out.
mkdir "$work/once"
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:100,worker.step.before@worker:stop:43 \
    PATHLOOM_FAILPOINT_ONCE=$work/once small_job run --workers 4 --set train.tau=15 --set train.phases=$phases \
    --set train.base_steps=15 --set topology.levels=2x2 $patient \
    --set outer.method=noloco --set outer.deadline_s=0.3 >"$work/run.out" 2>&1 &
job=$!

others_ended() {
    [ "$(finished run $phases)" -ge $((4 - held)) ]
}
await_stopped
start=$(date +%s)
sleep 3 # the hub still answers requests that the worker sent before it was stopped
held=$(held_by run "$name")
# The paths of the stopped worker do not continue. All other paths must end.
[ "$held" -gt 0 ] && [ "$held" -lt 4 ] || fail "$name holds $held paths"
await_in_job 200 "fewer than $((4 - held)) paths have $phases phases" \
    "the run ended while a worker was stopped" others_ended
took=$(($(date +%s) - start))
kill -0 "$stopped" 2>/dev/null || fail "the stopped worker is gone"
[ "$(finished run $phases)" -eq $((4 - held)) ] || fail "paths of the stopped worker ended"
kill -CONT "$stopped"
wait "$job" || fail "the run"
mean=$("$holder_mean" "$work/run/store" mix) ||
    fail "the home is not the mean of its holders: $mean"
[ "${mean% 0 split}" = "$mean" ] || fail "no pair was split"
grep -q "pair.split " "$work/run/log/home.log" || fail "the log of the home does not report a split pair"
echo "the other paths ended in $took s while $name, which held $held paths, was stopped; $mean"
rm -rf "$work"
