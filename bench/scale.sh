#!/bin/sh
# Measures, for each phase of a job of many paths: time, commits, disk, and the memory
# of each process. Also tests that a job of many paths ends with the same bytes if it is
# disturbed (faults, same).
#
#   sh bench/scale.sh job RUN LEVELS HOMES PHASES [OPTION OF train ...]
#   sh bench/scale.sh faults RUN LEVELS HOMES PHASES [OPTION OF train ...]
#   sh bench/scale.sh same RUN OTHER
#
# job: trains LEVELS (such as 16x16) with path-specific ends: the embedding, the first
# and the last block and the head belong to one path each. The model is as small as
# possible, so that the system is measured and not the arithmetic. Once per second the
# script reads the job's status and the state of its processes into RUN.samples; at the
# end it prints a table with one line per phase.
#
# faults: the same job, but in each phase a worker is killed with kill -9; in one phase
# the hub is killed, too, and in one phase a home. In the middle the job is stopped,
# garbage collection deletes old versions, the job gets one more home, and continues. At
# the end the store is checked.
#
# same: tests whether two runs have the same modules, versions and hashes.
#
# The variable PATHLOOM names the binary. CORPUS names a text file (default: the sources
# of this project).
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
root=$(cd "$(dirname "$0")/.." && pwd)
pathloom=${PATHLOOM:-$root/build/release/pathloom}

die() {
    echo "scale: $*" >&2
    [ -z "${job:-}" ] || kill "$job" 2>/dev/null
    exit 1
}

corpus_of() { # run
    [ -z "${CORPUS:-}" ] || { echo "$CORPUS" && return; }
    [ -s "$1.txt" ] || (cd "$root" && cat ./*/*.[chm]* ./*/cpu/*.[ch] ./*/ref/*.[ch] \
        docs/*.md tests/*/*.sh tests/*.sh) >"$1.txt"
    echo "$1.txt"
}

train() { # run, levels, homes, phases, options; becomes the launcher
    text=$(corpus_of "$1")
    run=$1 levels=$2 homes=$3 phases=$4
    shift 4
    exec "$pathloom" train --corpus "$text" --out "$run" --workers 2 \
        --set topology.levels="$levels" --set topology.private=0,3 \
        --set topology.embed=private --set topology.head=private \
        --set store.homes="$homes" --set train.phases="$phases" \
        --set data.cut=512 --set data.vocab=512 --set data.valid_share=0.02 \
        --set model.width=32 --set model.heads=2 --set model.blocks=4 \
        --set model.context=32 --set train.batch=2 --set train.tau=4 \
        --set train.base_steps=20 --set router.prefix=8 --set eval.baselines=none \
        --set eval.max_tokens=500 --set eval.sample_tokens=0 "$@" >>"$run.out" 2>&1
}

# Prints the pids of the launcher's child processes with the given role.
members() { # role
    for pid in $(pgrep -P "$job"); do
        tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "^[^ ]* $1 " && echo "$pid"
    done
}

# Prints the resident KiB and the processor seconds of each process, all on one line.
cost_of() { # pids
    for pid in "$@"; do
        kib=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null)
        ticks=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | awk '{ print ($12 + $13) / 100 }')
        printf '%s %s ' "${kib:-0}" "${ticks:-0}"
    done
}

# Prints one line of numbers from the status: phases that all paths have finished, done
# tasks, versions, seconds of merging, bytes of the stores, bytes that homes have sent
# and received, and the length of the status in bytes.
look() { # run
    "$pathloom" status --run "$1" --json 2>/dev/null | tr '{' '\n' | awk '
        function of(key,  at) {
            at = index($0, "\"" key "\":")
            return at ? substr($0, at + length(key) + 3) + 0 : 0
        }
        { bytes += length($0) + 1 }
        /"versions_committed":/ { versions += of("versions_committed"); merges += of("merge_seconds") }
        /"store_bytes":/ { disk += of("store_bytes"); moved += of("bytes_received") + of("bytes_sent") }
        /"arm":"/ { mix = index($0, "\"arm\":\"mix\""); if (mix) tasks = of("tasks_done") }
        mix && /"path":"/ { n++; if (n == 1 || of("phase") < least) least = of("phase") }
        END { if (n) print least, tasks, versions + 0, merges + 0, disk + 0, moved + 0, bytes }'
}

sample() { # run
    until grep -qs 'arm.added arm=mix' "$1/log/hub.log"; do
        kill -0 "$job" 2>/dev/null || return
        sleep 0.2
    done
    # The first line has the number of commits of all homes so far.
    "$pathloom" store stat --run "$1" --json | sed -n 's/.*"sequence":\([0-9]*\).*/commits \1/p'
    while kill -0 "$job" 2>/dev/null; do
        hub=$(members hub) homes=$(members home) crew=$(members worker)
        seen=$(look "$1")
        # shellcheck disable=SC2086 # pids
        [ -z "$seen" ] || echo "$(cut -d' ' -f1 /proc/uptime) $seen |$(cost_of $hub)|$(cost_of $homes)|$(cost_of $crew)"
        sleep 1
    done
}

table() { # samples, commits at the end
    awk -v last="$2" '
        function sum(text,  n, part, i, s) {
            n = split(text, part, " ")
            for (i = 2; i <= n; i += 2) s += part[i]
            return s
        }
        function most(text,  n, part, i, m) {
            n = split(text, part, " ")
            for (i = 1; i <= n; i += 2) m = part[i] > m ? part[i] : m
            return m
        }
        function mib(text,  n, part, i, out) {
            n = split(text, part, " ")
            for (i = 1; i <= n; i += 2) out = out sprintf("%s%.1f", i > 1 ? " + " : "", part[i] / 1024)
            return out
        }
        $1 == "commits" { first = $2; next }
        {
            split($0, group, "|")
            split(group[1], at, " ")
            if (!begun) {
                begun = 1; t0 = was = at[1]; merges = at[5]; versions = at[4]; moved = at[7]
                hub = sum(group[2]); home = sum(group[3])
                print "| phase | seconds | tasks/s | versions/s | merging, s | hub, CPU s | homes, CPU s | hub, MiB | homes, MiB | worker, MiB | stores, MB | moved, MB | status, kB |"
                print "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
                n_was = at[3]
            }
            if (at[2] > phase) {
                phase = at[2]
                dt = at[1] - was
                printf "| %d | %.1f | %.1f | %.1f | %.2f | %.2f | %.2f | %s | %s | %.1f | %.1f | %.1f | %.0f |\n",
                    phase, dt, (at[3] - n_was) / dt, (at[4] - versions) / dt, at[5] - merges,
                    sum(group[2]) - hub, sum(group[3]) - home, mib(group[2]), mib(group[3]),
                    most(group[4]) / 1024, at[6] / 1e6, (at[7] - moved) / 1e6, at[8] / 1e3
                was = at[1]; n_was = at[3]; versions = at[4]; merges = at[5]; moved = at[7]
                hub = sum(group[2]); home = sum(group[3])
            }
            end = at[1]
        }
        END { if (end > t0) printf "%d commits in %.1f s: %.1f per second\n", last - first, end - t0, (last - first) / (end - t0) }
    ' "$1"
}

measured_job() { # run, levels, homes, phases, options
    train "$@" &
    job=$!
    trap 'kill "$job"; exit 130' INT TERM
    sample "$1" >"$1.samples"
    wait "$job" || die "$1 failed: $(tail -n 3 "$1.out")"
    job=
    table "$1.samples" "$("$pathloom" store stat --run "$1" --json |
        sed -n 's/.*"sequence":\([0-9]*\).*/\1/p')"
    "$pathloom" store stat --run "$1"
    du -sm "$1/store" | sed 's/^/MiB: /'
}

