#!/bin/sh
# Trains a job while a home is added, modules move, and a home is emptied. Meanwhile
# homes, hub, workers and the moving process are killed with -9. The versions must be
# those of an undisturbed job, the store must have no damage, and a snapshot must list
# each module once.
#
# usage: moving_homes.sh PATHLOOM WORKFOLDER [ROUNDS] [SEED]
set -u
pathloom=$1
rounds=${3:-1}
seed=${4:-7}
first_seed=$seed
. tests/support/job.sh
own_folder "$2"
make_corpus base modules outer home net workers docs
kills=0 moves=0

train() { # run, options; in a subshell or in the background
    run=$1
    shift
    small_job "$run" --set train.tau=8 --set train.phases=$((12 * rounds)) \
        --set train.base_steps=10 --set store.keep_updates=true --set store.homes=2 "$@" \
        >"$work/$run.out" 2>&1
}

(train alone) || fail "the undisturbed job"
versions --run "$work/alone" >"$work/alone.versions"
[ "$(wc -l <"$work/alone.versions")" -gt 11 ] || fail "too few modules"

take_data alone moved
# Steps are slow, so that the changes happen during the training on any machine.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:30 train moved &
job=$!
training_begins moved

# Kills a random child of the job that has this role, or (`mover`) the command `pathloom
# homes` that moves modules.
kill_one() { # hub, home, worker, mover
    victims=$mover
    [ "$1" = mover ] || victims=$(for pid in $(pgrep -P "$job"); do
        ! tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "^[^ ]* $1 " || echo "$pid"
    done)
    [ -n "$victims" ] || return 0
    # shellcheck disable=SC2086 # the list is several process ids
    pick $victims
    kill -9 "$choice" 2>/dev/null || return 0
    kills=$((kills + 1))
    echo "$1" >>"$work/killed"
}

# Makes a change and kills a process during the change. If `pathloom homes` was killed,
# the command is repeated.
change() { # arguments of `pathloom homes`
    "$pathloom" homes "$@" --run "$work/moved" >"$work/change.out" 2>&1 &
    mover=$!
    random 4
    sleep 0.$((1 + value))
    pick hub worker mover home home
    kill_one "$choice"
    if wait $mover; then
        moves=$((moves + 1))
        return 0
    fi
    "$pathloom" homes "$@" --run "$work/moved" >"$work/change.out" 2>&1 || return 1
    moves=$((moves + 1))
}

# While modules move between homes, a reader must see every module exactly once.
look() {
    versions --run "$work/moved" | cut -d' ' -f1 | sort >"$work/seen"
    [ -z "$(uniq -d "$work/seen")" ] || fail "modules are listed twice: $(uniq -d "$work/seen")"
    cut -d' ' -f1 "$work/alone.versions" | sort | comm -23 - "$work/seen" >"$work/lost"
    [ ! -s "$work/lost" ] || fail "modules are not listed: $(cat "$work/lost")"
}

change add 3 --weight 2 || fail "add"
"$pathloom" homes add 3 --run "$work/moved" >"$work/change.out" 2>&1 || fail "add again"
grep -q 'home 3 already exists' "$work/change.out" || fail "the error does not say that home 3 exists"
look
while kill -0 $job 2>/dev/null; do
    random 3
    to=$((1 + value))
    random 3
    for words in "move L1.E0 $to" "drain 2" "move L2.E1 2" "weight 2 1" \
        "move p01.r0 $((1 + value))"; do
        kill -0 $job 2>/dev/null || break
        # shellcheck disable=SC2086
        change $words || { sleep 0.3; kill -0 $job 2>/dev/null && fail "homes $words"; }
        kill -0 $job 2>/dev/null && look
        if kill -0 $job 2>/dev/null; then
            "$pathloom" store tag "at$moves" --run "$work/moved" >"$work/tag.out" 2>&1 ||
                fail "tag"
            tags="${tags:-} at$moves"
        fi
    done
done
wait $job || fail "the job whose processes were killed"
job=
[ $kills -gt 2 ] || fail "only $kills processes were killed"
versions --run "$work/moved" >"$work/moved.versions"
cmp "$work/alone.versions" "$work/moved.versions" || fail "the versions differ from those of the undisturbed job"
store fsck --run "$work/moved"
"$pathloom" data coverage --run "$work/moved" >"$work/coverage.out" || fail "coverage"
store verify L1.E0 --run "$work/moved"
# A tag that was made during the changes must name existing versions of one phase.
for tag in ${tags:-}; do
    store show "$tag" --run "$work/moved" --json
    store diff "$tag" "$tag" --run "$work/moved"
done
[ -n "${tags:-}" ] || fail "no tag was made during the changes"
echo "$moves changes of homes, $kills kills ($(sort "$work/killed" | uniq -c |
    awk '{ printf "%s%s %d", sep, $2, $1; sep = ", " }')): the versions of a job that nobody touched"

# Makes the same changes while the job is stopped.
homes() {
    "$pathloom" homes "$@" --run "$work/moved" >"$work/homes.out" 2>&1 || fail "homes $*"
}
homes drain 1
cat "$work"/moved/store/home-?/HWM | cksum >"$work/marks"
homes list --json
cat "$work"/moved/store/home-?/HWM | cksum | cmp -s - "$work/marks" ||
    fail "a list changes the stores"
sed -n 's/.*"home":1,.*"names":\[\]}$/empty/p' "$work/homes.out" | grep -q empty ||
    fail "home 1 was drained and still has modules"
versions --run "$work/moved" | cmp - "$work/alone.versions" || fail "the versions differ after home 1 was drained"
store fsck --run "$work/moved"
"$pathloom" train --out "$work/moved" >>"$work/moved.out" 2>&1 || fail "train after drain"
echo "a home is drained while the job is stopped"

# The last home is removed and added again.
"$pathloom" homes remove 3 --run "$work/moved" >"$work/homes.out" 2>&1
[ $? -eq 75 ] || fail "a home that still has modules was removed"
homes weight 2 1
homes drain 3
homes remove 3
[ ! -e "$work/moved/store/home-3" ] || fail "home 3 is still there"
versions --run "$work/moved" | cmp - "$work/alone.versions" || fail "the versions differ after home 3 was removed"
"$pathloom" store fsck --run "$work/moved" >"$work/fsck.out" 2>&1 || fail "fsck after home 3 was removed"
"$pathloom" train --out "$work/moved" >>"$work/moved.out" 2>&1 || fail "train after home 3 was removed"
homes add 3
homes list
versions --run "$work/moved" | cmp - "$work/alone.versions" || fail "the versions differ after home 3 was added again"
"$pathloom" store fsck --run "$work/moved" >"$work/fsck.out" 2>&1 || fail "fsck after home 3 was added again"
echo "a home is removed and added again"
rm -rf "$work"
