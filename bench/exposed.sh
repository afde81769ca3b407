#!/bin/sh
# Measures the time that communication costs a worker, without the beginning and the end
# of a run.
#
#   sh bench/exposed.sh RATE FIRST LAST RUN [OPTION OF train ...]
#
# Trains into RUN on a link of RATE (bench/link.sh; `free`: without a limit). The time of
# a worker counts from the end of its task number FIRST to the end of its task number
# LAST. The script prints the shares of this time that the workers spent on inner steps,
# on loading and saving, on waiting for data, and without a task. It reads the status
# ten times per second, so times are exact to about 0.1 s. Settings are the defaults of
# the preset laptop except for one path, two replicas, two workers, 50 steps per phase,
# and moments that stay with the worker. The variable PATHLOOM names the binary.
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
root=$(cd "$(dirname "$0")/.." && pwd)
pathloom=${PATHLOOM:-$root/build/release/pathloom}

# Prints one line per worker: its name, its number of tasks, the present time, and the
# worker's seconds of inner steps, of loading and saving around them, and of waiting (a
# part of loading and saving).
look() { # run
    "$pathloom" status --run "$1" --json 2>/dev/null | tr '{' '\n' |
        awk -v now="$(cut -d' ' -f1 /proc/uptime)" '
            function of(key,  at) {
                at = index($0, "\"" key "\":")
                return at ? substr($0, at + length(key) + 3) + 0 : 0
            }
            /^"worker":.*"inner_seconds":/ {
                split($0, quoted, "\"")
                print quoted[4], of("tasks"), now, of("inner_seconds"),
                    of("overhead_seconds"), of("waited_seconds")
            }'
}

sum_up() { # first, last
    awk -v first="$1" -v last="$2" '
        $2 != seen[$1] {
            if ($1 in seen && $2 >= first && !($1 in from)) from[$1] = $0
            if ($2 <= last) to[$1] = $0
            else beyond = 1
            seen[$1] = $2
        }
        END {
            for (name in from) {
                split(from[name], a); split(to[name], b)
                if (b[2] <= a[2]) continue
                rounds += b[2] - a[2]; all += b[3] - a[3]; inner += b[4] - a[4]
                around += b[5] - a[5]; waited += b[6] - a[6]
            }
            if (all <= 0 || !beyond) {
                print "nothing was measured: no worker did more than " last " tasks (LAST); give a lower LAST or more train.phases"
                exit 1
            }
            printf "%d tasks of %.2f s: inner steps %.1f %%, loading and saving %.1f %%, ",
                rounds, all / rounds, 100 * inner / all, 100 * (around - waited) / all
            printf "waiting for data %.1f %%, without a task %.1f %%\n",
                100 * waited / all, 100 * (all - inner - around) / all
        }'
}

if [ "${1-}" = --inside ]; then
    first=$2 last=$3 run=$4
    shift 4
    "$pathloom" train --out "$run" "$@" >"$run.out" 2>&1 &
    job=$!
    trap 'kill "$job"' INT TERM
    while kill -0 "$job" 2>/dev/null; do
        if grep -qs 'arm.added arm=mix' "$run/log/hub.log"; then
            look "$run"
        fi
        sleep 0.1
    done >"$run.looks"
    wait "$job" || {
        tail -n 5 "$run.out" >&2
        exit 1
    }
    sum_up "$first" "$last" <"$run.looks"
    exit
fi

[ $# -ge 4 ] || {
    echo "usage: sh bench/exposed.sh RATE FIRST LAST RUN [OPTION OF train ...]" >&2
    exit 64
}
rate=$1 first=$2 last=$3 run=$4
shift 4
exec sh "$root/bench/link.sh" "$rate" sh "$0" --inside "$first" "$last" "$run" \
    --set topology.levels=1 --set topology.replicas=2 --set workers.count=2 \
    --set train.tau=50 --set train.base_steps=50 --set train.state=local \
    --set 'net.hub=tcp://127.0.0.1:*' --set 'net.home=tcp://127.0.0.1:*' \
    --set eval.baselines=none --set eval.sample_tokens=0 --set eval.max_tokens=20000 "$@"
