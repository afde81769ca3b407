#!/bin/sh
# Tests audits (fleet.audit): a drawn task counts only after one of the job's own
# workers has made the same bytes. So versions and states are those of a job without
# liars, a worker with wrong results is fenced and told why, and an honest worker is
# never fenced.
#
# usage: fault_audit.sh PATHLOOM LEDGER WORKFOLDER
#
# 1. an undisturbed job without audits
# 2. every task is done twice, with two homes: the versions are the same, and no results
#    differ
# 3. two workers that joined make wrong updates and false states, while hub and homes are
#    killed between the end of tasks and their verdicts: both are fenced, say why, and may
#    not come back; versions and states are those of 1
# 4. one of the launcher's workers makes one wrong update: it is fenced, and the job
#    ends without it
# 5. half of the tasks are drawn, and three workers that joined lie in all tasks: no
#    version has an update of those that were found
# 6. in an encrypted job a worker with a kind of device that the job does not have gets
#    no task and is told so; if fleet.devices lists the kind, its tasks count as
#    unchecked, which `audit` and `train` say
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
liars='' in_logs='audit\.\|fenced\|task.dropped'
# shellcheck disable=SC2086 # the list is several process ids
end_liars() {
    [ -z "$liars" ] || kill $liars 2>/dev/null
}
trap end_liars EXIT

count() { # pattern, folder
    cat "$work/$2"/log/hub.log | grep -c "$1"
}

# Whether versions, contributions and states of a job are those of the job $calm.
is_calm() { # folder
    facts "$1" || fail "the store of $1 cannot be read, or has too few versions"
    grep -v '^object audit/\|^ref audit/\|^ref draw/\|^ref fenced/\|^ref dropped/' "$work/$1.facts" |
        diff - "$work/$calm.facts" >"$work/$1.diff" ||
        fail "audits or liars change the job $1: $(head -n 5 "$work/$1.diff")"
    fsck_is_clean "$1" || fail "fsck of $1"
}

await_log() { # folder, pattern in the hub's log, what did not happen
    await_in_job 240 "$3" "the job $1 ends before: $3" grep "$2" "$work/$1/log/hub.log"
}

# Runs the job $calm, whose options are in $options, with audits.
audited_job() { # folder, options; in a subshell or in the background
    run=$1
    shift
    take_data calm "$run"
    # shellcheck disable=SC2086 # $options is several words
    tiny_job "$run" $options --set fleet.audit=1 "$@"
}

# Runs a job without audits, with which audited ones are compared.
calm_job() { # folder, options
    calm=$1
    shift
    options=$*
    passes "$calm" "the undisturbed run" tiny_job "$calm" "$@"
    facts "$calm" || fail "the store of $calm cannot be read, or has too few versions"
}

# Starts a worker in the background; its process id is added to `liars`.
lies() { # folder, name, fail point, verb with options
    run=$1 name=$2
    PATHLOOM_FAILPOINT=$3:error:0
    export PATHLOOM_FAILPOINT
    shift 3
    "$pathloom" "$@" --name "$name" >"$work/$run.$name.out" 2>&1 &
    liars="$liars $!"
    unset PATHLOOM_FAILPOINT
}

make_corpus base modules docs
echo "1. without audits"
# Four more tasks score documents, and two compute features, for both chapters.
calm_job calm --set router.em=2 --set router.share=0.2 --set router.feature_docs=60

echo "2. every task twice"
passes twice "the audited run" audited_job twice --set store.homes=2
agreed=$(count 'audit.closed .*verdict=agreed' twice)
[ "$agreed" -eq 31 ] || fail "$agreed audits of 31 tasks"
[ "$(count 'audit.differs' twice)" -eq 0 ] || fail "honest workers differ"
is_calm twice
grep -q 'audits   31 agreed, 0 dropped a result, 0 unchecked' "$work/twice.out" ||
    fail "train did not say at its end what the audits found"
passes check "check" "$pathloom" check --run "$work/twice"
grep 'draws' "$work/check.out" | grep -q 'holds' || fail "the draws are not proven"
echo "$agreed tasks were done twice, all equal"

echo "3. wrong updates and false states, and killed servers"
take_data calm plain
calm_job plain --set train.tau=8 --set train.phases=8
# The pause before DONE lets tasks wait for their verdicts for some time; that before each
# step leaves tasks for the liars.
PATHLOOM_FAILPOINT=worker.done.before@worker:sleep:100,worker.step.before@worker:sleep:20 \
    audited_job liars --workers 2 --set fleet.backup=off --set store.homes=2 >"$work/liars.out" 2>&1 &
