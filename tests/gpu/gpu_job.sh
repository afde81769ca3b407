#!/bin/sh
# Tests whole jobs whose workers train on an emulated device, which workers.backend=auto
# finds. The jobs must end, `doctor` must say how many workers fit, and more workers
# must be refused. Without a device, auto must choose cpu. If all workers of a job run
# on other machines, the machine of the launcher needs no device.
#
# usage: gpu_job.sh PATHLOOM_EMULATED WORKFOLDER
set -u
. tests/fault/chaos_job.sh
begin "$@"
make_corpus base docs

device_job() { # folder, options; in a subshell or in the background
    tiny_job "$@" --set train.tau=2 --set train.phases=2 --set train.base_steps=1 \
        --set eval.max_tokens=100
}

# Three workers train on one device.
case=trains
(device_job "$case" --set codec.name=i4) >"$work/$case.out" 2>&1 || {
    ! grep '^skipped:' "$work/$case.out" || exit 77
    fail "the run on the device failed"
}
grep -q 'worker.ready.*device="cuda .*emulated' "$work/$case/log/worker-1.log" ||
    fail "worker-1 does not say that it has a device"
grep -q '^device   cuda .*emulated' "$work/$case.out" ||
    fail "train does not say that auto took the device"
echo "$case: ended"

"$pathloom" doctor --run "$work/$case" >"$work/$case.doctor"
grep -q "^ok    gpu workers .*3 workers share the first of 1 GPUs and need " \
    "$work/$case.doctor" || fail "doctor does not say that three workers fit: $(cat "$work/$case.doctor")"
EMULATION_DEVICES=2 "$pathloom" doctor --run "$work/$case" |
    grep -q "^ok    gpu workers .*2 workers share the first of 2 GPUs" ||
    fail "doctor does not divide the workers among two devices"
# The choice of the backend also depends on the precision: this device does not compute
# in f32.
"$pathloom" doctor | grep -q "^ok    backend  *cuda .*emulated" ||
    fail "auto does not choose the device"
EMULATION_DEVICES=0 "$pathloom" doctor | grep -q "^ok    backend  *cpu " ||
    fail "auto does not choose the cpu without a device"
"$pathloom" bench step --precision f32 --set model.width=32 --set model.heads=2 \
    --set model.blocks=1 --set model.context=16 --set data.vocab=300 --set train.batch=1 |
    grep -q "^cpu f32" || fail "auto does not choose the cpu for f32"
echo "auto: chose cuda where the device has the precision, and cpu elsewhere"

sed -i 's/^\( *count: \)3$/\140/' "$work/$case/run.yaml"
"$pathloom" doctor --run "$work/$case" |
    grep -q "^fail  gpu workers .*40 workers share a GPU" ||
    fail "doctor accepts forty workers"
echo "doctor: said how many workers fit"

# If the device does not have enough memory for all workers, they are refused before
# anything starts.
case=crowded
(tiny_job "$case" --set workers.backend=cuda --set workers.count=40) \
    >"$work/$case.out" 2>&1
[ $? -eq 78 ] || fail "train did not refuse forty workers on one device"
grep -q '40 workers share a GPU with .* of free memory, but need .* each and the launcher .*, .* together; set workers.count to [0-9]* or less' \
    "$work/$case.out" || fail "train does not say how many workers would fit"
echo "$case: refused"

# The launcher runs on a machine without a device. A worker with a device is started by
# hand and joins the job.
take_data trains head
case="head"
(EMULATION_DEVICES=0 device_job "$case" --set workers.backend=cuda \
    --set workers.local=false) >"$work/$case.out" 2>&1 &
job=$!
"$pathloom" worker --run "$work/$case" --cache "$work/$case.cache" \
    >"$work/$case.worker" 2>&1 &
worker=$!
wait "$job" || fail "the job without a device failed: $(tail -n 3 "$work/$case.out")"
wait "$worker" || fail "the worker did not end with the job: $(tail -n 1 "$work/$case.worker")"
grep -q 'worker.ready.*device="cuda' "$work/$case.worker" ||
    fail "the worker does not say that it has a device"
echo "$case: ended"
