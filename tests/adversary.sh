#!/bin/sh
# Tests a job that hostile workers, guests and strangers attack
# (tests/fault/adversary.c). The job must end with exit code 0 and with the versions of
# a job that nobody attacks.
#
# usage: adversary.sh [--minutes N] [--seed S] [--only ACT,ACT] [--without ACT,ACT]
#                     [--variant forge|lie|pairs|homes|again] [--build FOLDER]
#                     [--work FOLDER]
#
# The jobs are encrypted and have three honest workers: two of the launcher, and one
# that joins later with an invitation. Two programs attack the job. Each of them uses
# two workers (which return with new keys when they are refused), an invitation, and
# connections without a key. Each program does every act at least once. Before each
# variant, the same job is trained without attackers.
#
#   forge   fleet.audit=0.2; all acts except lies. Versions, contributions, states of
#           paths and their counts must be exactly those of the job without attackers.
#   lie     fleet.audit=1; one of the two programs also delivers tasks that it never
#           trained, under valid leases. Versions and states must be exactly those of
#           the job without attackers; every liar must be fenced.
#   pairs   noloco with outer.deadline_s, which the job without attackers never reaches;
#           all acts except lies. The same must hold as for forge. Runs only with 10
#           minutes or more.
#   homes   as forge, with two homes, of which each program attacks one. Runs only with
#           10 minutes or more, or if it is named.
#   again   as forge, but a third of the way a backup is made, and after two thirds the
#           run is lost, restored from it and continued; then a document is forgotten.
#           The two programs keep their keys and their old leases. Runs as homes does.
# Every variant must end with exit code 0. `store fsck` and `data coverage` must find
# nothing wrong, and no honest worker may be fenced or refused. The list of keys must
# still be readable. The peak memory of hub and home may be at most MEMORY_MB larger
# than in the job without attackers. Output and logs must be UTF-8 without control
# characters, and must have no line that an attacker wrote. With 10 minutes or more, the
# job must do at least 70 % as many tasks per second as without attackers.
set -u
minutes=2 seed=$(date +%s) only='' without='' variant='' build=build/release work_at=''
while [ $# -gt 1 ]; do
    case $1 in
    --minutes) minutes=$2 ;;
    --seed) seed=$2 ;;
    --only) only=$2 ;;
    --without) without=$2 ;;
    --variant) variant=$2 ;;
    --build) build=$2 ;;
    --work) work_at=$2 ;;
    *) break ;;
    esac
    shift 2
