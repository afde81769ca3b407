#!/bin/sh
# Tests store.quota. If homes must drop old versions, the run must end with the hashes
# of a run that kept them. If the quota is too small, the run stops and says why, and a
# run with a larger quota continues it.
#
# usage: store_quota.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
. tests/support/by_hand.sh

quota_job() { # folder, options
    small_job "$@" --set train.tau=4 --set train.phases=10 --set train.base_steps=8 \
        --set store.compress=off
}

quota_run() { # the same, and comes back
    (quota_job "$@")
}

used() { # folder, pattern: prints the bytes of the uses that match the pattern
    "$pathloom" store du --json --run "$work/$1" |
        sed -n "s/.*\"use\":\"$2\",\"bytes\":\([0-9]*\).*/\1/p" |
        awk '{ sum += $1 } END { printf "%d\n", sum }'
}

same() { # folder
    facts_of_run "$1"
    cmp -s "$work/calm.facts" "$work/$1.facts" || fail "the hashes of $1 differ from those of the run without a quota"
}

make_corpus base
echo "1. without a quota"
(quota_job calm) >"$work/calm.out" 2>&1 || fail "the run"
facts_of_run calm
all=$(used calm '[a-z]*')
history=$(used calm history)
[ "$history" -gt $((all / 4)) ] || fail "history is $history of $all"

echo "2. with a quota for which old versions must be dropped"
quota=$((all - history / 2))
(PATHLOOM_FAILPOINT=worker.step.before@worker:stop:18 quota_job thin --set store.quota=$quota \
    $patient) >"$work/thin.out" 2>&1 &
job=$!
shown() {
    "$pathloom" status --run "$work/thin" 2>/dev/null | grep -q 'of the quota, ' ||
        ! kill -0 "$job" 2>/dev/null
}
until shown; do sleep 0.2; done
kill -0 "$job" 2>/dev/null || fail "status never showed the quota"
let_go worker
job_ends "the run with a quota"
grep -q '^quota    each home stores at most' "$work/thin.out" || fail "the plan does not name the quota"
grep -q "store.thinned versions=[1-9][0-9]* stored_bytes=[0-9]* quota_bytes=$quota" \
    "$work/thin/log/home.log" || fail "the home dropped no versions"
[ "$(used thin '[a-z]*')" -le "$quota" ] || fail "the store has $(used thin '[a-z]*')"
same thin
"$pathloom" store fsck --run "$work/thin" >"$work/fsck.out" 2>&1 || fail "fsck"

echo "3. with a quota that is too small, and then without one"
refused 74 'of which .* can be deleted; even then a commit that adds .* would exceed store.quota' \
    quota_run small --set store.quota=$(((all - history) * 4 / 5))
# Whether there are states of paths and momentum already depends on when the quota is reached.
grep -q 'has .* (heads [0-9.]* .*objects [0-9.]* .*), of which .*set a larger store.quota' "$work/refused.out" ||
    fail "the error does not name the sizes"
(quota_job small --set store.quota=0) >"$work/small.out" 2>&1 || fail "the run with a larger quota"
same small

echo "4. two homes, each with a quota"
quota=$((2 * (all - history) / 3 + history / 6))
passes two "the run with two homes" quota_job two --set store.homes=2 --set store.quota=$quota
grep -q 'store.thinned versions=[1-9]' "$work"/two/log/home*.log || fail "no home dropped versions"
same two

echo "5. the commit of a tag exceeds the quota; the versions of the tag must stay"
start home "$pathloom" home --run "$work/calm" --set store.quota="$all"
await 600 "no home" grep -q 'home.ready' "$work/home.out"
store tag early 3 --run "$work/calm"
grep -q 'store.thinned versions=[1-9]' "$work/home.out" || fail "the home dropped no versions for the tag"
kill "$pid"
wait "$pid" || fail "the home ends with $?"
for number in 3 4; do
    store show "mix/L1.E0@$number" --json --run "$work/calm"
    grep -q "\"collected\":$([ $number -eq 3 ] && echo false || echo true)" \
        "$work/verb.out" || fail "version $number: only version 3, which the tag names, must be kept"
done
store fsck --run "$work/calm"

echo "6. a store in one piece may be in a folder with the name of a part"
mkdir "$work/odd"
cp -R "$work/small/store" "$work/odd/home-1"
start odd "$pathloom" home --store "$work/odd/home-1" --listen 'tcp://127.0.0.1:*' \
    --set store.quota=1
await 100 "the quota of a store in a folder home-1" \
    grep -q 'store.thinned versions=[1-9]' "$work/odd.out"
