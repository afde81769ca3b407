#!/bin/sh
# Tests that `store bisect` finds the phase at which the loss on a text became worse.
# Here this is the phase of a rollback in the middle of the training.
#
# usage: bisect.sh PATHLOOM WORKFOLDER   (in the project's root)
set -u
. tests/support/job.sh
begin "$@"
make_corpus base docs outer
# shellcheck disable=SC2154 # own_folder sets it
run=$work/run

run_job() { # options
    small_job run --set train.tau=10 --set train.phases=14 --set train.base_steps=10 \
        --set train.lr=0.004 --set train.warmup=1 --set eval.max_tokens=0 \
        --set data.valid_share=0.08 "$@"
}
PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:41 run_job $patient >"$work/run.out" 2>&1 &
job=$!
training_begins run
modules_reach run 6
end_held_job INT
"$pathloom" store rollback mix --to 0 --run "$run" >"$work/back.out" 2>&1 || fail "rollback"
back=$(sed -n 's/^mix\/L1.E0@\([0-9]*\) is version 0 again.*/\1/p' "$work/back.out")
[ -n "$back" ] || fail "L1.E0 was not rolled back: $(cat "$work/back.out")"
(run_job --set workers.ttl_ms=2000) >"$work/run.out" 2>&1 || fail "the rest of the run"

found() { # options: prints "BEFORE AT", the two versions of the verdict
    store bisect --run "$run" --json "$@"
    sed -n 's/.*"before":\([0-9]*\),"at":\([-0-9]*\),.*/\1 \2/p' "$work/verb.out"
}
# The newest versions of the modules had different numbers before the rollback. So the
# rollback made one or several versions of each module, with numbers from `first` to
# `back`.
first=$back
for module in $(versions --run "$run" | sed -n 's/^\(mix\/[^ ]*\) .*/\1/p'); do
    number=$("$pathloom" store log "$module" --run "$run" --json |
        sed -n 's/.*"version":\([0-9]*\),.*"method":"rollback.*/\1/p' | sort -n | head -n 1)
    [ "$number" -ge "$first" ] || first=$number
done
names_rollback() { # options
    at=$(found "$@")
    before=${at% *} at=${at#* }
    [ "$at" -eq $((before + 1)) ] && [ "$at" -ge "$first" ] && [ "$at" -le "$back" ] ||
        fail "$before and $at instead of one of $first to $back: $*"
    grep -q '"module":"mix/.*","version":'"$at"',"method":"rollback to 0"' "$work/verb.out" ||
        fail "bisect does not name the rollback: $*"
}
echo "the rollback to version 0 is found, by domain, by file and between given ends"
names_rollback --domain base --to "$back"
names_rollback --on docs/GLOSSARY.md --from $((first - 1)) --to "$back"
names_rollback --from $((first - 3)) --to "$back"
[ "$(grep -c '"worse"' "$work/verb.out")" -le 5 ] || fail "more steps than a binary search has"
store bisect --run "$run" --from $((first - 3)) --to "$back"
[ -z "$(grep '^phase ' "$work/verb.out" | sort | uniq -d)" ] || fail "bisect prints a phase twice"
grep -q "became worse between phases" "$work/verb.out" || fail "bisect does not say between which phases the text became worse"

echo "if the loss on a text became smaller, bisect finds nothing"
[ "$(found --from 0 --to 3)" = '0 -1' ] || fail "bisect found a fault between phases 0 and 3"
store bisect --run "$run" --from 0 --to 3
grep -q 'did not become worse' "$work/verb.out" || fail "bisect does not say that the text did not become worse"

refused 66 'has the domain' "$pathloom" store bisect --domain nowhere --run "$run"
refused 64 'is not a chapter' "$pathloom" store bisect --arm base --run "$run"
refused 64 'needs --run' "$pathloom" store bisect --store "$run/store"
refused 66 'fewer than two phases' "$pathloom" store bisect --run "$run" --from 3 --to 3

echo "bisect names the workers whose updates made an unknown script less likely"
# The loss on such a text may also fall in some phases, so several ranges are tried.
for byte in 200 201 213 222 240 255 266 273 277 204 211 227 235 246 250 262; do
    printf '\344\270\'$byte'\345\221\'$byte'\346\260\'$byte
done >"$work/foreign.txt"
for from in 0 1 2 3 4 5; do
    set -- --run "$run" --on "$work/foreign.txt" --from $from --to $((from + 1))
    store bisect "$@" --json
    ! grep -q '"at":[1-9]' "$work/verb.out" || break
done
grep -q '"at":[1-9]' "$work/verb.out" || fail "bisect found no phase after which the unknown script is less likely"
sed -n 's/.*"module":"\(mix\/L1.E.\)".*"worker":"worker-.","path":\([0-3]\),.*/\1 \2/p' \
    "$work/verb.out" | sort -u >"$work/made"
[ "$(wc -l <"$work/made")" -ge 2 ] || fail "bisect names fewer than two contributors to versions of L1"
store bisect "$@"
grep -q '^mix/L1.E.@[0-9]* .* %  worker-.  p[01]*[.]r0 ' "$work/verb.out" || fail "bisect prints no contributor"
echo "bisect: all checks passed"
