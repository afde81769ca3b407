#!/bin/sh
# Tests failing disks, jumping clocks and hung processes. In each case the job must
# continue, or end with an error of one sentence. When the fault is over, the same
# command must end with the versions of an undisturbed run.
#
# usage: fault_io.sh PATHLOOM LEDGER INTERPOSE.SO WORKFOLDER [short]
#
# A library (tests/fault/interpose.c) makes one call of one process fail. In the home
# and in the launcher, every kind of call fails at a random time, with each error that
# it can have.
# shellcheck disable=SC2034,SC2154,SC2120 # some variables belong to chaos_job.sh
set -u
pathloom=$1
ledger=$2
library=$3
work=$4
mode=${5:-all}
case $work in /*) ;; *) work=$PWD/$work ;; esac
case $library in /*) ;; *) library=$PWD/$library ;; esac
# A blank ends a name in LD_PRELOAD, so the folder is in the other variable.
export LD_LIBRARY_PATH="${library%/*}"
library=${library##*/}
disk=$work/disk
umount "$disk" 2>/dev/null
rm -rf "$work"
mkdir -p "$work"
. tests/fault/chaos_job.sh
seed=$(date +%s)
first_seed=$seed
job="" watcher=""
n_cases=0 n_acted=0 n_again=0 skipped=""
trap 'kill -9 $job $watcher 2>/dev/null; umount "$disk" 2>/dev/null' EXIT

fail() { fail_of_shot "FAILED: $name: $1 (seed $first_seed)"; }

begin() { # name
    name=$1
    n_cases=$((n_cases + 1))
    rm -rf "$work/shot" "$work/shot.out" "$work/once" "$work/now"
}

# Runs one job to its end. If the job fails, its stderr must be one sentence.
try_job() {
    code=0
    (tiny_job shot) >>"$work/shot.out" 2>"$work/shot.err" || code=$?
    cat "$work/shot.err" >>"$work/shot.out"
    [ "$code" -eq 0 ] || check_sentence
}

check_sentence() {
    [ "$(grep -vc '^ERROR: ld.so' "$work/shot.err")" -eq 1 ] && grep -q '^pathloom: [^ ]' "$work/shot.err" ||
        fail "code $code without one sentence"
}

until_done() {
    tries=0 code=1
    while [ "$code" -ne 0 ]; do
        tries=$((tries + 1))
        [ "$tries" -le 10 ] || fail "the job does not end after ten starts"
        try_job
    done
    n_again=$((n_again + tries - 1))
}

check_facts() {
    same_facts calm shot || fail "the store differs from that of the undisturbed run"
    fsck_is_clean shot || fail "fsck: $(head -n 3 "$work/shot.fsck")"
    nobody_is_left shot || fail "processes are left"
}

