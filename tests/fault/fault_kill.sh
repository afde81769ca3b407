#!/bin/sh
# Kills processes of a job at random times. The final hashes of all modules must be
# those of an undisturbed run.
#
# usage: fault_kill.sh PATHLOOM WORKFOLDER [KILLS]
#
# 1. an undisturbed run
# 2. the same job while workers, hub and home are killed by kill -9 at random times; at
#    least KILLS (20) of the killed processes are workers
# 3. the same job while all its processes are killed by kill -9, several times, and its
#    command is repeated after each time
# In all three runs every module has the same version and hash, and no process is left
# over.
set -u
pathloom=$1
kills=${3:-20}
seed=$(date +%s)
echo "seed $seed"
. tests/fault/chaos_job.sh
own_folder "$2"

# All runs have the same corpus: sources and pages of this project.
cat README.md docs/*.md >"$work/0.txt" 2>/dev/null
make_corpus base outer store docs

run_job() { # folder; in a subshell, which becomes the launcher
    small_job "$@" --workers 3 --set train.tau=12 --set train.phases=10 \
        --set train.schedule=wsd --set train.base_replicas=3 --set train.base_threads=2 \
        --set train.micro_batch=3 \
        --set train.pack=true --set train.optimizer=muon \
        --set model.context=32 --set train.base_steps=20 --set eval.baselines=diloco,dense-batch \
        --set eval.max_tokens=500 --set router.em=3,6 --set router.share=0.1 \
        --set router.feature_docs=40
}

echo "1. undisturbed"
(run_job calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
hashes calm

echo "2. processes killed at random moments"
take_data calm shot
# Slow steps spread the kills over the job.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:20$(hub_stops 2 30) run_job shot >"$work/shot.out" 2>&1 &
job=$!
shots=0
workers=0
while kill -0 "$job" 2>/dev/null; do
    random 6
    sleep "0.0$((4 + value))"
    kill_one_of "$job" worker worker worker worker hub home || continue
    shots=$((shots + 1))
    [ "$role" != worker ] || { workers=$((workers + 1)) && pkill -CONT -P "$job" -f 'pathloom hub'; }
    [ "$workers" -lt "$kills" ] || [ "$shots" -lt $((kills + kills / 2)) ] || break
done
let_go hub
wait "$job" || fail "the run whose processes were killed"
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
    # Four rounds do at most 36 tasks, and the mixture alone has 40.
    before=$(grants back)
    hold=$([ "$rounds" -eq 4 ] || hub_stops 10 1)
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:20$hold run_job back >"$work/back.out" 2>&1 &
    job=$!
    random 8
    until [ "$(grants back)" -gt $((before + value)) ] || ! kill -0 "$job" 2>/dev/null; do
        [ "$rounds" -lt 4 ] || break
        sleep 0.05
    done
    if [ "$rounds" -lt 4 ] && kill -9 "$job" 2>/dev/null; then
        rounds=$((rounds + 1))
        wait "$job" 2>/dev/null
        continue
    fi
    wait "$job" || fail "the run that was started again"
    break
done
hashes back
echo "   $rounds times"
[ "$rounds" -ge 3 ] || fail "the job ended before it could be killed 3 times"
diff "$work/calm.hashes" "$work/back.hashes" ||
    fail "hashes differ after $rounds restarts"

sleep 1
left=$(pgrep -f "$work/" | grep -v "^$$\$" | wc -l)
[ "$left" -eq 0 ] || fail "$left processes are left behind"
echo "$(wc -l <"$work/calm.hashes") modules have equal hashes in all three runs"
rm -rf "$work"
