#!/bin/sh
# Tests that only the user of a job on one machine can connect to it.
#
# usage: other_user.sh PATHLOOM WORKFOLDER
#
# The job's sockets are in a folder of mode 0700, so another user cannot connect. (As
# root, the test tries this with setpriv.) A hub that was killed starts again at the
# same sockets, which the killed process has left behind. So does a job whose launcher
# was killed. A run whose path is too long for a socket works, and so does a run that is
# told to use the loopback.
set -u
. tests/support/script.sh
begin "$@"
mkdir "$work/corpus"
cp base/*.[ch] "$work/corpus/"
. tests/support/by_hand.sh
copy=
trap 'kill -9 $children 2>/dev/null; rm -f "$copy"' EXIT INT TERM
answers() { # run
    "$pathloom" status --run "$work/$1" | grep -q '^worker.*busy'
}
listens_on_tcp() { # pid
    ss -Hltnp | grep -q "pid=$1,"
}
train() { # run, options
    run=$1
    shift
    start "${run%%0*}" "$pathloom" train --corpus "$work/corpus" --out "$work/$run" \
        --set model.width=32 --set model.blocks=2 --set train.base_steps=4 \
        --set train.tau=2 --set train.phases=20000 --set eval.baselines=none \
        --set data.vocab=512 --set data.valid_share=0.1 --set workers.count=1 "$@"
    await 600 "$run does not train" answers "$run"
}
killed() {
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    await 600 "processes of $run are left behind" no_process_of "$run"
}
no_process_of() { # run; the brackets keep pgrep from finding itself
    ! pgrep -f -- "[/]${work#/}/$1[ /]"
}

train run
hub=$(cat "$work/run/proc/hub.address")
for file in hub home; do
    case $(cat "$work/run/proc/$file.address") in
    ipc:///*) ;;
    *) fail "the $file is at $(cat "$work/run/proc/$file.address")" ;;
    esac
done
[ "$(stat -c %a "$work/run/proc/ipc")" = 700 ] || fail "others may enter proc/ipc"
hub_pid=$(pgrep -P "$pid" -f 'pathloom hub ')
[ -n "$hub_pid" ] || fail "the launcher has started no hub"
if command -v ss >/dev/null; then
    ! listens_on_tcp "$hub_pid" || fail "the hub listens on TCP"
fi

copy=$(mktemp /tmp/pathloom-other-user-XXXXXX)
cp "$pathloom" "$copy"
chmod 755 "$copy"
"$pathloom" status --hub "$hub" >/dev/null || fail "the user of the job cannot connect to the hub"
# In a /tmp that is mounted with noexec, the copy does not run either.
if [ "$(id -u)" = 0 ] && (cd / && setpriv --reuid=65534 --regid=65534 --clear-groups \
    "$copy" --version) >/dev/null 2>&1; then
    (cd / && setpriv --reuid=65534 --regid=65534 --clear-groups "$copy" status \
        --hub "$hub") >"$work/other.out" 2>&1 && fail "another user can connect to the hub"
    grep -q "does not answer" "$work/other.out" || fail "another user failed for another reason: $(cat "$work/other.out")"
else
    echo "a connection of another user, which needs root: not on this machine"
fi

kill -9 "$hub_pid"
sleep 0.5
await 600 "the hub does not come back" answers run
[ "$(cat "$work/run/proc/hub.address")" = "$hub" ] || fail "the restarted hub has another address"
killed
[ -S "${hub#ipc://}" ] || fail "a killed hub left no socket, so the restart tests nothing"
train run
[ "$(cat "$work/run/proc/hub.address")" = "$hub" ] || fail "the hub of the restarted job has another address"
killed

long=$(printf 'long-%0100d' 0)
train "$long"
at=$(cat "$work/$long/proc/hub.address")
folder=$(dirname "${at#ipc://}")
case $folder in
*/pathloom-??????) ;;
*) fail "with a long path the hub is at $at" ;;
esac
[ "$(stat -c %a "$folder")" = 700 ] || fail "others may enter $folder"
kill -INT "$pid"
wait "$pid"
[ ! -e "$folder" ] || fail "$folder was left behind"

train tcp --set net.hub='tcp://127.0.0.1:*' --set net.home='tcp://127.0.0.1:*'
grep -q '^tcp://127.0.0.1:' "$work/tcp/proc/hub.address" || fail "the hub does not listen on the loopback"
killed
echo "PASSED"
