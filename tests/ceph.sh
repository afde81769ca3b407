#!/bin/sh
# Tests stores whose parameters are in a real Ceph, or in a real S3 service (radosgw,
# which belongs to Ceph).
#
# usage: sh tests/ceph.sh [PATHLOOM]        (build/release/pathloom, built if missing)
#
# Starts a Ceph on 127.0.0.1: a monitor, a storage daemon (BlueStore in a file) and
# radosgw. Their configuration and state are in a temporary folder. A Ceph that already
# runs on the machine is not touched. If packages of Debian's Ceph are missing, they are
# installed. Tests:
#   what store/engine/engine.h promises, also with racing processes (engine_check)
#   stores whose process is killed between two writes: rebuilding them from the engine
#   and garbage collection (remote_store); unit tests of the store that fit every engine
#   a training whose home is killed. Meanwhile the storage daemon is stopped, continued,
#   killed and started again. The versions must be those of a training on RocksDB. Then
#   fsck, gc, a lost disk, two homes with one store, a storage daemon that is stopped,
#   and one that is full
#   the same promises, a store and a training with S3 instead of Ceph's own protocol
#
# Exit codes: 0; 1 if a test failed; 77 if this machine cannot run it, and a line says
# why. Takes about four minutes, longer if the machine is busy.
set -u
cd "$(dirname "$0")/.." || exit 1
pathloom=${1:-}
service=ceph
keeper=
. tests/support/service.sh
trap '[ -z "$keeper" ] || kill -9 "$keeper" 2>/dev/null; clean' EXIT

# ---- tools ----
tools="ceph-mon ceph-osd ceph monmaptool rados radosgw radosgw-admin
    /usr/include/rados/librados.h"
# shellcheck disable=SC2086 # $tools is a list of words
if [ -n "$(missing $tools)" ]; then
    command -v apt-get >/dev/null || skip "there is no $(missing $tools | tr '\n' ' ')and no apt-get"
    say "installing Ceph"
    sh tools/install.sh ceph >/dev/null 2>&1 || skip "sh tools/install.sh ceph fails here"
    [ -z "$(missing $tools)" ] || skip "still no $(missing $tools | tr '\n' ' ')after installing"
fi
if [ -z "$pathloom" ]; then
    pathloom=build/release/pathloom
    { cmake --preset release && cmake --build --preset release; } >/dev/null ||
        fail "the build"
fi
pathloom=$(readlink -f "$pathloom")
tests=$(dirname "$pathloom")/tests

# ---- the Ceph of this script ----
service_folder
mkdir "$work/mon" "$work/osd" "$work/rgw" "$work/tmp"
export TMPDIR="$work/tmp"
[ "$(df -Pk "$work" | awk 'NR == 2 { print $4 }')" -gt 6000000 ] ||
    skip "less than 6 GB free in $work"
conf=$work/ceph.conf

free_ports 2
fsid=$(cat /proc/sys/kernel/random/uuid)

# Each object has one copy. There are no keys, because only the loopback interface
# reaches this Ceph.
cat >"$conf" <<END
[global]
fsid = $fsid
mon host = v1:127.0.0.1:$port
ms bind msgr2 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data = $work/mon
mon data avail crit = 1
osd data = $work/osd
osd objectstore = bluestore
bluestore block size = 3221225472
osd memory target = 939524096
log file = $work/\$name.log
admin socket = $work/\$name.\$pid.asok
run dir = $work
rgw data = $work/rgw
rgw frontends = beast endpoint=127.0.0.1:$((port + 1))
END

cluster() {
    timeout 60 ceph -c "$conf" --connect-timeout 20 "$@" >>"$work/cluster.out" 2>&1
}

# Starts the storage daemon again whenever it ends. (A monitor may refuse a daemon that
# asks too early.)
keep_osd() {
    while [ -d "$work/osd" ]; do
        ceph-osd -f -i 0 -c "$conf" >>"$work/osd.out" 2>&1
        sleep 1
    done
}

signal_osd() { # signal
    # shellcheck disable=SC2046 # one pid
    kill "-$1" $(pgrep -f "^ceph-osd -f -i 0 -c $conf\$") || fail "no storage daemon"
}

monmaptool --create --addv a "[v1:127.0.0.1:$port]" --fsid "$fsid" "$work/monmap" \
    >"$work/cluster.out" 2>&1 || fail "monmaptool cannot make a map of monitors"
