#!/bin/sh
# Kills a process of a tiny job at every fail point (base/failpoint.h), one after
# another.
#
# usage: fault_points.sh PATHLOOM LEDGER WORKFOLDER [short | K/N]
#
# The job is run undisturbed first, and then once per fail point. One of the first times
# that a process of the role passes the point, the point kills the process, ends it,
# stops it for a while, or makes the call fail. If the launcher ends, its command is
# repeated until the job is done. Then all versions, contributions and states of paths
# must be those of the undisturbed run. `short` tests several points in one run, each
# with SIGKILL. K/N tests every N-th point, beginning with the K-th. Every tested point
# must have been reached.
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$1" "$2" "$3"
mode=${4:-all}
first_seed=$seed
n_cases=0 n_points=0 n_again=0

fail() { fail_of_shot "FAILED: $points: $1 (seed $first_seed)"; }

# Each row has a name, the roles that pass the point, and the number of times that every
# tiny job passes it. If a tiny job never passes the point, the row has - and 0, and one
# of these tests passes the point: test_failpoint, test_store_bulk, test_store_copies,
# curves.sh, direct.sh, fault_audit.sh, fault_backup.sh, forget.sh, several_homes.sh,
# set_homes.sh and ceph.sh.
table() {
    cat <<'TABLE'
fs.write.before train,home,hub 1
fs.write.after train,home,hub 1
fs.fsync.after train,home,hub 1
fs.rename.after train,home,hub 1
fs.folder.after train,home,hub 1
spool.write.before train 40
tokens.write.before train 60
tokens.flush.after train 2
tokens.rename.after train 2
kv.commit.before home 20
kv.commit.after home 20
mark.write.before home 20
mark.write.after home 20
mark.flush.after home 20
wire.send.before train,hub,worker,home 25
wire.send.after train,hub,worker,home 25
home.commit.before home 30
home.reply.before home 30
home.merge.before home 20
home.outer.before home 20
home.arm.after home 1
features.arm.before train 1
chapter.shards.before train 1
chapter.modules.before train 1
chapter.arm.before train 1
chapter.arm.after train 1
select.tag.before train 3
hub.grant.after hub 12
hub.fence.after hub 12
hub.answer.before hub 20
worker.step.before - 0
worker.held.before - 0
worker.submit.before worker 2
worker.submit.after worker 2
worker.path.before worker 2
worker.direct.after - 0
upload.pull.before - 0
worker.done.before worker 2
worker.done.after worker 2
worker.update.wrong - 0
worker.offer.wrong - 0
worker.offer.damaged - 0
worker.state.wrong - 0
fs.exchange.before - 0
fs.exchange.after - 0
kv.file.before - 0
kv.file.after - 0
kv.take_in.before - 0
kv.take_in.after - 0
store.copy.before - 0
store.copy.after - 0
data.blank.before - 0
forget.ready.before - 0
forget.ready.after - 0
forget.exchange.before - 0
forget.exchange.after - 0
gc.roots.after - 0
engine.get.before - 0
engine.put.before - 0
engine.put.after - 0
engine.swap.before - 0
engine.swap.after - 0
engine.drop.before - 0
TABLE
}

# Prints one line "NAME@ROLE PASSAGES" for each role of each point.
every_point() {
    table | while read -r name roles passages; do
        [ "$roles" != - ] || continue
        for role in $(echo "$roles" | tr , ' '); do
            echo "$name@$role $passages"
        done
    done
}

# The job has two chapters, so that documents are distributed again for the second one.
# The workers compute the features of the documents.
# At its end the best versions are tagged.
points_job() { # folder
    tiny_job "$1" --set router.em=2 --set router.share=0.2 \
        --set router.feature_docs=50 --set train.holdout=0.1
}

# Continues a stopped process after its leases have run out.
continue_stopped() {
    while sleep 1.2; do
        for pid in $(left_behind shot); do
            grep -qs '^State:.T' "/proc/$pid/status" && kill -CONT "$pid" 2>/dev/null
        done
    done
}

# Runs the job with fail points, and repeats the command until the job is done.
run_with_points() { # POINT:ACTION:NTH,...
    rm -rf "$work/shot" "$work/shot.out" "$work/once"
    mkdir "$work/once"
    [ "$with_data" = yes ] || take_data calm shot
    PATHLOOM_FAILPOINT=$1 PATHLOOM_FAILPOINT_ONCE=$work/once
    export PATHLOOM_FAILPOINT PATHLOOM_FAILPOINT_ONCE
    tries=0 code=1
    while [ "$code" -ne 0 ]; do
        tries=$((tries + 1))
        [ "$tries" -le 24 ] || fail "the job does not end after 24 starts"
        code=0
        (points_job shot) >>"$work/shot.out" 2>"$work/shot.err" || code=$?
        case $code in
        0 | 71 | 137) ;; # a fail point ended or killed the launcher
        *)
            [ "$(wc -l <"$work/shot.err")" -eq 1 ] && grep -q '^pathloom: [^ ]' "$work/shot.err" ||
                fail "code $code without one sentence"
            ;;
        esac
        cat "$work/shot.err" >>"$work/shot.out"
    done
    n_again=$((n_again + tries - 1))
    unset PATHLOOM_FAILPOINT PATHLOOM_FAILPOINT_ONCE
}

check_points() { # POINT:ACTION:NTH,...
    points=$1
    with_data=no
    case $points in *spool.* | *tokens.*) with_data=yes ;; esac
    run_with_points "$points"
    for point in $(echo "$points" | tr , ' '); do
        [ -e "$work/once/${point%%:*}" ] || fail "${point%%:*} was not reached"
        n_points=$((n_points + 1))
    done
    same_facts calm shot || fail "the store differs from that of the undisturbed run"
    fsck_is_clean shot || fail "fsck: $(head -n 3 "$work/shot.fsck")"
    n_cases=$((n_cases + 1))
}

# The fail points in the sources must have the same names as the rows of the table.
points="the table"
table | cut -d' ' -f1 | LC_ALL=C sort >"$work/named"
sh tests/fault/chaos_check_points.sh --list >"$work/listed"
diff "$work/named" "$work/listed" ||
    fail "the table and the sources have different fail points"

make_corpus base modules docs
(points_job calm) >"$work/shot.out" 2>&1 || fail "the undisturbed run"
facts calm || fail "the undisturbed run has too little in its store"

if [ "$mode" = short ]; then
    # Each of three runs tests every third point, so that points which follow each other
    # in the table are in different runs.
    every_point >"$work/points"
    for first in 1 2 3; do
        points=
        while read -r point passages; do
            random $((passages / 4 + 1)) # a restarted process may pass it less often
            points=$points${points:+,}$point:kill:$((value + 1))
        done <<POINTS
$(sed -n "$first~3p" "$work/points")
POINTS
        check_points "$points"
    done
else
    continue_stopped &
    continuer=$!
    trap 'kill $continuer 2>/dev/null' EXIT
    part=1~1
    case $mode in */*) part=${mode%/*}~${mode#*/} ;; esac
    every_point | sed -n "${part}p" >"$work/points"
    while read -r point passages; do
        for action in kill exit stop error; do
            random "$passages"
            check_points "$point:$action:$((value + 1))"
        done
    done <"$work/points"
fi
nobody_is_left shot || fail "processes are left: $(left_behind shot)"
echo "$n_points points acted in $n_cases runs; the command was given again $n_again times;" \
    "the facts ($(wc -l <"$work/calm.facts")) are the same in all"
rm -rf "$work"
