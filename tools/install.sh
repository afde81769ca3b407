#!/bin/sh
# Installs the missing packages of packages.txt (Debian 12). If no package is missing,
# the script ends at once.
#   sh tools/install.sh                 packages for building and running
#   sh tools/install.sh tests checks    also those of these groups of packages.txt
# The output of apt-get is kept in build/install.log, and printed only if apt-get fails.
set -eu
cd "$(dirname "$0")/.."

# Prints the packages that packages.txt lists before its first mark (a line with "#
# ----"), and the packages below the marks of the groups that are named.
wanted() {
    awk -v groups=" $* " '/^# ---- / { skip = !index(groups, " " substr($3, 1, length($3) - 1) " ") }
                          !/^#/ && NF && !skip { print $1 }' packages.txt | LC_ALL=C sort -u
}

# Prints the wanted packages that dpkg-query does not report as installed. dpkg-query
# reports nothing about packages that were never installed.
missing() {
    have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
        awk '$1 == "installed" { print $2 }')
    for name in $(wanted "$@"); do
        printf '%s\n' "$have" | grep -qxF "$name" || printf '%s ' "$name"
    done
}

for group; do
    grep -q "^# ---- $group:" packages.txt || {
        echo "install: packages.txt has no group \`$group\`" >&2
        exit 64
    }
done
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "install: this system is not Debian; install the libraries that packages.txt names" >&2
    exit 0
fi
names=$(missing "$@")
[ -n "$names" ] || exit 0
if [ "$(id -u)" -eq 0 ]; then
    root=
elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    root=sudo
else
    echo "install: as root, run: apt-get update && apt-get install -y $names" >&2
    exit 77
fi
echo "install: apt-get installs $names(its output: build/install.log)"
mkdir -p build
# Soon after its start, a machine may be installing updates. Then apt-get waits.
# shellcheck disable=SC2086 # $root may be nothing, $names are several words
{
    $root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
            -o DPkg::Lock::Timeout=300 --no-install-recommends $names
} </dev/null >build/install.log 2>&1 || {
    cat build/install.log
    echo "install: apt-get failed; its output is above, and in build/install.log" >&2
    exit 1
}
