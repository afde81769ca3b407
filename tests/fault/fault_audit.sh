#!/bin/sh
# Tests audits (fleet.audit): a drawn task counts only after one of the job's own
# workers has made the same bytes. So versions and states are those of a job without
# liars, a worker with wrong results is fenced and told why, and an honest worker is
# never fenced.
#
# usage: fault_audit.sh PATHLOOM LEDGER WORKFOLDER
#
# 1. an undisturbed job without audits
# 2. every task is done twice, with one home and with two: the versions are the same,
#    and no results differ
# 3. a fourth worker makes wrong updates, later another one false states, while hub
#    and homes are killed between the end of tasks and their verdicts: both are fenced,
#    say why, and may not come back; versions and states are those of 1
# 4. one of the launcher's workers makes one wrong update: it is fenced, and the job
#    ends without it
# 5. half of the tasks are drawn, and six workers that joined lie in all tasks:
#    no version has an update of those that were found
# 6. in an encrypted job a worker with a kind of device that the job does not have gets
#    no task and is told so; if fleet.devices lists the kind, its tasks count as
#    unchecked, which `audit` and `train` say
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
odd='' in_logs='audit\.\|fenced\|task.dropped'
trap '[ -z "$odd" ] || kill "$odd" 2>/dev/null' EXIT

count() { # pattern, folder
    cat "$work/$2"/log/hub.log | grep -c "$1"
}

# Whether versions, contributions and states of a job are those of the job `calm`.
is_calm() { # folder
    facts "$1" || fail "the store of $1 cannot be read, or has too few versions"
    grep -v '^object audit/\|^ref audit/\|^ref draw/\|^ref fenced/\|^ref dropped/' "$work/$1.facts" |
        diff - "$work/calm.plain" >"$work/$1.diff" ||
        fail "audits or liars change the job $1: $(head -n 5 "$work/$1.diff")"
    fsck_is_clean "$1" || fail "fsck of $1"
}

await_log() { # folder, pattern in the hub's log, what did not happen
    await_in_job 240 "$3" "the job $1 ends before: $3" grep "$2" "$work/$1/log/hub.log"
}

make_corpus base modules docs
echo "1. without audits"
# Four more tasks score documents, and two compute features, for both chapters.
dealt="--set train.tau=8 --set router.em=2 --set router.share=0.2 --set router.feature_docs=60"
# shellcheck disable=SC2086 # the list is several words
(tiny_job calm $dealt) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the store of the undisturbed run cannot be read, or has too few versions"
cp "$work/calm.facts" "$work/calm.plain"

echo "2. every task twice"
for homes in 1 2; do
    run=twice$homes
    take_data calm "$run"
    # shellcheck disable=SC2086
    (tiny_job "$run" --set fleet.audit=1 --set store.homes="$homes" $dealt) \
        >"$work/$run.out" 2>&1 || fail "the audited run with $homes homes"
    agreed=$(count 'audit.closed .*verdict=agreed' "$run")
    [ "$agreed" -eq 31 ] || fail "$agreed audits of 31 tasks"
    [ "$(count 'audit.differs' "$run")" -eq 0 ] || fail "honest workers differ"
    is_calm "$run"
    grep -q 'audits   31 agreed, 0 dropped a result, 0 unchecked' "$work/$run.out" ||
        fail "the end of train does not say what audits found"
    "$pathloom" check --run "$work/$run" >"$work/check.out" 2>&1 || fail "check of $run"
    grep 'draws' "$work/check.out" | grep -q 'holds' || fail "the draws of $run are not proven"
done
echo "$agreed tasks were done twice, all equal"

