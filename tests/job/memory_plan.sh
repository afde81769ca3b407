#!/bin/sh
# Trains a job of the default size. No process may have more memory at its peak than the
# plan that `train` printed, because a machine that has just enough would then kill it.
# The plan of a worker, which decides how many fit on a machine, must be at most a fifth
# too high. (Small processes are planned for every machine: what libraries and threads
# take differs between processors.) A worker must need at most 150 MiB, and at the end at
# most a twelfth more than after its first phases: it keeps nothing from phase to phase.
#
# usage: memory_plan.sh PATHLOOM WORKFOLDER   (in the project's root)
set -u
pathloom=$1
. tests/support/job.sh
own_folder "$2"

# Prints the number that an object of the report has for a kind of process.
number() { # object, process
    sed -n "/\"$1\"/,/}/s/.*\"$2\": *\([0-9]*\).*/\1/p" "$work/run/report.json"
}

# Prints the largest memory, in KiB, that any worker of the job has used so far.
worker_peak() {
    for pid in $(pgrep -P "$job" -f "pathloom worker"); do
        sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null
    done | sort -n | tail -n 1
}

mkdir -p "$work/corpus/all"
cat base/*.[ch] modules/*.[ch] store/*.[ch] home/*.[ch] docs/*.md | head -c 1100000 |
    split -a 4 -C 8000 - "$work/corpus/all/"
"$pathloom" train --corpus "$work/corpus" --out "$work/run" --workers 2 \
    --set data.max_bytes=1M --set train.base_steps=2 --set train.tau=1 \
    --set train.phases=10 --set eval.baselines=none --set eval.max_tokens=2000 \
    --set eval.sample_tokens=0 >"$work/run.out" 2>&1 &
job=$! early=0
while kill -0 "$job" 2>/dev/null; do
    peak=$(worker_peak)
    done_tasks=$(grep -cs 'task.done task=mix' "$work/run/log/hub.log")
    [ "${done_tasks:-0}" -gt $((4 * 5)) ] || early=$peak # until half of the phases are done
    sleep 0.2
done
wait "$job" || fail "the job ends with $?"
job=
grep '^plan ' -A 1 "$work/run.out"
grep '^memory ' "$work/run.out"
for process in worker home hub launcher; do
    planned=$(number memory_planned $process) peak=$(number memory_peak $process)
    [ "${planned:-0}" -gt 0 ] && [ "${peak:-0}" -gt 0 ] ||
        fail "report.json does not say what memory a $process had"
    echo "$process: planned with $planned bytes, had $peak"
    [ "$peak" -le "$planned" ] || fail "a $process was planned with $planned bytes and had $peak"
done
peak=$(number memory_peak worker) planned=$(number memory_planned worker)
[ $((planned * 5)) -le $((peak * 6)) ] ||
    fail "a worker was planned with $planned bytes and had only $peak"
peak=$((peak / 1024))
[ "$peak" -le $((150 * 1024)) ] || fail "a worker had $peak KiB at its peak, more than 150 MiB"
[ "${early:-0}" -gt 0 ] || fail "no worker was seen in the first half of the phases"
[ $((peak * 12)) -le $((early * 13)) ] ||
    fail "a worker had $early KiB at most in the first half of the phases, and $peak at the end"
echo "a worker had $early KiB at most in the first half of the phases, $peak KiB in all"
