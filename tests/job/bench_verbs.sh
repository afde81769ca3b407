#!/bin/sh
# Tests `pathloom bench step` and `pathloom bench ops` on a model of a few thousand
# parameters, and `store`, `wire`, `home`, `hub` and `router` with small numbers. The output must
# have all figures, these must not contradict each other, and wrong options must be
# refused. Also tests that bench/rivals/run.sh and
# bench/time_to_quality.sh name the programs that are missing.
#
# usage: bench_verbs.sh PATHLOOM WORKFOLDER
set -u
. tests/support/script.sh
begin "$@"
tiny="--set model.width=32 --set model.heads=2 --set model.blocks=1 --set data.vocab=300
    --set model.context=16 --set train.batch=2"

# has TEXT...: the output must contain each TEXT.
has() {
    for text; do
        grep -q -- "$text" "$work/out" || complain "no $text in: $(head -c 300 "$work/out")"
    done
}

# refuses TEXT OPTIONS...: expects exit code 64 and one sentence that contains TEXT.
refuses() {
    text=$1
    shift
    "$pathloom" bench "$@" >"$work/out" 2>&1
    [ $? -eq 64 ] || complain "bench $* did not end with 64"
    has "$text"
    [ "$(wc -l <"$work/out")" -eq 1 ] || complain "bench $* said more than a sentence"
}

# shellcheck disable=SC2086 # the list is several words
{
    "$pathloom" bench step $tiny --json >"$work/out" 2>&1 || complain "bench step"
    has '"tokens_per_s":[1-9]' '"share_of_products":0' '"memory_bytes_per_s":[1-9]' \
        '"width":32' '"flops_per_s":[1-9]'
    "$pathloom" bench step $tiny --backend ref --clock cpu >"$work/out" 2>&1 ||
        complain "bench step, table"
    has 'tokens/s' '^  own'
    "$pathloom" bench ops $tiny --json --precision f32 >"$work/out" 2>&1 ||
        complain "bench ops"
    has '"operation":"attention backward"' '"operation":"head dw"' '"share_of_limit":'
    "$pathloom" bench step $tiny --processes 2 --json >"$work/out" 2>&1 ||
        complain "bench step with processes"
    has '"processes":2,"threads":1,"tokens_per_s":[1-9]' \
        '"processes":1,"threads":2,"tokens_per_s":[1-9]'
}
"$pathloom" bench store --folder "$work" --bytes 100000 --repeats 2 >"$work/out" 2>&1 ||
    complain "bench store"
has '^ *0.10 MB  '
"$pathloom" bench wire --bytes 2000000 --rounds 1 >"$work/out" 2>&1 || complain "bench wire"
has '^messages alone .* unencrypted .* 100 %' '^down .* CURVE '
"$pathloom" bench home --workers 120 --bytes 100000 >"$work/out" 2>&1 || complain "bench home"
has '^120 workers, 0.10 MB' '^  home: '
# The hub serves 400 workers while a state of some thousand records arrives at it.
"$pathloom" bench hub --workers 400 --seconds 1 --task 1 >"$work/out" 2>&1 || complain "bench hub"
has '^400 workers' 'RENEW to RENEWED [1-9]' '^  hub: [1-9]'
# With 1 MiB a fit uses only a part of the documents.
"$pathloom" bench router --folder "$work" --documents 6000 --paths 16 --columns 16 --memory 1 \
    >"$work/out" 2>&1 || complain "bench router"
has 'fitted to one of every [2-9]' '^linear .* prices computed' '^memory '
refuses 'too few for 9 paths' router --folder "$work" --documents 8 --paths 9

refuses 'did you mean .13m' step --model 14m
refuses 'did you mean .150m' step --model 151m
refuses 'did you mean .1.3b' generate --model 1.4b
refuses 'give only one' step --model 13m --set model.width=64
refuses '1 to 1024, not .0' step --threads 0
refuses 'wall or cpu' step --clock sun
refuses "bench ops has no option" ops --processes 2
refuses "bench step has no option .--run" step --run nowhere
refuses "bench outer has no option" outer --model 13m

sh bench/rivals/run.sh --build "$(dirname "$pathloom")" --python false >"$work/out" 2>&1
[ $? -eq 69 ] || complain "run.sh without PyTorch did not end with 69"
has 'pip install torch'
sh bench/rivals/run.sh --build "$work/nothing" >"$work/out" 2>&1
[ $? -eq 69 ] || complain "run.sh without a build did not end with 69"
has 'build it'
PATHLOOM=$pathloom sh bench/time_to_quality.sh a b "$work/runs" --python false >"$work/out" 2>&1
[ $? -eq 69 ] || complain "time_to_quality.sh without PyTorch did not end with 69"
has 'pip install torch'
PATHLOOM=$pathloom sh bench/time_to_quality.sh a b "$work/runs" --model 2m >"$work/out" 2>&1
[ $? -eq 64 ] || complain "time_to_quality.sh with an unknown model did not end with 64"
has '1m or 13m'

# Writes the report of the run 2x2 of bench/claims.sh, with these perplexities.
report_of_2x2() { # mixture, dense, diloco
    mkdir -p "$work/claims/2x2/seed1"
    for row in "mix $1" "dense $2" "diloco $3" "dense-eq 100"; do
        name=${row% *}
        printf '"row": "%s",\n"title": "%s",\n"bits_per_byte": 2,\n"ppl": %s,\n' \
            "$name" "$name" "${row#* }"
        printf '"%s": 1,\n' tokens_total train_flops train_seconds ppl_first_windows \
            ppl_macro read_flops params_total
    done >"$work/claims/2x2/seed1/report.json"
}
claims() {
    PATHLOOM=$pathloom sh bench/claims.sh --only "$1" --seeds 1 --out "$work/claims" a b \
        >"$work/out" 2>&1
}
report_of_2x2 70 100 100
claims S1 || complain "claims.sh fails although claim S1 passes"
has '| S1 |.*| 0.700; 0.700 |.*| pass |'
report_of_2x2 89.99 100 92.774 # 0.96999
claims S1 || complain "claims.sh rounds before it compares"
report_of_2x2 89.99 100 92.772 # 0.97001
claims S1 && complain "claims.sh rounds before it compares"
report_of_2x2 95 100 100
claims S1
[ $? -eq 1 ] || complain "claims.sh does not end with 1 when a claim fails that holds"
has '| S1 |.*| 0.950; 0.950 |.*| fail |'
has 'says that they hold: S1$'

[ "$found" -eq 0 ] && echo "bench_verbs: all checks passed"
exit "$found"