# Starts a worker that has this fail point, and waits until the job has fenced it. Hub
# and homes are killed meanwhile.
lies() { # folder, name, fail point
    PATHLOOM_FAILPOINT=$3 "$pathloom" worker --run "$work/$1" --name "$2" \
        >"$work/$1.$2.out" 2>&1 &
    odd=$!
    tries=2400
    until grep -q "worker.fenced worker=$2" "$work/$1/log/hub.log"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "no audit finds what $2 did"
        kill -0 "$job" 2>/dev/null || fail "the job ends before $2 is fenced"
        case $tries in
        2380 | 2350 | 2310) pkill -KILL -P "$job" -f 'pathloom hub' ;;
        2370 | 2330) pkill -KILL -P "$job" -f 'pathloom home' ;;
        esac
        sleep 0.05
    done
    wait "$odd" && fail "the fenced worker ends with exit code 0"
    odd=
    grep -q "worker $2 is fenced" "$work/$1.$2.out" ||
        fail "worker $2 does not say that it is fenced"
    "$pathloom" worker --run "$work/$1" --name "$2" >"$work/$2.again.out" 2>&1 &&
        fail "a fenced worker may join again"
    grep -q "worker $2 is fenced" "$work/$2.again.out" ||
        fail "a fenced worker that joins again is not told why it is refused"
}

echo "3. a wrong update and a false state, and killed servers"
(tiny_job calm12 --set train.phases=12 --set train.tau=20) >"$work/calm12.out" 2>&1 ||
    fail "the undisturbed run of 12 phases"
facts calm12 || fail "the store of calm12"
cp "$work/calm12.facts" "$work/calm.plain"
for homes in 1 2; do
    run=liars$homes
    take_data calm "$run"
    # The pause before DONE lets tasks wait for their verdicts for some time; that
    # before each step leaves tasks for the liars.
    pauses=worker.done.before@worker:sleep:100,worker.step.before@worker:sleep:20
    (PATHLOOM_FAILPOINT=$pauses tiny_job "$run" \
        --set fleet.audit=1 --set train.phases=12 --set train.tau=20 \
        --set fleet.backup=off --set store.homes="$homes") >"$work/$run.out" 2>&1 &
    job=$!
    await_log "$run" 'lease.granted task=mix' "no task of the mixture begins"
    lies "$run" odd worker.update.wrong:error:0
    lies "$run" false worker.state.wrong:error:0
    job_ends "the job $run"
    [ "$(cat "$work/$run/log/"*.log | grep 'worker.fenced' |
        grep -vc 'worker=odd\|worker=false')" -eq 0 ] || fail "an honest worker is fenced"
    is_calm "$run"
    "$pathloom" audit --run "$work/$run" >"$work/audit.out" 2>&1 || fail "pathloom audit"
    for name in odd false; do
        grep -q "^fenced *$name" "$work/audit.out" || fail "pathloom audit does not name $name"
        grep -q "the wrong result is that of $name" "$work/audit.out" ||
            fail "pathloom audit has no verdict about $name"
    done
    echo "$homes homes: $(tail -n 1 "$work/audit.out")"
done

echo "4. a wrong update of one of the launcher's workers"
take_data calm own
mkdir "$work/once"
(
    export PATHLOOM_FAILPOINT=worker.update.wrong:error:20 PATHLOOM_FAILPOINT_ONCE="$work/once"
    tiny_job own --set fleet.audit=1 --set train.phases=12 --set train.tau=20 \
        --set fleet.backup=off
) >"$work/own.out" 2>&1 || fail "the job does not end without the fenced worker"
[ -e "$work/once/worker.update.wrong" ] || fail "no worker made the wrong update"
[ "$(grep -c 'worker.fenced worker=worker-' "$work/own/log/hub.log")" -eq 1 ] ||
    fail "not one of the job's own workers is fenced"
is_calm own

echo "5. half of the tasks, and six liars"
take_data calm half
(PATHLOOM_FAILPOINT=worker.step.before@worker:stop:2 tiny_job half --set fleet.audit=0.5 \
    --set train.phases=20 --set train.tau=20 $patient --set net.encrypt=on) >"$work/half.out" 2>&1 &