versions() { # run
    "$pathloom" store ls --run "$1" --json |
        sed -n 's/.*"module":"\([^"]*\)".*"version":\([0-9]*\).*"hash":"\([^"]*\)".*/\1 \2 \3/p'
}

same() { # run, other
    versions "$1" >"$1.versions"
    versions "$2" >"$2.versions"
    cmp "$1.versions" "$2.versions" || die "$1 and $2 have different modules"
    echo "$(wc -l <"$1.versions") modules have the same versions and hashes"
}

now_s() { cut -d' ' -f1 /proc/uptime; }

# ---- faults ----
phase_of() { # run
    look "$1" | cut -d' ' -f1
}

kill_one() { # role
    victim=$(members "$1" | head -n 1)
    [ -n "$victim" ] || return
    kill -9 "$victim" && echo "phase $phase: killed a $1"
}

more_homes() { # number
    begun=$(now_s)
    "$pathloom" homes set "$1" --run "$run" >"$run.verb" 2>&1 ||
        die "homes set: $(tail -n 1 "$run.verb")"
    awk -v a="$begun" -v b="$(now_s)" -v p="$phase" -v n="$1" \
        'BEGIN { printf "phase %d: homes set %d, %.2f s\n", p, n, b - a }'
}

disturb() { # phase that has just ended
    kill_one worker
    case $1 in
    1) kill_one home ;;
    3) kill_one hub ;;
    esac
}

faults() { # run, levels, homes, phases, options
    run=$1 phases=$4 collected='' phase=0
    train "$@" &
    job=$!
    trap 'kill "$job"; exit 130' INT TERM
    while kill -0 "$job" 2>/dev/null; do
        sleep 0.5
        seen=$(phase_of "$run")
        [ "${seen:-0}" -gt "$phase" ] || continue
        phase=$seen
        [ "$phase" -lt "$phases" ] || continue
        if [ "$phase" -ge $((phases / 2)) ] && [ -z "$collected" ]; then
            kill -INT "$job"
            wait "$job"
            "$pathloom" store gc --run "$run" --grace 0 --keep 1 --delete ||
                die "store gc failed"
            collected=yes
            more_homes $(($3 + 1))
            run=$1 levels=$2 homes=$(($3 + 1))
            shift 3
            set -- "$run" "$levels" "$homes" "$@"
            train "$@" &
            job=$!
            continue
        fi
        disturb "$phase"
    done
    wait "$job" || die "$run failed: $(tail -n 3 "$run.out")"
    job=
    "$pathloom" store fsck --run "$run" || die "store fsck found damage, or failed"
    "$pathloom" homes list --run "$run"
    "$pathloom" data coverage --run "$run" | tail -n 1
}

words=$#
verb=${1-}
[ $words -eq 0 ] || shift
case $verb in
job | faults) least=5 ;;
same) least=3 ;;
*) least=99 ;;
esac
[ $words -ge $least ] || {
    sed -n '/^#   sh /s/^#   /usage: /p' "$0" >&2
    exit 64
}
[ "$verb" != job ] || verb=measured_job
"$verb" "$@"
