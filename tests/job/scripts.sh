#!/bin/sh
# Tests what tools/install.sh and tools/build.sh print on a fresh machine, with programs
# that stand in for apt-get, dpkg-query, id and cmake. Both must be quiet if all is well.
# If something fails, its output must be printed whole, and the exit code must say so.
#
# usage: scripts.sh WORKFOLDER   (in the project's root)
set -u
. tests/support/job.sh
own_folder "$1"
mkdir -p "$work/bin" "$work/tree/tools" "$work/tree/build/release"
cp tools/install.sh tools/build.sh "$work/tree/tools/"
cp packages.txt "$work/tree/"

# Makes a program whose script is the standard input.
stands_in() { # name
    { echo '#!/bin/sh' && cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
runs() { # exit code, lines, script with its arguments
    code=$1 lines=$2
    shift 2
    PATH="$work/bin:$PATH" sh "$work/tree/tools/"$* >"$work/said.out" 2>&1 </dev/null
    got=$?
    [ $got -eq "$code" ] || fail "$*: exit code $got instead of $code"
    [ "$(wc -l <"$work/said.out")" -eq "$lines" ] || fail "$* does not print $lines lines"
}
says() { # words
    grep -qF -- "$1" "$work/said.out" || fail "\`$1\` is not printed"
}
echo 'echo 0' | stands_in id
echo 'echo "installed cmake"; echo "installed python3"; echo "deinstalled jq"' | stands_in dpkg-query

# Installs what is missing, with one line of output.
stands_in apt-get <<'END'
echo "$@" >>"$0.calls"
for line in 1 2 3 4 5; do echo "Get:$line a package"; done
END
runs 0 1 install.sh
says ' ninja-build '
! grep -qw 'cmake\|libcmocka-dev\|cppcheck' "$work/said.out" || fail "installs too much: $(cat "$work/said.out")"
grep -q 'Get:5' "$work/tree/build/install.log" || fail "the output of apt-get is not kept"
runs 0 1 install.sh tests checks
says ' jq '
says ' libcmocka-dev '
says ' cppcheck '
! grep -q ' python3 \| chromium\| ceph-mon' "$work/said.out" || fail "installs too much: $(cat "$work/said.out")"
grep -q 'install .* jq ' "$work/bin/apt-get.calls" || fail "apt-get installs no jq"
runs 64 1 install.sh test
says 'no group `test`'

# A failure is shown whole.
stands_in apt-get <<'END'
echo "E: no such package"
exit 100
END
runs 1 3 install.sh
says 'E: no such package'

# The build shows its progress on one line.
stands_in cmake <<'END'
[ "$1" = --build ] || exit 0
echo "[0/2] Re-checking globbed directories..."
for n in 1 2 3 4 5 6 7; do echo "[$n/7] Building C object x/$n.c.o"; done
END
runs 0 1 build.sh release
says 'build: 7 steps, %: 10 20 30 40 50 60 70 80 90 100'
grep -q '^\[7/7\] Building' "$work/tree/build/release/build.log" || fail "the output of the build is not kept"
echo 'echo "ninja: no work to do."' | stands_in cmake
runs 0 1 build.sh release pathloom

# Warnings and errors are printed whole, between the progress.
stands_in cmake <<'END'
[ "$1" = --build ] || exit 0
echo "[1/4] Building C object a.c.o"
printf '%s\n' "a.c:1:2: warning: 'x'\\n" "  [2/4] | int x;" "[-Wunused]"
echo "[2/4] Building C object b.c.o"
echo "FAILED: b.c.o" >&2
echo "ninja: build stopped" >&2
exit 9
END
runs 9 7 build.sh release
says "a.c:1:2: warning: 'x'\\n"
says '  [2/4] | int x;'
says '[-Wunused]'
says 'FAILED: b.c.o'
says 'ninja: build stopped'
stands_in cmake <<'END'
echo "CMake Error: no compiler" >&2
exit 3
END
runs 3 1 build.sh release
says 'no compiler'
# Each planted bug must fit the present code.
sh tests/mutants.sh --fits || fail "tests/mutants.sh"
rm -rf "$work"
echo "ok"
