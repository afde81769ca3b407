#!/bin/sh
# Tests transfers between workers and the service that keeps a home's chunks
# (net/client_direct.c), with a small S3 server (s3_server.c). The versions and the states
# of paths must be those of a run in RocksDB: if everything works, if the service refuses
# signed URLs, and if answers are lost while workers and home are killed. No uploaded
# object may stay behind.
#
# usage: direct.sh PATHLOOM TESTS-BUILD-FOLDER WORKFOLDER
set -u
pathloom=$1
tests=$2
. tests/support/job.sh
own_folder "$3"
. tests/support/s3.sh

# Modules and states that are larger than the smallest blob that is moved directly.
train() { # folder, options
    run=$1
    shift
    small_job "$run" --set model.width=128 --set train.tau=2 --set train.phases=3 \
        --set train.base_steps=4 --set seed=3 "$@" >"$work/$run.out" 2>&1
}

same() { # folder
    facts_of_run "$1"
    cmp -s "$work/reference.facts" "$work/$1.facts" || fail "$1 differs from the run in RocksDB"
    "$pathloom" store fsck --run "$work/$1" >"$work/$1.fsck.out" 2>&1 || fail "fsck of $1"
    # A home that ends drops the uploads; what a killed one left is garbage.
    "$pathloom" store gc --run "$work/$1" --delete >"$work/$1.gc.out" 2>&1 || fail "gc of $1"
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
echo "$(count 1) chunks read, $(count 2) written directly; equal hashes"

# One path with modules of 19 MiB and a state of 80 MiB, which need several rounds.
large="--set topology.levels=1 --set model.width=640 --set model.context=32 --set train.batch=1
    --set train.tau=1 --set train.phases=2 --set train.base_steps=1 --set eval.max_tokens=100"
for engine in rocksdb "${url%%\?*}-large?${url#*\?}"; do
    out=large-${engine%%:*}
    # shellcheck disable=SC2086 # $large is several words
    (take_data reference "$out" && train "$out" $large --set store.engine="$engine") || fail "a run with large modules"
    versions --run "$work/$out" >"$work/$out.versions"
    "$pathloom" store ls --run "$work/$out" --paths --json | grep -o '"moments":"[^"]*"' >>"$work/$out.versions"
done
cmp "$work/large-rocksdb.versions" "$work/large-s3.versions" || fail "other large modules"
[ "$(wc -l <"$work/large-s3.versions")" -gt 4 ] && [ "$(count 2)" -gt 250 ] ||
    fail "$(count 2) chunks were written directly"
echo "$(count 2) chunks written with the large modules"

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
    export PATHLOOM_FAILPOINT="upload.pull.before@home:kill:3,worker.direct.after@worker:kill:4,worker.submit.before@worker:kill:5"
    take_data reference lossy && train lossy --set store.engine="$url" --set store.homes=2
) || fail "a run whose processes are killed"
same lossy
[ "$(find "$work/once" -type f | wc -l)" -eq 3 ] || fail "not all fail points were reached"
[ "$(count 2)" -gt 8 ] || fail "only $(count 2) chunks were written directly"
echo "equal hashes after lost answers and three kills, with two homes"

# The servers have ended, or end now.
exec 9>&-
wait
for name in plain lossy; do
    [ "$(cat "$work/$name.port.left")" = 0 ] || fail "$(cat "$work/$name.port.left") uploaded objects of $name stay behind"
done
