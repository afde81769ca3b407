#!/bin/sh
# Tests router.em: the mixture trains in chapters. Between two chapters the paths score
# some documents, and the other documents are distributed to the paths again. Also tests
# how commands that name an arm show the chapters.
#
# usage: chapters.sh PATHLOOM WORKFOLDER
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
seed=1
. tests/fault/chaos_job.sh
begin "$@"
run=$work/run

make_corpus base modules docs
chapters="--set router.em=2,3 --set router.share=0.2 --set eval.baselines=dense"

# shellcheck disable=SC2086 # the list is several words
(tiny_job run $chapters) >"$work/ask.out" 2>&1 || fail "the job"
says '^router   kmeans'
[ "$(grep -c '^router   linear' "$work/ask.out")" -eq 2 ] || fail "not two linear routers"
says 'documents scored by 4 paths of mix in '
says 'documents scored by 4 paths of mix~1 in '

# If the workers compute the features, documents go to the same paths. On the backend
# ref the size of a batch does not change the features.
take_data run launcher
(tiny_job launcher --set workers.backend=ref --set train.phases=1) >"$work/ask.out" 2>&1 ||
    fail "the job whose launcher computes the features"
grep -q 'computed by the workers' "$work/ask.out" && fail "the workers computed few features"
take_data run workers
passes ask "the job whose workers compute the features" \
    tiny_job workers --set workers.backend=ref --set train.phases=1 --set router.feature_docs=40
says '^router   the features of [0-9]* documents were computed by the workers in 4 tasks'
cmp "$work/launcher/router.json" "$work/workers/router.json" >>"$work/ask.out" ||
    fail "the documents went to other paths"
ask store fsck --run "$work/workers" || fail "fsck of the job whose workers compute features"

# The same command again: nothing is left to train, and the program knows every chapter.
# shellcheck disable=SC2086
(tiny_job run $chapters) >"$work/ask.out" 2>&1 || fail "the job again"
grep -q 'scored by' "$work/ask.out" && fail "a chapter was made twice"
says 'mixture, by likelihood'

# Each path has trained all six phases, each with four steps of two rows. The base model
# has trained eight steps.
ask eval --run "$run" --json || fail "eval"
says '"finished": *true'
ask data coverage --run "$run" || fail "coverage"
ask store fsck --run "$run" || fail "fsck"

# A name without an arm means the newest chapter. This chapter began with the last
# versions of the previous one.
ask store log L1.E0 --run "$run" --json || fail "log"
says 'mix~2/L1.E0'
[ -n "$(hash_of mix~1/L1.E0@0)" ] || fail "no hash of a version"
[ "$(hash_of mix~1/L1.E0@0)" = "$(hash_of mix/L1.E0@2)" ] || fail "mix~1 does not begin with the last version of mix"
[ "$(hash_of mix~2/L1.E0@0)" = "$(hash_of mix~1/L1.E0@1)" ] || fail "mix~2 does not begin with the last version of mix~1"
[ "$(hash_of mix~2/L1.E0@0)" != "$(hash_of mix~2/L1.E0@3)" ] || fail "mix~2 did not train"

for rule in router likelihood; do
    ask generate --run "$run" --prompt "The path" --max-tokens 4 --route "$rule" ||
        fail "generate by $rule"
done
ask export --run "$run" --prompt "The path" --out "$work/export" || fail "export"
ask store tag end --run "$run" || fail "tag"
says 'mix~2'

# Only the newest chapter can be rolled back.
ask store rollback mix --to 1 --run "$run"
[ $? -eq 78 ] || fail "an earlier chapter was rolled back"
says 'mix~2 continued from its last versions; roll back mix~2'
ask store rollback mix~2 --to 2 --run "$run" || fail "rollback of the newest chapter"

