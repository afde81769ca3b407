# shellcheck shell=sh disable=SC2034,SC2154
# Functions for scripts that run whole jobs under faults. Such a script sets the
# variables pathloom, ledger and seed, and runs in the project's root.
. tests/support/job.sh

# Sets the variables for a script with these arguments, and makes its folder.
begin_seeded() { # PATHLOOM CHAOS_LEDGER WORKFOLDER [SEED]
    pathloom=$1
    ledger=$2
    seed=${4:-$(date +%s)}
    echo "seed $seed"
    own_folder "$3"
}

# A `fail` for scripts whose job is in the folder shot: prints a sentence and the last
# lines of the job's outputs, and ends.
fail_of_shot() { # sentence
    echo "$1"
    for log in "$work/shot.out" "$work"/shot/log/*.log; do
        echo "--- $log"
        tail -n 12 "$log"
    done
    exit 1
}

# Trains a 2x2 mixture of a very small model, which takes about a second without faults.
# The launcher replaces the shell, so call this function in a subshell or in the
# background.
tiny_job() { # folder, options
    out=$1
    shift
    exec "$pathloom" train --corpus "$work/corpus" --out "$work/$out" --workers 3 \
        --set data.vocab=400 --set data.valid_share=0.1 --set model.width=32 \
        --set model.heads=2 --set model.blocks=2 --set model.context=32 \
        --set train.batch=2 --set train.tau=4 --set train.phases=6 \
        --set train.base_steps=8 --set router.prefix=8 --set eval.baselines=none \
        --set eval.max_tokens=200 --set eval.sample_tokens=0 \
        --set workers.ttl_ms=500 "$@"
}

# Prints fail points that stop a hub after every N grants, MOST times. If the script lets
# the hub go on only after a kill, the job cannot end before its kills. The highest number
# comes first, because a point that acts keeps later ones from counting.
hub_stops() { # N, MOST
    seq $(($1 * $2)) "-$1" "$1" | sed 's/.*/,hub.grant.after@hub:stop:&/' | tr -d '\n'
}

# Prints everything that must be equal in two runs: versions with their hashes and
# contributions, states of paths, and objects. A contribution that is missing or counted
# twice makes a difference.
facts() { # folder -> folder.facts
    "$ledger" "$work/$1/store" | LC_ALL=C sort >"$work/$1.facts" &&
        [ "$(grep -c '^version mix/' "$work/$1.facts")" -gt 8 ]
}

same_facts() { # folder, folder
    facts "$2" && cmp -s "$work/$1.facts" "$work/$2.facts" && return 0
    diff "$work/$1.facts" "$work/$2.facts" | head -n 20
    return 1
}

# True unless `pathloom store fsck` finds something wrong. Also true if the program has
# no such command.
fsck_is_clean() { # folder
    "$pathloom" store --help 2>&1 | grep -q fsck || return 0
    "$pathloom" store fsck --run "$work/$1" >"$work/$1.fsck" 2>&1
}

# Prints the launcher's processes with this role.
members() { # launcher pid, role
    pgrep -P "$1" -f "pathloom $2" 2>/dev/null
}

# Kills (kill -9) a process of one of these roles, drawn at random; false if there is none.
# Sets `role`.
kill_one_of() { # launcher pid, roles
    of=$1
    shift
    pick "$@"
    role=$choice
    # shellcheck disable=SC2046 # several process ids
    [ "$role" = launcher ] && set -- "$of" || set -- $(members "$of" "$role")
    [ $# -gt 0 ] || return 1
    pick "$@"
    kill -9 "$choice" 2>/dev/null
}

# Prints the processes whose command line contains the job's folder, or that of any job.
# All processes of the job contain it.
left_behind() { # [folder]
    pgrep -f -- "$work/${1:+$1[/ ]}" 2>/dev/null
}

nobody_is_left() { # [folder]
    for _ in $(seq 600); do
        left_behind "$@" >/dev/null || return 0
        sleep 0.1
    done
    return 1
}

one_is_stopped() {
    stopped=$(members "$job" worker | xargs -r ps -o pid=,stat= -p | awk '$2 ~ /^T/ { print $1 }')
    [ -n "$stopped" ]
}

# Waits until worker.step.before@worker:stop:N has stopped one worker. Sets `name` and
# `stopped`.
await_stopped() {
    await_in_job 120 "no worker was stopped" "the job ended before a worker was stopped" one_is_stopped
    name=worker-$(ps -o args= -p "$stopped" | sed 's/.* --index \([0-9]*\).*/\1/')
}

# Prints the number of paths of the mixture whose newest lease belongs to this worker.
held_by() { # folder, name
    sed -n 's/.*lease.granted task=\(mix[^ ]*\) .* worker=\([^ ]*\) .*/\1 \2/p' \
        "$work/$1/log/hub.log" | awk -v name="$2" '{ last[$1] = $2 }
            END { for (p in last) n += last[p] == name; print n + 0 }'
}

# Prints how many paths of the mixture have finished this number of phases, as the job's
# status reports it.
finished() { # folder, phases
    "$pathloom" status --run "$work/$1" --json 2>/dev/null | tr '{' '\n' |
        awk -F '"phase":' -v least="$2" '
            /"arm":"/ { mix = index($0, "\"arm\":\"mix\"") }
            mix && /"path":"/ && $2 + 0 >= least { n++ }
            END { print n + 0 }'
}

now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; } # in the form that logs use

# Runs a command and checks its output.
ask() { # verb, options; the answer is in ask.out
    "$pathloom" "$@" >"$work/ask.out" 2>&1
}

says() { # pattern
    grep -q -- "$1" "$work/ask.out" || {
        cat "$work/ask.out"
        fail "it does not say '$1'"
    }
}

# The same, but the command must succeed.
succeeds() { # message, verb, options
    what=$1
    shift
    ask "$@" || {
        cat "$work/ask.out"
        fail "$what"
    }
}

# Prints the hash of a module of $run.
hash_of() { # module@version
    "$pathloom" store show "$1" --run "$run" --json | sed -n 's/.*"hash":*"\([0-9a-f]*\)".*/\1/p'
}

# Runs a command that is killed (kill -9) when it reaches a fail point for the first time.
# Advances `kills`.
dies_at() { # point@verb, folder of the run, command
    where=$1 out=$2
    shift 2
    (export "PATHLOOM_FAILPOINT=$where:kill:1" && "$@") >"$work/$out.out" 2>&1
    code=$?
    [ $code -eq 137 ] || fail "it was to be killed at $where, but ended with $code"
    nobody_is_left "$out" || fail "processes are left behind"
    kills=$((kills + 1))
}
