#!/bin/sh
# The commands of section 9 of docs/TUTORIAL.md, as they stand there, with a model that is
# small and a text that is short.
#
# usage: tutorial.sh PATHLOOM WORKFOLDER
set -u
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
. tests/support/job.sh
own_folder "$2"
mkdir -p "$work/text/python" "$work/text/manual"
cp modules/*.c "$work/text/python/"
cp modules/topology.h "$work/text/python/abc.py"
cp docs/*.md "$work/text/manual/"
small="--set data.vocab=400 --set model.width=32 --set model.heads=2 --set model.blocks=2
    --set model.context=32 --set train.batch=2 --set train.tau=4 --set router.prefix=8
    --set router.share=0.2 --set eval.max_tokens=200 --set eval.sample_tokens=0
    --set train.base_steps=8"

# The blocks of the section, lines that go on joined; a new run gets the small model.
sed -n '/^## 9\./,/^## Further/p' docs/TUTORIAL.md | sed -n '/^```$/,/^```$/p' |
    grep -v '^```$' | sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' >"$work/lines"
sed -i "/ --corpus /s/\$/ $(echo "$small" | tr '\n' ' ')/" "$work/lines"
n=$(grep -c '^pathloom ' "$work/lines")
[ "$n" -eq 11 ] && [ "$(wc -l <"$work/lines")" -eq 11 ] || {
    cat "$work/lines"
    fail "the section has other lines than eleven commands"
}
cd "$work" || exit 1
while read -r line; do
    sh -c "$line" >out.txt 2>&1 </dev/null || {
        cat out.txt
        fail "$line"
    }
    cat out.txt >>all.txt
done <lines
for said in '^widen    12 modules and 4 paths of mix~1 become 22 and 8 of mix~2' \
    '^mix~2/L1.E3@0' '^mix~1/L1.E1@2' '^mix/L1.E1@2' '^more     mix~3 goes on from mix~2'; do
    grep -q "$said" all.txt || {
        cat all.txt
        fail "nothing says '$said'"
    }
done
echo "$n commands of the tutorial"
rm -rf "$work"
