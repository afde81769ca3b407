#!/bin/sh
# Measures the gain of each default of the training: the mixture's held-out perplexity
# with one setting changed, divided by the perplexity with the defaults and the same
# seed. All alternatives train on the same number of tokens as the defaults.
#
#   sh bench/defaults.sh CORPUS VALID OUTFOLDER "1 2 3" [key=value ...]
#
# CORPUS and VALID may be "" for the text of this machine; the pairs key=value apply to
# every run. Runs that already exist are only read. The store, the data and the cache of
# a finished run are deleted. Prints a table in Markdown: settings with ratios below 1
# are better than the default.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
pathloom=${PATHLOOM:-$(dirname "$0")/../build/release/pathloom}
corpus=$1 valid=$2 out=$3 seeds=$4
shift 4
common="eval.baselines=none eval.sample_tokens=0 eval.max_tokens=200000 $*"

# One alternative per line: its name, then the settings that differ from the defaults.
alternatives() {
    cat <<'LIST'
default
cosine train.schedule=cosine
decay-0.2 train.decay=0.2
decay-0.6 train.decay=0.6
nesterov-to-the-end outer.settle=false
plain-mean outer.method=fedavg
base-a-quarter train.base_steps=600 train.phases=9
base-three-quarters train.base_steps=1800 train.phases=3
all-in-levels topology.private= topology.embed=common topology.head=common
flat topology.levels=4
dealt-by-prefix router.sees=1
shards-within-1.3 router.balance=0.3
phases-of-25 train.tau=25 train.phases=12
phases-of-100 train.tau=100 train.phases=3
LIST
}

one() { # name, pairs
    name=$1
    folder=$out/$name/seed$seed
    shift
    [ ! -s "$folder/report.json" ] || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    [ ! -d "$out/data-$seed" ] || cp -r "$out/data-$seed" "$folder/data"
    pairs="$common seed=$seed $*"
    set --
    for pair in $pairs; do
        set -- "$@" --set "$pair"
    done
    [ -z "$corpus" ] || set -- "$@" --corpus "$corpus"
    [ -z "$valid" ] || set -- "$@" --valid "$valid"
    "$pathloom" train --out "$folder" "$@" >"$folder.log" 2>&1 </dev/null || {
        tail -n 3 "$folder.log" >&2
        exit 1
    }
    [ -d "$out/data-$seed" ] || cp -r "$folder/data" "$out/data-$seed"
    rm -rf "$folder/store" "$folder/data" "$folder/cache"
}

mkdir -p "$out"
for seed in $seeds; do
    alternatives | while read -r name pairs; do
        # shellcheck disable=SC2086 # several words
        one "$name" $pairs
    done
done

# Prints the perplexity of a row in a report.
ppl() { # report, row
    awk -F'": *' -v row="$2" '
        { value = $2; sub(/,$/, "", value); gsub(/"/, "", value) }
        /"row":/ { here = value == row }
        /"ppl":/ && here { print value; exit }' "$1"
}

echo "| changed | routed once: ratio per seed | mean | re-routed: ratio per seed | mean |"
echo "|---|---|---|---|---|"
alternatives | while read -r name pairs; do
    line="| ${pairs:-nothing (perplexity)} |"
    for row in mix-likelihood mix-windows; do
        list='' n=0 sum=0
        for seed in $seeds; do
            own=$(ppl "$out/$name/seed$seed/report.json" "$row")
            base=$(ppl "$out/default/seed$seed/report.json" "$row")
            [ "$name" != default ] || base=1
            ratio=$(awk -v a="$own" -v b="$base" 'BEGIN { printf "%.3f", a / b }')
            list="$list${list:+, }$ratio"
            sum=$(awk -v a="$sum" -v b="$ratio" 'BEGIN { print a + b }')
            n=$((n + 1))
        done
        line="$line $list | $(awk -v s="$sum" -v n="$n" 'BEGIN { printf "%.3f", s / n }') |"
    done
    echo "$line"
done
