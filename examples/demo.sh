#!/bin/sh
# From a fresh machine to a trained mixture of paths: install, build, train.
#   sh examples/demo.sh                      makes the run ./pathloom-run
#   sh examples/demo.sh --out RUN --set ...  all arguments go to `pathloom train`
# The script trains on the text that the machine already has below /usr, or on the text
# that --corpus names. A second call continues where the first call ended; for a
# finished run it only prints the report.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
start=$(date +%s)
since() { echo "$(($(date +%s) - start)) s"; }

sh "$root/tools/install.sh"
sh "$root/tools/build.sh" release pathloom
echo "== pathloom train $* (at $(since))"
trained=0
"$root/build/release/pathloom" train "$@" || trained=$?
echo "== ended after $(since), exit code $trained"
exit "$trained"
