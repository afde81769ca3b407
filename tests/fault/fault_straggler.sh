#!/bin/sh
# Tests noloco with a deadline while a worker is stopped.
#
# usage: fault_straggler.sh PATHLOOM HOLDER_MEAN WORKFOLDER
#
# Four workers train the four paths of a 2x2 grid. One is stopped (SIGSTOP) in the
# middle of a phase; its lease does not run out. The other three must reach the end of
# the arm meanwhile, because each waits for the stopped mate at most one deadline per
# phase. Then the stopped worker goes on, and the run ends. Every update must be
# counted, the home's versions must be the means of the holders, and the records must
# name the split pairs.
set -u
pathloom=$1
holder_mean=$2
phases=6
. tests/fault/chaos_job.sh
own_folder "$3"
make_corpus base outer home net

# Tasks last long enough for the script to notice their start.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:5 small_job run --workers 4 --set train.tau=150 --set train.phases=$phases \
    --set train.base_steps=15 --set topology.levels=2x2 --set workers.ttl_ms=400000 \
    --set outer.method=noloco --set outer.deadline_s=0.3 >"$work/run.out" 2>&1 &
job=$!

# The hub's log says which worker has which task.
log=$work/run/log/hub.log

wait_for() { # seconds, paths, phases
    tries=$(($1 * 20))
    while [ "$(finished run "$3")" -lt "$2" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "only $(finished run "$3") of $2 paths have $3 phases"
        kill -0 "$job" 2>/dev/null || fail "the run is over"
        sleep 0.05
    done
}

wait_for 120 2 1
# The worker that got the newest task trains it. The worker is stopped soon after the
# start, when its earlier results have arrived. If it were stopped between offering and
# sending an update, the others would wait until its lease runs out.
arrived() {
    last=$(grep 'lease.granted task=mix' "$log" | tail -n 1)
    name=$(echo "$last" | sed 's/.* worker=\([^ ]*\) .*/\1/')
    task=$(echo "$last" | sed 's/.* task=mix.\([^ ]*\) .*/\1/')
    phase=$(echo "$last" | sed 's/.* phase=\([0-9]*\) .*/\1/')
    "$pathloom" status --run "$work/run" --json 2>/dev/null |
        grep -q "\"path\":\"$task\",\"phase\":${phase}[,}]"
}

# Stops the worker and checks after a second, because its last question is still
# answered. On a busy machine its task may have ended before the stop; then waits for
# another task.
tries=200 held=0
while [ "$held" -eq 0 ]; do
    until arrived; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "no task begins when the one before has arrived"
        sleep 0.02
    done
    stop_worker "$name"
    start=$(date +%s)
    sleep 1
    held=$(held_by run "$name")
    [ "$held" -gt 0 ] || kill -CONT "$stopped"
done
# The stopped worker's paths do not continue; all other paths must end.
[ "$held" -lt 4 ] || fail "$name holds all $held paths"
wait_for 200 $((4 - held)) $phases
took=$(($(date +%s) - start))
kill -0 "$stopped" 2>/dev/null || fail "the stopped worker is gone"
[ "$(finished run $phases)" -eq $((4 - held)) ] || fail "nobody stood still"
kill -CONT "$stopped"
wait "$job" || fail "the run"
mean=$("$holder_mean" "$work/run/store" mix) ||
    fail "the home is not the mean of its holders: $mean"
[ "${mean% 0 split}" = "$mean" ] || fail "no pair was split"
grep -q "pair.split " "$work/run/log/home.log" || fail "the home's log does not say so"
echo "the others ended in $took s beside $name, which held $held paths; $mean"
rm -rf "$work"
