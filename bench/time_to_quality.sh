#!/bin/sh
# Trains one dense model with pathloom and with bench/rivals/nano.py (PyTorch) on the
# same tokens, and compares the times that the two programs need to reach the same
# held-out bits per byte. Prints a table in Markdown.
#
#   sh bench/time_to_quality.sh CORPUS VALID OUTFOLDER [--model 1m|13m] [--steps N]
#       [--rates "1e-3 2e-3 4e-3"] [--lengths "0.4 0.5 0.6 0.8 1"] [--optimizer muon]
#       [--rate 4e-3] [--seed S] [--clock wall|cpu] [--rounds N] [--python PYTHON]
#
#   1. nano.py trains N steps with each of --rates; its best result is the target.
#   2. pathloom makes complete trainings of growing length: each of --lengths is a share
#      of N steps. The first training that is as good as the target counts.
#   3. Both programs make steps in turn, --rounds times: the best time of a step counts.
#
# The time is the number of steps times the seconds per step, so that other work on the
# machine has as little effect as possible. On a quiet machine it is the time that the
# training takes. --clock cpu measures processor time with one thread per program;
# --clock wall uses all processors. Trainings that already exist are only read. The exit
# code is 69 if PyTorch or the build is missing.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
root=$(dirname "$0")/..
pathloom=${PATHLOOM:-$root/build/release/pathloom}
python=${PYTHON:-python3}
model=1m steps=1000 rates="1e-3 2e-3 4e-3" lengths="0.4 0.5 0.6 0.8 1"
optimizer=muon rate=4e-3 seed=1 clock=wall rounds=3

fail() {
    echo "time_to_quality.sh: $2" >&2
    exit "$1"
}

[ $# -ge 3 ] || fail 64 "give CORPUS, VALID and a folder for the runs"
corpus=$1 valid=$2 out=$3
shift 3
while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || fail 64 "$1 needs a value"
    case $1 in
    --model) model=$2 ;;
    --steps) steps=$2 ;;
    --rates) rates=$2 ;;
    --lengths) lengths=$2 ;;
    --optimizer) optimizer=$2 ;;
    --rate) rate=$2 ;;
    --seed) seed=$2 ;;
    --clock) clock=$2 ;;
    --rounds) rounds=$2 ;;
    --python) python=$2 ;;
    *) fail 64 "unknown option $1; the head of this file lists them" ;;
    esac
    shift 2
done
case $model in
1m) width=128 blocks=4 heads=4 ffn=344 vocab=2048 context=128 batch=8 ;;
13m) width=384 blocks=6 heads=6 ffn=1024 vocab=8192 context=256 batch=8 ;;
*) fail 64 "there is no model $model; --model is 1m or 13m" ;;
esac
case $clock in
wall) threads=$(nproc) ;;
cpu) threads=1 ;;
*) fail 64 "--clock is wall or cpu, not $clock" ;;
esac
[ -x "$pathloom" ] || fail 69 "$pathloom is missing: build it (sh tools/build.sh release pathloom)"
torch=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null) ||
    fail 69 "PyTorch is missing: python3 -m venv venv && venv/bin/pip install torch numpy, then add --python venv/bin/python"
mkdir -p "$out"

# The settings of the model and the training, as pairs for --set and as options of
# nano.py.
shape="model.width=$width model.blocks=$blocks model.heads=$heads model.ffn=$ffn
    data.vocab=$vocab model.context=$context train.batch=$batch"
options="--width $width --blocks $blocks --heads $heads --ffn $ffn --context $context
    --batch $batch"

folder_of() { # STEPS
    echo "$out/pathloom-$optimizer-$rate-$1-seed$seed"
}

# ours STEPS: trains one path with pathloom for STEPS steps; the learning rate begins to
# fall after three fifths of the steps.
ours() {
    folder=$(folder_of "$1")
    [ -s "$folder/report.json" ] && return
    tail=$(($1 * 2 / 5))
    # shellcheck disable=SC2086 # several words
    set -- $shape topology.levels=1 "train.optimizer=$optimizer" "train.lr=$rate" \
        "train.base_steps=$(($1 - tail))" "train.tau=$tail" train.phases=1 train.decay=1 \
        "workers.threads=$threads" "seed=$seed" eval.baselines=none eval.sample_tokens=0
    for pair in "$@"; do
        shift
        set -- "$@" --set "$pair"
    done
    if ! "$pathloom" train --out "$folder" --corpus "$corpus" --valid "$valid" --workers 1 \
        "$@" >"$folder.log" 2>&1; then
        tail -n 3 "$folder.log" >&2
        fail 1 "pathloom did not finish"
    fi
}

