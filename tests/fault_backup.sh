#!/bin/sh
# A worker that stands still, or is slow, beside quick ones: backups (fleet.backup).
#
# usage: fault_backup.sh PATHLOOM LEDGER WORKFOLDER [short]
#
# 1. undisturbed, without backups
# 2. one worker is stopped (SIGSTOP) in the middle of a task, whose lease would live for
#    100 s: the others must end the arm meanwhile, with the same hashes; then it goes on
#    and must be told that nobody waits for it
# 3. not with `short`: a worker at a quarter of its speed, without backups and with them
set -u
pathloom=$1
ledger=$2
work=$3
mode=${4:-long}
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

run_job() { # folder, options; in a subshell or the background
    tiny_job "$@" --set train.tau=150 --set train.phases=5 --set model.width=48 \
        --set train.batch=4 --set workers.ttl_ms=100000
}

value_of() { # key of the status
    "$pathloom" status --run "$work/$out" --json 2>/dev/null | tr ',{' '\n\n' |
        sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" | head -n 1
}

seconds() { date +%s.%N; }
since() { # seconds
    echo "$(seconds) $1" | awk '{ printf "%.1f", $1 - $2 }'
}

make_corpus
echo "1. undisturbed"
(run_job calm --set fleet.backup=off) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "its record"

echo "2. a worker is stopped"
take_data calm stop
out=stop
run_job stop >"$work/stop.out" 2>&1 &
job=$!
log=$work/stop/log/hub.log
tries=600
until grep -q 'lease.granted task=mix.* phase=1 ' "$log" 2>/dev/null; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "no task of the second phase begins"
    sleep 0.1
done
name=$(sed -n 's/.*lease.granted task=mix.* phase=1 worker=\([^ ]*\) .*/\1/p' "$log" |
    head -n 1)
stopped=$(pgrep -P "$job" -f "worker .*--name $name( |\$)" | head -n 1)
[ -n "$stopped" ] || fail "no process of $name"
kill -STOP "$stopped" || fail "$name cannot be stopped"
start=$(seconds)
tries=600
until "$pathloom" status --run "$work/stop" --json 2>/dev/null | tr '{' '\n' |
    grep -q '"arm":"mix".*"finished":true'; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "the arm does not end beside a worker that stands still"
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
done
took=$(since "$start")
kill -CONT "$stopped"
wait "$job" || fail "the run beside a worker that stands still"
job=
grep -q 'backup.granted .*slow='"$name" "$log" || fail "no backup of a task of $name"
grep -q 'backup.settled .*stopped='"$name" "$log" || fail "$name was not told to stop"
same_facts calm stop || fail "versions differ from those of the undisturbed run"
fsck_is_clean stop || fail "fsck"
echo "the others ended in $took s beside $name; a lease would have lived for 100 s"

slow_job() { # folder, options; one worker runs a quarter of the time
    take_data calm "$1"
    out=$1
    start=$(seconds)
    run_job "$@" --workers 4 --set train.tau=600 >"$work/$1.out" 2>&1 &
    job=$!
    until stopped=$(pgrep -P "$job" -f "worker .*--name worker-1( |\$)" | head -n 1) &&
        [ -n "$stopped" ]; do
        kill -0 "$job" 2>/dev/null || fail "the run $1"
        sleep 0.05
    done
    while kill -0 "$job" 2>/dev/null; do
        kill -STOP "$stopped" 2>/dev/null
        sleep 0.15
        kill -CONT "$stopped" 2>/dev/null
        sleep 0.05
    done
    wait "$job" || fail "the run $1"
    job=
    took=$(since "$start")
}

if [ "$mode" != short ]; then
    echo "3. a worker at a quarter of its speed"
    slow_job without --set fleet.backup=off
    without=$took
    facts without || fail "its record"
    slow_job with
    same_facts without with || fail "versions with backups differ"
    echo "without backups $without s, with them $took s ($(grep -c backup.granted \
        "$work/with/log/hub.log") granted)"
fi
rm -rf "$work"
