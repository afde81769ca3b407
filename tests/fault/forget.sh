#!/bin/sh
# Tests `pathloom forget`. A run that forgets a document must have the parameters and
# the states of a run that never had this document, also if the launcher is killed while
# it replaces the store or while it trains again. Only phases that depend on the
# document are trained again.
#
# usage: forget.sh PATHLOOM CHAOS_LEDGER WORKFOLDER TEXT_TRACES [SEED]
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$1" "$2" "$3" "${5-}"
traces=$4

kept="--set store.keep_states=true --set store.keep_updates=true --set store.keep_momentum=true"
# A phase has few, short samples, so that some documents are drawn for the first time in
# a late phase.
forget_job() { # folder, options; in a subshell or in the background
    folder=$1
    shift
    # shellcheck disable=SC2086 # the list is several words
    tiny_job "$folder" --set train.batch=1 --set train.tau=3 --set train.phases=4 \
        --set eval.baselines=dense "$@"
}

again() { # folder: makes it a copy of the calm run
    rm -rf "${work:?}/$1"
    cp -r "$work/calm" "$work/$1"
}

granted() { # folder: tasks of the mixture and its baseline that the hub has given
    grep -c 'lease.granted task=\(mix\|dense\)' "$work/$1/log/hub.log"
}

# Prints how many different tasks were given. On a busy machine a lease may expire, or a
# slow worker gets a backup; only then a task may be given once more.
different_since() { # folder, number that `granted` printed before
    awk -v before="$2" '
        /lease.granted task=(mix|dense)/ && ++grants > before {
            match($0, /task=[^ ]* phase=[^ ]*/)
            if (given[substr($0, RSTART, RLENGTH)]++) again++
            else different++
        }
        grants >= before && /lease.expired/ { sub(/.*count=/, ""); allowed += $1 }
        grants >= before && /backup.granted/ { allowed++ }
        END { print different + 0; exit again > allowed }' "$work/$1/log/hub.log"
}

# Writes into FOLDER.facts also the best versions of paths and the scores of held-out
# text.
read_facts() { # folder
    facts_of_run "$1"
    ask store ls --tags --json --run "$work/$1" || fail "tags of $1"
    cat "$work/ask.out" >>"$work/$1.facts"
    "$ledger" --held "$work/$1/store" >>"$work/$1.facts" || fail "scores of $1"
}

# Compares two runs. The facts of the first one are read only once.
same() { # folder that does not change any more, folder
    [ -e "$work/$1.facts" ] || read_facts "$1"
    read_facts "$2"
    cmp -s "$work/$1.facts" "$work/$2.facts" || {
        diff "$work/$1.facts" "$work/$2.facts" | head -n 10
        fail "the runs $1 and $2 differ"
    }
}

proven() { # folder, what was made from the text and stays
    succeeds "check of $1" check --run "$work/$1" --recompute all
    says "^forgotten *unproven.* ($2 made from the text of forgotten documents"
    ask store fsck --run "$work/$1" || fail "fsck of $1"
    ask data coverage --run "$work/$1" || fail "coverage of $1"
}

make_corpus base docs
# While the mixture trains, only short held-out documents are scored (eval.curves).
mkdir "$work/corpus/short"
for file in outer/*.c home/*.c store/*.c; do
    head -n 12 "$file" >"$work/corpus/short/$(basename "$file")"
done
# Each document ends with a text that no other document has.
for file in "$work"/corpus/*/*; do
    echo "/* $(echo "${file#"$work"}" | sha256sum | cut -c 1-60) */" >>"$file"
done
# shellcheck disable=SC2086 # the list is several words
(forget_job calm $kept) >"$work/calm.out" 2>&1 || fail "the run"
[ "$("$pathloom" check --run "$work/calm" | grep -c '^forgotten')" -eq 0 ] ||
    fail "check lists a forgotten document before the first forget"

# Finds a document that a path draws in the middle of its training.
for document in "$work"/corpus/*/*; do
    ask forget "$document" --dry-run --run "$work/calm" || continue
    n=$(sed -n 's/^mix  *\([0-9]*\) of 16 phases are trained again$/\1/p' "$work/ask.out")
    [ "${n:-0}" -lt 4 ] || [ "$n" -gt 11 ] || break
    n=
done
[ -n "$n" ] || fail "no document is drawn for the first time in a late phase"
says_cost() { # folder: prints how many phases of mix and dense must be trained again
    ask forget "$document" --dry-run --run "$work/$1" || fail "forget --dry-run"
    sed -n 's/^\(mix\|dense\) *\([0-9]*\) of.*/\2/p' "$work/ask.out" |
        awk '{ n += $1 } END { print n }'
}

