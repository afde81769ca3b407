#!/bin/sh
# Tests states of paths that are uploaded only after every k-th phase
# (train.state_every): whoever is killed, and whatever state is lost, the bytes are those
# of a run that uploads every state.
#
# usage: fault_repeat.sh PATHLOOM WORKFOLDER [CASE ...]
#
# 1. For several methods and codecs, a job runs twice: undisturbed with k = 1, and with
#    k > 1 while workers, hubs and homes are killed by kill -9 at random times and the
#    states that workers saved are removed. At least one state must have been made again.
# 2. Both runs of the first case are lengthened; the same bytes again.
# 3. A job of the default codec is killed between two uploads; the saved states are
#    removed and `store gc --keep 1` runs; then its command is repeated.
# 4. Every task is audited while the saved states are removed; no audit finds a
#    difference.
# 5. Each worker makes one wrong update, so with a lossy codec it reports a wrong state.
#    The workers that repeat its phases must say so and go on, and the job must end.
set -u
pathloom=$1
work=$2
shift 2
names=" $* "
seed=$(date +%s)
echo "seed $seed"
first_seed=$seed
. tests/fault/chaos_job.sh
own_folder "$work"

make_corpus outer workers

run_job() { # folder, options; in a subshell, which becomes the launcher
    out=$1
    shift
    [ ! -d "$work/data" ] || take_data . "$out"
    tiny_job "$out" "$@"
}

