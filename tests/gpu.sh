#!/bin/sh
# Tests the cuda backend on a GPU: compares every kernel with the reference, measures
# rates for models of real sizes, and PyTorch's rates for the same models, trains a job
# twice, and runs the same tests under compute-sanitizer. Judges each figure by what is
# expected of it: PASS, FAIL or NOT MEASURED. All parts but the last two need about
# twelve minutes.
#
#   sh tests/gpu.sh [--parts "build checks rates ..."] [build folder]
#
# The parts, the most useful ones first (default: all):
#
#   build      builds only the modules, for this GPU
#   checks     compares with the reference: every operation, models, the update, int8,
#              each tensor's gradient, the loss of 200 steps
#   rates      measures steps at 150M, 1.3B, 13.8M (also with Muon) and 2.16M,
#              attention at context 4096
#   job        trains a small job twice; its modules must have the same bytes. Needs a
#              program `pathloom` with the cuda backend (environment variable PATHLOOM;
#              default: build/release/pathloom)
#   rivals     measures torch_step.py at 150M and 1.3B, if PyTorch sees the GPU: each
#              way of attention, modes of torch.compile, the same precisions and bf16
#   more       measures decoding at 150M and 1.3B, also in int8
#   sanitizer  runs memcheck, racecheck, synccheck, initcheck, if compute-sanitizer
#              exists
#
# 150M and 1.3B are the presets dense-150m and dense-1b.
#
# Needs the CUDA toolkit, a C and a C++ compiler and CMake, but no other package of
# packages.txt. Several calls with the same build folder (default: build/gpu) add to one
# table. If a call may last only ten minutes, call it with "build checks rates job" and
# then with "rivals". A call with `build` begins a new table.
#
# The table goes to stdout and to gpu.md in the folder OUT (default: the build folder).
# The output of this call's commands goes to gpu.log in the same folder. Both files are
# written row by row, so that the rows remain if the call is ended early. Each command
# has its own time limit, and the whole call ends after GPU_SECONDS (default 720). Parts
# that were left out are named. For each of the parts checks, rates, job and rivals of
# the call, a share of the time is reserved, which earlier parts cannot use.
#
# Exit code: 0; 1 if a check failed; 2 if a figure is not what is expected, or was not
# measured; 64 for a wrong argument; 77 if this machine has no GPU or no toolkit.
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
cd "$(dirname "$0")/.." || exit 70
parts="build checks rates job rivals more sanitizer"
start=$(date +%s)
seconds=${GPU_SECONDS:-720}
failed=0
missed=0
kept=0
# the test X is the program test_X_gpu (cmake/gpu_tests.cmake)
tests="ops reference model model_curve probe"

say() {
    echo "gpu: $(($(date +%s) - start)) s: $*"
}

lack() {
    echo "gpu: $*" >&2
    exit 77
}

misuse() {
    echo "gpu: $*; see the comment at the start of $0" >&2
    exit 64
}

known=" $parts "
build=build/gpu
while [ $# -gt 0 ]; do
    case $1 in
    --parts)
        [ $# -gt 1 ] || misuse "--parts needs a list"
        parts=$2
        shift
        ;;
    -*) misuse "unknown option $1" ;;
    *) build=$1 ;;
    esac
    shift
done
[ -n "$parts" ] || misuse "--parts is empty"
for part in $parts; do
    case $known in
    *" $part "*) ;;
    *) misuse "there is no part \"$part\"" ;;
    esac
done
case $seconds in
'' | *[!0-9]*) misuse "GPU_SECONDS is \"$seconds\", not a number of seconds" ;;
esac

# ---- the tools of this machine ----

# The toolkit and the driver's tools may not be on PATH.
for folder in /usr/local/cuda/bin /usr/local/nvidia/bin; do
    [ ! -d "$folder" ] || PATH=$PATH:$folder
done
for tool in nvcc cmake c++ timeout; do
    command -v "$tool" >/dev/null || lack "$tool is missing: see the head of $0"
done
gpu=
if command -v nvidia-smi >/dev/null; then
    gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader |
        head -n 1)
