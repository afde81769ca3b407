#!/bin/sh
# Tests that a finished run that is lengthened (train.phases=+1) continues from the
# versions and states of the phase before its learning rate fell. The run is lengthened
# three times; the third chapter continues from the beginning of the second. A second run
# is the same, but its processes are killed while the first and the third chapter begin
# and train, and the garbage of its stores is collected in between. Both must end with the
# same bytes.
# If the third chapter has other paths, each begins as the path from which it descends.
# If a rollback has given that phase up, the run continues from its last versions.
#
# usage: lengthen.sh PATHLOOM CHAOS_LEDGER WORKFOLDER [SEED]
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
run=$work/calm

# Two homes, outer momentum, Muon, and states that are uploaded every fourth phase: the
# state that a longer run needs lies between two uploads.
long_job() { # folder, options; in a subshell or in the background
    tiny_job "$@" --set store.homes=2 --set train.optimizer=muon --set codec.name=i8 \
        --set train.state_every=4
}

more() { # folder: lengthens a run by one phase; in a subshell or in the background
    exec "$pathloom" train --out "$work/$1" --set train.phases=+1 --set workers.ttl_ms=500
}

begins_as() { # module of the chapter, version of the chapter before
    [ -n "$(hash_of "$2")" ] || fail "no $2"
    [ "$(hash_of "$1@0")" = "$(hash_of "$2")" ] || fail "$1 does not begin as $2"
}

