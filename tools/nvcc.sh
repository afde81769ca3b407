#!/bin/sh
# Runs a compiler of CUDA sources. Fails also if ptxas informs (C7510 to C7519) that it
# serialises products of a group of warps: that is no warning, and costs a fifth of the
# speed of attention.
#
#   sh tools/nvcc.sh COMPILER ARGUMENT...
output=$("$@" 2>&1)
code=$?
[ -z "$output" ] || printf '%s\n' "$output" >&2
case $output in
*'(C751'*)
    echo 'nvcc.sh: ptxas serialises wgmma; use results only after group_wait and group_use' >&2
    [ $code -ne 0 ] || code=1
    ;;
esac
exit $code
