#!/bin/sh
# Jobs whose homes do outer steps, and whose workers encode, on an emulated device end
# with the bytes of the CPU: every version and every state of a path. In one of them the
# home is killed by kill -9.
#
# usage: accel_job.sh PATHLOOM PATHLOOM_EMULATED WORKFOLDER [NAME ...]
set -u
pathloom=$1
emulated=$2
work=$3
shift 3
names=" $* "
. tests/chaos_job.sh
own_folder "$work"
make_corpus base modules docs
cpu=$pathloom

wanted() {
    [ "$names" = "  " ] || [ "${names#* "$case" }" != "$names" ]
}

job() { # program, folder, options; becomes the launcher
    pathloom=$1
    shift
    [ ! -d "$work/data" ] || { mkdir "$work/$1" && cp -r "$work/data" "$work/$1/"; }
    tiny_job "$@"
}

# Once, as soon as the mixture's first task is done.
kill_home() { # launcher
    until grep -q 'task.done.*task=mix/' "$work/$case.there/log/hub.log" 2>/dev/null; do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    pkill -9 -P "$1" -f ' home --bind'
}

# As many versions, and the same ones.
compare() {
    facts_of_run "$case.here"
    facts_of_run "$case.there"
    cmp -s "$work/$case.here.facts" "$work/$case.there.facts" && return 0
    diff "$work/$case.here.facts" "$work/$case.there.facts" | head -n 20
    fail "other bytes on the device"
}

has_device() { # process ...
    ! grep -l outer.fallback "$work/$case.there/log/"*.log || fail "it fell back"
    for log in "$@"; do
        grep -q 'outer.device.*cuda emulated' "$work/$case.there/log/$log.log" ||
            fail "$log does not say that it has a device"
    done
}

# name, kernels that must have run, options
same() {
    case=$1
    kernels=$2
    shift 2
    wanted || return 0
    (job "$cpu" "$case.here" "$@") >"$work/$case.here.out" 2>&1 || fail "the CPU's run"
    [ -d "$work/data" ] || cp -r "$work/$case.here/data" "$work/data"
    (
        export EMULATION_REPORT="$work/$case.kernels"
        job "$emulated" "$case.there" --set outer.device=cuda "$@"
    ) >"$work/$case.there.out" 2>&1 &
    launcher=$!
    [ "$case" != killed ] || kill_home "$launcher"
    wait "$launcher" || fail "the device's run"
    has_device home worker-1
    for kernel in $kernels; do
        grep -q "^${kernel}_kernel\$" "$work/$case.kernels" || fail "no ${kernel}_kernel"
    done
    compare
    [ "$case" != killed ] ||
        [ "$(grep -c outer.device "$work/$case.there/log/home.log")" -eq 2 ] ||
        fail "its home was not killed once"
    echo "$case: the CPU's bytes"
    rm -rf "$work/$case".*
}

# What a process says where there is no device: the CPU's program on this machine.
case=absent
if wanted; then
    "$cpu" home --store "$work/none" --outer-device auto >"$work/$case.auto.out" 2>&1 &
    home=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        grep -q home.ready "$work/$case.auto.out" && break
        sleep 0.2
    done
    kill "$home"
    wait "$home" || fail "a home that goes on without a device"
fi
if wanted && grep -q outer.device "$work/$case.auto.out"; then
    echo "$case: this machine has a device"
elif wanted; then
    grep -q 'outer.fallback.*CUDA' "$work/$case.auto.out" || fail "no word of it"
    "$cpu" home --store "$work/none" --outer-device cuda >"$work/$case.named.out" 2>&1
    code=$?
    if [ "$code" -eq 0 ] ||
        ! grep -q 'outer-device cuda: .*CUDA' "$work/$case.named.out"; then
        fail "a device by name, where there is none: exit $code"
    fi
    echo "$case: an error by name, else a line in the log"
fi

step="add_tile step_block add_blocks"
same diloco "f32 $step"
same i8 "i8 $step" --set codec.name=i8 --set codec.down=i8
same killed "i4 $step" --set codec.name=i4 --set train.tau=30
same e3m0 "e3m0 $step" --set codec.name=e3m0 --set codec.down=e3m0
same topk "topk_select topk_place add_values step_block" --set codec.name=topk
same present "topk_pack add_values add_present divide_present step_block" \
    --set outer.method=fedavg --set codec.name=topk --set codec.value_bits=2 \
    --set outer.mean=present
same noloco "i8 add_tile meet_one correct step_block" \
    --set outer.method=noloco --set codec.name=i8
same co2 "i4 measure_block $step" --set outer.method=co2 --set codec.name=i4
same streaming "topk_pack add_values step_block" --set outer.method=streaming \
    --set outer.overlap=1 --set codec.name=topk --set codec.value_bits=2
same eager "bf16 eager $step" --set outer.method=eager --set codec.name=bf16
same sketch16 "sketch_select sketch_cells sketch_take sketch_widen add_values" \
    --set codec.name=sketch16
same tagc "tail count sketch_gather shared $step" --set codec.name=tagc \
    --set codec.selector=tagc
same sidco "tail topk_select $step" --set codec.name=topk --set codec.selector=sidco

# Workers that train on the device use it for their updates as well, without being told:
# two threads at one device, one of which captures its steps as graphs.
case=trains
if wanted; then
    for outer in cpu auto; do
        folder=$case.here
        [ "$outer" = cpu ] || folder=$case.there
        (job "$emulated" "$folder" --set workers.backend=cuda --set codec.name=i4 \
            --set outer.device=$outer --set train.tau=4 --set train.phases=2 \
            --set train.base_steps=2) \
            >"$work/$folder.out" 2>&1 || fail "a run with outer.device=$outer"
    done
    has_device home worker-1 worker-2
    ! grep -q outer.device "$work/$case.here/log/home.log" || fail "a device nobody wanted"
    compare
    echo "$case: the same bytes with and without outer.device"
    "$emulated" bench codec --device cuda --json --run "$work/$case.there" \
        >"$work/$case.bench.out" || fail "bench codec --device cuda"
    [ "$(grep -o '"home_gb_per_s":[0-9.e-]*' "$work/$case.bench.out" |
        awk -F: '$2 > 0' | wc -l)" -eq 10 ] || fail "bench codec lacks rows"
    echo "bench: codecs on the device"
    "$emulated" doctor --run "$work/$case.there" >"$work/$case.doctor"
    grep -q "^ok    gpu workers .*3 on the first of 1, .* each with its context" \
        "$work/$case.doctor" || fail "the doctor: $(cat "$work/$case.doctor")"
    EMULATION_DEVICES=2 "$emulated" doctor --run "$work/$case.there" |
        grep -q "^ok    gpu workers .*2 on the first of 2," || fail "two devices"
    sed -i 's/^\( *count: \)3$/\140/' "$work/$case.there/run.yaml"
    "$emulated" doctor --run "$work/$case.there" |
        grep -q "^fail  gpu workers .*40 workers share a GPU" || fail "forty workers"
    echo "doctor: how many workers fit"
fi

# More workers than a device has memory for are refused before anything starts.
case=crowded
if wanted; then
    (job "$emulated" "$case" --set workers.backend=cuda --set workers.count=40) \
        >"$work/$case.out" 2>&1
    [ $? -eq 78 ] || fail "forty workers on one device"
    grep -q '40 workers share a GPU of which .* are free, and need .* each, .* together; set workers.count to [0-9]* or less' \
        "$work/$case.out" || fail "no number of workers that would fit"
    echo "$case: refused"
fi
