#!/bin/sh
# Tests a lying mate (noloco): a worker offers its mate a different update than it sends
# to the home. The mate must notice this before it sends anything, and must repeat the
# phase with the update that the home has. The job must end with the versions of an
# undisturbed job, and no honest worker may be blamed.
#
# Also tests a worker that sends the updates of a phase and then fails: the next worker's
# device rounds differently, so its updates differ. The path must go on all the same.
#
# usage: fault_mates.sh PATHLOOM LEDGER WORKFOLDER
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"

in_logs='mate\.\|abandoned'
run_job() { # folder, options; in a subshell
    run=$1
    shift
    tiny_job "$run" --set outer.method=noloco --set codec.name=f32 --set train.phases=4 "$@"
}

make_corpus base modules docs
(run_job calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the store of the undisturbed run cannot be read, or has too few versions"
for lie in wrong:error:6 damaged:error:2; do
    run=$(echo "$lie" | tr -d :)
    take_data calm "$run"
    (
        # The pause lets mates ask for the update before the home has it.
        export "PATHLOOM_FAILPOINT=worker.offer.$lie,worker.submit.before:sleep:200"
        run_job "$run"
    ) >"$work/$run.out" 2>&1 || fail "the job with a mate that lies ($lie)"
    same_facts calm "$run" || fail "a lie changed the versions ($lie)"
    grep -q 'mate.lied' "$work/$run"/log/worker-*.log || fail "no mate noticed the lie ($lie)"
done
lies=$(cat "$work"/*/log/*.log | grep -c 'mate.lied')
echo "mates noticed $lies lies, and the versions are those of the undisturbed run"

(
    # update 46 is one of the twelfth task with updates, which fails after them
    export PATHLOOM_FAILPOINT=worker.update.wrong:error:46,worker.path.before:error:12
    run_job partly --workers 1 --set store.homes=2
) >"$work/partly.out" 2>&1 || fail "the job whose updates were sent twice"
grep -q 'update.other' "$work"/partly/log/worker-*.log || fail "no worker made another update"
grep -q 'update.first' "$work"/partly/log/worker-*.log || fail "no state has the first update"
echo "a path goes on with the updates that were accepted first"
rm -rf "$work"
