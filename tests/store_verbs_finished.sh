#!/bin/sh
# The verbs of `pathloom store` on a run that has finished: what they say after a
# rollback, of names, and of words that mean nothing.
#
# usage: store_verbs_finished.sh PATHLOOM WORKFOLDER
set -u
pathloom=$1
# shellcheck source=tests/job.sh
. tests/job.sh
own_folder "$2"
make_corpus base docs

says() { # words
    grep -q -- "$1" "$work/verb.out" || fail "store $verb does not say \`$1\`"
}

says_not() { # words
    ! grep -q -- "$1" "$work/verb.out" || fail "store $verb says \`$1\`"
}

# ---- rolled back and tagged ----
echo "the newest tag after a rollback is of what it went back to"
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

# ---- names ----
echo "a tag has no name that means something else"
for word in mix base dense embed L1 B0; do
    refused 64 'cannot name a tag: it names a' "$pathloom" store tag "$word" --run "$run"
done
store tag fine --run "$run"

echo "store_verbs_finished: done"
