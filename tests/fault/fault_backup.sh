#!/bin/sh
# Tests backup leases (fleet.backup) with some fast workers and one worker that is
# stopped or slow.
#
# usage: fault_backup.sh PATHLOOM LEDGER WORKFOLDER [short]
#
# 1. an undisturbed job without backup leases
# 2. one worker is stopped (SIGSTOP) in the middle of a task, whose lease would last for
#    100 s: meanwhile the others must end the arm, with the same hashes. Then the worker
#    continues, and it must be told that its result is not needed any more
# 3. not with `short`: three fast workers and a slow one, first without backup leases,
#    then with them. Their steps are mostly sleep (fail point worker.step.before), so
#    that two processors are enough for all workers. On busy processors backup leases
#    could not save time
set -u
. tests/fault/chaos_job.sh
begin_seeded "$1" "$2" "$3"
mode=${4:-long}

run_job() { # folder, options; in a subshell or the background
    tiny_job "$@" --set train.tau=40 --set train.phases=5 --set workers.ttl_ms=100000
}

seconds() { date +%s.%N; }
since() { # seconds
    echo "$(seconds) $1" | awk '{ printf "%.1f", $1 - $2 }'
}

make_corpus base modules docs
echo "1. undisturbed"
(run_job calm --set fleet.backup=off) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the store of the undisturbed run cannot be read, or has too few versions"

echo "2. a worker is stopped"
take_data calm stop
# Step 60 is in the middle of a task for all workers: a task of the base model has 40
# steps, too.
mkdir "$work/once"
PATHLOOM_FAILPOINT=worker.step.before@worker:stop:60 PATHLOOM_FAILPOINT_ONCE=$work/once \
    run_job stop >"$work/stop.out" 2>&1 &
job=$!
await_stopped
log=$work/stop/log/hub.log
start=$(seconds)
arm_ended() {
    "$pathloom" status --run "$work/stop" --json 2>/dev/null | tr '{' '\n' |
        grep -q '"arm":"mix".*"finished":true' || ! kill -0 "$job"
}
await 300 "the arm does not end while a worker is stopped" arm_ended
took=$(since "$start")
kill -CONT "$stopped"
job_ends "the run with a stopped worker"
grep -q 'backup.granted .*slow='"$name" "$log" || fail "no backup of a task of $name"
grep -q 'backup.settled .*stopped='"$name" "$log" || fail "$name was not told to stop"
same_facts calm stop || fail "versions differ from those of the undisturbed run"
fsck_is_clean stop || fail "fsck"
echo "the other workers ended in $took s while $name was stopped; its lease would have lasted 100 s"

# Prints the seconds from the start of the mixture's first task to the end of its last
# task.
mixture_took() { # folder
    sed -n 's/^\([^ ]*\) .*\(lease.granted\|task.done\) task=mix.*/\1/p' \
        "$work/$1/log/hub.log" | sed -n '1p;$p' | while read -r at; do
        date -u -d "$at" +%s.%N
    done | paste -s -d ' ' | awk '{ printf "%.1f", $2 - $1 }'
}

slow_job() { # folder, options
    take_data calm "$1"
    export PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:15
    tiny_job "$@" --set train.tau=60 --set train.phases=5 --set model.width=48 \
        --set train.batch=4 --set workers.ttl_ms=2000 >"$work/$1.out" 2>&1 &
    job=$!
    unset PATHLOOM_FAILPOINT
    until [ -s "$work/$1/proc/hub.address" ] && [ -s "$work/$1/run.yaml" ]; do
        kill -0 "$job" 2>/dev/null || fail "the run $1"
        sleep 0.05
    done
    PATHLOOM_FAILPOINT=worker.step.before:sleep:90 "$pathloom" worker \
        --run "$work/$1" --name slow >"$work/$1-slow.out" 2>&1 &
    stopped=$!
    job_ends "the run $1"
    kill "$stopped" 2>/dev/null
    wait "$stopped"
    stopped=
    took=$(mixture_took "$1")
}

if [ "$mode" != short ]; then
    echo "3. one worker of four is slow"
    slow_job without --set fleet.backup=off
    without=$took
    facts without || fail "the store of the run without backups cannot be read, or has too few versions"
    slow_job with
    same_facts without with || fail "versions with backups differ"
    echo "the mixture without backups $without s, with them $took s ($(grep -c \
        backup.granted "$work/with/log/hub.log") granted, $(grep -c \
        'backup.settled.*stopped=slow' "$work/with/log/hub.log") of them first)"
fi
rm -rf "$work"
