#!/bin/sh
# The engine on a GPU: every kernel against the reference, the sanitizer's tools on the
# same tests, then rates on real sizes beside PyTorch's on the same GPU.
#
#   sh tests/gpu.sh [build folder]        (default: build/gpu)
#
# Needs the CUDA toolkit, a C and a C++ compiler and CMake; nothing else of packages.txt.
# compute-sanitizer and PyTorch are used where they are installed. The table goes to
# stdout and to the folder that OUT names, else to docs/results/gpu.md.
#
# Exit code: 0; 1 if a check failed; 77 if this machine has no GPU or no toolkit.
set -u
cd "$(dirname "$0")/.." || exit 70
build=${1:-build/gpu}
out=${OUT:-docs/results}
PATH=$PATH:/usr/local/cuda/bin
log=$build/gpu
failed=0

say() {
    echo "gpu: $*"
}

lack() {
    echo "gpu: $*" >&2
    exit 77
}

command -v nvcc >/dev/null || lack "nvcc is missing: install the CUDA toolkit"
command -v nvidia-smi >/dev/null || lack "nvidia-smi is missing: no NVIDIA driver here"
gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader |
    head -n 1) || lack "nvidia-smi finds no GPU"
[ -n "$gpu" ] || lack "nvidia-smi finds no GPU"
capability=$(printf '%s' "${gpu##*, }" | tr -d '.')
say "$gpu"

# ---- build: modules alone, for this GPU ----

generator=
command -v ninja >/dev/null && generator=-GNinja
mkdir -p "$log" "$out" || exit 70
cmake -S . -B "$build" $generator -DCMAKE_BUILD_TYPE=Release -DPL_ONLY_MODULES=ON \
    -DPL_CUDA=ON -DPL_CUDA_ARCHITECTURES="$capability" -DPL_WERROR=OFF >"$log/configure" ||
    { cat "$log/configure"; exit 1; }
cmake --build "$build" --target test_ops_gpu test_model_gpu bench_ops \
    --parallel "$(nproc)" >"$log/build" 2>&1 || { tail -n 50 "$log/build"; exit 1; }

# ---- correctness ----

# check NAME COMMAND...: passes if the command does and did not leave the GPU out.
check() {
    name=$1
    shift
    if "$@" >"$log/$name" 2>&1 && ! grep -q 'not on this machine' "$log/$name"; then
        say "$name ok"
    else
        say "$name FAILED"
        tail -n 20 "$log/$name"
        failed=1
    fi
}

check ops "$build/tests/test_ops_gpu"
check model "$build/tests/test_model_gpu"
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
        check "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 \
            "$build/tests/test_ops_gpu"
    done
else
    say "compute-sanitizer is not installed: left out"
fi

# ---- rates ----

# The last line of bench_ops has the step; PyTorch's is one JSON line.
rates() { # NAME BATCH WIDTH BLOCKS HEADS FFN
    shape="batch=$2 width=$3 blocks=$4 heads=$5 ffn=$6 context=1024 vocab=32000"
    # shellcheck disable=SC2086 # several words
    "$build/bench/bench_ops" $shape backend=cuda precision=bf16 >"$log/bench-$1" 2>&1 ||
        { say "bench_ops $1 FAILED" >&2; failed=1; }
    cat "$log/bench-$1"
    command -v python3 >/dev/null || return
    python3 bench/rivals/torch_step.py --device cuda --precision autocast,bf16 \
        --mode compile --threads 1 --context 1024 --vocab 32000 --batch "$2" \
        --width "$3" --blocks "$4" --heads "$5" --ffn "$6" >"$log/torch-$1" 2>&1 ||
        say "PyTorch did not run" >&2
    cat "$log/torch-$1"
}

{
    echo "# The engine on a GPU"
    echo
    echo "$gpu; $(nvcc --version | sed -n 's/.*release //p'); $(date -u +%Y-%m-%d)."
    echo "Made by \`sh tests/gpu.sh\`; checks failed: $failed."
    for model in "150M 16 896 12 14 2368" "1.3B 8 2048 24 16 5504"; do
        echo
        echo "## ${model%% *}, context 1024"
        echo
        echo '```'
        # shellcheck disable=SC2086 # several words
        rates $model
        echo '```'
    done
} >"$out/gpu.md"
cat "$out/gpu.md"
exit "$failed"
