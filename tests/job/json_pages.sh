#!/bin/sh
# Tests that docs/JSON.md describes every field that a command prints with --json, in
# the section of this command. Every line that is printed must be one JSON object.
#
# usage: json_pages.sh PATHLOOM WORKFOLDER   (in the project's root)
set -u
. tests/support/job.sh
begin "$@"
checks=0

# Prints a section of the page, from its heading to the next heading.
section() { # heading
    awk -v heading="## $1" '/^## / { inside = $0 == heading } inside' docs/JSON.md
}

# Prints the names of the fields. Leaves out the members of objects whose names the user
# chooses.
fields() { # file
    sed 's/"\(ppl_by_domain\|metadata\|nats\)":{[^}]*}/"\1":0/g; s/\\"//g' "$1" |
        grep -o '"[a-z_0-9]*":' | tr -d '":' | sort -u
}

explained() { # heading, command: the section must describe the fields of its output
    heading=$1
    shift
    checks=$((checks + 1))
    "$@" --json >"$work/json" 2>"$work/verb.out" || fail "exit code $?: $*"
    [ -s "$work/json" ] || fail "nothing is printed: $*"
    ! grep -qv '^{.*}$' "$work/json" || fail "a line is not a JSON object: $*"
    section "$heading" >"$work/section"
    for field in $(fields "$work/json"); do
        grep -q "\`$field\`" "$work/section" ||
            fail "docs/JSON.md says nothing of \`$field\` below \`$heading\`: $*"
    done
}

verb() { # verb of the store, options: the same with the section of this verb
    explained "store $1" "$pathloom" store "$@" --run "$work/run"
}

# ---- while the job trains ----
make_corpus base docs
(PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:20 small_job run \
    --set train.tau=10 --set train.phases=4 --set train.base_steps=10 \
    --set store.keep_updates=true) >"$work/run.out" 2>&1 &
job=$!
training_begins run
modules_reach run 1
explained status "$pathloom" status --run "$work/run"
job_ends

# ---- a finished run ----
explained 'status --history' "$pathloom" status --history --run "$work/run"
verb ls
verb ls --paths
verb log L1.E0 --health
verb ls --objects
verb ls --refs
verb tag best
verb tag newest head
verb tag newest --delete
explained "store init" "$pathloom" store init --store "$work/empty"
explained "store tag" "$pathloom" store show best --run "$work/run"
explained "store tag" "$pathloom" store ls --tags --run "$work/run"
verb tag early 1
verb merge soup best early --weights 1,2
verb show soup.merged/L1.E0
verb verify soup
verb show L1.E0
verb log L1.E0
verb log soup.merged/L1.E0 --graph
verb stat
verb du
verb diff L1.E0@1 L1.E0@2
verb fsck
verb gc --grace 0
verb blame L1.E0
verb blame L1.E0 --history
verb blame L1.E0 --documents
verb verify L1.E0
verb verify L1.E0 --tasks
verb bisect --from 0 --to 2
verb backup "$work/backup"
verb restore "$work/backup"
verb push "$work/pushed" mix
verb pack
verb rollback mix --to 1
explained check "$pathloom" check --run "$work/run"
explained "data coverage" "$pathloom" data coverage --run "$work/run"
explained "data coverage" "$pathloom" data coverage --run "$work/run" --of base
explained export "$pathloom" export --run "$work/run" --path p00 --out "$work/hf"
explained import "$pathloom" import "$work/hf" --out "$work/base.yaml"
explained eval "$pathloom" eval --run "$work/run"
explained eval "$pathloom" eval --run "$work/run" --on docs/GLOSSARY.md --every 8
explained generate "$pathloom" generate --run "$work/run" --prompt int --max-tokens 2
explained generate "$pathloom" generate --run "$work/run" --prompt int --max-tokens 4 \
    --route-every 2
explained route "$pathloom" route --run "$work/run" --prompt int
explained observe "$pathloom" observe --run "$work/run"
explained doctor "$pathloom" doctor --run "$work/run"
explained status "$pathloom" status --run "$work/run"

refused 64 "has no option --json" "$pathloom" store cat L1.E0 --run "$work/run" --json
rm -rf "$work"
echo "docs/JSON.md describes the fields of $checks outputs"