done
[ $# -eq 0 ] || {
    echo "adversary.sh: unknown argument $1"
    exit 64
}
cd "$(dirname "$0")/.." || exit 70
[ "${build#/}" != "$build" ] || build=$PWD/$build
pathloom=$build/pathloom ledger=$build/tests/chaos_ledger
adversary=$build/tests/adversary
first_seed=$seed MEMORY_MB=64
. tests/fault/chaos_job.sh
own_folder "${work_at:-$build/adversary}"
helpers=
# shellcheck disable=SC2154 # these variables are set where the processes are started
trap 'kill $job $helpers 2>/dev/null' EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED (--seed $first_seed): $1"
    for log in "$work"/*.out; do
        echo "--- $log"
        tail -n 12 "$log" | cat -v
    done
    exit 1
}

vile_job() { # folder, fleet.audit, settings
    out=$1 share=$2
    shift 2
    tiny_job "$out" --workers 2 --set train.batch=4 --set train.tau=40 \
        --set train.phases="$phases" --set workers.ttl_ms=1000 --set net.encrypt=on \
        --set store.staging=64000000 --set fleet.audit="$share" "$@"
}

# Prints the seconds from the start of the mixture to the end of its last task, from the
# hub's log.
mix_seconds() { # folder
    awk '/arm.added arm=mix / { first = $1 } /task.done task=mix/ { last = $1 }
        function ms(t) { split(substr(t, 12), p, /[:.Z]/)
            return ((p[1] * 60 + p[2]) * 60 + p[3]) * 1000 + p[4] }
        END { d = ms(last) - ms(first); print (d < 0 ? d + 86400000 : d) / 1000 }' \
        "$work/$1/log/hub.log"
}

# Notes how many processor seconds these processes have used so far. The largest number
# counts.
note_processor() { # folder, role, pids
    at=$work/$1.$2.seconds
    shift 2
    for pid in "$@"; do
        cat "/proc/$pid/stat" 2>/dev/null
    done | awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); n += $12 + $13 }
        END { if (NR) print n / hz }' >>"$at"
}

processor_of() { # folder, role
    sort -n "$work/$1.$2.seconds" | tail -n 1
}

peak_kb() { # folder, hub or home
    sort -n "$work/$1.$2.kb" | tail -n 1
}

# Runs commands that users run beside a job, and notes how much memory and processor
# time the servers use. A command that hangs is ended.
watch_job() { # folder
    until_s=$(($(date +%s) + patience))
    while kill -0 "$job" 2>/dev/null; do
        [ "$(date +%s)" -lt "$until_s" ] || fail "the job $1 does not end"
        for role in hub home; do
            pids=$(members "$job" "$role")
            for pid in $pids; do
                awk '/^VmHWM/ { print $2 }' "/proc/$pid/status" \
                    >>"$work/$1.$role.kb" 2>/dev/null
            done
            # shellcheck disable=SC2086 # the list is several process ids
            note_processor "$1" "$role" $pids
        done
        # shellcheck disable=SC2046 # the list is several process ids
        note_processor "$1" worker $(members "$job" worker)
        "$pathloom" status --run "$work/$1" >>"$work/$1.shown" 2>&1
        "$pathloom" status --run "$work/$1" --json >>"$work/$1.shown" 2>&1
        sleep 1
    done
}

invite() { # folder, name, options -> token
    invites=$1
    shift
    "$pathloom" key invite --run "$work/$invites" --name "$@" 2>>"$work/$invites.invite.out" |
        sed 's/.* //'
}

begin_job() { # folder, fleet.audit, settings
    [ ! -d "$work/first/data" ] || take_data first "$1"
    (vile_job "$@") >"$work/$1.out" 2>&1 &
    job=$! helpers=
    await_in_job 60 "no hub of $1" "$1 ends before it begins" \
        test -s "$work/$1/proc/hub.address"
}

join_late() { # folder
    token=$(invite "$1" late --uses 1)
    (
        until grep -qs 'lease.granted task=mix' "$work/$1/log/hub.log"; do sleep 0.2; done
        exec "$pathloom" join "$token" --name honest-late --key "$work/$1.late.key" \
            --cache "$work/$1.late.cache" --threads 1
    ) >"$work/$1.late.out" 2>&1 &
    late=$!
    helpers="$helpers $late"
}

attack() { # folder, more options of the first program
    pool=$(invite "$1" pool --uses 200) spare=$(invite "$1" spare --uses 10000)
    relay=$(invite "$1" relays --uses 2 --role relay)
    for token in "$pool" "$spare" "$relay"; do
        [ -n "$token" ] || fail "no invitation"
    done
    out=$1 turn=
    shift
    random 1000000
    for label in a b; do
        # shellcheck disable=SC2086 # $turn is empty or one word
        "$adversary" "$pool" "$spare" --device "$device" --seed "$value" --label "$label" $turn "$@" \
            --relay "$relay" \
            ${only:+--only "$only"} ${without:+--without "$without"} \
            --names honest-late,worker-1,worker-2,worker-3,late,own-worker \
            >"$work/$out.$label.acts" 2>"$work/$out.$label.err" &
        helpers="$helpers $!" turn=--backward
        shift $#
    done
    echo "$out: two adversaries with --seed $value"
}

end_job() { # folder
    wait_for_job "$1"
    end_helpers
}

wait_for_job() { # folder
    watch_job "$1"
    wait "$job"
    code=$?
    job=
    [ "$code" -eq 0 ] || fail "the job $1 ends with code $code"
}

end_helpers() {
    [ -z "$helpers" ] || {
        # shellcheck disable=SC2086 # the list is several process ids
        kill $helpers 2>/dev/null
        # shellcheck disable=SC2086
        wait $helpers 2>/dev/null
    }
    helpers=
}

# Prints versions, contributions, states of paths and their counts, without audits.
record_of() { # folder
    facts "$1" || fail "the record of $1"
    "$pathloom" store ls --run "$work/$1" --paths --json |
        sed 's/"seconds".*//' >"$work/$1.counts" || fail "the paths of $1"
    grep -v '^object audit/\|^ref ' "$work/$1.facts" | cat - "$work/$1.counts" \
        >"$work/$1.record"
}

