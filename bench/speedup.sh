#!/bin/sh
# Checks on shaped links how much time several machines save, as docs/results/speedup.md
# calculates it.
#
#   sh bench/speedup.sh CORPUS VALID OUT [--build FOLDER] [--machines "1 2 4 8"]
#       [--link KBIT] [--step-ms MS]
#
# One machine trains one path (a dense model) with 3,200 steps. N machines train eight
# paths, which take turns if N is below eight, after a base model that has 30 % of the
# time. Each machine is a network namespace behind a link of KBIT (default 50,000), 10 ms
# away from the hub and the home. Each inner step also sleeps MS milliseconds (default
# 400), so that N machines fit on two processors.
#
# Prints a line per number of machines: the account, the measured time from the first
# lease to the last merge, and their ratio. The account is the steps one after the other,
# at the mean rate of the workers (as in the report of a run), plus the bytes of a phase
# (`train --link`) once per phase and once for the base model. Routing, which the launcher
# does between base model and mixture, is not in the account. OUT/curve.tsv has bits per
# byte over the time for bench/curve.sh; its unit is one inner step, because other
# programs may slow one run more than another. Exit code 1: a time differs from the
# account by more than 10 %.
# shellcheck disable=SC2086,SC2154 # lists of words; variables of links.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/links.sh
[ $# -ge 3 ] || fail "give CORPUS, VALID and a folder for the runs"
corpus=$1 valid=$2 out=$3
shift 3
build=build/release machines="1 2 4 8" kbit=50000 step_ms=400 failed=0
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2 && shift ;;
    --machines) machines=$2 && shift ;;
    --link) kbit=$2 && shift ;;
    --step-ms) step_ms=$2 && shift ;;
    *) fail "there is no option $1" ;;
    esac
    shift
done
[ ! -e "$out" ] || fail "$out exists; name a new folder"
links_begin "$build" "$out"
export PATHLOOM_FAILPOINT="worker.step.before@join:sleep:$step_ms"
phases=8 paths=8 base=400 tau=400
shape="--set model.width=64 --set model.heads=2 --set data.vocab=1024"

train() { # folder, options
    folder=$1
    shift
    exec "$pathloom" train --corpus "$corpus" --valid "$valid" --out "$work/$folder" $shape \
        --link ${kbit}kbit --set train.optimizer=muon --set train.lr=8e-3 \
        --set train.base_steps=$base --set eval.baselines=none --set eval.sample_tokens=0 \
        --set eval.max_tokens=150000 --set workers.local=false --set net.hub=tcp://0.0.0.0:* \
        --set net.home=tcp://0.0.0.0:* --set net.advertise=$home_at "$@"
}

# Prints a value of the mixture, if possible with paths chosen by likelihood.
value_of() { # report, key
    tr ',{}[]' '\n' <"$1" | sed 's/[ "]//g' | awk -F: -v key="$2" '
        $1 == "row" { is = $2 == "mix" || $2 == "mix-likelihood" }
        is && $1 == key { value = $2 }
        END { print value }'
}

# Prints one line for a finished run, and appends its points to the curve.
judge() { # folder, machines, steps one after the other, steps of a path, phases
    run=$work/$1
    final=$(value_of "$run/report.json" bits_per_byte)
    phase=0
    : >"$work/bits"
    while [ $phase -lt "$5" ]; do
        if ! "$pathloom" store tag "phase$phase" "$phase" --run "$run" >/dev/null ||
            ! "$pathloom" eval --run "$run" --at "phase$phase" --json >"$work/eval"; then
            fail "phase $phase of $1 cannot be scored"
        fi
        echo "$phase $(value_of "$work/eval" bits_per_byte)" >>"$work/bits"
        phase=$((phase + 1))
    done
    echo "$5 $final" >>"$work/bits"
    "$pathloom" status --run "$run" --history --json >"$work/history"
    awk -v n="$2" -v steps="$3" -v merges=$(($5 + 1)) -v kbit="$kbit" \
        -v step="$(echo "$(value_of "$run/report.json" train_seconds) $4" | awk '{ print $1 / $2 }')" \
        -v mib="$(sed -n 's/.* \([0-9.]*\) MiB take.*/\1/p' "$run.out" | tail -n 1)" \
        -v final="$final" -v curve="$work/curve.tsv" -v load="$(cut -d' ' -f1-3 /proc/loadavg)" '
        function of(key,  at) {
            at = index($0, "\"" key "\":")
            return substr($0, at + length(key) + 3)
        }
        function seconds(text) { # of the day, from "2026-11-29T13:50:25Z"
            split(substr(text, index(text, "T") + 1), part, ":")
            return part[1] * 3600 + part[2] * 60 + part[3]
        }
        function point(phase, at) {
            print n (n == 1 ? " machine" : " machines") "\t" (at - begin) / step "\t" bits[phase] >>curve
        }
        NR == FNR { bits[$1] = $2; next }
        { end = seconds(of("time"))
          if (FNR == 1) begin = end - of("seconds")
          if (end < begin) end += 86400 }
        of("arm") ~ /^"base/ { base = end; next }
        of("phase") + 0 == 0 { point(0, base); routing = end - of("seconds") - base }
        { point(of("phase") + 1, end) }
        END {
            account = steps * step + merges * mib * 1.048576 * 8000 / kbit
            printf "| %d | %d | %.3f | %.1f MiB | %.1f | %.1f | %.1f | %.3f | %.4f | %s |\n", n, steps, step,
                mib, account, end - begin, routing, (end - begin) / account, final, load
            exit (end - begin > 1.1 * account || end - begin < account / 1.1)
        }' "$work/bits" "$work/history" || failed=1
}

sites=''
for name in a b c d e f g h; do
    sites="$sites $name:10:0:$kbit"
done
links_up cubic $sites
echo "| machines | steps | one step, s | bytes of a phase | account, s | measured, s | of it routing, s | ratio | bits per byte | load |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for n in $machines; do
    case $n in
    1)
        run_job one a --set topology.levels=1 --set outer.method=fedavg --set train.tau=$tau \
            --set train.phases=7
        judge one 1 3200 3200 7
        continue
        ;;
    2) base=548 tau=40 ;; # together 0.57 of the steps of one machine
    4) base=368 tau=54 ;; # 0.39
    8) base=208 tau=61 ;; # 0.22, because transfers and routing need time, too
    *) fail "--machines takes 1, 2, 4 and 8" ;;
    esac
    run_job "n$n" "$(echo a b c d e f g h | cut -d' ' -f1-"$n")" --set topology.levels=2x4 \
        --set train.tau=$tau --set train.phases=$phases
    turns=$(((paths + n - 1) / n)) # of each phase
    judge "n$n" "$n" $((base + turns * phases * tau)) $((base + phases * tau)) $phases
done
links_down
awk -F'\t' '
    $1 == "1 machine" { all = $2; aim = $3 }
    { n_points++; label[n_points] = $1; at[n_points] = $2; bits[n_points] = $3 }
    END {
        for (i = 2; aim && i <= n_points; i++)
            if (label[i] == label[i - 1] && label[i] != "1 machine" && bits[i - 1] > aim && bits[i] <= aim)
                printf "%s have the bits per byte of one machine after %.2f of its time\n", label[i],
                    (at[i - 1] + (at[i] - at[i - 1]) * (bits[i - 1] - aim) / (bits[i - 1] - bits[i])) / all
    }' "$work/curve.tsv"
exit $failed
