#!/bin/sh
# Tests whole jobs whose workers train on an emulated device, which workers.backend=auto
# finds. The jobs must end, `doctor` must say how many workers fit, and more workers
# must be refused. Without a device, auto means cpu. A job whose workers run on other
# machines needs no device.
#
# usage: gpu_job.sh PATHLOOM_EMULATED WORKFOLDER
set -u
pathloom=$1
work=$2
. tests/fault/chaos_job.sh
own_folder "$work"
make_corpus base modules docs

# Two workers train on one device. One of them captures its steps as graphs.
case=trains
(tiny_job "$case" --set codec.name=i4 \
    --set train.tau=4 --set train.phases=2 --set train.base_steps=2) \
    >"$work/$case.out" 2>&1 || fail "a run on the device"
grep -q 'worker.ready.*device="cuda .*emulated' "$work/$case/log/worker-1.log" ||
    fail "worker-1 does not say that it has a device"
grep -q '^device   cuda .*emulated' "$work/$case.out" ||
    fail "train does not say that auto took the device"
echo "$case: ended"

"$pathloom" doctor --run "$work/$case" >"$work/$case.doctor"
grep -q "^ok    gpu workers .*3 workers share the first of 1 GPUs and need " \
    "$work/$case.doctor" || fail "the doctor: $(cat "$work/$case.doctor")"
EMULATION_DEVICES=2 "$pathloom" doctor --run "$work/$case" |
    grep -q "^ok    gpu workers .*2 workers share the first of 2 GPUs" || fail "two devices"
# The choice of the backend also depends on the precision: this device does not compute
# in f32.
"$pathloom" doctor | grep -q "^ok    backend  *cuda .*emulated" || fail "auto: a device"
EMULATION_DEVICES=0 "$pathloom" doctor | grep -q "^ok    backend  *cpu " ||
    fail "auto: no device"
"$pathloom" bench step --precision f32 --set model.width=32 --set model.heads=2 \
    --set model.blocks=1 --set model.context=16 --set data.vocab=300 --set train.batch=1 |
    grep -q "^cpu f32" || fail "auto: f32"
echo "auto: cuda where a device can do what is asked for, else cpu"

sed -i 's/^\( *count: \)3$/\140/' "$work/$case/run.yaml"
"$pathloom" doctor --run "$work/$case" |
    grep -q "^fail  gpu workers .*40 workers share a GPU" || fail "forty workers"
echo "doctor: how many workers fit"

# If the device does not have enough memory for all workers, they are refused before
# anything starts.
case=crowded
(tiny_job "$case" --set workers.backend=cuda --set workers.count=40) \
    >"$work/$case.out" 2>&1
[ $? -eq 78 ] || fail "forty workers on one device"
grep -q '40 workers share a GPU with .* of free memory, but need .* each and the launcher .*, .* together; set workers.count to [0-9]* or less' \
    "$work/$case.out" || fail "no number of workers that would fit"
echo "$case: refused"

# The head of a job runs on a machine without a device. A worker that has a device joins
# the job by itself.
case="head"
(EMULATION_DEVICES=0 tiny_job "$case" --set workers.backend=cuda \
    --set workers.local=false --set train.tau=4 --set train.phases=2 \
    --set train.base_steps=2) >"$work/$case.out" 2>&1 &
job=$!
"$pathloom" worker --run "$work/$case" --cache "$work/$case.cache" \
    >"$work/$case.worker" 2>&1 &
worker=$!
wait "$job" || fail "a head without a device: $(tail -n 3 "$work/$case.out")"
wait "$worker" || fail "its worker did not end with the job: $(tail -n 1 "$work/$case.worker")"
grep -q 'worker.ready.*device="cuda' "$work/$case.worker" || fail "its worker has none"
echo "$case: ended"
