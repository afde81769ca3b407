#!/bin/sh
# Tests the decisions of the scripts in deploy/slurm without Slurm. Instead of Slurm's
# `scontrol` there is a script that records its arguments and ends its caller, as a
# requeue does.
#
# usage: slurm_scripts.sh PATHLOOM WORKFOLDER
#
# tests/slurm.sh tests the same scripts with a real Slurm.
set -u
. tests/support/script.sh
begin "$@"
mkdir "$work/bin"
run=$work/run
cat >"$work/bin/scontrol" <<END
#!/bin/sh
echo "\$*" >>"$work/scontrol.log"
kill -KILL \$PPID
END
chmod +x "$work/bin/scontrol"

clean() {
    # shellcheck disable=SC2046 # the list is several words
    kill -9 $(pgrep -f "$work/run") 2>/dev/null
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

# Starts a script as Slurm does. The script's output is appended to NAME.out.
batch() { # name, job, script, arguments
    out=$work/$1.out
    job=$2
    script=deploy/slurm/$3
    shift 3
    env PATH="$work/bin:$PATH" PATHLOOM="$pathloom" SLURM_JOB_ID="$job" \
        SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID="$job" "$@" sh "$script" "$run" \
        ${more:-} >>"$out" 2>&1
}
ends() { # exit code, what, command
    wanted=$1
    what=$2
    shift 2
    "$@"
    code=$?
    [ "$code" -eq "$wanted" ] || fail "$what: exit code $code, not $wanted"
}
requeued() { # expected number of requeues, job
    [ "$(grep -cx "requeue $2" "$work/scontrol.log" 2>/dev/null)" -eq "$1" ] ||
        fail "job $2 was not requeued $1 times"
}

# ---- there is no job for the workers ----
ends 137 "no job" batch early 1 workers.sbatch PATHLOOM_WAIT_S=0 PATHLOOM_REQUEUES=2
ends 137 "no job, again" batch early 1 workers.sbatch PATHLOOM_WAIT_S=0 PATHLOOM_REQUEUES=2
requeued 2 1
ends 75 "no job, too often" batch early 1 workers.sbatch PATHLOOM_WAIT_S=0 \
    PATHLOOM_REQUEUES=2
requeued 2 1
echo "no job: the workers were requeued twice, and then ended"

# ---- jobs with a mistake ----
more="--corpus nowhere"
ends 66 "no corpus" batch head 2 run.sbatch
requeued 0 2
settings="--corpus base $small_model --set train.tau=25 --set train.phases=30
    --set train.base_steps=50 --set eval.max_tokens=2000 --set net.advertise=127.0.0.1"
more=$settings
batch head 2 run.sbatch &
head=$!
await 120 "no hub" test -s "$run/proc/hub.address"
more="--backend nothing"
ends 78 "a wrong option" batch wrong 3 workers.sbatch
requeued 0 3
echo "a job with a mistake is not requeued"

# ---- a time limit is near ----
# Prints the process id of the shell that runs a script, because Slurm signals this
# shell.
shell_of() { # script
    pgrep -f "^sh deploy/slurm/$1 $run" | head -n 1
}
worker_ready() {
    grep -q worker.ready "$work/worker.out"
}
more=
batch worker 4 workers.sbatch &
worker=$!
await 120 "the worker does not start" worker_ready
kill -USR1 "$(shell_of workers.sbatch)"
ends 137 "a worker at its time limit" wait $worker
requeued 1 4
grep -q "process.end status=ok" "$work/worker.out" || fail "the worker does not drain"

batch worker 4 workers.sbatch &
worker=$!
trained() {
    "$pathloom" status --run "$run" --json | grep -q '"arm": *"mix"[^}]*"tasks_done": *[1-9]'
}
await 120 "nothing is trained" trained
kill -USR1 "$(shell_of run.sbatch)"
ends 137 "the head at its time limit" wait $head
requeued 1 2
more=$settings
batch head 2 run.sbatch &
head=$!
ends 0 "the head that continues" wait $head
ends 0 "the worker that followed the head" wait $worker
grep -q "hub ended or moved" "$work/worker.out" || fail "the worker did not follow"
more=
ends 0 "a worker that comes late" batch late 5 workers.sbatch
requeued 1 4
requeued 0 5
left=$(pgrep -f "$work/run" | wc -l)
[ "$left" -eq 0 ] || fail "$left processes are left"
echo "time limits: drained, requeued, went on; all ended with 0"
rm -rf "$work"
