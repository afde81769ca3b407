#!/bin/sh
# Prints figures about the sources: lines per folder, the number of static functions,
# and the number of names that several static functions share.
#
#   sh tools/figures.sh [folder of the tree]
#
# The sources are all folders but tests and examples. A
# folder counts the files directly in it, without its subfolders. A static function is
# "called from one place" if its file uses its name once outside the definition and
# declarations, with arguments after it; it is "passed on by address" if the name has no
# arguments in that one place.
set -eu
cd "${1:-$(dirname "$0")/..}"
export LC_ALL=C
sources=$(git ls-files | grep -E '\.(c|h|cc|cu|cuh)$' | grep -vE '^(tests|examples)/')
tests=$(git ls-files tests | grep -E '\.(c|h|cc|cu|cuh|sh|py)$')

echo "lines by folder"
# shellcheck disable=SC2086 # several words
for file in $sources; do
    echo "$(dirname "$file") $(wc -l <"$file")"
done | awk '{ lines[$1] += $2; files[$1]++; all += $2 }
    END {
        for (f in lines)
            printf "  %-14s %4d files %6d lines %5.1f %%\n", f, files[f], lines[f],
                   100 * lines[f] / all
        printf "  %-14s %16d lines\n", "~ all", all
    }' | sort | sed 's/~ all/all  /'
# shellcheck disable=SC2086
printf '  %-14s %16d lines\n' tests "$(cat $tests | wc -l)"

echo "files"
# shellcheck disable=SC2086
for file in $(printf '%s\n' $sources | grep -vE '\.(h|cuh)$'); do
    head -n 1 "$file" | grep -qE '^(/\*|//)' || echo "$file"
done | awk '{ n++ } END { printf "  %d do not begin with a comment\n", n }'

# Prints one line per word of the code: the file, the word, and the kind of occurrence.
# "word" is any occurrence; "call" is an occurrence before a parenthesis; "declared" and
# "defined" are the declaration and the definition of a static function.
# shellcheck disable=SC2086
awk 'FNR == 1 { comment = 0; head = "" }
    {
        code = $0
        gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
        gsub(/\/\*[^*]*\*\//, "", code)
        sub(/\/\/.*/, "", code)
        if (comment) {
            if (code !~ /\*\//) next
            sub(/.*\*\//, "", code)
            comment = 0
        }
        if (match(code, /\/\*/)) { code = substr(code, 1, RSTART - 1); comment = 1 }
        if (code ~ /^static .*\(/ && code !~ /^static (const|inline const).*=/) head = code
        else if (head != "" && code !~ /^\{/) head = head " " code
        if (head ~ /;[ ]*$/) { # a declaration
            declared = head
            sub(/\(.*/, "", declared); sub(/.*[ *]/, "", declared)
            print FILENAME, declared, "declared"
            head = ""
        }
        if (head != "" && code ~ /^\{/) {
            name = head
            sub(/__launch_bounds__\([^)]*\)/, "", name)
            sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
            print FILENAME, name, "defined"
            head = ""
        }
        while (match(code, /[A-Za-z_][A-Za-z0-9_]*\(?/)) {
            word = substr(code, RSTART, RLENGTH)
            code = substr(code, RSTART + RLENGTH)
            if (sub(/\($/, "", word)) print FILENAME, word, "call"
            print FILENAME, word, "word"
        }
    }' $sources | awk '
    $3 == "word" { seen[$1, $2]++; next }
    $3 == "call" { calls[$1, $2]++; next }
    $3 == "declared" { seen[$1, $2]--; calls[$1, $2]--; next }
    { if (!(($1, $2) in place)) { place[$1, $2] = 1; name[++n] = $2; file[n] = $1; of[$2]++ }
      seen[$1, $2]--; calls[$1, $2]-- }
    END {
        for (i = 1; i <= n; i++) {
            f = file[i]; w = name[i]
            once += seen[f, w] == 1 && calls[f, w] == 1
            passed += seen[f, w] == 1 && calls[f, w] == 0
        }
        for (w in of) if (of[w] > 1) { shared++; functions += of[w] }
        printf "static functions\n  %d in all, %d (%.0f %%) called from one place, " \
               "%d only passed on by address\n", n, once, 100 * once / n, passed
        printf "  %d names shared by %d of them\n", shared, functions
    }'
