#!/bin/sh
# Draws bits per byte over training tokens, time or rate as an SVG picture:
#
#   sh bench/curve.sh OUT.svg TITLE FOLDER [FOLDER ...]
#   sh bench/curve.sh OUT.svg TITLE --points FILE X-AXIS
#
# A FOLDER is made by bench/quality.sh, one per number of tokens; a mark shows the tokens
# at which the mixture's line crosses the line of one machine that trains on all tokens.
# FILE has lines with a label, x and bits per byte, separated by tabs. Points with the
# same label and x (or FOLDER) become their mean, with a bar from the lowest to the
# highest value. The x axis is logarithmic.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
svg=$1 title=$2
shift 2
if [ "$1" = --points ]; then
    axis=$3
    awk -F'\t' -v OFS='\t' '{ print $1, $2, $2, $3 }' "$2"
else
    axis="millions of training tokens in all"
    for row in "mix-windows	mixture, re-routed" "mix-likelihood	mixture, routed once" \
        "dense-eq	one machine, all tokens" "dense-batch	one batch, fast network" \
        "diloco	DiLoCo"; do
        for folder in "$@"; do
            awk -F'\t' -v OFS='\t' -v row="$row" -v folder="$folder" '
                BEGIN { split(row, r, "\t") }
                $2 == r[1] { print r[2], folder, $5 / 1e6, $3 }' "$folder/rows.tsv"
        done
    done
fi >"$svg.points"
awk -F'\t' -v title="$title" -v axis="$axis" '
    { key = $1 SUBSEP $2 # columns: label, group, x, bits
      if (!n[key]++) { low[key] = high[key] = $4 }
      x[key] += $3; y[key] += $4
      if ($4 < low[key]) low[key] = $4
      if ($4 > high[key]) high[key] = $4
      if (!lines[$1]++) labels[++n_labels] = $1
      if (!known[$2]++) groups[++n_groups] = $2 }
    function px(v) { return 70 + 520 * log(v / x_min) / log(x_max / x_min) }
    function py(bits) { return 320 - 270 * (bits - y_min) / (y_max - y_min) }
    function mean_x(label, g) { return x[label, g] / n[label, g] }
    function mean_y(label, g) { return y[label, g] / n[label, g] }
    function draw(label, class,   i, g, points, last) {
        for (i = 1; i <= n_groups; i++) {
            g = groups[i]
            if (!n[label, g]) continue
            points = points sprintf("%.1f,%.1f ", px(mean_x(label, g)), py(mean_y(label, g)))
            printf "<path class=\"%s thin\" d=\"M%.1f %.1fV%.1f\"/>\n", class,
                px(mean_x(label, g)), py(low[label, g]), py(high[label, g])
            printf "<circle class=\"%s dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%s: %.4f bits per byte at %.4g (%d measured)</title></circle>\n",
                class, px(mean_x(label, g)), py(mean_y(label, g)), label, mean_y(label, g),
                mean_x(label, g), n[label, g]
            last = g
        }
        printf "<polyline class=\"%s\" points=\"%s\"/>\n", class, points
        ends[++n_ends] = py(mean_y(label, last)); names[n_ends] = label; classes[n_ends] = class
    }
    # Writes labels at the right ends of the lines, moved apart where lines end close to
    # each other.
    function write_labels(   i, j, t) {
        for (i = 1; i <= n_ends; i++)
            for (j = i + 1; j <= n_ends; j++)
                if (ends[j] < ends[i]) {
                    t = ends[i]; ends[i] = ends[j]; ends[j] = t
                    t = names[i]; names[i] = names[j]; names[j] = t
                    t = classes[i]; classes[i] = classes[j]; classes[j] = t
                }
        for (i = 2; i <= n_ends; i++)
            if (ends[i] < ends[i - 1] + 15) ends[i] = ends[i - 1] + 15
        for (i = 1; i <= n_ends; i++)
            printf "<text class=\"%s label\" x=\"600\" y=\"%.1f\">%s</text>\n", classes[i],
                ends[i] + 4, names[i]
    }
    function mark_crossing(label, rival,   i, g, d, before, share, at) {
        for (i = 1; i <= n_groups; i++) {
            g = groups[i]
            if (!n[label, g] || !n[rival, g]) continue
            d = mean_y(label, g) - mean_y(rival, g)
            if (before > 0 && d <= 0) {
                share = before / (before - d)
                at = exp(log(last_x) + share * log(mean_x(rival, g) / last_x))
                printf "<path class=\"cross\" d=\"M%.1f 50V320\"/><text class=\"note\" x=\"%.1f\" y=\"44\">crossing at %.1fM tokens</text>\n",
                    px(at), px(at) < 132 ? 72 : px(at) - 60, at
                return
            }
            before = d; last_x = mean_x(rival, g)
        }
    }
    END {
        for (key in n) {
            m = x[key] / n[key]
            if (!x_min || m < x_min) x_min = m
            if (m > x_max) x_max = m
            if (!y_min || low[key] < y_min) y_min = low[key]
            if (high[key] > y_max) y_max = high[key]
        }
        if (x_max <= x_min) x_max = x_min * 2
        step = y_max - y_min > 2 ? 0.5 : y_max - y_min > 0.5 ? 0.1 : 0.05
        y_min = int(y_min / step) * step; y_max = (int(y_max / step) + 1) * step
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 370\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">"
        print "<title>" title "</title><style>"
        print "svg{color:#222;background:#fff} text{fill:currentColor} .grid{stroke:currentColor;opacity:.15}"
        print "polyline{fill:none;stroke-width:2} .thin{stroke-width:1.5;fill:none} .note{font-size:11px}"
        print ".cross{stroke:currentColor;stroke-dasharray:4 3;opacity:.6}"
        n_colours = split("#c2410c #f59e0b #1d4ed8 #0891b2 #6b7280 #15803d #7e22ce #be185d", colour, " ")
        for (i = 1; i <= n_colours; i++)
            printf ".c%d{stroke:%s} .c%d.dot{fill:%s} .c%d.label{fill:%s;stroke:none}\n", i, colour[i],
                i, colour[i], i, colour[i]
        print "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#111}}</style>"
        printf "<text x=\"70\" y=\"24\" font-size=\"15\">%s</text>\n", title
        for (b = y_min; b <= y_max + 1e-9; b += step)
            printf "<path class=\"grid\" d=\"M70 %.1fH590\"/><text x=\"62\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n",
                py(b), py(b) + 4, b
        for (ten = 1e-3; ten <= x_max; ten *= 10)
            for (i = 1; i <= 5; i += i == 2 ? 3 : 1)
                if (i * ten >= x_min * 0.999 && i * ten <= x_max * 1.001)
                    printf "<path class=\"grid\" d=\"M%.1f 50V320\"/><text x=\"%.1f\" y=\"338\" text-anchor=\"middle\">%g</text>\n",
                        px(i * ten), px(i * ten), i * ten
        printf "<text x=\"330\" y=\"358\" text-anchor=\"middle\">%s</text>\n", axis
        print "<text transform=\"rotate(-90 20 185)\" x=\"20\" y=\"185\" text-anchor=\"middle\">bits per byte, held out</text>"
        for (l = 1; l <= n_labels; l++)
            draw(labels[l], "c" (l - 1) % n_colours + 1)
        write_labels()
        if (axis ~ /tokens/) mark_crossing("mixture, re-routed", "one machine, all tokens")
        print "</svg>"
    }' "$svg.points" >"$svg"
rm "$svg.points"
