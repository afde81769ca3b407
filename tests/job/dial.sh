#!/bin/sh
# Tests `train --for TIME`, `train --tokens N` and `train --link RATE`. The run must train
# with the printed keys. A key that the user sets must stay. A resumed run must keep its keys. A time
# that is too short must cause a warning, and bad values must be refused in one
# sentence.
#
# usage: dial.sh PATHLOOM WORKFOLDER
set -u
. tests/fault/chaos_job.sh
begin "$@"
cat docs/*.md base/*.[ch] modules/*.[ch] home/*.[ch] store/*.[ch] | head -c 1050000 >"$work/text.txt"
[ "$(wc -c <"$work/text.txt")" -gt 1000000 ] || fail "the corpus is too small for the dial"

# Prints a value of the run's configuration.
value_of() { # folder, key without its section
    sed -n "s/^ *$2: *\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$work/$1/run.yaml" | head -n 1
}

# Prints the value of a key that `train --for` has printed.
printed() { # folder, whole key
    sed -n "s/^         $2=\([^ ]*\) .*/\1/p" "$work/$1.out"
}

train() { # folder, arguments
    folder=$1
    shift
    "$pathloom" train --corpus "$work/text.txt" --out "$work/$folder" --workers 2 \
        --set eval.sample_tokens=0 "$@" >"$work/$folder.out" 2>"$work/$folder.err"
}

# Trains a run to its end. The user sets two of its keys.
train timed --for 8s --set train.batch=4 --set train.tau=5 ||
    fail "--for 8s: $(tail -n 1 "$work/timed.err")"
