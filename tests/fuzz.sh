#!/bin/sh
# Runs every fuzz target (tests/fuzz/fuzz_*.c) for a long time with libFuzzer, ASan and
# UBSan (clang), one target after the other.
#
# usage: fuzz.sh [--runs N] [--seconds S] [--build FOLDER] [TARGET ...]
#
# Each target runs until it has had N inputs (10,000,000), or for S seconds (3600). The
# inputs of earlier calls with the same FOLDER count, too (FOLDER/counts). A target
# begins with its seeds and with the inputs that earlier calls kept (FOLDER/corpus).
# Inputs are short (512 bytes, or twice the longest seed), so that many of them fit into
# the time. If a target finds a fault, the script ends with code 1 and leaves a file
# with the input. The target repeats the fault if this file is its argument.
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
runs=10000000 seconds=3600 build=build/fuzz
while [ $# -gt 1 ]; do
    case $1 in
    --runs) runs=$2 ;;
    --seconds) seconds=$2 ;;
    --build) build=$2 ;;
    *) break ;;
    esac
    shift 2
done
cd "$(dirname "$0")/.." || exit 70
configure() { # folder, options
    folder=$1
    shift
    launcher=$(command -v ccache || true)
    cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG="-O2 -g1" -DCMAKE_CXX_FLAGS_DEBUG="-O2 -g1" -DPL_WERROR=OFF -DPL_CUDA=OFF \
        -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
        "$@" >/dev/null || exit 69
}
# Another build, without libFuzzer, writes the seeds.
configure "$build/seeds"
configure "$build/fuzz" -DPL_FUZZ=ON -DCMAKE_C_COMPILER=clang-14 \
    -DCMAKE_CXX_COMPILER=clang++-14 -DPL_SANITIZE=fuzzer-no-link,address,undefined
[ $# -gt 0 ] || set -- $(find tests -name 'fuzz_*.c' ! -name '*driver*' | sed 's,.*/,,; s/\.c$//' | LC_ALL=C sort)
ninja -C "$build/seeds" "$@" >"$build/seeds.log" 2>&1 &&
    ninja -C "$build/fuzz" "$@" >"$build/fuzz.log" 2>&1 || {
    tail -n 20 "$build"/*.log
    exit 70
}
# A failed allocation is not an error, but a leak is. AddressSanitizer keeps only two
# stack frames per allocation and 8 MB of freed memory, which doubles the number of
# inputs per second. For a full report, run a finding again without these options.
ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1:malloc_context_size=2:quarantine_size_mb=8
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export ASAN_OPTIONS UBSAN_OPTIONS
found=0
mkdir -p "$build/findings" "$build/counts"
for target in "$@"; do
    corpus=$build/corpus/$target count=$build/counts/$target
    mkdir -p "$corpus"
    "$build/seeds/tests/$target" --write "$corpus" >/dev/null
    longest=$(find "$corpus" -name 'seed-*' -printf '%s\n' | sort -n | tail -n 1)
    [ "$longest" -gt 256 ] || longest=256
    before=$(cat "$count" 2>/dev/null || echo 0)
    left=$((runs - before))
    [ "$left" -gt 0 ] || {
        echo "$target: $before inputs, done before"
        continue
    }
    "$build/fuzz/tests/$target" -runs="$left" -max_total_time="$seconds" \
        -max_len=$((2 * longest)) -reload=0 -timeout=20 -rss_limit_mb=4096 \
        -print_final_stats=1 -verbosity=1 -artifact_prefix="$build/findings/$target-" \
        "$corpus" >"$build/$target.log" 2>&1
    code=$?
    n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
    echo $((before + ${n:-0})) >"$count"
    cover=$(grep -o 'cov: [0-9]*' "$build/$target.log" | tail -n 1)
    echo "$target: ${n:-0} inputs, $((before + ${n:-0})) in all, ${cover:-no coverage}, code $code"
    [ "$code" -eq 0 ] || {
        found=1
        grep -E 'ERROR|runtime error|SUMMARY' "$build/$target.log" | head -n 5
    }
done
exit "$found"