# number FILE NAME: prints the first number of that name in a JSON file.
number() {
    sed -n 's/.*"'"$2"'": *\([0-9.e+-]*\).*/\1/p' "$1" | head -n 1
}

theirs() { # RATE
    file=$out/nano-$1-$steps-seed$seed
    [ -s "$file" ] && return
    # shellcheck disable=SC2086 # several words
    "$python" "$root/bench/rivals/nano.py" "$data" $options --steps "$steps" --lr "$1" \
        --threads "$threads" --seed "$seed" >"$file.part" 2>"$file.log" ||
        fail 1 "nano.py failed; see $file.log"
    mv "$file.part" "$file"
}

# Prints NATS per token as bits per byte, over the tokens that both programs count.
bits() { # NATS
    awk -v nats="$1" -v tokens="$(number "$report" eval_tokens)" \
        -v bytes="$(number "$report" eval_bytes)" \
        'BEGIN { printf "%.4f", nats * tokens / bytes / log(2) }'
}

fewer() { # A B: succeeds if A <= B
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'
}

share() { # SHARE: prints that share of the number of steps
    awk -v n="$steps" -v s="$1" 'BEGIN { printf "%d", n * s + 0.5 }'
}

# ---- quality ----
shortest=$(share "${lengths%% *}")
ours "$shortest"
report=$(folder_of "$shortest")/report.json
data=$(folder_of "$shortest")/data
target=9 best_rate=
echo "Held-out bits per byte:"
echo
echo "| trainer | learning rate | steps of $batch x $context tokens | bits per byte |"
echo "|---|---|---|---|"
for lr in $rates; do
    theirs "$lr"
    reached=$(bits "$(number "$out/nano-$lr-$steps-seed$seed" nats)")
    echo "| nano.py, AdamW | $lr | $steps | $reached |"
    if fewer "$reached" "$target"; then
        target=$reached best_rate=$lr
    fi
done
needed=
for length in $lengths; do
    n=$(share "$length")
    ours "$n"
    reached=$(number "$(folder_of "$n")/report.json" bits_per_byte)
    echo "| pathloom, $optimizer | $rate | $n | $(printf '%.4f' "$reached") |"
    if fewer "$reached" "$target"; then
        needed=$n
        break
    fi
done
echo

# ---- time ----
least() { # FILE
    sort -g "$1" | head -n 1
}

: >"$out/ours" && : >"$out/theirs"
round=0
while [ "$round" -lt "$rounds" ]; do
    set -- --clock "$clock" --threads "$threads"
    [ "$optimizer" = adamw ] || set -- "$@" --muon
    for pair in $shape; do
        set -- "$@" --set "$pair"
    done
    "$pathloom" bench step "$@" --json >"$out/step"
    number "$out/step" step_seconds >>"$out/ours"
    for precision in autocast f32; do
        # shellcheck disable=SC2086 # several words
        "$python" "$root/bench/rivals/nano.py" "$data" $options --time 20 --clock "$clock" \
            --threads "$threads" --precision "$precision" >"$out/step" 2>"$out/step.log" ||
            fail 1 "nano.py failed; see $out/step.log"
        number "$out/step" step_seconds >>"$out/theirs"
    done
    round=$((round + 1))
done
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $threads threads," \
    "clock $clock; PyTorch $torch (the faster of fp32 and bf16 autocast); $(date -u +%Y-%m-%d)"
echo
[ -n "$needed" ] ||
    fail 1 "pathloom did not reach $target bits per byte; add a longer training to --lengths"
awk -v ours="$(least "$out/ours")" -v theirs="$(least "$out/theirs")" -v n="$needed" \
    -v steps="$steps" -v target="$target" -v lr="$best_rate" -v name="$optimizer" 'BEGIN {
    print "| to " target " bits per byte | steps | seconds per step | seconds |"
    print "|---|---|---|---|"
    printf "| nano.py, AdamW at %s | %d | %.4f | %.1f |\n", lr, steps, theirs, steps * theirs
    printf "| pathloom, %s | %d | %.4f | %.1f |\n", name, n, ours, n * ours
    printf "\npathloom needs %.2f times the time of nano.py.\n", n * ours / (steps * theirs) }'
