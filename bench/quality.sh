#!/bin/sh
# Measures held-out bits per byte and perplexity of the mixture and of its baselines, over
# several seeds: mean and spread (lowest to highest). Ratios of perplexities are given
# per seed, and with two to ten seeds also their mean with its 95 % interval over seeds
# (Student's t).
#
#   sh bench/quality.sh CORPUS VALID OUTFOLDER "1 2 3" [key=value ...]
#
# CORPUS and VALID may be "" for the text of this machine. Each seed is one run of
# `pathloom train`; runs that already exist are only read. Prints a table in Markdown,
# and writes OUTFOLDER/rows.tsv, which bench/curve.sh draws: one line per seed and row.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
pathloom=${PATHLOOM:-$(dirname "$0")/../build/release/pathloom}
corpus=$1 valid=$2 out=$3 seeds=$4
shift 4
mkdir -p "$out"
for seed in $seeds; do
    [ -s "$out/seed$seed/report.json" ] && continue
    set -- "$@" "seed=$seed"
    (
        for pair in "$@"; do
            shift
            set -- "$@" --set "$pair"
        done
        [ -z "$corpus" ] || set -- "$@" --corpus "$corpus"
        [ -z "$valid" ] || set -- "$@" --valid "$valid"
        exec "$pathloom" train --out "$out/seed$seed" "$@"
    ) >"$out/seed$seed.log" 2>&1 || {
        tail -n 3 "$out/seed$seed.log" >&2
        exit 1
    }
done

# Prints the rows of a report, one per line: seed, row, bits per byte, perplexity, total
# tokens, training FLOPs, seconds with one machine per path, title, perplexity on first
# windows, mean perplexity over domains, FLOPs per token of reading, parameters.
rows() {
    awk -F'": *' -v OFS='\t' -v seed="$1" '
        { value = $2; sub(/,$/, "", value); gsub(/"/, "", value) }
        /"row":/ { row = value }
        /"title":/ { title = value }
        /"bits_per_byte":/ { bits = value }
        /"ppl":/ { ppl = value }
        /"tokens_total":/ && row { total = value }
        /"train_flops":/ { flops = value }
        /"train_seconds":/ { time = value }
        /"ppl_first_windows":/ { early = value }
        /"ppl_macro":/ { macro = value }
        /"read_flops":/ { read = value }
        /"params_total":/ && row {
            print seed, row, bits, ppl, total, flops, time, title, early, macro, read, value
            row = ""
        }' "$2"
}

for seed in $seeds; do
    rows "$seed" "$out/seed$seed/report.json"
done >"$out/rows.tsv"
awk -F'\t' -v seeds="$seeds" '
    { has[$1, $2] = rows[$2] = 1 }
    END {
        n = split(seeds, seed, " ")
        rows["mix"] = 1
        for (i = 1; i <= n; i++)
            for (row in rows)
                if (!((seed[i], row) in has)) {
                    print "quality.sh: the report of seed " seed[i] " has no row " row
                    lacking = 1
                }
        exit lacking
    }' "$out/rows.tsv" >&2
awk -F'\t' '
    { row = $2; n[row]++; bits[row] += $3; ppl[row] += $4; tokens[row] += $5
      flops[row] += $6; time[row] += $7; title[row] = $8; read[row] += $11; params[row] = $12
      seed_ppl[$1, row] = $4; seed_first[$1, row] = $9; seed_macro[$1, row] = $10
      first[row] += $9; macro[row] += $10
      if (!seeds[$1]++) order_of_seed[++n_seeds] = $1
      if (!(row in low) || $4 < low[row]) low[row] = $4
      if (!(row in high) || $4 > high[row]) high[row] = $4
      if (n[row] == 1) order[++count] = row }
    # Ratios of the perplexities `of` (by seed and row), with the interval of their mean.
    function versus(of, row, best,   s, text, ratio, sum, squares, wide) {
        if (row ~ /^mix/ || !n[best]) return ""
        for (s = 1; s <= n_seeds; s++) {
            ratio = of[order_of_seed[s], best] / of[order_of_seed[s], row]
            sum += ratio
            squares += ratio * ratio
            text = text sprintf("%s%.3f", text == "" ? "" : ", ", ratio)
        }
        if (n_seeds < 2 || n_seeds > 10) return text
        sum /= n_seeds
        squares = (squares - n_seeds * sum * sum) / (n_seeds - 1)
        wide = t95[n_seeds - 1] * sqrt((squares > 0 ? squares : 0) / n_seeds)
        return text sprintf("; %.3f (%.3f to %.3f)", sum, sum - wide, sum + wide)
    }
    END {
        split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262", t95, " ")
        once = n["mix-likelihood"] ? "mix-likelihood" : "mix"
        print "| model | bits per byte | perplexity: mean (lowest to highest) | mixture routed once / it, per seed | re-routed / it | tokens | training FLOPs | time, one machine per path |"
        print "|---|---|---|---|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            a = order[i]
            printf "| %s | %.4f | %.2f (%.2f to %.2f) | %s | %s | %.2fM | %.2e | %.0f s |\n", title[a],
                bits[a] / n[a], ppl[a] / n[a], low[a], high[a], versus(seed_ppl, a, once),
                versus(seed_ppl, a, "mix-windows"), tokens[a] / n[a] / 1e6, flops[a] / n[a],
                time[a] / n[a]
        }
        print "\n| model | first windows | routed once / it | mean of domains | routed once / it | parameters | FLOPs per token read |"
        print "|---|---|---|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            a = order[i]
            printf "| %s | %.2f | %s | %.2f | %s | %.2fM | %.2e |\n", title[a], first[a] / n[a],
                versus(seed_first, a, once), macro[a] / n[a], versus(seed_macro, a, once),
                params[a] / n[a] / 1e6, read[a] / n[a]
        }
    }' "$out/rows.tsv"