fi
[ -n "$gpu" ] || lack "nvidia-smi names no GPU"
capability=$(printf '%s' "${gpu##*, }" | tr -d '.')
case $capability in
'' | *[!0-9]*) lack "nvidia-smi names no GPU with a compute capability: \"$gpu\"" ;;
esac
[ "$capability" -ge 80 ] || lack "$gpu: the kernels need compute capability 8.0"
mkdir -p "$build" || exit 70
build=$(cd "$build" && pwd)
out=${OUT:-$build}
mkdir -p "$out" || exit 70
out=$(cd "$out" && pwd)
log=$out/gpu.log
rows=$build/gpu.rows
: >"$log" || exit 70
say "$gpu"

# cuBLAS may be in Python's packages and not in the toolkit. Then the build needs its
# headers, and the programs need its library.
toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
python=$(command -v python3)
if [ ! -f "$toolkit/include/cublasLt.h" ] && [ -n "$python" ]; then
    for header in $("$python" -c 'import site, sys
for p in site.getsitepackages() + sys.path: print(p)' | sort -u |
        while read -r p; do ls "$p"/nvidia/*/include/cublasLt.h 2>/dev/null; done); do
        include=$(dirname "$header")
        say "cuBLAS is taken from $(dirname "$include")"
        CPATH=$include${CPATH:+:$CPATH}
        LD_LIBRARY_PATH=${include%/*}/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        export CPATH LD_LIBRARY_PATH
        break
    done
fi

# limited SECONDS NAME COMMAND...: runs a command. Its time limit is SECONDS, or the
# time that is left for this part if that is less. Its output goes to the log and to
# $build/NAME.out. Exit code 124: it ran longer than SECONDS, so a check has failed (a
# kernel hangs). Exit code 125: too little time was left.
limited() {
    limit=$1
    name=$2
    shift 2
    left=$((seconds - kept - ($(date +%s) - start)))
    [ "$left" -ge 5 ] || { echo "no time was left" >"$build/$name.out"; return 125; }
    all=$limit
    [ "$limit" -le "$left" ] || limit=$left
    timeout -k 5 "$limit" "$@" >"$build/$name.out" 2>&1
    code=$?
    [ "$code" != 124 ] || [ "$limit" = "$all" ] || code=125
    { echo "==== $name: $*"; cat "$build/$name.out"; echo "==== $name: exit $code"; } >>"$log"
    return "$code"
}

# keep_for PARTS...: sets `kept` to the seconds that are reserved for these later parts.
keep_for() {
    kept=0
    for later; do
        case $later in
        checks) share=8 ;;
        rates) share=17 ;;
        job) share=6 ;;
        rivals) share=45 ;;
        *) share=0 ;;
        esac
        kept=$((kept + seconds * share / 100))
    done
}

# ---- the table ----

tell() {
    {
        echo "# The engine on a GPU"
        echo
        echo "$gpu; $(nvcc --version | sed -n 's/.*release //p'); $(date -u +%Y-%m-%d)."
        echo "Made by \`sh tests/gpu.sh\`."
        echo
        echo '```'
        cat "$rows"
        echo '```'
    } >"$out/gpu.md"
}

row() {
    say "$*"
    echo "$*" >>"$rows"
    tell
}

# judge CODE NAME: writes the result of a check. A check that left the GPU out, or that
# did not end, counts as failed.
judge() {
    if [ "$1" = 125 ]; then
        row "$2: NOT DONE, no time: more GPU_SECONDS, or fewer --parts"
        failed=1
    elif [ "$1" = 0 ] && ! grep -q 'not on this machine' "$build/$2.out"; then
        row "$2: ok"
    else
        row "$2: FAILED (exit $1)"
        tail -n 20 "$build/$2.out"
        failed=1
    fi
}

# check SECONDS NAME COMMAND...
check() {
    limited "$@"
    judge $? "$2"
}

# measure SECONDS NAME COMMAND...: runs a command and makes each line of its output a
# row. If PyTorch fails, the script does not fail.
measure() {
    limited "$@"
    code=$?
    case $code:$2 in
    0:*) row "-- $2" ;;
    125:*) row "-- $2: left out, no time" ;;
    *:torch-*) row "-- $2: did not end well (exit $code)" ;;
    *)
        row "-- $2: FAILED (exit $code)"
        failed=1
        ;;
    esac
    tail -n 60 "$build/$2.out" | tee -a "$rows"
    tell
}

# expect WHAT VALUE OPERATOR LIMIT: judges a figure. An empty value was not measured.
expect() {
    if [ -z "$2" ]; then
        verdict="NOT MEASURED"
    elif awk "BEGIN { exit !($2 $3 $4) }"; then
        verdict="PASS ($2)"
    else
        verdict="FAIL ($2)"
    fi
    row "expected: $1 $3 $4: $verdict"
    case $verdict in PASS*) ;; *) missed=1 ;; esac
}

# expect_here: the same for a figure that only this kind of GPU is known to reach
expect_here() {
    case $gpu in
    "NVIDIA H100 80GB HBM3"*) expect "$@" ;;
    *) row "expected: $1 $3 $4: only known for an H100 (${2:-not measured})" ;;
    esac
}

# ---- build: only the modules, for this GPU ----

part_build() {
    generator=
    command -v ninja >/dev/null && generator=-GNinja
    : >"$rows"
    for step in configure build; do
        case $step in
        configure)
            limited 60 configure cmake -S . -B "$build" $generator \
                -DCMAKE_BUILD_TYPE=Release -DPL_ONLY_MODULES=ON -DPL_CUDA=ON \
                -DPL_CUDA_ARCHITECTURES="$capability" -DPL_WERROR=OFF
            ;;
        build)
            limited 300 build cmake --build "$build" --parallel "$(nproc)" \
                --target $(printf 'test_%s_gpu ' $tests) gpu_rates
            ;;
        esac
        code=$?
        [ "$code" = 0 ] && continue
        row "$step: FAILED (exit $code)"
        tail -n 40 "$build/$step.out"
        exit 1
    done
    row "built for sm_$capability in $(($(date +%s) - start)) s"
}

has_build() {
    [ -x "$build/tests/test_reference_gpu" ] && [ -x "$build/tests/gpu_rates" ] && return
    echo "gpu: $build holds no build: begin with --parts build" >&2
    exit 1
}

part_checks() {
    for name in $tests; do
        check 90 "$name" "$build/tests/test_${name}_gpu"
    done
}

# ---- rates ----

# shape SIZE: prints the words that name a model for gpu_rates
shape() {
    case $1 in
    150M) echo preset=dense-150m ;;
    1.3B) echo preset=dense-1b ;;
    esac
}

# small_shape WIDTH HEADS BLOCKS CONTEXT VOCAB
small_shape() {
    echo "width=$1 heads=$2 blocks=$3 context=$4 vocab=$5"
}

# steps NAME BATCH WORDS...: measures a step; the last lines of gpu_rates show it
steps() {
    name=step-$1
    batch=$2
    shift 2
    # shellcheck disable=SC2068 # each argument may be several words
    measure 75 "$name" "$build/tests/gpu_rates" precision=bf16 batch="$batch" $@
}

# our_rate FILE prints the tokens per second in an output of gpu_rates, step_ms FILE the
# milliseconds of a step, share FILE ROW the percents of the limit that an operation
# reaches.
our_rate() {
    sed -n 's/^step .* ms = \([0-9]*\) tokens\/s.*/\1/p' "$1" 2>/dev/null | tail -n 1
}

