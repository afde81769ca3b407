#!/bin/sh
# Installs packages on a fresh machine, configures, builds and tests.
#   sh tests/run.sh            tests that end within minutes
#   sh tests/run.sh --all      all tests
#   sh tests/run.sh -L unit    arguments go to ctest
# A second call builds only what has changed. Tests that permit it run at the same time.
# Tests that did not run on this machine are listed at the end.
set -eu
cd "$(dirname "$0")/.."
sh tools/install.sh tests
sh tools/build.sh release
case ${1:-} in
'') set -- -LE '^slow$' ;;
--all) shift ;;
esac
verdict=0
ctest --preset release --no-tests=error -j "$(($(nproc) + 2))" "$@" || verdict=$?
# Prints parts of tests that did not run on this machine. If a whole test did not run,
# ctest lists it.
log=build/release/Testing/Temporary/LastTest.log
left=$(LC_ALL=C sed -n 's/^\[  SKIPPED \] \([a-z][a-zA-Z0-9_]*\)$/    \1/p
    s/^.*\] *//; s/^ *\(.*: not on this machine\)/    \1/p' "$log" | sort -u)
[ -z "$left" ] || printf 'Left out of tests that ran:\n%s\n' "$left"
exit $verdict
