#!/bin/sh
# Tests topology.graft: a mixture of 2x3 modules becomes one of 2x2 during training,
# because a module of level 2 and its paths are dropped. If the launcher is killed while
# the second chapter begins, the run must end with the same bytes as an undisturbed run.
# (tests/fault/split.sh kills other processes, too.)
#
# usage: drop.sh PATHLOOM CHAOS_LEDGER WORKFOLDER [SEED]
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
run=$work/calm

drop_job() { # folder; in a subshell or in the background
    tiny_job "$1" --set train.phases=4 --set topology.levels=2x3 \
        --set topology.graft=2:drop:L2.E1 --set eval.baselines=dense-eq
}

documents() { # head (first deal) or tail (last deal), N: prints the documents of N paths
    grep '^ *p[0-9]* *[0-9]* documents, ' "$work/calm.out" | "$1" -n "$2" |
        awk '{ n += $2 } END { print n }'
}

log_names() { # module: prints the versions in its log
    ask store log "$1" --run "$run" || fail "log of $1"
    sed -n 's/^\(mix[^ ]*@[0-9]*\) .*/\1/p' "$work/ask.out" | tr '\n' ' '
}

make_corpus base modules docs
# With a few long documents the shards could not have about the same size.
for file in "$work"/corpus/*/*; do
    head -c 8000 "$file" >"$work/short" && mv "$work/short" "$file"
done

echo "1. undisturbed"
(drop_job calm) >"$work/calm.out" 2>&1 || fail "the undisturbed run"
for said in '^change   mix~1 from phase 2 on: 17 modules and 6 paths become 12 and 4' \
    '^         p01 ends; its documents go to the other paths' '^         p02 -> p01$' \
    '^         L2.E1 begins as a copy of L2.E2$' \
    '^topology 17 modules and 6 paths of mix become 12 and 4 of mix~1' \
    ' documents of 2 paths that end go to the other 4 paths$' \
    'one machine, 5 x the time'; do # (6 paths * 2 phases + 4 * 2) / 4 phases
    grep -q "$said" "$work/calm.out" || fail "train does not say '$said'"
done
[ "$(documents head 6)" -gt 0 ] && [ "$(documents head 6)" = "$(documents tail 4)" ] ||
    fail "$(documents head 6) documents became $(documents tail 4)"
# Without router.balance (0.1) the largest shard would be 1.6 times the mean.
grep -q '^router   split, largest shard 1\.[01]' "$work/calm.out" ||
    fail "the documents that moved are not balanced"
facts calm || fail "the store of the undisturbed run cannot be read, or has too few versions"
ask store fsck --run "$run" || fail "fsck"
ask check --run "$run" || fail "check"
ask data coverage --run "$run" || fail "coverage"
[ "$(grep -c '^mix~1/p' "$work/ask.out")" -eq 4 ] || fail "not four paths"
ask eval --run "$run" --json || fail "eval"
says '"finished": *true'
ask generate --run "$run" --prompt "The path" --max-tokens 4 --path p11 || fail "generate"
ask generate --run "$run" --prompt "The path" --max-tokens 4 --path p12 &&
    fail "generate accepts p12, which was dropped"
ask store verify mix~1/L2.E1@2 --tasks --run "$run" || fail "the tasks of mix~1/L2.E1@2 give a different hash"

# The modules that remain must begin with the last versions of their predecessors. The
# other modules have ended.
for pair in L1.E0:L1.E0 L1.E1:L1.E1 L2.E0:L2.E0 L2.E1:L2.E2 embed.E1:embed.E2 \
    embed.E3:embed.E5 head.E2:head.E3; do
    now=mix~1/${pair%:*}@0 was=mix/${pair#*:}@2
    [ -n "$(hash_of "$now")" ] && [ "$(hash_of "$now")" = "$(hash_of "$was")" ] ||
        fail "$now is not $was"
done
[ "$(log_names mix~1/L2.E1)" = "mix~1/L2.E1@2 mix~1/L2.E1@1 mix~1/L2.E1@0 \
mix/L2.E2@2 mix/L2.E2@1 mix/L2.E2@0 " ] ||
    fail "the log of L2.E1 is $(log_names mix~1/L2.E1)"
grep -q 'continues without it' "$work/ask.out" && fail "the log of mix~1/L2.E1 says that the module ended"
[ "$(log_names mix/L2.E1)" = "mix/L2.E1@2 mix/L2.E1@1 mix/L2.E1@0 " ] ||
    fail "the log of a module that ended is $(log_names mix/L2.E1)"
[ "$(grep -c 'ended; mix~1 continues without it' "$work/ask.out")" -eq 1 ] ||
    fail "the log of mix/L2.E1 does not say that the module ended"
ask store show mix/L2.E1 --json --run "$run" && says '"ended": *"mix~1"'

echo "2. killed"
kills=0
take_data calm shot
dies_at chapter.modules.before@train shot drop_job shot
dies_at chapter.arm.before@train shot drop_job shot
(drop_job shot) >"$work/shot.out" 2>&1 || fail "it does not continue"
same_facts calm shot || fail "the bytes differ after $kills kills"
run=$work/shot
ask check --run "$run" || fail "check after $kills kills"

echo "6 paths, 4 paths; $(grep -c '^version' "$work/calm.facts") versions equal after $kills kills"
rm -rf "$work"