step_ms() {
    sed -n 's/^step \([0-9.]*\) ms .*/\1/p' "$1" 2>/dev/null | tail -n 1
}

share() {
    sed -n "s/^$2 .* \([0-9]*\)% of its limit.*/\1/p" "$1" 2>/dev/null | tail -n 1
}

decoding() { # SIZE PRECISION
    measure 60 "decode-$1-$2" "$build/tests/gpu_rates" mode=decode \
        precision="$2" $(shape "$1")
}

# The limits are those of docs/results/gpu.md less 2 %, and the goals of Muon and of
# attention.
part_rates() {
    steps 150M 16 "$(shape 150M)"
    expect_here "tokens/s at 150M" "$(our_rate "$build/step-150M.out")" ">=" 413700
    steps 1.3B 8 "$(shape 1.3B)"
    expect_here "tokens/s at 1.3B" "$(our_rate "$build/step-1.3B.out")" ">=" 59400
    steps 13.8M 32 "$(small_shape 384 6 6 512 8192)"
    expect_here "tokens/s at 13.8M" "$(our_rate "$build/step-13.8M.out")" ">=" 2810000
    steps 13.8M-muon 32 "$(small_shape 384 6 6 512 8192)" muon_rows=64
    expect_here "ms of a step with Muon" "$(step_ms "$build/step-13.8M-muon.out")" "<=" 9
    steps 2.16M 32 "$(small_shape 192 6 4 128 2048)"
    expect_here "tokens/s at 2.16M" "$(our_rate "$build/step-2.16M.out")" ">=" 4210000
    # the rows "attention" of gpu_rates, with heads of size 64 and of size 128
    for heads in 14 7; do
        steps "attention-$((896 / heads))" 4 \
            "$(small_shape 896 $heads 1 4096 32000)" ffn=2368
        expect "% of the best product, attention backward, heads of $((896 / heads))" \
            "$(share "$build/step-attention-$((896 / heads)).out" "attention backward")" \
            ">=" 45
    done
}

