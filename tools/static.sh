#!/bin/sh
# Runs the checks that need no build: the format of sources, statuses that the code
# ignores, cppcheck, and shellcheck for scripts.
#   sh tools/static.sh              runs all checks
#   sh tools/static.sh format ...   runs only the named checks
# Each check runs to its end and prints its findings. The exit code is 1 if a check
# found something.
set -u
cd "$(dirname "$0")/.." || exit 70

layers=$(sed -n 's/^layers="\(.*\)"$/\1/p' tools/check_tree.sh)

# Prints the names of the product's files with the extension $1, one per line.
product() {
    # shellcheck disable=SC2086 # a list of folders
    find $layers -name "*.$1" |
        LC_ALL=C sort
}

format() {
    # shellcheck disable=SC2086
    find $layers tests examples \
        -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' |
        LC_ALL=C sort | xargs -n 100 -P "$(nproc)" clang-format-14 --dry-run -Werror
}

# Only clang enforces that each pl_status is used, so this compiles everything with it.
# clang-14 would start a process for each file, and starting it takes as long as
# compiling the file. With -### it prints the command of this process instead, which
# accepts several files.
statuses() {
    first=$(product c | head -n 1)
    printed=$(clang-14 -std=c11 -D_GNU_SOURCE '-DPL_VERSION="0"' -DCPU_ISA=portable -I. \
        -fsyntax-only -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-parameter -Werror \
        "-###" "$first" 2>&1)
    command=$(printf '%s\n' "$printed" | sed -n "s,^ \(\".* \"-cc1\" .*\) \"$first\"\$,\1,p")
    [ -n "$command" ] || {
        printf 'static: clang-14 -### printed no command that ends with %s:\n%s\n' "$first" "$printed"
        return 1
    }
    eval "set -- $command"
    product c | xargs -n 20 -P "$(nproc)" "$@"
}

# tools/cppcheck.supp lists the suppressed findings, each with its reason. Each
# process of cppcheck gets 40 files, and follows calls only between these.
analysis() {
    product c | xargs -n 40 -P "$(nproc)" cppcheck --quiet --std=c11 --error-exitcode=1 \
        -D_GNU_SOURCE '-DPL_VERSION="0"' -DCPU_ISA=portable -D__cppcheck__ -U__clang__ -U__cplusplus -I. \
        --enable=warning,performance,portability --inline-suppr \
        --suppressions-list=tools/cppcheck.supp
}

# Excludes SC2046, because in these scripts $(command) without quotes gives several
# words on purpose.
shell() {
    find tools tests examples bench deploy .ci -name '*.sh' -o -name '*.sbatch' -o \
        -path .ci/run |
        LC_ALL=C sort |
        xargs -n 10 -P "$(nproc)" shellcheck --external-sources --severity=warning --exclude=SC2046
}

found=0
[ $# -gt 0 ] || set -- format statuses analysis shell
for check in "$@"; do
    case $check in
    format | statuses | analysis | shell) ;;
    *)
        echo "static: unknown check \`$check\`; known are format, statuses, analysis and shell" >&2
        exit 64
        ;;
    esac
    if "$check"; then
        echo "static: $check ok"
    else
        echo "static: $check FAILED"
        found=1
    fi
done
exit "$found"
