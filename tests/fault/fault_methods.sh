#!/bin/sh
# Tests every outer method and every codec while processes are killed.
#
# usage: fault_methods.sh PATHLOOM WORKFOLDER [KILLS [NAME ...]]
#
# Runs a job for each case (or only for the named ones) twice: undisturbed, and while
# KILLS (4) workers, hubs and homes are killed by kill -9 at random times in the mixture.
# All versions and all states of paths must have the same bytes in both runs. Under
# delayed-nesterov, and under noloco with a deadline, versions depend on timing
# (docs/DESIGN.md), so there is no undisturbed run. There each module must have every
# phase of every path exactly once. Under noloco also the mean of the holders must be the
# home's version.
#
# Most cases test a method and a codec together. diloco with f32 is tested so by
# fault_kill, and its topk, co2 with i4 and streaming with i4 by fault_repeat.
set -u
pathloom=$1
work=$2
kills=${3:-4}
[ $# -gt 3 ] && shift 3 || set --
names=" $* "
seed=$(date +%s)
echo "seed $seed"
n_cases=0
. tests/fault/chaos_job.sh
own_folder "$work"

make_corpus outer workers

run_job() { # folder, options; in a subshell, which becomes the launcher
    out=$1
    shift
    # the tokens are the same for all runs
    [ ! -d "$work/data" ] || take_data . "$out"
    tiny_job "$out" --set train.tau=9 --set model.context=16 "$@"
}

# Runs the job of the case while processes are killed. The hub stops after every fourth
# grant until the next kill, so the job cannot end before.
run_shot() { # options
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:5$(hub_stops 4 4) run_job "$case.shot" "$@" \
        >"$work/$case.shot.out" 2>&1 &
    job=$!
    training_begins "$case.shot"
    shots=0
    while [ "$shots" -lt "$kills" ] && kill -0 "$job" 2>/dev/null; do
        random 10
        sleep "0.0$value"
        kill_one_of "$job" worker worker worker hub home || continue
        shots=$((shots + 1))
        pkill -CONT -P "$job" -f 'pathloom hub'
    done
    let_go hub
    job_ends "the run whose processes were killed"
    [ "$shots" -ge "$kills" ] || fail "only $shots kills, $kills are asked for"
    facts_of_run "$case.shot"
    n_cases=$((n_cases + 1))
}

wanted() {
    [ "$names" = "  " ] || [ "${names#* "$case" }" != "$names" ]
}

same() { # name, options
    case=$1
    shift
    wanted || return 0
    passes "$case.calm" "the undisturbed run" run_job "$case.calm" "$@"
    [ -d "$work/data" ] || cp -r "$work/$case.calm/data" "$work/data"
    facts_of_run "$case.calm"
    run_shot "$@"
    diff "$work/$case.calm.facts" "$work/$case.shot.facts" ||
        fail "versions or states differ after $shots kills"
    echo "$case: the same bytes after $shots kills"
    rm -rf "$work/$case".*
}

# Each module must have each of the 6 phases of a path once. A phase has 9 steps or
# fewer, with 2 samples per step.
count_phases() {
    for module in $(sed -n 's,^\(mix/[^p][^ ]*\) .*,\1,p' "$work/$case.shot.facts"); do
        "$pathloom" store log "$module" --run "$work/$case.shot" --json |
            grep -o '"path":[0-9]*,"replica":[0-9]*,"phase":[0-9]*,"first_sample":[0-9]*,"n_samples":[0-9]*' |
            tr -c '0-9\n' ' ' | sort -n -k 1,1 -k 2,2 -k 4,4 |
            awk '
                $1 "." $2 != path { wrong += path != "" && n != 6
                                    path = $1 "." $2; n = 0 }
                { wrong += $4 != 18 * n || $5 < 1 || $5 > 18; n++ }
                END { exit n != 6 || wrong > 0 }' ||
            fail "$module does not have every phase once"
    done
}

once() { # name, options
    case=$1
    shift
    wanted || return 0
    run_shot "$@"
    count_phases
    echo "$case: every phase once after $shots kills"
    rm -rf "$work/$case".*
}

# If only one of two mates took the step of the pair, the mean of the holders would
# differ from the version of the home.
agrees() { # name, options
    case=$1
    shift
    wanted || return 0
    run_shot "$@"
    count_phases
    mean=$("$(dirname "$pathloom")/tests/holder_mean" "$work/$case.shot/store" mix) ||
        fail "the home is not the mean of its holders: $mean"
    echo "$case: every phase once after $shots kills; $mean"
    rm -rf "$work/$case".*
}

same iso-bf16 --set outer.method=iso --set codec.name=bf16
same heavy-ball-tagc --set outer.method=heavy-ball --set codec.name=tagc
same fedavg-topk-present --set outer.method=fedavg --set codec.name=topk \
    --set codec.value_bits=2 --set codec.beta=0.95 --set outer.mean=present
same three-homes --set store.homes=3 --set codec.name=i4 --set codec.down=i8
same co2-sketch16 --set outer.method=co2 --set codec.name=sketch16 \
    --set codec.residual=bf16
same co2-down --set outer.method=co2 --set codec.down=i4
same noloco-three-homes --set store.homes=3 --set outer.method=noloco
same noloco-odd --set outer.method=noloco --set codec.name=i8 --set topology.levels=3x1
same noloco-consensus --set outer.method=noloco --set outer.consensus=0.3 \
    --set codec.name=i8 --set topology.levels=4x1
streaming="--set outer.method=streaming --set outer.fragments=3 --set outer.overlap=2"
# shellcheck disable=SC2086 # $streaming is a list of words
{
    same streaming-down $streaming --set codec.down=bf16
    same streaming-kept $streaming --set codec.name=i4 --set codec.residual=i8 \
        --set outer.own=bf16
    same streaming-topk $streaming --set codec.name=topk --set outer.own=f24
}
agrees noloco-deadline --set outer.method=noloco --set outer.deadline_s=0.05
agrees noloco-deadline-two --set outer.method=noloco --set outer.deadline_s=0.2 \
    --set outer.consensus=0.3 --set topology.levels=3x1
once delayed-nesterov --set outer.method=delayed-nesterov --set codec.name=sketch16
once delayed-nesterov-dynamic --set outer.method=delayed-nesterov \
    --set outer.dynamic_steps=true --set codec.down=i8

case=end
nobody_is_left || fail "processes are left behind: $(left_behind)"
[ "$n_cases" -gt 0 ] || fail "no method or codec has a name that was given"
echo "$n_cases cases"
rm -rf "$work"
