#!/bin/sh
# Measures the gain of choosing the path again within documents. Compares one choice per
# document, choices every W tokens by the preceding text, and choices in hindsight, on
# unchanged documents and on mixed documents.
#
#   sh bench/routing.sh TRAIN VALID OUTFOLDER [key=value ...]
#
# TRAIN and VALID are JSON lines with `text` and `domain` (also compressed with zstd). A
# mixed document consists of pieces of about 1,000 bytes from six documents of VALID;
# each piece has a different domain than the piece before it. The run is trained on
# TRAIN unchanged. A run that already exists is only read. TEXTS=mixed evaluates only the
# mixed documents, and MIXED=N only the first N of them.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
pathloom=${PATHLOOM:-$(dirname "$0")/../build/release/pathloom}
train=$1 valid=$2 out=$3
shift 3
mkdir -p "$out"

lines() { # file
    case $1 in
    *.zst) zstdcat "$1" ;;
    *) cat "$1" ;;
    esac
}

# Makes the mixed documents. Works on the escaped text in the JSON: a piece ends after
# an escaped line end, so no escape is cut. In each line of VALID, `text` must come
# before `domain`.
mixed() { # file
    lines "$1" | awk '
        {
            text = $0
            sub(/^\{"text": *"/, "", text)
            if (!match(text, /", *"domain": *"[^"]*"\}$/)) exit 1
            domain = substr(text, RSTART)
            text = substr(text, 1, RSTART - 1)
            gsub(/", *"domain": *"|"\}$/, "", domain)
            gsub(/\\\\/, "\001", text)
            if (!(domain in n_pieces)) domains[n_domains++] = domain
            n = split(text, line, /\\n/)
            piece = ""
            for (i = 1; i <= n; i++) {
                piece = piece line[i] "\\n"
                if (length(piece) < 1000 && i < n) continue
                if (length(piece) > 500 && length(piece) < 4000)
                    pieces[domain, n_pieces[domain]++] = piece
                piece = ""
            }
        }
        # Returns the domain with the most remaining pieces, except the previous domain.
        function next_domain(before,    d, best) {
            best = ""
            for (d = 0; d < n_domains; d++)
                if (domains[d] != before &&
                    (best == "" || left(domains[d]) > left(best))) best = domains[d]
            return best
        }
        function left(domain) { return n_pieces[domain] - taken[domain] }
        END {
            domain = ""
            for (;;) {
                document = ""
                for (i = 0; i < 6; i++) {
                    domain = next_domain(domain)
                    if (left(domain) < 1) exit
                    document = document pieces[domain, taken[domain]++]
                }
                gsub(/\001/, "\\\\\\\\", document)
                print "{\"text\": \"" document "\", \"domain\": \"mixed\"}"
            }
        }'
}

if [ ! -s "$out/run/report.json" ]; then
    for pair in "$@"; do
        shift
        set -- "$@" --set "$pair"
    done
    "$pathloom" train --corpus "$train" --valid "$valid" --out "$out/run" "$@" \
        --set eval.sample_tokens=0 >"$out/train.log" 2>&1 || {
        tail -n 3 "$out/train.log" >&2
        exit 1
    }
fi
mixed "$valid" | head -n "${MIXED:-100000}" >"$out/mixed.jsonl"
for text in ${TEXTS:-plain mixed}; do
    file=$out/mixed.jsonl
    [ "$text" = mixed ] || file=$valid
    "$pathloom" eval --run "$out/run" --on "$file" --every 128,64,32,16 --json \
        >"$out/$text.json"
    echo "$text: $(wc -l <"$out/mixed.jsonl") mixed documents"
    echo "| rule | every | bits per byte | perplexity | below once, % | share of the oracle's gain | choices that changed | read |"
    echo "|---|---|---|---|---|---|---|---|"
    grep -o '{"rule":[^}]*}' "$out/$text.json" | tr -d '{}"' | tr ',' '\n' |
        awk -F: '{ v[$1] = $2 }
            $1 == "read_per_token" {
                printf "| %s | %s | %.4f ± %.4f | %.2f | %.1f ± %.1f | %s | %s | %s |\n", v["rule"],
                    v["every"], v["bits_per_byte"], v["bits_error"], v["ppl"],
                    v["percent_below_once"], v["percent_error"],
                    v["share_of_oracle"] == "null" ? "" : sprintf("%.2f", v["share_of_oracle"]),
                    v["share_changed"] == "null" ? "" : sprintf("%.2f", v["share_changed"]),
                    v["read_per_token"] == "null" ? "" : sprintf("%.2f", v["read_per_token"]) }'
done
