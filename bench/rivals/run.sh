#!/bin/sh
# Compares the tokens per second of a training step of pathloom, PyTorch and llm.c on
# this machine. The three are measured in turn. Prints a table in Markdown.
#
#   sh bench/rivals/run.sh [--models "2m 13m 124m"] [--cpus N] [--rounds N] [--quick]
#                          [--build build/release] [--python PYTHON] [--llmc FOLDER]
#                          [--clock cpu] [--kinds "compile/f32 compile/bf16"]
#
# All programs use the same processors (the first N; all by default), the same model,
# AdamW, clipping, batch and context. For each program the best round counts.
#
#   pathloom  one process with one thread per processor, as `pathloom train` starts them
#   PyTorch   torch_step.py: eager and compiled, each in fp32, in bf16 autocast (fp32
#             parameters: pathloom's arithmetic) and in pure bf16 (parameters and
#             moments too); one process with all threads, and one process per processor;
#             the table has the faster of the two
#   llm.c     its train_gpt2, on the 124M model, if --llmc names its folder, built and
#             with its data; it always uses context 64 and fp32
#
# --kinds: only these variants of PyTorch (eager or compile, each in f32, autocast or
# bf16). --quick: only compiled bf16, one round. --clock cpu, with --cpus 1: measures
# processor time instead of wall time, for a machine that does other work. The exit code
# is 69 if PyTorch or the build is missing.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
cd "$(dirname "$0")/../.."
build=build/release python=${PYTHON:-python3} models="2m 13m 124m"
cpus=$(nproc) rounds=2 llmc='' clock=wall
kinds="eager/f32 compile/f32 eager/autocast compile/autocast eager/bf16 compile/bf16"

fail() {
    echo "run.sh: $2" >&2
    exit "$1"
}

needs_value() { # the remaining words of the command line
    [ $# -gt 1 ] || fail 64 "$1 needs a value"
}

while [ $# -gt 0 ]; do
    case $1 in
    --quick) kinds="compile/autocast compile/bf16" rounds=1 ;;
    --models) needs_value "$@" && models=$2 && shift ;;
    --cpus) needs_value "$@" && cpus=$2 && shift ;;
    --rounds) needs_value "$@" && rounds=$2 && shift ;;
    --build) needs_value "$@" && build=$2 && shift ;;
    --python) needs_value "$@" && python=$2 && shift ;;
    --llmc) needs_value "$@" && llmc=$2 && shift ;;
    --clock) needs_value "$@" && clock=$2 && shift ;;
    --kinds) needs_value "$@" && kinds=$2 && shift ;;
    *) fail 64 "unknown option $1; the head of bench/rivals/run.sh lists them" ;;
    esac
    shift
done
for kind in $kinds; do
    case $kind in
    eager/f32 | eager/autocast | eager/bf16 | compile/f32 | compile/autocast | compile/bf16) ;;
    *) fail 64 "there is no kind $kind; a kind is (eager or compile)/(f32, autocast or bf16)" ;;
    esac
done
case $cpus$rounds in
*[!0-9]* | 0*) fail 64 "--cpus and --rounds are numbers of 1 or more" ;;
esac
[ "$clock" = wall ] || [ "$cpus" -eq 1 ] ||
    fail 64 "--clock cpu counts one thread: add --cpus 1"
[ -x "$build/pathloom" ] ||
    fail 69 "$build/pathloom is missing: build it (sh tests/run.sh does), or name another build with --build"
torch=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null) ||
    fail 69 "PyTorch is missing: python3 -m venv venv && venv/bin/pip install torch, then add --python venv/bin/python"
[ -z "$llmc" ] || [ -x "$llmc/train_gpt2" ] ||
    fail 69 "$llmc/train_gpt2 is missing: make train_gpt2 there, and fetch its starter pack"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mask=0-$((cpus - 1))

# Prints the shape of a model, as in measure/measure_models.c, for torch_step.py.
shape() {
    case $1 in
    laptop) echo "--batch 8 --context 128 --width 128 --blocks 4 --heads 4 --ffn 344 --vocab 2048" ;;
    2m) echo "--batch 4 --context 256 --width 128 --blocks 8 --heads 4 --ffn 352 --vocab 4096" ;;
    13m) echo "--batch 4 --context 256 --width 384 --blocks 6 --heads 6 --ffn 1024 --vocab 8192" ;;
    124m) echo "--batch 4 --context 256 --width 768 --blocks 12 --heads 12 --ffn 2048 --vocab 50304" ;;
    *) fail 64 "there is no model $1; a model is laptop, 2m, 13m or 124m" ;;
    esac
}

