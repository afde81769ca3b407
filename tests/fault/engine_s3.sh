#!/bin/sh
# Tests the S3 engine with the small S3 server of these tests: the promises of engine.h,
# lost answers, a service that is busy or full or that ignores conditions. Also tests
# that stores in this service can be rebuilt and fenced.
#
# usage: engine_s3.sh PATHLOOM TESTS-BUILD-FOLDER WORKFOLDER
set -u
pathloom=$1
tests=$2
. tests/support/job.sh
own_folder "$3"
AWS_ACCESS_KEY_ID=tester AWS_SECRET_ACCESS_KEY=secret-that-nobody-sees
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

# A server runs until no process holds its pipe any more.
serve() { # name, words
    name=$1
    shift
    mkfifo "$work/$name.pipe"
    "$tests/s3_server" "$work/$name.port" "$@" <"$work/$name.pipe" &
    exec 9>"$work/$name.pipe"
    i=0
    until [ -s "$work/$name.port" ]; do
        i=$((i + 1))
        [ $i -lt 100 ] || fail "the server does not begin"
        sleep 0.05
    done
    url="s3://bucket/$name?endpoint=http://127.0.0.1:$(cat "$work/$name.port")"
}

store_on() { # name
    "$pathloom" store init --store "$work/$1" --engine "$url" >"$work/$1.out" 2>&1
}

serve plain small
"$tests/engine_check" "$url" >"$work/check.out" 2>&1 || fail "promises"
PL_TEST_ENGINE=$url PL_TEST_SHORT=1
export PL_TEST_ENGINE PL_TEST_SHORT
for test in test_store_collect remote_store; do
    "$tests/$test" >"$work/$test.out" 2>&1 || fail "$test"
done
unset PL_TEST_ENGINE
store_on first || fail "init"
store_on first && fail "init twice"
"$pathloom" store pack --store "$work/first" >"$work/pack.out" 2>&1 || fail "pack"
refused 73 'a different store' "$pathloom" store init --store "$work/second" --engine "$url"
"$pathloom" store restore "$url" --store "$work/again" >"$work/again.out" 2>&1 ||
    fail "restore"
"$pathloom" store pack --store "$work/again" >>"$work/again.out" 2>&1 || fail "going on"
refused 75 'opened elsewhere since' "$pathloom" store pack --store "$work/first"
! grep -rq "$AWS_SECRET_ACCESS_KEY" "$work" || fail "the secret was written"
AWS_ACCESS_KEY_ID=stranger
refused 77 'refuses these keys' "$pathloom" store pack --store "$work/again"
AWS_ACCESS_KEY_ID=tester
make_corpus base
(small_job run --set train.tau=1 --set train.phases=1 --set train.base_steps=1 \
    --set store.homes=2 --set store.engine="s3://bucket/run?${url#*\?}" >"$work/run.out" 2>&1) ||
    fail "a run on it"
refused 69 'homes cannot be added' "$pathloom" homes add --run "$work/run"
refused 69 'keeps the homes that it has' "$pathloom" homes remove 2 --run "$work/run"
echo "an S3 keeps what it promises, a store is rebuilt and fenced"

serve lossy lose=7
"$tests/engine_check" "$url" lossy >"$work/lossy.out" 2>&1 || fail "lost answers"
serve busy busy=3
"$tests/engine_check" "$url" >"$work/busy.out" 2>&1 || fail "a busy service"
echo "lost answers and a busy service change nothing"

serve deaf deaf
store_on deaf && fail "a service without conditions"
grep -q 'ignores the condition `If-None-Match' "$work/deaf.out" || fail "the sentence"
serve full full
store_on full && fail "a full bucket"
grep -q 'full or at its quota' "$work/full.out" || fail "the sentence on a full bucket"
url="s3://bucket/x?endpoint=http://127.0.0.1:1&patience=1"
store_on nobody && fail "a service that is not there"
grep -q 'tried [0-9]* times in 1.00s' "$work/nobody.out" || fail "the sentence"
echo "what cannot work is refused with the reason"
