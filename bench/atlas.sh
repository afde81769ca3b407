#!/bin/sh
# Measures what slow and long links, kills, outer methods and codecs cost: held-out bits
# per byte after a fixed wall time, and the share of the links that is used.
#
#   sh bench/atlas.sh [--quick] [--build FOLDER] [--out OUT] [--repeats N]
#       [--tcp cubic|bbr] [CELL ...]
#
# A CELL is KBIT:RTT_MS:LIFETIME_S:METHOD:CODEC, for example 5000:40:0:diloco:f32. Four
# workers, each behind a link of its own (tests/support/links.sh, no loss), train a
# 2x2 mixture of 133,000 parameters per path, 20 steps per phase; each step sleeps 25 ms,
# so that two processors are enough. Every worker is killed (kill -9) when it is LIFETIME_S
# old, and starts again; 0: never. CODEC is f32 or `link`: what `train --link` chooses for
# a slow link (i4, residual i8, down i8, train.state_every=10).
#
# Each cell begins with a copy of the same base model and shards, runs for 60 s and is
# scored then. Without cells: rates from 0.5 to 1,000 Mbit/s with round trips of 1, 40 and
# 200 ms, both codecs; at 40 ms also kills and methods; three repeats. --quick: fewer
# cells of 45 s, once, in less than 15 minutes.
#
# Prints a table, and writes it to OUT/cells.tsv (default build/release/atlas) and the
# points of the picture (bits per byte over the rate) to OUT/points.tsv, for
# `sh bench/curve.sh OUT.svg TITLE --points OUT/points.tsv Mbit/s`. The formula is the
# mean seconds of a path's steps, two round trips per finished phase, and the bytes of a
# link, one direction after the other, divided by its rate. "Links used" is the mean of
# both directions.
# shellcheck disable=SC2086,SC2154 # lists of words; variables of links.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/links.sh
build=build/release out='' repeats='' tcp=cubic time_s=60 cells='' quick=''
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 time_s=45 ;;
    --build) build=$2 && shift ;;
    --out) out=$2 && shift ;;
    --repeats) repeats=$2 && shift ;;
    --tcp) tcp=$2 && shift ;;
    *:*:*:*:*) cells="$cells $1" ;;
    *) fail "there is no option $1" ;;
    esac
    shift
done
if [ -z "$cells" ] && [ -n "$quick" ]; then
    for link in 500:40 5000:40 50000:40 1000000:40 50000:200; do
        cells="$cells $link:0:diloco:f32 $link:0:diloco:link"
    done
    cells="$cells 50000:40:10:diloco:link 50000:40:0:noloco:f32 50000:40:0:streaming:f32"
elif [ -z "$cells" ]; then
    for kbit in 500 5000 50000 1000000; do
        for codec in f32 link; do
            for rtt in 1 40 200; do
                cells="$cells $kbit:$rtt:0:diloco:$codec"
            done
            cells="$cells $kbit:40:20:diloco:$codec"
        done
        for method in fedavg noloco streaming co2 delayed-nesterov; do
            cells="$cells $kbit:40:0:$method:f32"
        done
    done
fi
repeats=${repeats:-$([ -n "$quick" ] && echo 1 || echo 3)}
[ ! -e "${out:-/}" ] || [ -z "$out" ] || fail "$out exists; name a new folder"
links_begin "$build" "${out:-$build/atlas}"
make_corpus --whole base modules docs home store

train() { # folder, options
    folder=$1
    shift
    exec "$pathloom" train --corpus "$work/corpus" --out "$work/$folder" \
        --set data.vocab=512 --set data.valid_share=0.1 --set model.width=64 \
        --set model.heads=2 --set model.blocks=2 --set model.context=64 \
        --set train.batch=4 --set train.tau=20 --set train.base_steps=200 \
        --set train.phases=1000 --set router.prefix=16 --set eval.baselines=none \
        --set eval.max_tokens=20000 --set eval.sample_tokens=0 --set eval.curves=0 \
        --set net.hub=tcp://0.0.0.0:* --set net.home=tcp://0.0.0.0:* \
        --set net.advertise=$home_at "$@"
}

# Prints the lowest number of phases that a path of the mixture has finished, and the mean
# seconds of all steps of a path so far.
phases_of() { # folder
    "$pathloom" store ls --run "$work/$1" --paths --json |
        sed -n 's/.*"path":"mix.*"phase":\([0-9]*\).*"seconds":\([0-9.e-]*\).*/\1 \2/p' |
        awk '{ s += $2; if (NR == 1 || $1 < least) least = $1 }
            END { print least + 0, NR ? s / NR : 0 }'
}

