#!/bin/sh
# A job of the default size: the most memory that a process of each kind had is within a
# fifth of what `train` planned before it began.
#
# usage: memory_plan.sh PATHLOOM WORKFOLDER
#
# Runs from the project's root.
set -u
pathloom=$1
. tests/support/job.sh
own_folder "$2"

# The number of a kind of process in one object of the report.
number() { # object, process
    sed -n "/\"$1\"/,/}/s/.*\"$2\": *\([0-9]*\).*/\1/p" "$work/run/report.json"
}

make_corpus base modules store outer home net docs
"$pathloom" train --corpus "$work/corpus" --out "$work/run" --workers 2 \
    --set data.max_bytes=2M --set train.base_steps=8 --set train.tau=2 \
    --set train.phases=8 --set eval.baselines=none --set eval.max_tokens=2000 \
    --set eval.sample_tokens=0 >"$work/run.out" 2>&1 || fail "the job ends with $?"
grep '^plan ' -A 1 "$work/run.out"
grep '^memory ' "$work/run.out"
for process in worker home hub launcher; do
    planned=$(number memory_planned $process) peak=$(number memory_peak $process)
    [ "${planned:-0}" -gt 0 ] && [ "${peak:-0}" -gt 0 ] ||
        fail "report.json does not say what memory a $process had"
    [ $((peak * 10)) -le $((planned * 12)) ] && [ $((peak * 10)) -ge $((planned * 8)) ] ||
        fail "a $process was planned with $planned bytes and had $peak"
done
