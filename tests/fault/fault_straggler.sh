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

# Steps are slow, so that the script can stop a worker in the middle of a task.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:100 small_job run --workers 4 --set train.tau=15 --set train.phases=$phases \
    --set train.base_steps=15 --set topology.levels=2x2 --set workers.ttl_ms=400000 \
    --set outer.method=noloco --set outer.deadline_s=0.3 >"$work/run.out" 2>&1 &
job=$!

# The hub's log says which worker has which task.
log=$work/run/log/hub.log

wait_for() { # seconds, paths, phases
    tries=$(($1 * 5))
    while [ "$(finished run "$3")" -lt "$2" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "only $(finished run "$3") of $2 paths have $3 phases"
        kill -0 "$job" 2>/dev/null || fail "the run ended while a worker was stopped"
        sleep 0.2
    done
}

wait_for 120 2 1
# Leases are renewed every 100 s, but a worker tells at once what it has come to.
tries=600
until "$pathloom" status --run "$work/run" --json 2>/dev/null |
    grep -q '"doing":"training".*"step":[1-9]'; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "no worker says that it trains"
    kill -0 "$job" 2>/dev/null || fail "the run ended before a worker said that it trains"
    sleep 0.1
done
# True if the worker that got the newest task has delivered its earlier results, so that
# it now trains this task. The worker is stopped soon after this. If it were stopped
# between the offer and the sending of an update, the others would wait until its lease
# runs out.
arrived() {
    last=$(grep 'lease.granted task=mix' "$log" | tail -n 1)
    name=$(echo "$last" | sed 's/.* worker=\([^ ]*\) .*/\1/')
    task=$(echo "$last" | sed 's/.* task=mix.\([^ ]*\) .*/\1/')
    phase=$(echo "$last" | sed 's/.* phase=\([0-9]*\) .*/\1/')
    "$pathloom" status --run "$work/run" --json 2>/dev/null |
        grep -q "\"path\":\"$task\",\"phase\":${phase}[,}]"
}

# Stops the worker and looks a second later which paths it holds, because the hub still
# answers the worker's last request. On a busy machine the worker's task may have ended
# before the stop. Then the script waits for another task.
tries=1200 held=0
while [ "$held" -eq 0 ]; do
    until arrived; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "no worker begins a task after its earlier results have arrived"
        sleep 0.1
    done
    stop_worker "$name"
    start=$(date +%s)
    sleep 1
    held=$(held_by run "$name")
    [ "$held" -gt 0 ] || kill -CONT "$stopped"
done
# The paths of the stopped worker do not continue. All other paths must end.
[ "$held" -lt 4 ] || fail "$name holds all $held paths"
wait_for 200 $((4 - held)) $phases
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
