#!/bin/sh
# Overwrites data shards in RUN/cache while workers read them. The workers must discard
# what they trained on damaged shards, and fetch the shards again. In a second run,
# files contain the shard of a different path before the workers start. The final hashes
# of both runs must be those of an undisturbed run. Every task is audited: two workers
# with the same damaged file must not confirm each other's results.
#
# usage: fault_cache.sh PATHLOOM WORKFOLDER
set -eu
. tests/support/job.sh
begin "$@"
make_corpus base corpus

run() { # folder, options
    small_job "$@" --set train.tau=10 --set train.phases=8 --set train.base_steps=10 \
        --set fleet.audit=1 \
        >"$work/$1.out" 2>&1
}
has_shards() { # folder
    [ "$(ls "$work/$1"/cache/*.tok 2>/dev/null | wc -l)" -ge 5 ]
}
# Starts a job whose hub stops at the 12th task, and waits for the shards of the base model
# and of the four paths. Each path has a task by then: while one has none, the others can
# have four together.
begin_held() { # folder
    PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:12 run "$1" $patient &
    job=$!
    training_begins "$1"
    await 120 "the shards do not come" has_shards "$1"
}
# Every audit, also of the base model, must have the verdict `agreed`.
all_agreed() { # folder
    "$pathloom" audit --run "$work/$1" --json >"$work/$1.audits" || fail "the audits of $1"
    grep -q '"verdict":"agreed"' "$work/$1.audits" || fail "no audit in $1"
    grep -q '"verdict":"\(odd\|undecided\|unchecked\)"' "$work/$1.audits" &&
        fail "an audit of $1 did not agree: $(grep -m 1 -o '"verdict":"[ou][^}]*' "$work/$1.audits")"
    :
}
check() { # folder
    hashes "$1"
    diff "$work/calm.hashes" "$work/$1.hashes" ||
        fail "the hashes of $1 differ from those of the undisturbed run"
    all_agreed "$1"
}

(run calm) || fail "the undisturbed run"
hashes calm
all_agreed calm

# ---- tokens change during training; the size and the time of the file do not ----
take_data calm hurt
begin_held hurt
for file in "$work"/hurt/cache/*.tok; do
    touch -r "$file" "$work/time"
    head -c 20000 /dev/zero | dd of="$file" bs=64 seek=1 conv=notrunc 2>/dev/null
    touch -r "$work/time" "$file"
done
let_go hub
job_ends "the run whose shards were damaged"
check hurt
grep -q 'task.abandoned .*changed while it was in use' "$work"/hurt/log/worker-*.log ||
    fail "no worker noticed the damaged shard"
grep -q 'shard.damaged' "$work"/hurt/log/worker-*.log || fail "no worker fetched a damaged shard again"

# ---- the shard of another path, undamaged ----
take_data calm swapped
begin_held swapped
end_held_job INT || :
# shellcheck disable=SC2012 # the names are hashes
last=$(ls "$work"/swapped/cache/*.tok | tail -n 1)
for file in "$work"/swapped/cache/*.tok; do
    [ "$file" = "$last" ] || cp "$last" "$file"
done
(run swapped --set workers.ttl_ms=2000) || fail "the run with swapped shards"
check swapped
grep -q 'do not have the hash in the name of the file' "$work"/swapped/log/worker-*.log ||
    fail "no worker noticed that shards were swapped"
echo "PASSED: $(wc -l <"$work/calm.hashes") modules, equal hashes in all three runs, $(grep -c agreed "$work/hurt.audits") audits of the hurt one agree"
