#!/bin/sh
# Tests topology.split: a mixture of 2x2 modules becomes one of 4x4 during training. Seven
# processes are killed, the launcher among them. The run must end with the same bytes as
# an undisturbed run. The history of a module must continue across the split, and a
# finished run may be split once more.
#
# usage: split.sh PATHLOOM CHAOS_LEDGER WORKFOLDER [SEED]
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
run=$work/calm

split_job() { # folder; in a subshell or in the background
    tiny_job "$1" --set train.phases=4 --set topology.split=2:4x4 --set eval.baselines=dense-eq
}

make_corpus base modules docs

echo "1. undisturbed"
(split_job calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
grep -q '^topology 12 modules and 4 paths of mix become 40 and 16 of mix~1' "$work/calm.out" ||
    fail "train does not report the split"
grep -q 'one machine, 10 x the time' "$work/calm.out" || # (4 paths * 2 phases + 16 * 2) / 4 phases
    fail "the plan does not give one machine the time of all paths"
grep -Eq 'one machine per path (needs [0-9.]+ of the time of one machine|does not reach)' \
    "$work/calm.out" || fail "the report does not compare the time with that of one machine"
facts calm || fail "the store of the undisturbed run cannot be read, or has too few versions"
ask store fsck --run "$run" || fail "fsck"
ask data coverage --run "$run" || fail "coverage"
[ "$(grep -c '^mix~1/p' "$work/ask.out")" -eq 16 ] || fail "not sixteen paths"
ask eval --run "$run" --json || fail "eval"
says '"finished": *true'
ask generate --run "$run" --prompt "The path" --max-tokens 4 --path p31 || fail "generate"

# Every module must begin with the last version of the module from which it was split,
# and its log must say so.
n=0
for level in L1 L2; do
    for expert in 0 1 2 3; do
        [ "$(hash_of "mix~1/$level.E$expert@0")" = \
            "$(hash_of "mix/$level.E$((expert / 2))@2")" ] ||
            fail "$level.E$expert is not a part of $level.E$((expert / 2))"
        n=$((n + 1))
    done
done
[ "$n" -eq 8 ] && [ -n "$(hash_of mix~1/L1.E0@0)" ] || fail "no module was compared"
[ "$(hash_of mix~1/L1.E0@2)" != "$(hash_of mix~1/L1.E1@2)" ] || fail "the new modules did not become different"
ask store log L1.E3 --run "$run" || fail "log"
# The log lists three versions of the new module, then three of the old one.
sed -n 's/^\(mix[^ ]*@[0-9]*\) .*/\1/p' "$work/ask.out" | tr '\n' ' ' >"$work/log.names"
[ "$(cat "$work/log.names")" = "mix~1/L1.E3@2 mix~1/L1.E3@1 mix~1/L1.E3@0 \
mix/L1.E1@2 mix/L1.E1@1 mix/L1.E1@0 " ] || {
    cat "$work/log.names"
    fail "the log does not continue with the previous chapter"
}

echo "2. killed seven times, twice while the second chapter begins"
kills=0
take_data calm shot
dies_at chapter.modules.before@train shot split_job shot
dies_at chapter.arm.before@train shot split_job shot
code=137
while [ "$code" -ne 0 ]; do
    [ "$code" -eq 137 ] || fail "it ended with $code"
    nobody_is_left shot || fail "processes are left behind"
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:10$(hub_stops 2 16) split_job shot \
        >"$work/shot.out" 2>&1 &
    job=$! role=''
    await_in_job 600 "no worker starts" "the job ended without a worker" members "$job" worker
    while [ "$kills" -lt 7 ] && [ "$role" != launcher ] && kill -0 "$job" 2>/dev/null; do
        random 30
        sleep "0.$((10 + value))"
        kill_one_of "$job" worker worker hub home launcher && kills=$((kills + 1))
        pkill -CONT -P "$job" -f 'pathloom hub'
    done
    let_go hub
    code=0
    wait "$job" || code=$?
done
job=''
[ "$kills" -eq 7 ] || fail "the job ended after $kills kills"
same_facts calm shot || fail "the bytes differ after $kills kills"

echo "3. a finished run is split once more"
ask train --out "$run" --set train.phases=+2 --set topology.split=2:4x4,3:8x8
[ $? -ne 0 ] || fail "a split at phase 3, which is over, was accepted"
says 'topology.split'
ask train --out "$run" --set topology.split=2:4x4,4:8x4
[ $? -ne 0 ] || fail "a split without more phases was accepted"
succeeds "one more phase, and one with twice as many paths" \
    train --out "$run" --set train.more=1,1 --set topology.split=2:4x4,5:8x4
says '^more     mix~2 continues mix~1 after 0 of its 2 phases: 3 phases on the same shards'
says '^topology 40 modules and 16 paths of mix~2 become 76 and 32 of mix~3'
[ "$(hash_of mix~3/L1.E7@0)" = "$(hash_of mix~2/L1.E3@1)" ] || fail "mix~3/L1.E7 does not begin with mix~2/L1.E3"
ask eval --run "$run" --json || fail "eval of 32 paths"
says '"finished": *true'
ask store fsck --run "$run" || fail "fsck of three chapters"
ask data coverage --run "$run" || fail "coverage of three chapters"
ask check --run "$run" || fail "check of three chapters"

echo "4. documents that look the same to the router"
mkdir -p "$work/alike"
n=0
for file in "$work"/corpus/*/*; do
    n=$((n + 1))
    { printf '%0300d' 0 && cat "$file"; } >"$work/alike/$n.txt"
done
(tiny_job alike-run --corpus "$work/alike" --set router.sees=0 --set train.phases=4 \
    --set topology.split=2:8x2) \
    >"$work/alike.out" 2>&1 || fail "a split of documents with the same beginning"
run=$work/alike-run
[ "$(hash_of mix~1/L1.E7@0)" = "$(hash_of mix/L1.E1@2)" ] || fail "mix~1/L1.E7 does not begin with mix/L1.E1"
ask store fsck --run "$run" || fail "fsck after a split of documents with the same beginning"

# A document of 8 lengths and 16 documents of one length make 6 lengths per path. So the
# balance of the shards leaves no room beside the long one for three others.
echo "5. a path with fewer documents than descendants"
mkdir -p "$work/few"
cat "$work"/corpus/*/* | tr -cd '\11\12\40-\176' >"$work/all.txt"
n=0
while [ $n -lt 16 ]; do
    n=$((n + 1))
    tail -c +$((n * 4000)) "$work/all.txt" | head -c 2000 >"$work/few/$n.txt"
done
tail -c +80000 "$work/all.txt" | head -c 16000 >"$work/few/long.txt"
head -c 4000 "$work/all.txt" >"$work/held.txt"
(tiny_job few-run --corpus "$work/few" --set data.valid="$work/held.txt" \
    --set train.phases=4 --set topology.split=2:4x4) >"$work/few.out" 2>&1 ||
    fail "a split of a path with fewer documents than descendants"
grep -q 'has only [1-3] documents, so each of the 4 paths that descend from it gets all' \
    "$work/few.out" || fail "train does not say that descendants share documents"

echo "4, 16, 32 paths; $(grep -c '^version' "$work/calm.facts") versions equal after $kills kills"
rm -rf "$work"
