#!/bin/sh
# Tests `data coverage --of`, which says how often paths and modules were trained on a
# domain or on the documents of a file. The counts of all domains must add up to the
# samples of each path in the records of the store.
#
# usage: exposure.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
make_corpus base docs codec

exposure() { # what, options: prints NAME TOKENS OF_TOKENS for each path and module
    what=$1
    shift
    "$pathloom" data coverage --of "$what" --run "$work/$run" --json "$@" |
        sed 's/{/\n{/g' |
        sed -n 's/.*"\(path\|module\)":"\([^"]*\)".*/\2 &/p' |
        sed 's/^\([^ ]*\).*"of_tokens":\([0-9]*\).*"tokens":\([0-9]*\).*/\1 \3 \2/'
}

recorded() { # prints PATH TOKENS for each path of the mixture
    "$pathloom" store ls --paths --run "$work/$run" --json |
        sed -n 's/.*"path":"\(mix[^"]*\)".*"tokens":\([0-9]*\).*/\1 \2/p'
}

for run in plain packed; do
    pack=false
    [ $run = plain ] || {
        take_data plain $run
        pack=true
    }
    (small_job $run --set train.tau=8 --set train.phases=3 --set train.base_steps=8 \
        --set train.pack=$pack --set topology.replicas=2) >"$work/run.out" 2>&1 ||
        fail "the run $run"
    for domain in base docs codec; do
        exposure $domain >"$work/$domain" || fail "data coverage --of $domain"
        grep -q '^mix/L1.E0 ' "$work/$domain" || fail "data coverage --of $domain does not list mix/L1.E0"
    done
    cat "$work/base" "$work/docs" "$work/codec" | awk '{ all[$1] = $2; of[$1] += $3 }
        END { for (n in all) if (all[n] != of[n] || all[n] == 0) { print n; bad = 1 }
              exit bad }' || fail "$run: domains do not add up to all tokens"
    recorded | while read -r path tokens; do
        grep -q "^$path $tokens " "$work/base" || {
            echo "$run: the record says $tokens tokens of $path:"
            grep "^$path " "$work/base"
            exit 1
        }
    done || fail "$run: tokens of a path"
    # A module has the tokens of all its contributors, here of two paths.
    awk '$1 ~ /^mix\/p0/ { sum += $2; of += $3 } $1 == "mix/L1.E0" { all = $2; own = $3 }
        END { exit !(all == sum && own == of) }' "$work/docs" || fail "$run: L1.E0"
    # `blame` divides the same tokens by contributor and domain. If two workers trained
    # a path, the path has one line per worker.
    "$pathloom" store blame L1.E0 --history --run "$work/$run" --json >"$work/blame" ||
        fail "store blame"
    sed 's/.*"tokens":\([0-9]*\),"versions".*"domains":\[\(.*\)\].*/\1 \2/
        s/[^a-z0-9 ]\{1,\}/ /g; s/domain\|tokens//g' "$work/blame" | awk -v file="$work/docs" '
        { sum = 0; for (i = 2; i < NF; i += 2) { sum += $(i + 1); of[$i] += $(i + 1) } }
        sum != $1 || NF < 3 { print; bad = 1 }
        END { if (!of["base"] || !of["docs"] || !of["codec"]) bad = 1
              while ((getline line <file) > 0) { split(line, word, " ")
                  if (word[1] == "mix/L1.E0" && word[3] != of["docs"]) bad = 1 }
              exit bad || NR < 4 }' || fail "$run: blame by domain: $(cat "$work/blame")"
done
"$pathloom" store blame L1.E0 --run "$work/plain" | grep -q ' of .*docs [0-9.]* %' ||
    fail "blame names no domain"
# With --documents, the documents of each contributor add up to its tokens.
"$pathloom" store blame L1.E0 --history --documents --run "$work/plain" --json >"$work/blame" ||
    fail "store blame --documents"
awk -F '"document":"' '
    function number(text) { gsub(/[^0-9]/, "", text); return text + 0 }
    { match($1, /"tokens":[0-9]+,"versions"/); all = number(substr($1, RSTART, RLENGTH)); sum = 0
      for (i = 2; i <= NF; i++) { match($i, /"tokens":[0-9]+/); sum += number(substr($i, RSTART, RLENGTH)) }
      if (sum != all || NF < 3) { print sum " of " all " tokens"; bad = 1 } }
    END { exit bad || NR < 4 }' "$work/blame" || fail "blame by document: $(cut -c1-600 "$work/blame")"
"$pathloom" store blame L1.E0 --documents --run "$work/plain" |
    grep -q '^ *document [0-9a-f]\{16\}  *[0-9.]*k* tokens  docs  # ' || fail "blame shows no text of a page"
"$pathloom" store blame L1.E0 --documents --store "$work/plain/store" |
    grep -q '^ *document [0-9a-f]\{16\}  *[0-9.]*k* tokens  docs *$' || fail "blame of a store lists no documents"

echo "a run with default keys has no updates to verify, but its tasks can be trained again"
"$pathloom" store verify L1.E0@1 --run "$work/plain" >"$work/verify" 2>"$work/verify.err"
[ $? -eq 66 ] || fail "verify without updates"
[ "$(cat "$work/verify" "$work/verify.err" | grep -c 'verify --tasks')" -eq 1 ] || fail "verify gives its reason twice"
"$pathloom" store verify L1.E0@1 --tasks --run "$work/plain" >"$work/verify" 2>&1 ||
    fail "verify --tasks: $(cat "$work/verify")"
[ "$(grep -c '  the same$' "$work/verify")" -eq 4 ] || fail "not four tasks are the same: $(cat "$work/verify")"
! grep -q 'verify --tasks\| info ' "$work/verify" || fail "verify --tasks advises --tasks, or logs: $(cat "$work/verify")"

echo "a folder has the tokens of its domain, and a file has fewer"
exposure docs mix >"$work/domain"
exposure "$work/corpus/docs" mix >"$work/folder"
cmp "$work/domain" "$work/folder" || fail "a folder and its domain have different tokens"
mkdir "$work/here" "$work/here/docs"
(cd "$work/here" && exposure docs mix >"$work/named") || fail "data coverage --of a name that is both a domain and a folder"
cmp "$work/domain" "$work/named" || fail "a domain is not found if a folder has its name"
# Chooses the largest file that is not held out.
find "$work/corpus/docs" -type f -exec ls -S {} + >"$work/files"
while read -r largest; do
    exposure "$largest" mix >"$work/file" || fail "data coverage --of FILE"
    awk '{ sum += $3 } END { exit !sum }' "$work/file" && break
done <"$work/files"
awk 'NR == FNR { all[$1] = $3; next } $3 > all[$1] { bad = 1 } { sum += $3 }
    END { exit bad || !sum }' "$work/domain" "$work/file" || fail "the tokens of a file"
echo "a corpus of one file is cut into documents, and all of them are in the file"
cat "$work"/corpus/*/* >"$work/one.txt"
run=one
(small_job $run --corpus "$work/one.txt" --set train.tau=8 --set train.phases=2 \
    --set train.base_steps=8) >"$work/run.out" 2>&1 || fail "the run of one file"
exposure "$work/one.txt" mix >"$work/file" || fail "data coverage --of the corpus"
awk '$2 != $3 || $3 == 0 { bad = 1 } { n++ } END { exit bad || !n }' "$work/file" ||
    fail "not all tokens belong to the only file"
refused 66 '' "$pathloom" data coverage --of elsewhere --run "$work/$run"
rm -rf "$work"
