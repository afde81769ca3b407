#!/bin/sh
# Measures how much two threads gain or lose while other programs use the processors:
#
#   sh bench/neighbours.sh BUILD [ROUNDS]
#
# BUILD is a build folder, for example build/release. Busy loops are the other programs.
# Each round measures one thread and then two threads; a row has the median of the
# rounds. Decoding is `pathloom bench generate --model laptop` with one stream, training
# is examples/train_one. The last column is the ratio of two threads to one.
set -eu
build=$1 rounds=${2:-3}
folder=$(mktemp -d)
busy=
quiet() {
    for pid in $busy; do
        kill "$pid" 2>/dev/null || :
    done
    busy=
}
trap 'quiet; rm -rf "$folder"' EXIT

decode() { # PRECISION THREADS
    "$build/pathloom" bench generate --model laptop --precision "$1" --threads "$2" \
        --json | sed -n 's/.*"decode_tokens_per_s": *\([0-9.]*\).*/\1/p'
}
train() { # - THREADS
    "$build/examples/train_one" --out "$folder/run" --steps 60 --threads "$2" |
        sed -n 's/^train .* \([0-9]*\) tokens\/s$/\1/p' | tail -n 1
}
median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

train - 2 >/dev/null # prepares the text
printf '%-10s  %-14s  %12s  %12s  %5s\n' neighbours work '1 thread' '2 threads' ratio
for neighbours in 0 2 4; do
    i=0
    while [ "$i" -lt "$neighbours" ]; do
        (while :; do :; done) &
        busy="$busy $!"
        i=$((i + 1))
    done
    for work in 'decode f32' 'decode bf16' 'decode int8' 'train -'; do
        : >"$folder/1" && : >"$folder/2"
        i=0
        while [ "$i" -lt "$rounds" ]; do
            for threads in 1 2; do
                # shellcheck disable=SC2086 # two words: the function and its argument
                $work "$threads" >>"$folder/$threads"
            done
            i=$((i + 1))
        done
        one=$(median <"$folder/1") two=$(median <"$folder/2")
        awk -v n="$neighbours" -v work="${work% -}" -v one="$one" -v two="$two" 'BEGIN {
            printf "%-10s  %-14s  %12.0f  %12.0f  %5.2f\n", n, work, one, two, two / one }'
    done
    quiet
done
