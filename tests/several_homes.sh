#!/bin/sh
# A job with three homes: the versions of one home, verbs that see all parts, a copy that
# training goes on from.
#
# usage: several_homes.sh PATHLOOM WORKFOLDER
set -u
pathloom=$1
work=$2
[ "${work#/}" != "$work" ] || work=$PWD/$work
rm -rf "$work"
mkdir -p "$work"

fail() {
    echo "FAILED: $1"
    tail -n 5 "$work"/*.out
    exit 1
}

for folder in base modules outer workers docs; do
    mkdir -p "$work/corpus/$folder"
    cp "$folder"/*.[chm]* "$work/corpus/$folder/"
done

train() { # run, options
    run=$1
    shift
    "$pathloom" train --corpus "$work/corpus" --out "$work/$run" --workers 2 \
        --set data.vocab=512 --set data.valid_share=0.1 --set model.width=48 \
        --set model.heads=2 --set model.blocks=2 --set model.context=64 \
        --set train.batch=4 --set train.tau=10 --set train.phases=4 \
        --set train.base_steps=10 --set router.prefix=16 --set eval.baselines=none \
        --set eval.max_tokens=500 --set eval.sample_tokens=0 "$@" \
        >"$work/$run.out" 2>&1
}

versions() { # options of store ls
    "$pathloom" store ls "$@" --json |
        sed -n 's/.*"module":"\([^"]*\)".*"version":\([0-9]*\).*"hash":"\([^"]*\)".*/\1 \2 \3/p'
}

refused() { # exit code, words that the sentence has, command
    code=$1 words=$2
    shift 2
    "$@" >"$work/refused.out" 2>&1
    got=$?
    [ $got -eq "$code" ] || fail "exit code $got instead of $code: $*"
    grep -q "$words" "$work/refused.out" || fail "no \`$words\`: $*"
}

train one || fail "one home"
train three --set store.homes=3 || fail "three homes"
versions --run "$work/one" >"$work/one.versions"
versions --run "$work/three" >"$work/three.versions"
[ "$(wc -l <"$work/one.versions")" -gt 12 ] || fail "too few modules"
cmp "$work/one.versions" "$work/three.versions" || fail "other versions"
for part in 1 2 3; do
    [ "$(versions --store "$work/three/store/home-$part" | wc -l)" -gt 0 ] ||
        fail "home $part has no module"
done
echo "three homes make the versions of one"

store() {
    verb=$1
    shift
    "$pathloom" store "$verb" "$@" >"$work/verb.out" 2>&1 || fail "store $verb $*"
}

store fsck --run "$work/three"
store tag best --run "$work/three"
store ls --tags --run "$work/three"
grep -q '^best .*12 modules' "$work/verb.out" || fail "the tag has not all modules"
store gc --run "$work/three" --grace 0 --keep 1 --delete
grep -q '^freed' "$work/verb.out" || fail "nothing was collected"
store fsck --run "$work/three"
store backup "$work/copy" --run "$work/three"
store fsck --store "$work/copy"
store push "$work/flat" --run "$work/three"
versions --store "$work/flat" | cmp - "$work/one.versions" || fail "a merged copy differs"
"$pathloom" data coverage --run "$work/three" >"$work/verb.out" || fail "coverage"
"$pathloom" generate --run "$work/three" --prompt "int" --max-tokens 4 \
    >"$work/verb.out" 2>&1 || fail "generate"
echo "verbs see all parts"

refused 78 'store.homes=3, not 2' "$pathloom" train --out "$work/three" --set store.homes=2
refused 64 'one of 3 parts' "$pathloom" store push "$work/three/store/home-1" \
    --run "$work/one"
refused 69 'does not span' "$pathloom" store rollback mix --to 1 --run "$work/three"
refused 64 'one of 3 parts' "$pathloom" store gc --store "$work/three/store/home-2"
refused 64 'one of 3 parts' \
    "$pathloom" store rollback mix/L1.E0 --to 1 --store "$work/three/store/home-2"
refused 78 'each with a port of its own' "$pathloom" train --corpus "$work/corpus" \
    --out "$work/port" --set store.homes=2 --set net.home=tcp://127.0.0.1:7811

# A part that is lost is not replaced by an empty one; neither is the list of parts.
cp -r "$work/three" "$work/lost"
rm -rf "$work/lost/store/home-2"
refused 65 'home-2 is missing or empty' "$pathloom" train --out "$work/lost"
cp -r "$work/three/store/home-2" "$work/lost/store/"
rm "$work/lost/store/PARTS"
refused 65 'its file PARTS is gone' "$pathloom" train --out "$work/lost"

# A job that is stopped half-way, and goes on from a restored copy.
train half --set store.homes=3 --set train.phases=12 --set train.tau=20 &
job=$!
i=0
until grep -qs 'arm.added arm=mix' "$work/half/log/hub.log"; do
    i=$((i + 1))
    [ $i -lt 600 ] || fail "training does not begin"
    sleep 0.1
done
sleep 0.5
refused 75 'only while nobody writes' "$pathloom" store backup "$work/live" --run "$work/half"
pkill -INT -P "$job" pathloom 2>/dev/null
kill -INT "$job" 2>/dev/null
wait "$job"
store backup "$work/half.copy" --run "$work/half"
rm -rf "$work/half/store"
store restore "$work/half.copy" --store "$work/half/store"
"$pathloom" train --out "$work/half" >>"$work/half.out" 2>&1 || fail "going on"
train whole --set store.homes=3 --set train.phases=12 --set train.tau=20 || fail "whole"
versions --run "$work/half" >"$work/half.versions"
versions --run "$work/whole" | cmp - "$work/half.versions" ||
    fail "a restored job ends with other versions"
echo "a stopped job goes on from its copy"

# Gone back before any path had finished a phase: there is nothing that it carries.
(train early --set train.phases=3 --set train.tau=150) &
i=0
until grep -qs 'arm.added arm=mix' "$work/early/log/hub.log"; do
    i=$((i + 1))
    [ $i -lt 600 ] || fail "training does not begin"
    sleep 0.05
done
pkill -9 -f "train .*--out $work/early "
wait
sleep 0.5
store rollback mix --to 0 --run "$work/early"
"$pathloom" train --out "$work/early" >>"$work/early.out" 2>&1 ||
    fail "going on from version 0"
echo "a job goes on from a rollback to its beginning"
rm -rf "$work"
