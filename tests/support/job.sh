# shellcheck shell=sh disable=SC2034,SC2154
# This file is sourced by scripts that run whole jobs. Such a script sets `pathloom`
# (the program) and runs in the project's root. If it must clean up more after a
# failure, it defines its own `fail`.
. tests/support/script.sh
stopped='' job=''

# Prints $1 and the last lines of all outputs, lets stopped processes continue, ends the
# job, and exits with 1. If the script has set `case`, prints only outputs of that case.
# With `in_logs`, also prints the last lines of all logs that match this pattern.
fail() {
    echo "FAILED${first_seed:+ (seed $first_seed)}: ${case:+$case: }$1"
    for log in "$work/${case:+$case.}"*.out; do
        [ ! -f "$log" ] || { echo "--- $log" && tail -n 15 "$log"; }
    done
    [ -z "${in_logs-}" ] || grep -h "$in_logs" "$work"/*/log/*.log | tail -n 20
    # shellcheck disable=SC2086 # $stopped may be several process ids
    [ -z "$stopped" ] || kill -CONT $stopped 2>/dev/null
    [ -z "$job" ] || { kill "$job" && pkill -CONT -P "$job"; } 2>/dev/null
    exit 1
}

# Makes a corpus of real text, which all runs of the script can use: the first 60 lines
# of each source and page in these folders of the project. With whole files, training
# the tokenizer and encoding the text take four times as long.
make_corpus() { # [--whole] folders
    lines=60
    [ "$1" != --whole ] || { lines=100000 && shift; }
    for folder in "$@"; do
        mkdir -p "$work/corpus/$folder"
        awk -v to="$work/corpus/$folder/" -v lines="$lines" '
            FNR == 1 { close(out); n = split(FILENAME, part, "/"); out = to part[n] }
            FNR <= lines { print >out }' "$folder"/*.[chm]*
    done
}

# Trains a 2x2 mixture of a small model. The launcher replaces the shell, so call this
# function in a subshell or in the background.
small_job() { # folder, options
    out=$1
    shift
    # shellcheck disable=SC2086 # $small_model is a list of words
    exec "$pathloom" train --corpus "$work/corpus" --out "$work/$out" --workers 2 $small_model "$@"
}

# Copies the token files of an earlier run, so that this run need not make them.
take_data() { # folder of that run, folder of this one
    mkdir -p "$work/$2"
    cp -r "$work/$1/data" "$work/$2/"
}

# Repeats the command until it succeeds. Fails with the first message after about this
# time, and with the second one if the job has ended.
await_in_job() { # seconds, message, message, command
    left=$(($1 * 20)) late=$2 ended=$3
    shift 3
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "$late"
        kill -0 "$job" 2>/dev/null || fail "$ended"
        sleep 0.05
    done
}

# Waits until the job has ended, which must be with exit code 0.
job_ends() { # message
    wait "$job" || fail "${1:-the job ends with $?}"
    job=''
}

# Waits until the hub knows the job's mixture and can therefore lease its tasks.
training_begins() { # folder
    await_in_job 120 "training into $1 does not begin" "training into $1 ended before it began" \
        grep -s 'arm.added arm=mix' "$work/$1/log/hub.log"
}

# Prints one line per module: its name, its version and its hash.
versions() { # options of store ls
    "$pathloom" store ls "$@" --json |
        sed -n 's/.*"module":"\([^"]*\)".*"version":\([0-9]*\).*"hash":"\([^"]*\)".*/\1 \2 \3/p'
}

# Writes the versions of a run into FOLDER.hashes.
hashes() { # folder
    "$pathloom" store ls --run "$work/$1" >"$work/$1.ls" || fail "store ls of $1"
    versions --run "$work/$1" >"$work/$1.hashes"
    [ -s "$work/$1.hashes" ] || fail "no module in $1"
}

# Waits until every module of the mixture has this version or a later one.
modules_reach() { # folder, version
    tries=1200
    until versions --run "$work/$1" |
        awk -v n="$2" '/^mix\// { all = 1; if ($2 < n) low = 1 } END { exit !all || low }'; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "the modules of $1 do not reach version $2"
        kill -0 "$job" 2>/dev/null || fail "training into $1 ended before version $2"
        sleep 0.2
    done
}

# A job is held by hub.grant.after@hub:stop:N or worker.step.before@worker:stop:N: then it
# cannot end before a slow script has seen what it waits for. The hub grants one task per
# path and phase, and one for the base model. It would grant tasks again whose leases have
# expired, and a worker ends whose hub is stopped for longer than its patience, so a held
# job has the options $patient. The hub of a run that continues first waits for at most 20 s
# until workers have renewed their leases.
patient="--set workers.ttl_ms=600000 --set workers.patience_s=3600"

# Lets these processes continue until the job has ended. Some may stop only now.
let_go() { # hub or worker
    while kill -0 "$job" 2>/dev/null; do
        pkill -CONT -P "$job" -f "pathloom $1" || :
        sleep 0.2
    done
}

# Ends a job that is held by its hub.
end_held_job() { # signal; returns the job's exit code
    kill "-$1" "$job"
    # otherwise the workers could do all remaining tasks before the job tells them to leave
    pkill -TERM -P "$job" -f "pathloom worker" || :
    let_go hub
    code=0
    wait "$job" || code=$?
    job=''
    return $code
}

# Writes into FOLDER.facts what must be equal in two runs: the version and the hash of
# each module, and the phase and the hash of the state of each path.
facts_of_run() { # folder
    for what in "" --paths; do
        # shellcheck disable=SC2086 # $what is empty or one word
        "$pathloom" store ls --run "$work/$1" $what --json >"$work/ls" ||
            fail "store ls of $1"
        sed -n 's/.*"\(module\|path\)":"\([^"]*\)","\(version\|phase\)":\([0-9]*\).*"\(hash\|moments\)":"\([^"]*\)".*/\2 \4 \6/p' \
            "$work/ls"
    done | sort >"$work/$1.facts"
    [ "$(grep -c '^mix/' "$work/$1.facts")" -gt 8 ] || fail "$1 has too few modules"
}

# Runs a command, which must succeed. The output goes to NAME.out.
passes() { # name, message if it fails, command
    (shift 2 && "$@") >"$work/$1.out" 2>&1 || fail "$2"
}

# Runs `pathloom store VERB`, which must succeed, and writes the output into verb.out.
store() { # verb, options
    verb=$1
    shift
    "$pathloom" store "$verb" "$@" >"$work/verb.out" 2>&1 || fail "store $verb $*"
}

refused() { # exit code, words that the error must contain, command
    code=$1 words=$2
    shift 2
    "$@" >"$work/refused.out" 2>&1
    got=$?
    [ $got -eq "$code" ] || fail "exit code $got instead of $code: $*"
    grep -q "$words" "$work/refused.out" || fail "no \`$words\`: $*"
}

# Sets `value` to a pseudo-random number below $1 and advances `seed`. Do not call this
# function in $(...): `seed` would advance only in the subshell, so every call would
# give the same number.
random() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    value=$(((seed / 65536) % $1))
}

# Sets `choice` to one of the arguments, drawn at random.
pick() {
    random $#
    shift "$value"
    choice=$1
}
