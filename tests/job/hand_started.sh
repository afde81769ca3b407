#!/bin/sh
# Tests processes that are started by hand. They must give the same hashes as the
# processes of `pathloom train`, and must use those keys of the run that differ from the
# defaults. When the job is finished, they must end by themselves, with exit code 0.
#
# usage: hand_started.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
mkdir "$work/hand"
make_corpus base docs

keys="store.homes=2 store.keep_updates=true store.norm_gate=50 store.staging=64M
    store.compress=off codec.name=i4 workers.precision=f32 workers.patience_s=30"
settings() {
    for key in $keys; do
        printf -- '--set %s ' "$key"
    done
}

# shellcheck disable=SC2046 # the list is several words
small_job own --set train.tau=10 --set train.phases=3 --set train.base_steps=10 \
    $(settings) >"$work/own.out" 2>&1 &
wait $! || fail "the job of one command: $(tail -n 2 "$work/own.out")"

# The same configuration is written first, and then every process is started by hand.
grep -v '^out:' "$work/own/run.yaml" >"$work/hand/run.yaml"
start() { # NAME WORDS...
    name=$1
    shift
    "$pathloom" "$@" --run "$work/hand" >"$work/$name.out" 2>&1 &
    eval "$(echo "$name" | tr - _)=$!"
}
# The processes start in any order and wait for each other.
"$pathloom" train --out "$work/hand" --set net.attach=true --set workers.local=false \
    >"$work/hand.out" 2>&1 &
train=$!
await 120 "the job does not wait for its homes" grep '^wait ' "$work/hand.out"
start worker-1 worker --index 1
start hub hub
start home-2 home --index 2
start home-1 home --index 1
start worker-2 worker --name by-hand
wait $train || fail "the job by hand: $(tail -n 2 "$work/hand.out")"
# shellcheck disable=SC2154 # set by start
for process in "$worker_1" "$worker_2" "$hub" "$home_1" "$home_2"; do
    wait "$process" || fail "a process of the finished job ended with exit code $?"
done
[ ! -e "$work/hand/proc" ] || fail "addresses of the finished job are left"

hashes own
hashes hand
diff "$work/own.hashes" "$work/hand.hashes" || fail "the hashes differ"
# The run sets store.keep_updates. If the home uses this key, the updates of a version
# can be shown.
"$pathloom" store verify L1.E0 --run "$work/hand" >"$work/verify.out" 2>&1 ||
    fail "the home did not keep updates: $(cat "$work/verify.out")"
grep -q 'precision=f32 .*patience_s=30' "$work/worker-2.out" ||
    fail "a worker did not take the run's keys"
[ -d "$work/hand/store/home-2" ] || fail "the second home has no store"

# A key that belongs to the whole run cannot be set for one process.
refused 64 'outer.lr=1.*whole run' \
    "$pathloom" home --run "$work/hand" --index 1 --set outer.lr=1
refused 64 '[-]-index' "$pathloom" home --run "$work/hand"
echo "processes that were started by hand gave the hashes of the job of one command"
rm -rf "$work"
