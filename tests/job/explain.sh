#!/bin/sh
# Tests that `pathloom explain` explains every status, exit code, event and key of the
# program, and nothing else.
#
# usage: explain.sh PATHLOOM
set -u
. tests/support/script.sh
pathloom=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing=$folder/missing known=$folder/known by_code=$folder/by_code

statuses=$(sed -n 's/^ *X(\(OK\|ERR_[A-Z_]*\), \([0-9]*\),.*/\1 \2/p' base/status.h)
[ "$(echo "$statuses" | wc -l)" -gt 20 ] || complain "no statuses in base/status.h"
# Finds the name of each event. It is the first string after the level in a call of
# pl_log, and may be on the next line. The level may be an expression.
events=$(cat base/*.c codec/*.c outer/*.c net/*.c history/*.c home/*.c relay/*.c router/*.c eval/*.c workers/*.c serve/*.c config/*.c job/*.c view/*.c cli/*.c store/*.c | tr '\n' ' ' |
    grep -oE 'pl_log\([^";]*, *"[a-z]+\.[a-z_.]+"' | sed 's/.*"\(.*\)"/\1/' |
    sort -u)
[ "$(echo "$events" | wc -l)" -gt 25 ] || complain "no events in the sources"

# Reads words, asks `explain` about eight of them at a time, and prints the words that
# it explains.
explained() {
    xargs -n 8 "$pathloom" explain |
        awk '/^[^ ]/ { name = $1 } /^  meaning  [A-Z]/ { print name }' | sort -u
}
names=$(echo "$statuses" | cut -d' ' -f1)
echo "$names" "$events" | explained >"$known"
echo "$statuses" | cut -d' ' -f2 | sort -u | explained >"$by_code"
for word in $names $events; do
    grep -qx "$word" "$known" || echo "$word"
done >"$missing"
for name in $names; do
    grep -qx "$name" "$by_code" || echo "$name by its exit code"
done >>"$missing"
[ -s "$missing" ] && complain "not explained: $(tr '\n' ' ' <"$missing")"

for code in $("$pathloom" explain | cut -d' ' -f1); do
    echo "$statuses" | grep -q "^$code " || echo "$events" | grep -qx "$code" ||
        grep -q "EXIT_[A-Z]* = $code " cli/cli.h ||
        complain "explained, and nowhere said: $code"
done
"$pathloom" explain 130 | grep -q "it continues where it stopped" ||
    complain "the exit code of a stopped job is not explained"
"$pathloom" explain 75 | grep -q "train, join and worker end with exit code 130" ||
    complain "75 claims what ends with 130"
"$pathloom" explain lease.expird 2>&1 | grep -q "did you mean lease.expired" ||
    complain "no nearest name"
# The explanation of a key must be the one in docs/CONFIG.md, and not a part of it.
keys=$(sed -n 's/^| `\([a-z_.0-9]*\)` |.*/\1/p' docs/CONFIG.md)
[ "$(echo "$keys" | wc -l)" -gt 100 ] || complain "no keys in docs/CONFIG.md"
echo "$keys" | xargs -n 8 "$pathloom" explain >"$known" ||
    complain "a key of docs/CONFIG.md is not explained"
awk -v keys="$(echo "$keys" | wc -l)" '
    /^[^ ]/ { name = $1; n++ }
    sub(/^  meaning  /, "") {
        if (/^(of|for|in which|the same) /)
            print name ": `" $0 "` says nothing without the key'"'"'s name"
        if (NF < 3) print name " is not explained"
    }
    END { if (n != keys) print n " of " keys " keys are explained" }' "$known" >"$missing"
[ -s "$missing" ] && complain "$(cat "$missing")"
"$pathloom" explain tau | grep -q "^train.tau " ||
    complain "explain does not find a key by the end of its name"
"$pathloom" explain learning_rate | grep -q "^train.lr " ||
    complain "explain does not find a key by its meaning"
# Names that other programs use: their parts, plurals and usual words are found.
for pair in batch_size:train.batch n-layers:model.blocks epochs:train.phases \
    experts:topology.levels encryption:net.encrypt fp16:workers.precision; do
    "$pathloom" explain "${pair%:*}" | grep -q "^${pair#*:} " ||
        complain "explain ${pair%:*} does not find ${pair#*:}"
done
"$pathloom" explain data | grep -q "^data.corpus " ||
    complain "explain does not list the keys of a section"
"$pathloom" train --set phases=3 2>&1 | grep -q "the most similar key is .train.phases" ||
    complain "explain does not find a key by the end of its name in --set"
[ "$found" -eq 0 ] && echo "$(echo "$statuses" | wc -l) statuses and $(echo "$events" |
    wc -l) events, and $(echo "$keys" | wc -l) keys are explained"
exit "$found"
