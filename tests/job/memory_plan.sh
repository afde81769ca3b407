#!/bin/sh
# Trains a job of the default size. No process may have more memory at its peak than the
# plan that `train` printed, because a machine that has just enough would then kill it.
# The plan of a worker, which decides how many fit on a machine, must be at most a fifth
# too high, without the 16 MiB of two transfers that wait only if the machine is busy.
# (Small processes are planned for every machine: what libraries and threads take
# differs between processors.) A worker must need at most 150 MiB, and keeps nothing
# from task to task: 20 times what it kept would exceed the plan.
#
# usage: memory_plan.sh PATHLOOM WORKFOLDER   (in the project's root)
set -u
. tests/support/job.sh
begin "$@"

# Prints the number that an object of the report has for a kind of process.
number() { # object, process
    sed -n "/\"$1\"/,/}/s/.*\"$2\": *\([0-9]*\).*/\1/p" "$work/run/report.json"
}

mkdir -p "$work/corpus/all"
cat base/*.[ch] modules/*.[ch] store/*.[ch] home/*.[ch] docs/*.md | head -c 1100000 |
    split -a 4 -C 8000 - "$work/corpus/all/"
"$pathloom" train --corpus "$work/corpus" --out "$work/run" --workers 2 \
    --set data.max_bytes=1M --set train.base_steps=2 --set train.tau=1 \
    --set train.phases=10 --set eval.baselines=none --set eval.max_tokens=2000 \
    --set eval.sample_tokens=0 >"$work/run.out" 2>&1 || fail "the job ends with $?"
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
[ $(((planned - (16 << 20)) * 5)) -le $((peak * 6)) ] ||
    fail "a worker was planned with $planned bytes and had only $peak"
[ "$peak" -le $((150 << 20)) ] || fail "a worker had $peak bytes at its peak, more than 150 MiB"