check_text() { # folder
    for verb in "audit" "key list" "store ls" "store ls --paths" "data coverage"; do
        # shellcheck disable=SC2086 # several words
        "$pathloom" $verb --run "$work/$1" >>"$work/$1.shown" 2>&1 ||
            fail "pathloom $verb after $1: $(tail -n 1 "$work/$1.shown" | cat -v)"
    done
    for file in "$work/$1.shown" "$work/$1.out" "$work/$1"/log/*.log "$work/$1.late.out"; do
        LC_ALL=C grep -nP '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]' "$file" |
            head -n 3 | cat -v >"$work/raw"
        [ ! -s "$work/raw" ] || fail "control characters in $file: $(cat "$work/raw")"
        iconv -f UTF-8 -t UTF-16 "$file" >/dev/null 2>&1 || fail "$file is no UTF-8"
        grep -n '^forged' "$file" >"$work/raw" &&
            fail "a line of an attacker in $file: $(head -n 1 "$work/raw")"
    done
}

check_memory() { # honest folder, hostile folder
    for role in hub home; do
        calm=$(peak_kb "$1" $role) vile=$(peak_kb "$2" $role)
        echo "$2: $role needs $((vile / 1024)) MB at its peak, $((calm / 1024)) MB without attacks"
        [ $((vile - calm)) -le $((MEMORY_MB * 1024)) ] ||
            fail "$role grows by $(((vile - calm) / 1024)) MB among hostile workers"
    done
}

# Prints per act: how often it was done, the answers that refused a message, the results
# that were accepted, and how many of the accepted lies were repaired; then all answers.
check_acts() { # folder, fleet.audit
    grep -h '^lied task' "$work/$1".?.acts >"$work/lies"
    cat "$work/lies" "$work/$1".?.acts | awk -v job="$1" '
        /^lied task/ { lies[$NF]++ }
        /^act / {
            n[$2] += $3
            for (i = 4; i < NF; i += 2) {
                if (!(($2, $i) in c)) kinds[$2] = kinds[$2] " " $i
                c[$2, $i] += $(i + 1)
                if ($i ~ /^(ERR_TIMEOUT|ERR_NET)$/) continue
                if ($i ~ /^(ERR_.*|lease-lost|unknown-blob|fenced|rejected|dropped|other)$/)
                    refused[$2] += $(i + 1)
                if ($i == "ACCEPTED") accepted[$2] += $(i + 1) } }
        END { for (name in n) {
                line = sprintf("%s: %-16s %6d tries, %6d refused, %5d accepted, %4d lies",
                    job, name, n[name], refused[name], accepted[name], lies[name])
                k = split(kinds[name], kind, " ")
                line = line " ("
                for (i = 1; i <= k; i++)
                    line = line (i > 1 ? ", " : "") kind[i] " " c[name, kind[i]]
                print line ")" } }' | sort
    [ "$(cat "$work/$1".?.acts | grep -c '^acts ')" -eq 2 ] ||
        fail "a hostile program has ended early"
    grep -h '^acts ' "$work/$1".?.acts | sed "s/^/$1: /"
    grep -h '^learnt' "$work/$1".?.acts && fail "a worker learnt what it must not know"
    [ "$2" = 0 ] || ! grep -h '^act new-device .* task ' "$work/$1".?.acts ||
        fail "a kind of device that the job does not have got a task that may be audited"
    never=$(cat "$work/$1".?.acts | awk '/^act / { n[$2] += $3 }
        END { for (name in n) if (n[name] == 0) print name }')
    # A slow machine does fewer acts in the time of a job.
    [ -z "$never" ] || [ "$minutes" -lt 2 ] ||
        fail "the job $1 was too short for the acts $(echo $never)"
    [ -z "$never" ] || echo "attacks $(echo $never): not on this machine"
}

check_fenced() { # folder
    "$pathloom" audit --run "$work/$1" --json >"$work/$1.audits" || fail "the audits of $1"
    sed -n 's/.*"fenced":"\([^"]*\)".*/\1/p' "$work/$1.audits" | sort >"$work/$1.fenced"
    grep -v '^evil-' "$work/$1.fenced" && fail "an honest worker is fenced"
    grep -q 'refuses\|belongs to another\|is in the list with' "$work/$1.late.out" &&
        fail "an honest worker is refused"
    # In a short job on a busy machine the others may finish all tasks sooner than it would.
    grep -q 'task.done.*worker=honest-late' "$work/$1/log/hub.log" ||
        grep -q 'worker.withheld.*it needs .* the others finish' "$work/$1.late.out" ||
        fail "the worker that joined late did nothing"
}

