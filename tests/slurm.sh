#!/bin/sh
# Tests workers that run as a job array of a real Slurm, while Slurm preempts, requeues
# and cancels them.
#
# usage: sh tests/slurm.sh [PATHLOOM]        (build/release/pathloom, built if missing)
#
# Starts a Slurm on 127.0.0.1: slurmctld, two slurmd ("nodes") and munged. Their
# configuration and state are in a temporary folder. A Slurm that already runs on the
# machine is not touched. If packages (slurm-wlm, munge) are missing, they are
# installed. Then the script uses deploy/slurm as a user does: one sbatch for the head,
# and one for an array of workers. While they train, workers are requeued, preempted by
# a job of higher priority, told that their time ends, and cancelled. The head is
# requeued, too. The modules must be those of an undisturbed run without Slurm, and no
# process may be left over.
#
# Exit codes: 0; 1 if the test failed; 77 if this machine cannot run it, and a line says
# why. Takes about four minutes, longer if the machine is busy.
set -u
cd "$(dirname "$0")/.." || exit 1
pathloom=${1:-}
service=slurm
. tests/support/service.sh

# ---- tools ----
PATH=$PATH:/usr/sbin:/sbin
export PATH
tools="slurmctld slurmd sbatch scontrol squeue scancel munged"
# shellcheck disable=SC2086 # $tools is a list of words
if [ -n "$(missing $tools)" ]; then
    command -v apt-get >/dev/null || skip "there is no $(missing $tools | tr '\n' ' ')and no apt-get"
    [ "$(id -u)" -eq 0 ] ||
        skip "as root, run: apt-get install -y slurm-wlm slurm-client munge"
    say "installing slurm-wlm and munge"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -q -y --no-install-recommends \
        slurm-wlm slurmctld slurmd slurm-client munge; } >/dev/null 2>&1 </dev/null
    [ -z "$(missing $tools)" ] ||
        skip "apt-get could not install slurm-wlm and munge (is there a network?)"
fi
[ -d /proc/self ] || skip "there is no /proc"
if [ -z "$pathloom" ]; then
    pathloom=build/release/pathloom
    [ -x "$pathloom" ] || sh tools/build.sh release pathloom || fail "the build"
fi
[ -x "$pathloom" ] || fail "there is no program $pathloom"
[ "${pathloom#/}" != "$pathloom" ] || pathloom=$PWD/$pathloom