ceph-mon --mkfs -i a -c "$conf" --monmap "$work/monmap" >>"$work/mon.out" 2>&1 ||
    fail "the monitor's folder"
setsid ceph-mon -f -i a -c "$conf" >>"$work/mon.out" 2>&1 &
uuid=$(cat /proc/sys/kernel/random/uuid)
i=0
until cluster osd new "$uuid"; do # until the monitor answers
    i=$((i + 1))
    [ $i -lt 30 ] || fail "the monitor does not answer"
    sleep 1
done
ceph-osd -i 0 -c "$conf" --mkfs --osd-uuid "$uuid" >>"$work/osd.out" 2>&1 ||
    fail "the storage daemon's folder"
keep_osd &
keeper=$!
cluster osd pool create pathloom 8 8 || fail "the pool"
timeout 60 rados -c "$conf" -p pathloom put hello "$conf" || fail "the first object"
say "$(ceph --version | sed 's/ (.*//'), one monitor, one storage daemon"
at() { # namespace
    echo "rados://pathloom/$1?conf=$conf&patience=120"
}

# ---- the promises of engine.h ----
"$tests/engine_check" "$(at check)" >"$work/check.out" 2>&1 || fail "engine_check on Ceph"
say "$(tail -n 3 "$work/check.out" | sed 's/engine_check: //' | paste -sd';')"

store_tests() { # name, URL, tests
    name=$1 url=$2
    shift 2
    for test in "$@"; do
        PL_TEST_ENGINE=$url "$tests/$test" >"$work/$name-$test.out" 2>&1 ||
            fail "$test on $name"
        say "$name: $test: $(grep -E 'PASSED|kills' "$work/$name-$test.out" |
            sed 's/\[ *PASSED *\] //' | paste -sd';')"
    done
}
store_tests rados "$(at tests)" remote_store test_store_kill test_store_recode \
    test_store_collect

# ---- training ----
# Whole files, so that the engine gets texts of several chunks (of 1 MiB).
make_corpus --whole base modules outer home net workers docs

train() { # run, options; in a subshell or in the background
    run=$1
    shift
    small_job "$run" --set model.width=96 --set train.tau=30 --set train.phases=8 \
        --set train.base_steps=10 "$@" \
        >"$work/$run.out" 2>&1
}

same_versions() { # run, what
    versions --run "$work/$1" | cmp - "$work/plain.versions" || fail "the versions of $2 differ from those of the training on RocksDB"
}

kill_home() { # run
    for pid in $(pgrep -f "pathloom home --run $work/$1( |\$)"); do
        kill -9 "$pid" 2>/dev/null && n_kills=$((n_kills + 1))
    done
}

is_running() {
    kill -0 "$job" 2>/dev/null
}

(train plain) || fail "training on RocksDB"
versions --run "$work/plain" >"$work/plain.versions"
[ "$(wc -l <"$work/plain.versions")" -gt 12 ] || fail "too few modules"

train ceph --set "store.engine=$(at ceph)" &
job=$!
n_kills=0
training_begins ceph
kill_home ceph
sleep 2
is_running || fail "training ended before the storage daemon was stopped"
signal_osd STOP
sleep 4
signal_osd CONT
sleep 1
signal_osd KILL
sleep 4
kill_home ceph
while is_running; do
    sleep 3
    kill_home ceph
    [ $n_kills -lt 8 ] || break
done
wait $job || fail "training on Ceph"
same_versions ceph "a training whose home and storage were killed"
store fsck --run "$work/ceph"
say "trained on Ceph: home killed $n_kills times, storage daemon stopped for 4 s and" \
    "killed: $(wc -l <"$work/plain.versions") modules, all hashes equal"
say "fsck: $(cat "$work/verb.out")"
store gc --run "$work/ceph" --grace 0 --keep 1 --delete
say "gc: $(paste -sd';' "$work/verb.out")"
store gc --run "$work/ceph" --grace 0 --keep 1
! grep -q 'would drop' "$work/verb.out" || fail "a second gc finds more garbage"
store fsck --run "$work/ceph"
store backup "$work/copy" --run "$work/ceph"
store fsck --store "$work/copy"
"$pathloom" generate --run "$work/ceph" --prompt "int" --max-tokens 4 \
    >"$work/verb.out" 2>&1 || fail "generate"

