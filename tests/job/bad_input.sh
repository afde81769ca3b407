#!/bin/sh
# Tests bad input with one real command per case. The exit code must be one of sysexits.
# One sentence on stderr must name the object, the number and the remedy. No data may be
# lost, and no process or file may be left over.
#
# usage: bad_input.sh PATHLOOM WORKFOLDER   (in the project's root)
#
# Some cases need root (a small disk, another user). Without root a line names them.
set -u
export LC_ALL=C # awk, sort, printf and [a-z] depend on it
pathloom=$1
work=$2
[ "${work#/}" != "$work" ] || work=$PWD/$work
[ "${pathloom#/}" != "$pathloom" ] || pathloom=$PWD/$pathloom
disk=$work/disk
failures=0
cases=0
occupant=
job=
newline='
'

finish() {
    for pid in $occupant $job; do
        kill "$pid" 2>/dev/null
    done
    umount "$disk" "$work/fixed" 2>/dev/null
}
trap finish EXIT
trap 'exit 1' INT TERM
umount "$disk" "$work/fixed" 2>/dev/null
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
tree=$OLDPWD

# ---- checks ----
complain() { # what is wrong
    failures=$((failures + 1))
    echo "FAILED: $name: $1"
    tail -n 5 "$work/stdout" | sed 's/^/    | /'
    sed 's/^/    ! /' "$work/stderr"
}

# Prints the processes of all jobs under the work folder, one process id per line.
processes() {
    pgrep -f -- "$work/[a-z]" | grep -vx "${occupant:-none}"
}

check_nobody_left() { # waits for at most a minute
    tries=0
    while left=$(processes) && [ "$tries" -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ -z "$left" ] || complain "processes are left behind: $left"
}

run() { # COMMAND ...
    cases=$((cases + 1))
    code=0
    timeout 120 "$@" >"$work/stdout" 2>"$work/stderr" || code=$?
}

check_sentence() { # WORD ...
    sentence=$(cat "$work/stderr")
    case $sentence in
    *"$newline"* | 'pathloom:  '*) complain "not one sentence on stderr" ;;
    'pathloom: '?*) ;;
    *) complain "not one sentence on stderr" ;;
    esac
    for word in "$@"; do
        case $sentence in
        *"$word"*) ;;
        *) complain "the sentence lacks \`$word\`" ;;
        esac
    done
}

# refused NAME CODE 'WORDS...' COMMAND ...: words are separated by |
refused() {
    name=$1
    wanted=$2
    words=$3
    shift 3
    run "$@"
    [ "$code" -eq "$wanted" ] || complain "exit code $code instead of $wanted"
    IFS='|'
    # shellcheck disable=SC2086 # the list is several words
    check_sentence $words
    unset IFS
    check_nobody_left
}

# works NAME 'WORDS...' COMMAND ...: the words must be on stdout
works() {
    name=$1
    words=$2
    shift 2
    run "$@"
    [ "$code" -eq 0 ] || complain "exit code $code"
    if grep -q '^pathloom:' "$work/stderr"; then complain "an error on stderr"; fi
    IFS='|'
    for word in $words; do
        grep -qF -- "$word" "$work/stdout" || complain "the output lacks \`$word\`"
    done
    unset IFS
    check_nobody_left
}

# The same for a verb of the program: refuse NAME CODE 'WORDS...' VERB ..., and does NAME
# 'WORDS...' VERB ...
refuse() {
    name=$1 wanted=$2 words=$3
    shift 3
    refused "$name" "$wanted" "$words" "$pathloom" "$@"
}
does() {
    name=$1 words=$2
    shift 2
    works "$name" "$words" "$pathloom" "$@"
}

skip() { echo "$1: not on this machine"; }

# Prints the checksums of all files of a folder.
sum_of() { (cd "$1" && find . -type f | LC_ALL=C sort | xargs cksum); }

keep() { # notes what a folder contains
    sum_of "$1" >"$work/before"
}

check_intact() { # checks that the folder contains what `keep` noted
    sum_of "$1" | cmp -s - "$work/before" || complain "$1 has changed"
}

check_gone() {
    [ ! -e "$1" ] || complain "$1 is left behind"
}

# Overwrites 16 bytes in the middle of a file.
damage() {
    printf 'zzzzzzzzzzzzzzzz' |
        dd of="$1" bs=1 seek=$(($(wc -c <"$1") / 2)) conv=notrunc 2>/dev/null
}

# Damages the file every 64 KiB, so that every part of it that is read has damage.
damage_throughout() {
    at=0
    while [ "$at" -lt "$(($(wc -c <"$1") - 65536))" ]; do
        printf 'zzzzzzzzzzzzzzzz' | dd of="$1" bs=1 seek="$at" conv=notrunc 2>/dev/null
        at=$((at + 65536))
    done
}

wait_for() { # waits for FILE for at most two minutes
    tries=0
    while [ ! -e "$1" ] && [ "$tries" -lt 1200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ -e "$1" ] || complain "$1 does not come"
}

