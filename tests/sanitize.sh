#!/bin/sh
# Runs the tests under a sanitizer, and lists the reports of all processes.
#
# usage: sanitize.sh asan|tsan [CTEST-OPTION ...]      (sanitize.sh tsan -L fault)
#
# asan means AddressSanitizer with its search for leaks, and UndefinedBehaviorSanitizer.
# tsan means ThreadSanitizer. The preset of that name must be built before. Reports go
# to build/PRESET/reports, one file per process, because a test may pass although one of
# its processes has a report. The exit code is 1 if a test failed or if there is a
# report.
set -u
cd "$(dirname "$0")/.." || exit 70
preset=$1
shift
reports=$PWD/build/$preset/reports
rm -rf "$reports"
mkdir -p "$reports" || exit 73
# intercept_tls_get_addr=0 because LeakSanitizer of GCC 12 crashes in programs whose OpenMP
# threads run oneDNN.
# interpose.c and power_trace.c are preloaded, so they come before the library of the
# sanitizer.
common=log_path=$reports/report
ASAN_OPTIONS=$common:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0:verify_asan_link_order=0
UBSAN_OPTIONS=$common:print_stacktrace=1
# RocksDB, ZeroMQ and similar libraries are not instrumented. ThreadSanitizer does not
# see their locks, and would report races on their own memory. All memory accesses of
# our own code are checked.
TSAN_OPTIONS=$common:ignore_noninstrumented_modules=1:history_size=4
# With GCC's OpenMP library, ThreadSanitizer does not see that threads wait for each
# other, and would report every loop. So the tests use LLVM's OpenMP library, which
# reports these waits (Archer).
archer=$(ls /usr/lib/llvm-*/lib/libarcher.so 2>/dev/null | tail -n 1)
if [ "$preset" = tsan ] && [ -n "$archer" ]; then
    LD_PRELOAD=$(dirname "$archer")/libomp.so.5 OMP_TOOL_LIBRARIES=$archer
    export LD_PRELOAD OMP_TOOL_LIBRARIES
elif [ "$preset" = tsan ]; then
    echo "sanitize: without libomp-dev each loop of the kernels counts as a race"
fi
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
ctest --test-dir "build/$preset" --output-on-failure "$@"
code=$?
# shellcheck disable=SC2012 # the names are made by us
n=$(ls "$reports" | wc -l)
echo "sanitize: $n processes reported something"
for report in "$reports"/*; do
    [ -f "$report" ] || continue
    echo "--- $report"
    grep -E 'ERROR|WARNING|SUMMARY|runtime error|    #[0-3] ' "$report" | head -n 12
done
[ "$code" -eq 0 ] && [ "$n" -eq 0 ]
