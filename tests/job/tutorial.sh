#!/bin/sh
# Runs the commands in section 9 of docs/TUTORIAL.md and in the section "Change a
# mixture" of README.md as they are printed, but with a small model and a short text.
#
# usage: tutorial.sh PATHLOOM WORKFOLDER
set -u
# The program starts as users start it (execute_with_settings in cli/main.c).
unset OMP_WAIT_POLICY GOMP_SPINCOUNT
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
. tests/support/job.sh
own_folder "$2"
make_corpus outer corpus docs
mkdir -p "$work/text/python" "$work/text/manual"
mv "$work"/corpus/docs/*.md "$work/text/manual/"
mv "$work"/corpus/*/*.c "$work/text/python/"
# The name and bytes of this file never change, so its hash always decides that it is
# not held out.
awk 'BEGIN { for (i = 0; i < 200; i++) print "def f" i "(x): return x + " i }' \
    >"$work/text/python/abc.py"
small="--set data.vocab=400 --set model.width=32 --set model.heads=2 --set model.blocks=2
    --set model.context=32 --set train.batch=2 --set train.tau=4 --set router.prefix=8
    --set router.share=0.2 --set eval.max_tokens=200 --set eval.sample_tokens=0
    --set train.base_steps=8 --set data.valid_share=0.15"

# Runs the commands in the code blocks of a section. A line that ends with a backslash
# is joined with the next one. A command that begins a new run gets the settings of the
# small model.
run_section() { # page, first line, line after it, commands
    sed -n "/^$2/,/^$3/p" "$root/$1" | sed -n '/^```$/,/^```$/p' | grep -v '^```$' |
        sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' >lines
    sed -i "/ --corpus /s/\$/ $(echo "$small" | tr '\n' ' ')/" lines
    [ "$(grep -c '^pathloom ' lines)" -eq "$4" ] && [ "$(wc -l <lines)" -eq "$4" ] || {
        cat lines
        fail "the section of $1 has other lines than $4 commands"
    }
    while read -r line; do
        sh -c "$line" >out.txt 2>&1 </dev/null || {
            cat out.txt
            fail "$line"
        }
        cat out.txt >>all.txt
    done <lines
}

all_say() { # pattern ...
    for said in "$@"; do
        grep -q "$said" all.txt || {
            cat all.txt
            fail "no output says '$said'"
        }
    done
}

root=$PWD
cd "$work" || exit 1
run_section docs/TUTORIAL.md '## 9\.' '## More features' 19
all_say '^topology 12 modules and 4 paths of mix~1 become 22 and 8 of mix~2' \
    '^mix~2/L1.E3@0' '^mix~1/L1.E1@2' '^mix/L1.E1@2' '^more     mix~3 continues mix~2' \
    '^         p01 ends; its [0-9]* documents go' '^topology .* of mix~3 become .* of mix~4' \
    'ended; mix~4 continues without it' '^exact ' '^forgotten *unproven .*base model, router and tokenizer'
rm all.txt
small="$small --set eval.baselines=none"
run_section README.md '## Change a mixture during' '## Against' 4
all_say '^topology 12 modules' '^more     mix~3 continues mix~2' 'soup'
echo "the commands of the tutorial and of README.md work"
rm -rf "$work"