# ---- a tiny job ----
tiny="--workers 1 --set data.corpus=text --set data.vocab=400 \
    --set data.valid_share=0.2 --set model.width=32 --set model.heads=2 \
    --set model.blocks=2 --set model.context=48 --set router.prefix=16 \
    --set train.batch=2 --set train.tau=5 --set train.phases=2 \
    --set train.base_steps=5 --set eval.baselines=none --set eval.max_tokens=500 \
    --set eval.sample_tokens=8"
echo "exec '$pathloom' train $tiny \"\$@\"" >train.sh
train="sh train.sh"
mkdir -p text/code text/notes
cat "$tree"/base/[a-f]*.c | head -c 60000 | (cd text/code && split -b 2000 - code)
cat "$tree"/docs/[DP]*.md | head -c 40000 | (cd text/notes && split -b 2000 - notes)

echo "-- the corpus"
# refuse_corpus NAME CODE 'WORDS' OPTION ...: the corpus is refused, and no folder is
# left over
refuse_corpus() {
    name=$1
    wanted=$2
    words=$3
    shift 3
    refused "$name" "$wanted" "$words" $train --out "$work/never" "$@"
    check_gone "$work/never"
}
# refuse_keys NAME CODE 'WORDS' KEY=VALUE ...: the keys are refused with a good corpus
refuse_keys() {
    name=$1 wanted=$2 words=$3
    shift 3
    for key; do
        shift
        set -- "$@" --set "$key"
    done
    refuse_corpus "$name" "$wanted" "$words" --corpus text "$@"
}
mkdir empty binary
: >empty.txt
printf ' \n\t\n' >blank.txt
printf 'a single document of a few words\n' >one.txt
head -c 4000 "$pathloom" >binary/program
refuse_corpus "an empty file" 65 'empty.txt|no text|give' --corpus empty.txt
refuse_corpus "a blank file" 65 'blank.txt|no text|give' --corpus blank.txt
refuse_corpus "an empty folder" 65 'empty|no text files|give' --corpus empty
refuse_corpus "one document" 65 'one.txt|one document|data.cut = 4096' --corpus one.txt
refuse_corpus "a dry run without its corpus" 66 'nosuch|does not exist' --corpus nosuch --dry-run
printf '{"content": "x", "id": 1}\n' >keys.jsonl
refuse_corpus "lines without text" 65 'keys.jsonl|line 1|content, id|data.text_key' --corpus keys.jsonl
cat text/notes/* >book.txt
refuse_corpus "one file that is not cut" 65 'book.txt|one document|data.cut = 0' \
    --corpus book.txt --set data.cut=0
refuse_corpus "pieces of no size" 78 'data.cut is 9|at least 256' --corpus book.txt --set data.cut=9
refuse_corpus "a binary file" 65 'program|NUL|give' --corpus binary/program
refuse_corpus "a folder of binaries" 65 'binary|1 binary|give' --corpus binary
refuse_corpus "a missing file" 66 'nowhere.txt|does not exist|check' --corpus nowhere.txt
refuse_corpus "a missing held-out file" 66 'nowhere.txt' --corpus text --valid nowhere.txt
refuse_corpus "held-out text that is the corpus" 65 'nothing is left|text|give' \
    --corpus text --valid text
refuse_keys "a missing tokenizer" 66 'data.tokenizer|nowhere' data.tokenizer=nowhere
refuse_keys "a tokenizer that is none" 65 'one.txt|SentencePiece|data.tokenizer' data.tokenizer=one.txt
refuse_keys "too many pieces" 65 'data.vocab 90000|at most' data.vocab=90000
mkfifo pipe
refuse_corpus "a named pipe" 65 "'pipe'|a pipe|standard input" --corpus pipe
refuse_corpus "a pipe of held-out text" 65 "'pipe'|a pipe" --corpus text --valid pipe
refuse_keys "a tokenizer from a pipe" 65 "data.tokenizer|'pipe'|a pipe" data.tokenizer=pipe
refuse_corpus "a device" 65 "'/dev/zero'|a device|standard input" --corpus /dev/zero
gzip -c text/notes/notesaa | head -c 900 >cut.txt.gz
# Writes a zstd frame that ends after its header (`zstd | head -c 9`).
printf '\050\265\057\375\144\000\020\175\001' >cut.txt.zst
head -c 5 cut.txt.gz >stub.gz
refuse_corpus "a truncated gz" 65 'cut.txt.gz|truncated|again' --corpus cut.txt.gz
refuse_corpus "a truncated zst" 65 'cut.txt.zst|truncated|again' --corpus cut.txt.zst
refuse_corpus "a stub of a gz" 65 'stub.gz|begin like' --corpus stub.gz
printf '{"text":"one two"}\n{"text":"three"}\n{"text": "bro\n' >broken.jsonl
printf '{"text":"one two"}\n{"words":"three"}\n' >other.jsonl
printf 'PAR1....PAR1' >table.parquet
refuse_corpus "a broken line of JSON" 65 "broken.jsonl' line 3|column|correct" --corpus broken.jsonl
refuse_corpus "a line without text" 65 "other.jsonl' line 2|\"text\"" --corpus other.jsonl
refuse_corpus "parquet" 69 'table.parquet|duckdb' --corpus table.parquet
refuse_keys "more paths than documents" 78 'topology.levels|64 paths|documents|fewer' \
    topology.levels=8x8

echo "-- the configuration"
refuse_keys "heads and width" 78 'model.width 33|model.heads 2|change' model.width=33
refuse_keys "a prefix as long as the context" 78 'router.prefix 48|model.context 48' router.prefix=48
refuse_keys "an unknown key" 78 'train.taus|--set|train.tau' train.taus=3
refuse_keys "an unknown key that no key resembles" 78 \
    'train.learning_rate|pathloom explain WORD' train.learning_rate=1
refuse "a key as an option" 64 'no option `--lr`|--set KEY=VALUE|train.lr' train --lr 1
refuse "an option that no key resembles" 64 'pathloom explain learning-rate' \
    train --learning-rate 1
refuse "an option that no option resembles" 64 'no option `--port`; see `pathloom serve' \
    serve --port 80
refuse "a verb of the store that no verb resembles" 64 'no verb `foo`; `pathloom store --help`' \
    store foo
refuse_keys "a bad value" 78 'train.tau|abc|whole number' train.tau=abc
refuse_keys "no value" 78 'train.tau|key=value' train.tau
"$pathloom" init | sed 's/^preset: laptop$/preset: laptop-4x4/' >all_keys.yaml
refuse "a preset that changes nothing" 78 'laptop-4x4|no effect|all' train all_keys.yaml \
    --corpus text --out unused
refuse_keys "a bad preset" 78 'laptopp|laptop' preset=laptopp
refuse_keys "a bad topology" 78 '2y2|2x2' topology.levels=2y2
refuse_keys "blocks that do not split" 78 '2 blocks|model.blocks=3|3 levels|2x2x2|topology.blocks' \
    topology.levels=2x2x2
refuse_keys "blocks that do not add up" 78 'topology.blocks 1,2|3 blocks|model.blocks is 2' \
    topology.blocks=1,2
refuse_keys "too little memory" 78 'memory|TiB|lower' model.context=1000000 train.batch=4096
refuse_keys "uploads for which a home has no room" 78 'at once|1.0 MiB|store.staging=' \
    model.width=512 store.staging=1048576
printf 'train:\n  tau: 5\n  phasess: 3\n' >unknown.yaml
printf 'train:\n  tau: many\n' >value.yaml
printf 'train:\n  tau: [5\n' >broken.yaml
printf 'train:\n  tau: 5\n  tau: 6\n' >twice.yaml
refuse_corpus "an unknown key in a file" 78 'unknown.yaml line 3|train.phases' unknown.yaml
refuse_corpus "a bad value in a file" 78 'value.yaml line 2|whole number' value.yaml
refuse_corpus "a file that is no YAML" 78 'broken.yaml line|not YAML' broken.yaml
refuse_corpus "a key that stands twice" 78 'twice.yaml line 3|train.tau' twice.yaml
refuse_corpus "a missing file" 66 'nowhere.yaml' nowhere.yaml
printf 'train:\n  tau: \377\n' >byte.yaml
refuse_corpus "a file that is no text" 78 'byte.yaml line 2|UTF-8' byte.yaml
refuse_corpus "a configuration from a pipe" 65 "'pipe'|a pipe" pipe
refuse_corpus "a configuration from a device" 65 "'/dev/zero'|a device" /dev/zero
refuse_corpus "a folder of text as a configuration" 74 \
    'text is read as a configuration|--corpus' text
refuse_corpus "text as a configuration" 78 'one.txt is read as a configuration|--corpus' one.txt
refuse_corpus "two files" 64 twice.yaml value.yaml twice.yaml

echo "-- outer methods and codecs"
# refuse_outer NAME 'WORDS' KEY=VALUE ...
refuse_outer() {
    name=$1 words=$2
    shift 2
    refuse_keys "$name" 78 "$words" train.tau=15 "$@"
}
refuse_outer "an unknown method" 'nolocco|did you mean `noloco`|delayed-nesterov' outer.method=nolocco
refuse_outer "an unknown codec" 'skech16|did you mean `sketch16`' codec.name=skech16
refuse_outer "noloco's momentum" 'noloco|momentum 0.9|below 0.38|but it is 0.7|change the weight' \
    outer.method=noloco outer.momentum=0.9
refuse_outer "co2's momentum" 'co2|momentum 0.5|delay 1|below 0.5|lower' \
    outer.method=co2 outer.momentum=0.5
refuse_outer "diloco's lr" 'diloco|lr 1.4|below 1.357|lower' outer.lr=1.4
refuse_outer "a removed method" 'eager was removed|39 %|use diloco|streaming' outer.method=eager
refuse_outer "lr of modules of one path" 'diloco|lr 5|below 2' outer.lr_private=5
refuse_outer "fedavg with momentum" 'fedavg|0.5|diloco' outer.method=fedavg outer.momentum=0.5
refuse_outer "fragments that do not divide" '4 fragments|15 inner steps|must divide' \
    outer.method=streaming outer.fragments=4
refuse_outer "an overlap as long as a phase" 'overlap is 5|3 fragments|every 5 steps|below that number' \
    outer.method=streaming outer.fragments=3 outer.overlap=5
refuse_outer "spread beyond the buffer" 'delayed-nesterov|1/outer.buffer|4 and 0.5' \
    outer.method=delayed-nesterov outer.spread=0.5
refuse_outer "mates that send parts" 'noloco|topk|use f32, bf16, i8 or i4' \
    outer.method=noloco codec.name=topk
refuse_outer "rounded behind others" 'must be f32 with noloco|work with streaming only' \
    outer.method=noloco outer.own=bf16
refuse_outer "small ones rounded away" 'codec.residual=i8|topk|bf16' codec.name=topk codec.residual=i8
refuse_outer "versions for mates" 'noloco|take no versions|codec.down must be f32' \
    outer.method=noloco codec.down=i8
refuse_outer "mates that send sketches" 'noloco|tagc|use f32, bf16, i8 or i4' \
    outer.method=noloco codec.name=tagc
refuse_outer "mates that drift apart" 'noloco|consensus weight|below 0.8478, but it is 1' \
    outer.method=noloco outer.rule=nesterov outer.momentum=0.9 outer.consensus=1
refuse_outer "a deleted key" 'unknown key `outer.decay`|outer.delay' outer.decay=cosine
refuse_outer "values of three bits" 'topk|8 or 2 bits, not 3' codec.value_bits=3

echo "-- addresses"
"$pathloom" hub --listen 'tcp://127.0.0.1:*' --home tcp://127.0.0.1:1 \
    --ready "$PWD/occupant" 2>/dev/null &
occupant=$!
name="the occupant"
wait_for occupant
taken=$(cat occupant)
refuse_keys "a port in use, hub" 75 "net.hub|$taken|another port" "net.hub=$taken"
refuse_keys "a port in use, home" 75 "net.home|$taken|another port" "net.home=$taken"
refuse_keys "a port in use, metrics" 75 "net.metrics|${taken#tcp://}|another port" \
    "net.metrics=${taken#tcp://}"
refuse_keys "the same by its name" 75 "net.metrics|${taken#tcp://}|another port" \
    "net.metrics=localhost:${taken##*:}"
refuse_keys "metrics where the hub is" 78 "net.hub and net.metrics are both" \
    net.hub=tcp://127.0.0.1:20079 net.metrics=localhost:20079
kill "$occupant"
wait "$occupant" 2>/dev/null
occupant=
"$pathloom" hub --listen 'tcp://127.0.0.1:*' --home tcp://127.0.0.1:1 \
    --ready "$PWD/occupant" --metrics "${taken#tcp://}" 2>occupant.log &
occupant=$!
tries=0
until grep -q metrics.ready occupant.log || [ "$tries" -eq 1200 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
refuse_keys "metrics of another job" 75 "net.metrics|${taken#tcp://}|another port" \
    "net.metrics=${taken#tcp://}"
name="a second hub at the same metrics"
run "$pathloom" hub --listen 'tcp://127.0.0.1:*' --home tcp://127.0.0.1:1 \
    --ready "$PWD/second" --metrics "${taken#tcp://}"
[ "$code" -eq 75 ] || complain "exit code $code instead of 75"
kill "$occupant"
wait "$occupant" 2>/dev/null
occupant=
refuse_keys "one port for two" 78 'net.hub|net.home|tcp://127.0.0.1:5555' \
    net.hub=tcp://127.0.0.1:5555 net.home=tcp://127.0.0.1:5555
refuse_keys "one port for hub and metrics" 78 'net.hub|net.metrics|127.0.0.1:5555' \
    net.hub=tcp://127.0.0.1:5555 net.metrics=127.0.0.1:5555
refuse_keys "metrics of another machine" 69 'net.metrics|192.0.2.1|cannot listen' \
    net.metrics=192.0.2.1:5555
refuse_keys "metrics at a URL" 78 'net.metrics|tcp://127.0.0.1:19191|HOST:PORT' \
    net.metrics=tcp://127.0.0.1:19191
refuse_keys "all addresses in the clear" 78 'net.hub|0.0.0.0|net.encrypt' 'net.hub=tcp://0.0.0.0:*' \
    net.encrypt=off
refuse_keys "an address that is none" 78 'net.hub|127.0.0.1:x|port' net.hub=tcp://127.0.0.1:x
refuse_keys "an address of another machine" 69 'net.home|192.0.2.1|cannot listen' \
    net.home=tcp://192.0.2.1:5555

echo "-- unusual texts that must work"
cp -r text odd
i=0
while [ "$i" -lt 20 ]; do
    echo "short $i" >odd/short$i.txt
    i=$((i + 1))
done
printf 'some \377\376 bytes and \200 words that are not UTF-8\n' >odd/latin.txt
works "short, long and broken text" '3 bytes that are not UTF-8|too short|mixture' \
    $train --corpus odd --out odd-run

echo "-- a run and what can happen to it"
mkdir few
cp text/code/codea[a-l] few
works "twelve documents" 'mixture, by the router' \
    $train --corpus few --out "$work/few-run" --set data.valid_share=0.2
rm -rf few-run
# A path has 126 thousand parameters: its state fits, state and updates together do not.
works "uploads of which only one fits" 'mixture, by the router' \
    $train --corpus few --out "$work/few-run" --set data.valid_share=0.2 \
    --set model.width=64 --set store.staging=1048576
rm -rf few few-run
works "one text file" 'book.txt: cut into|mixture, by the router' \
    $train --corpus book.txt --out "$work/book-run" --set data.cut=1024
rm -rf book-run
gzip -k book.txt
works "one text file, one held out, both cut" \
    'book.txt.gz: cut into|text/notes/notesaa: cut into|mixture, by the router' \
    $train --corpus book.txt.gz --valid text/notes/notesaa --out "$work/book-run" \
    --set data.cut=1024
rm -rf book-run
works "the first start" 'mixture, by the router|base model|p11|pathloom generate' \
    $train --corpus text --out "$work/run"
[ "$failures" -eq 0 ] || exit 1
if grep -q "$(printf '\033')" stdout; then complain "escapes in a pipe"; fi
check_gone run/proc
works "the second start" 'prepared before|mixture, by the router' $train --corpus text --out "$work/run"
"$pathloom" init >all.yaml
refuse "what init writes is read again" 65 'empty.txt|no text' train all.yaml --corpus empty.txt \
    --out never
# shellcheck disable=SC2086 # the list is several words
"$pathloom" init ${tiny#--workers 1 } >tiny.yaml || complain "init refuses the keys"
does "what init writes means the same" 'prepared before' train tiny.yaml --out "$work/run"
keep run
refused "another configuration" 73 'train.tau|`5`|`6`|--out' \
    $train --corpus text --out "$work/run" --set train.tau=6
check_intact run
refused "another corpus" 73 'data.corpus|`text`|`odd`' $train --corpus odd --out "$work/run"
check_intact run

printf 'train:\n  tau: 5\nmodel:\n  head_size: 0\nworkers:\n  count: 1\n' >part.yaml
printf 'train:\n  tau: 6\n' >differs.yaml
does "a value that the run has" 'resumed|prepared before|mixture' train --out "$work/run" \
    --set train.phases=2
does "the corpus by other names" 'resumed|prepared before|mixture' train --out "$work/run" \
    --corpus ./text/
does "the whole path of the corpus" 'resumed|prepared before|mixture' train --out "$work/run" \
    --corpus "$work/text" --workers 1
does "a file with a few keys" 'resumed|prepared before|mixture' train part.yaml --out "$work/run"
keep run
refuse "one value that differs" 73 'train.phases|`2`|`4`|leave the key out' train --out "$work/run" \
    --set train.phases=4
refuse "a file's value that differs" 73 'train.tau|`5`|`6`' train differs.yaml --out "$work/run"
refuse "another corpus alone" 73 'data.corpus|`text`|`odd`' train --corpus odd --out "$work/run"
refuse "another width, which heads do not divide" 73 'model.width|`32`|`33`' train --out "$work/run" \
    --set model.width=33
check_intact run

cp -r run hurt
damage hurt/data/train.tok
keep hurt
refused "a damaged token file" 65 'train.tok|damaged|delete the folder' \
    $train --corpus text --out "$work/hurt"
check_intact hurt
damage hurt/data/valid.tok
refuse "damaged held-out text" 65 'valid.tok|damaged|delete the folder' eval --run hurt
rm -rf hurt/data
works "data made anew" 'trained in|mixture' $train --corpus text --out "$work/hurt"

# Copies the tokenizer of a different corpus. It has the same number of pieces, so only
# its hash differs.
cp odd-run/data/tokenizer.model hurt/data
for verb in "generate --prompt The" eval "export --path p00 --out never" \
    "serve --listen 127.0.0.1:*"; do
    # shellcheck disable=SC2086 # the list is several words
    refuse "${verb%% *} with another tokenizer" 65 'hurt/data/tokenizer.model|hash|delete the folder' \
        $verb --run hurt
done
check_gone never
refuse "train with another tokenizer" 65 'hurt/data/tokenizer.model|hash|delete the folder' train \
    --out "$work/hurt"
name="doctor and another tokenizer"
run "$pathloom" doctor --run hurt
grep -q '^fail  tokenizer .*hurt/data/tokenizer.model' stdout || complain "it found none"

for file in 'MANIFEST-*' CURRENT; do
    rm -rf hurt
    cp -r run hurt
    # shellcheck disable=SC2086 # a pattern
    damage hurt/store/db/$file
    refused "a damaged store, $file" 65 'hurt/store|Corruption|restore' \
        $train --corpus text --out "$work/hurt"
done
rm -rf hurt
cp -r run hurt
damage_throughout "$(ls -S hurt/store/db/*.sst hurt/store/db/*.log | head -n 1)"
refused "damaged blobs" 65 'hurt/store|Corruption|restore' $train --corpus text --out "$work/hurt"
rm -rf hurt

cp -r run hurt
rm hurt/store/FORMAT
for verb in "store fsck" "store ls" "generate --prompt The" "train --out"; do
    run=--run
    [ "$verb" != "train --out" ] || run=
    # shellcheck disable=SC2086 # the list is several words
    refuse "$verb without FORMAT" 65 'hurt/store/db|lost its file FORMAT|backup' $verb $run "$work/hurt"
done
rm -rf hurt

echo "-- limits of the process"
printf 'ulimit -f 500\nexec "$@"\n' >small-files.sh
refused "a limit on files" 74 'limited/store|File too large|ulimit -f' \
    sh small-files.sh $train --corpus text --out "$work/limited"
rm -rf limited
# Tries several limits on memory. At some of them the program still starts, but its
# database fails. Which limits these are depends on the machine. If a limit is so low that
# a library aborts before main, it is not tried.
name="a limit on memory"
cases=$((cases + 1))
ended=0
enough=0 # at how many limits the command has worked
kbytes=20000
while [ "$kbytes" -lt 600000 ] && [ "$enough" -lt 4 ]; do
    kbytes=$((kbytes < 100000 ? kbytes + 2500 : kbytes + 10000))
    prlimit --as=$((kbytes * 1024)) "$pathloom" --version >stdout 2>stderr || continue
    code=0
    prlimit --as=$((kbytes * 1024)) timeout -k 1 120 "$pathloom" store ls --run run \
        >stdout 2>stderr || code=$?
    case $code in
    0) enough=$((enough + 1)) ;;
    71) check_sentence 'the system refused' 'ulimit -v' && ended=$((ended + 1)) ;;
    esac
    # pl_alloc says that memory is exhausted, and aborts
    [ "$code" -ne 134 ] || grep -q '^pathloom: out of memory: [0-9]* bytes' stderr ||
        complain "pathloom aborts with ulimit -v $kbytes"
    [ "$code" -ne 124 ] || complain "pathloom hangs with ulimit -v $kbytes"
done
# Below some limit OpenBLAS has no room for its buffers, and must not wait for it.
for kbytes in 60000 100000 150000 200000 250000 300000 350000 400000; do
    code=0
    prlimit --as=$((kbytes * 1024)) timeout -k 1 120 "$pathloom" generate --run run --prompt The \
        --max-tokens 1 >stdout 2>stderr || code=$?
    [ "$code" -ne 124 ] || complain "generate hangs with ulimit -v $kbytes"
done
[ "$ended" -gt 0 ] || complain "no limit was too low for the database alone"

echo "-- a small disk, and another user"
mkdir "$disk"
if mount -t tmpfs -o size=8m tmpfs "$disk" 2>/dev/null; then
    refused "a disk that cannot hold the run" 78 'disk|MiB|--out' $train --corpus text --out "$disk/run"
    umount "$disk"
    mount -t tmpfs -o size=160m tmpfs "$disk"
    name="a disk that fills"
    cases=$((cases + 1))
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:20 \
        $train --corpus text --out "$disk/run" --set train.phases=10 >stdout 2>stderr &
    job=$!
    wait_for "$disk/run/proc/hub.address"
    head -c 90m /dev/zero >"$disk/fill" 2>/dev/null
    code=0
    wait "$job" || code=$?
    job=
    [ "$code" -eq 74 ] || complain "exit code $code instead of 74"
    check_sentence "$disk/run/store" MiB "free some disk space"
    check_nobody_left
    tail -c 160m /dev/zero >>"$disk/fill" 2>/dev/null
    refuse "garbage collection on a full disk" 74 \
        'only 0 B are free|first delete or move other files|gc --delete' \
        store gc --run "$disk/run" --delete --keep 1 --grace 0
    truncate -s 50m "$disk/fill"
    rm -r "$disk/run/cache"
    works "garbage collection on a disk with little space" freed \
        "$pathloom" store gc --run "$disk/run" --delete --keep 1 --grace 0
    rm "$disk/fill"
    works "the same command on a disk with space" 'mixture, by the router' \
        $train --corpus text --out "$disk/run" --set train.phases=10
    umount "$disk"
else
    skip "a small disk, which needs root"
fi
mkdir -m 755 readonly
as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
if [ "$(id -u)" -ne 0 ]; then
    chmod 555 readonly
    as_nobody=
fi
if $as_nobody test -x "$pathloom" 2>/dev/null && $as_nobody test -r train.sh; then
    refused "a folder that may not be written" 77 "readonly|--out" \
        $as_nobody $train --corpus text --out readonly/run
    keep run
    name="another's run"
    run $as_nobody $train --corpus text --out "$work/run"
    [ -z "$as_nobody" ] || [ "$code" -eq 77 ] || complain "exit code $code instead of 77"
    [ -z "$as_nobody" ] || check_sentence run "give another"
    [ -z "$as_nobody" ] || check_intact run
    if [ -n "$as_nobody" ]; then
        chmod 755 run run/store
        for change in "tag mine" "gc --delete" "rollback mix --to 1"; do
            # shellcheck disable=SC2086 # the list is several words
            refused "store $change of another's store" 77 \
                "run/store/db|this user may not|as the user" \
                $as_nobody "$pathloom" store $change --run run
        done
        chmod 700 run/store
        for verb in ls "tag mine" gc "fsck --quick"; do
            # shellcheck disable=SC2086 # the list is several words
            refused "store $verb of a closed store" 77 "run/store|may not|as the user" \
                $as_nobody "$pathloom" store $verb --run run
        done
        refused "text from a closed store" 77 "run/store|may not" \
            $as_nobody "$pathloom" generate --run run --prompt a
        chmod 755 run/store
        mkdir fixed
        if mount --bind run fixed 2>/dev/null; then
            mount -o remount,ro,bind "$work/fixed"
            refuse "a change of a read-only store" 77 "fixed/store|read-only|copy" store tag mine \
                --run fixed
            does "a look into a read-only store" 'L1.E0' store ls --run fixed
            umount fixed
        fi
        rmdir fixed
    fi
else
    skip "another user, who must be able to read this folder"
fi

echo "-- folders without a run"
for verb in eval "generate --prompt x" "route --prompt x" status "store ls" "store log L1.E0"; do
    # shellcheck disable=SC2086 # the list is several words
    refuse "$verb of no run" 66 'text' $verb --run text
done
refuse "an empty prompt" 64 '--prompt' generate --run run --prompt ''
refuse "no prompt" 64 '--prompt' generate --run run
refuse "a long prompt" 64 'tokens|context is 48|shorten' generate --run run \
    --prompt "$(head -c 2000 text/notes/notesaa)"
[ ! -s stdout ] || complain "the prompt was printed"
for value in x -1 nan 1000; do
    refuse "temperature $value" 64 "--temperature|100|\`$value\`" generate --run run --prompt a \
        --temperature "$value"
done
refuse "an unknown path" 66 'p99|p11' generate --run run --prompt a --path p99
does "text" 'The' generate --run run --prompt The --max-tokens 4
refuse "an unknown module" 66 'L9.E0|L1.E0' store log L9.E0 --run run
refuse "a version to come" 66 'versions 0 to 2|99' store show L1.E0@99 --run run
refuse "a tag named head" 64 '`head`|cannot be the name of a tag' store tag head --run run
refuse "eval with a key that changes results" 64 'train.tau=9' eval --run run --set train.tau=9
does "eval" '"ppl_routed":' eval --run run --json

echo "-- the command line"
refuse "an unknown verb" 64 'trian|train' trian
refuse "an unknown option" 64 '--corpsu|--corpus' train --corpsu text
refuse "a missing value" 64 '--corpus|value' train --corpus
refuse "a missing value" 64 '--max-tokens|value' generate --run run --prompt a --max-tokens
refuse "a word too many" 64 'word' eval --run run word
refuse "an empty value" 64 'the value of `--run` is empty|give RUN' eval --run ''
refuse "an empty corpus" 64 'the value of `--corpus` is empty' train --corpus ''
refuse "events that do not exist" 64 'no event begins with `nosuch`' observe --event nosuch
refuse "a benchmark of nothing" 64 'bench --help' bench nosuch
refused "output to a full disk" 74 'output' sh -c "'$pathloom' init >/dev/full"
refused "an unknown instruction set" 64 'PATHLOOM_CPU|avx9|portable, avx2' \
    env PATHLOOM_CPU=avx9 "$pathloom" eval --run run
works "an old instruction set" 'ppl' env PATHLOOM_CPU=portable "$pathloom" eval --run run
for verb in train eval generate route store status init hub home worker key join top doctor; do
    does "$verb --help" "usage: pathloom $verb|  --" "$verb" --help
    [ ! -s stderr ] || complain "help on stderr"
done
does "--help" 'train|generate|--help' --help

echo "-- keys and other machines"
token=pl1.127.0.0.1:1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE
refuse "no token" 64 'join|token|key invite' join
refuse "a token that is none" 64 'not a whole token|copy' join nonsense
refuse "half a token" 64 'whole token|key invite' join "${token%AE}.x" --key half.key
refuse "a token without its secret" 64 'secret|copy the whole' join "$token.AAAA" --key half.key
refuse "no token in its file" 64 'not a whole token' join --token-file /dev/null
refuse "no verb of key" 64 'takes new, show|invite' key
refuse "a key of no run" 66 'nowhere|net.hub' key list --run nowhere
refuse "an invitation without a job" 66 'nowhere|train' key invite --run nowhere
refuse "an unknown role" 64 'boss|worker' key invite --role boss
refuse "an odd span" 64 '--expires|24h' key invite --expires soon
does "a new key" '' key new fresh.key
refuse "a key in the place of another" 73 'fresh.key|exists already|never replaced' key new fresh.key
one=$("$pathloom" key show fresh.key)
two=$("$pathloom" key new second.key)
does "a key that is allowed" '' key allow "$one" --keys list --name one
refuse "a name that another key has" 73 'one|another key|--name' key allow "$two" --keys list --name one
refuse "a name of the job's own keys" 77 'own-worker|--name' key allow "$two" --keys list \
    --name own-worker
does "a second key" '' key allow "$two" --keys list
does "a revoked key" 'one is revoked|no invitation' key revoke one --keys list
does "the record of it" "revoked          $one" key list --keys list
does "the record of it in JSON" "\"role\":\"revoked\",\"key\":\"$one\"" key list --keys list --json
refuse "the name of a revoked key" 73 'one|revoked' key allow "$two" --keys list --name one
printf 'worker %s 0 0 twin\nworker %s 0 0 twin\n' "$one" "$two" >twins
refuse "a name for two" 64 '2 keys|twin|KEY' key revoke twin --keys twins
printf 'hub %s 0 0 own-hub\n' "$one" >own
refuse "a revoked key of the job itself" 77 "own-hub|the job's own keys|delete|start the job again" \
    key revoke own-hub --keys own
refuse "the same by its key" 77 "own-hub|the job's own keys" key revoke "$one" --keys own
mkdir -p barred/keys
refuse "one of them for a time" 77 "own-hub|do not expire|--expires" key allow "$one" --keys own \
    --expires 1h
printf 'revoked %s 0 0 own-hub\n' "$one" >barred/keys/allow
refused "a job that lacks one of its own keys" 77 "own-hub|revoked|key allow $one --run" \
    $train --corpus text --out "$work/barred" --set net.encrypt=on
does "its key let in again" '' key allow "$one" --run barred
does "with its name and role" "hub              $one  own-hub" key list --run barred
refused "a hub for all in the clear" 78 '0.0.0.0|encrypted|key' \
    sh -c "'$pathloom' hub --listen tcp://0.0.0.0:1 --home tcp://127.0.0.1:1 2>&1 |
        sed -n 's/.*error=.\\(.*\\)\"/pathloom: \\1/p' >&2; exit 78"
refuse "a key without a list" 64 '--keys' hub --key fresh.key --home tcp://127.0.0.1:1
refuse "a hub without homes" 64 '--home|--run' hub
refuse "nobody to watch" 66 'nowhere|train' top --run nowhere
refuse "an unknown code" 66 'lease.expird|lease.expired' explain lease.expird

echo "-- a job that is interrupted"
# The training is long enough to be interrupted several times.
long="--set train.tau=10 --set train.phases=12"
start() {
    cases=$((cases + 1))
    code=0
    PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:30 \
        $train --corpus text --out "$work/long" $long >stdout 2>stderr &
    job=$!
    wait_for long/proc/hub.address
    [ -e long/proc/hub.address ] || exit 1
}
end() { # CODE
    wait "$job" 2>/dev/null || code=$?
    job=
    [ "$code" -eq "$1" ] || complain "exit code $code instead of $1"
}

name="one Ctrl+C"
start
code=0
timeout 120 "$pathloom" train --out "$work/long" >second.out 2>second.err || code=$?
[ "$code" -eq 75 ] || complain "a second job ends with $code instead of 75"
grep -q 'another job is running' second.err || complain "the lock is not named"
"$pathloom" status --run long >second.out 2>&1 || complain "status of a running job"
tries=600 # the workers of a job start after its hub
until grep -q '^worker ' second.out; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || {
        complain "status shows no worker"
        break
    }
    sleep 0.1
    "$pathloom" status --run long >second.out 2>&1 || complain "status of a running job"
done
"$pathloom" store ls --run long >second.out 2>&1 || complain "store ls of a running job"
code=0
kill -INT "$job"
end 130
grep -q '^stopped' stdout || complain "it does not say that it stopped"
check_nobody_left
check_gone long/proc

name="a connection that drops" # the signal goes to all processes of the job
start
# shellcheck disable=SC2046 # the list is several words
kill -HUP $(processes)
end 130
grep -q '^stopped' stdout || complain "it does not say that it stopped"
[ ! -s stderr ] || complain "a process was hurt"
check_nobody_left
check_gone long/proc

name="a connection that drops, under nohup"
trap '' HUP
start
trap - HUP
kill -HUP "$job"
sleep 1
kill -0 "$job" 2>/dev/null || complain "it has ended"
kill -TERM "$job"
end 130
check_nobody_left

name="two Ctrl+C"
start
kill -INT "$job"
sleep 0.05
kill -INT "$job" 2>/dev/null
end 130
check_nobody_left

name="kill -9 of the launcher"
start
kill -9 "$job"
end 137
check_nobody_left
refuse "status of no run" 66 'there is no run in nosuch' status --run nosuch
refuse "status of a killed job" 66 'no job is running|train --out' status --run long
works "the same command finishes" 'resumed|mixture, by the router' \
    $train --corpus text --out "$work/long" $long
check_gone long/proc

echo "-- on a terminal"
if command -v script >/dev/null; then
    name="a narrow terminal"
    cases=$((cases + 1))
    TERM=xterm script -qec "stty cols 50 rows 24; $train --corpus text --out '$work/tty' \
        --set train.phases=8" typescript >/dev/null </dev/null || complain "exit code $?"
    # Every line of the block ends with ESC[K and must fit into the terminal.
    grep -a "$(printf '\033')\[K" typescript >block || complain "no block was drawn"
    sed "s/$(printf '\033')\[[0-9]*[A-Z]//g; s/$(printf '\r')//g" block >plain
    [ "$(awk 'length > 49' plain | wc -l)" -eq 0 ] || complain "a line is too wide"
    check_nobody_left
else
    skip "a terminal, which needs script(1)"
fi

[ "$failures" -eq 0 ] || {
    echo "$failures failures in $cases cases"
    exit 1
}
echo "$cases cases"
cd "$tree" && rm -rf "$work"
