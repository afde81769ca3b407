#!/bin/sh
# Tests that workers on another machine survive the loss of the machine with hub and home.
#
# usage: moved_hub.sh PATHLOOM WORKFOLDER
#
# The two machines are two network namespaces with one link between them. The hub's
# address in the token is a name. First contacts with a wrong name and with a closed port
# must end at once with different sentences. Two workers join. Then everything on the
# first machine is killed and its run is deleted: only an older backup is left. The job is
# continued from the backup under a different address and with a different port of the
# home. The old workers must find it by the name, go on without being restarted, and the
# modules must have the hashes of an undisturbed job. One worker is then drained. If the
# machine does not permit network namespaces, the test is skipped (77).
set -u
PATH=$PATH:/usr/sbin:/sbin
here=10.77.0.1
moved=10.77.0.3
there=10.77.0.2
. tests/support/job.sh
[ "${1-}" = --inside ] || enter_network --mount "$@"
shift
begin "$@"
mkdir "$work/second"
. tests/support/by_hand.sh

# ---- two machines, and a name service of one file ----
echo "hosts: files" >"$work/nsswitch.conf"
printf '127.0.0.1 localhost\n%s hub.test\n' "$here" >"$work/hosts"
mount --bind "$work/nsswitch.conf" /etc/nsswitch.conf 2>/dev/null &&
    mount --bind "$work/hosts" /etc/hosts 2>/dev/null ||
    skip "this machine cannot replace /etc/hosts for one test"
second_machine 1800

# ---- the jobs ----
make_corpus base
run() { # folder, options
    small_job "$@" --set train.tau=10 --set train.phases=20 --set train.base_steps=10
}
remote="--set workers.local=false --set net.advertise=hub.test
    --set net.hub=tcp://0.0.0.0:7000"
passes alone "the job on one machine" run alone
take_data alone run
# shellcheck disable=SC2086 # $remote is a list of words
start train run run $remote --set net.home=tcp://0.0.0.0:7001
job=$pid
hashes alone
await 600 "no hub" test -s "$work/run/proc/hub.address"
grep -q '^tcp://hub.test:7000#' "$work/run/proc/hub.address" || fail "the address has no name"

# ---- first contacts ----
token=$("$pathloom" key invite --run "$work/run" --uses 3) || fail "key invite"
token=${token#pathloom join }
refused_there() { # name, exit code, words of the message, token
    refused "$2" "$3" "$second" timeout 120 "$pathloom" join "$4" --key "$work/second/$1.key"
    [ ! -e "$work/second/$1.key" ] || fail "$1: a key was made"
}
rest=${token#pl1.hub.test:7000}
refused_there no-name 69 "no machine with the name nosuchname" "pl1.nosuchname:7000$rest"
refused_there no-port 69 "nothing listens at tcp://hub.test:7009" "pl1.hub.test:7009$rest"
echo "a wrong name and a closed port have different sentences"

# ---- two workers; a backup; the first machine is lost ----
"$second" "$pathloom" join "$token" --only-enrol --name three --key "$work/second/three.key" \
    >"$work/enrol.out" 2>&1 || fail "join --only-enrol"
slow="env PATHLOOM_FAILPOINT=worker.step.before:sleep:30" # the job lasts longer than the backup
# shellcheck disable=SC2086 # $slow is a list of words
start one $slow "$second" "$pathloom" join "$token" --name one --key "$work/second/one.key"
one=$pid
# shellcheck disable=SC2086 # as above
start two $slow "$second" "$pathloom" join "$token" --name two --key "$work/second/two.key"
two=$pid
await 600 "phase 2 is not reached" sh -c \
    "grep -q 'lease.granted task=mix.*phase=2' '$work/run/log/hub.log'"
passes backup "store backup" "$pathloom" store backup "$work/backup" --job --run "$work/run"
for secret in keys keys/hub.key keys/admin.key; do
    [ "$(stat -c %a "$work/backup/$secret")" = "$(stat -c %a "$work/run/$secret")" ] ||
        fail "the mode of $secret in the backup"
done
[ "$(stat -c %a "$work/backup")" = 700 ] || fail "others can read the backup"
await 600 "phase 4 is not reached" sh -c \
    "grep -q 'lease.granted task=mix.*phase=4' '$work/run/log/hub.log'"
kill -9 "$job"
await 100 "the hub lives" sh -c "! '$pathloom' status --run '$work/run' >/dev/null 2>&1"
rm -rf "$work/run"
# shellcheck disable=SC2086 # as above
start three $slow "$second" "$pathloom" join "$token" --name three --key "$work/second/three.key"
await 200 "a machine that joined before does not wait" \
    grep -q 'nothing listens .*; this machine has joined before' "$work/three.out"
for name in one two; do
    await 200 "$name does not say that the hub is away" grep -q 'peer.away.*peer=hub' \
        "$work/$name.out"
    await 200 "$name does not say that the home is away" grep -q 'peer.away.*peer=home-1' \
        "$work/$name.out"
    grep -q 'peer.away.*gives_up_in="2[34]h' "$work/$name.out" ||
        fail "$name does not wait for a day"
done
echo "the machine with hub and home is lost; the workers wait"

# ---- the job goes on elsewhere, with the same keys ----
ip addr del "$here/24" dev near
ip addr add "$moved/24" dev near
printf '127.0.0.1 localhost\n%s hub.test\n' "$moved" >"$work/hosts"
passes restore "store restore" "$pathloom" store restore "$work/backup" --job --run "$work/again"
refused 73 '' "$pathloom" store restore "$work/backup" --job --run "$work/again"
# shellcheck disable=SC2086
start again "$pathloom" train --out "$work/again" $remote --set net.home=tcp://0.0.0.0:7003
job=$pid
for name in one two three; do
    # three did not work before, so for it the hub is not back but new
    found='peer.back.*peer=hub\|homes.moved'
    [ $name != three ] || found="$found\|worker.ready hub="
    await 300 "$name does not find the hub" grep -q "$found" "$work/$name.out"
    await 300 "$name gets no task" grep -q "lease.granted.*worker=$name" \
        "$work/again/log/hub.log"
done
await 100 "no worker learns the home's new address" grep -q 'homes.moved' "$work/one.out"

# ---- one worker is removed ----
"$pathloom" drain one --run "$work/again" >"$work/drain.out" 2>&1 || fail "drain"
await 300 "the drained worker does not end" sh -c "! kill -0 $one 2>/dev/null"
wait "$one" || fail "the drained worker ended with $?"
grep -q 'worker.dismissed.*drain' "$work/one.out" || fail "the drained worker does not say why it ends"
await 100 "train does not say that a worker left" grep -q '^worker  *one has left' "$work/again.out"
await 1800 "the job does not end" sh -c "! kill -0 $job 2>/dev/null"
wait "$job" || fail "the job after the move ended with $?"
await 100 "the last worker does not end" sh -c "! kill -0 $two 2>/dev/null"
wait "$two" || fail "the last worker ended with $?"
hashes again
cmp "$work/alone.hashes" "$work/again.hashes" ||
    fail "the modules differ from those of the undisturbed job"
echo "$(wc -l <"$work/again.hashes") modules, the same as of an undisturbed job"
