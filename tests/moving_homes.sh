#!/bin/sh
# A job that trains while a home is added, modules move, and a home is emptied, and while
# homes, hub, workers and the mover itself are killed with -9. The versions are those of a
# job that nobody touched; the store is whole; a snapshot lists each module once.
#
# usage: moving_homes.sh PATHLOOM WORKFOLDER [ROUNDS] [SEED]
set -u
pathloom=$1
work=$2
rounds=${3:-1}
seed=${4:-7}
[ "${work#/}" != "$work" ] || work=$PWD/$work
rm -rf "$work"
mkdir -p "$work"
kills=0 moves=0

fail() {
    echo "FAILED (seed $seed): $1"
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
    exec "$pathloom" train --corpus "$work/corpus" --out "$work/$run" --workers 2 \
        --set data.vocab=512 --set data.valid_share=0.1 --set model.width=48 \
        --set model.heads=2 --set model.blocks=2 --set model.context=64 \
        --set train.batch=4 --set train.tau=8 --set train.phases=$((12 * rounds)) \
        --set train.base_steps=10 --set router.prefix=16 --set eval.baselines=none \
        --set eval.max_tokens=500 --set eval.sample_tokens=0 \
        --set store.keep_updates=true --set store.homes=2 "$@" >"$work/$run.out" 2>&1
}

versions() { # options of store ls
    "$pathloom" store ls "$@" --json |
        sed -n 's/.*"module":"\([^"]*\)".*"version":\([0-9]*\).*"hash":"\([^"]*\)".*/\1 \2 \3/p'
}

# A number below $1, from the seed.
random() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    echo $((seed / 65536 % $1))
}

(train alone) || fail "the job that nobody touches"
versions --run "$work/alone" >"$work/alone.versions"
[ "$(wc -l <"$work/alone.versions")" -gt 11 ] || fail "too few modules"

(train moved) &
job=$!
i=0
until grep -qs 'arm.added arm=mix' "$work/moved/log/hub.log"; do
    i=$((i + 1))
    [ $i -lt 600 ] || fail "training does not begin"
    kill -0 $job 2>/dev/null || fail "training ended"
    sleep 0.05
done

# Somebody of the job dies: a child whose command line has this word.
kill_one() { # word
    for pid in $(pgrep -P "$job"); do
        if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "^[^ ]* $1 "; then
            victims="${victims:-} $pid"
        fi
    done
    set -- ${victims:-}
    victims=
    [ $# -gt 0 ] || return 0
    shift "$(random $#)"
    kill -9 "$1" 2>/dev/null && kills=$((kills + 1))
}

# A change, and somebody dies in the middle of it; the mover too, and then it is asked
# once more.
change() { # words of the verb
    "$pathloom" homes "$@" --run "$work/moved" >"$work/change.out" 2>&1 &
    mover=$!
    sleep 0.$((1 + $(random 4)))
    case $(random 5) in
    0) kill_one hub ;;
    1) kill_one worker ;;
    2)
        kill -9 $mover 2>/dev/null && kills=$((kills + 1))
        ;;
    *) kill_one home ;;
    esac
    if wait $mover; then
        moves=$((moves + 1))
        return 0
    fi
    [ "$1" = add ] || "$pathloom" homes "$@" --run "$work/moved" >"$work/change.out" 2>&1 ||
        return 1
    [ "$1" != add ] || "$pathloom" homes weight 3 2 --run "$work/moved" \
        >"$work/change.out" 2>&1 || "$pathloom" homes add --weight 2 --run "$work/moved" \
        >"$work/change.out" 2>&1 || return 1
    moves=$((moves + 1))
}

# What a reader sees while names are on their way: every module once.
look() {
    versions --run "$work/moved" | cut -d' ' -f1 | sort >"$work/seen"
    [ -z "$(uniq -d "$work/seen")" ] || fail "listed twice: $(uniq -d "$work/seen")"
    cut -d' ' -f1 "$work/alone.versions" | sort | comm -23 - "$work/seen" >"$work/lost"
    [ ! -s "$work/lost" ] || fail "not listed: $(cat "$work/lost")"
}

change add --weight 2 || fail "add"
look
while kill -0 $job 2>/dev/null; do
    for words in "move L1.E0 $((1 + $(random 3)))" "drain 2" "move L2.E1 2" "weight 2 1" \
        "move p01.r0 $((1 + $(random 3)))"; do
        kill -0 $job 2>/dev/null || break
        # shellcheck disable=SC2086
        change $words || { sleep 0.3; kill -0 $job 2>/dev/null && fail "homes $words"; }
        kill -0 $job 2>/dev/null && look
        if kill -0 $job 2>/dev/null; then
            "$pathloom" store tag "at$moves" --run "$work/moved" >"$work/tag.out" 2>&1 ||
                fail "tag"
        fi
    done
done
wait $job || fail "the job that was touched"
[ $kills -gt 2 ] || fail "only $kills were killed"
versions --run "$work/moved" >"$work/moved.versions"
cmp "$work/alone.versions" "$work/moved.versions" || fail "other versions"
"$pathloom" store fsck --run "$work/moved" >"$work/fsck.out" 2>&1 || fail "fsck"
"$pathloom" data coverage --run "$work/moved" >"$work/coverage.out" || fail "coverage"
"$pathloom" store verify L1.E0 --run "$work/moved" >"$work/verify.out" 2>&1 || fail "verify"
echo "$moves changes of homes, $kills kills: the versions of a job that nobody touched"

# The same without a job.
homes() {
    "$pathloom" homes "$@" --run "$work/moved" >"$work/homes.out" 2>&1 || fail "homes $*"
}
homes drain 1
homes list --json
sed -n 's/.*"home":1,.*"names":\[\]}$/empty/p' "$work/homes.out" | grep -q empty ||
    fail "home 1 was drained and has something"
versions --run "$work/moved" | cmp - "$work/alone.versions" || fail "other versions after drain"
"$pathloom" store fsck --run "$work/moved" >"$work/fsck.out" 2>&1 || fail "fsck after drain"
"$pathloom" train --out "$work/moved" >>"$work/moved.out" 2>&1 || fail "train after drain"
echo "a home is emptied while nobody trains"
rm -rf "$work"
