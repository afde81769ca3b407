#!/bin/sh
# Tests topology.graft on a finished run. A level is cut, which must not change any bit
# of an answer. A module is copied, and a path and a module are dropped. --dry-run must
# print these changes without making them.
#
# usage: graft.sh PATHLOOM WORKFOLDER
# shellcheck disable=SC2034,SC2154 # some variables belong to chaos_job.sh
set -u
seed=1
. tests/fault/chaos_job.sh
begin "$@"
run=$work/run

long_job() { # options: trains one phase more
    succeeds "train $*" train --out "$run" --set train.phases=+1 "$@"
}

refused() { # sentence, options
    sentence=$1
    shift
    ask train --out "$run" --set train.phases=+1 "$@" && fail "not refused: $*"
    says "$sentence"
}

answers() { # tag: prints what the mixture generates at this tag, and its held-out loss
    "$pathloom" eval --run "$run" --json --at "$1" 2>/dev/null | tr ',{' '\n\n' |
        grep -E '^"(bits_per_byte|perplexity|nats)"'
    for rule in router likelihood; do
        "$pathloom" generate --run "$run" --at "$1" --route $rule --prompt "int main(" \
            --temperature 0 --max-tokens 12 2>/dev/null
    done
}

whole() { # runs the checks that must succeed after every change
    ask store fsck --run "$run" || fail "fsck: $(cat "$work/ask.out")"
    ask check --run "$run" || fail "check: $(cat "$work/ask.out")"
    ask data coverage --run "$run" || fail "coverage"
    ask eval --run "$run" --json || fail "eval"
    says '"finished": *true'
}

# The run has 2x2 modules in its levels: 4 embeddings, 4 heads, and 4 modules of the two
# levels.
make_corpus base modules docs
(tiny_job run --set model.blocks=4 --set topology.private= --set data.valid_share=0.3 --set eval.max_tokens=4000 --set train.phases=3 --set eval.curves=1 \
    --set outer.method=diloco --set train.weight_decay=0.1) >"$work/run.out" 2>&1 ||
    fail "the run"
ask store tag end 1 --run "$run" || fail "tag" # the rate falls in phases 1 and 2 of 3

echo "1. the plan"
cp "$run/run.yaml" "$work/run.yaml"
ask train --out "$run" --dry-run --set train.phases=+1 \
    --set topology.graft=3:drop:L2.E0 || fail "a dry run: $(cat "$work/ask.out")"
says '^change   mix~1 from phase 3 on: 12 modules and 4 paths become 7 and 2'
says '^         p00 ends; its [0-9]* documents go to the other paths'
says '^         p11 -> p10'
says '^         L2.E0 begins as a copy of L2.E1'
cmp "$work/run.yaml" "$run/run.yaml" || fail "a dry run changed run.yaml"
ask store ls --run "$run"
grep -q 'mix~1' "$work/ask.out" && fail "a dry run made modules"
ask train --dry-run --for 1min --out "$work/none"
[ $? -eq 64 ] || fail "--dry-run was accepted with --for, which must measure"
ask train --dry-run --corpus "$work/corpus" --out "$work/none" \
    --set topology.split=3:4x2 --set eval.baselines=none || fail "a dry run of a new run"
says '^         p10 -> p20 p30'
ask train --dry-run --corpus "$work/corpus" --out "$work/none" \
    --set topology.split=3:16x16 --set eval.baselines=none || fail "a dry run of 256 paths"
says '^         p11 -> p0808 .* p0915 and 48 more'
[ ! -e "$work/none" ] || fail "a dry run made a folder"
planned() { # options: prints the MiB of a home if each path has its own machine
    ask train --dry-run --corpus "$work/corpus" --out "$work/none" --workers 0 \
        --set workers.local=false --set eval.baselines=none "$@" ||
        fail "a dry run: $(cat "$work/ask.out")"
    sed -n 's/^ .* 1 home of \([0-9]*\)[.0-9]* MiB,.*/\1/p' "$work/ask.out"
}
few=$(planned --set topology.levels=1x4)
many=$(planned --set topology.levels=4x4 --set topology.graft=3:drop:L1.E1+L1.E2+L1.E3)
[ "$few" -gt 0 ] && [ "$many" -gt $((2 * few)) ] ||
    fail "12 of 16 paths end, and the plan has $many MiB; for 4 paths $few"

echo "2. a level is cut"
long_job --set topology.graft=3:cut:L1
says '^more     mix~1 continues mix after 1 of its 3 phases: 3 phases on the same shards'
says '^topology 12 modules and 4 paths of mix become 14 and 4 of mix~1'
grep -q '"paths":\["p000","p001","p110","p111"\]' "$run/router_map.json" ||
    fail "router_map.json has other names of paths: $(head -c 300 "$run/router_map.json")"
ask store tag cut 0 --run "$run" || fail "tag of phase 0: $(cat "$work/ask.out")"
answers end >"$work/end.txt"
answers cut >"$work/cut.txt"
[ "$(grep -c bits_per_byte "$work/end.txt")" -gt 0 ] || fail "no held-out loss"
cmp "$work/end.txt" "$work/cut.txt" || fail "the mixture answers differently after the cut"
for half in L1 L2; do # L1 had two of the four blocks; now L1 and L2 have one each
    ask store log "mix~1/$half.E1" --run "$run" || fail "log"
    says '^mix/L1.E1@1 '
    ask store log "mix~1/$half.E1" --graph --run "$run" || fail "graph"
    says 'mix/L1.E1@1 '
