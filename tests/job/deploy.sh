#!/bin/sh
# Tests the files in deploy/: systemd must accept the units, and pathloom must know the
# commands and options that the files use.
#
# usage: deploy.sh PATHLOOM WORKFOLDER
set -u
. tests/support/script.sh
begin "$@"

# Checks that the help of the verb names every option that a unit or manifest uses.
check_options() { # file, verb, words
    file=$1
    verb=$2
    shift 2
    "$pathloom" help "$verb" >"$work/help"
    [ "$verb" != join ] || "$pathloom" help worker >>"$work/help"
    for word in "$@"; do
        case $word in
        --set) ;;
        --*) grep -q -- "^  $word" "$work/help" ||
            complain "$file: $verb has no option $word" ;;
        esac
    done
}
for unit in deploy/systemd/*.service; do
    set -- $(sed -n 's/^ExecStart=[^ ]*pathloom //p' "$unit")
    check_options "$unit" "$@"
done
awk '/^ *args: \[/ { sub(/.*\[/, ""); inside = 1; line = "" }
    inside { line = line " " $0 }
    inside && /\]/ { sub(/\].*/, "", line); gsub(/[",]/, " ", line); print line; inside = 0 }
' deploy/kubernetes/*.yaml >"$work/args"
[ "$(wc -l <"$work/args")" -eq 4 ] || complain "not four commands in the manifests"
while read -r line; do
    set -- $line
    check_options deploy/kubernetes "$@"
done <"$work/args"

if command -v systemd-analyze >/dev/null; then
    for unit in deploy/systemd/*.service; do
        name=$(basename "$unit" | sed 's/@/@run/')
        sed "s#/usr/bin/pathloom#\"$pathloom\"#" "$unit" >"$work/$name"
    done
    systemd-analyze verify --man=no "$work"/*.service >"$work/said" 2>&1 ||
        complain "systemd-analyze: $(cat "$work/said")"
    grep "$work" "$work/said" && complain "systemd-analyze found something"
    echo "systemd-analyze: $(ls "$work"/*.service | wc -l) units are well"
else
    echo "the units, which systemd-analyze checks: not on this machine"
fi
exit "$found"
