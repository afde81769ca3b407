#!/bin/sh
# Tests the views of a running job: `status`, `top`, and /metrics, which promtool
# checks.
#
# usage: watch.sh PATHLOOM WORKFOLDER SERVE_ODD
#
# Home, hub and worker are started by hand, with encryption, and train a small job.
# Without curl the test is skipped (77). Without promtool the metrics are not checked,
# and a line says so.
set -u
. tests/support/script.sh
needs curl
begin "$@"
mkdir "$work/corpus"
cp base/*.[ch] "$work/corpus/"
. tests/support/by_hand.sh

"$pathloom" key new "$work/x.key" >/dev/null || fail "key new"
start home "$pathloom" home --run "$work/run" --listen "tcp://0.0.0.0:*" --log-json
first_home=$pid
# If another process has the port, the hub ends with 75.
port=$((20000 + $$ % 12000))
hub_begins() {
    [ -s "$work/run/proc/hub.address" ] && return
    [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && return 1
    port=$((port + 1))
    : >"$work/hub.out"
    start hub "$pathloom" hub --run "$work/run" --listen "tcp://0.0.0.0:*" --log-json \
        --metrics "127.0.0.1:$port" --set workers.ttl_ms=600000
    return 1
}
pid=
await 600 "no hub" hub_begins
# Steps are slow, and the workers stop in the middle of a task until this script has seen
# all, so that the job does not end before.
pause=worker.step.before:sleep:10,worker.step.before:stop:170
start worker env PATHLOOM_FAILPOINT=$pause \
    "$pathloom" worker --run "$work/run" --name by-hand --patience-s 3600 --log-json --verbose
workers=$pid
start other env PATHLOOM_FAILPOINT=$pause \
    "$pathloom" worker --run "$work/run" --name other --patience-s 3600 --log-json --verbose
workers="$workers $pid"
# shellcheck disable=SC2086 # $small_model is a list of words
start train "$pathloom" train --corpus "$work/corpus" --out "$work/run" $small_model \
    --set net.attach=true --set train.tau=25 --set train.phases=10 --set train.base_steps=50 \
    --set outer.method=noloco --set eval.max_tokens=2000
job=$pid
busy() {
    curl -sf "http://127.0.0.1:$port/metrics" >"$work/metrics" &&
        grep -q '^pathloom_worker_tasks_total{worker="by-hand"} [1-9]' "$work/metrics" &&
        grep -q '^pathloom_store_bytes{home="tcp://.*} [1-9]' "$work/metrics"
}
await 600 "no task or store in the metrics" busy
"$3" crowd 127.0.0.1 "$port" 300 /metrics >"$work/crowd.out" ||
    fail "silent connections keep others from the metrics"
[ "$(curl -s -o "$work/answer" -w '%{http_code}' -H 'Host: evil.example' "http://127.0.0.1:$port/metrics")" = 403 ] ||
    fail "a foreign Host may read the metrics"
for name in build_info up_seconds tokens_total train_loss module_version store_bytes \
    updates_total worker_up lease_age_seconds; do
    grep -q "^# TYPE pathloom_$name " "$work/metrics" || fail "no pathloom_$name"
done
if command -v promtool >/dev/null; then
    promtool check metrics <"$work/metrics" || fail "promtool"
    echo "promtool: $(grep -vc '^#' "$work/metrics") samples are correct"
else
    echo "metrics judged by promtool: not on this machine"
fi
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/x")" = 404 ] ||
    fail "an unknown page does not get 404"
curl -sf "http://127.0.0.1:$port/metrics.json" | grep -q '"encrypted":true' ||
    fail "metrics.json does not say that the job is encrypted"
"$pathloom" status --run "$work/run" --json >"$work/status.json"
grep -q '"doing":"\(training\|fetching\|sending\|waiting\)"' "$work/status.json" &&
    grep -q '"bytes_up":[0-9].*"reconnects":0' "$work/status.json" ||
    fail "status --json does not say what the workers do and what their links carry"
"$pathloom" status --run "$work/run" --json | grep -q '"homes":\[{.*"store_bytes":[1-9]' ||
    fail "status --json does not show the bytes of the stores"
# After the base model has ended and before the mixture begins, `top` has no path to
# show.
shows_path() {
    "$pathloom" top --run "$work/run" >"$work/top" && grep -q "^by-hand" "$work/top" &&
        grep -q "^mix/p\|^base/p" "$work/top"
}
await 600 "top does not show the worker and a path" shows_path

# `doctor` must find no fault. When other users can read a key file, it must report it.
"$pathloom" doctor --run "$work/run" >"$work/doctor" || fail "doctor: $(cat "$work/doctor")"
grep -q "^ok    key .*hub.key is in the list" "$work/doctor" || fail "doctor does not report the key of the hub as ok"
grep -q "^ok    gpu " "$work/doctor" || fail "doctor does not report the GPUs as ok: $(cat "$work/doctor")"
grep -q "^ok    gpu memory  a worker .* for activations of " "$work/doctor" ||
    fail "doctor and a GPU's memory: $(cat "$work/doctor")"
chmod 644 "$work/run/keys/admin.key"
"$pathloom" doctor --run "$work/run" >"$work/doctor" && fail "doctor accepts a key that others can read"
grep -q "^fail  key .*chmod 600" "$work/doctor" || fail "doctor names no remedy"
chmod 600 "$work/run/keys/admin.key"

# With the key of an inspector a client can read, and nothing else.
token=$("$pathloom" key invite --run "$work/run" --role inspector) || fail "invite"
"$pathloom" join "${token#pathloom join }" --key "$work/eye.key" >"$work/join.out" 2>&1 ||
    fail "join with the invitation of an inspector"
hub=$(cat "$work/run/proc/hub.address")
"$pathloom" status --hub "$hub" --key "$work/eye.key" >/dev/null || fail "status with the key of an inspector"
"$pathloom" observe --hub "$hub" --key "$work/eye.key" --event lease. >"$work/events" &&
    grep -q "lease.granted.*worker=by-hand" "$work/events" ||
    fail "observe does not show the log of the hub to an inspector"
mkdir "$work/tmp"
start page env TMPDIR="$work/tmp" "$pathloom" page --hub "$hub" --key "$work/eye.key" \
    --listen "127.0.0.1:*" --ready "$work/page.at"
page=$pid
await 200 "no page" test -s "$work/page.at"
# The page asks the hub while a browser listens.
curl -sN "http://$(cat "$work/page.at")/events" >/dev/null 2>&1 &
children="$children $!"
shows_job() {
    curl -sf "http://$(cat "$work/page.at")/state.json" | grep -q '\["by-hand"' &&
        curl -sf "http://$(cat "$work/page.at")/history" | grep -q '"worker.joined"'
}
await 600 "the page of an inspector does not show workers and events" shows_job
"$pathloom" page --hub "$hub" --key "$work/eye.key" --report "$work/x.html" >"$work/report.out" 2>&1
[ $? -eq 64 ] || fail "page --report with --hub"
kill "$page"
wait "$page"
[ -z "$(ls "$work/tmp")" ] || fail "the page left files in its temporary folder"
"$pathloom" worker --hub "$hub" --key "$work/eye.key" >"$work/eye.out" 2>&1
[ $? -eq 77 ] || fail "a worker with the key of an inspector was accepted"
grep -q "role inspector may not send" "$work/eye.out" || fail "the refused worker does not say why"

has_ended() {
    # shellcheck disable=SC2086 # two process ids
    kill -CONT $workers
    ! kill -0 "$job"
}
await 1800 "the job does not end" has_ended
wait "$job" || fail "the job"
grep -q '"event":"mate.met"' "$work/worker.out" "$work/other.out" ||
    fail "no worker met another one"
for name in home hub worker other; do # each line is one JSON object with time, level, event
    grep -v '^{"time":"[^"]*","level":"[a-z]*","role":"[^"]*","event":"[a-z.]*"' \
        "$work/$name.out" && fail "$name: a line is not an event"
done

# A home that has seen a newer list of keys does not start with an old copy of it.
cp "$work/run/keys/allow" "$work/allow"
"$pathloom" key invite --run "$work/run" --hub "$hub" >"$work/invite.out" 2>&1 ||
    fail "a second invitation"
wait "$first_home" || fail "the home did not end with the job"
start later "$pathloom" home --run "$work/run" --listen "tcp://0.0.0.0:*" --log-json
await 600 "the home does not start again" grep -q '"home.ready"' "$work/later.out"
kill "$pid"
wait "$pid"
cp "$work/allow" "$work/run/keys/allow"
"$pathloom" home --run "$work/run" --listen "tcp://0.0.0.0:*" >"$work/old.out" 2>&1
code=$?
# 75 would make the launcher, systemd and Slurm start it again and again.
[ $code -eq 78 ] || fail "exit code $code instead of 78 of a home with an old list of keys"
grep -q 'keys/allow) is an older copy' "$work/old.out" || fail "the home does not say that the list is old"

# A killed job has left the address of its hub. While the next job still reads its text, it
# has no hub, and nobody may say that its hub hangs: 66, which a probe can tell from 75.
mkdir -p "$work/next/proc" && mkfifo "$work/text"
printf tcp://127.0.0.1:1 >"$work/next/proc/hub.address"
exec 3<>"$work/text"
start next "$pathloom" train --corpus - --out "$work/next" <"$work/text"
await 600 "the next job does not begin" grep -q '^pathloom .* run ' "$work/next.out"
"$pathloom" status --run "$work/next" >"$work/status.out" 2>&1
code=$?
[ $code -eq 66 ] || fail "status of a job that has no hub yet: exit code $code instead of 66"
kill "$pid"
echo "metrics, status, top and logs: all checks passed"
