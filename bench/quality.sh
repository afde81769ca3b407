#!/bin/sh
# Held-out perplexity of the mixture against its baselines over several seeds: mean and
# spread (lowest to highest).
#
#   sh bench/quality.sh CORPUS VALID OUTFOLDER "1 2 3" [key=value ...]
#
# Each seed is one `pathloom train`; runs that are there already are only read. Prints a
# table in Markdown. What every row was trained on stands in its tokens column.
set -eu
pathloom=${PATHLOOM:-$(dirname "$0")/../build/release/pathloom}
corpus=$1 valid=$2 out=$3 seeds=$4
shift 4
sets=
for pair in "$@"; do
    sets="$sets --set $pair"
done
mkdir -p "$out"
for seed in $seeds; do
    [ -s "$out/seed$seed/report.json" ] && continue
    # shellcheck disable=SC2086 # pairs hold no blanks
    "$pathloom" train --corpus "$corpus" --valid "$valid" --out "$out/seed$seed" \
        --set seed="$seed" $sets >"$out/seed$seed.log" 2>&1 || {
        tail -n 3 "$out/seed$seed.log" >&2
        exit 1
    }
done

# The arms of a report, one a line: name, perplexity, tokens a path, tokens in all.
arms() {
    awk -F'[:,]' '
        /"arm":/ { gsub(/[ "]/, "", $2); arm = $2 }
        /"ppl":/ { ppl = $2 }
        /"tokens_per_path":/ { path = $2 }
        /"tokens_total":/ { total = $2 }
        /"train_flops":/ { print arm, ppl, path, total, $2 }' "$1"
}

for seed in $seeds; do
    arms "$out/seed$seed/report.json" | sed "s/^/$seed /"
done | awk '
    { n[$2]++; sum[$2] += $3; path[$2] += $4; total[$2] += $5; flops[$2] += $6
      ppl[$1, $2] = $3; seeds[$1] = 1
      if (!($2 in low) || $3 < low[$2]) low[$2] = $3
      if (!($2 in high) || $3 > high[$2]) high[$2] = $3 }
    END {
        title["mix"] = "mixture, one routed path"
        title["dense"] = "dense, steps of one path"
        title["diloco"] = "DiLoCo, tokens of all paths"
        title["dense-eq"] = "dense, tokens of all paths"
        title["base"] = "base model, before"
        print "| model | perplexity: mean (lowest to highest) | mixture against it, a seed | tokens a path | tokens | training FLOPs |"
        print "|---|---|---|---|---|---|"
        count = split("mix dense diloco dense-eq base", order, " ")
        for (i = 1; i <= count; i++) {
            a = order[i]
            if (!n[a]) continue
            versus = ""
            if (a != "mix")
                for (s in seeds)
                    versus = versus sprintf("%s%+.1f %%", versus == "" ? "" : ", ",
                                            100 * (ppl[s, "mix"] / ppl[s, a] - 1))
            printf "| %s | %.2f (%.2f to %.2f) | %s | %.2fM | %.2fM | %.2e |\n", title[a],
                sum[a] / n[a], low[a], high[a], versus, path[a] / n[a] / 1e6,
                total[a] / n[a] / 1e6, flops[a] / n[a]
        }
    }'