echo "1. one document, $n of 16 phases of the mixture"
again one
before=$(granted one)
cost=$(says_cost one)
[ "$(granted one)" -eq "$before" ] && [ ! -e "$work/one/forgotten" ] ||
    fail "--dry-run trained tasks or replaced the store"
"$pathloom" forget "$document" --run "$work/one" >"$work/one.out" 2>&1 || fail "forget"
grep -q '^exact .*paths and baselines.*base model and router have seen' "$work/one.out" ||
    fail "forget does not say what is exact"
grep -q "^kept .*one/forgotten has the old store" "$work/one.out" || fail "forget does not say where the old store is"
did=$(different_since one "$before") || fail "a finished task was given once more"
[ "$did" -eq "$cost" ] || fail "$did tasks were trained, $cost were announced"
proven one "base model, router and tokenizer were"
cp "$work/one/data/forgotten" "$work/list"
(forget_job never --set data.forget="$work/list") >"$work/never.out" 2>&1 ||
    fail "training of the run that never had the document"
same never one
grep -q '^held mix/.* nats [1-9]' "$work/one.facts" || fail "no score of held-out text"
facts_of_run calm
cmp -s "$work/calm.facts" "$work/one.facts" && fail "the run has the same facts with and without the document"
ask eval --run "$work/one" || fail "eval"
ask forget "$document" --run "$work/one" || fail "forget of a document that is already forgotten"
says 'were forgotten before'

echo "2. purged: the old store is deleted, and the text of the document with it"
ask check --store "$work/one/forgotten/1" || fail "check of the old store"
ask forget --purge --run "$work/one" || fail "purge"
[ ! -e "$work/one/forgotten" ] || fail "the old store is still there"
ask data coverage --of "$document" mix --run "$work/one" --json || fail "coverage of $document"
grep -q '"of_tokens": *[1-9]' "$work/ask.out" && fail "data coverage shows that a path was trained on $document"

echo "   nothing is left of its text, in no file, blob or backup"
again gone
text=$(tail -n 1 "$document")
gone=$(cut -d ' ' -f 1 "$work/list")
leaves() { # folder; prints how many files and blobs have the text or its tokens
    "$traces" "$text" "$work/calm/data/train.tok" "$gone" "$work/$1" >"$work/traces.out" ||
        [ $? -eq 1 ] || fail "text_traces of $1"
    sed -n '$s/.* blobs, \(.*\) traces$/\1/p' "$work/traces.out"
}
# An audit that is open when the run ends has such an object.
"$traces" --plant "$work/gone/store" audit/mix/p00.r0/5 shard/dense/p00 &&
    "$traces" --plant "$work/gone/store" audit/mix/p01.r0/5 shard/dense/p00 &&
    "$traces" --plant "$work/gone/store" audit/mix/p10.r0/5 shard/dense/p00 &&
    "$traces" --plant "$work/gone/store" audit/mix/p11.r0/5 shard/dense/p00 ||
    fail "an object of an open audit"
ask store backup "$work/saved" --job --run "$work/gone" || fail "backup"
[ "$(leaves gone)" -gt 2 ] && [ "$(leaves saved)" -gt 2 ] ||
    fail "the text is not found before it is forgotten"
passes gone "forget --purge" "$pathloom" forget "$document" --purge --run "$work/gone"
succeeds "a second backup" store backup "$work/saved" --job --force --run "$work/gone"
for folder in gone saved; do
    [ "$(leaves $folder)" -eq 0 ] || {
        cat "$work/traces.out"
        fail "$folder still has the text"
    }
done
names() { # folder; without the states of phases (store.keep_states)
    "$ledger" "$work/$1/store" | sed -n '/^object state\//d; s/^object \([^ ]*\) .*/\1/p'
}
names gone >"$work/names"
names never | cmp -s - "$work/names" || {
    names never | diff - "$work/names"
    fail "the store has objects that a run without the document does not have"
}
ask store verify base/L1.E0 --tasks --run "$work/gone" || true
says 'no longer has the text on which they were trained'

echo "3. killed"
again shot
PATHLOOM_FAILPOINT=forget.ready.before@forget:stop:1 \
    "$pathloom" forget "$document" --run "$work/shot" >"$work/shot.out" 2>&1 &