# Removes the states that workers saved, so that they must be made again. A worker also
# has states in its memory, but not those of a killed worker.
lose_states() { # folder
    rm -f "$work/$1"/cache/*.state
}

# Removes saved states while the mixture trains, and kills processes until `kills` are
# dead and a state has been made again. The hub stops after every four grants and goes on
# only afterwards, so the job cannot end earlier.
disturb() { # folder, kills
    shots=0
    training_begins "$1"
    while [ "$shots" -lt "$2" ] || [ "$(n_repeated "$1")" -eq 0 ]; do
        kill -0 "$job" 2>/dev/null || return
        random 10
        sleep "0.1$value"
        # Further kills are rare: else a slow machine would only start processes.
        [ "$shots" -lt "$2" ] || sleep 1
        lose_states "$1"
        whom='worker worker worker hub home'
        [ "$shots" -lt 2 ] || [ "$(n_repeated "$1")" -gt 0 ] || whom=worker
        # shellcheck disable=SC2086 # $whom is several words
        kill_one_of "$job" $whom && shots=$((shots + 1))
        pkill -CONT -P "$job" -f 'pathloom hub'
    done
    let_go hub
}

n_repeated() { # folder
    cat "$work/$1"/log/worker*.log | grep -c ' state.repeated '
}

no_difference() { # folder
    ! grep -h ' state.differs ' "$work/$1"/log/worker*.log ||
        fail "a state that was made again differs from the one that was reported"
}

equal() { # folder, folder, words of the error
    facts_of_run "$1"
    facts_of_run "$2"
    diff "$work/$1.facts" "$work/$2.facts" || fail "versions or states differ $3"
}

same() { # name, k, options
    case=$1
    every=$2
    shift 2
    [ "$names" = "  " ] || [ "${names#* "$case" }" != "$names" ] || return 0
    (run_job "$case.calm" "$@") >"$work/$case.calm.out" 2>&1 || fail "the undisturbed run"
    [ -d "$work/data" ] || cp -r "$work/$case.calm/data" "$work/data"
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:20$(hub_stops 4 20) \
        run_job "$case.shot" "$@" --set train.state_every="$every" >"$work/$case.shot.out" 2>&1 &
    job=$!
    disturb "$case.shot" 4
    wait "$job" || fail "the run whose processes were killed"
    equal "$case.calm" "$case.shot" "after $shots kills"
    no_difference "$case.shot"
    repeated=$(n_repeated "$case.shot")
    [ "$repeated" -gt 0 ] || fail "no state was made again after $shots kills"
    ! ls "$work/$case.shot"/cache/*.state >"$work/left" 2>&1 ||
        fail "saved states of finished paths are left: $(cat "$work/left")"
    echo "$case: the same bytes after $shots kills, $repeated states made again"
}

echo "1. kills and lost states"
same topk 4 --set codec.name=topk
same co2-i4 4 --set outer.method=co2 --set codec.name=i4 --set codec.residual=i8
same streaming-i4 4 --set outer.method=streaming --set outer.fragments=2 \
    --set outer.overlap=1 --set codec.name=i4
same muon-down 100 --set train.optimizer=muon --set codec.down=i8 --set codec.name=tagc \
    --set topology.replicas=2 --set store.homes=2 --set train.phases=4
[ "$names" = "  " ] || exit 0

echo "2. lengthened"
for run in calm shot; do
    case=topk
    "$pathloom" train --out "$work/topk.$run" --set train.phases=+3 \
        >"$work/topk.$run.out" 2>&1 || fail "the lengthened run topk.$run"
done
equal topk.calm topk.shot "after the run was lengthened"

echo "3. garbage collection between two uploads"
case=gc
long="--set train.phases=10 --set train.state_every=5"
passes gc.calm "the undisturbed run" run_job gc.calm --set train.phases=10
# shellcheck disable=SC2086 # $long is several words
PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:36 run_job gc.shot $long \
    $patient >"$work/gc.shot.out" 2>&1 & # with 9 phases at most
job=$!
modules_reach gc.shot 7 # until the end the newest uploaded states are those of version 6
for pid in $(left_behind gc.shot); do
    kill -9 "$pid" 2>/dev/null
done
wait "$job" 2>/dev/null
nobody_is_left gc.shot || fail "processes are left after kill -9"
lose_states gc.shot
store ls --run "$work/gc.shot" --paths --json
grep -q '"repeats":[1-9]' "$work/verb.out" || fail "every path has an uploaded state"
store gc --run "$work/gc.shot" --keep 1
store fsck --run "$work/gc.shot"
"$pathloom" check --run "$work/gc.shot" >"$work/gc.check.out" 2>&1 || fail "check"
# shellcheck disable=SC2086 # $long is several words
passes gc.shot "the run after garbage collection" run_job gc.shot $long
equal gc.calm gc.shot "after garbage collection"
[ "$(n_repeated gc.shot)" -gt 0 ] || fail "no state was made again"
no_difference gc.shot

echo "4. audits"
case=audit
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:10 run_job audit.shot \
    --set train.phases=10 --set train.state_every=4 --set fleet.audit=1 >"$work/audit.shot.out" 2>&1 &
job=$!
while kill -0 "$job" 2>/dev/null; do
    lose_states audit.shot
    sleep 0.1
done
wait "$job" || fail "the audited run"
equal gc.calm audit.shot "in the audited run"
grep -h ' audit.closed ' "$work/audit.shot/log/hub.log" >"$work/closed"
agreed=$(grep -c 'task=mix/.* verdict=agreed' "$work/closed")
[ "$agreed" -gt 20 ] || fail "only $agreed audits agreed"
! grep -v 'verdict=agreed' "$work/closed" || fail "an audit found a difference"
[ "$(n_repeated audit.shot)" -gt 0 ] || fail "no audit repeated a phase"
echo "$agreed audits agreed"

echo "5. wrong states"
case=wrong
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:10,worker.update.wrong@worker:error:9,hub.grant.after@hub:stop:44 \
    run_job wrong.shot --set codec.name=topk --set train.state_every=100 \
    --set train.phases=20 >"$work/wrong.shot.out" 2>&1 &
job=$!
# Of 36 tasks at least one of the three workers gets 12, so it has made a wrong update. The
# hub stops soon after them, until the workers have been killed.
killed_at=0
until cat "$work/wrong.shot"/log/worker*.log 2>/dev/null | grep -q ' state.differs '; do
    kill -0 "$job" 2>/dev/null || fail "the job ended, and nobody has noticed a wrong state"
    sleep 0.2
    granted=$(cat "$work/wrong.shot/log/hub.log" 2>/dev/null | grep -c 'lease.granted task=mix')
    [ "$killed_at" -eq 0 ] || pkill -CONT -P "$job" -f 'pathloom hub'
    [ "$granted" -ge $((killed_at + 36)) ] || continue
    killed_at=$granted
    for pid in $(members "$job" worker); do
        kill -9 "$pid" 2>/dev/null
    done
    lose_states wrong.shot
done
let_go hub
wait "$job" || fail "the run with wrong states"
"$pathloom" check --run "$work/wrong.shot" >"$work/wrong.check.out" 2>&1 || fail "check"
rm -rf "$work"
