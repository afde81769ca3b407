#!/bin/sh
# Tests train.freeze: modules keep their version from the beginning of the training, or
# from a later phase on. If a run is killed during the training and at the beginning of
# the second chapter, it must end with the same bytes as an undisturbed run. A finished
# run that is continued may freeze more modules.
#
# usage: freeze.sh PATHLOOM CHAOS_LEDGER WORKFOLDER [SEED]
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
run=$work/calm

freeze_job() { # folder, options; in a subshell or in the background
    tiny_job "$@" --set train.freeze=embed,3:L1.E0 --set codec.name=i8 \
        --set train.weight_decay=0.1
}

newest() { # module: prints the number of its newest version
    ask store log "$1" --run "$run" --json || fail "log of $1"
    sed -n 's/.*"module": *"'"${1%%/*}"'\/.*"version": *\([0-9]*\).*/\1/p' "$work/ask.out" |
        sort -n | tail -n 1
}

make_corpus base modules docs

echo "1. undisturbed"
(freeze_job calm) >"$work/calm.out" 2>&1 || {
    tail -n 20 "$work/calm.out"
    fail "the undisturbed run"
}
grep -q '^freeze   mix: 4 of 12 modules keep version 0: embed.E0' "$work/calm.out" ||
    fail "the plan does not say what is frozen"
grep -q '^freeze   mix~1: 5 of 12 modules keep version 0' "$work/calm.out" ||
    fail "the plan does not say what is frozen later"
facts calm || fail "the store of the undisturbed run cannot be read, or has too few versions"
for module in mix/embed.E0:0 mix/embed.E3:0 mix/L1.E0:3 mix/head.E0:3 mix~1/embed.E0:0 \
    mix~1/L1.E0:0 mix~1/L1.E1:3 mix~1/L2.E0:3; do
    [ "$(newest "${module%:*}")" = "${module#*:}" ] ||
        fail "${module%:*} has version $(newest "${module%:*}")"
done
[ -n "$(hash_of mix/embed.E0@0)" ] &&
    [ "$(hash_of mix/embed.E0@0)" = "$(hash_of mix~1/embed.E0@0)" ] ||
    fail "the frozen embedding changed"
[ "$(hash_of mix/L1.E0@3)" = "$(hash_of mix~1/L1.E0@0)" ] || fail "mix~1 does not begin with the last version of mix/L1.E0"
[ "$(hash_of mix~1/L1.E1@3)" != "$(hash_of mix~1/L1.E1@0)" ] || fail "mix~1/L1.E1 was not trained"
ask store fsck --run "$run" || fail "fsck"
ask data coverage --run "$run" || fail "coverage"
ask store tag here 2 --run "$run" || fail "a tag of a phase"
ask eval --run "$run" --at here || fail "eval of the tag"
ask eval --run "$run" --json || fail "eval"
says '"finished": *true'
succeeds "the tasks of mix~1/L2.E0@2 give a different hash" \
    store verify mix~1/L2.E0@2 --tasks --run "$run"

echo "2. killed"
kills=0 again=0
while :; do
    again=$((again + 1))
    [ "$again" -lt 30 ] || fail "the job does not end after 29 starts"
    point=worker.step.before@worker:sleep:15
    case $again in # kills the launcher while the second chapter begins
    1) point=chapter.modules.before@train:kill:1 ;;
    2) point=chapter.arm.before@train:kill:1 ;;
    esac
    PATHLOOM_FAILPOINT=$point freeze_job shot >"$work/shot.out" 2>&1 &
    job=$!
    while [ "$again" -gt 2 ] && [ "$kills" -lt 6 ] && kill -0 "$job" 2>/dev/null; do
        random 30
        sleep "0.$((20 + value))"
        kill_one_of "$job" worker worker hub home launcher || continue
        kills=$((kills + 1))
        [ "$role" != launcher ] || break
    done
    code=0
    wait "$job" || code=$?
    [ "$code" -ne 0 ] || break
    [ "$code" -eq 137 ] || fail "the job ended with $code: $(tail -n 5 "$work/shot.out")"
    nobody_is_left shot || fail "processes are left behind"
done
[ "$again" -gt 2 ] || fail "no launcher was killed while the chapter began"
same_facts calm shot || fail "the bytes differ after $kills kills"

echo "3. a finished run is lengthened and freezes more"
ask train --out "$run" --set train.phases=+2 --set train.freeze=embed,3:L1.E0,4:head &&
    fail "freezing from a phase that is over was not refused"
says 'train.freeze'
succeeds "training of two more phases" train --out "$run" --set train.phases=+2 \
    --set train.freeze=embed,3:L1.E0,6:none,6:head
says '^more     mix~2 continues mix~1 after 0 of its 3 phases: 5 phases on the same shards'
[ "$(newest mix~2/head.E0)" = 0 ] || fail "the frozen head was trained"
[ "$(newest mix~2/embed.E0)" = 5 ] || fail "the embedding is still frozen"
[ "$(hash_of mix~2/head.E0@0)" = "$(hash_of mix~1/head.E0@3)" ] || fail "mix~2 does not freeze the last head of mix~1"
ask store fsck --run "$run" || fail "fsck of three chapters"

ask store rollback mix~2 --to 1 --run "$run" || fail "a rollback to $(cat "$work/ask.out")"
says 'mix~2/embed.E0@6 is version 1 again'
[ "$(newest mix~2/head.E0)" = 0 ] || fail "a rollback made a version of a frozen module"
ask store gc --run "$run" || fail "gc"
ask store fsck --run "$run" || fail "fsck after a rollback"
ask eval --run "$run" || fail "eval after a rollback"

echo "4. impossible settings are refused"
refuse() { # pattern, options
    pattern=$1
    shift
    ask train --corpus "$work/corpus" --out "$work/none" --set model.blocks=2 "$@" &&
        fail "not refused: $*"
    says "$pattern"
}
refuse 'no module `L9`' --set train.freeze=L9
refuse 'would train nothing' --set train.freeze=embed,L1,L2,head
refuse 'cannot be used with outer.method=noloco' --set train.freeze=embed \
    --set outer.method=noloco
refuse 'must be below train.phases' --set train.freeze=7:embed --set train.phases=6
refuse 'would end the freezing of `L1`' --set train.freeze=2:L1,2:none
refuse 'give at most' --set train.freeze=3:embed,head

echo "$(grep -c '^version' "$work/calm.facts") versions equal after $((kills + 2)) kills"
rm -rf "$work"
