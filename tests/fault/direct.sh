#!/bin/sh
# Tests transfers between workers and the service that keeps a home's chunks
# (net/client_direct.c), with a small S3 server (s3_server.c). The versions and the states
# of paths must be those of a run in RocksDB: if everything works, if the service refuses
# signed URLs, and if answers are lost while workers and home are killed. No uploaded
# object may stay behind.
#
# usage: direct.sh PATHLOOM TESTS-BUILD-FOLDER WORKFOLDER
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
pathloom=$1
tests=$2
. tests/support/job.sh
own_folder "$3"
AWS_ACCESS_KEY_ID=tester AWS_SECRET_ACCESS_KEY=secret-that-nobody-sees
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

serve() { # name, options
    name=$1
    shift
    mkfifo "$work/$name.pipe"
    "$tests/s3_server" "$work/$name.port" "$@" <"$work/$name.pipe" &
    exec 9>"$work/$name.pipe"
    i=0
    until [ -s "$work/$name.port" ]; do
        i=$((i + 1))
        [ $i -lt 1200 ] || fail "the server does not begin"
        sleep 0.05
    done
    url="s3://bucket/$name?endpoint=http://127.0.0.1:$(cat "$work/$name.port")"
}

# Modules and states that are larger than the smallest blob that is moved directly.
train() { # folder, options
    small_job "$@" --set model.width=128 --set train.tau=2 --set train.phases=3 \
        --set train.base_steps=4 --set seed=3 >"$work/$1.out" 2>&1
}

same() { # folder
    facts_of_run "$1"
    cmp -s "$work/reference.facts" "$work/$1.facts" || fail "$1 differs from the run in RocksDB"
    "$pathloom" store fsck --run "$work/$1" >"$work/$1.fsck.out" 2>&1 || fail "fsck of $1"
}

count() { # 1: GETs, 2: PUTs with signed URLs
    cut -d' ' -f"$1" "$work/$name.port.signed" 2>/dev/null || echo 0
}

make_corpus base
(train reference) || fail "the run in RocksDB"
facts_of_run reference

serve plain
(take_data reference plain && train plain --set store.engine="$url") || fail "a run in S3"
same plain
[ "$(count 1)" -gt 8 ] && [ "$(count 2)" -gt 8 ] ||
    fail "$(count 1) chunks were read and $(count 2) written directly"
"$pathloom" store gc --run "$work/plain" >"$work/gc.out" 2>&1 || fail "gc"
echo "$(count 1) chunks read, $(count 2) written directly; equal hashes"

serve shut shut
(take_data reference shut && train shut --set store.engine="$url") ||
    fail "a run whose service refuses signed URLs"
same shut
echo "without signed URLs all bytes pass through the home"

# Two homes. The home is killed when it reads what a worker wrote, and workers before they
# say so and before they submit; every 11th answer of the service is lost.
serve lossy lose=11
mkdir "$work/once"
(
    export PATHLOOM_FAILPOINT_ONCE="$work/once"
    export PATHLOOM_FAILPOINT="engine.get.before@home:kill:5,worker.direct.after@worker:kill:4,worker.submit.before@worker:kill:5"
    take_data reference lossy && train lossy --set store.engine="$url" --set store.homes=2
) || fail "a run whose processes are killed"
same lossy
[ "$(find "$work/once" -type f | wc -l)" -eq 3 ] || fail "not all fail points were reached"
[ "$(count 2)" -gt 8 ] || fail "only $(count 2) chunks were written directly"
echo "equal hashes after lost answers and three kills, with two homes"
