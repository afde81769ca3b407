#!/bin/sh
# Runs a compiler of CUDA sources. Fails also if ptxas informs (C7510 to C7519) that it
# serialises products of a group of warps: that is no warning, and costs a fifth of the
# speed of attention. What ptxas tells about each kernel (option -v) goes to a file
# beside the object, OBJECT.ptxas, from which tools/kernels.sh makes a table.
#
#   sh tools/nvcc.sh COMPILER ARGUMENT... -o OBJECT
output=$("$@" 2>&1)
code=$?
for object; do :; done
printf '%s\n' "$output" >"$object.ptxas"
# what ptxas warns of has a number, such as (C7510)
printf '%s\n' "$output" |
    sed -e '/^ptxas info/{/(C/!d' -e '}' -e '/^ *[0-9]* bytes stack frame/d' -e '/^$/d' >&2
case $output in
*'(C751'*)
    echo 'nvcc.sh: ptxas serialises wgmma; use results only after group_wait and group_use' >&2
    [ $code -ne 0 ] || code=1
    ;;
esac
exit $code
