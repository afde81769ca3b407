#!/bin/sh
# Damages every file of a store, of a backup and of a run folder in five ways, and lets
# every checking, reading and writing verb use the damaged copy:
#
#   empty   the file has no bytes         flip   one byte in the middle has changed
#   gone    the file does not exist       cut    the second half is missing
#   old     the file is that of an earlier commit
#
# What must hold in each cell:
#   - a reading verb ends with an error, or prints what it prints of the undamaged copy
#   - if a writing verb fails, fsck and check have found the damage
#   - a backup or restore that ends without an error made a whole store
#
# Prints a row per file and damage (docs/results/reliability.md sums them up):
#   ok: works as before; found: ended with an error.
#
# usage: damage_matrix.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
wrong=0 cells=0

bad() { # sentence
    echo "WRONG: $1"
    wrong=$((wrong + 1))
}

# Makes the file $4 of a copy damaged in the way $3; false if it would not change. $2 is
# the folder of the earlier commit.
damage() { # folder, folder of the old copy, way, file
    target=$1/$4
    bytes=$(wc -c <"$target")
    case $3 in
    empty) [ "$bytes" -gt 0 ] && : >"$target" ;;
    gone) rm "$target" ;;
    cut) [ "$bytes" -gt 1 ] && truncate -s $((bytes / 2)) "$target" ;;
    flip)
        [ "$bytes" -gt 0 ] || return 1
        old=$(dd if="$target" bs=1 skip=$((bytes / 2)) count=1 2>/dev/null | od -An -tu1)
        # shellcheck disable=SC2059 # the format is the byte
        printf "\\$(printf %o $((old ^ 1)))" |
            dd of="$target" bs=1 seek=$((bytes / 2)) conv=notrunc 2>/dev/null
        ;;
    old) [ -f "$2/$4" ] && ! cmp -s "$2/$4" "$target" && cp "$2/$4" "$target" ;;
    esac
}

# Runs a command; sets `result` to ok or found. The output is in $work/said.
try() { # command
    "$@" >"$work/said" 2>"$work/error"
    code=$?
    result=ok
    [ $code -eq 0 ] || result=found
    [ $code -lt 126 ] || bad "$cell: '$*' ended with code $code: $(tail -n 1 "$work/error")"
    [ $code -eq 0 ] || [ $code -ge 126 ] || [ -s "$work/error" ] || [ -s "$work/said" ] ||
        bad "$cell: '$*' gave no reason"
}

# The ways in which to damage a file. When the database opens, it compares the sizes of
# all table files with its list, so two table files stand for all that are empty, gone or
# cut. What is in files LOG and OPTIONS is never read.
ways_of() { # folder, file
    case $2 in
    *.sst)
        echo flip old
        ! find "$1" -name '*.sst' | sort | sed -n '1p;$p' | grep -q "/${2#./}\$" || echo empty gone cut
        ;;
    */LOG* | */OPTIONS*) echo gone flip ;;
    *) echo empty gone flip cut old ;;
    esac
}

# The reading verbs of a store, each with the same output as of the undamaged store. The
# first call notes these outputs. If the first two, which read different rows, fail with
# the same error, the store cannot be opened, and the others would fail there too.
read_store() { # folder, prefix of the files with the expected outputs: sets `readers`
    readers=ok
    i=0
    for verb in "ls --json" "tag --json" "log mix/L1.E0 --json" "cat mix/L1.E0" \
        "show mix/L1.E0 --json" "du --json"; do
        i=$((i + 1))
        # shellcheck disable=SC2086 # the words of the verb
        try "$pathloom" store $verb --store "$1"
        [ $result = ok ] || readers=found
        [ -e "$2.$i" ] || cp "$work/said" "$2.$i"
        [ $result != ok ] || [ "$i" = 6 ] || cmp -s "$work/said" "$2.$i" ||
            bad "$cell: store $verb ended without an error and printed something else"
        [ "$i" -ne 1 ] || cp "$work/error" "$work/first"
        [ $result = ok ] || [ "$i" -ne 2 ] || ! cmp -s "$work/error" "$work/first" || return
    done
}

is_whole() { # folder: fsck finds nothing, and the readers print what is expected
    "$pathloom" store fsck --store "$1" >"$work/whole.out" 2>&1 &&
        "$pathloom" store ls --json --store "$1" 2>/dev/null | cmp -s - "$work/expected.1"
}

echo "making a run, an earlier copy of it, and a backup"
make_corpus base
(small_job run --set model.width=32 --set train.tau=4 --set train.phases=2 \
    --set train.base_steps=10 --set eval.max_tokens=100) >"$work/run.out" 2>&1 || fail "the run"
