#!/bin/sh
# Tests the commands of `pathloom store` on a finished run: what they print after a
# rollback, which names they understand, and how they refuse unknown words.
#
# usage: store_verbs_finished.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
make_corpus base docs

says() { # words
    grep -q -- "$1" "$work/verb.out" || fail "store $verb does not say \`$1\`"
}

says_not() { # words
    ! grep -q -- "$1" "$work/verb.out" || fail "store $verb says \`$1\`"
}

# ---- tags and rollbacks ----
echo "a tag that is made after a rollback has the versions to which the rollback went back"
(small_job run --set train.tau=10 --set train.phases=4 --set train.base_steps=40 \
    --set model.blocks=4) >"$work/run.out" 2>&1 || fail "the run"
run=$work/run
store tag newest --run "$run"
says 'phase 4'
store rollback mix --to 1 --run "$run"
store tag keep --run "$run"
says_not 'phase'
store show keep --run "$run"
says 'mix/L2.E0@5'
says_not '@4'
store diff mix@1 keep --run "$run"
says_not 'changed *[1-9]'
store tag given-up 4 --run "$run"
store show given-up --run "$run"
says 'mix/L2.E0@4'
store tag newest --arm base --force --run "$run"
says 'phase'

# ---- the uses of the stored bytes ----
echo "du shows for what use the bytes of the store are kept"
store du --json --run "$run"
used() { # use
    sed -n "s/.*\"use\":\"$1\",\"bytes\":\([0-9]*\).*/\1/p" "$work/verb.out"
}
raw=$("$pathloom" store ls --json --run "$run" |
    sed 's/.*"hash":"\([^"]*\)".*"bytes":\([0-9]*\).*/\1 \2/' | sort -u |
    awk '{ sum += $2 } END { print sum }')
[ "$(used heads)" -le "$raw" ] && [ "$(used heads)" -gt $((raw / 2)) ] ||
    fail "the heads have $raw bytes, and du says $(used heads)"
for use in tags paths objects history; do
    [ "$(used $use)" -gt 0 ] || fail "du shows no bytes for $use"
done
stored=$("$pathloom" store stat --json --run "$run" | sed 's/.*"stored_bytes":\([0-9]*\).*/\1/')
[ "$(used '[a-z]*' | awk '{ sum += $1 } END { print sum }')" -eq "$stored" ] &&
    [ "$(used other)" -le $((stored / 2)) ] || fail "the uses of du do not add up to $stored bytes"

# ---- blame ----
echo "after a rollback, blame shows the contributors of the restored version only"
shares() { # prints what `blame` says about each contributor, without the requested version
    "$pathloom" store blame "$@" --json --run "$run" | sed 's/.*"source"/"source"/'
}
[ "$(shares L2.E0@1 | wc -l)" -eq 2 ] || fail "version 1 of L2.E0 does not have two contributors"
for how in '' --history; do
    # shellcheck disable=SC2086 # $how is empty or one word
    [ "$(shares L2.E0 $how)" = "$(shares L2.E0@1)" ] || fail "blame L2.E0 $how"
done
store blame L2.E0 --run "$run"
says 'mix/L2.E0@5, which a rollback made from version 1: 2 contributors'
store blame L2.E0@0 --run "$run"
says 'no worker trained it'

# The number of samples must be the sum of the lengths of its ranges, which must not
# overlap. Each contributor has one line: PATH SAMPLES FIRST END FIRST END ...
shares L2.E0@4 --history |
    sed 's/.*"path":\([0-9]*\).*"ranges":\[\[\(.*\)\]\],"samples":\([0-9]*\).*/\1 \3 \2/
        s/[],[]\{1,\}/ /g' >"$work/ranges"
