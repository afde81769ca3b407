#!/bin/sh
# Draws bits per byte over total training tokens, from the files of bench/quality.sh:
#
#   sh bench/curve.sh OUT.svg TITLE FOLDER [FOLDER ...]
#
# There is one FOLDER per number of tokens. Each point is the mean over the seeds in
# FOLDER/rows.tsv; the bar at a point reaches from the lowest to the highest value. A
# mark shows the number of tokens at which the mixture's line crosses the line of one
# machine that trains on all tokens.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
svg=$1 title=$2
shift 2
for folder in "$@"; do
    sed "s|^|$folder	|" "$folder/rows.tsv"
done | awk -F'\t' -v title="$title" '
    { key = $3 SUBSEP $1 # columns: folder, seed, row, bits, perplexity, tokens
      if (!n[key]++) { low[key] = high[key] = $4 }
      x[key] += $6; y[key] += $4
      if ($4 < low[key]) low[key] = $4
      if ($4 > high[key]) high[key] = $4
      if (!known[$1]++) folders[++n_folders] = $1 }
    function px(tokens) { return 70 + 520 * log(tokens / x_min) / log(x_max / x_min) }
    function py(bits) { return 320 - 270 * (bits - y_min) / (y_max - y_min) }
    function mean_x(row, f,   key) { key = row SUBSEP f; return x[key] / n[key] }
    function mean_y(row, f,   key) { key = row SUBSEP f; return y[key] / n[key] }
    function draw(row, class, label,   i, f, points, last) {
        for (i = 1; i <= n_folders; i++) {
            f = folders[i]
            if (!n[row, f]) continue
            points = points sprintf("%.1f,%.1f ", px(mean_x(row, f)), py(mean_y(row, f)))
            printf "<path class=\"%s thin\" d=\"M%.1f %.1fV%.1f\"/>\n", class,
                px(mean_x(row, f)), py(low[row, f]), py(high[row, f])
            printf "<circle class=\"%s dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%s: %.4f bits per byte at %.1fM tokens (%d seeds)</title></circle>\n",
                class, px(mean_x(row, f)), py(mean_y(row, f)), label, mean_y(row, f),
                mean_x(row, f) / 1e6, n[row, f]
            last = f
        }
        if (last == "") return
        printf "<polyline class=\"%s\" points=\"%s\"/>\n", class, points
        ends[++n_ends] = py(mean_y(row, last)); names[n_ends] = label; classes[n_ends] = class
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
    function mark_crossing(row, rival,   i, f, d, before, share, at) {
        for (i = 1; i <= n_folders; i++) {
            f = folders[i]
            if (!n[row, f] || !n[rival, f]) continue
            d = mean_y(row, f) - mean_y(rival, f)
            if (before > 0 && d <= 0) {
                share = before / (before - d)
                at = exp(log(last_x) + share * log(mean_x(rival, f) / last_x))
                printf "<path class=\"cross\" d=\"M%.1f 50V320\"/><text class=\"note\" x=\"%.1f\" y=\"44\">crossing at %.1fM tokens</text>\n",
                    px(at), px(at) < 132 ? 72 : px(at) - 60, at / 1e6
                return
            }
            before = d; last_x = mean_x(rival, f)
        }
    }
    END {
        for (key in n) {
            m = x[key] / n[key]
            split(key, part, SUBSEP)
            if (part[1] == "base" || part[1] == "dense" || part[1] == "mix") continue
            if (!x_min || m < x_min) x_min = m
            if (m > x_max) x_max = m
            if (!y_min || low[key] < y_min) y_min = low[key]
            if (high[key] > y_max) y_max = high[key]
        }
        if (x_max <= x_min) x_max = x_min * 2
        y_min = int(y_min * 20) / 20; y_max = (int(y_max * 20) + 1) / 20
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 370\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">"
        print "<title>" title "</title><style>"
        print "svg{color:#222;background:#fff} text{fill:currentColor} .grid{stroke:currentColor;opacity:.15}"
        print "polyline{fill:none;stroke-width:2} .thin{stroke-width:1.5;fill:none} .note{font-size:11px}"
        print ".cross{stroke:currentColor;stroke-dasharray:4 3;opacity:.6}"
        split("a #c2410c b #f59e0b c #1d4ed8 d #0891b2 e #6b7280", colour, " ")
        for (i = 1; i <= 9; i += 2)
            printf ".%s{stroke:%s} .%s.dot{fill:%s} .%s.label{fill:%s;stroke:none}\n", colour[i],
                colour[i + 1], colour[i], colour[i + 1], colour[i], colour[i + 1]
        print "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#111}}</style>"
        printf "<text x=\"70\" y=\"24\" font-size=\"15\">%s</text>\n", title
        for (b = y_min; b <= y_max + 1e-9; b += (y_max - y_min > 0.5 ? 0.1 : 0.05))
            printf "<path class=\"grid\" d=\"M70 %.1fH590\"/><text x=\"62\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n",
                py(b), py(b) + 4, b
        for (i = 1; i <= n_folders; i++)
            if (n["dense-eq", folders[i]])
                printf "<path class=\"grid\" d=\"M%.1f 50V320\"/><text x=\"%.1f\" y=\"338\" text-anchor=\"middle\">%.1fM</text>\n",
                    px(mean_x("dense-eq", folders[i])), px(mean_x("dense-eq", folders[i])),
                    mean_x("dense-eq", folders[i]) / 1e6
        print "<text x=\"330\" y=\"358\" text-anchor=\"middle\">training tokens in all</text>"
        print "<text transform=\"rotate(-90 20 185)\" x=\"20\" y=\"185\" text-anchor=\"middle\">bits per byte, held out</text>"
        draw("mix-windows", "a", "mixture, re-routed")
        draw("mix-likelihood", "b", "mixture, routed once")
        draw("dense-eq", "c", "one machine, all tokens")
        draw("dense-batch", "d", "one batch, fast network")
        draw("diloco", "e", "DiLoCo")
        write_labels()
        mark_crossing("mix-windows", "dense-eq")
        print "</svg>"
    }' >"$svg"