job=$!
await_in_job 600 "forget does not come to its point" "forget ended" \
    grep -q '^State:.*stopped' "/proc/$job/status"
"$pathloom" store tag lost head --run "$work/shot" >"$work/ask.out" 2>&1
[ $? -eq 75 ] || fail "a tag is written to a store that is being copied"
kill -9 "$job"
wait "$job"
kills=0
for point in forget.ready.before forget.ready.after forget.exchange.before \
    data.blank.before forget.exchange.after; do
    dies_at $point@forget shot "$pathloom" forget "$document" --run "$work/shot"
    if [ $point = forget.ready.after ]; then
        "$pathloom" store tag lost head --run "$work/shot" >"$work/ask.out" 2>&1
        [ $? -eq 75 ] || fail "a tag is written to a store that will be replaced"
        says 'would be lost'
    fi
done
while [ $kills -lt 7 ]; do
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:40 \
        "$pathloom" forget "$document" --run "$work/shot" >"$work/shot.out" 2>&1 &
    job=$!
    random 40
    sleep "0.$((40 + value))"
    kill -9 "$job" 2>/dev/null && kills=$((kills + 1))
    wait "$job" && break
    nobody_is_left shot || fail "processes are left behind"
done
job=''
passes shot "forget after $kills kills" "$pathloom" forget "$document" --purge --run "$work/shot"
[ ! -e "$work/shot/forgotten" ] || fail "the old store is still there"
same never shot
proven shot "base model, router and tokenizer were"

echo "   with two homes, and a document that the corpus no longer has"
again divided
"$pathloom" homes set 2 --run "$work/divided" >"$work/divided.out" 2>&1 || fail "homes set"
cp -p "$document" "$work/before" # also its time, which the data of runs is bound to
echo "more" >>"$document"
passes divided "forget after homes set" "$pathloom" forget "$gone" --run "$work/divided"
cp -p "$work/before" "$document"
same never divided

echo "4. forget --from start, and a run that keeps no states"
again start
passes start "forget --from start" "$pathloom" forget "$document" --from start --run "$work/start"
sed 's/paths/start/' "$work/list" >"$work/list.start"
(forget_job never-start --set data.forget="$work/list.start") >"$work/never.out" 2>&1 ||
    fail "training of the run that never had the document"
same never-start start
proven start "the tokenizer was"
"$pathloom" forget "$document" --from start --run "$work/one" >"$work/one.out" 2>&1 ||
    fail "forget --from start after a forget of the paths"
same never-start one
# A run that keeps no earlier states of paths must also repeat earlier phases.
take_data calm bare
(forget_job bare --set store.homes=2 --set store.keep_updates=true \
    --set store.keep_momentum=true) >"$work/bare.out" 2>&1 || fail "a run that keeps little"
"$pathloom" forget "$document" --run "$work/bare" >"$work/bare.out" 2>&1 || fail "forget"
grep -q '^mix .* more are repeated, because the states' "$work/bare.out" ||
    fail "forget does not say which phases are repeated"
same never bare
proven bare "base model, router and tokenizer were"

