#!/bin/sh
# Runs every outer method and every codec on the same data, and compares cost and quality.
#
#   sh examples/compare-outer.sh > table.md        everything; takes hours
#   sh examples/compare-outer.sh --quick           one seed, short, one slow link
#
#   --out FOLDER         folder for the runs (pathloom-compare); finished runs are kept
#   --corpus P --valid P texts; default: text that this machine already has
#   --methods "M ..."    each with f32; the others are compared with the first one
#   --codecs "C ..."     each with the first method; METHOD/C names another method, and
#                        C:KEY=VALUE:... adds settings (no value may contain a colon)
#   --seeds "1 2 3"      seeds for the perplexity
#   --topologies "T ..." default: 2x2 diloco-8 (levels, or diloco-P: P replicas of a path)
#   --links "T ..."      topologies whose time is measured, on links and with a straggler
#   --rates "R ..."      speeds of links: free 1gbit 100mbit 10mbit
#   --workers N          number of worker processes (2)
#   --set KEY=VALUE      setting for all runs; --link-set: only for timed runs
#   --table              runs nothing; prints the table of finished runs
#
# All runs with a seed train on the same samples from the same base model. Perplexity is
# measured in runs on plain loopback. Timed runs are short, with the first seed. Each
# timed run is in a network namespace, and all processes of the run share one link
# (bench/link.sh). A straggler is a worker that is stopped (SIGSTOP) for three quarters
# of each tenth of a second. Progress goes to stderr, the table in Markdown to stdout.
# Each number in the table is read from files that the runs have written. The exit code
# is 1 if a run failed; the cells of this run say so.
set -eu
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
root=$(cd "$(dirname "$0")/.." && pwd)
pathloom=${PATHLOOM:-$root/build/release/pathloom}

# ---- in a network namespace: runs the command, counts the bytes since `mix` began ----
passed() { awk '$1 == "lo:" { print $2 }' /proc/net/dev; }

wait_for_mixture() { # run, pid of its train
    until grep -qs 'arm.added arm=mix' "$1/log/hub.log"; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
}

if [ "${1-}" = --counted ]; then
    run=$2
    shift 2
    "$@" &
    job=$!
    trap 'kill "$job"' INT TERM
    wait_for_mixture "$run" "$job" && before=$(passed)
    code=0
    wait "$job" || code=$?
    if [ "$code" -gt 128 ]; then # a signal ended `wait`; the job may still be running
        code=0
        wait "$job" || code=$?
    fi
    [ "$code" -ne 0 ] || echo "$(($(passed) - before))" >"$run/link.bytes"
    exit "$code"
fi

# ---- options ----
out="pathloom-compare"
methods="diloco fedavg heavy-ball noloco co2 streaming delayed-nesterov iso"
codecs="bf16 i8 i4 topk sketch16 i8-shared tagc
    fedavg/topk:outer.mean=present:codec.beta=0.95"
seeds="1 2 3"
topologies="2x2 diloco-8"
links=2x2
rates="free 1gbit 100mbit 10mbit"
workers=2
table_only=
# The tables in docs/results/outer.md were measured with the first two settings: each
# arm has a separate schedule, and only the prefix of a document decides its shard.
sets="train.schedule=cosine router.sees=0 data.vocab=512 data.max_bytes=4000000 model.width=64 model.blocks=4
    model.context=64 train.tau=48 train.phases=12 train.base_steps=288"
# Only loopback has a limited rate, so these runs use loopback and not sockets of the
# file system.
link_sets="train.phases=4 train.base_steps=48 eval.max_tokens=20000 net.hub=tcp://127.0.0.1:* net.home=tcp://127.0.0.1:*"

