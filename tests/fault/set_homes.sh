#!/bin/sh
# Gives a stopped run other numbers of homes, and kills the command between any two of
# its writes. Whenever it is killed, the run has all its records, in the old homes or in
# the new ones, and the same command continues. The run ends with the versions of an
# undisturbed job.
#
# usage: set_homes.sh PATHLOOM LEDGER WORKFOLDER
set -u
. tests/fault/chaos_job.sh
begin_seeded "$@"
make_corpus base modules docs

train() { # run, options; in a subshell or in the background
    run=$1
    shift
    tiny_job "$run" --workers 2 --set store.keep_updates=true --set fleet.audit=0.5 "$@" \
        >"$work/$run.out" 2>&1
}

(train alone) || fail "the undisturbed job"
versions --run "$work/alone" >"$work/alone.versions"
[ "$(wc -l <"$work/alone.versions")" -gt 11 ] || fail "too few modules"

# Starts the job and stops it when every module has this version, but not later than
# after so many tasks and audits.
train_until() { # run, version, tasks, options
    run=$1 version=$2 tasks=$3
    shift 3
    PATHLOOM_FAILPOINT=hub.grant.after@hub:stop:$tasks train "$run" "$@" &
    job=$!
    training_begins "$run"
    modules_reach "$run" "$version"
    [ "$version" -gt 1 ] || refused 75 'only while the job is stopped' \
        "$pathloom" homes set 3 --run "$work/$run"
    end_held_job INT
}

# What the run has: modules, paths with their states, shards, tags, audits.
records() { # run
    facts_of_run "$1"
    {
        cat "$work/$1.facts"
        "$pathloom" store ls --run "$work/$1" --objects | sed 's/  *[^ ]* ago//'
        "$pathloom" audit --run "$work/$1"
    } >"$work/$1.records" || fail "reading $1"
}

set_homes() { # run, number
    passes verb "homes set $2" "$pathloom" homes set "$2" --run "$work/$1"
}

# Every home has modules, each is in one home, and nothing of the copy is left.
check_homes() { # run, number
    "$pathloom" homes list --run "$work/$1" --json >"$work/homes" || fail "homes list"
    [ "$(wc -l <"$work/homes")" -eq "$2" ] || fail "$1 has not $2 homes"
    grep -q '"names":\[\]' "$work/homes" && fail "a home of $1 has no name"
    [ ! -e "$work/$1/homes" ] || fail "the copy is left"
    grep -q "^store.homes: $2\$\|^  homes: $2\$" "$work/$1/run.yaml" ||
        fail "run.yaml does not have the number of homes"
    store fsck --run "$work/$1"
}

take_data alone run
train_until run 1 12 --set store.homes=2 $patient
records run
cp "$work/run.records" "$work/two.records"
facts run || fail "the facts of the run"

# The command is killed after each of its commits, and before and after the exchange.
old=0 new=0
kill_at() { # failpoint
    rm -rf "$work/killed"
    cp -r "$work/run" "$work/killed"
    PATHLOOM_FAILPOINT=$1 "$pathloom" homes set 3 --run "$work/killed" \
        >"$work/verb.out" 2>&1 && return 1
    homes=$("$pathloom" homes list --run "$work/killed" --json | wc -l)
    case $homes in
    2) old=$((old + 1)) ;;
    3) new=$((new + 1)) ;;
    *) fail "$homes homes after a kill at $1" ;;
    esac
    same_facts run killed || fail "after a kill at $1 the records differ"
    store fsck --run "$work/killed"
    set_homes killed 3
    check_homes killed 3
    same_facts run killed || fail "after the command was repeated, the records differ"
}
for nth in 1 2 5; do
    kill_at "kv.commit.after:kill:$nth" || fail "the command has too few commits"
done
kill_at fs.exchange.before:kill:1 || fail "the exchange was not reached"
kill_at fs.exchange.after:kill:1 || fail "the exchange was not reached"
[ $old -eq 4 ] && [ $new -eq 1 ] || fail "$old kills left the old homes, $new the new ones"
echo "whenever the command was killed, the run had the old homes or the new ones"

