#!/bin/sh
# Kills processes of a job at random times. The final hashes of all modules must be
# those of an undisturbed run.
#
# usage: fault_kill.sh PATHLOOM WORKFOLDER [KILLS]
#
# 1. an undisturbed run
# 2. the same job while workers, hub and home are killed by kill -9 at random times; at
#    least KILLS (8) of the killed processes are workers
# 3. the same job while all its processes are killed by kill -9, several times, and its
#    command is repeated after each time
# In all three runs every module has the same version and hash, and no process is left
# over.
set -u
pathloom=$1
kills=${3:-8}
seed=$(date +%s)
echo "seed $seed"
. tests/fault/chaos_job.sh
own_folder "$2"

make_corpus base outer store

run_job() { # folder; in a subshell, which becomes the launcher
    small_job "$@" --workers 3 --set train.tau=8 --set train.phases=6 \
        --set train.schedule=wsd --set train.base_replicas=3 --set train.base_threads=2 \
        --set train.micro_batch=3 --set workers.ttl_ms=1000 \
        --set train.pack=true --set train.optimizer=muon --set data.vocab=400 \
        --set model.width=32 --set model.context=32 --set train.base_steps=10 \
        --set eval.baselines=diloco,dense-batch --set eval.max_tokens=200 \
        --set router.em=1,3 --set router.share=0.1 --set router.feature_docs=40
}

echo "1. undisturbed"
(run_job calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
hashes calm

echo "2. processes killed at random moments"
take_data calm shot
# Slow steps spread the kills over the job.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:10$(hub_stops 2 15) run_job shot >"$work/shot.out" 2>&1 &
job=$!
shots=0
workers=0
while [ "$workers" -lt "$kills" ] && kill -0 "$job" 2>/dev/null; do
    random 6
    sleep "0.0$((4 + value))"
    kill_one_of "$job" worker worker worker worker hub home || continue
    shots=$((shots + 1))
    [ "$role" != worker ] || { workers=$((workers + 1)) && pkill -CONT -P "$job" -f 'pathloom hub'; }
done
let_go hub
job_ends "the run whose processes were killed"
hashes shot
echo "   $shots kills, $workers of them workers"
[ "$workers" -ge "$kills" ] || fail "only $workers workers were killed, $kills are asked for"
diff "$work/calm.hashes" "$work/shot.hashes" ||
    fail "hashes differ after $shots kills"

# All invariants of the run must hold, among them that each phase was counted once.
"$pathloom" check --run "$work/shot" --recompute all >"$work/check.out" || {
    cat "$work/check.out"
    fail "check of the run whose processes were killed"
}

echo "3. the whole job killed and given again"
take_data calm back
grants() { # folder
    cat "$work/$1"/log/hub.log 2>/dev/null | grep -c 'lease.granted'
}
rounds=0
while :; do
    # Three rounds do at most 21 tasks, and the mixture alone has 24.
    before=$(grants back)
    hold=$([ "$rounds" -eq 3 ] || hub_stops 7 1)
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:10$hold run_job back >"$work/back.out" 2>&1 &
    job=$!
    [ "$rounds" -lt 3 ] || break
    random 6
    until [ "$(grants back)" -gt $((before + value)) ]; do
        kill -0 "$job" 2>/dev/null || fail "the job ended after $rounds restarts"
        sleep 0.05
    done
    kill -9 "$job"
    rounds=$((rounds + 1))
    wait "$job" 2>/dev/null
done
job_ends "the run that was started again"
hashes back
echo "   $rounds times"
diff "$work/calm.hashes" "$work/back.hashes" ||
    fail "hashes differ after $rounds restarts"

nobody_is_left || fail "processes are left behind: $(left_behind)"
echo "$(wc -l <"$work/calm.hashes") modules have equal hashes in all three runs"
rm -rf "$work"
