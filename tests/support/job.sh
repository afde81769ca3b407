# shellcheck shell=sh disable=SC2034,SC2154
# Sourced by the scripts that run whole jobs. They set pathloom, and stand in the
# project's root. A script with more to say or to undo defines a `fail` of its own.
stopped='' job=''

# Sets work: an empty folder of this script's.
own_folder() { # folder
    work=$1
    [ "${work#/}" != "$work" ] || work=$PWD/$work
    rm -rf "$work"
    mkdir -p "$work"
}

# Ends the script, what it had started and what it had stopped. One that goes through
# cases shows the logs of this one.
fail() {
    echo "FAILED${first_seed:+ (seed $first_seed)}: ${case:+$case: }$1"
    for log in "$work/${case:+$case.}"*.out; do
        [ ! -f "$log" ] || { echo "--- $log" && tail -n 15 "$log"; }
    done
    [ -z "$stopped" ] || kill -CONT "$stopped" 2>/dev/null
    [ -z "$job" ] || kill "$job" 2>/dev/null
    exit 1
}

# Real text, the same for all runs: this project's own sources.
make_corpus() { # folders
    for folder in "$@"; do
        mkdir -p "$work/corpus/$folder"
        cp "$folder"/*.[chm]* "$work/corpus/$folder/"
    done
}

# A mixture 2x2 of a small model. Becomes the launcher, so call it in a subshell or in
# the background.
small_job() { # folder, options
    out=$1
    shift
    exec "$pathloom" train --corpus "$work/corpus" --out "$work/$out" --workers 2 \
        --set data.vocab=512 --set data.valid_share=0.1 --set model.width=48 \
        --set model.heads=2 --set model.blocks=2 --set model.context=64 \
        --set train.batch=4 --set router.prefix=16 --set eval.baselines=none \
        --set eval.max_tokens=500 --set eval.sample_tokens=0 "$@"
}

# Waits until the job's mixture may be trained.
training_begins() { # folder
    tries=2400
    until grep -qs 'arm.added arm=mix' "$work/$1/log/hub.log"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "training into $1 does not begin"
        kill -0 "$job" 2>/dev/null || fail "training into $1 ended before it began"
        sleep 0.05
    done
}

# A module, its version and its hash, one a line.
versions() { # options of store ls
    "$pathloom" store ls "$@" --json |
        sed -n 's/.*"module":"\([^"]*\)".*"version":\([0-9]*\).*"hash":"\([^"]*\)".*/\1 \2 \3/p'
}

# Waits until every module of the mixture has this version, or a later one.
modules_reach() { # folder, version
    tries=600
    until versions --run "$work/$1" |
        awk -v n="$2" '/^mix\// { all = 1; if ($2 < n) low = 1 } END { exit !all || low }'; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "$1 does not come to version $2"
        kill -0 "$job" 2>/dev/null || fail "training into $1 ended before version $2"
        sleep 0.1
    done
}

# What must be equal between two runs, into FOLDER.facts: a module, its version and hash;
# a path, its phase and state.
facts_of_run() { # folder
    for what in "" --paths; do
        # shellcheck disable=SC2086 # no word, or one
        "$pathloom" store ls --run "$work/$1" $what --json >"$work/ls" ||
            fail "store ls of $1"
        sed -n 's/.*"\(module\|path\)":"\([^"]*\)","\(version\|phase\)":\([0-9]*\).*"\(hash\|moments\)":"\([^"]*\)".*/\2 \4 \6/p' \
            "$work/ls"
    done | sort >"$work/$1.facts"
    [ "$(grep -c '^mix/' "$work/$1.facts")" -gt 8 ] || fail "too little is in $1"
}

# A verb of the store that must succeed; what it says stands in verb.out.
store() { # verb, options
    verb=$1
    shift
    "$pathloom" store "$verb" "$@" >"$work/verb.out" 2>&1 || fail "store $verb $*"
}

refused() { # exit code, words that the sentence has, command
    code=$1 words=$2
    shift 2
    "$@" >"$work/refused.out" 2>&1
    got=$?
    [ $got -eq "$code" ] || fail "exit code $got instead of $code: $*"
    grep -q "$words" "$work/refused.out" || fail "no \`$words\`: $*"
}

# Sets `value` below $1, from the generator that `seed` fixes. Not for $(...): a subshell
# would draw the same number again and again.
random() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    value=$(((seed / 65536) % $1))
}

# Sets `choice` to one of the words.
pick() {
    random $#
    shift "$value"
    choice=$1
}
