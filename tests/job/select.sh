#!/bin/sh
# Tests train.holdout: held-out documents of each shard choose the best version of each
# path. The launcher is killed while it chooses, and this must not change the result.
#
# usage: select.sh PATHLOOM LEDGER WORKFOLDER
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"

# The learning rate is so high that already the first phase does harm. So the best
# version is the base model (phase 0).
select_job() { # folder, options
    tiny_job "$@" --set train.holdout=0.2 --set train.lr=0.5 \
        --set train.lr_floor=1 --set train.warmup=0 --set train.base_lr=0.01 \
        --set train.base_steps=60
}

# The corpus has many short documents of two kinds.
mkdir -p "$work/corpus/base" "$work/corpus/docs"
cat base/*.c | head -c 150000 | split -a 4 -C 1500 - "$work/corpus/base/"
cat docs/*.md | head -c 150000 | split -a 4 -C 1500 - "$work/corpus/docs/"
(select_job calm) >"$work/ask.out" 2>&1 || fail "the job"
says '^select   [1-4] of 4 paths of mix have an earlier version'

run=$work/calm
"$pathloom" store ls --objects --run "$run" >"$work/objects"
[ "$(grep -c '^holdout/mix/p' "$work/objects")" -ge 1 ] || fail "nothing is held out"
[ "$(grep -c '^tag/best-mix-p' "$work/objects")" -eq 4 ] || fail "not a tag for each path"

# On the held-out documents of a path, its chosen version must not be worse than its
# last one.
"$pathloom" store tag --run "$run" >"$work/ask.out" 2>&1 || fail "tags"
awk '/nats per token on/ { for (i = 1; i < NF; i++) if ($i == "nats") chosen = $(i - 1)
    for (i = 1; i < NF; i++) if ($i == "after") last = $(i - 1)
    n++; bad += chosen > last + 0 }
    END { exit bad || !n }' "$work/ask.out" || fail "a worse version was chosen"

# The log must show the best version, and every command must accept its tag.
ask store show best-mix-p00 --run "$run" || fail "store show of the tag"
says 'held-out documents; '
phase=$(sed -n 's/^state  *phase //p' "$work/ask.out")
ask store log head --run "$run" || fail "log"
says 'best of '
ask eval --run "$run" --json || fail "eval"
says '"select": *"head"'
head=$(sed -n 's/.*"ppl_likelihood": *\([0-9.]*\).*/\1/p' "$work/ask.out")
ask eval --run "$run" --select best --json || fail "eval of the best"
says '"select": *"best"'
best=$(sed -n 's/.*"ppl_likelihood": *\([0-9.]*\).*/\1/p' "$work/ask.out")
[ "$best" != "$head" ] || fail "the best versions predict as the newest: $head"
ask generate --run "$run" --select best --path p00 --prompt The --max-tokens 4 ||
    fail "generate"
for v in best head; do
    ask export --run "$run" --select $v --path p00 --out "$work/model.$v" --json ||
        fail "export of $v"
    cp "$work/ask.out" "$work/export.$v"
done
[ "$phase" -eq 6 ] || ! cmp -s "$work/model.best/model.safetensors" \
    "$work/model.head/model.safetensors" || fail "the export of the best is the head"
grep -q "\"pathloom.module.head.E0\": *\"$phase " "$work/export.best" ||
    fail "the export does not have the versions of phase $phase"

# Refuses both options together, an unknown word, and --select for a run without
# held-out documents.
ask export --run "$run" --select best --at 1 --path p00 --out "$work/x" && fail "--select and --at were accepted together"
says 'leave one of them out'
ask eval --run "$run" --select last && fail "--select last was accepted"
says 'takes head or best'
(tiny_job none) >"$work/ask.out" 2>&1 || fail "the job without a hold-out"
grep -q '^select' "$work/ask.out" && fail "train chose best versions without a hold-out"
ask eval --run "$work/none" --select best && fail "--select best was accepted without best versions"
says 'no best versions'

# Documents that are held out must be in no shard.
documents_of() { # run
    awk '/\]/ { inside = 0 } inside { n += $1 } /"shard_documents"/ { inside = 1 }
        END { print n }' "$work/$1/router.json"
}
[ "$(documents_of calm)" -lt "$(documents_of none)" ] ||
    fail "$(documents_of calm) documents train with a hold-out, $(documents_of none) without"

# The command is killed before its third tag and is given again. The store must be the
# same as without the kill.
take_data calm shot
(PATHLOOM_FAILPOINT=select.tag.before@train:kill:3 && export PATHLOOM_FAILPOINT &&
    select_job shot) >"$work/ask.out" 2>&1 && fail "train was not killed at its third tag"
facts calm || fail "too little in the store"
(select_job shot) >"$work/ask.out" 2>&1 || fail "the job after the kill"
same_facts calm shot || fail "the store differs from the one without a kill"
fsck_is_clean shot || fail "fsck"

# The best version of a path can be merged only into modules of this path.
ask store merge odd p01@best-mix-p00 p00 --run "$run" && fail "the tag of another path was accepted"
says 'tag best-mix-p00 has no module mix/'

# A run with held-out documents cannot be split. The message must not tell the user to
# change train.holdout, because a run that has begun cannot change this key.
(select_job calm --set train.phases=+2 --set topology.split=6:4x4) >"$work/ask.out" 2>&1 &&
    fail "a split run with a hold-out"
says 'lengthen the run without topology.split'

# A finished run that is continued must choose again in its next chapter.
(select_job calm --set train.phases=+2) >"$work/ask.out" 2>&1 || fail "the longer run"
says 'paths of mix~1 have an earlier version'
ask store show best-mix~1-p00 --run "$run" || fail "the tag of the chapter"
rm -rf "$work"
