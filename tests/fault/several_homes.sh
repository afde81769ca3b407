#!/bin/sh
# Tests a job with three homes. Its versions must be those of a job with one home.
# Commands must read all parts of the store. A rollback must happen in all homes or in
# none. Training must be able to continue from a copy that was made while the job
# trained.
#
# usage: several_homes.sh PATHLOOM WORKFOLDER
set -u
. tests/fault/chaos_job.sh
begin "$@"
make_corpus base modules docs

train() { # run, options; in a subshell or in the background
    run=$1
    shift
    [ -e "$work/$run/data" ] || [ "$run" = one ] || take_data one "$run"
    tiny_job "$run" --workers 2 --set train.tau=10 --set train.phases=4 "$@" \
        >"$work/$run.out" 2>&1
}

(train one) || fail "the job with one home"
(train three --set store.homes=3) || fail "the job with three homes"
versions --run "$work/one" >"$work/one.versions"
versions --run "$work/three" >"$work/three.versions"
[ "$(wc -l <"$work/one.versions")" -gt 12 ] || fail "too few modules"
cmp "$work/one.versions" "$work/three.versions" || fail "the versions differ from those with one home"
for part in 1 2 3; do
    [ "$(versions --store "$work/three/store/home-$part" | wc -l)" -gt 0 ] ||
        fail "home $part has no module"
done
echo "a job with three homes makes the versions of a job with one home"

store fsck --run "$work/three"
store tag best --run "$work/three"
store ls --tags --run "$work/three"
grep -q '^best .*12 modules' "$work/verb.out" || fail "the tag has not all modules"
# Garbage collection has read the tags and stops before it frees anything. A tag that is
# wanted now is refused.
mkdir "$work/once"
PATHLOOM_FAILPOINT=gc.roots.after:stop PATHLOOM_FAILPOINT_ONCE="$work/once" \
    "$pathloom" store gc --run "$work/three" --grace 0 --keep 1 --delete \
    >"$work/verb.out" 2>&1 &
job=$! stopped=$!
await 60 "gc does not read the tags" test -e "$work/once/gc.roots.after"
refused 75 'locked' "$pathloom" store tag late 1 --run "$work/three"
kill -CONT "$job"
wait "$job" || fail "gc after a tag was refused"
job='' stopped=''
grep -q '^freed' "$work/verb.out" || fail "gc freed nothing"
store fsck --run "$work/three"
store backup "$work/copy" --run "$work/three"
store fsck --store "$work/copy"
store push "$work/flat" --run "$work/three"
versions --store "$work/flat" | cmp - "$work/one.versions" || fail "a merged copy differs"
"$pathloom" data coverage --run "$work/three" >"$work/verb.out" || fail "coverage"
"$pathloom" check --run "$work/three" >"$work/verb.out" || fail "check"
passes verb "generate" "$pathloom" generate --run "$work/three" --prompt "int" --max-tokens 4
echo "commands read all parts of the store"

refused 78 'store.homes=3, not 2' "$pathloom" train --out "$work/three" --set store.homes=2
refused 64 'one of 3 parts' "$pathloom" store push "$work/three/store/home-1" \
    --run "$work/one"
refused 64 'one of 3 parts' "$pathloom" check --store "$work/three/store/home-1"
"$pathloom" check --store "$work/flat" >"$work/verb.out" || fail "check of a pushed store"
grep -q '^data *unproven' "$work/verb.out" || fail "a pushed store has data"
refused 64 'one of 3 parts' "$pathloom" store gc --store "$work/three/store/home-2"
refused 64 'one of 3 parts' \
    "$pathloom" store rollback mix/L1.E0 --to 1 --store "$work/three/store/home-2"
refused 78 'each with a port of its own' "$pathloom" train --corpus "$work/corpus" \
    --out "$work/port" --set store.homes=2 --set net.home=tcp://127.0.0.1:7811

# A home that alone was restored from an older backup has lost updates that the others
# count on. No worker would send them again.
cp -r "$work/three" "$work/older"
cp -r "$work/older/store/home-2" "$work/home-2"
passes verb "one more phase" "$pathloom" train --out "$work/older" --set train.phases=+1
rm -r "$work/older/store/home-2"
mv "$work/home-2" "$work/older/store/home-2"
refused 65 'home-2 is older than the other homes' "$pathloom" train --out "$work/older"
rm -r "$work/older"
echo "a home that is older than the others is named before training"