# The attackers also use the processors of this machine, which slows the job down. How
# much this can be is printed beside the rate.
check_rate() { # honest folder, hostile folder
    calm=$(mix_seconds "$1") vile=$(mix_seconds "$2")
    rate=$(awk -v a="$calm" -v b="$vile" 'BEGIN { printf "%d", 100 * a / b }')
    theirs=$(cat "$work/$2".?.acts |
        awk '/^acts / { n += $(NF - 1) } END { printf "%.1f", n }')
    fair=$(awk -v a="$calm" -v b="$vile" -v c="$theirs" -v n="$(nproc)" \
        'BEGIN { printf "%d", 100 * a / (b - c / n) }')
    for folder in "$1" "$2"; do
        echo "$folder: processor seconds: hub $(processor_of "$folder" hub)," \
            "home $(processor_of "$folder" home)," \
            "the launcher's workers $(processor_of "$folder" worker)"
    done
    echo "$2: $phases phases in $vile s, $calm s without attacks: $rate % of that rate," \
        "$fair % without the $theirs s of processor of the hostile programs themselves"
    echo "$2: path states dropped: $(grep -c ' state.dropped ' "$work/$2/log/hub.log")," \
        "leases lost: $(sed -n 's/.*lease.expired count=//p' "$work/$2/log/hub.log" |
            awk '{ n += $1 } END { print n + 0 }')," \
        "backups: $(grep -c ' backup.granted ' "$work/$2/log/hub.log")," \
        "keys barred: $(grep -c ' worker.barred ' "$work/$2/log/hub.log")"
    [ "$minutes" -lt 10 ] || [ "$rate" -ge 70 ] || fail "honest workers are slowed down"
}

check_all() { # honest folder, hostile folder
    fsck_is_clean "$2" || fail "fsck of $2: $(tail -n 2 "$work/$2.fsck" | cat -v)"
    check_fenced "$2"
    check_text "$2"
    check_memory "$1" "$2"
    check_rate "$1" "$2"
}

# ---- the time that a phase takes ----
make_corpus base modules docs
phases=12 patience=300
begin_job first 0
end_job first
# Under audits only kinds of devices that the job has get tasks.
device=$(sed -n 's/.*worker.ready .*device="\([^"]*\)".*/\1/p' "$work/first/log/"worker*.log | head -n 1)
[ -n "$device" ] || fail "the kind of device is not in the log"
pace=$(mix_seconds first | awk '{ print $1 / 12 }')
# There are four jobs. In two of them each task is done twice, and two run at 70 % of
# the rate. So they take 8 times the time of the mixture.
phases=$(awk -v n="$minutes" -v p="$pace" \
    'BEGIN { t = (60 * n - 30) / 8; k = int((t > 6 ? t : 6) / p); print k < 20 ? 20 : k }')
patience=$(awk -v k="$phases" -v p="$pace" 'BEGIN { print int(180 + 10 * k * p) }')
echo "$phases phases, $(awk -v p="$pace" 'BEGIN { printf "%.0f", 1000 * p }') ms each in a job without audits"

quiet() { # folder, fleet.audit, settings: the job among honest workers
    begin_job "$@"
    join_late "$1"
    end_job "$1"
    record_of "$1"
}

same_record() { # honest folder, hostile folder
    cmp -s "$work/$1.record" "$work/$2.record" ||
        fail "what hostile workers said has changed the model: $(diff \
            "$work/$1.record" "$work/$2.record" | head -n 6)"
}

among_forgers() { # honest folder, hostile folder, fleet.audit, more settings
    calm_in=$1 vile_in=$2
    shift 2
    quiet "$calm_in" "$@"
    begin_job "$vile_in" "$@"
    join_late "$vile_in"
    attack "$vile_in"
    end_job "$vile_in"
    record_of "$vile_in"
    check_acts "$vile_in" "$1"
    same_record "$calm_in" "$vile_in"
    check_all "$calm_in" "$vile_in"
}

