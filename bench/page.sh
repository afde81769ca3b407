#!/bin/sh
# Measures over HTTP how long a browser waits for the page of a run with many versions:
# the time to the first byte of the page, and of each JSON file that the page loads. The
# script measures first while `pathloom page` still reads the store, then after it has
# read the whole store.
#
#   sh bench/page.sh [PATHLOOM] [WORKFOLDER] [PHASES]
#
# Trains a very small 2x2 mixture for PHASES phases, unless WORKFOLDER already has this
# run. The default of 1,250 phases makes 15,000 versions and takes some minutes. Needs
# curl. Prints a table of seconds: the longest wait while the store is being read, then
# the median and the longest wait of 21 requests.
set -u
cd "$(dirname "$0")/.." || exit 2
pathloom=${1:-build/release/pathloom}
work=${2:-build/bench_page}
phases=${3:-1250}
. tests/support/job.sh
[ "${work#/}" != "$work" ] || work=$PWD/$work
mkdir -p "$work"
page=''
trap '[ -z "$page" ] || kill "$page" 2>/dev/null' EXIT

if [ ! -f "$work/run/report.json" ]; then
    own_folder "$work"
    make_corpus base docs
    (small_job run --set train.tau=1 --set train.base_steps=10 --set model.context=32 \
        --set train.batch=1 --set train.phases="$phases") >"$work/run.out" 2>&1 ||
        fail "the training failed; see $work/run.out"
fi

began=$(date +%s%N)
"$pathloom" page --run "$work/run" --listen '127.0.0.1:*' --ready "$work/ready" >"$work/page.out" 2>&1 &
page=$!
until [ -s "$work/ready" ]; do
    kill -0 "$page" || fail "the page ended; see $work/page.out"
    sleep 0.002
done
opened=$(date +%s%N)
at=http://$(cat "$work/ready")

# Prints the seconds to the first byte of an answer, and the number of bytes of the
# answer.
first_byte() { # url
    curl -s -o "$work/answer" -w '%{time_starttransfer} %{size_download}\n' --max-time 60 "$at$1"
}

questions='/ /state.json /history /modules.json?arm=mix /router.json'
: >"$work/reading"
until grep -q '"reading":false' "$work/state" 2>/dev/null; do
    for question in $questions; do
        echo "$question $(first_byte "$question")" >>"$work/reading"
        [ "$question" != /state.json ] || cp "$work/answer" "$work/state"
    done
done
read_at=$(date +%s%N)
echo "versions           $(sed 's/.*"versions":\([0-9]*\).*/\1/' "$work/state")"
awk -v a="$began" -v b="$opened" -v c="$read_at" 'BEGIN {
    printf "page can be opened %.3f s after its start; all versions are read after %.3f s\n",
        (b - a) / 1e9, (c - a) / 1e9 }'
echo "first byte, s      while it reads: longest (of n)   then: median, longest   bytes"
for question in $questions; do
    for _ in $(seq 21); do
        first_byte "$question"
    done | sort -n >"$work/times"
    awk -v question="$question" '
        NR == FNR { if ($1 == question) { n++; if ($2 > most) most = $2 } next }
        { t[FNR] = $1; bytes = $2 }
        END { printf "%-24s %.4f (%d)               %.4f, %.4f          %d\n",
              question, most, n, t[11], t[21], bytes }' "$work/reading" "$work/times"
done
kill "$page"
wait "$page"
page=''
for verb in 'status --history' "page --report $work/report.html"; do
    a=$(date +%s%N)
    # shellcheck disable=SC2086 # words
    "$pathloom" $verb --run "$work/run" >"$work/verb.out" || fail "pathloom $verb failed"
    b=$(date +%s%N)
    awk -v verb="${verb%% /*}" -v a="$a" -v b="$b" 'BEGIN { printf "%-24s %.3f s\n", verb, (b - a) / 1e9 }'
done
