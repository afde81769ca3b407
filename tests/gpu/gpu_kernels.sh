#!/bin/sh
# Tests that the programs which tests/gpu.sh runs launch every kernel of modules/cuda.
# Built for the emulation, these programs have written the names of the kernels that
# they launched into the file REPORT.
#
# usage: gpu_kernels.sh REPORT
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
[ -s "$1" ] || {
    # shellcheck disable=SC3045 # Debian's sh has ulimit -v
    [ "$(ulimit -v)" = unlimited ] || {
        echo "skipped: with this limit of address space (ulimit -v) no emulated test runs"
        exit 77
    }
    echo "gpu_kernels: $1 is missing or empty; run the emulated tests first"
    exit 1
}
missing=0
n=0
for kernel in $(cat modules/cuda/*.cu | tr '\n' ' ' | grep -o '__global__ [^{;]*' |
    grep -o '[a-z_0-9]*_kernel *(' | tr -d ' (' | LC_ALL=C sort -u); do
    n=$((n + 1))
    grep -qx "$kernel" "$1" && continue
    echo "no test of tests/gpu.sh launches $kernel"
    missing=$((missing + 1))
done
echo "gpu_kernels: $n kernels, $missing missing"
[ "$n" -gt 10 ] && [ "$missing" -eq 0 ]
