#!/bin/sh
# Tests that the manual pages and the shell completion agree with the program's help.
# Links and names of files in the pages must exist, and numbers of README's tables must
# be on the pages of results that they link to.
#
# usage: pages.sh PATHLOOM
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
pathloom=$1
failed=0
for page in docs/man/pathloom-*.1; do
    verb=${page#docs/man/pathloom-}
    "$pathloom" "${verb%.1}" --man | diff - "$page" || failed=1
done
"$pathloom" --man | diff - docs/man/pathloom.1 || failed=1
verbs=$("$pathloom" --help | sed -n 's/^  pathloom \([a-z]*\).*/\1/p
    s/^Processes of a job, started by `train`: //p')
for verb in $verbs; do
    [ -f "docs/man/pathloom-$verb.1" ] || {
        echo "there is no docs/man/pathloom-$verb.1: pathloom $verb --man makes it"
        failed=1
    }
done
"$pathloom" --completion | diff - share/pathloom.bash || failed=1
# In a shell, the completion must know the key after --set.
bash -c '. share/pathloom.bash; COMP_WORDS=(pathloom train --set train.ta) COMP_CWORD=3
    _pathloom && [ "${COMPREPLY[*]}" = train.tau ]' || {
    echo "the completion does not know train.tau"
    failed=1
}

for page in README.md CONTRIBUTING.md docs/*.md; do
    for link in $(grep -oE '\]\([^)#:]+' "$page" | sed 's/^](//'); do
        [ "$link" = https ] || [ -e "$(dirname "$page")/$link" ] || {
            echo "$page: there is no $link"
            failed=1
        }
    done
done
# A name like `folder/file.c` in the pages must be a file of the tree.
for file in $(grep -ohE '`[a-z]+/[A-Za-z0-9_/.-]+\.(c|h|sh|yaml|md)`' CONTRIBUTING.md \
    docs/README.md docs/USE.md docs/TUTORIAL.md | tr -d '`' | sort -u); do
    case $file in
    *NAME* | */X.sh | *_X.c | folder/*) continue ;; # these names stand for any name
    esac
    [ -e "$file" ] || {
        echo "a page names $file, which is not there"
        failed=1
    }
done
# A number in a row of README's tables that links to results must be on one of the linked
# pages, rounded to README's digits.
while IFS= read -r row; do
    pages=$(printf '%s\n' "$row" | grep -oE 'docs/results/[a-z0-9-]+\.md' | sort -u)
    # shellcheck disable=SC2086 # a list of pages
    printf '%s\n' "$row" | sed 's/\](\([^)]*\))//g' | awk -v row="$row" '
        # Calls of `take`: pages first, then the row, whose numbers must be known.
        function take(line, known,    text, digits) {
            while (match(line, /[0-9][0-9,]*(\.[0-9]+)?/)) {
                text = substr(line, RSTART, RLENGTH)
                line = substr(line, RSTART + RLENGTH)
                sub(/,+$/, "", text)
                gsub(/,/, "", text)
                if (!known) { seen[n++] = text; continue }
                digits = index(text, ".") ? length(text) - index(text, ".") : 0
                for (i = 0; i < n; i++)
                    if (sprintf("%.*f", digits, seen[i]) == text) break
                if (i == n) { print "README.md: no " text " on the page of: " row; bad = 1 }
            }
        }
        FILENAME != "-" { take($0, 0); next }
        { take($0, 1) }
        END { exit bad }' $pages - || failed=1
done <<END
$(grep '^|.*](docs/results/' README.md)
END
exit "$failed"
