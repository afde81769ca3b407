#!/bin/sh
# Tests every command of `pathloom store` on the store of a job: while the job trains,
# while it is stopped, and after it has continued from a rollback.
#
# usage: store_verbs.sh PATHLOOM WORKFOLDER
set -u
. tests/support/job.sh
begin "$@"
make_corpus base store docs
checks=0
run=long
trap '[ -z "$job" ] || kill "$job" 2>/dev/null' EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $1"
    tail -n 5 "$work/out" "$work/err" "$work/$run.log"
    exit 1
}

# expect CODE COMMAND ...: the command must end with this exit code; unless it is 0,
# stderr must have one sentence
expect() {
    wanted=$1
    shift
    checks=$((checks + 1))
    code=0
    timeout 120 "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" -eq "$wanted" ] || fail "$*: exit code $code instead of $wanted"
    [ "$code" -eq 0 ] || [ "$(grep -c '^pathloom: ' "$work/err")" -eq 1 ] ||
        fail "$*: stderr is not one sentence"
}

store() { # CODE VERB ...
    wanted=$1
    shift
    expect "$wanted" "$pathloom" store "$@" --run "$work/$run"
}

# Runs a command with --json. Every line of the output must be a JSON object.
store_json() {
    store 0 "$@" --json
    ! grep -qv '^{.*}$' "$work/out" || fail "store $*: a line is no object"
}

says() { # WORD
    grep -q -- "$1" "$work/out" "$work/err" || fail "the output does not say \`$1\`"
}

# The steps are slow enough for this script.
start_job() { # phases
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:100
    export PATHLOOM_FAILPOINT
    (train "$1") >"$work/$run.log" 2>&1 &
    job=$!
    unset PATHLOOM_FAILPOINT
}

train() { # phases
    small_job "$run" --set train.tau=4 --set train.phases="$1" --set train.base_steps=4 \
        --set store.keep_updates=true
}

end_job() {
    kill -INT "$job"
    wait "$job"
    job=
}

versions() { # the newest version of mix/L1.E0, or 0 if there is none
    "$pathloom" store ls mix/L1.E0 --run "$work/$run" --json 2>/dev/null |
        sed 's/.*"version":\([0-9]*\).*/\1/' | grep . || echo 0
}

wait_for_version() {
    for _ in $(seq 600); do
        [ "$(versions)" -ge "$1" ] && return
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    [ "$(versions)" -ge "$1" ] || fail "version $1 of mix/L1.E0 does not come"
}

# ---- while a long job trains ----
start_job 2000
wait_for_version 3
store_json tag early 2 --note "for the test"
store 0 tag heads head
store 0 log L1.E0@2
says '  tag early'
says ' p00.r0 '
for verb in ls "ls --objects" "ls --refs" "ls --paths" "ls --tags" "log L1.E0" \
    "show L1.E0@2" "show early" stat du "diff L1.E0@1 L1.E0@2" "diff early mix" \
    "blame L1.E0@2" "blame L1.E0 --history" "verify L1.E0" "verify L1.E0@2 --tasks" gc \
    "gc --grace 0" tag fsck; do
    store_json $verb
done
store 0 cat L1.E0@2 --format npy
[ "$(head -c 6 "$work/out" | tail -c 5)" = NUMPY ] || fail "cat does not write npy"
store 64 cat L1.E0@2 --json
store_json push "$work/pushed-too" mix
store_json backup "$work/backup-too"
expect 0 "$pathloom" store init --store "$work/made" --json
expect 0 "$pathloom" store pull "$work/$run/store" mix --store "$work/made" --json
expect 0 "$pathloom" store restore "$work/backup-too" --store "$work/made-too" --json
store 75 gc --delete
store 75 rollback mix --to early --json
expect 0 "$pathloom" homes list --run "$work/$run"
expect 75 "$pathloom" homes set 2 --run "$work/$run"
says "only while the job is stopped"
store 0 tag heads --delete
store 73 tag early
kill -0 "$job" || fail "the job ended before all verbs were tried"
end_job

