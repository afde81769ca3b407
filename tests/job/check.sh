#!/bin/sh
# Tests `pathloom check`. In a trained run it must find no fault. If the copy of a store
# is damaged, it must name the invariant that this kind of damage breaks.
#
# usage: check.sh PATHLOOM HURT_STORE WORKFOLDER   (in the project's root)
set -u
pathloom=$1
hurt_store=$2
. tests/support/job.sh
own_folder "$3"
make_corpus base docs

# Trains a run with two chapters and a baseline. The run keeps all data from which
# versions can be computed again.
run_job() { # folder, options
    out=$1
    shift
    small_job "$out" --set train.tau=4 --set train.phases=4 --set train.base_steps=8 \
        --set store.keep_momentum=true --set router.em=2 --set router.share=0.3 \
        --set router.feature_docs=50 \
        --set eval.baselines=diloco --set workers.ttl_ms=2000 "$@"
}

verdicts() { # options: prints name and verdict of each invariant on one line
    "$pathloom" check "$@" --json >"$work/check.out" 2>"$work/check.err"
    code=$?
    sed -n 's/.*"invariant":"\([a-z]*\)","verdict":"\([a-z]*\)".*/\1:\2/p' "$work/check.out" |
        grep -v '^files:holds$' | tr '\n' ' '
    return $code
}
sound="hashes:holds data:holds beginnings:holds rounds:holds phases:holds versions:"

echo "a stopped run, and the same run after it has finished"
PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:24 run_job run --set store.keep_updates=true \
    $patient >"$work/run.out" 2>&1 &
job=$!
training_begins run
refused 75 'a running job writes to' "$pathloom" check --run "$work/run"
modules_reach run 1
kill -9 "$job"
wait "$job" 2>/dev/null
job=''
tries=600
until seen=$(verdicts --run "$work/run"); [ "$seen" = "${sound}holds " ]; do
    tries=$((tries - 1)) # some processes of the job may not have ended yet
    [ $tries -gt 0 ] || fail "check of the killed run: $seen"
    sleep 0.1
done
(run_job run --set store.keep_updates=true) >"$work/run.out" 2>&1 || fail "the run"
"$pathloom" store tag early 1 --run "$work/run" >"$work/tag.out" || fail "tag"
seen=$(verdicts --run "$work/run" --recompute all) || fail "check: $seen"
[ "$seen" = "${sound}holds " ] || fail "check of the finished run: $seen"
sum=$(sed -n 's/.*"invariant":"versions".*"checked":\([0-9]*\).*/\1/p' "$work/check.out")
[ "$sum" -gt 60 ] || fail "only $sum versions were computed again"
"$pathloom" store fsck --run "$work/run" >"$work/fsck.out" 2>&1 || fail fsck
grep -q 'no accidental damage; the commits from 1 on left exactly these rows' "$work/fsck.out" &&
    grep -q '^log hash [0-9a-f]\{64\}$' "$work/fsck.out" || fail "fsck: $(cat "$work/fsck.out")"
cp -r "$work/run/store" "$work/back"
"$pathloom" store rollback mix~1/L1.E0 --to 1 --store "$work/back" >"$work/back.out" 2>&1 || fail rollback
seen=$(verdicts --store "$work/back") || fail "check after a rollback: $seen"
[ "$seen" = "${sound}holds " ] || fail "check after a rollback: $seen"
grep -q '"given_up":1' "$work/check.out" || fail "check does not count the rollback"
"$hurt_store" "$work/back" older 2>"$work/hurt.out" || fail "hurt_store older"
seen=$(verdicts --store "$work/back") || fail "check of a rollback without a record: $seen"
case $seen in *' rounds:unproven '*) ;; *) fail "a rollback by an older release: $seen" ;; esac
grep -q '"given_up":1' "$work/check.out" && fail "check counts a rollback without a record"
# A copy for another number of homes proves no more, and makes no forged rollback true.
for rolled in unproven broken; do
    cp -r "$work/run" "$work/set"
    rm -rf "$work/set/store"
    cp -r "$work/back" "$work/set/store"
    if [ $rolled = broken ]; then
        rm -rf "$work/set/store"
        cp -r "$work/run/store" "$work/set/store"
        "$hurt_store" "$work/set/store" rollback 2>"$work/hurt.out" || fail "hurt_store rollback"
    fi
    "$pathloom" homes set 2 --run "$work/set" >"$work/set.out" 2>&1 || fail "homes set"
    seen=$(verdicts --run "$work/set")
    case $seen in *" rounds:$rolled "*) ;; *) fail "a copy of a store with a rollback that is $rolled: $seen" ;; esac
    rm -rf "$work/set"
