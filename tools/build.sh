#!/bin/sh
# Configures and builds a preset of CMakePresets.json in build/PRESET.
#   sh tools/build.sh release            builds everything
#   sh tools/build.sh release pathloom   builds only the named targets
# If the output is not a terminal, one line shows the progress in percent. Warnings and
# errors are printed whole; all output of the build is in build/PRESET/build.log.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
# CMake reads these variables when it first configures a folder.
if command -v ccache >/dev/null 2>&1; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
cmake --preset "$preset" >/dev/null
[ $# -eq 0 ] || set -- --target "$@"
if [ -t 1 ]; then
    exec cmake --build --preset "$preset" "$@"
fi

# Reads the lines of ninja, such as "[12/345] Building C object x.o", and prints 10 20 ...
# on one line. Prints all other lines as they are.
show_progress() {
    tens=0 open=''
    while IFS= read -r line; do
        ready=${line#\[} ready=${ready%%/*} all=${line#*/} all=${all%%\]*}
        case $line:$ready$all in
        *:*[!0-9]* | *:) ;;
        \[0/*) continue ;; # ninja looks for new files
        \[*/*\]*)
            [ -n "$open" ] || printf 'build: %s steps, %%:' "$all"
            open=1
            while [ $((ready * 10)) -ge $(((tens + 1) * all)) ] && [ "$tens" -lt 10 ]; do
                tens=$((tens + 1))
                printf ' %s0' "$tens"
            done
            continue
            ;;
        esac
        [ -z "$open" ] || echo
        open=''
        printf '%s\n' "$line"
    done
    [ -z "$open" ] || echo
}

# The exit code goes through a file, because that of the pipe is show_progress's.
log=build/$preset/build.log
{
    code=0
    cmake --build --preset "$preset" "$@" 2>&1 || code=$?
    echo "$code" >"$log.code"
} | tee "$log" | show_progress
exit "$(cat "$log.code")"