among_liars() {
    quiet twice 1
    begin_job lie 1
    join_late lie
    attack lie --lies
    end_job lie
    record_of lie
    check_acts lie 1
    same_record twice lie
    check_all twice lie
    # In a short job the honest workers may finish all tasks sooner than a liar would.
    [ -s "$work/lies" ] || [ "$minutes" -lt 2 ] || fail "nobody could lie"
    "$pathloom" audit --run "$work/lie" >"$work/lie.rows" || fail "the audits of lie"
    tail -n 1 "$work/lie.rows"
    ! grep '^undecided\|^unchecked\|the wrong result is that of honest\|of worker-' "$work/lie.rows" ||
        fail "an audit of honest work failed"
    awk '{ print $5 }' "$work/lies" | sort -u | comm -23 - "$work/lie.fenced" >"$work/free"
    [ ! -s "$work/free" ] || fail "lied and not fenced: $(tr '\n' ' ' <"$work/free")"
    # The record is equal, so all lies were repaired: a verdict dropped the task, or its
    # lease ended before the task was complete.
    awk 'NR == FNR { if ($1 == "odd" || $1 == "undecided") found[$2 " " ($4 + 0)] = 1; next }
        { n[$NF]++; by_audit[$NF] += (($3 " " $4) in found) }
        END { for (act in n) printf "lie: %-16s %4d lies repaired, %d by a verdict, %d whose task had not ended\n",
            act, n[act], by_audit[act], n[act] - by_audit[act] }' \
        "$work/lie.rows" "$work/lies" | sort
    echo "$(wc -l <"$work/lies") lies; fenced: $(tr '\n' ' ' <"$work/lie.fenced")"
}

# Prints how many phases the slowest path of the mixture has finished, or nothing.
slowest() { # folder
    "$pathloom" store ls --run "$work/$1" --paths --json 2>/dev/null |
        sed -n 's/.*"path":"mix\/.*"phase":\([0-9]*\).*/\1/p' | sort -n | head -n 1
}

until_phase() { # folder, phase
    until [ "$(slowest "$1")" -ge "$2" ] 2>/dev/null; do
        kill -0 "$job" 2>/dev/null || fail "the job $1 ends too early"
        sleep 0.5
    done
}

forget_one() { # folder
    "$pathloom" forget "$document" --run "$work/$1" >>"$work/$1.out" 2>&1 || fail "forget in $1"
}

# Old leases, and messages about phases that come again.
among_returners() {
    document=$(find "$work/corpus" -type f | sort | sed -n 3p)
    set -- 0.2 --set store.keep_states=true --set store.keep_updates=true \
        --set store.keep_momentum=true
    quiet calm-again "$@"
    forget_one calm-again
    record_of calm-again
    begin_job again "$@"
    join_late again
    attack again
    hub=$(sed 's/#.*//' "$work/again/proc/hub.address")
    until_phase again $((phases / 3))
    "$pathloom" store backup "$work/saved" --job --run "$work/again" >"$work/saved.out" 2>&1 ||
        fail "store backup"
    until_phase again $((2 * phases / 3))
    kill "$job"
    wait "$job"
    mv "$work/again" "$work/lost"
    "$pathloom" store restore "$work/saved" --job --run "$work/again" >>"$work/saved.out" 2>&1 ||
        fail "store restore"
    (vile_job again "$@" --set net.hub="$hub") >>"$work/again.out" 2>&1 &
    job=$!
    wait_for_job again
    forget_one again
    end_helpers
    record_of again
    check_acts again 0.2
    same_record calm-again again
    fsck_is_clean again || fail "fsck of again: $(tail -n 2 "$work/again.fsck" | cat -v)"
    check_fenced again
    check_text again
    check_memory calm-again again
}

wanted() { # variant
    [ "${variant:-$1}" = "$1" ]
}
skipped=$without
without=$skipped,split-pair # without noloco there are no pairs
! wanted forge || among_forgers calm forge 0.2
! wanted lie || among_liars
[ "$variant" != homes ] && [ "$minutes" -lt 10 ] || ! wanted homes ||
    among_forgers calm-homes homes 0.2 --set store.homes=2
[ "$variant" != again ] && [ "$minutes" -lt 10 ] || ! wanted again || among_returners
without=$skipped
[ "$variant" != pairs ] && [ "$minutes" -lt 10 ] || ! wanted pairs ||
    among_forgers calm-pairs pairs 0 --set outer.method=noloco --set outer.deadline_s=120
rm -rf "$work"