awk '{ for (i = 3; i < NF; i += 2) { $2 -= $(i + 1) - $i; print $1, $i, $(i + 1) } }
    $2 != 0 { print "samples that are not in the ranges" }' "$work/ranges" |
    sort -n -k 1 -k 2 | awk 'NR == 1 || $1 != path { path = $1; at = 0; paths++ }
        $2 != at || $3 <= at { wrong = 1 } { at = $3; last[path] = at }
        END { for (p in last) if (last[p] != 160) wrong = 1; exit wrong || paths != 2 }' ||
    fail "the ranges of blame --history: $(cat "$work/ranges")"
! shares L2.E0@4 --history | grep -q '_sample"' || fail "blame names one range"

echo "log and show print no update norm for the version that a rollback made"
store show L2.E0 --run "$run"
says 'method *rollback to 1$'
says_not 'update norm'
store log L2.E0 --run "$run"
says 'rollback to 1  from [0-9a-f]*  norm [1-9]'
[ "$(grep -c 'update norm' "$work/verb.out")" -eq 4 ] || fail "log of L2.E0"
says_not 'norm 0$'
store log L2.E0 --graph --run "$run"
[ "$(sed -n 's/^[*] mix\/L2.E0@\([0-9]*\) .*/\1/p' "$work/verb.out" | tr '\n' ' ')" = '5 1 0 ' ] ||
    fail "the graph does not go back from 5 to 1 and 0"
says "updates: worker-[0-9]* p[0-9]"
says '^[*] base/'
store log L2.E0@0 --json --run "$run"
says '"params_norm":null,"update_norm":null'

# ---- health ----
echo "log --health shows each version from 1 on, and no lag for the first one"
store log L2.E0@4 --health --json --run "$run"
[ "$(sed 's/.*"version":\([0-9]*\),.*/\1/' "$work/verb.out" | tr '\n' ' ')" = '4 3 2 1 ' ] ||
    fail "versions of log --health"
[ "$(grep -c '"lag_correlation":null' "$work/verb.out")" -eq 1 ] || fail "lags of log --health"
says '"version":1,"lag_correlation":null,"gain":[0-9.]*,"relative_step":0.[0-9]*,"transverse":0.[0-9]*}'
store log L2.E0 --health --run "$run" # version 5 is a rollback
says 'mix/L2.E0@5 .*lag *-  gain *-  step *-  transverse *-$'

# ---- names ----
echo "a tag may not have a name that means an arm, a slot or a level"
for word in mix base dense embed L1 B0; do
    refused 64 'cannot be the name of a tag: it names a' "$pathloom" store tag "$word" --run "$run"
done
store tag fine --run "$run"

# ---- ls ----
echo "ls finds names without their arm, and reports an error if nothing matches"
store ls L1 --run "$run"
says '^mix/L1.E0'
[ "$(wc -l <"$work/verb.out")" -eq 2 ] || fail "ls L1 lists not two modules"
store ls base/L1 --run "$run"
says '^base/L1.E0'
store ls mix --run "$run"
[ "$(wc -l <"$work/verb.out")" -eq 20 ] || fail "ls mix lists not 20 modules"
store ls p01 --paths --run "$run"
says '^mix/p01'
store ls fin --tags --run "$run"
says '^fine '
says_not '^keep '
store ls arm/ --objects --run "$run"
refused 66 'no module begins with L1.E9; did you mean L1.E0?' \
    "$pathloom" store ls L1.E9 --run "$run"
refused 66 'no module begins with mix/embde; did you mean mix/embed.E0?' \
    "$pathloom" store ls mix/embde --run "$run"
refused 66 'no module begins with zzzzzzzzzz; `pathloom store ls` lists all' \
    "$pathloom" store ls zzzzzzzzzz --run "$run"
refused 66 'no module begins with paths; did you mean --paths?' \
    "$pathloom" store ls paths --run "$run"
"$pathloom" store gc --run "$run" | grep -q 'younger than --grace (3600 s)' ||
    fail "gc does not say why it would free nothing"
refused 66 'did you mean fine?' "$pathloom" store ls fone --tags --run "$run"
refused 66 '`pathloom store ls --refs` lists all' \
    "$pathloom" store ls zzzzzzzzzz --refs --run "$run"
