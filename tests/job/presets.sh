#!/bin/sh
# Tests `pathloom init`: the list of presets, and the settings of each preset. The
# written file must give the same settings when it is read.
#
# usage: presets.sh PATHLOOM WORKFOLDER
set -u
. tests/support/script.sh
begin "$@"

# value FILE SECTION.KEY: prints the value of the key in the file
value() {
    awk -v section="${2%%.*}:" -v key="${2#*.}:" '
        /^[a-z]/ { inside = $1 == section }
        inside && $1 == key { print $2; exit }' "$1"
}

# has PRESET SECTION.KEY=VALUE ...: the preset must set these values
has() {
    preset=$1
    shift
    "$pathloom" init --set preset="$preset" >"$work/$preset.yaml" 2>"$work/error" ||
        complain "init of $preset: $(cat "$work/error")"
    for pair; do
        is=$(value "$work/$preset.yaml" "${pair%%=*}")
        [ "$is" = "${pair#*=}" ] || complain "$preset has ${pair%%=*} $is, not ${pair#*=}"
    done
}

paper="train.batch=512 train.warmup=1000 train.base_warmup=1000 train.base_steps=24000
    model.context=1024 router.prefix=32 train.weight_decay=0.1 train.pack=true"
paths="train.lr=0.0004 train.tau=150 train.phases=427 outer.lr_private=-1
    outer.momentum_private=-1 outer.rescale=true"
long="train.tau=500 train.phases=128 outer.rescale=false"
# shellcheck disable=SC2086 # the list is several words
{
    for preset in dipaco-150m-2x2 dipaco-150m-2x4 dipaco-150m-8x8 dipaco-150m-8x8-ps \
        flat-moe-8; do
        has $preset $paper $paths router.overlap=1
    done
    has dipaco-150m-16x16 $paper $paths router.overlap=2
    has dipaco-150m-16x16-ps $paper $paths router.overlap=2
    has diloco-8 $paper $long train.lr=0.0004 outer.lr_private=-1 topology.replicas=8
    has dense-150m $paper $long train.lr=0.0004 outer.lr_private=1 eval.baselines=none
    has dense-1b $paper $long train.lr=0.0002 outer.lr_private=1 eval.baselines=none
    has laptop-4x4 topology.levels=4x4 train.base_steps=3000 train.tau=50 train.phases=4
}

# A small preset must not have the settings of the paper's presets.
has laptop outer.rescale=false router.overlap=1 topology.levels=2x2

# Keys that the user gives override the preset, also if a file gives them.
printf 'preset: dipaco-150m-16x16\ntrain:\n  tau: 7\n' >"$work/own.yaml"
"$pathloom" init --set preset=dipaco-150m-16x16 --set train.tau=7 >"$work/set.yaml"
[ "$(value "$work/set.yaml" train.tau)" = 7 ] || complain "--set does not override a preset"
[ "$(value "$work/set.yaml" train.batch)" = 512 ] || complain "a key that was set changed another key of the preset"
"$pathloom" train "$work/own.yaml" --out "$work/run" --set router.prefix=1024 >"$work/out" 2>&1
grep -q 'router.prefix 1024 .* model.context 1024' "$work/out" ||
    complain "a preset in a file: $(cat "$work/out")"

# The list must have the same presets as the error that names all presets.
"$pathloom" init --list >"$work/list" || complain "init --list"
"$pathloom" init --set preset=nothing-of-this-name >"$work/out" 2>&1
[ $? -eq 78 ] || complain "an unknown preset does not end with 78"
[ "$(wc -l <"$work/out")" -eq 1 ] || complain "more than a sentence: $(cat "$work/out")"
sed 's/.*known are //; s/, where.*//; s/, /\n/g' "$work/out" >"$work/known"
awk 'NR > 1 && NF == 6 { print $1 }' "$work/list" | diff - "$work/known" ||
    complain "the list and the error name different presets"
grep -q '^dipaco-150m-16x16-ps  *149.1M  *256 ' "$work/list" || complain "$(cat "$work/list")"

exit "$found"
