#!/bin/sh
# Tests the tests: bugs are put into the code one after another, and a test must find
# each bug.
#
# usage: mutants.sh --fits | [--build FOLDER] [NAME ...]
#        mutants.sh [--build FOLDER] --random N [--seed S] FILE TEST ...
#
# The tree is copied, and each bug changes one line of the copy. Without --random, each
# bug of the list below (or each one that is named) is tried, and the test that the list
# names for it must fail. With --random, N changes of FILE are drawn (a comparison, an
# operator, a number, a negated condition, a missing statement), and one of the TESTs
# must fail or not end. Changes that do not compile are not counted. The exit code is 1
# if no test finds a bug of the list. With --fits nothing is built: the exit code is 1 if a
# bug of the list does not fit the present code. Some random changes have no visible effect. So
# with --random the script only prints the changes that no test found, and their share.
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
build=build/mutants random=0 seed=1
while [ $# -gt 1 ]; do
    case $1 in
    --build) build=$2 ;;
    --random) random=$2 ;;
    --seed) seed=$2 ;;
    *) break ;;
    esac
    shift 2
done
only=" $* " fits=''
[ "$*" != --fits ] || fits=1 only='  '
cd "$(dirname "$0")/.." || exit 70
case $build in /*) ;; *) build=$PWD/$build ;; esac
tree=$build/tree
if [ -z "$fits" ]; then
    rm -rf "$build" # otherwise objects of an earlier bug would look newer than the sources
    mkdir -p "$tree"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --preserve=timestamps -t "$tree" 2>/dev/null
    launcher=$(command -v ccache || true)
    CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
    export CCACHE_BASEDIR CCACHE_NOHASHDIR
    cmake -S "$tree" -B "$build/out" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPL_WERROR=OFF -DPL_CUDA=OFF \
        -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
        >/dev/null || exit 69
fi
planted=0 caught=0 survived=""

test_passes() { # test
    ninja -C "$build/out" "$1" >"$build/ninja.log" 2>&1 || {
        tail -n 20 "$build/ninja.log"
        echo "mutants: $1 does not build"
        exit 70
    }
    (cd "$tree" && timeout 600 "$build/out/tests/$1" >"$build/test.log" 2>&1)
}

# Tries one bug: the sed expression puts it into a file of the copy, and then the test
# must fail.
mutant() { # name, file, sed expression, test
    [ "$only" = "  " ] || [ "${only#* "$1" }" != "$only" ] || return 0
    planted=$((planted + 1))
    sed -E "$3" "$2" | cmp -s - "$2" && {
        echo "mutants: $1 changes nothing in $2; adapt its sed expression to the present code"
        exit 1
    }
    [ -z "$fits" ] || return 0
    cp "$tree/$2" "$build/good"
    grep -q " $4 " "$build/passed" 2>/dev/null || {
        test_passes "$4" || {
            cat "$build/test.log"
            echo "mutants: $4 fails without a bug"
            exit 1
        }
        echo " $4 " >>"$build/passed"
    }
    sed -i -E "$3" "$tree/$2"
    if test_passes "$4"; then
        verdict=SURVIVED
        survived="$survived $1"
    else
        verdict=caught
        caught=$((caught + 1))
        by=$(sed -n 's/^\[  FAILED  \] \([a-z].*\)/\1/p' "$build/test.log" | head -n 1)
    fi
    printf '%-9s %-18s %-28s %s\n' "$verdict" "$1" "$4" "${by:-}"
    by=""
    cp "$build/good" "$tree/$2"
}

# Prints one line per possible change of FILE: line, column, length, new text.
points() { # file
    awk '
        function point(at, len, text) { print NR "\t" at "\t" len "\t" text }
        function each(word, text,    at, from) {
            from = 1
            while ((at = index(substr(code, from), word)) > 0) {
                point(from + at - 1, length(word), text)
                from += at + length(word) - 1
            }
        }
        {
            code = $0
            if (in_comment) { if (sub(/^.*\*\//, "", code)) in_comment = 0; next }
            if (code ~ /^ *\/\*/) { if (code !~ /\*\//) in_comment = 1; next }
            if (code ~ /^ *(#|static const|enum|typedef|_Static_assert)/) next
            # Strings and comments must not be changed, so they are replaced by blanks.
            while (match(code, /"([^"\\]|\\.)*"/)) {
                gap = sprintf("%" RLENGTH "s", ""); gsub(/ /, "_", gap)
                code = substr(code, 1, RSTART - 1) gap substr(code, RSTART + RLENGTH)
            }
            if (match(code, /\/\*/)) {
                if (code !~ /\*\//) in_comment = 1
                code = substr(code, 1, RSTART - 1)
            }
            if (!inside) { if (code ~ /^\{/) inside = 1; next }
            if (code ~ /^\}/) { inside = 0; next }
            each(" == ", " != "); each(" != ", " == ")
            each(" < ", " <= "); each(" > ", " >= "); each(" <= ", " < "); each(" >= ", " > ")
            each(" + ", " - "); each(" - ", " + "); each(" * ", " + "); each(" / ", " * ")
            each(" && ", " || "); each(" || ", " && "); each(" << ", " >> ")
            each(" += ", " -= "); each(" -= ", " += "); each("++", "--")
            each("if (", "if (!("); each("return true;", "return false;")
            each("return false;", "return true;")
            from = 1
            while (match(substr(code, from), /[^A-Za-z0-9_.x][0-9]+[^0-9.xA-Za-z_]/)) {
                at = from + RSTART
                n = substr(code, at, RLENGTH - 2)
                point(at, length(n), n + 1)
                from = at + length(n)
            }
            if (code ~ /^ +[a-z][A-Za-z0-9_>.\[\]-]*( [-+*|&]?= |\().*;$/ &&
                code !~ /^ +(return|goto|break|continue|int|float|double|bool|char|size_t|uint|pl_)/) {
                match(code, /[^ ]/)
                point(RSTART, length(code) - RSTART + 1, ";")
            }
        }' "$1"
}

# Copies `from` to `to` with one change. A negated condition gets its closing bracket.
plant() { # line, column, length, text, from, to
    awk -v line="$1" -v at="$2" -v len="$3" -v text="$4" '
        NR == line {
            rest = substr($0, at + len)
            if (text == "if (!(") {
                depth = 1
                for (i = 1; i <= length(rest) && depth > 0; i++) {
                    c = substr(rest, i, 1)
                    depth += (c == "(") - (c == ")")
                }
                rest = substr(rest, 1, i - 1) (depth == 0 ? ")" : "") substr(rest, i)
            }
            $0 = substr($0, 1, at - 1) text rest
        }
        { print }' "$5" >"$6"
}

if [ "$random" -gt 0 ]; then
    [ $# -ge 2 ] || { echo "mutants: --random N needs a FILE and a TEST" >&2; exit 64; }
    file=$1
    shift
    for test in "$@"; do
        test_passes "$test" || { cat "$build/test.log"; exit 1; }
    done
    cp "$tree/$file" "$build/good"
    yes "$seed" | head -c 1000000 >"$build/dice"
    points "$tree/$file" >"$build/all"
    echo "$file: $(wc -l <"$build/all") changes possible"
    shuf --random-source="$build/dice" "$build/all" >"$build/drawn"
    while [ "$planted" -lt "$random" ] && IFS='	' read -r line at len text; do
        plant "$line" "$at" "$len" "$text" "$build/good" "$tree/$file"
        ninja -C "$build/out" "$@" >"$build/ninja.log" 2>&1 || continue
        planted=$((planted + 1))
        verdict=survived
        for test in "$@"; do
            (cd "$tree" && timeout 120 "$build/out/tests/$test" >"$build/test.log" 2>&1) ||
                { verdict=caught && break; }
        done
        [ "$verdict" = survived ] || { caught=$((caught + 1)) && continue; }
        echo "survived: $file:$line: $(sed -n "${line}p" "$tree/$file" | sed 's/^ *//')"
    done <"$build/drawn"
    cp "$build/good" "$tree/$file"
    echo "$file: $caught of $planted caught by $*"
    exit 0
fi

rm -f "$build/passed"
mutant sync-off store/kv.c \
    's/(rocksdb_writeoptions_set_sync\(db->write, )1/\10/' test_store_synced
mutant mark-unchecked store/store_open.c \
    's/^( *)if \(store->sequence < mark->sequence \|\| store->epoch < mark->epoch\)/\1if (0)/' \
    test_store_damage
mutant dedup-off home/home_submit.c \
    's/^( *): home_has_update\(p->arm, m, s->round, task\);/\1: 0;/' test_home
mutant token-unchecked home/home_submit.c \
    's/^( *)if \(is_fenced\) \{/\1if (0 \&\& is_fenced) {/' test_fence
mutant gc-takes-all store/collect.c \
    's/c->keep\(c->context, v\)/0/' test_store_collect
mutant folder-unsynced base/fs.c \
    's/^( *)return pl_sync_parent\(path\);/\1return PL_OK;/' test_store_synced
mutant wall-clock base/clock.c \
    's/read_ns\(CLOCK_BOOTTIME\)/read_ns(CLOCK_REALTIME)/' test_clock_steady
mutant applied-stays store/retire.c \
    's/^( *)kv_delete\(txn->batch, KV_PENDING, key_slice\(&rows\[i\]\.key\)\);/\1;/' test_store
mutant epoch-stale home/home.c \
    's/ : h->hub_epoch \+ is_new;/ : h->hub_epoch + (is_new \&\& 0);/' test_fence
mutant nan-gate-off codec/codec.c \
    's/if \(!isfinite\((squares|value)\)\)/if (0)/' test_home
mutant merge-too-early outer/contract.c \
    's/(c\.quorum = .* \? all)$/\1 - 1/' test_home
mutant cursor-too-early home/home_submit.c \
    's/ \|\| !updates_are_in\(h, &under, m\)\)/ || (0 \&\& !updates_are_in(h, \&under, m)))/' test_home
[ -z "$fits" ] || exit 0
echo "$caught of $planted bugs caught${survived:+; survived:$survived}"
[ -z "$survived" ] || exit 1
rm -rf "$build"
