#!/bin/sh
# Tests what `train` and `top` show on a small terminal. No number may be cut, the
# mixture must come first, lines that do not fit must be counted, and a killed process
# must be named. Skipped without script(1).
#
# usage: terminal.sh PATHLOOM WORKFOLDER
set -u
. tests/fault/chaos_job.sh
begin "$@"
command -v script >/dev/null || exit 77
make_corpus base modules docs

# Runs a program on a terminal of 60 columns and 16 rows. Its output goes to a file.
on_terminal() { # file, command
    TERM=xterm script -qfec "stty cols 60 rows 16; $2" "$1" </dev/null >/dev/null 2>&1
}

# Because of a fail point, steps are mostly sleep. So the mixture still trains while top
# runs.
PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:5 \
    on_terminal "$work/train.out" "'$pathloom' train --corpus '$work/corpus' --out '$work/run' \
    --workers 2 --set data.vocab=400 --set data.valid_share=0.1 --set model.width=32 \
    --set model.heads=2 --set model.blocks=2 --set model.context=32 --set train.batch=2 \
    --set topology.levels=4x4 --set train.tau=20 --set train.phases=4 \
    --set train.base_steps=8 --set router.prefix=8 --set eval.baselines=diloco \
    --set eval.max_tokens=200 --set eval.sample_tokens=0" &
job=$!
begins() {
    [ -s "$work/run/log/worker-1.log" ] && grep 'mix ' "$work/train.out"
}
await 120 "the mixture does not begin" begins
# `top` ends when the user types q. Here it gets no input, so it is ended by a signal
# after it has drawn the screen.
on_terminal "$work/top.out" "'$pathloom' top --run '$work/run'" &
top=$!
await 120 "top does not show the mixture" grep 'mix/p00' "$work/top.out"
pkill -TERM -f "pathloom top --run $work/run\$"
wait "$top"
pkill -KILL -f "pathloom worker --run $work/run --index 1( |\$)" || fail "there is no worker-1"
wait "$job" || fail "the job: $(tail -n 3 "$work/train.out")"

# Prints each screen as one line, without the codes that move the cursor.
plain() { # file
    sed 's/\x1b\[[0-9;?]*[A-Za-z]//g; s/\r//g' "$1"
}
plain "$work/train.out" | grep '^  mix .*phase' >"$work/lines" || fail "no line of the mixture"
awk 'length > 59' "$work/lines" | grep -q . && fail "a line is wider than the terminal"
grep -qv '\(p[0-9]* \([0-9]*\.[0-9][0-9][0-9]\|-\)  +[0-9]*\)$' "$work/lines" &&
    fail "cut in the middle: $(grep -v '+[0-9]*$' "$work/lines" | head -n 1)"
plain "$work/train.out" | grep -q 'worker-1 was killed (signal 9) and was started again' ||
    fail "train does not name the killed worker"
plain "$work/train.out" | grep -q 'loss 0\.000' && fail "a path that has not begun shows a loss"

plain "$work/top.out" >"$work/top"
grep -q '^\.\.\. and [0-9]* more paths' "$work/top" || fail "top does not count the paths that it does not show"
grep -q 'tasks failed [0-9]' "$work/top" || fail "top cuts a number off"
echo "60 columns and 16 rows are enough"