while [ $# -gt 0 ]; do
    option=$1
    case $option in
    --quick)
        seeds=1 topologies=2x2 rates="free 100mbit"
        sets="$sets data.max_bytes=2000000 train.phases=6 train.base_steps=96"
        sets="$sets eval.max_tokens=100000"
        shift
        continue
        ;;
    --table)
        table_only=1
        shift
        continue
        ;;
    --help | -h)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"
        exit 0
        ;;
    esac
    [ $# -ge 2 ] || {
        echo "compare-outer: $option takes a value; see --help" >&2
        exit 64
    }
    case $option in
    --out) out=$2 ;;
    --corpus) sets="$sets data.corpus=$2" ;;
    --valid) sets="$sets data.valid=$2" ;;
    --methods) methods=$2 ;;
    --codecs) codecs=$2 ;;
    --seeds) seeds=$2 ;;
    --topologies) topologies=$2 ;;
    --links) links=$2 ;;
    --rates) rates=$2 ;;
    --workers) workers=$2 ;;
    --set) sets="$sets $2" ;;
    --link-set) link_sets="$link_sets $2" ;;
    *)
        echo "compare-outer: unknown option $option; see --help" >&2
        exit 64
        ;;
    esac
    shift 2
done
first_method=${methods%% *}
first_seed=${seeds%% *}
rows=
for method in $methods; do
    rows="$rows $method/f32"
done
for codec in $codecs; do
    case $codec in
    f32) ;;
    */*) rows="$rows $codec" ;;
    *) rows="$rows $first_method/$codec" ;;
    esac
done

if [ ! -x "$pathloom" ]; then
    echo "compare-outer: there is no $pathloom; build it (sh tools/build.sh release" \
        "pathloom), or name it in PATHLOOM" >&2
    exit 69
fi
linkable=1
if [ -z "$table_only" ] && [ -n "$links" ] && ! sh "$root/bench/link.sh" free true; then
    echo "compare-outer: bench/link.sh does not work here, so only plain loopback is measured" >&2
    linkable=
fi
mkdir -p "$out"

# ---- runs ----
folder() { echo "$out/$1/$(echo "$2" | tr /: --)"; } # topology, row

config() { # topology, row, seed, further settings
    case $1 in
    diloco-*) pairs="topology.levels=1 topology.replicas=${1#diloco-}" ;;
    *) pairs="topology.levels=$1" ;;
    esac
    more=${2#*/}
    for pair in $sets $pairs "outer.method=${2%%/*}" "codec.name=${more%%:*}" "seed=$3" \
        "workers.count=$workers" eval.baselines=none eval.sample_tokens=0 \
        $(echo "$more" | tr : '\n' | sed 1d) $4; do
        printf ' --set %s' "$pair"
    done
}

finished() { [ -s "$1/report.json" ]; }

# Runs a command (`train`, perhaps called by another command) unless the run is finished.
attempt() { # run, command ...
    run=$1
    shift
    finished "$run" && return
    echo "compare-outer: ${run#"$out/"}" >&2
    mkdir -p "$(dirname "$run")"
    code=0
    "$@" --out "$run" >"$run.log" 2>&1 || code=$?
    [ "$code" -ne 130 ] || exit 130
    [ "$code" -eq 0 ] || echo "    $(tail -n 1 "$run.log")" >&2
}

# A timed run must be measured without interruption, so an unfinished timed run is
# deleted and not resumed.
begin_anew() { finished "$1" || rm -rf "$1"; }

on_link() { # rate, run, command ...
    rate=$1
    run=$2
    shift 2
    begin_anew "$run"
    if [ -n "$linkable" ]; then
        attempt "$run" sh "$root/bench/link.sh" "$rate" sh "$0" --counted "$run" "$@"
    elif [ "$rate" = free ]; then
        attempt "$run" "$@"
    fi
}

# Slows one worker to a quarter of its speed, from the mixture's first task on.
hold_back() { # run, pid of its train
    wait_for_mixture "$1" "$2" || return 0
    slow=$("$pathloom" status --run "$1" --json |
        grep -o '"worker":"worker-2"[^}]*"pid":[0-9]*' | sed 's/.*://') || return 0
    while kill -STOP "$slow" 2>/dev/null; do
        sleep 0.075
        kill -CONT "$slow" 2>/dev/null || return 0
        sleep 0.025
    done
}

with_straggler() { # run, command ...
    run=$1
    shift
    finished "$run" && return
    begin_anew "$run"
    mkdir -p "$(dirname "$run")"
    echo "compare-outer: ${run#"$out/"}" >&2
    "$@" --out "$run" >"$run.log" 2>&1 &
    job=$!
    trap 'kill "$job"; wait "$job"; exit 130' INT TERM
    hold_back "$run" "$job"
    wait "$job" || echo "    $(tail -n 1 "$run.log")" >&2
    trap - INT TERM
}

