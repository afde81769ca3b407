#!/bin/sh
# Tests the status page in a real browser. While a small job trains and after its end,
# its page must agree with `status` and report.json. Also tests labels, contrast, the
# keyboard, small screens, and the page of `pathloom serve`. The screenshots are kept.
#
#   sh tests/page.sh [PATHLOOM] [WORKFOLDER]
#
# Installs Debian's chromium and python3 if they are missing and the user may do so.
# The screenshots are in WORKFOLDER/pictures (default: build/page_browser/pictures).
# Takes one to two minutes.
#
# Exit codes: 0; 1 if a check failed; 77 if there is no browser, and a line says so.
set -u
cd "$(dirname "$0")/.." || exit 2
pathloom=${1:-build/release/pathloom}
. tests/support/job.sh
own_folder "${2:-build/page_browser}"
mkdir "$work/pictures"
page='' server=''
trap '[ -z "$page$server" ] || kill $page $server 2>/dev/null' EXIT

# Sets `browser`. Fails if there is no browser or no python3.
find_tools() {
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) &&
        command -v python3 >"$work/tools.out"
}
find_tools || sh tools/install.sh browser >"$work/apt.out" 2>&1
find_tools || {
    echo "skipped: there is no chromium or no python3, and this user cannot install them"
    exit 77
}

make_corpus base docs
# Both workers stop when the mixture has a version and is not finished, so that what the
# page shows and what status says can be compared.
# shellcheck disable=SC2086 # $patient is a list of words
(PATHLOOM_FAILPOINT=worker.step.before@worker:stop:60 small_job run $patient \
    --set train.tau=5 --set train.phases=6 --set train.base_steps=10 \
    --set eval.baselines=diloco --set eval.curves=1 --set store.keep_updates=true) >"$work/run.out" 2>&1 &
job=$!
training_begins run
modules_reach run 1
"$pathloom" page --run "$work/run" --listen '127.0.0.1:*' >"$work/page.out" 2>&1 &
page=$!
await 60 "pathloom page does not print its address" grep ' is at http' "$work/page.out"
at=$(sed -n 's/.* is at \(http.*\)/\1/p' "$work/page.out")
browse() { # training, or finished with the arguments of browser.py
    python3 tests/job/page/browser.py "$browser" "$at" "$pathloom" "$work/run" \
        "$work/pictures" "$@" || fail "the page of a run that is $1"
}
browse training
let_go worker
job_ends
"$pathloom" page --run "$work/run" --report "$work/report.html" >"$work/report.out" || fail "page --report"
"$pathloom" serve --run "$work/run" --listen '127.0.0.1:*' --threads 1 >"$work/serve.out" 2>&1 &
server=$!
await 60 "pathloom serve does not print its address" grep '^serving .* at http.*v1$' "$work/serve.out"
browse finished "$work/report.html" "$(sed -n 's/^serving .* at \(http.*\)v1$/\1/p' "$work/serve.out")"
kill "$page" "$server"
wait "$page" || fail "the page ends with $?"
wait "$server" || fail "the server ends with $?"
page='' server=''
echo "pictures: $work/pictures"