# If the command was killed after the exchange, `train` says what to do, or continues
# with the right number.
rm -rf "$work/killed"
cp -r "$work/run" "$work/killed"
PATHLOOM_FAILPOINT=fs.exchange.after:kill:1 "$pathloom" homes set 1 \
    --run "$work/killed" >"$work/verb.out" 2>&1
refused 78 'homes set 2 --run' "$pathloom" train --out "$work/killed"
(train killed --set store.homes=1) || fail "training after the kill"
versions --run "$work/killed" | cmp - "$work/alone.versions" ||
    fail "training after the kill ends with other versions"

# More homes, then one: each time the job trains on.
set_homes run 4
check_homes run 4
records run
cmp "$work/run.records" "$work/two.records" || fail "four homes have other records"
train_until run 3 18
records run
cp "$work/run.records" "$work/four.records"
set_homes run 1
check_homes run 1
records run
cmp "$work/run.records" "$work/four.records" || fail "one home has other records"
set_homes run 1
grep -q '; 0 names' "$work/verb.out" || fail "the same number was set by a second copy"
set_homes run 3
(train run) || fail "the end of the training"
check_homes run 3
versions --run "$work/run" | cmp - "$work/alone.versions" ||
    fail "the run ends with other versions than the undisturbed job"
"$pathloom" check --run "$work/run" >"$work/verb.out" || fail "check"
echo "a run with 2, 4, 1 and 3 homes ends with the versions of an undisturbed job"

for words in "set" "set 0" "set 17" "set x" "set 1 2" "add"; do
    # shellcheck disable=SC2086 # several words
    refused 64 'homes' "$pathloom" homes $words --run "$work/run"
done

# An error leaves no copy on the disk, which may be full.
PATHLOOM_FAILPOINT=kv.commit.before:error:4 "$pathloom" homes set 2 --run "$work/run" \
    >"$work/verb.out" 2>&1 && fail "the copy did not fail"
check_homes run 3

# A run that an earlier release made with another value of a deleted key.
cp "$work/run/run.yaml" "$work/run.yaml"
sed -i 's/^router:$/&\n  sharpen: 4/' "$work/run/run.yaml"
refused 78 'router.sharpen that was removed' "$pathloom" homes set 2 --run "$work/run"
cp "$work/run.yaml" "$work/run/run.yaml"
check_homes run 3

# A hub that was started by hand does not lock the run.
home=tcp://127.0.0.1:9
"$pathloom" hub --run "$work/run" --home $home --home $home --home $home \
    >"$work/hub.out" 2>&1 &
job=$!
await 60 "nobody writes run/proc/hub.address" test -s "$work/run/proc/hub.address"
refused 75 'hub.* still runs and must be stopped' "$pathloom" homes set 2 --run "$work/run"
kill "$job"
wait "$job"
job=
check_homes run 3

# The job was killed before any home made its store.
mkdir -p "$work/early/store"
cp "$work/run.yaml" "$work/early/"
cp "$work/run/store/PARTS" "$work/early/store/"
refused 66 'training has not begun' "$pathloom" homes set 2 --run "$work/early"
rm -r "$work/early/store"
set_homes early 2

# An earlier release added a home that has never run.
rm -rf "$work/killed"
cp -r "$work/run" "$work/killed"
set_homes killed 1
mv "$work/killed/store" "$work/one"
mkdir "$work/killed/store"
mv "$work/one" "$work/killed/store/home-1"
printf 'pathloom parts 1\n2 1\n' >"$work/killed/store/PARTS"
refused 65 'has never run.*--index 2' "$pathloom" homes set 3 --run "$work/killed"
refused 65 'has never run.*--index 2' "$pathloom" train --out "$work/killed"
"$pathloom" home --run "$work/killed" --index 2 >"$work/home.out" 2>&1 &
job=$!
await 60 "nobody writes killed/proc/home-2.address" test -s "$work/killed/proc/home-2.address"
kill "$job"
wait "$job"
job=
set_homes killed 3
check_homes killed 3
versions --run "$work/killed" | cmp - "$work/alone.versions" || fail "versions are lost"

mv "$work/run/store/home-2" "$work/disk"
ln -s "$work/disk" "$work/run/store/home-2"
refused 69 'is a link or a mount point' "$pathloom" homes set 2 --run "$work/run"
check_homes run 3
rm -rf "$work"
