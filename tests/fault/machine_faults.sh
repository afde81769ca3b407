#!/bin/sh
# Tests that a fault of a worker's machine does not end the job while work is possible.
#
# usage: machine_faults.sh PATHLOOM WORKFOLDER
#
# One of two workers ends once because of a disk error: it is started again. The disk with
# the cache of the job's only worker is full before the base model has begun: `train` says
# so, and the job goes on as soon as there is space. Both runs must end with the hashes of
# an undisturbed run. If both workers end each time, the job ends with the error of the
# machine, unless other machines can join. These cases wait most of the time, so they run
# at once. The one with the full disk is left out if the machine does not permit mounts.
set -u
. tests/support/job.sh

# Two workers that end after each of 24 tasks reach eight ends before the job is done.
run() { # folder, options
    small_job "$@" --set train.tau=4 --set train.phases=6 --set train.base_steps=4
}
check() { # folder
    hashes "$1"
    cmp "$work/calm.hashes" "$work/$1.hashes" || fail "the hashes of $1 differ"
}

one_fault() {
    take_data calm once
    mkdir "$work/points"
    (PATHLOOM_FAILPOINT=worker.done.before@worker:error:2 PATHLOOM_FAILPOINT_ONCE=$work/points
        export PATHLOOM_FAILPOINT PATHLOOM_FAILPOINT_ONCE
        run once) >"$work/once.out" 2>&1 || fail "a disk error of one worker ended the job"
    [ -n "$(ls "$work/points")" ] || fail "the disk error did not come"
    grep -q 'worker-[12] cannot work on this machine (.*) and was started again' "$work/once.out" ||
        fail "train does not say what happened to the worker"
    check once
    echo "a worker with a disk error is started again"
}

always_faults() {
    take_data calm always
    (PATHLOOM_FAILPOINT=worker.done.before@worker:error:1
        export PATHLOOM_FAILPOINT
        run always) >"$work/always.out" 2>&1
    code=$?
    [ "$code" -eq 74 ] || fail "two workers with disk errors: exit code $code instead of 74"
    grep -q 'process worker-[12] ended 8 times in a row: ' "$work/always.out" ||
        fail "the job ended without saying why"
    echo "if no worker can work, the job ends with the reason"
}

eight_ends() {
    [ "$(grep -c 'process.failed' "$work/open/log/worker-1.log")" -ge 8 ]
}

# Other machines can join an encrypted job, so it outlives its own worker.
others_may_join() {
    take_data calm open
    (PATHLOOM_FAILPOINT=worker.done.before@worker:error:1
        export PATHLOOM_FAILPOINT
        run open --workers 1 --set net.encrypt=on) >"$work/open.out" 2>&1 &
    job=$!
    await_in_job 120 "the worker is not started again" "the job ended with its own worker" \
        grep 'worker-1 cannot work on this machine .* (7 restarts so far)' "$work/open.out"
    await 60 "the worker does not end for the eighth time" eight_ends
    sleep 1
    kill -0 "$job" 2>/dev/null || fail "the job ended with its own worker, although others may join"
    kill "$job"
    wait "$job"
    job=
    echo "a job that others can join outlives its own worker"
}

full_disk() {
    mkdir -p "$work/full/cache"
    mount -t tmpfs -o size=20k tmpfs "$work/full/cache" 2>/dev/null || return 77
    (run full --workers 1) >"$work/full.out" 2>&1 &
    job=$!
    await_in_job 60 "train does not say that the disk is full" "a full disk ended the job" \
        grep 'worker-1 gets no task for .* s: .*No space left' "$work/full.out"
    sleep 1 # before, the third failure ended the job within this time
    kill -0 $job 2>/dev/null || fail "a full disk ended the job"
    # With the source, mount takes no options (the user's number) from the table of mounts.
    mount -o remount,size=50m tmpfs "$work/full/cache" || fail "the disk cannot be made larger"
    wait $job || fail "the job did not go on when there was space"
    check full
    echo "a full disk delays the job until there is space"
}

# In a mount namespace of its own the script begins again, with this argument.
[ "$1" != --full ] || {
    pathloom=$2 work=$3
    full_disk
    exit
}
begin "$@"
make_corpus base corpus
(run calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
hashes calm
one_fault &
cases=$!
always_faults &
cases="$cases $!"
others_may_join &
cases="$cases $!"
take_data calm full
user=
unshare --mount true 2>/dev/null || user=--map-root-user
# shellcheck disable=SC2086 # $user is empty or one word
unshare $user --mount true 2>/dev/null && code=0 || code=77
# shellcheck disable=SC2086
[ $code -ne 0 ] || unshare $user --mount sh "$0" --full "$pathloom" "$work" || code=$?
case $code in
0) ;;
77) echo "left out: this machine does not permit mounts" ;;
*) found=1 ;;
esac
for process in $cases; do
    wait "$process" || found=1
done
exit $found
