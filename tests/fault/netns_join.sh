#!/bin/sh
# Tests that a worker can join a job from another machine with two commands, over
# encrypted connections.
#
# usage: netns_join.sh PATHLOOM WORKFOLDER
#
# The two machines are two network namespaces with one link between them. On the first
# machine, home, hub and launcher are started by hand, without a worker. The second
# machine knows only the token. The modules must have the hashes of the same job on one
# machine. A token must work only once. Unknown, missing, wrong and revoked keys must be
# refused within seconds, and both sides must report the refusal. A worker that is told
# to leave must give its task back. If the machine does not permit network namespaces,
# the test is skipped (77).
set -u
PATH=$PATH:/usr/sbin:/sbin
here=10.77.0.1
there=10.77.0.2
. tests/support/job.sh
[ "${1-}" = --inside ] || enter_network "" "$@"
shift
begin "$@"
run=$work/run
. tests/support/by_hand.sh

# ---- two machines ----
second_machine 1800

# ---- the jobs ----
make_corpus base home
train() { # folder, options
    out=$1
    shift
    # shellcheck disable=SC2086 # $small_model is a list of words
    exec "$pathloom" train --corpus "$work/corpus" --out "$work/$out" $small_model --set train.tau=5 \
        --set train.phases=4 --set train.base_steps=10 "$@"
}

(train alone --workers 2) >"$work/alone.out" 2>&1 || fail "the job on one machine"
hashes alone

"$pathloom" hub --run "$run" --listen "tcp://$here:7000" >"$work/early.out" 2>&1 &
children="$children $!" # the hub waits for the home's address
start home "$pathloom" home --run "$run" --listen "tcp://$here:7001"
home=$pid
await 600 "the hub does not listen" test -s "$run/proc/hub.address"
address=$(cat "$run/proc/hub.address")
[ "${address%%#*}" = "tcp://$here:7000" ] || fail "the hub has the address $address"
(train run --set net.attach=true) >"$work/train.out" 2>&1 &
job=$!
children="$children $job"

is_stopped() { # the process that started last
    grep '^State:.*stopped' "/proc/$pid/status"
}

# ---- workers that are refused ----
refused_there() { # name, exit code, words of the message, command on the second machine
    name=$1 code=$2 words=$3
    shift 3
    refused "$code" "$words" "$second" timeout 120 "$@"
    echo "refused as it should: $name"
}
mkdir -p "$work/second"
"$pathloom" key new "$work/second/stranger.key" >"$work/stranger.pub" || fail "key new"
# This worker asks again for some seconds.
start unknown "$second" timeout 120 "$pathloom" worker --hub "$address" \
    --key "$work/second/stranger.key"
unknown=$pid
refused_there no-key 78 "no key of its own" "$pathloom" worker --hub "$address"
refused_there no-encryption 78 "and has no key" "$pathloom" worker --hub "${address%%#*}"
refused_there wrong-server 77 "ends every handshake" "$pathloom" worker \
    --hub "${address%%#*}#$(cat "$work/stranger.pub")" --key "$work/second/stranger.key"
cp "$work/second/stranger.key" "$work/second/open.key"
chmod 644 "$work/second/open.key"
refused_there open-file 77 "chmod 600" \
    "$pathloom" worker --hub "$address" --key "$work/second/open.key"

# ---- two commands ----
command=$("$pathloom" key invite --run "$run" --name guest) || fail "key invite"
token=${command#pathloom join }
# The worker stops in its third task, so the job cannot end before the key is revoked.
start worker env PATHLOOM_FAILPOINT=worker.step.before:stop:18 \
    "$second" "$pathloom" join "$token" --name guest --patience-s 3600
await 600 "the worker does not work" is_stopped
refused_there used-token 77 "the hub refuses the token: it was used already" "$pathloom" join "$token" \
    --key "$work/second/third.key"
await 600 "nothing is done" sh -c \
    "'$pathloom' status --run '$run' --json | grep -q '\"tasks\":[1-9]'"
echo "joined from the second machine"

# ---- the key is revoked while the worker with this key trains ----
"$pathloom" key revoke guest --run "$run" >/dev/null || fail "key revoke"
# the hub must know it before the worker can do the rest of this short job
await 600 "the hub does not see that the key was revoked" sh -c \
    "'$pathloom' status --run '$run' --json | grep -q '\"gone\":\"revoked\"'"
kill -CONT "$pid"
await 600 "a worker whose key was revoked does not stop" grep -q "taken out\|refuses the key" \
    "$work/worker.out"
await 600 "the hub does not report that it refuses the key" grep -q "peer.refused.*taken out" \
    "$work/early.out"
await 100 "train does not say that the worker was revoked" \
    grep -q '^worker  *guest is gone: its key was revoked' "$work/train.out"
echo "revoked, and said so on both sides"
pool=$("$pathloom" key invite --run "$run" --uses 3 --name pool) || fail "key invite"
refused_there revoked-with-a-token 77 "was revoked" \
    "$pathloom" join "${pool#pathloom join }" --name guest
refused_there a-taken-name 73 "is in the list with" \
    "$pathloom" join "${pool#pathloom join }" --name guest --key "$work/second/third.key"
"$pathloom" key list --run "$run" | grep -q "^revoked .* guest " ||
    fail "the list does not show the revoked key"
"$pathloom" key revoke pool --run "$run" >/dev/null || fail "key revoke pool"

# ---- the same machine joins with a new key, is told to leave, and joins again ----
token=$("$pathloom" key invite --run "$run" --name again)
echo "${token#pathloom join }" >"$work/second/token"
start drained env PATHLOOM_FAILPOINT=worker.step.before:stop:2 "$second" "$pathloom" join \
    --token-file "$work/second/token" --name again --patience-s 3600 --key "$work/second/again.key"
await 600 "the second invitation does not work" is_stopped
grep -q "lease.granted.*worker=again" "$work/early.out" || fail "it trains without a lease"
kill -USR1 "$pid"
kill -CONT "$pid"
await 600 "a drained worker does not go" grep -q "worker.draining" "$work/drained.out"
wait "$pid"
[ $? -eq 130 ] || fail "a worker that a signal has ended does not end with exit code 130"
start last "$second" "$pathloom" join "${token#pathloom join }" --name again --patience-s 60 \
    --key "$work/second/again.key"
await 300 "the job does not end" sh -c "! kill -0 $job"
wait "$job" || fail "the job"
hashes run
wait "$unknown"
[ $? -eq 77 ] && grep -q "refuses the key" "$work/unknown.out" || fail "an unknown key is not refused"
grep -q "peer.refused.*$(cat "$work/stranger.pub")" "$work/early.out" ||
    fail "the hub did not report the unknown key"
cmp "$work/alone.hashes" "$work/run.hashes" || fail "the modules differ from those of the job on one machine"
kill -TERM "$home"
echo "$(wc -l <"$work/run.hashes") modules, the same as of a job on one machine"