echo "5. a held-out document, which chooses best versions"
held_job() { # folder, options
    # shellcheck disable=SC2086 # the list is several words
    forget_job "$@" $kept --set train.holdout=0.3
}
take_data calm held
(held_job held) >"$work/held.out" 2>&1 || fail "a run that holds out"
read_facts held
grep 'best-' "$work/held.facts" >"$work/best"
document='' tries=0
for file in "$work"/corpus/base/* "$work"/corpus/docs/*; do
    ask forget "$file" --dry-run --run "$work/held" || continue
    grep -q '^hold-out .* choose their best version again' "$work/ask.out" || continue
    # A document may have no part in the choice, if only some held-out targets are scored.
    tries=$((tries + 1))
    [ $tries -le 12 ] || break
    rm -rf "$work/held-one"
    cp -r "$work/held" "$work/held-one"
    "$pathloom" forget "$file" --run "$work/held-one" >"$work/held-one.out" 2>&1 ||
        fail "forget a document that is held out"
    read_facts held-one
    grep 'best-' "$work/held-one.facts" | cmp -s "$work/best" - && continue
    document=$file
    break
done
[ -n "$document" ] || fail "of $tries held-out documents none changes the best versions"
(held_job held-never --set data.forget="$work/held-one/data/forgotten") \
    >"$work/never.out" 2>&1 || fail "training of the run that never had the document"
same held-never held-one

echo "6. after a module was dropped, with workers of two threads"
drop_job() { # folder, options
    # shellcheck disable=SC2086 # the list is several words
    forget_job "$@" $kept --set topology.graft=2:drop:L2.E1 --set workers.threads=2
}
take_data calm drop
(drop_job drop) >"$work/drop.out" 2>&1 || fail "a run that drops a module"
document=''
for file in "$work"/corpus/base/* "$work"/corpus/docs/*; do
    ask forget "$file" --dry-run --run "$work/drop" || continue
    grep -q '^mix .* phases are kept' "$work/ask.out" && continue
    document=$file
    break
done
[ -n "$document" ] || fail "no document was drawn before the module was dropped"
says '^mix~1 .* from its beginning'
cp -r "$work/drop" "$work/drop-one"
passes drop-one "forget after a drop" "$pathloom" forget "$document" --run "$work/drop-one"
(drop_job drop-never --set data.forget="$work/drop-one/data/forgotten") \
    >"$work/never.out" 2>&1 || fail "training of the run that never had the document"
same drop-never drop-one
proven drop-one "base model, router and tokenizer were"

echo "7. runs that cannot forget are refused"
refused 66 'neither a file of a training document' \
    "$pathloom" forget 0123456789abcdef --run "$work/calm"
refused 64 'which an earlier word names' "$pathloom" forget "$document" "$document" --run "$work/calm"
refused 64 'needs a document' "$pathloom" forget --run "$work/calm"
refused 65 'would have no document left' \
    "$pathloom" forget "$work/corpus" --run "$work/calm"
refused 66 'there is no run' "$pathloom" forget "$document" --run "$work/nowhere"
take_data calm quorum
(forget_job quorum --set outer.quorum=0.5 --set outer.deadline_s=0.1 --set train.phases=2) >"$work/quorum.out" 2>&1 ||
    fail "a run with a quorum"
refused 69 'outer.quorum the result of mix depended on timing' \
    "$pathloom" forget "$document" --run "$work/quorum"
# A run that began with an imported model would need this model again.
passes ask "export" "$pathloom" export --run "$work/calm" --path p00 --out "$work/model"
# shellcheck disable=SC2086 # the list is several words
(forget_job import $kept --set model.import="$work/model" \
    --set data.tokenizer="$work/calm/data/tokenizer.model") >"$work/import.out" 2>&1 ||
    fail "a run with an imported model"
ask forget "$document" --run "$work/import" || fail "forget after an import"
refused 69 'would begin again with .*model.import' \
    "$pathloom" forget "$document" --from start --run "$work/import"
# The run was trained on a device that this machine no longer has.
again other
sed -i 's/^\( *backend:\) auto/\1 ref/' "$work/other/run.yaml"
refused 69 'was trained on `cpu.*this machine has `ref' \
    "$pathloom" forget "$work/corpus/docs" --run "$work/other"
# The run was trained on devices of two kinds. The launcher's workers stop in their 12th
# step, long before the end, until the second kind has got a task.
PATHLOOM_FAILPOINT=worker.step.before@worker:stop:12 forget_job two --set train.phases=8 \
    --set eval.baselines=none --set workers.ttl_ms=60000 --set data.forget="$work/list" \
    >"$work/two.out" 2>&1 &
job=$!
training_begins two
"$pathloom" worker --run "$work/two" --backend ref --name second >"$work/second.out" 2>&1 &
second=$!
await 60 "the second worker got no task" \
    grep 'lease.granted task=mix.* worker=second ' "$work/two/log/hub.log"
let_go worker
job_ends "a run on two devices"
wait "$second"
refused 69 'on devices of two kinds' \
    "$pathloom" forget "$work/corpus/docs" --run "$work/two"
ask check --run "$work/two" || fail "check of two"
says '^forgotten .*devices of two kinds trained'
take_data calm slow
# shellcheck disable=SC2086 # $patient is a list of words
PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:2 forget_job slow $patient >"$work/slow.out" 2>&1 &
job=$!
training_begins slow
refused 75 'a job is training' "$pathloom" forget "$document" --run "$work/slow"
kill -9 "$job"
wait "$job" 2>/dev/null
job=''
refused 75 'has not ended' "$pathloom" forget "$document" --run "$work/slow"

echo "the runs are equal after $kills kills; $cost phases were trained again"
rm -rf "$work"