# Removes Slurm's environment variables, because this script may itself run in a job of
# Slurm.
for name in $(env | sed -n 's/^\(\(SLURM\|SBATCH\|SQUEUE\|SCANCEL\|SALLOC\)[A-Z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done

# ---- the Slurm of this script ----
service_folder
mkdir "$work/state" "$work/log" "$work/munge" "$work/n1" "$work/n2" "$work/corpus"
chmod 755 "$work" "$work"/*
export SLURM_CONF="$work/slurm.conf"

free_ports 3

# Each node has two processors, however many the machine has.
cat >"$SLURM_CONF" <<END
ClusterName=pathloom-test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmdSpoolDir=$work/%n
StateSaveLocation=$work/state
SlurmctldLogFile=$work/log/slurmctld.log
SlurmdLogFile=$work/log/%n.log
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=30
SlurmctldTimeout=60
SlurmdTimeout=60
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2
PartitionName=spot Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=paid Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=off
END

dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 2>/dev/null
chmod 400 "$work/munge/key"
munged --force --num-threads=2 --socket="$work/munge/socket" \
    --key-file="$work/munge/key" --log-file="$work/munge/log" \
    --pid-file="$work/munge/pid" --seed-file="$work/munge/seed" \
    2>"$work/munged.out" || skip "munged does not start: $(cat "$work/munged.out")"
slurmctld -f "$SLURM_CONF" >"$work/slurmctld.out" 2>&1 ||
    skip "slurmctld does not start: $(tail -n 1 "$work/slurmctld.out")"
for node in n1 n2; do
    slurmd -f "$SLURM_CONF" -N $node >"$work/$node.out" 2>&1 ||
        skip "slurmd does not start: $(tail -n 1 "$work/$node.out")"
done
ready() {
    [ "$(sinfo -h -p spot -t idle -o %D)" = 2 ]
}
await 30 "the two nodes do not come up" ready
say "$(slurmctld -V), two nodes on loopback"

# ---- the run without Slurm ----
cp base/*.[ch] "$work/corpus/"
settings="--corpus $work/corpus $small_model --set train.tau=25 --set train.base_steps=50
    --set eval.max_tokens=2000"
calm() { # run, phases
    # shellcheck disable=SC2086 # $settings is several words
    "$pathloom" train --out "$work/$1" --workers 2 $settings --set "train.phases=$2" \
        >"$work/$1.out" 2>&1 || fail "a run without Slurm"
}
# Slurm acts slowly. So the number of phases is chosen so that a training takes about
# 70 s on this machine, which is long enough for all actions below.
begun=$(date +%s)
calm probe 40
phases=$((40 * 70 / ($(date +%s) - begun + 1)))
[ $phases -ge 200 ] || phases=200
[ $phases -le 1500 ] || phases=1500
settings="$settings --set train.phases=$phases"
calm calm "$phases"
hashes calm
say "trained without Slurm: $phases phases in $(($(date +%s) - begun)) s"

# ---- jobs ----
submit() { # options of sbatch, script and its arguments; sets `job`
    job=$(PATHLOOM=$pathloom sbatch --parsable --chdir="$work" \
        --output="$work/job-%j.out" "$@") || fail "sbatch $*"
}
state() { # job
    scontrol -o show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'
}
restarts() { # job
    scontrol -o show job "$1" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p'
}
is() { # job, state
    [ "$(state "$1")" = "$2" ]
}
log_of() { # task
    echo "$work/job-${array}-$1.out"
}
# Prints how many lines of a task's log match a pattern.
count() { # task, pattern
    grep -c "$2" "$(log_of "$1")" 2>/dev/null
}
has() { # task, pattern, how often
    [ "$(count "$1" "$2")" -ge "$3" ]
}
# True if the worker of this array task is ready and was not stopped since. Before it is
# ready, its script does not handle signals yet.
at_work() { # task
    awk '/worker.ready/ { up = 1 } /CANCELLED AT|process.end/ { up = 0 } END { exit !up }' \
        "$(log_of "$1")"
}
# Slurm lets a requeued job wait for two minutes. This function ends the wait.
at_once() { # job, how often it was requeued
    await 60 "job $1 does not get back into the queue" is_back "$1" "$2"
    hurry "$1"
    await 60 "job $1 is not started again" is_running "$1"
}
is_back() {
    [ "$(restarts "$1")" -ge "$2" ]
}
hurry() {
    scontrol update jobid="$1" StartTime=now >/dev/null 2>&1
}
is_running() { # hurries again, because another waiting job may have got the node
    is "$1" RUNNING || { hurry "$1" && false; }
}
done_tasks() {
    "$pathloom" status --run "$work/run" --json 2>/dev/null |
        sed -n 's/.*"arm": *"mix"[^}]*"tasks_done": *\([0-9]*\).*/\1/p'
}
reached() { # N: true if at least N per cent of all tasks are done
    n=$(done_tasks)
    [ "${n:-0}" -ge $((4 * phases * $1 / 100)) ]
}
trains() {
    ! is "$head" COMPLETED || fail "training ended before $1"
}

# shellcheck disable=SC2086
submit -p paid -w n1 -c 1 deploy/slurm/run.sbatch "$work/run" $settings
head=$job
submit --array=1-2 --output="$work/job-%A-%a.out" deploy/slurm/workers.sbatch "$work/run"
array=$job
await 120 "the workers do not train" reached 5
say "head is job $head, workers are array $array"

# A job with a mistake must not be requeued.
submit -p paid -w n2 deploy/slurm/workers.sbatch "$work/run" --backend nothing
await 60 "a wrong option does not end a job" is "$job" FAILED
[ "$(restarts "$job")" -eq 0 ] || fail "a wrong option was tried again"
trains "a wrong option"
say "a wrong option: FAILED, not requeued"