# shellcheck disable=SC2046 # settings contain no blanks
time_row() { # topology, row
    at=$(folder "$1" "$2")
    for rate in $rates; do
        on_link "$rate" "$at/$rate" "$pathloom" train \
            $(config "$1" "$2" "$first_seed" "$link_sets")
    done
    [ "${2#*/}" != f32 ] || with_straggler "$at/straggler" "$pathloom" train \
        $(config "$1" "$2" "$first_seed" "$link_sets")
}

is_timed() {
    case " $links " in
    *" $1 "*) return 0 ;;
    esac
    return 1
}

# shellcheck disable=SC2046
run_all() {
    for topology in $topologies; do
        for row in $rows; do
            for seed in $seeds; do
                attempt "$(folder "$topology" "$row")/seed$seed" "$pathloom" train \
                    $(config "$topology" "$row" "$seed" "")
            done
            ! is_timed "$topology" || time_row "$topology" "$row"
        done
    done
}

# ---- the table: each function prints a cell from a run's files ----
missing() { # run: prints the text of a cell that has no number
    if [ -e "$1.log" ]; then
        echo failed
    else
        echo "-"
    fi
}

field() { # file, key: its first number
    awk -F'[:,]' -v key="\"$2\"" '$1 ~ key { print $2 + 0; exit }' "$1"
}

perplexities() { # topology, row
    for seed in $seeds; do
        run=$(folder "$1" "$2")/seed$seed
        ! finished "$run" || echo "$seed $(field "$run/report.json" ppl_routed)"
    done
}

perplexity_cell() { # topology, row; with the cell of its ratio to the first row
    { perplexities "$1" "$first_method/f32" | sed 's/^/first /'; perplexities "$1" "$2"; } |
        awk -v none="$(missing "$(folder "$1" "$2")/seed$first_seed")" '
        $1 == "first" { first[$2] = $3; next }
        { n++; sum += $2
          if (n == 1 || $2 < low) low = $2
          if (n == 1 || $2 > high) high = $2
          if ($1 in first) { pairs++; ratio += $2 / first[$1] } }
        END {
            if (!n) { printf "%s | -", none; exit }
            printf "%.2f", sum / n
            if (n > 1) printf " (%.2f to %.2f)", low, high
            if (pairs) printf " | %+.2f %%", 100 * (ratio / pairs - 1)
            else printf " | -" }'
}

# Prints the number of parameters of a path, times the numbers of paths, replicas and
# phases.
trained_params() { # run
    awk -v per_path="$(field "$1/report.json" params_per_path)" \
        -v paths="$(field "$1/report.json" paths)" '
        $1 == "replicas:" { replicas = $2 }
        $1 == "phases:" { phases = $2 }
        END { printf "%.0f", per_path * paths * replicas * phases }' "$1/run.yaml"
}

contributions() { # run: bytes of each update that went into a version
    "$pathloom" store ls mix/ --run "$1" --json | sed 's/.*"module":"\([^"]*\)".*/\1/' |
        while read -r module; do
            "$pathloom" store log "$module" --run "$1" --json
        done | grep -o '"update":[^,}]*,"bytes":[0-9]*' | sed 's/.*://'
}

updates_cell() { # topology, row
    run=$(folder "$1" "$2")/seed$first_seed
    finished "$run" || { missing "$run"; return; }
    contributions "$run" | awk -v params="$(trained_params "$run")" '
        { sum += $1 } END { if (sum) printf "%.3f\n", sum / params; else print "-" }'
}

traffic_cell() { # topology, row
    run=$(folder "$1" "$2")/free
    { finished "$run" && [ -s "$run/link.bytes" ]; } || { missing "$run"; return; }
    awk -v params="$(trained_params "$run")" '{ printf "%.2f\n", $1 / params }' \
        "$run/link.bytes"
}

link_cell() { # topology, row, rate: seconds per worker and round outside inner steps
    run=$(folder "$1" "$2")/$3
    finished "$run" || { missing "$run"; return; }
    awk -F'[:,]' -v phases="$(awk '$1 == "phases:" { print $2 }' "$run/run.yaml")" '
        /^  "seconds"/ { all = $2 }
        /"inner_seconds"/ { n++; inner += $2 }
        END { outside = all - inner / n
              printf "%.2f s (%.1f %%)\n", outside / phases, 100 * outside / all }' \
        "$run/workers.json"
}