# A finished run is lengthened. All earlier versions stay as they were. The learning rate
# fell in the last three of six phases, so in all phases of mix~2.
before=$(hash_of mix~2/head@0)
ask train --out "$run" --set train.phases=+2 --dry-run || fail "a dry run of two phases more"
says '^more     2 phases follow the [0-9]* that are trained'
ask train --out "$run" --set train.phases=+2 || fail "two phases more"
says '^more     mix~3 continues mix~2 after 0 of its 3 phases: 5 phases'
says '^   before the phases of mix~3 perplexity was [0-9.]*: it is now [0-9.]*\( ±[0-9.]*\)* % \(better\|worse\)'
says 'trained 2 phases longer than the baselines'
[ "$(hash_of mix~3/head@0)" = "$before" ] || fail "mix~3 does not begin as mix~2"
[ "$(hash_of mix~3/head@5)" != "$before" ] || fail "mix~3 did not train"
ask train --out "$run" || fail "the lengthened run again"
grep -q '^more ' "$work/ask.out" && fail "the run was lengthened twice"
ask status --run "$run" --json || fail "status of the lengthened run"
says '"finished": *true'
ask train --out "$run" --set train.more=3 && fail "phases that are done were taken back"
says 'was made with train.more'
ask data coverage --run "$run" || fail "coverage of four chapters"
ask store fsck --run "$run" || fail "fsck of four chapters"
(tiny_job other --set train.phases=+2) >"$work/ask.out" 2>&1 && fail "a new run accepted train.phases=+2"
says 'lengthens a run, but no run was trained'

# The configuration of an older version may have keys and values that were deleted since.
# With the value that the program still uses the run can go on, with another it can be
# read.
cp "$run/run.yaml" "$work/run.yaml"
printf 'outer.warmup: 0\nrouter.unit: true\n' >>"$run/run.yaml"
ask train --out "$run" || fail "a run with deleted keys that changed nothing"
printf 'outer.decay: cosine\n' >>"$run/run.yaml"
ask status --run "$run" --json || fail "status of a run with a deleted key"
says '"finished": *true'
ask train --out "$run" && fail "a run was continued with another value of a deleted key"
says 'a value of outer.decay that was removed'
ask homes set 2 --run "$run" && fail "homes of a run with another value of a deleted key"
says 'a value of outer.decay that was removed'
ask train --out "$work/other" --set router.unit=true && fail "a deleted key was accepted"
says 'unknown key .router.unit.'
ask train --out "$work/other" "$run/run.yaml" && fail "a file with a deleted key was accepted"
says 'unknown key .outer.warmup.'
for line in 'gap: constant' 'method: eager'; do
    sed "s/^  ${line%% *} .*/  $line/" "$work/run.yaml" >"$run/run.yaml"
    grep -q "^  $line$" "$run/run.yaml" || fail "no line '$line' was made"
    rm -rf "$work/export"
    ask export --run "$run" --prompt "The path" --out "$work/export" ||
        fail "export of a run with $line"
    ask check --run "$run" || fail "check of a run with $line"
    ask train --out "$run" && fail "a run with $line was continued"
    says "a value of outer.${line%%:*} that was removed"
done
cp "$work/run.yaml" "$run/run.yaml"

# The same holds for a run whose training has not begun.
mkdir "$work/early"
(cat "$run/run.yaml" && printf 'outer.warmup: 0\n') >"$work/early/run.yaml"
ask train --out "$work/early" --dry-run || fail "a run that has not begun, with a deleted key"
printf 'outer.decay: cosine\n' >>"$work/early/run.yaml"
ask train --out "$work/early" --dry-run && fail "a run that has not begun, with another value"
says 'a value of outer.decay that was removed'

# Impossible settings must be refused before the job starts anything.
(tiny_job other --set router.em=9) >"$work/ask.out" 2>&1
[ $? -eq 78 ] || fail "router.em=9 with 6 phases was accepted"
says 'below train.phases 6'
(tiny_job other --set router.em=2 --set router.share=0.0001) >"$work/ask.out" 2>&1
[ $? -ne 0 ] || fail "a share of the documents that contains none was accepted"
says 'larger share'
echo "three chapters of one mixture, and a fourth after the run was lengthened"
rm -rf "$work"
