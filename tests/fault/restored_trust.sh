#!/bin/sh
# Tests that the restore of a backup forgives nobody. A job with two homes, encryption
# and fleet.audit=1 is backed up while the lie of a worker that joined waits for its
# audit. Then the audit drops the lie and fences the worker, and the job goes on. After
# the restore
#   - the worker stays fenced, and its key revoked, although the backup has neither
#   - the lie is dropped again, and the tokens of leases go on
#   - the job ends with the versions and states of a job without the liar
# If one home alone is restored, it learns the same from the other home, and the job is
# not started with it, because it lacks results.
#
# usage: restored_trust.sh PATHLOOM LEDGER WORKFOLDER
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
liar='' in_logs='audit\.\|fenced\|task.dropped'
trap '[ -z "$liar" ] || kill "$liar" 2>/dev/null' EXIT

expect() { # what did not happen, command
    sentence=$1
    shift
    await_in_job 120 "$sentence" "the job ends before: $sentence" "$@"
}

trusting_job() { # folder, options
    tiny_job "$@" --workers 2 --set train.phases=5 --set train.tau=8 \
        --set store.homes=2 --set net.encrypt=on --set fleet.audit=1
}

refs() { # store
    "$pathloom" store ls --refs --store "$1" 2>/dev/null
}

waits_for_audit() { # store
    refs "$1" | grep 'audit/mix/.*"verdict":"open"' | grep -q '"worker":"liar"'
}

epoch_of() { # store
    refs "$1" | sed -n 's/^sys\/hub-epoch *//p' | sort -n | tail -n 1
}

keeps_the_verdict() { # store
    refs "$1" >"$work/refs.out"
    grep -q '^fenced/liar ' "$work/refs.out" || fail "$1 has no fence of the liar"
    grep -q '^dropped/mix/' "$work/refs.out" || fail "$1 does not know which results were dropped"
}

make_corpus base modules docs
(trusting_job calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the store of the undisturbed run"
take_data calm run

echo "1. a lie waits for its audit when the backup is made"
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:20 trusting_job run \
    >"$work/run.out" 2>&1 &
job=$!
expect "the mixture does not begin" grep 'lease.granted task=mix' "$work/run/log/hub.log"
stopped=$(pgrep -P "$job" -f 'pathloom worker' | tr '\n' ' ')
# shellcheck disable=SC2086 # several process ids
kill -STOP $stopped
token=$("$pathloom" key invite --run "$work/run" --name pool 2>/dev/null | sed 's/.* //')
PATHLOOM_FAILPOINT=worker.update.wrong:error:0 "$pathloom" join "$token" --name liar \
    --key "$work/liar.key" --cache "$work/liar.cache" >"$work/liar.out" 2>&1 &
liar=$!
expect "no lie waits for an audit" waits_for_audit "$work/run/store"
passes backup "store backup" "$pathloom" store backup "$work/backup" --job --run "$work/run"
waits_for_audit "$work/backup/store" || fail "the backup does not have the lie"
refs "$work/backup/store" | grep -q '^fenced/' && fail "the backup has a fence"
# shellcheck disable=SC2086
kill -CONT $stopped
stopped=
expect "no audit finds the lie" grep -q 'worker.fenced worker=liar' "$work/run/log/hub.log"
wait "$liar" && fail "the fenced worker ends with exit code 0"
liar=
modules_reach run 2
kill -INT "$job"
wait "$job"
job=
epoch=$(epoch_of "$work/run/store")
keeps_the_verdict "$work/run/store"

echo "2. one home alone is restored, also after its disk was lost"
for home in 1 2; do
    cp -r "$work/run" "$work/alone"
    [ $home = 1 ] || rm -rf "$work/alone/store/home-$home"
    "$pathloom" store restore "$work/backup/store/home-$home" --force \
        --store "$work/alone/store/home-$home" >"$work/alone.out" 2>&1 ||
        fail "restore of home-$home"
    keeps_the_verdict "$work/alone/store/home-$home"
    refused 65 "home-$home is older than the other homes" \
        "$pathloom" train --out "$work/alone"
    rm -rf "$work/alone"
done

echo "3. a restore that fails while it copies the keys forgives nobody, either"
mkdir -p "$work/run/keys/blocked/x"
: >"$work/backup/keys/blocked"
refused 74 blocked "$pathloom" store restore "$work/backup" --job --run "$work/run" --force
for home in 1 2; do
    keeps_the_verdict "$work/run/store/home-$home"
done
rm -r "$work/run/keys/blocked" "$work/backup/keys/blocked"

echo "4. the whole job is restored"
"$pathloom" store restore "$work/backup" --job --run "$work/run" --force \
    >"$work/restore.out" 2>&1 || fail "store restore"
for home in 1 2; do
    keeps_the_verdict "$work/run/store/home-$home"
done
[ "$(epoch_of "$work/run/store")" -ge "$epoch" ] || fail "tokens may be used twice"
"$pathloom" key list --run "$work/run" >"$work/keys.out" 2>&1
grep -q 'revoked.*liar\|liar.*revoked' "$work/keys.out" || fail "the key of the liar is allowed again"
PATHLOOM_FAILPOINT=worker.step.before@worker:stop:1 "$pathloom" train --out "$work/run" >"$work/again.out" 2>&1 &
job=$!
expect "the hub does not start" "$pathloom" status --run "$work/run"
token=$("$pathloom" key invite --run "$work/run" --name again 2>/dev/null | sed 's/.* //')
timeout 600 "$pathloom" join "$token" --name liar --key "$work/liar.key" \
    --cache "$work/liar.cache" >"$work/liar2.out" 2>&1 && fail "the liar joins again"
grep -q 'revoked\|fenced' "$work/liar2.out" || fail "the liar is not told why it is refused"
let_go worker
job_ends "the restored job does not end"
grep -v '^object audit/\|^ref audit/\|^ref draw/\|^ref fenced/\|^ref dropped/' \
    "$work/calm.facts" >"$work/calm.plain"
facts run || fail "the store of the restored job"
grep -v '^object audit/\|^ref audit/\|^ref draw/\|^ref fenced/\|^ref dropped/' \
    "$work/run.facts" | diff - "$work/calm.plain" >"$work/run.diff" ||
    fail "the restored job ends with other bytes: $(head -n 5 "$work/run.diff")"
fsck_is_clean run || fail "fsck"
echo "versions and states are those of the undisturbed run"
rm -rf "$work"
