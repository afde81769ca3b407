#!/bin/sh
# Changes the store of a run under what was made from it: a server that is told to read
# the store again (HUP) serves the newest versions, or says why not and keeps what it
# serves; a report of versions that are no longer the newest does not stay. Then limits
# of the machine are reached: open files, and, where a user namespace allows mounting,
# inodes and disk space.
#
# usage: changes.sh PATHLOOM WORKFOLDER   (in the project's root)
set -u
. tests/support/job.sh
begin "$@"
. tests/support/by_hand.sh

serve() { # options: starts a server; sets `at`, `pid` and `log`
    : >"$work/serve.out"
    start serve "$pathloom" serve --run "$work/run" --listen '127.0.0.1:*' "$@"
    await 600 "the server does not start" grep -q '^serving' "$work/serve.out"
    at=$(sed -n 's/^serving .* at \(.*\)\/v1$/\1/p' "$work/serve.out")
}
answers() { # a request gets a text
    curl -s -H 'Content-Type: application/json' "$at/v1/completions" \
        -d '{"model": "auto", "prompt": "The ", "max_tokens": 3}' | grep -q finish_reason
}
hang_up() { # pattern of the log line that must follow
    kill -HUP "$pid"
    await 600 "after HUP the log lacks '$1': $(tail -n 2 "$work/serve.out")" grep -q "$1" \
        "$work/serve.out"
    answers || fail "after HUP the server does not answer"
}
end_server() {
    kill -TERM "$pid"
    wait "$pid" 2>/dev/null
}

make_corpus base
job_of_three() {
    small_job run --set model.width=32 --set train.tau=4 --set train.phases=3 \
        --set train.base_steps=10 "$@"
}
(job_of_three) >"$work/run.out" 2>&1 || fail "the run"

if command -v curl >/dev/null; then
    echo "a server keeps a tag's versions although the store has deleted them"
    "$pathloom" store tag best 1 --run "$work/run" >"$work/tag.out" 2>&1 || fail "tag"
    serve --at best
    paths=$("$pathloom" store ls --run "$work/run" --json | grep -c '"module"')
    [ "$paths" -gt 0 ] || fail "no modules"
    answers || fail "the server does not answer"
    "$pathloom" store tag best --delete --run "$work/run" >"$work/tag.out" 2>&1 || fail "delete"
    passes gc "gc" "$pathloom" store gc --delete --keep 1 --grace 0 --run "$work/run"
    hang_up 'serve.reload_failed.*best'
    ! grep -q serve.reloaded "$work/serve.out" || fail "the server says that it has read the store"
    end_server

    echo "a server says that the run has a newer arm"
    serve
    (job_of_three --set train.phases=+1) >"$work/more.out" 2>&1 || fail "the longer run"
    hang_up 'serve.reload_failed.*of the arm mix~1.*start .pathloom serve. again'
    end_server
    serve
    hang_up serve.reloaded
    end_server
fi

echo "a rollback deletes the report of the versions before"
[ -s "$work/run/report.json" ] || fail "there is no report"
passes rollback "rollback" "$pathloom" store rollback mix~1 --to 0 --run "$work/run"
[ ! -e "$work/run/report.json" ] || fail "the report stays"
"$pathloom" page --run "$work/run" --report "$work/page.html" >"$work/page.out" 2>&1 ||
    fail "the page without a report"
grep -q '>mix [0-9.]*</text>' "$work/page.html" || fail "the report has no curve of the mixture"
! grep -q '>mix~1 [0-9.]*</text>' "$work/page.html" || fail "a chapter is drawn as another model"

echo "a limit of open files is named"
# shellcheck disable=SC3045 # dash and bash have ulimit -n
(ulimit -n 12 && "$pathloom" store ls --run "$work/run") >"$work/files.out" 2>&1 &&
    fail "12 files suffice"
grep -q 'may open 12 files' "$work/files.out" || fail "the limit of open files is not named"

echo "no inodes, and a full disk"
unshare -rm true 2>/dev/null || {
    echo "PASSED, but this user may not mount: a disk without inodes or space was not tried"
    exit 0
}
mkdir "$work/disk"
cp -r "$work/run/store" "$work/store"
# shellcheck disable=SC2016 # expanded by the inner shell
unshare -rm sh -c '
    mount -t tmpfs -o size=200m,nr_inodes=12 tmpfs "$1/disk" || exit 77
    "$2" store backup "$1/disk/copy" --store "$1/store" >"$1/inodes.out" 2>&1 && exit 1
    umount "$1/disk"
    mount -t tmpfs -o size=100m tmpfs "$1/disk" || exit 77
    cp -r "$1/store" "$1/disk/store"
    # Programs of the store leave 64 MiB; a garbage collection may use them.
    free=$(df -k --output=avail "$1/disk" | tail -n 1)
    head -c $(((free - 50 * 1024) * 1024)) /dev/zero >"$1/disk/fill"
    "$2" store tag more --store "$1/disk/store" >"$1/tag.out" 2>&1 && exit 2
    "$2" store gc --delete --keep 1 --grace 0 --store "$1/disk/store" >"$1/gc.out" 2>&1 || exit 3
    "$2" store fsck --store "$1/disk/store" >"$1/fsck.out" 2>&1 || exit 4
' sh "$work" "$pathloom"
case $? in
0) grep -q 'no inodes left' "$work/inodes.out" || fail "the lack of inodes is not named" ;;
1) fail "12 inodes suffice" ;;
2) fail "a commit leaves less than 64 MiB" ;;
3) fail "garbage collection fails on a full disk" ;;
4) fail "the store is damaged after garbage collection on a full disk" ;;
*) echo "mounting is not possible here" ;;
esac
echo "PASSED"