done
refused 64 'a number of versions, or all' "$pathloom" check --recompute x
refused 66 'no store' "$pathloom" check --run "$work/nowhere"

echo "claims about data that were not kept are reported as not proven"
(run_job bare) >"$work/bare.out" 2>&1 || fail "the run without updates"
seen=$(verdicts --run "$work/bare") || fail "check: $seen"
[ "$seen" = "${sound}unproven " ] || fail "check of the run without updates: $seen"
"$pathloom" check --run "$work/bare" | grep -q '^versions *unproven .*keep_updates' ||
    fail "check does not say why it cannot compute versions again"
"$pathloom" store push "$work/pushed" --run "$work/bare" >"$work/push.out" 2>&1 || fail push
seen=$(verdicts --store "$work/pushed") || fail "a pushed store: $seen"
[ "$seen" = "hashes:holds data:unproven ${sound#*data:holds }unproven " ] ||
    fail "a pushed store, which has no shards: $seen"

# Expects that exactly these invariants are broken, and that the output contains these
# words.
damaged() { # damage, "invariant ...", words
    rm -rf "$work/copy"
    cp -r "$work/run/store" "$work/copy"
    "$hurt_store" "$work/copy" "$1" 2>"$work/hurt.out" || fail "hurt_store $1"
    seen=$(verdicts --store "$work/copy" --recompute all)
    [ $? -eq 65 ] || fail "$1 was not refused: $seen"
    broken=$(echo "$seen" | tr ' ' '\n' | sed -n 's/:broken//p' | tr '\n' ' ')
    [ "$broken" = "$2 " ] || fail "the damage $1 breaks the invariants $broken"
    grep -q -- "$3" "$work/check.out" ||
        fail "$1: no \`$3\` in $(cat "$work/check.out")"
}
echo "damage is found and named"
damaged lost 'rounds phases versions' 'mix/L1.E0@1 has 1 updates, but needs 2'
damaged twice 'hashes rounds phases versions' 'mix/L1.E0@1 has two updates of path'
damaged update versions 'mix/L1.E0@1 has a different hash'
damaged params 'beginnings versions' 'mix/L1.E0@.* has a different hash'
damaged origin 'beginnings versions' 'mix/L1.E0@0 differs from the version of base'
damaged config rounds 'mix/L1.E0@1 was made with a different configuration'
damaged path phases 'mix/p00'
damaged rounds phases 'phase . of mix/p0..r0 has wrong samples in mix/L1.E0'
damaged weight rounds 'mix/L1.E0@1 has an update of path . with weight 100, which its arm'
damaged rollback 'beginnings rounds' 'mix/L1.E0@2 says that it is a rollback, but no'
damaged back phases 'mix/p00.r0 has finished . phases, but later phases of it are merged'
damaged tag hashes 'tag early names mix~1/.* which has different parameters'
damaged shard data 'the data shard of mix/p00.r0 is not in the store'

echo "damaged bytes are found"
rm -rf "$work/copy"
cp -r "$work/run/store" "$work/copy"
file=$(find "$work/copy/db" -type f \( -name '*.sst' -o -name '*.log' \) -size +100k | head -n 1)
[ -n "$file" ] || fail "no large file in the store"
size=$(wc -c <"$file")
for i in 1 2 3 4 5 6 7; do # some places may belong to deleted data, which `check` does not read
    printf '\125\252\125\252' | dd of="$file" bs=1 seek=$((size * i / 8)) conv=notrunc 2>/dev/null
done
refused 65 '' "$pathloom" check --store "$work/copy"
echo "check: all checks passed"
