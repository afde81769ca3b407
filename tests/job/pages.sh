#!/bin/sh
# The manual pages and the completion are what the program says of its verbs.
#
# usage: pages.sh PATHLOOM
set -u
pathloom=$1
failed=0
for page in docs/man/pathloom-*.1; do
    verb=${page#docs/man/pathloom-}
    "$pathloom" "${verb%.1}" --man | diff - "$page" || failed=1
done
"$pathloom" --man | diff - docs/man/pathloom.1 || failed=1
verbs=$("$pathloom" --help | sed -n 's/^  pathloom \([a-z]*\).*/\1/p
    s/^Processes of a job, started by `train`: //p')
for verb in $verbs; do
    [ -f "docs/man/pathloom-$verb.1" ] || {
        echo "there is no docs/man/pathloom-$verb.1: pathloom $verb --man makes it"
        failed=1
    }
done
"$pathloom" --completion | diff - share/pathloom.bash || failed=1
exit "$failed"
