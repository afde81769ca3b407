#!/bin/sh
# Tests that false own parameters of paths do not end a job. The store has them already
# (a home would refuse them): honest workers' updates are then refused, so the hub drops
# the states, and the paths begin again from the newest versions.
#
# usage: fault_own.sh PATHLOOM CHAOS_LEDGER WORKFOLDER HURT_STORE
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$1" "$2" "$3"
hurt_store=$4

own_job() { # folder, options
    tiny_job "$@" --set train.phases=8
}

make_corpus base modules docs
for case in streaming noloco; do
    damage=own5
    set -- --set outer.method="$case"
    [ "$case" = noloco ] || {
        damage=own3
        set -- "$@" --set outer.overlap=1 --set outer.fragments=2
    }
    PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:25 own_job "$case" "$@" \
        $patient >"$work/$case.out" 2>&1 &
    job=$!
    training_begins "$case"
    modules_reach "$case" 2 2>/dev/null
    end_held_job TERM
    ask audit worker-1 --run "$work/$case" || fail "$case: audit"
    says "no rollback is possible now: arm mix trains with $case"
    "$hurt_store" "$work/$case/store" "$damage" 2>"$work/hurt.out" || {
        cat "$work/hurt.out"
        fail "hurt_store"
    }
    (own_job "$case" "$@" --set workers.ttl_ms=1000) >"$work/$case.again.out" 2>&1 || {
        tail -n 20 "$work/$case.again.out"
        fail "$case: the job does not continue after false own parameters"
    }
    grep -q 'state.dropped' "$work/$case"/log/*.log || fail "$case: no state was dropped"
    grep -q 'state.restarted' "$work/$case"/log/*.log || fail "$case: no path began again"
    fsck_is_clean "$case" || fail "$case: fsck"
    echo "$case: the job continued"
done
rm -rf "$work"
