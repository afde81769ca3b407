#!/bin/sh
# From a fresh machine to the tests' verdict: install, configure, build, test.
#   sh tests/run.sh            every test but the long chaos runs
#   sh tests/run.sh -L unit    arguments go to ctest
# A second call builds nothing that has not changed.
set -eu
cd "$(dirname "$0")/.."
sh tools/install.sh
sh tools/build.sh release
[ $# -gt 0 ] || set -- -LE '^chaos$'
exec ctest --preset release "$@"
