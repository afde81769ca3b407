#!/bin/sh
# Tests that the tests of tests/gpu.sh launch every kernel of modules/cuda. The emulated
# forms of these tests have written the names of the kernels that they launched into the
# file REPORT.
#
# usage: gpu_kernels.sh REPORT
set -u
[ -s "$1" ] || {
    echo "gpu_kernels: nothing in $1: the emulated tests come first"
    exit 1
}
missing=0
n=0
for kernel in $(cat modules/cuda/*.cu | tr '\n' ' ' | grep -o '__global__ [^{;]*' |
    grep -o '[a-z_0-9]*_kernel *(' | tr -d ' (' | LC_ALL=C sort -u); do
    n=$((n + 1))
    grep -qx "$kernel" "$1" && continue
    echo "$kernel is launched by none of the tests for a GPU"
    missing=$((missing + 1))
done
echo "gpu_kernels: $n kernels, $missing missing"
[ "$n" -gt 10 ] && [ "$missing" -eq 0 ]
