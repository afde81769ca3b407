#!/bin/sh
# The engine on a GPU: every kernel against the reference, rates on real sizes beside
# PyTorch's on the same GPU, then the sanitizer's tools on the same tests.
#
#   sh tests/gpu.sh [build folder]        (default: build/gpu)
#
# Needs the CUDA toolkit, a C and a C++ compiler and CMake; nothing else of packages.txt.
# PyTorch and compute-sanitizer are used where they are installed, and steps and codecs
# (outer/cuda) are checked and measured where all of packages.txt is. The table goes to
# stdout and to gpu.md in the folder that OUT names, else to docs/results; beside it lies
# gpu.log with what every command said.
#
# What is worth most comes first, each command has its own limit, and all together end
# after GPU_SECONDS (default 540): what was left out then is named. The table is written
# anew after each row, so that a run that is cut off leaves what it had.
#
# Exit code: 0; 1 if a check failed; 77 if this machine has no GPU or no toolkit.
set -u
cd "$(dirname "$0")/.." || exit 70
build=${1:-build/gpu}
out=${OUT:-docs/results}
PATH=$PATH:/usr/local/cuda/bin
failed=0
start=$(date +%s)
seconds=${GPU_SECONDS:-540}

say() {
    echo "gpu: $(($(date +%s) - start)) s: $*"
}

lack() {
    echo "gpu: $*" >&2
    exit 77
}

for tool in nvcc cmake c++ nvidia-smi; do
    command -v "$tool" >/dev/null || lack "$tool is missing: see the head of $0"
done
gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader |
    head -n 1)
capability=$(printf '%s' "${gpu##*, }" | tr -d '.')
case $capability in
'' | *[!0-9]*) lack "nvidia-smi names no GPU with a compute capability: \"$gpu\"" ;;
esac
[ "$capability" -ge 80 ] || lack "$gpu: the kernels need compute capability 8.0"
mkdir -p "$build" "$out" || exit 70
out=$(cd "$out" && pwd)
log=$out/gpu.log
table=$out/gpu.md
: >"$log" || exit 70
say "$gpu"

# limited SECONDS NAME COMMAND...: runs it within its limit and what is left of all;
# its words go to the log and to $build/NAME.out. 124: it ran past its limit, which for a
# check is a failure (a kernel that hangs); 125: no time was left to begin.
limited() {
    limit=$1
    name=$2
    shift 2
    left=$((seconds - ($(date +%s) - start)))
    [ "$left" -ge 5 ] || { echo "no time was left" >"$build/$name.out"; return 125; }
    [ "$limit" -le "$left" ] || limit=$left
    timeout -k 5 "$limit" "$@" >"$build/$name.out" 2>&1
    code=$?
    { echo "==== $name: $*"; cat "$build/$name.out"; echo "==== $name: exit $code"; } >>"$log"
    return "$code"
}

# ---- build: modules alone, for this GPU ----

generator=
command -v ninja >/dev/null && generator=-GNinja
build_fails() {
    say "$1 failed; the end of it:"
    tail -n 40 "$build/$1.out"
    exit 1
}
limited 60 configure cmake -S . -B "$build" $generator -DCMAKE_BUILD_TYPE=Release \
    -DPL_ONLY_MODULES=ON -DPL_CUDA=ON -DPL_CUDA_ARCHITECTURES="$capability" \
    -DPL_WERROR=OFF || build_fails configure
limited 240 build cmake --build "$build" --target test_ops_gpu test_model_gpu bench_ops \
    --parallel "$(nproc)" || build_fails build
say "built"

# ---- the table ----

{
    echo "# The engine on a GPU"
    echo
    echo "$gpu; $(nvcc --version | sed -n 's/.*release //p'); $(date -u +%Y-%m-%d)."
    echo "Made by \`sh tests/gpu.sh\`."
    echo
    echo '```'
} >"$table"

row() {
    say "$*"
    echo "$*" >>"$table"
}

# check SECONDS NAME COMMAND...: passes if the command does and did not leave the GPU out.
check() {
    limited "$@"
    code=$?
    if [ "$code" = 125 ]; then
        row "$2: left out, no time"
    elif [ "$code" = 0 ] && ! grep -q 'not on this machine' "$build/$2.out"; then
        row "$2: ok"
    else
        row "$2: FAILED (exit $code)"
        tail -n 20 "$build/$2.out"
        failed=1
    fi
}

# measure SECONDS NAME COMMAND...: its words are rows; a rival's failure is none.
measure() {
    limited "$@"
    code=$?
    case $code:$2 in
    0:*) row "-- $2" ;;
    125:*) row "-- $2: left out" ;;
    *:torch-*) row "-- $2: did not run (exit $code)" ;;
    *)
        row "-- $2: FAILED (exit $code)"
        failed=1
        ;;
    esac
    tail -n 60 "$build/$2.out" | tee -a "$table"
}

check 110 ops "$build/tests/test_ops_gpu"
check 60 model "$build/tests/test_model_gpu"

# ---- rates ----

# The last line of bench_ops has the step; PyTorch's is one JSON line.
rates() { # NAME BATCH CONTEXT WIDTH BLOCKS HEADS FFN
    measure 60 "pathloom-$1" "$build/bench/bench_ops" backend=cuda precision=bf16 \
        batch="$2" context="$3" width="$4" blocks="$5" heads="$6" ffn="$7" vocab=32000
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
        { row "-- torch-$1: no PyTorch that sees the GPU"; return; }
    measure 110 "torch-$1" python3 bench/rivals/torch_step.py --device cuda \
        --precision autocast,bf16 --mode compile --threads 1 --vocab 32000 --batch "$2" \
        --context "$3" --width "$4" --blocks "$5" --heads "$6" --ffn "$7"
}

rates 150M 16 1024 896 12 14 2368
rates 1.3B 8 1024 2048 24 16 5504
# attention at head 64 and context 4096: the rows "attention" of one block
measure 60 attention-4096 "$build/bench/bench_ops" backend=cuda precision=bf16 batch=4 \
    context=4096 width=896 blocks=1 heads=14 ffn=2368 vocab=32000

# ---- the sanitizer ----

if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
        check 110 "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 \
            "$build/tests/test_ops_gpu"
    done
else
    row "compute-sanitizer: not installed, left out"
fi

# ---- steps and codecs on the GPU ----

if limited 60 configure-all cmake -S . -B "$build/all" $generator -DPL_CUDA=ON \
    -DCMAKE_BUILD_TYPE=Release -DPL_CUDA_ARCHITECTURES="$capability" -DPL_WERROR=OFF &&
    limited 240 build-all cmake --build "$build/all" --parallel "$(nproc)" \
        --target pathloom test_accel_step_gpu test_accel_codec_gpu; then
    for name in step codec; do
        check 60 "accel-$name" "$(find "$build/all" -name "test_accel_${name}_gpu" -type f)"
    done
    measure 60 outer "$build/all/pathloom" bench outer --device cuda
    measure 60 codec "$build/all/pathloom" bench codec --device cuda
else
    row "steps and codecs: left out (the whole of packages.txt is needed; gpu.log says more)"
fi

echo '```' >>"$table"
say "checks failed: $failed; table in $table, all words in $log"
exit "$failed"