# A rollback gives the same versions as with one home. If it is killed before its decision,
# the sixth commit, then after the next opening, here for a copy to two homes, no home has
# it. If it is killed after the decision, all homes have it. (test_store_rollback kills it
# between any two writes.)
cp -r "$work/three" "$work/back"
store rollback mix --to 0 --run "$work/one"
store rollback mix --to 0 --run "$work/back"
versions --run "$work/one" >"$work/one.back"
versions --run "$work/back" | cmp - "$work/one.back" || fail "after the rollback, the versions differ from those with one home"
store fsck --run "$work/back"
for nth in 5 6; do
    rm -rf "$work/back"
    cp -r "$work/three" "$work/back"
    PATHLOOM_FAILPOINT=kv.commit.after:kill:$nth "$pathloom" store rollback mix --to 0 \
        --run "$work/back" >"$work/verb.out" 2>&1 && fail "the rollback was not killed"
    passes verb "homes set" "$pathloom" homes set 2 --run "$work/back"
    [ $nth -eq 5 ] && expected=three.versions || expected=one.back
    versions --run "$work/back" | cmp - "$work/$expected" ||
        fail "half a rollback, or a false decision, killed after commit $nth"
    store fsck --run "$work/back"
done
echo "a rollback is in all homes or in none"

refused 64 'give the folder above it' "$pathloom" check --store "$work/three/store/home-1"

# If a part or the list of parts is lost, `train` must not replace it by an empty one.
cp -r "$work/three" "$work/lost"
rm -rf "$work/lost/store/home-2"
refused 65 'home-2 is missing or empty' "$pathloom" train --out "$work/lost"
cp -r "$work/three/store/home-2" "$work/lost/store/"
rm "$work/lost/store/PARTS"
refused 65 'its file PARTS is missing' "$pathloom" train --out "$work/lost"

# A job is copied twice while it trains. Training continues from the copy.
# shellcheck disable=SC2086 # $patient is several words
PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:12,worker.step.before@worker:sleep:30 train half --set store.homes=2 $patient &
job=$!
training_begins half
store backup "$work/half.copy" --run "$work/half"
store backup "$work/half.copy" --run "$work/half"
grep -q 'stopped writing for [0-9]* ms' "$work/verb.out" || fail "the job was not running"
sed -n '$p' "$work/verb.out"
modules_reach half 2
end_held_job INT
grep -q '^2$' "$work/half.copy/PARTS" || fail "the copy has no second home"
store fsck --store "$work/half.copy"
cp -r "$work/half" "$work/gone"
rm -rf "$work/half/store"
store restore "$work/half.copy" --store "$work/half/store"
"$pathloom" train --out "$work/half" --set workers.ttl_ms=500 >>"$work/half.out" 2>&1 ||
    fail "training of the restored job"
versions --run "$work/half" | cmp - "$work/one.versions" ||
    fail "a restored job ends with other versions"
echo "a job continues from a copy that was made while it trained"

# Two copies of the stopped job are rolled back. In the second copy the rollback is
# killed after it was decided. The next training must complete this rollback, and must
# then end with the versions of the first copy.
cp -r "$work/gone" "$work/gone.killed"
store rollback mix --to 1 --run "$work/gone"
PATHLOOM_FAILPOINT=kv.commit.after:kill:4 "$pathloom" store rollback mix --to 1 \
    --run "$work/gone.killed" >"$work/verb.out" 2>&1 && fail "the rollback was not killed"
refused 75 'was interrupted' "$pathloom" store ls --run "$work/gone.killed"
for run in gone gone.killed; do
    "$pathloom" train --out "$work/$run" --set workers.ttl_ms=500 >>"$work/$run.out" 2>&1 ||
        fail "training of $run after the rollback"
    versions --run "$work/$run" >"$work/$run.versions"
    store fsck --run "$work/$run"
done
grep -q 'store.resumed rollback="mix --to 1"' "$work"/gone.killed/log/home-*.log ||
    fail "no home completed the rollback"
cmp "$work/gone.versions" "$work/gone.killed.versions" ||
    fail "the versions differ after a rollback that training completed"
cmp -s "$work/gone.versions" "$work/one.versions" && fail "nothing was rolled back"
echo "training continues after a rollback, and completes a rollback that was killed"

# Rolls back before any path has finished a phase, when no path has a state yet.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:100 train early --set train.phases=2 &
job=$!
training_begins early
kill -9 "$job"
wait "$job"
job=''
nobody_is_left early || fail "processes of the killed job do not end"
store rollback mix --to 0 --run "$work/early"
"$pathloom" train --out "$work/early" >>"$work/early.out" 2>&1 ||
    fail "training after a rollback to version 0"
echo "a job continues after a rollback to its beginning"
rm -rf "$work"