refused 64 'one kind at a time: --paths or --tags' \
    "$pathloom" store ls --tags --paths --run "$run"
"$pathloom" store init --store "$work/empty" >/dev/null || fail "init"
store ls --store "$work/empty"

# ---- copies of a store into itself ----
echo "a store cannot be copied onto itself or into its own folder"
ln -s "$run/store" "$work/link"
ln -s "$run" "$work/link-above"
for verb in backup restore push pull; do
    for place in "$run/store" "$work/link" "$work/link-above/store/." "$run/log/../store"; do
        refused 64 'is the store itself' "$pathloom" store "$verb" "$place" --run "$run"
    done
done
for verb in backup push; do
    for place in "$run/store/db" "$run/store/new" "$work/link/a/b"; do
        refused 64 'lies in the store' "$pathloom" store "$verb" "$place" --run "$run"
    done
done
refused 64 'lies in the store' "$pathloom" store restore "$run/store/db" --run "$run"
refused 64 'name another folder' "$pathloom" store restore "$run/store" --store "$run/store/x"
[ ! -e "$run/store/new" ] && [ ! -e "$run/store/a" ] || fail "a folder was made in the store"
store fsck --run "$run"
store backup "$work/copy" --run "$run"
store backup "$work/copy" --run "$run"

# ---- outputs ----
echo "outputs follow links, and go into pipes, devices and descriptors without replacing them"
out=$work/outputs
mkdir -p "$out"
"$pathloom" export --run "$run" --arm base --out "$out/hf" >"$out/export.out" || fail "export"
write_to() { # verb, path
    case $1 in
    page) "$pathloom" page --run "$run" --report "$2" ;;
    gguf) "$pathloom" export --run "$run" --arm base --format gguf --out "$2" ;;
    import) "$pathloom" import "$out/hf" --out "$2" --force ;;
    esac >"$out/said" 2>&1
}
for verb in page gguf import; do
    write_to $verb "$out/$verb.gguf" || fail "$verb: $(cat "$out/said")"
    bytes=$(wc -c <"$out/$verb.gguf")
    [ "$bytes" -gt 200 ] || fail "$verb wrote $bytes bytes"

    ln -s "real-$verb" "$out/link-$verb.gguf"
    echo old >"$out/real-$verb"
    write_to $verb "$out/link-$verb.gguf" || fail "$verb into a link: $(cat "$out/said")"
    [ -h "$out/link-$verb.gguf" ] || fail "$verb replaced a link"
    [ "$(wc -c <"$out/real-$verb")" -gt 200 ] || fail "$verb did not write the target of a link"

    mkfifo "$out/pipe-$verb.gguf"
    cat "$out/pipe-$verb.gguf" >"$out/read-$verb" &
    reader=$!
    write_to $verb "$out/pipe-$verb.gguf" || fail "$verb into a pipe: $(cat "$out/said")"
    [ -p "$out/pipe-$verb.gguf" ] || { kill $reader; fail "$verb replaced a pipe"; }
    wait $reader
    [ "$(wc -c <"$out/read-$verb")" -gt 200 ] || fail "the reader of a pipe got nothing from $verb"

    ln -s /dev/null "$out/null-$verb.gguf"
    write_to $verb "$out/null-$verb.gguf" || fail "$verb into a device: $(cat "$out/said")"
    [ -h "$out/null-$verb.gguf" ] && [ -c /dev/null ] || fail "$verb replaced a device"
done
{ echo first; "$pathloom" page --run "$run" --report /dev/fd/3 3>&1 >/dev/null; } >"$out/log"
[ "$(head -n 1 "$out/log")" = first ] && grep -q '</html>' "$out/log" ||
    fail "a report into a descriptor destroyed what the file had"
for left in "$out"/*.tmp-* "$out"/.*.tmp-*; do
    [ ! -e "$left" ] || fail "the temporary file $left is left"
done

echo "store_verbs_finished: done"
