#!/bin/sh
# Installs the missing packages of packages.txt (Debian 12). If no package is missing,
# the script ends at once.
#   sh tools/install.sh           packages for building, running and testing
#   sh tools/install.sh checks    also the tools with which .ci/run checks the sources
#   sh tools/install.sh ceph      also packages for tests/ceph.sh
set -eu
list=$(dirname "$0")/../packages.txt

# Prints the packages that packages.txt lists before its first mark (a line with "#
# ----"), and the packages below the mark of the group $1.
wanted() {
    awk -v group="${1:-}:" '/^# ---- / { skip = $3 != group }
                            !/^#/ && NF && !skip { print $1 }' "$list"
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
echo "install: $names"
# shellcheck disable=SC2086 # $root may be nothing, $names are several words
{
    $root env DEBIAN_FRONTEND=noninteractive apt-get update -q
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
        --no-install-recommends $names </dev/null
}
