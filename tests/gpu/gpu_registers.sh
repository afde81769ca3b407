#!/bin/sh
# Tests that no CUDA kernel uses local memory, and that the list of registers in
# docs/CUDA.md has every kernel. The numbers depend on the toolkit, so only the names
# are compared.
#
# usage: gpu_registers.sh BUILDFOLDER
set -u
export LC_ALL=C # sort, sed and grep depend on it
table=$(sh tools/kernels.sh "$1") || exit $?
built=$(printf '%s\n' "$table" | cut -d' ' -f1)
listed=$(sed -n 's/^\([a-z0-9_]*_kernel\) .*/\1/p' docs/CUDA.md | sort)
[ "$built" != "$listed" ] || exit 0
echo "gpu_registers: docs/CUDA.md lists other kernels than the build has:" >&2
for name in $built $listed; do
    case $(printf '%s\n' "$built" "$listed" | grep -c -x "$name") in
    1) echo "  $name" >&2 ;;
    esac
done
echo "write the table again: sh tools/kernels.sh $1" >&2
exit 1
