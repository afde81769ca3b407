#!/bin/sh
# Tests held-out curves while a job trains (eval.curves). They must appear in status,
# top and metrics, and as TensorBoard event files (eval.tensorboard). Curves must not
# change any module. They must be the same after a launcher and a worker were killed,
# and after the end of an event file was cut off.
#
# usage: curves.sh PATHLOOM WORKFOLDER
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
seed=1
. tests/fault/chaos_job.sh
begin "$@"
job=''
needs python3

# All held-out documents are scored before each phase.
curves_job() { # folder, options
    folder=$1
    shift
    tiny_job "$folder" --set eval.curves=100 --set eval.tensorboard=true \
        --set data.valid_share=0.05 --set eval.baselines=dense --set eval.max_tokens=0 "$@"
}

# Prints all scalars that depend neither on the time nor on the worker.
read_curves() { # folder -> folder.curves
    for file in "$work/$1"/tensorboard/*/*/events.out.tfevents.*; do
        name=${file#"$work/$1"/tensorboard/}
        python3 tests/job/read_events.py "$file" >"$work/scalars" || return 1
        sed "s|^|${name%/*} |" "$work/scalars"
    done | grep -v 'tokens_per_second\|memory_bytes\|worker_' >"$work/$1.curves"
}

steps() { # folder, file, tag
    sed -n "s|^$2 \([0-9]*\) $3 .*|\1|p" "$work/$1.curves" | tr '\n' ' '
}

value() { # folder, file, step, tag
    sed -n "s|^$2 $3 $4 ||p" "$work/$1.curves"
}

near() { # number, number, distance: true if the numbers differ by less
    [ -n "$1" ] && [ -n "$2" ] && awk "BEGIN { d = $1 - $2; exit !(d < $3 && d > -$3) }"
}

# The files are short, so that the text for the curves contains all held-out documents.
make_corpus base modules docs
for file in "$work"/corpus/*/*; do
    head -c 600 "$file" >"$work/short" && mv "$work/short" "$file"
done
(curves_job calm) >"$work/ask.out" 2>&1 || fail "the job"
read_curves calm || fail "the files cannot be read"

# Each phase has one point, in order. A point of the training curve is at the step where
# the phase ended. A point of the held-out curve is at the step where the phase began. A
# task of a dense arm has several phases.
[ "$(steps calm mix/train train/loss)" = "4 8 12 16 20 24 " ] ||
    fail "the training curve of the mixture: $(steps calm mix/train train/loss)"
[ "$(steps calm mix/held-out held-out/bits_per_byte)" = "0 4 8 12 16 20 " ] ||
    fail "the held-out curve of the mixture: $(steps calm mix/held-out held-out/bits_per_byte)"
[ "$(steps calm dense/held-out held-out/bits_per_byte)" = "0 12 " ] ||
    fail "the held-out curve of dense: $(steps calm dense/held-out held-out/bits_per_byte)"
[ "$(grep -c '^mix/train 24 path_loss/p[01][01].r0 ' "$work/calm.curves")" -eq 4 ] ||
    fail "the training curve does not have four paths"
for tag in train/loss train/gradient_norm train/tokens; do
    [ -n "$(steps calm base/train $tag)" ] || fail "the base model has no $tag"
done
python3 tests/job/read_events.py "$work"/calm/tensorboard/mix/train/* >"$work/scalars"
for tag in worker_loss worker_tokens_per_second worker_gradient_norm worker_memory_bytes; do
    grep -q " $tag/worker-[123] [0-9]" "$work/scalars" || fail "no worker has $tag"
done

# Both arms begin with the base model. So their first points must equal the launcher's
# evaluation of the base model on the same documents.
base=$(value calm base/evaluation 8 evaluation/bits_per_byte)
for arm in mix dense; do
    near "$(value calm $arm/held-out 0 held-out/bits_per_byte)" "$base" 0.001 ||
        fail "$arm begins at $(value calm $arm/held-out 0 held-out/bits_per_byte), not $base"
done
# The mixture must learn.
near "$(value calm mix/held-out 20 held-out/bits_per_byte)" "$base" 0.1 &&
    fail "the held-out text of the mixture does not change"

# The last loss of a path must be the one in the store.
"$pathloom" store ls --paths mix/p01 --run "$work/calm" --json >"$work/ask.out"
near "$(value calm mix/train 24 path_loss/p01.r0)" \
    "$(sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$work/ask.out")" 0.001 || fail "the loss of mix/p01"

# Without curves, every module must have the same bytes, and no event files may be
# written.
take_data calm none
(tiny_job none --set data.valid_share=0.05 --set eval.curves=0 --set eval.baselines=dense) >"$work/ask.out" 2>&1 ||
    fail "the job without curves"
hashes calm
hashes none
[ "$(grep -c '^mix/' "$work/calm.hashes")" -ge 6 ] || fail "no hashes"
diff "$work/calm.hashes" "$work/none.hashes" || fail "curves change modules"
[ ! -e "$work/none/tensorboard" ] || fail "event files were written without eval.tensorboard"

# Kills a worker while it scores held-out text. Kills the launcher while the mixture
# trains, and cuts off the end of an event file.
take_data calm shot
mkdir "$work/once"
(
    # One worker stops in the middle of a task, so the job cannot end before the kill.
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:150,worker.held.before@worker:kill:9,worker.step.before@worker:stop:18
    PATHLOOM_FAILPOINT_ONCE=$work/once
    export PATHLOOM_FAILPOINT PATHLOOM_FAILPOINT_ONCE
    curves_job shot $patient --set fleet.backup=off
) >"$work/ask.out" 2>&1 &
job=$!
has_fields() { # each with a value that is not 0
    for field; do
        grep -q "\"$field\":[0-9.]*[1-9]" "$work/status" || return 1
    done
}
mixture=$work/shot/tensorboard/mix/held-out/events.out.tfevents.0000000000.pathloom
has_curve() {
    [ -s "$mixture" ] &&
        "$pathloom" status --run "$work/shot" --json >"$work/status" 2>/dev/null &&
        grep -q '"arm":"mix".*"held_out_bits_per_byte"' "$work/status" &&
        has_fields gradient_norm memory_bytes held_out_phase
}
await_in_job 120 "no curve of the mixture while it trains" \
    "the job ended before its curve was seen" has_curve
"$pathloom" status --run "$work/shot" | grep -q 'mix .*held-out text [0-9.]* bits/byte' ||
    fail "status has no held-out text"
"$pathloom" top --run "$work/shot" </dev/null |
    grep -q 'mix .*held-out text [0-9.]* bits/byte after phase' || fail "top has no held-out text"
kill -KILL "$job"
wait "$job" 2>/dev/null
job=''
[ -e "$work/once/worker.held.before@worker" ] || fail "no worker was killed while it scored"
cp "$mixture" "$work/torn"
printf 'torn' >>"$mixture"
(curves_job shot) >"$work/ask.out" 2>&1 || fail "the job after the kill"
read_curves shot || fail "the files after the kill cannot be read"
diff "$work/calm.curves" "$work/shot.curves" >"$work/ask.out" || fail "the curves differ from those of the undisturbed job"
cmp -n "$(wc -c <"$work/torn")" "$work/torn" "$mixture" ||
    fail "what was written before the kill has changed"
versions --run "$work/shot" | diff "$work/calm.hashes" - || fail "the modules differ after the kills"
rm -rf "$work"