part_more() {
    decoding 150M bf16
    decoding 1.3B bf16
    decoding 1.3B int8
}

# ---- rivals ----

# rival_rate SIZE [PRECISION]: prints PyTorch's most tokens per second with any
# precision, or with this one.
rival_rate() {
    cat "$build/torch-$1"-*.out 2>/dev/null |
        sed -n "s/.*\"precision\": \"${2:-[^\"]*}\".*\"tokens_per_s\": \([0-9]*\).*/\1/p" |
        sort -n | tail -n 1
}

# rival SECONDS SIZE MODE ATTENTION SHAPE: measures PyTorch on a model of this shape
# (modules/preset.c). The precision `equal` is that of pathloom.
rival() {
    # shellcheck disable=SC2086 # the shape is several words
    measure "$1" "torch-$2-$3" "$python" bench/rivals/torch_step.py --device cuda \
        --precision equal,bf16 --mode "$3" --attention "$4" --threads 1 --vocab 32000 \
        --context 1024 $5
}

# compare SIZE LIMIT_BEST LIMIT_EQUAL
compare() {
    ours=$(our_rate "$build/step-$1.out")
    for kind in "best:$2:" "equal precision:$3:equal"; do
        theirs=$(rival_rate "$1" "${kind##*:}")
        limit=${kind#*:}
        expect "times PyTorch's ${kind%%:*} at $1" "$([ -z "$ours" ] || [ -z "$theirs" ] ||
            awk "BEGIN { printf \"%.3f\", $ours / $theirs }")" ">=" "${limit%:*}"
    done
}

part_rivals() {
    if [ -z "$python" ] || ! "$python" -c 'import torch
assert torch.cuda.is_available()' >/dev/null 2>&1; then
        row "-- torch: no PyTorch that sees the GPU"
    else
        small="--batch 16 --width 896 --blocks 12 --heads 16 --head 64 --ffn 2368"
        large="--batch 8 --width 2048 --blocks 24 --heads 16 --head 128 --ffn 5504"
        rm -f "$build"/torch-*.out
        rival 150 150M compile flash,cudnn "$small"
        rival 110 1.3B compile flash,cudnn "$large"
        rival 150 150M max-autotune cudnn,flash "$small"
    fi
    compare 150M 1.1 1.15
    compare 1.3B 1.0 1.08
}

# ---- a job ----