job=$!
await_log half 'lease.granted task=base' "the job half does not begin"
token=$("$pathloom" key invite --run "$work/half" --name pool --uses 6 2>/dev/null | sed 's/.* //')
liars=
for i in 1 2 3 4 5 6; do
    PATHLOOM_FAILPOINT=worker.update.wrong:error:0 "$pathloom" join "$token" \
        --name "liar-$i" --key "$work/half.$i.key" --cache "$work/half.$i.cache" \
        >"$work/half.$i.out" 2>&1 &
    liars="$liars $!"
done
await_log half 'worker.joined.*worker=liar-' "no liar joins"
let_go worker
job_ends "the job half"
# shellcheck disable=SC2086 # the list is several process ids
kill $liars 2>/dev/null
# shellcheck disable=SC2086
wait $liars
"$pathloom" audit --run "$work/half" --json >"$work/half.rows" || fail "the audits of half"
grep '"verdict":"odd"' "$work/half.rows" |
    sed 's/.*"path":"mix\/p\([01]\)\([01]\)[^"]*","phase":\([0-9]*\).*"odd":"\([^"]*\)".*/\1 \2 \3 \4/' >"$work/found"
while read -r one two phase name; do
    case $name in liar-*) ;; *) fail "the honest worker $name is found" ;; esac
    # the module that only this path has, in the version after this phase
    ask store show "mix/head.E$((2 * one + two))@$((phase + 1))" --run "$work/half"
    says " p$one$two\.r0 "
    ! grep "$name" "$work/ask.out" || fail "the lie of $name is in a version"
done <"$work/found"
fsck_is_clean half || fail "fsck of half"
echo "found: $(cut -d ' ' -f 4 "$work/found" | tr '\n' ' ')"

echo "6. a kind of device that the job does not have"
# Results of `ref` always differ from results of `cpu`.
kinds_job() { # folder, settings
    run=$1
    shift
    take_data calm "$run"
    # The job's workers wait for the guest, and the pause before each step makes them slower.
    (PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:10,worker.step.before@worker:stop:2 \
        tiny_job "$run" --workers 2 --set fleet.audit=1 --set net.encrypt=on \
        --set fleet.backup=off $patient \
        --set workers.backend=cpu --set workers.precision=f32 \
        --set train.phases=12 --set train.tau=20 "$@") >"$work/$run.out" 2>&1 &
    job=$!
    await_log "$run" 'lease.granted task=base' "the job $run does not begin"
    token=$("$pathloom" key invite --run "$work/$run" --name guest 2>/dev/null | sed 's/.* //')
    "$pathloom" join "$token" --name guest --key "$work/$run.key" --backend ref \
        --cache "$work/$run.cache" >"$work/$run.guest.out" 2>&1 &
    odd=$!
    await_log "$run" 'worker.joined.*worker=guest' "the guest does not join"
    let_go worker
    job_ends "the job $run"
    kill "$odd" 2>/dev/null
    wait "$odd"
    odd=
    "$pathloom" audit --run "$work/$run" >"$work/audit.out" 2>&1 || fail "pathloom audit"
}

kinds_job kept
[ "$(count 'lease.granted .*worker=guest' kept)" -eq 0 ] ||
    fail "a worker whose tasks cannot be audited got a task"
grep -q 'cannot check its kind of device' "$work/kept.guest.out" ||
    fail "the worker is not told why it gets no task"
device=$(sed -n 's/.*worker.ready .*device="\([^"]*\)".*/\1/p' "$work/kept.guest.out")
kinds_job listed --set fleet.devices="a, $device"
unchecked=$(grep -c '^unchecked .* by guest on' "$work/audit.out")
[ "$unchecked" -gt 0 ] || fail "no task of the listed device counts as unchecked"
grep -q "audits   .* 0 dropped a result, $unchecked unchecked: the job has no own worker" \
    "$work/listed.out" || fail "the end of train does not say what was not checked"
[ "$(count 'audit.differs\|worker.fenced' listed)" -eq 0 ] ||
    fail "results of honest workers of different kinds are compared"
echo "$unchecked tasks of the listed device $device were not checked"
rm -rf "$work"