ours() { # MODEL: tokens/s
    taskset -c "$mask" "$build/pathloom" bench step --model "$1" --processes "$cpus" \
        --clock "$clock" --json |
        sed -n 's/.*"processes":'"$cpus"',"threads":1,"tokens_per_s":\([0-9]*\).*/\1/p'
}

# theirs MODEL MODE PRECISION PROCESSES THREADS: prints the tokens/s of PyTorch; 0 if this
# variant does not run
theirs() {
    i=0
    shape=$(shape "$1")
    while [ $i -lt "$4" ]; do
        own=$mask
        [ "$4" -eq 1 ] || own=$i
        # shellcheck disable=SC2086 # several words
        taskset -c "$own" "$python" bench/rivals/torch_step.py $shape --mode "$2" \
            --precision "$3" --threads "$5" --clock "$clock" --steps 8 --seconds 20 >"$work/torch.$i" \
            2>/dev/null &
        i=$((i + 1))
    done
    wait
    cat "$work"/torch.* | sed -n 's/.*"tokens_per_s": *\([0-9]*\).*/\1/p' |
        awk '{ s += $1 } END { print s + 0 }'
    sed -n 's/.*"error": *"\(.*\)".*/\1/p' "$work"/torch.* >>"$work/errors"
    rm -f "$work"/torch.*
}

greatest() {
    awk '$1 > b { b = $1 } END { print b + 0 }' "$1" 2>/dev/null || echo 0
}

measure() { # MODEL
    round=0
    while [ $round -lt "$rounds" ]; do
        ours "$1" >>"$work/$1.ours"
        for kind in $kinds; do
            file=$work/$1.$(echo "$kind" | tr / .)
            theirs "$1" "${kind%/*}" "${kind#*/}" 1 "$cpus" >>"$file"
            [ "$cpus" -eq 1 ] || theirs "$1" "${kind%/*}" "${kind#*/}" "$cpus" 1 >>"$file"
        done
        round=$((round + 1))
    done
}

ratio() { # OURS THEIRS
    awk -v a="$1" -v b="$2" 'BEGIN { print b ? sprintf("%.2fx", a / b) : "" }'
}

row() { # MODEL
    mine=$(greatest "$work/$1.ours")
    line="| $1 | $mine |" best=0 best16=0
    for kind in $kinds; do
        rate=$(greatest "$work/$1.$(echo "$kind" | tr / .)")
        line="$line $rate |"
        [ "$rate" -le "$best" ] || best=$rate
        case $kind in
        */f32) ;;
        *) [ "$rate" -le "$best16" ] || best16=$rate ;;
        esac
    done
    echo "$line $(ratio "$mine" "$best16") | $(ratio "$mine" "$best") |"
}

# Prints the tokens/s of llm.c, from the median step of 4 x 64 tokens, without the first
# step.
llmc_row() {
    (cd "$llmc" && OMP_NUM_THREADS=$cpus timeout 120 taskset -c "$mask" ./train_gpt2) \
        >"$work/llmc" 2>&1 || true
    sed -n 's/^step [1-9].*(took \([0-9.]*\) ms).*/\1/p' "$work/llmc" | sort -n |
        awk -v ours="$(greatest "$work/124m.ours")" '{ t[NR] = $1 } END {
            if (NR == 0) { print "llm.c printed no step"; exit }
            rate = 256000 / t[int((NR + 1) / 2)]
            printf "llm.c, 124M, batch 4 x 64: %.0f tokens/s; pathloom %.1fx\n", rate, ours / rate }'
}

head="| model | pathloom |" rule="|---|---|"
for kind in $kinds; do
    head="$head PyTorch ${kind#*/}, ${kind%/*} |"
    rule="$rule---|"
done
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cpus processors;" \
    "PyTorch $torch; tokens/s, best of $rounds; $(date -u +%Y-%m-%d)"
echo
echo "$head to its best in bf16 | to its best |"
echo "$rule---|---|"
for model in $models; do
    shape "$model" >"$work/shape"
    measure "$model"
    row "$model"
done
echo
if [ -n "$llmc" ]; then
    llmc_row
else
    echo "llm.c: not measured; give --llmc FOLDER, where llm.c is built and has its data"
fi
if [ -s "$work/errors" ]; then
    echo "a rate of 0 means that PyTorch failed: $(sort -u "$work/errors" | head -n 3 | tr '\n' ' ')"
fi
