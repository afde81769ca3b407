#!/bin/sh
# Tokens a second of the demo's training step on all processors, against PyTorch on the
# same machine in the same run, in turn, three times; the best of each counts.
#
#   PYTHON=venv/bin/python sh bench/speed.sh [build/release]
#
# Pathloom: one single-threaded process a processor, as `pathloom train` starts them.
# PyTorch (bench/rivals/torch_step.py, same model): one process with all threads, and one
# single-threaded process a processor; eager and compiled; bf16 autocast, which is the
# same arithmetic (fp32 parameters), and pure bf16. Prints a table in Markdown.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=${PYTHON:-python3}
cpus=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ours() { # width, context, blocks, vocab: sum over processes
    i=0
    while [ $i -lt "$cpus" ]; do
        "$build/bench/bench_ops" batch=8 context="$2" width="$1" blocks="$3" vocab="$4" \
            steps=30 repeats=2 >"$work/ours.$i" &
        i=$((i + 1))
    done
    wait
    sed -n 's/^step .* = \([0-9]*\) tokens.*/\1/p' "$work"/ours.* |
        awk '{ s += $1 } END { print s }'
}

rival() { # width, context, blocks, vocab, threads, mode, precision
    n=$((cpus / $5))
    i=0
    while [ $i -lt "$n" ]; do
        "$python" bench/rivals/torch_step.py --batch 8 --context "$2" --width "$1" \
            --blocks "$3" --vocab "$4" --threads "$5" --precision "$7" --mode "$6" \
            >"$work/rival.$i" 2>/dev/null || echo '{"tokens_per_s": 0}' >"$work/rival.$i"
        i=$((i + 1))
        [ "$n" -gt 1 ] && [ $i -lt "$n" ] || break
    done
    sed -n 's/.*"tokens_per_s[a-z]*": *\([0-9.]*\).*/\1/p' "$work/rival.0" |
        awk -v n="$n" '{ if ($1 > b) b = $1 } END { print b * n }'
}

best() { awk '{ if ($1 > b) b = $1 } END { print b }'; }

echo "| model | pathloom | PyTorch, best | which | ratio |"
echo "|---|---|---|---|---|"
for shape in "128 128 4 2048" "256 256 6 4096"; do
    set -- $shape
    : >"$work/o"
    : >"$work/r"
    for _ in 1 2 3; do
        ours "$@" >>"$work/o"
        for threads in 1 "$cpus"; do
            for mode in eager compile; do
                for precision in autocast bf16; do
                    echo "$(rival "$@" "$threads" "$mode" "$precision") $mode $precision," \
                        "$((cpus / threads)) x $threads threads" >>"$work/r"
                done
            done
        done
    done
    a=$(best <"$work/o")
    which=$(sort -rn "$work/r" | head -n 1)
    b=${which%% *}
    echo "| width $1, context $2, $3 blocks, vocabulary $4 | $a | $b | ${which#* } |" \
        "$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2fx", a / b }') |"
done