rm -rf "$work/run/cache" "$work/run/proc"
"$pathloom" store tag one --run "$work/run" >"$work/tag.out" 2>&1 || fail "the first tag"
"$pathloom" store backup "$work/older" --run "$work/run" >"$work/b.out" 2>&1 || fail "backup"
cp -r "$work/run" "$work/before"
"$pathloom" store tag two --run "$work/run" >"$work/tag.out" 2>&1 || fail "the second tag"
cp -r "$work/older" "$work/backup"
"$pathloom" store backup "$work/backup" --run "$work/run" >"$work/b.out" 2>&1 || fail "backup"
cell="the undamaged store"
read_store "$work/run/store" "$work/expected"
[ $readers = ok ] || fail "the reading verbs of a store"

echo "1. files of a store"
printf '%-22s %-6s %-6s %-6s %-6s %-7s %-7s %-6s\n' file damage fsck quick check readers backup writer
for file in $(cd "$work/run/store" && find . -type f | sort); do
    for way in $(ways_of "$work/run/store" "$file"); do
        cell="store ${file#./} $way"
        rm -rf "$work/x" "$work/y"
        cp -r "$work/run" "$work/x"
        damage "$work/x/store" "$work/before/store" $way "$file" || continue
        cells=$((cells + 1))
        try "$pathloom" store fsck --store "$work/x/store" && fsck=$result
        try "$pathloom" store fsck --quick --store "$work/x/store" && quick=$result
        try "$pathloom" check --run "$work/x" && check=$result
        read_store "$work/x/store" "$work/expected"
        try "$pathloom" store backup "$work/y" --store "$work/x/store" && backup=$result
        [ $backup = found ] || is_whole "$work/y" ||
            bad "$cell: backup ended without an error and made a store that is not whole"
        try "$pathloom" store tag three --store "$work/x/store" && writer=$result
        if [ $writer = ok ]; then
            try "$pathloom" store gc --delete --keep 1 --grace 0 --store "$work/x/store"
            writer=$result
        fi
        [ $writer = ok ] || [ $fsck$check = foundfound ] ||
            bad "$cell: a writer fails, but fsck says $fsck and check says $check"
        printf '%-22s %-6s %-6s %-6s %-6s %-7s %-7s %-6s\n' "${file##*/}" $way $fsck $quick \
            $check $readers $backup $writer
    done
done

echo "2. files of a backup"
printf '%-22s %-6s %-7s %-7s\n' file damage restore --quick
for file in $(cd "$work/backup" && find . -type f | sort); do
    for way in $(ways_of "$work/backup" "$file"); do
        cell="backup ${file#./} $way"
        rm -rf "$work/x"
        cp -r "$work/backup" "$work/x"
        damage "$work/x" "$work/older" $way "$file" || continue
        cells=$((cells + 1))
        line=
        for option in '' --quick; do
            rm -rf "$work/y"
            # shellcheck disable=SC2086 # no option, or one
            try "$pathloom" store restore "$work/x" $option --store "$work/y"
            [ $result = found ] || is_whole "$work/y" ||
                bad "$cell: restore $option ended without an error and made a store that is not whole"
            line="$line $(printf '%-7s' $result)"
        done
        printf '%-22s %-6s%s\n' "${file##*/}" $way "$line"
    done
done

echo "3. other files of a run folder"
printf '%-22s %-6s %-6s %-6s %-6s %-6s\n' file damage check eval page train
run_verbs() { # run: prints the outputs of the reading verbs
    try "$pathloom" eval --run "$1" --json && eval=$result
    cp "$work/said" "$work/said.eval"
    try "$pathloom" generate --run "$1" --prompt The --max-tokens 4
    cp "$work/said" "$work/said.generate"
    [ $result = ok ] || eval=$result
    try "$pathloom" page --run "$1" --report "$work/page.html" && page=$result
}
run_verbs "$work/run"
cp "$work/said.eval" "$work/expected.eval" && cp "$work/said.generate" "$work/expected.generate"
[ $eval$page = okok ] || fail "the reading verbs of a run: $(cat "$work/error")"
for file in $(cd "$work/run" && find . -type f ! -path './store/*' ! -path './log/*' | sort); do
    for way in empty gone flip cut; do
        cell="run ${file#./} $way"
        rm -rf "$work/x"
        cp -r "$work/run" "$work/x"
        damage "$work/x" "$work/before" $way "$file" || continue
        cells=$((cells + 1))
        try "$pathloom" check --run "$work/x" && check=$result
        run_verbs "$work/x"
        for verb in eval generate; do
            # a setting that run.yaml lacks has its default value
            [ $eval = found ] || [ "${file##*/}" = run.yaml ] || cmp -s "$work/said.$verb" "$work/expected.$verb" ||
                bad "$cell: $verb ended without an error and printed something else"
        done
        try "$pathloom" train --out "$work/x" && train=$result
        [ $train = ok ] || [ $check = found ] ||
            bad "$cell: train fails ($(tail -n 1 "$work/error")), but check says $check"
        printf '%-22s %-6s %-6s %-6s %-6s %-6s\n' "${file##*/}" $way $check $eval $page $train
    done
done

echo "$cells damaged copies, $wrong wrong answers"
[ "$wrong" -eq 0 ] || exit 1
echo "PASSED"
