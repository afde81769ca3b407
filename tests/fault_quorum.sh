#!/bin/sh
# Rounds that a quorum merges (outer.quorum), beside a worker that stands still.
#
# usage: fault_quorum.sh PATHLOOM WORKFOLDER [LATE_WEIGHT]
#
# One worker is stopped (SIGSTOP) in the middle of a phase, under a lease of 100 s. The
# paths of the others must come to their end meanwhile. Then it goes on, and the run
# ends: no sample is lost or counted twice, every version is recomputed from its record.
set -u
pathloom=$1
work=$2
weight=${3:-0}
[ "${work#/}" != "$work" ] || work=$PWD/$work
rm -rf "$work"
mkdir -p "$work"
. tests/chaos_job.sh
stopped=
job=

fail() {
    echo "FAILED: $1"
    tail -n 15 "$work"/*.out
    [ -z "$stopped" ] || kill -CONT "$stopped" 2>/dev/null
    [ -z "$job" ] || kill "$job" 2>/dev/null
    exit 1
}

# How many paths of the mixture have finished so many phases.
finished() { # phases
    "$pathloom" status --run "$work/run" --json 2>/dev/null | tr '{' '\n' |
        awk -F '"phase":' -v least="$1" '
            /"arm":"/ { mix = index($0, "\"arm\":\"mix\"") }
            mix && /"path":"/ && $2 + 0 >= least { n++ }
            END { print n + 0 }'
}

make_corpus
tiny_job run --workers 4 --set train.tau=100 --set outer.quorum=0.5 \
    --set outer.deadline_s=0.1 --set "outer.late_weight=$weight" \
    --set fleet.backup=off --set workers.ttl_ms=100000 --set store.keep_updates=true \
    --set store.keep_momentum=true >"$work/run.out" 2>&1 &
job=$!
log=$work/run/log/hub.log
tries=600
until grep -q 'lease.granted task=mix.* phase=1 ' "$log" 2>/dev/null; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "no task of the second phase begins"
    sleep 0.05
done
name=$(sed -n 's/.*lease.granted task=mix.* phase=1 worker=\([^ ]*\) .*/\1/p' "$log" |
    head -n 1)
stopped=$(pgrep -P "$job" -f "worker .*--name $name( |\$)" | head -n 1)
[ -n "$stopped" ] || fail "no process of $name"
kill -STOP "$stopped" || fail "$name cannot be stopped"
sleep 1 # what it had asked for is still granted
held=$(sed -n 's/.*lease.granted task=\(mix[^ ]*\) .* worker=\([^ ]*\) .*/\1 \2/p' "$log" |
    awk -v name="$name" '{ last[$1] = $2 }
                         END { for (p in last) n += last[p] == name; print n + 0 }')
[ "$held" -gt 0 ] && [ "$held" -lt 4 ] || fail "$name holds $held paths"
tries=600
until [ "$(finished 6)" -ge $((4 - held)) ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "only $(finished 6) paths end beside a worker that stands still"
    kill -0 "$job" 2>/dev/null || fail "the run is over"
    sleep 0.1
done
[ "$(finished 6)" -eq $((4 - held)) ] || fail "nobody stood still"
kill -CONT "$stopped"
wait "$job" || fail "the run"
job=
"$pathloom" data coverage mix --run "$work/run" >"$work/coverage.out" 2>&1 ||
    fail "data coverage"
grep -q 'more were left out by quorums' "$work/coverage.out" || [ "$weight" != 0 ] ||
    fail "data coverage says nothing of what was left out"
grep -q 'update.dropped' "$work/run/log/$name.log" || [ "$weight" != 0 ] ||
    fail "$name is not told that its updates were dropped"
for module in embed L1.E0 L1.E1 L2.E0 L2.E1 head; do
    "$pathloom" store verify "$module" --history --run "$work/run" \
        >>"$work/verify.out" 2>&1 || fail "store verify $module"
done
fsck_is_clean run || fail "fsck"
echo "late_weight $weight: $(grep -c update.dropped "$work/run/log/$name.log") updates of" \
    "$name were dropped; $(tail -n 1 "$work/coverage.out"); $(wc -l <"$work/verify.out") lines of verify"
rm -rf "$work"
