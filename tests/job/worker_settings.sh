#!/bin/sh
# Tests with which settings a worker computes: its options override the configuration of
# the run, which overrides the defaults. The worker must print where each setting comes
# from.
#
# usage: worker_settings.sh PATHLOOM WORKFOLDER
set -u
. tests/support/script.sh
begin "$@"
mkdir "$work/run"

# Starts a worker with the address of a hub that does not exist. The worker prints its
# settings and gives up.
worker() { # options
    "$pathloom" worker --hub tcp://127.0.0.1:1 --name w --cache "$work/cache" "$@" \
        >"$work/ask.out" 2>&1
    code=$?
}

says() { # WORDS
    grep -q "worker.settings $1" "$work/ask.out" || fail "the worker does not print: $1"
}

worker --patience-s 3
says 'backend=auto precision=auto threads=1 recompute=false cache_bytes=512000000 patience_s=3 run=""'

cat >"$work/run/run.yaml" <<YAML
workers:
  backend: ref
  precision: f32
  threads: 2
  recompute: true
  cache: 64M
  patience_s: 3
YAML
worker --run "$work/run"
[ "$code" -eq 75 ] || fail "exit code $code"
says "backend=ref precision=f32 threads=2 recompute=true cache_bytes=64000000 patience_s=3 run=\"$work/run/run.yaml\""
grep -q 'within 3 s' "$work/ask.out" || fail "the worker did not wait for 3 s"

worker --run "$work/run" --backend cpu --precision f32 --threads 1 --cache-bytes 5 \
    --patience-s 4
says "backend=cpu precision=f32 threads=1 recompute=true cache_bytes=5 patience_s=4 run="

worker --run "$work/run" --precision bf16
[ "$code" -eq 69 ] || fail "ref took bf16: exit code $code"
grep -q bf16 "$work/ask.out" || fail "the error does not name the precision"

echo 'workers: {thread: 2}' >"$work/run/run.yaml"
worker --run "$work/run"
[ "$code" -eq 78 ] || fail "a wrong configuration: exit code $code"
grep -q "$work/run/run.yaml" "$work/ask.out" || fail "the error does not name the file"
echo "options of a worker override the run, and the run overrides the defaults"
rm -rf "$work"
