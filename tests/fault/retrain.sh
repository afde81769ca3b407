#!/bin/sh
# Tests `store verify --tasks`: if a task is repeated, the result must be what the
# worker sent. Tests every kind of codec, and outer methods whose tasks begin with
# versions of the home. For other methods the command must say why it cannot compare.
#
# usage: retrain.sh PATHLOOM RETRAIN_CHECK WORKFOLDER
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
pathloom=$1
check=$2
seed=1
. tests/fault/chaos_job.sh
own_folder "$3"
make_corpus base modules docs
n_same=0

# run NAME OPTIONS: runs a job and verifies one of its modules
run() {
    name=$1
    shift
    [ "$name" = plain ] || take_data plain "$name"
    (tiny_job "$name" --set train.phases=$phases "$@") >"$work/job.out" 2>&1 || fail "$name: the job"
    code=0
    "$pathloom" store verify "L1.E0@$version" --tasks --run "$work/$name" --json \
        >"$work/ask.out" 2>&1 || code=$?
}

same() {
    run "$@"
    n=$(grep -c '"task":.*"verdict":"same"' "$work/ask.out")
    if [ "$code" -ne 0 ] || [ "$n" -ne 2 ] || grep -q '"verdict":"other"' "$work/ask.out"; then
        fail "$1: exit code $code, and $n of 2 tasks gave the same update"
    fi
    n_same=$((n_same + n))
}

unknown() { # WORD, NAME, OPTIONS
    word=$1
    shift
    run "$@"
    if [ "$code" -ne 66 ] || ! grep -q "$word" "$work/ask.out"; then
        fail "$1: exit code $code, not 66, or the output does not contain '$word'"
    fi
}

phases=6 version=3
same plain
same chapters --set router.em=3 --set router.share=0.2 # L1.E0 means mix~1/L1.E0
phases=3 version=2
# The home can make this version again, but no task of it.
unknown "parameters of their own" gossip --set outer.method=noloco --set topology.replicas=2
grep -q '"version":2,"verdict":"same"' "$work/ask.out" || fail "gossip: the version was not recomputed"
same continued --set train.optimizer=muon --set train.schedule=wsd --set train.base_replicas=2 \
    --set train.micro_batch=3 --set train.pack=true
same coded --set codec.name=i4 --set codec.residual=i8 --set train.state=bf16 \
    --set train.base_replicas=2
same shared --set train.schedule=cosine --set codec.name=i8-shared --set codec.down=i8
same split --set topology.split=1:4x2
same late --set outer.method=co2 --set codec.name=topk
unknown "depended on timing" arrivals --set outer.method=delayed-nesterov
for name in plain continued coded; do # the last two have two replicas of the base model
    "$check" "$work/$name/store" 1 >"$work/ask.out" 2>&1 || fail "retrain_check of $name"
    cat "$work/ask.out"
done

# The base model is trained with two threads and the mixture with one. The base model has
# the bytes that workers with two threads make, and its tasks can be repeated.
same threads --set train.base_threads=2
for n in 1 2; do
    cat "$work"/threads/log/worker-*.log | grep -q "model.made.* threads=$n " ||
        fail "threads: no model was trained with $n threads"
done
"$pathloom" store verify base/L1.E0@1 --tasks --run "$work/threads" --json >"$work/ask.out" 2>&1 ||
    fail "threads: the task of the base model"
grep -q '"verdict":"same"' "$work/ask.out" || fail "threads: the task of the base model was not compared"
same own_threads --set workers.threads=2
versions --run "$work/threads" | grep '^base' >"$work/a"
versions --run "$work/own_threads" | grep '^base' >"$work/b"
[ -s "$work/a" ] && cmp -s "$work/a" "$work/b" || fail "threads: the base model has other bytes"

refused 64 '' "$pathloom" store verify L1.E0 --tasks --store "$work/plain/store"
echo "$n_same tasks were trained again, with equal results"
rm -rf "$work"