straggler_cell() { # topology, row: share outside inner steps per worker, speed of worker 2
    run=$(folder "$1" "$2")/straggler
    finished "$run" || { missing "$run"; return; }
    awk -F'[:,]' '
        /^  "seconds"/ { all = $2 }
        /"worker":/ { gsub(/[ "]/, "", $2); name = $2; names[++n] = name }
        /"tokens"/ { tokens[name] = $2 }
        /"inner_seconds"/ { inner[name] = $2 }
        END {
            for (i = 1; i <= n; i++) {
                number = names[i]
                sub(/.*-/, "", number)
                share[number] = 100 * (1 - inner[names[i]] / all)
                rate[number] = inner[names[i]] ? tokens[names[i]] / inner[names[i]] : 0
            }
            for (i = 1; i <= n; i++)
                printf "%s%.1f %%", (i > 1 ? " / " : ""), share[i]
            if (rate[1]) printf " (at %.2f)", rate[2] / rate[1]
            print "" }' "$run/workers.json"
}

rate_title() {
    case $1 in
    free) echo "no limit" ;;
    *) echo "$1" | sed 's/\([0-9]\)\([gmk]\)bit/\1 \2b\/s/; s/ g/ G/; s/ m/ M/' ;;
    esac
}

print_head() { # topology
    printf '| method | codec | perplexity | against %s, f32 | bytes per parameter and round |' \
        "$first_method"
    rule='|---|---|---|---|---|'
    if is_timed "$1"; then
        printf ' all traffic |'
        rule="$rule---|"
        for rate in $rates; do
            printf ' %s |' "$(rate_title "$rate")"
            rule="$rule---|"
        done
        printf ' one worker at 1/4 |'
        rule="$rule---|"
    fi
    printf '\n%s\n' "$rule"
}

print_row() { # topology, row
    printf '| %s | %s | %s | %s |' "${2%%/*}" "$(echo "${2#*/}" | sed 's/:/, /g')" \
        "$(perplexity_cell "$1" "$2")" "$(updates_cell "$1" "$2")"
    if is_timed "$1"; then
        printf ' %s |' "$(traffic_cell "$1" "$2")"
        for rate in $rates; do
            printf ' %s |' "$(link_cell "$1" "$2" "$rate")"
        done
        printf ' %s |' "$(straggler_cell "$1" "$2")"
    fi
    echo
}

# Prints settings for the table. If a key is set twice, the last value is used. A value
# that is a file is printed without its folder.
spell() { # settings
    for pair in "$@"; do
        echo "$pair"
    done | awk -F= '
        { if (!($1 in value)) order[++n] = $1
          value[$1] = $2 }
        END { for (i = 1; i <= n; i++) {
                  sub(/^.*\//, "", value[order[i]])
                  printf "%s%s=%s", (i > 1 ? ", " : ""), order[i], value[order[i]] } }'
}

# shellcheck disable=SC2086 # settings contain no blanks
print_table() {
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    echo "$(date -u +%Y-%m-%d), $(nproc) cores ($model), $workers workers, seeds $seeds;"
    echo "settings: $(spell $sets); timed runs: $(spell $link_sets)."
    echo
    echo "Bytes per parameter and round: the encoded updates that went into versions, per"
    echo "parameter of every path, replica and phase. All traffic: all bytes on the link,"
    echo "per parameter as before, with headers: modules, updates, optimizer states,"
    echo "text. Links: seconds per worker and round outside inner steps (their share of"
    echo "the time). One worker at 1/4: the same shares, worker 1 / worker 2 (the slow one),"
    echo "and the speed that the slow one had as a share of the other's."
    for topology in $topologies; do
        printf '\n### %s\n\n' "$topology"
        print_head "$topology"
        for row in $rows; do
            print_row "$topology" "$row"
        done
    done
}

[ -n "$table_only" ] || run_all
print_table >"$out/table.md"
cat "$out/table.md"
! grep -q '| failed |' "$out/table.md"