grep -q '^dial     8\.00s, of which .* are left; 2 workers: ' "$work/timed.out" || fail "no dial is printed"
for key in train.optimizer data.vocab model.width model.heads model.blocks topology.levels train.lr \
    train.base_steps train.phases eval.baselines; do
    own=$(printed timed "$key")
    [ -n "$own" ] || fail "$key is not among the chosen keys"
    case $key in
    eval.baselines | model.blocks) ;; # several sections have a key of this name
    train.lr) grep -q "^  lr: *$own\$" "$work/timed/run.yaml" || fail "$key is not $own" ;;
    *) [ "$(value_of timed "${key#*.}")" = "$own" ] || fail "$key is not $own in run.yaml" ;;
    esac
    grep -q "^         $key=[^ ]*  *[a-z0-9].* " "$work/timed.out" || fail "$key has no reason"
done
# Which of the two trains faster depends on the machine. `nproc` does not know all limits.
"$pathloom" doctor | grep -q ' processor  *1 processor[ ,]' ||
    [ -n "$(printed timed train.base_threads)$(printed timed train.base_replicas)" ] ||
    fail "neither train.base_threads nor train.base_replicas is among the chosen keys"
[ -z "$(printed timed train.batch)$(printed timed train.tau)" ] ||
    fail "a key that the user set was chosen"
[ "$(value_of timed batch)" = 4 ] || fail "train.batch=4 did not stay"
[ "$(value_of timed tau)" = 5 ] || fail "train.tau=5 did not stay"
grep -q '^dial     took .* planned: start .*, base model .*, routing .*, paths .*, evaluation' \
    "$work/timed.out" || fail "train does not print how long its parts took"
[ -s "$work/timed/report.json" ] || fail "there is no report"

# The same command again must use the keys that were chosen first.
cp "$work/timed/run.yaml" "$work/before.yaml"
train timed --for 8s --set train.batch=4 --set train.tau=5 || fail "the run does not resume"
grep -q 'the keys of this run were chosen before' "$work/timed.out" ||
    fail "the resumed run chooses again"
cmp -s "$work/before.yaml" "$work/timed/run.yaml" || fail "the resumed run has other keys"

train tokens --tokens 100k --set eval.max_tokens=2000 ||
    fail "--tokens 100k: $(tail -n 1 "$work/tokens.err")"
grep -q '^dial     100.0k tokens$' "$work/tokens.out" || fail "--tokens is not printed"
steps=$(printed tokens train.base_steps)
[ $((steps * 2 * 8 * 128)) -gt 75000 ] && [ $((steps * 2 * 8 * 128)) -lt 125000 ] ||
    fail "100k tokens became $steps steps of the base model"

# If a command is killed after it has read the text, the same command must continue with
# this text. The time is also too short for the smallest run.
# On a slow machine the kill may come after the command has chosen its keys and written
# run.yaml; then this is tried again.
for attempt in 1 2 3 4 5; do
    rm -rf "$work/short"
    train short --for 1s --set train.batch=2 --set eval.max_tokens=2000 &
    job=$!
    await_in_job 600 "the run makes no data" "the run ends without data" \
        test -e "$work/short/data/data.json"
    pkill -9 -P $job
    kill -9 $job 2>/dev/null
    wait $job
    sleep 0.5
    [ -e "$work/short/run.yaml" ] || break
    [ "$attempt" -lt 5 ] || fail "the command chooses its keys before it can be killed"
done
train short --for 1s --set train.batch=2 --set eval.max_tokens=2000 ||
    fail "the same command again: $(tail -n 1 "$work/short.err")"
grep -q '; prepared before, verified$' "$work/short.out" || fail "the text is read again"
grep -q '^note     the smallest run takes about .* more time than is left' "$work/short.out" ||
    fail "a time that is too short causes no warning"

# A link that is too slow for everything, and one that is fast enough. A key that the
# user sets stays, and a resumed run keeps its keys.
small="--set train.phases=2 --set train.tau=2 --set train.base_steps=2 --set data.vocab=512
    --set model.width=32 --set model.heads=2 --set model.blocks=2 --set eval.baselines=none"
# shellcheck disable=SC2086 # $small is several words
train slow --link 1kbit $small || fail "--link 1kbit: $(tail -n 1 "$work/slow.err")"
grep -q '^link     1kbit: a phase of a path has .* of steps (on this machine), and its .* take' \
    "$work/slow.out" || fail "--link does not say why"
grep -q '^ *so train.state_every=10 codec.name=i4 codec.residual=i8 codec.down=i8: ' \
    "$work/slow.out" || fail "--link 1kbit does not print its keys"
[ "$(value_of slow state_every)" = 10 ] || fail "train.state_every=10 is not in run.yaml"
[ "$(value_of slow down)" = i8 ] || fail "codec.down=i8 is not in run.yaml"
train slow --link 10000gbit || fail "the run with --link does not resume"
[ "$(value_of slow state_every)" = 10 ] || fail "--link changed the keys of a resumed run"
# shellcheck disable=SC2086 # $small is several words
train own --link 1kbit $small --set train.state_every=3 || fail "--link with an own key"
[ "$(value_of own state_every)" = 3 ] || fail "train.state_every=3 did not stay"
# shellcheck disable=SC2086 # $small is several words
train fast --link 10000gbit $small || fail "--link 10000gbit"
grep -q 'so no key changes$' "$work/fast.out" || fail "a fast link changes keys"
[ "$(value_of fast state_every)" = 1 ] || fail "--link 10000gbit changed train.state_every"

# For a bad value, checks the exit code, that stderr is one sentence, and that no folder
# was made.
refused() { # code, words of the sentence, arguments
    code=$1
    words=$2
    shift 2
    "$pathloom" train --out "$work/refused" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$code" ] || fail "$*: exit code $got, not $code: $(cat "$work/err")"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$*: not one line: $(cat "$work/err")"
    grep -q -- "$words" "$work/err" || fail "$*: $(cat "$work/err")"
    [ ! -e "$work/refused" ] || fail "$*: a folder is left"
}
for bad in abc 5 0s -1min 5parsecs nans; do
    refused 64 "--for takes a number with s, min or h, such as 90s or 15min, not .$bad" --for="$bad"
done
refused 64 "--tokens takes a number of tokens, such as 20M" --tokens some
refused 64 "--tokens takes a number of tokens, such as 20M" --tokens 0
refused 64 "give one of them" --for 20s --tokens 20M
refused 64 "--link takes the rate of a worker's link" --link 5
refused 64 "--dry-run measures nothing" --link 5mbit --dry-run
"$pathloom" init >"$work/own.yaml" || fail "init"
refused 64 "leave one of them out" "$work/own.yaml" --for 20s
refused 64 "leave one of them out" "$work/own.yaml" --link 5mbit
head -c 500000 "$work/text.txt" >"$work/small.txt"
refused 78 "500000 bytes of text, but --for and --tokens need at least 1 MB" \
    --for 20s --corpus "$work/small.txt"
echo "dial: ok"
