#!/bin/sh
# Tests of the tests: bugs are planted one by one, and a named test must find each.
#
# usage: mutants.sh [--build FOLDER] [NAME ...]
#
# The tree is copied; each bug is a change of one line there, the named test is built
# and run, and must fail. Without the bug it must pass. Ends with 1 if a bug survives.
set -u
build=build/mutants
while [ $# -gt 1 ] && [ "$1" = --build ]; do
    build=$2
    shift 2
done
only=" $* "
cd "$(dirname "$0")/.." || exit 70
case $build in /*) ;; *) build=$PWD/$build ;; esac
tree=$build/tree
rm -rf "$tree"
mkdir -p "$tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --preserve=timestamps -t "$tree" 2>/dev/null
launcher=$(command -v ccache || true)
CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
export CCACHE_BASEDIR CCACHE_NOHASHDIR
cmake -S "$tree" -B "$build/out" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPL_WERROR=OFF -DPL_CUDA=OFF \
    -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
    >/dev/null || exit 69
planted=0 caught=0 survived=""

test_passes() { # test
    ninja -C "$build/out" "$1" >"$build/ninja.log" 2>&1 || {
        tail -n 20 "$build/ninja.log"
        echo "mutants: $1 does not build"
        exit 70
    }
    (cd "$tree" && timeout 600 "$build/out/tests/$1" >"$build/test.log" 2>&1)
}

# One bug: what it is, where, as an expression of sed, and the test that must fail.
mutant() { # name, file, sed expression, test
    [ "$only" = "  " ] || [ "${only#* "$1" }" != "$only" ] || return 0
    planted=$((planted + 1))
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
    cmp -s "$tree/$2" "$build/good" && {
        echo "mutants: $1 changes nothing in $2: the code has moved on, and this line must, too"
        exit 1
    }
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

rm -f "$build/passed"
mutant sync-off store/kv.c \
    's/(rocksdb_writeoptions_set_sync\(db->write, )1/\10/' test_store_synced
mutant mark-unchecked store/store_open.c \
    's/^( *)if \(store->sequence < mark->sequence \|\| store->epoch < mark->epoch\)/\1if (0)/' \
    test_store_damage
mutant dedup-off home/home_submit.c \
    's/^( *)return s->round < \(int64_t\)m->version \|\|$/\1return 0 \&\& s->round < 0 ||/' test_home
mutant token-unchecked home/home_submit.c \
    's/^( *)if \(is_fenced\(p, s\)\) \{/\1if (0 \&\& is_fenced(p, s)) {/' test_fence
mutant gc-takes-all store/collect.c \
    's/c->keep\(c->context, v\)/0/' test_store_collect
mutant folder-unsynced base/fs.c \
    's/^( *)return sync_parent\(path\);/\1return PL_OK;/' test_store_synced
mutant wall-clock base/clock.c \
    's/read_ns\(CLOCK_BOOTTIME\)/read_ns(CLOCK_REALTIME)/' test_clock_steady
mutant applied-stays store/retire.c \
    's/^( *)kv_delete\(txn->batch, KV_PENDING, key_slice\(&rows\[i\]\.key\)\);/\1;/' test_store
mutant epoch-stale home/home.c \
    's/^( *)h->hub_epoch\+\+;/\1;/' test_fence
mutant nan-gate-off codec/codec.c \
    's/if \(!isfinite\((squares|value)\)\)/if (0)/' test_home
mutant merge-too-early home/home_merge.c \
    's/^( *)module->n_contributors\) \{/\1module->n_contributors - 1) {/' test_home
mutant cursor-too-early home/home_submit.c \
    's/ \|\| !updates_are_in\(arm, index, &state\)//' test_home
echo "$caught of $planted bugs caught${survived:+; survived:$survived}"
[ -z "$survived" ] || exit 1
rm -rf "$build"