job=$!
await_log liars 'lease.granted task=base' "the job does not begin"
for name in odd false; do
    [ $name = odd ] && what=update || what=state
    lies liars $name worker.$what.wrong worker --run "$work/liars"
    await_log liars "task.done task=mix.* worker=$name \\|worker.fenced worker=$name " "$name ends no task"
    pkill -KILL -P "$job" -f 'pathloom hub'
    sleep 0.2
    pkill -KILL -P "$job" -f 'pathloom home'
    await_log liars "worker.fenced worker=$name" "no audit finds what $name did"
    wait "${liars# }" && fail "the fenced worker $name ends with exit code 0"
    liars=''
    "$pathloom" worker --run "$work/liars" --name "$name" >"$work/$name.again.out" 2>&1 &&
        fail "a fenced worker may join again"
    for out in "liars.$name" "$name.again"; do
        grep -q "worker $name is fenced" "$work/$out.out" ||
            fail "a fenced worker is not told why it is refused: $out"
    done
done
job_ends "the job with liars"
[ "$(cat "$work/liars/log/"*.log | grep 'worker.fenced' |
    grep -vc 'worker=odd\|worker=false')" -eq 0 ] || fail "an honest worker is fenced"
is_calm liars
passes audit "pathloom audit" "$pathloom" audit --run "$work/liars"
for name in odd false; do
    grep -q "^fenced *$name" "$work/audit.out" || fail "pathloom audit does not name $name"
    grep -q "the wrong result is that of $name" "$work/audit.out" ||
        fail "pathloom audit has no verdict about $name"
done
tail -n 1 "$work/audit.out"

echo "4. a wrong update of one of the launcher's workers"
mkdir "$work/once"
(
    export PATHLOOM_FAILPOINT=worker.update.wrong:error:10 PATHLOOM_FAILPOINT_ONCE="$work/once"
    audited_job own --set fleet.backup=off
) >"$work/own.out" 2>&1 || fail "the job does not end without the fenced worker"
[ -e "$work/once/worker.update.wrong" ] || fail "no worker made the wrong update"
[ "$(grep -c 'worker.fenced worker=worker-' "$work/own/log/hub.log")" -eq 1 ] ||
    fail "not one of the job's own workers is fenced"
is_calm own

echo "5. half of the tasks, and three liars"
take_data calm half
(PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:10,worker.step.before@worker:stop:2 \
    tiny_job half --workers 2 --set fleet.audit=0.5 --set train.phases=10 $patient --set net.encrypt=on) >"$work/half.out" 2>&1 &
job=$!
await_log half 'lease.granted task=base' "the job half does not begin"
token=$("$pathloom" key invite --run "$work/half" --name pool --uses 3 2>/dev/null | sed 's/.* //')
for name in liar-1 liar-2 liar-3; do
    lies half $name worker.update.wrong join "$token" --key "$work/half.$name.key" \
        --cache "$work/half.$name.cache"
done
for name in liar-1 liar-2 liar-3; do
    await_log half "worker.joined.*worker=$name" "$name does not join"
done
let_go worker
job_ends "the job half"
end_liars
wait
liars=''
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
        --set workers.backend=cpu --set workers.precision=f32 "$@") >"$work/$run.out" 2>&1 &
    job=$!
    await_log "$run" 'lease.granted task=base' "the job $run does not begin"
    token=$("$pathloom" key invite --run "$work/$run" --name guest 2>/dev/null | sed 's/.* //')
    "$pathloom" join "$token" --name guest --key "$work/$run.key" --backend ref \
        --cache "$work/$run.cache" >"$work/$run.guest.out" 2>&1 &
    liars=$!
    await_log "$run" 'worker.joined.*worker=guest' "the guest does not join"
    [ "$run" = listed ] || await_in_job 240 "the worker is not told why it gets no task" \
        "the job $run ends first" grep 'cannot check its kind of device' "$work/$run.guest.out"
    let_go worker
    job_ends "the job $run"
    end_liars
    wait
    liars=''
    passes audit "pathloom audit" "$pathloom" audit --run "$work/$run"
}

kinds_job kept
[ "$(count 'lease.granted .*worker=guest' kept)" -eq 0 ] ||
    fail "a worker whose tasks cannot be audited got a task"
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