# The report draws the loss of a phase at its end, so that the last is at 100 percent.
draws() { # folder, phases of a path in all; the ends of the drawn phases must follow
    folder=$1 all=$2
    shift 2
    passes page "the report" "$pathloom" page --run "$work/$folder" --report "$work/page.html"
    ends=$(sed -n 's/.*class="s0 line" d="\([^"]*\)".*/\1/p' "$work/page.html" | head -n 1 |
        sed 's/M/\n| /g; s/L/\n/g' |
        awk -v all="$all" '$1 == "|" { printf " |"; $1 = $2 }
            NF { printf " %.2g", ($1 - 48) / 562 * all }')
    [ "$ends" = " $*" ] || fail "the report of $folder draws$ends instead of $*"
}

make_corpus base modules docs

echo "1. undisturbed"
(long_job calm) >"$work/calm.out" 2>&1 || fail "the run"
for n in 1 2 3; do
    [ "$n" -lt 3 ] || cp -r "$run" "$work/parts"
    (more calm) >"$work/calm.out" 2>&1 || fail "it was not lengthened $n times"
    grep 'more .*continues' "$work/calm.out"
done
for module in embed.E0 L1.E1 head.E1; do
    # the rate falls in 3 of 6 phases, 3 of 7, 4 of 8 and 4 of 9
    begins_as "mix~1/$module" "mix/$module@3"
    begins_as "mix~2/$module" "mix~1/$module@1"
    begins_as "mix~3/$module" "mix~2/$module@0"
    [ "$(hash_of "mix~3/$module@5")" != "$(hash_of "mix/$module@6")" ] || fail "$module was not trained"
done
ask store log mix~3/L1.E1 --run "$run" || fail "log"
listed=$(sed -n 's,^\(mix[^ ]*\)/L1.E1\(@[0-9]*\) .*,\1\2,p' "$work/ask.out" | tr '\n' ' ')
[ "$listed" = "mix~3@5 mix~3@4 mix~3@3 mix~3@2 mix~3@1 mix~3@0 mix~2@0 mix~1@1 mix~1@0 \
mix@3 mix@2 mix@1 mix@0 " ] || fail "the log lists versions after those that were continued: $listed"
draws calm 9 '| 1 2 3 4 5 6 | 4 5 6 7 | 5 6 7 8 | 5 6 7 8 9'
objects=$("$pathloom" store ls --objects state/ --run "$run" | grep -c 'state/mix/p.*/3')
[ "$objects" -eq 4 ] || fail "$objects states of mix were kept, not 4"
succeeds "check" check --run "$run"
succeeds "the tasks of mix~2/L1.E1@2 give a different hash" \
    store verify mix~2/L1.E1@2 --tasks --run "$run"
ask store fsck --run "$run" || fail "fsck"
ask data coverage --run "$run" || fail "coverage"
facts calm || fail "the store cannot be read"

echo "2. killed"
kills=0
take_data calm shot
(long_job shot) >"$work/shot.out" 2>&1 || fail "the second run"
gather() {
    ask store gc --run "$work/shot" --delete --keep 1 --grace 0 || fail "gc"
}

# Lengthens the run. The launcher is killed at three points.
lengthen_killed() {
    dies_at chapter.modules.before@train shot "$pathloom" train --out "$work/shot" --set train.phases=+1
    for point in chapter.arm.before chapter.arm.after; do
        dies_at $point@train shot "$pathloom" train --out "$work/shot"
    done
}
gather
lengthen_killed
"$pathloom" train --out "$work/shot" >"$work/shot.out" 2>&1 || fail "the second chapter"
gather
(more shot) >"$work/shot.out" 2>&1 || fail "it was not lengthened twice"
gather
lengthen_killed
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:30 \
    "$pathloom" train --out "$work/shot" >"$work/shot.out" 2>&1 &
job=$!
while [ "$kills" -lt 10 ] && kill -0 "$job" 2>/dev/null; do
    random 30
    sleep "0.$((20 + value))"
    kill_one_of "$job" worker worker hub home && kills=$((kills + 1))
done
job_ends "the last chapter"
"$pathloom" train --out "$work/shot" >"$work/shot.out" 2>&1 || fail "a finished run starts again"
same_facts calm shot || fail "the bytes differ after $kills kills"
succeeds "check after $kills kills" check --run "$work/shot"

echo "3. the third chapter has other paths"
run=$work/parts
cp -r "$run" "$work/fewer"
"$pathloom" train --out "$run" --set train.phases=+1 --set topology.split=8:4x4 \
    >"$work/parts.out" 2>&1 || fail "it was not lengthened with a split"
begins_as mix~3/L1.E3 mix~2/L1.E1@0
succeeds "the tasks of mix~3/L1.E3@1 give a different hash" \
    store verify mix~3/L1.E3@1 --tasks --run "$run"
run=$work/fewer
"$pathloom" train --out "$run" --set train.phases=+1 --set topology.graft=8:drop:L2.E0 \
    >"$work/fewer.out" 2>&1 || fail "it was not lengthened with fewer paths"
begins_as mix~3/L1.E1 mix~2/L1.E1@0
succeeds "the tasks of mix~3/L1.E1@1 give a different hash" \
    store verify mix~3/L1.E1@1 --tasks --run "$run"

echo "4. a rollback gives the phases up that a longer run would continue"
run=$work/back
take_data calm back
PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:29,worker.step.before@worker:sleep:10 tiny_job back \
    --set train.phases=10 $patient >"$work/back.out" 2>&1 &
job=$!
modules_reach back 6
end_held_job INT
[ $? -eq 130 ] || fail "the job did not stop"
succeeds "rollback" store rollback mix --to 2 --run "$run"
"$pathloom" train --out "$run" --set workers.ttl_ms=500 >"$work/back.out" 2>&1 || fail "the rest"
(more back) >"$work/back.out" 2>&1 || fail "it was not lengthened"
begins_as mix~1/L1.E0 mix/L1.E0@10
succeeds "check after the rollback" check --run "$run"

echo "5. the report of streaming draws rounds, not the phases that end with each fragment"
take_data calm streamed
(tiny_job streamed --set outer.method=streaming --set outer.fragments=2 --set outer.overlap=1 \
    --set train.phases=3) >"$work/streamed.out" 2>&1 || fail "the run"
draws streamed 3 '| 1 2 3'
echo "the same bytes after $kills kills"
rm -rf "$work"