done
ask store log mix~1/L3.E1 --run "$run" || fail "log"
says '^mix/L2.E1@1 '
grep -q '^mix/L2.E1@[23] ' "$work/ask.out" && fail "the log lists versions after the one that was continued"
"$pathloom" store cat mix/L1.E1@1 --run "$run" >"$work/all"
"$pathloom" store cat mix~1/L1.E1@0 --run "$run" >"$work/parts"
"$pathloom" store cat mix~1/L2.E1@0 --run "$run" >>"$work/parts"
cmp "$work/all" "$work/parts" || fail "the two halves do not have the parameters of the module that was cut"
ask generate --run "$run" --path p110 --prompt int --max-tokens 2 || fail "generate with p110"
ask generate --run "$run" --path p010 --prompt int --max-tokens 2 && fail "generate accepts p010, which does not exist"
whole

echo "3. a module is copied"
[ "$(hash_of mix~1/L3.E0@1)" != "$(hash_of mix~1/L3.E1@1)" ] || fail "the modules of L3 did not become different"
long_job --set topology.graft=3:cut:L1,4:copy:L3.E0
says '^topology 14 modules and 4 paths of mix~1 become 19 and 6 of mix~2'
for pair in L3.E0:L3.E0 L3.E1:L3.E1 L3.E2:L3.E0 embed.E2:embed.E0 embed.E3:embed.E2; do
    now=mix~2/${pair%:*}@0 was=mix~1/${pair#*:}@1
    [ -n "$(hash_of "$now")" ] && [ "$(hash_of "$now")" = "$(hash_of "$was")" ] ||
        fail "$now is not $was"
done
whole

echo "4. a path and a module are dropped"
refused 'topology.graft' --set topology.graft=3:cut:L1,4:drop:L3.E0
long_job --set topology.graft=3:cut:L1,4:copy:L3.E0,5:drop:p001
says ' documents of 1 paths that end go to the other 5'
says '^topology 19 modules and 6 paths of mix~2 become 17 and 5 of mix~3'
ask generate --run "$run" --path p001 --prompt int --max-tokens 2 && fail "generate accepts p001, which was dropped"
whole
ask store log mix~2/embed.E1 --run "$run" || fail "log"
says 'ended; mix~3 continues without it'
long_job --set topology.graft=3:cut:L1,4:copy:L3.E0,5:drop:p001,6:drop:L3.E1
says '^topology 17 modules and 5 paths of mix~3 become 14 and 4 of mix~4'
[ "$(hash_of mix~4/L3.E1@0)" = "$(hash_of mix~3/L3.E2@0)" ] || fail "L3.E1 is not L3.E2"
ask route --run "$run" --prompt "int main(" || fail "route"
ask export --run "$run" --path p111 --out "$work/exported" || fail "export"
whole

# mix~2 and mix~5 both have six paths. The plan must use the documents of mix~5, whose
# router.json this run has; for the paths of mix~2 it must print no numbers.
long_job --set topology.graft=3:cut:L1,4:copy:L3.E0,5:drop:p001,6:drop:L3.E1,7:copy:L3.E0
ask train --out "$run" --dry-run --set train.phases=+1 \
    --set topology.graft=3:cut:L1,4:copy:L3.E0,5:drop:p001,6:drop:L3.E1,7:copy:L3.E0,8:drop:p111 ||
    fail "a dry run: $(cat "$work/ask.out")"
says '^         p001 ends; its documents go to the other paths'
says '^         p111 ends; its [0-9]* documents go to the other paths'

echo "5. a level is cut while the workers train, and only its first half is frozen"
take_data run live
(tiny_job live --set model.blocks=4 --set topology.private= --set data.valid_share=0.3 \
    --set eval.max_tokens=4000 --set train.phases=4 --set topology.graft=2:cut:L1 \
    --set train.freeze=2:L1) >"$work/live.out" 2>&1 || fail "a cut in a live run"
was=$run
run=$work/live
for module in L1.E0 L1.E1 L2.E0 L2.E1; do
    then=$(hash_of mix~1/$module@0) now=$(hash_of "mix~1/$module")
    [ -n "$then" ] && [ -n "$now" ] || fail "no version of mix~1/$module"
    frozen=no
    [ "$then" != "$now" ] || frozen=yes
    echo "$module frozen: $frozen"
done >"$work/frozen"
printf 'L1.E0 frozen: yes\nL1.E1 frozen: yes\nL2.E0 frozen: no\nL2.E1 frozen: no\n' |
    cmp - "$work/frozen" || fail "$(cat "$work/frozen")"
run=$was

echo "6. impossible changes are refused with one sentence"
was=3:cut:L1,4:copy:L3.E0,5:drop:p001,6:drop:L3.E1,7:copy:L3.E0
refused 'would end the last path' --set topology.graft=$was,8:drop:L1.E0+L1.E1
refused 'L9.E0 is neither a module nor a path' --set topology.graft=$was,8:drop:L9.E0
refused 'embed.E0 is not a module of a level' --set topology.graft=$was,8:drop:embed.E0
refused 'give a level of at least 2 blocks' --set topology.graft=$was,8:cut:L1
echo "the chapters of the mixture had 4, 4, 6, 5, 4 and 6 paths"
rm -rf "$work"
