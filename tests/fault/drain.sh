#!/bin/sh
# Tests that workers can leave a running job.
#
# usage: drain.sh PATHLOOM WORKFOLDER
#
# Two workers are told to leave while they train a long task: the first one by SIGTERM
# with one second of grace, the second one by SIGUSR1 twice. Each must give the task
# back and end with exit code 130. The task must be leased again at once, although its
# lease would last ten minutes.
set -u
. tests/support/script.sh
begin "$@"
mkdir "$work/corpus"
cp base/*.[ch] "$work/corpus/"
. tests/support/by_hand.sh
leased() { # worker
    grep -q "lease.granted.*worker=$1" "$work/hub.out"
}
ended() {
    ! kill -0 "$1" 2>/dev/null
}

start home "$pathloom" home --run "$work/run"
start hub "$pathloom" hub --run "$work/run" --set workers.ttl_ms=600000
await 600 "no hub" test -s "$work/run/proc/hub.address"
# shellcheck disable=SC2086 # $small_model is a list of words
start train "$pathloom" train --corpus "$work/corpus" --out "$work/run" $small_model \
    --set net.attach=true --set model.width=64 --set train.batch=8 \
    --set train.base_steps=500000 --set train.tau=10000

leave() { # worker, signals
    name=$1
    shift
    sleep 0.5 # until the worker has begun its task
    kill "-$1" "$pid"
    # A second signal soon after the first one counts as the first one. A busy worker may
    # handle the first one late, so the second one is repeated.
    for _ in $(seq 200); do
        [ $# -eq 2 ] && ! ended "$pid" || break
        sleep 3
        kill "-$2" "$pid" 2>/dev/null
    done
    await 600 "$name does not end" ended "$pid"
    wait "$pid"
    code=$?
    [ "$code" -eq 130 ] || fail "$name ended with exit code $code instead of 130"
    await 600 "the hub did not take the task of $name back" grep -q "lease.released.*worker=$name" \
        "$work/hub.out"
}
start first "$pathloom" worker --run "$work/run" --name first --grace-s 1
await 600 "the first worker does not train" leased first
leave first TERM
start second "$pathloom" worker --run "$work/run" --name second
await 600 "the task is not leased again" leased second
leave second USR1 USR1
start third "$pathloom" worker --run "$work/run" --name third
await 600 "the task is not leased a third time" leased third
[ "$(grep -c "lease.expired" "$work/hub.out")" -eq 0 ] || fail "a lease expired"
echo "two workers left, and no task waited for the end of a lease"