# ---- a lost disk, and two homes ----
cp -r "$work/ceph/store" "$work/twin"
mv "$work/ceph/store" "$work/lost"
store restore "$(at ceph)" --store "$work/ceph/store"
same_versions ceph "a store rebuilt from Ceph alone"
say "rebuilt: $(sed 's/.* is the store/the store/; s/?[^ ]*//' "$work/verb.out")"
"$pathloom" train --out "$work/ceph" >>"$work/ceph.out" 2>&1 || fail "training does not continue after the restore"
refused 75 'was opened by another home' "$pathloom" store pack --store "$work/twin"
refused 73 'has a different store' "$pathloom" store init --store "$work/other" \
    --engine "$(at ceph)"
refused 73 'are in rados' "$pathloom" home --store "$work/ceph/store" --set store.engine=rocksdb
say "a second home is fenced, a second store refused"

# ---- pools that are missing or full ----
short="rados://pathloom/short?conf=$conf&patience=3"
store init --store "$work/short" --engine "$short"
signal_osd STOP
refused 74 'no answer in 10 s' "$pathloom" store pack --store "$work/short"
signal_osd CONT
store pack --store "$work/short"
cluster osd set-full-ratio 0.0001
cluster osd set-nearfull-ratio 0.00005
cluster osd set-backfillfull-ratio 0.00007
i=0
until "$pathloom" store init --store "$work/full" --engine "$(at "full$i")" \
    >"$work/full.out" 2>&1; [ $? -ne 0 ] || [ $i -ge 30 ]; do
    i=$((i + 1))
    rm -rf "$work/full"
    sleep 1
done
grep -q 'full or at its quota' "$work/full.out" || fail "the error does not say that the pool is full"
cluster osd set-full-ratio 0.95
cluster osd set-backfillfull-ratio 0.9
cluster osd set-nearfull-ratio 0.85
i=0
until "$pathloom" store pack --store "$work/short" >"$work/verb.out" 2>&1; do
    i=$((i + 1))
    [ $i -lt 30 ] || fail "the pool stays full after the limits were raised"
    sleep 1
done
say "errors name a Ceph that does not answer or is full; afterwards the store works again"

# ---- S3 ----
AWS_ACCESS_KEY_ID=pathloomtest AWS_SECRET_ACCESS_KEY=secret$$secret
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
timeout 120 radosgw-admin -c "$conf" -n client.admin user create --uid=tester \
    --display-name=tester --access-key="$AWS_ACCESS_KEY_ID" \
    --secret="$AWS_SECRET_ACCESS_KEY" >"$work/rgw-user.log" 2>&1 || fail "radosgw-admin cannot make a user"
setsid radosgw -f -c "$conf" -n client.admin >"$work/rgw.out" 2>&1 &
endpoint=http://127.0.0.1:$((port + 1))
await 60 "radosgw does not begin" curl -sf -o /dev/null -X PUT --aws-sigv4 aws:amz:us-east-1:s3 \
    -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
    -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$endpoint/pathloom"
s3() { # prefix
    echo "s3://pathloom/$1?endpoint=$endpoint&patience=120"
}
"$tests/engine_check" "$(s3 check)" >"$work/check-s3.out" 2>&1 || fail "engine_check on S3"
say "radosgw: $(tail -n 3 "$work/check-s3.out" | sed 's/engine_check: //' | paste -sd';')"
export PL_TEST_SHORT=1
store_tests s3 "$(s3 tests)" remote_store test_store_collect
n_kills=0
train s3 --set "store.engine=$(s3 run)" &
job=$!
training_begins s3
kill_home s3
sleep 3
kill_home s3
wait $job || fail "training on S3"
same_versions s3 "a training on S3"
store fsck --run "$work/s3"
say "trained on S3: home killed $n_kills times, all hashes equal; $(cat "$work/verb.out")"
for way in 0 1; do
    grep -q "worker.direct service=$endpoint up=$way" "$work"/s3/log/worker*.log ||
        fail "no worker read and wrote in S3 itself"
done
! grep -h 'worker.direct error\|home.upload error' "$work"/s3/log/*.log || fail "S3 refused a worker"
say "workers read from S3 and wrote to it"
rm -rf "$work/s3/store"
store restore "$(s3 run)" --store "$work/s3/store"
same_versions s3 "a store rebuilt from S3 alone"
! grep -rq "$AWS_SECRET_ACCESS_KEY" "$work/s3" "$work"/*.out || fail "the secret key is in a file"
say "all tests passed"