bits_of() { # folder
    "$pathloom" eval --run "$work/$1" --json >"$work/eval" || fail "$1 cannot be scored"
    sed -n 's/.*"row":"mix-likelihood"[^}]*"bits_per_byte":\([0-9.]*\).*/\1/p' "$work/eval"
}

# Makes start.METHOD.CODEC: a job whose base model, router and shards are finished. It is
# killed before a path has finished its first phase, which takes at least half a second.
prepare() { # method, codec
    start=start.$1.$2 codec='' method="--set outer.method=$1"
    [ "$2" = f32 ] || codec="--set codec.name=i4 --set codec.residual=i8 --set codec.down=i8
        --set train.state_every=10"
    [ ! -d "$work/$start" ] || return 0
    [ ! -d "$work/data" ] || { mkdir "$work/$start" && cp -r "$work/data" "$work/$start/data"; }
    (PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:25 train $start --workers 1 $method \
        $codec) >"$work/$start.out" 2>&1 &
    job=$!
    training_begins $start
    children=$(pgrep -P $job)
    kill -9 $job $children
    wait $job 2>/dev/null
    job='' tries=600
    while kill -0 $children 2>/dev/null; do # succeeds if one of them is alive
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "a process of $start does not end"
        sleep 0.1
    done
    [ -d "$work/data" ] || cp -r "$work/$start/data" "$work/data"
}

# Waits until the first worker has a task.
await_lease() {
    tries=600
    until grep -qs 'lease.granted' "$work/cell/log/hub.log"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "no worker begins"
        sleep 0.1
    done
}

measure() { # cell
    IFS=: read -r kbit rtt lifetime method_name codec_name <<CELL
$1
CELL
    [ "$lifetime" -gt 0 ] || lifetime=''
    prepare "$method_name" "$codec_name"
    rm -rf "$work/cell" "$work/far" && cp -r "$work/$start" "$work/cell"
    rm -f "$work/cell/proc"/* "$work/cell/log"/* # of the job that made the copy
    first=$(phases_of cell)
    sites=''
    for name in a b c d; do
        sites="$sites $name:$(echo "$rtt" | awk '{ print $1 / 2 }'):0:$kbit"
    done
    links_up $tcp $sites
    start_job cell "a b c d" --set workers.local=false $method $codec
    await_lease
    began=$(bytes_moved)
    sleep $time_s
    moved=$(($(bytes_moved) - began))
    kill $job
    end_job 130
    links_down
    at_end=$(phases_of cell) bits=nan # if the link was too slow for one phase
    if [ "${at_end%% *}" -gt 0 ]; then
        bits=$(bits_of cell) && [ -n "$bits" ] || fail "the cell $kbit $rtt cannot be scored"
    fi
    echo "$kbit $rtt ${lifetime:-0} $method_name $codec_name $bits $moved $first $at_end" |
        awk -v OFS='\t' -v t=$time_s -v load="$(cut -d' ' -f1 /proc/loadavg)" '{
            n = $10 - $8
            link = $7 / 4 * 8 / ($1 * 1000) # seconds, one direction after the other
            formula = $11 - $9 + n * 2 * $2 / 1000 + link
            print $1 / 1000, $2, $3, $4, $5, n, t / formula, $6, 50 * link / t, load
        }' >>"$work/cells.tsv"
    tail -n 1 "$work/cells.tsv" | awk -F'\t' '{
        printf "| %g | %d | %s | %s | %s | %d | %.2f | %s | %.0f %% | %s |\n", $1, $2,
            $3 ? $3 " s" : "", $4, $5, $6, $7, $8 == "nan" ? "" : sprintf("%.3f", $8), $9, $10 }'
}

export PATHLOOM_FAILPOINT="worker.step.before@join:sleep:25"
echo "| Mbit/s | round trip, ms | kill -9 every | method | codec | phases in $time_s s | time / formula | bits per byte | links used | load |"
echo "|---|---|---|---|---|---|---|---|---|---|"
while [ "$repeats" -gt 0 ]; do
    for cell in $cells; do
        measure "$cell"
    done
    repeats=$((repeats - 1))
done
awk -F'\t' -v OFS='\t' '$2 == 40 && !$3 && $4 == "diloco" && $8 != "nan" { print $5, $1, $8 }' "$work/cells.tsv" >"$work/points.tsv"