settled() {
    hurry "${array}_1"
    hurry "${array}_2"
    is "${array}_1" RUNNING && is "${array}_2" RUNNING && at_work 1 && at_work 2
}
await 60 "the array does not run" settled

before=$(count 1 "process.end status=ok")
before=${before:-0}
again=$(($(restarts "${array}_1") + 1))
scontrol requeue "${array}_1" || fail "scontrol requeue"
at_once "${array}_1" "$again"
await 60 "the workers do not work again" settled
has 1 "process.end status=ok" $((before + 1)) || fail "a requeued worker does not drain"
trains "a requeue"
say "requeued: the worker drained, its task runs again"

victim=$(squeue -h -r -w n2 -t RUNNING -o %K | head -n 1)
[ -n "$victim" ] || fail "no worker on the second node"
drained=$(count "$victim" "process.end status=ok")
again=$(($(restarts "${array}_$victim") + 1))
submit -p paid -N 1 -w n2 -n 2 --wrap "sleep 1"
paid=$job
await 60 "no worker is preempted" is_back "${array}_$victim" "$again"
await 60 "the job of higher priority does not end" is "$paid" COMPLETED
at_once "${array}_$victim" "$again"
await 60 "the workers do not work again" settled
has "$victim" "DUE TO PREEMPTION" 1 || fail "the log of the task does not show the preemption"
has "$victim" "process.end status=ok" $((drained + 1)) ||
    fail "a preempted worker does not drain"
trains "a preemption"
say "preempted: the worker drained, its task runs again"

again=$(($(restarts "${array}_1") + 1))
scancel --batch --signal=USR1 "${array}_1" || fail "scancel --signal"
at_once "${array}_1" "$again"
await 60 "the workers do not work again" settled
has 1 "the time limit is near" 1 || fail "the script of the worker did not handle USR1"
trains "the end of a worker's time"
say "time limit near (USR1): drained, put itself back into the queue"

expired=$("$pathloom" status --run "$work/run" --json |
    sed -n 's/.*"leases_expired": *\([0-9]*\).*/\1/p')
say "leases that ran out meanwhile: $expired (a worker that drains gives its task back)"

again=$(($(restarts "$head") + 1))
scontrol requeue "$head" || fail "scontrol requeue of the head"
at_once "$head" "$again"
moved() { # task
    now=$(cat "$work/run/proc/hub.address" 2>/dev/null) && [ -n "$now" ] &&
        [ "$now" = "$(sed -n 's/.*worker.ready hub=\([^ ]*\).*/\1/p' "$(log_of "$1")" |
            tail -n 1)" ]
}
await 60 "worker 1 does not follow the head" moved 1
await 60 "worker 2 does not follow the head" moved 2
trains "the head's requeue"
say "head requeued: hub and home continued at other addresses, the workers followed"

scancel "${array}_2" || fail "scancel"
await 60 "a cancelled task does not end" is "${array}_2" CANCELLED
trains "a cancellation"
say "cancelled: one worker is left"

# ---- the end ----
await 600 "training does not end" is "$head" COMPLETED
await 60 "the last worker does not see the end" is "${array}_1" COMPLETED
is "${array}_2" CANCELLED || fail "the cancelled task came back"
hashes run
cmp -s "$work/calm.hashes" "$work/run.hashes" || {
    diff "$work/calm.hashes" "$work/run.hashes"
    fail "the modules differ from those of the run without Slurm"
}
[ -z "$(squeue -h)" ] || fail "jobs are left: $(squeue -h)"
for pid in $(cat "$work"/n1.pid "$work"/n2.pid "$work/slurmctld.pid" "$work/munge/pid"); do
    kill "$pid"
done
nothing_left() {
    [ -z "$(ours)" ]
}
await 30 "processes are left: $(ours | tr '\n' ' ')" nothing_left
say "$(wc -l <"$work/run.hashes") modules, the same as without Slurm; nothing is left running"
