#!/bin/sh
# Kills processes of jobs at random times until a given number of kills is reached. No
# data may be lost.
#
# usage: chaos.sh [--kills N] [--seed S] [--minutes M] [--gap MS] [--per-run K] [--phases P]
#                 [--pathloom FILE] [--ledger FILE] [--work FOLDER]
#
# A tiny training (chaos_job.sh) is run once undisturbed. Then it is run again and
# again. Meanwhile, at random times, workers, hub, home and the launcher are killed
# (kill -9), or stopped for 0.5 to 5 times the duration of a lease and continued, or
# told to end (SIGTERM). If the launcher has ended, it is started again. After each run:
#
#   every version has the hash and the contributions that it has in the undisturbed run
#   every path has the state and the number of samples of the undisturbed run
#   every commit that was acknowledged when a home was killed is in the log, unchanged
#   `pathloom store fsck` finds nothing wrong, and no process is left over
#
# --kills is a number of SIGKILLs. --gap is the mean time between two faults (250 ms).
# With a gap of some seconds (and --phases 600), faults do not overlap, so that each
# measured recovery belongs to one fault. The same seed gives the same faults,
# but what a process does at a fault depends on timing.
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
kills=500 seed=$(date +%s) minutes=60 gap=250 per_run=60 phases=24
build=build/release
pathloom="" ledger="" work=""
while [ $# -gt 1 ]; do
    case $1 in
    --kills) kills=$2 ;;
    --seed) seed=$2 ;;
    --minutes) minutes=$2 ;;
    --gap) gap=$2 ;;
    --phases) phases=$2 ;;
    --per-run) per_run=$2 ;;
    --pathloom) pathloom=$2 ;;
    --ledger) ledger=$2 ;;
    --work) work=$2 ;;
    *) break ;;
    esac
    shift 2
done
[ $# -eq 0 ] || {
    echo "chaos: unknown option $1" >&2
    exit 64
}
pathloom=${pathloom:-$build/pathloom}
ledger=${ledger:-$build/tests/chaos_ledger}
work=${work:-$build/chaos}
. tests/fault/chaos_job.sh
own_folder "$work"
first_seed=$seed
ttl=500
started=$(date +%s)
job=""
n_kills=0 n_runs=0 n_again=0 n_acks=0 n_commits=0
: >"$work/faults"

