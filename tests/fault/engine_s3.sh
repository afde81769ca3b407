#!/bin/sh
# Tests the S3 engine with a small S3 server (s3_server.c). The engine must keep the
# promises of engine.h, also if answers are lost or the service is busy. It must report
# a service that is full or that ignores the conditions of writes. A job must wait for
# a service that begins late. A store must be rebuilt from the service alone. If a
# second home opens a store, the first must stop.
#
# usage: engine_s3.sh PATHLOOM TESTS-BUILD-FOLDER WORKFOLDER
set -u
pathloom=$1
tests=$2
. tests/support/job.sh
own_folder "$3"
. tests/support/s3.sh

store_on() { # name
    "$pathloom" store init --store "$work/$1" --engine "$url" >"$work/$1.out" 2>&1
}

small_run() { # folder, options
    small_job "$@" --set train.tau=1 --set train.phases=1 --set train.base_steps=1 \
        >"$work/$1.out" 2>&1
}

make_corpus base
serve late
server=$!
exec 7>&9 # keeps this server
(small_run run --set store.homes=2 --set store.engine="$url") || fail "a run with a store in S3"
refused 69 'number of homes cannot be changed' "$pathloom" homes set 3 --run "$work/run"
# Other servers are tested while a job waits for this one.
take_data run late
stopped=$server
kill -STOP "$server"
small_run late --set store.engine="s3://bucket/late?${url#*\?}" &
job=$!
await_in_job 600 "the job does not say for what it waits" "the job does not wait" \
    grep -q 'wait     for home, which writes to' "$work/late.out"
sleep 23 & # a home that starts from a large store needs as long
patience=$!

serve plain small
"$tests/engine_check" "$url" >"$work/check.out" 2>&1 || fail "engine_check"
for test in test_store_collect remote_store; do
    PL_TEST_ENGINE=$url PL_TEST_SHORT=1 "$tests/$test" >"$work/$test.out" 2>&1 || fail "$test"
done
store_on first || fail "init"
store_on first && fail "a second init of the same store was accepted"
"$pathloom" store pack --store "$work/first" >"$work/pack.out" 2>&1 || fail "pack"
refused 73 'a different store' "$pathloom" store init --store "$work/second" --engine "$url"
passes again "restore" "$pathloom" store restore "$url" --store "$work/again"
"$pathloom" store pack --store "$work/again" >>"$work/again.out" 2>&1 || fail "the restored store cannot be packed"
refused 75 'was opened by another home' "$pathloom" store pack --store "$work/first"
! grep -rq "$AWS_SECRET_ACCESS_KEY" "$work" || fail "the secret was written"
AWS_ACCESS_KEY_ID=stranger
refused 77 'refuses these keys' "$pathloom" store pack --store "$work/again"
AWS_ACCESS_KEY_ID=tester
echo "the engine keeps its promises; a store was rebuilt, and its old home was refused"

serve lossy lose=7
"$tests/engine_check" "$url" lossy >"$work/lossy.out" 2>&1 || fail "engine_check with lost answers"
serve busy busy=3
"$tests/engine_check" "$url" >"$work/busy.out" 2>&1 || fail "engine_check with a busy service"
echo "lost answers and a busy service change nothing"

serve deaf deaf
store_on deaf && fail "a service that ignores conditions was accepted"
grep -q 'ignores the condition `If-None-Match' "$work/deaf.out" || fail "the error does not name the ignored condition"
serve full full
store_on full && fail "init in a full bucket succeeded"
grep -q 'full or at its quota' "$work/full.out" || fail "the error does not say that the bucket is full"
url="s3://bucket/x?endpoint=http://127.0.0.1:1&patience=1"
store_on nobody && fail "init without a service succeeded"
grep -q 'tried [0-9]* times in 1.00s' "$work/nobody.out" || fail "the error does not say how often it tried"
echo "services that cannot work are refused with the reason"

wait "$patience"
kill -CONT "$server"
job_ends "a service that begins late"
echo "a job waits for a service that begins late"
