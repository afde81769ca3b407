#!/bin/sh
# Prints the registers of every CUDA kernel, for each architecture, from what ptxas told
# during the build (tools/nvcc.sh). Of a kernel with several variants, the largest counts.
# Fails if a kernel uses local memory: ptxas then keeps registers there (a spill).
#
#   sh tools/kernels.sh [BUILD FOLDER]
set -eu
export LC_ALL=C # awk and sort depend on it
folder=${1:-build/release}/cuda
set -- "$folder"/*.ptxas
[ -f "$1" ] || { echo "kernels.sh: $folder has no output of ptxas; build with nvcc" >&2; exit 77; }
awk '
    /Compiling entry function/ {
        match($0, /[0-9][a-z][a-z0-9_]*_kernel/)
        name = substr($0, RSTART + 1, RLENGTH - 1)
        match($0, /sm_[0-9]+a?/)
        arch = substr($0, RSTART, RLENGTH)
        archs[arch]
    }
    /bytes stack frame/ && $1 + $5 + $9 > 0 {
        print "kernels.sh: " name " for " arch " uses local memory:" $0 > "/dev/stderr"
        failed = 1
    }
    match($0, /Used [0-9]+ registers/) {
        n = substr($0, RSTART + 5, RLENGTH - 15) + 0
        if (n > most[name, arch])
            most[name, arch] = n
        names[name]
    }
    END {
        for (name in names)
            for (arch in archs)
                print name, arch, most[name, arch] + 0
        exit failed
    }' "$@" >"$folder/kernels"
sort "$folder/kernels" | awk '
    $1 != name { if (name) print line; name = $1; line = sprintf("%-28s", $1) }
    { line = line sprintf(" %s %3d", $2, $3) }
    END { print line }'