# Makes one call of one process fail once.
one_call() { # role, CALL:LATEST:ERROR
    call=${2%%:*} rest=${2#*:}
    random "${rest%%:*}"
    spec=$call:$((value + 1)):${rest#*:}
    begin "$1 $spec"
    [ "$1" = train ] || take_data calm shot
    LD_PRELOAD=$library INTERPOSE=$spec INTERPOSE_ROLE=$1 INTERPOSE_ONCE=$work/once \
        INTERPOSE_PATH=$work/shot
    export LD_PRELOAD INTERPOSE INTERPOSE_ROLE INTERPOSE_ONCE INTERPOSE_PATH
    until_done
    unset LD_PRELOAD INTERPOSE INTERPOSE_ROLE INTERPOSE_ONCE INTERPOSE_PATH
    check_facts
    if [ ! -e "$work/once" ]; then
        echo "$name: there was no such call"
        return
    fi
    n_acted=$((n_acted + 1))
    # The program must handle short writes and EINTR without ending.
    case $call.$spec in
    write.*EINTR | write.*short) [ "$tries" -eq 1 ] || fail "the job ended after a short write or EINTR" ;;
    esac
}

# Starts a job whose hub stops when the mixture has finished a phase.
begin_held_job() {
    PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:7 tiny_job shot $patient \
        >"$work/shot.out" 2>"$work/shot.err" &
    job=$!
    await 120 "the mixture does not begin" \
        grep 'lease.granted task=mix/.* phase=1' "$work/shot/log/hub.log"
}

# Makes every write to the store fail for some seconds, or until the job has ended.
long_outage() { # name, INTERPOSE, code
    begin "$1"
    take_data calm shot
    LD_PRELOAD=$library INTERPOSE=$2 INTERPOSE_ROLE=home INTERPOSE_WHILE=$work/now \
        INTERPOSE_PATH=$work/shot/store
    export LD_PRELOAD INTERPOSE INTERPOSE_ROLE INTERPOSE_WHILE INTERPOSE_PATH
    begin_held_job
    touch "$work/now"
    let_go hub
    code=0
    wait "$job" || code=$?
    job=""
    [ "$code" -eq "$3" ] || fail "the job ended with $code, not $3"
    check_sentence
    "$pathloom" store ls --run "$work/shot" >/dev/null || fail "the store is unreadable"
    try_job
    [ "$code" -eq "$3" ] || fail "started again, the job ended with $code, not $3"
    rm "$work/now"
    until_done
    unset LD_PRELOAD INTERPOSE INTERPOSE_ROLE INTERPOSE_WHILE INTERPOSE_PATH
    check_facts
}

# Runs the job on a small disk that becomes full and later has space again.
small_disk() {
    begin "a full disk"
    mkdir -p "$disk"
    mount -t tmpfs -o size=160m tmpfs "$disk" 2>/dev/null || {
        skipped="$skipped full-disk"
        return
    }
    mkdir "$disk/shot"
    ln -s "$disk/shot" "$work/shot"
    take_data calm shot
    begin_held_job
    head -c 200m /dev/zero >"$disk/fill" 2>/dev/null
    let_go hub
    code=0
    wait "$job" || code=$?
    job=""
    [ "$code" -eq 74 ] || fail "the job ended with $code, not 74"
    check_sentence
    rm "$disk/fill"
    until_done
    check_facts
    rm "$work/shot"
    umount "$disk"
}

# The wall clock jumps. Only dates that are shown to people may depend on it, so no
# lease may run out.
clock() {
    begin "a clock that jumps by years"
    LD_PRELOAD=$library INTERPOSE_CLOCK=94608000
    export LD_PRELOAD INTERPOSE_CLOCK
    until_done
    unset LD_PRELOAD INTERPOSE_CLOCK
    [ "$tries" -eq 1 ] || fail "the job had to be started again"
    ! grep -h 'lease.expired\|home.away\|away' "$work"/shot/log/hub.log || fail "a lease ran out"
    check_facts
}

job_is_gone() {
    ! kill -0 "$job"
}

# A worker hangs for ever. Its tasks must go to others, and the job must end without it.
hung_worker() {
    begin "a worker that hangs for good"
    take_data calm shot
    mkdir "$work/once"
    # After 14 steps a worker is in the middle of a task: the base model has 8, a phase 4.
    PATHLOOM_FAILPOINT=worker.step.before@worker:stop:14 PATHLOOM_FAILPOINT_ONCE=$work/once \
        tiny_job shot >"$work/shot.out" 2>"$work/shot.err" &
    job=$!
    await 120 "the job does not end without the stopped worker" job_is_gone
    job_ends
    [ -e "$work/once/worker.step.before@worker" ] || fail "no worker was stopped"
    check_facts
}

# Workers are told to end, as a scheduler does it. They are started again, and this does
# not count as crashes.
told_to_end() {
    begin "workers told to end again and again"
    take_data calm shot
    (tiny_job shot) >"$work/shot.out" 2>"$work/shot.err" &
    job=$!
    n_told=0
    while kill -0 "$job" 2>/dev/null; do
        # shellcheck disable=SC2046
        kill -TERM $(members "$job" worker | head -n 1) 2>/dev/null && n_told=$((n_told + 1))
        [ "$n_told" -lt 30 ] || break
        sleep 0.1
    done
    job_ends
    [ "$n_told" -ge 9 ] || fail "only $n_told workers were told to end"
    check_facts
}

make_corpus base modules docs
begin "the undisturbed run"
(tiny_job calm) >"$work/shot.out" 2>&1 || fail "the undisturbed run ended with $?"
facts calm || fail "the undisturbed run has too little in its store"

home="write:150:EIO write:150:ENOSPC write:150:EINTR write:150:short pwrite:100:EIO
    pwrite:100:ENOSPC pwrite:100:short fdatasync:200:EIO fdatasync:200:ENOSPC
    fdatasync:200:EINTR fsync:8:EIO fsync:8:ENOSPC rename:3:EIO rename:3:ENOSPC
    open:12:EIO open:12:ENOSPC open:12:EROFS"
train="write:4:EIO write:4:ENOSPC write:4:EINTR write:4:short fsync:6:EIO fsync:6:ENOSPC
    rename:4:EIO rename:4:ENOSPC open:4:ENOSPC open:4:EROFS"
if [ "$mode" = short ]; then
    # Tests two calls per role. They are drawn at random, so each run of the script
    # tests different ones.
    for role in home train; do
        eval "all=\$$role"
        # shellcheck disable=SC2086,SC2154 # the list is several words
        pick $all
        one_call "$role" "$choice"
    done
    long_outage "a disk that fails to flush" fdatasync:1:EIO 74
    hung_worker
else
    for spec in $home; do one_call home "$spec"; done
    for spec in $train; do one_call train "$spec"; done
    long_outage "a disk that fails to flush" fdatasync:1:EIO 74
    long_outage "a disk that is full" write:1:ENOSPC 74
    long_outage "a disk that is read-only" write:1:EROFS 74
    small_disk
    clock
    told_to_end
    hung_worker
fi
echo "$n_cases cases; $n_acted single calls failed, the command was given again $n_again times;" \
    "the facts ($(wc -l <"$work/calm.facts")) are the same in all${skipped:+; skipped:$skipped}"
rm -rf "$work"