# train_job NAME: trains four paths of 2M parameters on the documents of this tree, and
# writes the hash of each module.
train_job() {
    rm -rf "${build:?}/$1"
    limited 60 "$1" "$program" train --corpus docs --out "$build/$1" \
        --set topology.levels=2x2 --set model.width=192 --set model.heads=6 \
        --set model.blocks=4 --set model.context=128 --set data.vocab=2048 \
        --set train.batch=32 --set train.base_steps=100 --set train.tau=20 \
        --set train.phases=2 --set workers.count=2 --set workers.backend=cuda &&
        "$program" store ls --store "$build/$1/store" --json |
        sed -n 's/.*"module":"\([^"]*\)".*"hash":"\([0-9a-f]*\)".*/\1 \2/p' |
            sort >"$build/$1.hashes" && [ -s "$build/$1.hashes" ]
}

part_job() {
    program=${PATHLOOM:-build/release/pathloom}
    if ! "$program" doctor 2>/dev/null | grep -q '^ok *gpu  *cuda'; then
        row "job: left out, $program is missing or finds no GPU"
        missed=1
        return
    fi
    for name in job-1 job-2; do
        train_job "$name" && continue
        judge 1 "$name"
        return
    done
    cmp "$build/job-1.hashes" "$build/job-2.hashes" >"$build/job.out" 2>&1
    judge $? job
    measure 5 job-times tail -n 12 "$build/job-2.out"
}

# ---- the sanitizer ----

# sanitize SECONDS TOOL TEST [PATTERN]: runs a test, or those of its tests that match
# the pattern, under a tool. The tools are slow, so a tool that is ended early counts as
# failed only if it had found a fault.
sanitize() {
    name=$2-$3${4:+-${4%?}}
    # shellcheck disable=SC2086 # the variable is an option with its value, or empty
    limited "$1" "$name" compute-sanitizer --tool "$2" $ours --error-exitcode 1 \
        "$build/tests/test_$3_gpu" ${4:+"$4"}
    code=$?
    [ "$code" != 125 ] || code=124
    finding='^========= .*\(Invalid\|Race\|hazard\|Barrier\|Uninit\)'
    ! grep -q "$finding" "$build/$name.out" || code=1
    if [ "$code" = 124 ]; then
        row "$name: cut off or left out, nothing found until then"
    elif grep -q 'Device not supported' "$build/$name.out"; then
        row "$name: left out, the tool does not know this device"
    else
        judge "$code" "$name"
    fi
}

# initcheck reports reads of cuBLAS in its own workspace. So the tools check only
# kernels whose names contain "_kernel", as ours do (and some of cuBLAS). The test
# `reference` runs the update, graphs and int8 on small models. racecheck stops
# with an internal error at the first product of cuBLAS, even if kernels of cuBLAS are
# excluded. So racecheck runs only operations without such a product.
part_sanitizer() {
    if ! command -v compute-sanitizer >/dev/null; then
        row "compute-sanitizer: not installed, left out"
        return
    fi
    ours=
    ! compute-sanitizer --help 2>&1 | grep -q -e '--kernel-name ' ||
        ours="--kernel-name kernel_substring=_kernel"
    for tool in memcheck synccheck initcheck; do
        sanitize 80 "$tool" ops
        sanitize 50 "$tool" reference
    done
    sanitize 60 memcheck model
    for operation in embedding rmsnorm head_norm rope attention decoding rows swiglu \
        optimizer; do
        sanitize 30 racecheck ops "$operation*"
    done
}

# shellcheck disable=SC2086 # $parts is several words
set -- $parts
while [ $# -gt 0 ]; do
    part=$1
    shift
    keep_for "$@"
    [ "$part" = build ] || has_build
    case $part in
    build) part_build ;;
    checks) part_checks ;;
    rates) part_rates ;;
    job) part_job ;;
    rivals) part_rivals ;;
    more) part_more ;;
    sanitizer) part_sanitizer ;;
    esac
done
[ "$failed" = 1 ] || [ "$missed" = 0 ] || failed=2
say "result: $failed (0 good, 1 a check failed, 2 a figure missed); table in $out/gpu.md, all output in $log"
exit "$failed"
