#!/bin/sh
# Configures and builds a preset of CMakePresets.json in build/PRESET.
#   sh tools/build.sh release            builds everything
#   sh tools/build.sh release pathloom   builds only the named targets
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
cmake --build --preset "$preset" "$@"