fail() {
    echo "VIOLATION: $1"
    for log in "$work/shot.out" "$work"/shot/log/*.log; do
        echo "--- $log"
        tail -n 12 "$log"
    done
    echo "again: sh tests/chaos.sh --kills $kills --seed $first_seed --gap $gap" \
        "(what is left: $work)"
    [ -z "$job" ] || kill -9 "$job" 2>/dev/null
    exit 1
}

job_of() { tiny_job "$1" --set train.phases="$phases" --set train.tau=6; }

# ---- faults ----
note() { # what, role, name
    stage=data
    [ ! -e "$work/shot/store" ] || stage=base
    ! grep -qs 'arm.added arm=mix' "$work/shot/log/hub.log" || stage=mix
    echo "$(now) $1 $2 $3 $stage $n_runs" >>"$work/faults"
}

name_of() { # pid, role
    case $2 in
    worker) tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | sed -n '/^--index$/{n;s/^/worker-/p;}' ;;
    *) echo "$2" ;;
    esac
}

# Notes the newest commit that the home had acknowledged before the kill. The store's
# mark shows it.
note_acks() { "$ledger" --mark "$work/shot/store" >>"$work/acks" 2>/dev/null; }

shoot() { # signal, role
    if [ "$2" = launcher ]; then
        set -- "$1" "$2" "$job"
    else
        # shellcheck disable=SC2046 # the list is several process ids
        set -- "$1" "$2" $(members "$job" "$2")
        [ $# -gt 2 ] || return 0
        signal=$1 role=$2
        shift 2
        pick "$@"
        set -- "$signal" "$role" "$choice"
    fi
    name=$(name_of "$3" "$2")
    [ -n "$name" ] || return 0
    kill "-$1" "$3" 2>/dev/null || return 0
    note "$1" "$2" "$name"
    case $1.$2 in
    KILL.home | KILL.launcher) note_acks ;;
    STOP.*)
        random 46
        ms=$((ttl * (5 + value) / 10))
        (
            sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
            kill -CONT "$3" 2>/dev/null
        ) &
        ;;
    esac
    [ "$1" != KILL ] || n_kills=$((n_kills + 1))
}

fault() {
    random 100
    if [ "$value" -lt 46 ]; then
        shoot KILL worker
    elif [ "$value" -lt 58 ]; then
        shoot KILL hub
    elif [ "$value" -lt 73 ]; then
        shoot KILL home
    elif [ "$value" -lt 77 ]; then
        shoot KILL launcher
    elif [ "$value" -lt 84 ]; then
        shoot STOP worker
    elif [ "$value" -lt 87 ]; then
        shoot STOP hub
    elif [ "$value" -lt 90 ]; then
        shoot STOP home
    elif [ "$value" -lt 96 ]; then
        shoot TERM worker
    elif [ "$value" -lt 97 ]; then
        shoot TERM hub
    elif [ "$value" -lt 98 ]; then
        shoot TERM home
    else
        shoot TERM launcher
    fi
}

rest() {
    random "$gap"
    ms=$((gap / 2 + value))
    sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
}

# ---- a run with faults ----
start() {
    (job_of shot) >>"$work/shot.out" 2>&1 &
    job=$!
}

# Runs the launcher until it ends with exit code 0. After it was told to end or was
# killed, it is started again. Every other exit code is a failure.
run_under_fire() {
    end_at=$((n_kills + per_run))
    [ "$end_at" -le "$kills" ] || end_at=$kills
    start
    while :; do
        while kill -0 "$job" 2>/dev/null; do
            rest
            if [ "$n_kills" -lt "$end_at" ]; then fault; fi
        done
        code=0
        wait "$job" || code=$?
        case $code in
        0) return 0 ;;
        130 | 137 | 143) n_again=$((n_again + 1)) ;;
        *) fail "the launcher ended with $code" ;;
        esac
        [ $(($(date +%s) - started)) -lt $((60 * minutes + 120)) ] || fail "the runs do not end in time"
        start
    done
}

check_acks() {
    "$ledger" --log "$work/shot/store" >"$work/shot.log" || fail "the log is unreadable"
    LC_ALL=C sort -u "$work/acks" >"$work/acks.sorted"
    LC_ALL=C sort -u "$work/shot.log" >"$work/log.sorted"
    lost=$(LC_ALL=C comm -23 "$work/acks.sorted" "$work/log.sorted")
    [ -z "$lost" ] || fail "acknowledged commits are not in the log: $lost"
    n_acks=$((n_acks + $(wc -l <"$work/acks.sorted")))
    n_commits=$((n_commits + $(wc -l <"$work/shot.log")))
}

check_run() {
    same_facts calm shot || fail "the store differs from that of the undisturbed run"
    check_acks
    fsck_is_clean shot || fail "fsck: $(head -n 3 "$work/shot.fsck")"
    nobody_is_left shot || fail "processes are left: $(left_behind shot)"
    ! grep -hE 'ERR_(INTERNAL|DAMAGED)|Assertion|Sanitizer' "$work"/shot/log/*.log ||
        fail "a process found a bug in itself"
}

# ---- how long a recovery takes ----
# Measures recoveries by the hub's log. The recovery of a worker ends when its task is
# granted again. Also measures a pause after the faults of all processes: from the last
# fault until the next task is granted or finished.
recovery() {
    awk -v run="$n_runs" '
        function ms(t) {
            t = substr(t, 12)
            return (substr(t, 1, 2) * 60 + substr(t, 4, 2)) * 60000 + substr(t, 7, 6) * 1000
        }
        function value(key,    i) {
            for (i = 4; i <= NF; i++)
                if (index($i, key "=") == 1) return substr($i, length(key) + 2)
        }
        FNR == NR {
            if ($6 == run) {
                n++; at[n] = ms($1); what[n] = $2; role[n] = $3; name[n] = $4
            }
            next
        }
        $4 != "lease.granted" && $4 != "task.done" { next }
        {
            t = ms($1); task = value("task") " " value("phase"); who = value("worker")
            for (; last < n && at[last + 1] < t; last++) new = 1
            if (new) pause[last] = t - at[last]
            new = 0
            for (i = 1; i <= n; i++) {
                if (t <= at[i] || done[i]) continue
                if (!(i in holds)) holds[i] = held[name[i]]
                if (role[i] != "worker") done[i] = -1
                else if (holds[i] == "" || index(finished, "|" holds[i] "|")) done[i] = -1
                else if ($4 == "lease.granted" && task == holds[i]) done[i] = t - at[i]
                else if ($4 == "task.done" && task == holds[i]) done[i] = -1
            }
            if ($4 == "lease.granted") held[who] = task
            else if (held[who] == task) held[who] = ""
            if ($4 == "task.done") finished = finished "|" task "|"
        }
        END {
            for (i = 1; i <= n; i++) if (done[i] > 0) print what[i], role[i], done[i]
            for (i in pause) print "PAUSE", what[i] role[i], pause[i]
        }
    ' "$work/faults" "$work/shot/log/hub.log" >>"$work/recovery"
}

percentiles() { # what, role, sentence
    grep "^$1 $2 " "$work/recovery" | cut -d' ' -f3 | sort -n | awk -v what="$3" '
        { v[NR] = $1 }
        END { if (NR) printf "%-44s n %4d  p50 %5d  p99 %5d  max %5d ms\n", what, NR,
                  v[int((NR + 1) / 2)], v[int(NR * 0.99 + 0.999)], v[NR] }'
}

count() { grep -cE "$1" "$work/faults"; }

report() {
    echo "faults   $(wc -l <"$work/faults") in $n_runs runs:" \
        "$n_kills SIGKILL ($(count ' KILL worker') workers, $(count ' KILL hub') hubs," \
        "$(count ' KILL home') homes, $(count ' KILL launcher') launchers)," \
        "$(count ' STOP ') SIGSTOP, $(count ' TERM ') SIGTERM"
    echo "         while preparing data $(count ' data [0-9]*$'), in the base model" \
        "$(count ' base [0-9]*$'), in the mixture $(count ' mix [0-9]*$');" \
        "the command was given again $n_again times"
    echo "checked  $n_acks acknowledged commits at the death of a home, all there;" \
        "$n_commits commits; each run's facts ($(wc -l <"$work/calm.facts")) equal"
    percentiles KILL worker "worker killed, its task granted again"
    percentiles STOP worker "worker stopped, its task granted again"
    percentiles PAUSE KILLhub "hub killed last, next grant or finished task"
    percentiles PAUSE KILLhome "home killed last, next grant or finished task"
    percentiles PAUSE '[A-Za-z]*' "any fault last, next grant or finished task"
}

echo "seed $first_seed"
make_corpus --whole base modules docs
(job_of calm) >"$work/shot.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the undisturbed run has too little in its store"
fsck_is_clean calm || fail "fsck of the undisturbed run"
: >"$work/recovery"
while [ "$n_kills" -lt "$kills" ] && [ $(($(date +%s) - started)) -lt $((60 * minutes)) ]; do
    n_runs=$((n_runs + 1))
    rm -rf "$work/shot" "$work/shot.out"
    : >"$work/acks"
    random 4
    [ "$value" -eq 0 ] || take_data calm shot # else faults also hit the preparation of the data
    run_under_fire
    check_run
    recovery
done
report
echo "0 violations after $(($(date +%s) - started)) s"
if [ "$n_kills" -lt "$kills" ]; then
    echo "only $n_kills kills in $minutes minutes"
    exit 1
fi
rm -rf "$work"
