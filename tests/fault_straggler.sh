#!/bin/sh
# noloco with a deadline, beside a worker that stands still.
#
# usage: fault_straggler.sh PATHLOOM HOLDER_MEAN WORKFOLDER
#
# Four workers train the four paths of a 2x2 grid. One is stopped (SIGSTOP) in the middle
# of a phase, for as long as the others need; its lease does not run out. The others must
# come to the end of the arm meanwhile, for each waits at most the deadline a phase for
# the one that does not come. Then it goes on, and the run ends: every update counted,
# the home the mean of its holders, and the record says who was split.
set -u
pathloom=$1
holder_mean=$2
work=$3
phases=6
[ "${work#/}" != "$work" ] || work=$PWD/$work
rm -rf "$work"
mkdir -p "$work/corpus"
cp base/*.c outer/*.c "$work/corpus/"

fail() {
    echo "FAILED: $1"
    tail -n 15 "$work/out"
    [ -z "${stopped:-}" ] || kill -CONT "$stopped" 2>/dev/null
    kill "$job" 2>/dev/null
    exit 1
}

"$pathloom" train --corpus "$work/corpus" --out "$work/run" --workers 4 \
    --set data.vocab=512 --set data.valid_share=0.1 --set model.width=48 \
    --set model.heads=2 --set model.blocks=2 --set model.context=64 \
    --set train.batch=4 --set train.tau=150 --set train.phases=$phases \
    --set train.base_steps=15 --set router.prefix=16 --set eval.baselines=none \
    --set eval.max_tokens=500 --set eval.sample_tokens=0 \
    --set topology.levels=2x2 --set workers.ttl_ms=100000 \
    --set outer.method=noloco --set outer.deadline_s=0.3 >"$work/out" 2>&1 &
job=$!

# Who has which task stands in the hub's log.
log=$work/run/log/hub.log

# How many paths of the mixture have finished so many phases, as the job tells.
finished() { # phases
    "$pathloom" status --run "$work/run" --json 2>/dev/null | tr '{' '\n' |
        awk -F '"phase":' -v least="$1" '
            /"arm":"/ { mix = index($0, "\"arm\":\"mix\"") }
            mix && /"path":"/ && $2 + 0 >= least { n++ }
            END { print n + 0 }'
}

wait_for() { # seconds, paths, phases
    tries=$(($1 * 20))
    while [ "$(finished "$3")" -lt "$2" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "only $(finished "$3") of $2 paths have $3 phases"
        kill -0 "$job" 2>/dev/null || fail "the run is over"
        sleep 0.05
    done
}

wait_for 120 2 1
# Whoever got a task last is at it. It is stopped soon after it began, when what it did
# before has arrived: one that stops between offering an update and sending it is waited
# for until its lease runs out.
arrived() {
    last=$(grep 'lease.granted task=mix' "$log" | tail -n 1)
    name=$(echo "$last" | sed 's/.* worker=\([^ ]*\) .*/\1/')
    task=$(echo "$last" | sed 's/.* task=mix.\([^ ]*\) .*/\1/')
    phase=$(echo "$last" | sed 's/.* phase=\([0-9]*\) .*/\1/')
    "$pathloom" status --run "$work/run" --json 2>/dev/null |
        grep -q "\"path\":\"$task\",\"phase\":${phase}[,}]"
}
# The paths that it holds: its lease is the last of each.
held_by() {
    sed -n 's/.*lease.granted task=\(mix[^ ]*\) .* worker=\([^ ]*\) .*/\1 \2/p' "$log" |
        awk -v name="$1" '{ last[$1] = $2 }
                          END { for (p in last) n += last[p] == name; print n + 0 }'
}

# Stops it, and looks after a second, for what it had asked for is still granted. On a
# busy machine it may have ended its task before the stop: then another is waited for.
tries=200 held=0
while [ "$held" -eq 0 ]; do
    until arrived; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "no task begins when the one before has arrived"
        sleep 0.02
    done
    stopped=$(pgrep -P "$job" -f "worker .*--name $name( |\$)" | head -n 1)
    [ -n "$stopped" ] || fail "no process of $name"
    kill -STOP "$stopped" || fail "$name cannot be stopped"
    start=$(date +%s)
    sleep 1
    held=$(held_by "$name")
    [ "$held" -gt 0 ] || kill -CONT "$stopped"
done
# Paths that it holds do not go on; all others come to their end.
[ "$held" -lt 4 ] || fail "$name holds all $held paths"
wait_for 60 $((4 - held)) $phases
took=$(($(date +%s) - start))
kill -0 "$stopped" 2>/dev/null || fail "the stopped worker is gone"
[ "$(finished $phases)" -eq $((4 - held)) ] || fail "nobody stood still"
kill -CONT "$stopped"
wait "$job" || fail "the run"
mean=$("$holder_mean" "$work/run/store" mix) ||
    fail "the home is not the mean of its holders: $mean"
[ "${mean% 0 split}" = "$mean" ] || fail "no pair was split"
grep -q "pair.split " "$work/run/log/home.log" || fail "the home's log does not say so"
echo "the others ended in $took s beside $name, which held $held paths; $mean"
rm -rf "$work"