# ---- a job is stopped, rolled back and continued ----
take_data long run
run=run
start_job 16
wait_for_version 4
end_job
before=$(versions)
[ "$before" -lt 16 ] || fail "the job was too fast to be stopped"
store 0 tag early 3
store 0 backup "$work/backup"
store 0 push "$work/pushed" mix
store 0 rollback mix --to early
says "continues with phase"
store 0 diff mix early
! grep -q 'changed *[1-9]' "$work/out" || fail "a rolled back version differs"
store_json fsck
(train 16) >"$work/run.log" 2>&1 || fail "training does not continue after a rollback"
[ "$(versions)" -eq 16 ] || fail "version $(versions) instead of 16 at the end"
store_json fsck
store 0 verify L1.E0
store 66 verify "L1.E0@$((before + 1))"
says "rollback to 3"

# ---- copies ----
store 0 backup "$work/backup"
expect 0 "$pathloom" store restore "$work/backup" --store "$work/restored"
"$pathloom" store ls --run "$work/$run" --json >"$work/a"
"$pathloom" store ls --store "$work/restored" --json >"$work/b"
cmp -s "$work/a" "$work/b" || fail "the restored store has other versions"
store 0 push "$work/pushed" mix
expect 0 "$pathloom" store fsck --store "$work/pushed"
expect 0 "$pathloom" store cat L1.E0@early --store "$work/pushed"
expect 0 "$pathloom" store rollback mix --to 2 --store "$work/restored"
expect 73 "$pathloom" store restore "$work/backup" --store "$work/restored"
expect 0 "$pathloom" store restore "$work/backup" --store "$work/restored" --force
expect 73 "$pathloom" store init --store "$work/restored"

# ---- `store gc` and `store pack` are killed before they end ----
store 0 pack
for _ in 1 2 3; do
    "$pathloom" store gc --delete --grace 0 --keep 1 --run "$work/$run" \
        >/dev/null 2>&1 &
    sleep "0.0$((checks % 7 + 2))"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    store_json fsck
done
store 0 gc --delete --grace 0 --keep 1
store 0 gc --grace 0 --keep 1
says "0 versions: 0 chunks"
store_json fsck
store 0 cat L1.E0@early
store 66 cat L1.E0@10
says 'garbage collection has deleted'
store 66 tag other 10
store 0 log L1.E0@10

# ---- an error about damage names the damaged thing ----
file=$(ls -S "$work"/restored/db/*.sst | head -n 1)
size=$(wc -c <"$file")
for i in 1 2 3 4 5 6 7 8; do
    printf 'damage!' | dd of="$file" bs=1 seek=$((size * i / 10)) conv=notrunc 2>/dev/null
done
expect 65 "$pathloom" store fsck --store "$work/restored"

# ---- wrong arguments ----
store 64 diff L1.E0
store 64 rollback mix
store 64 tag 7
for name in p01 a/b "caf$(printf '\303\251')" 'a b'; do
    expect 64 "$pathloom" store tag "$name" --run "$work/$run"
done
store 64 ls --keep 3
store 64 gc --keep 0
store 64 cat L1.E0 --format q
store 66 blame L9.E0
store 66 cat L1.E0 no.such.tensor
store 66 tag other 99

# ---- help, pages and completions ----
"$pathloom" store --man >"$work/man"
"$pathloom" --completion >"$work/completion"
for verb in init ls log show diff tag rollback gc fsck push pull blame \
    verify cat backup restore stat du; do
    expect 0 "$pathloom" store "$verb" --help
    grep -q "^\.SS \"$verb " "$work/man" || fail "no page about $verb"
    grep -qw "$verb" "$work/completion" || fail "the shell completion does not know $verb"
done

echo "store_verbs: $checks calls passed"
