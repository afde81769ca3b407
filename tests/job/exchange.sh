#!/bin/sh
# Exports a path from one run, imports it into another run, and trains that run.
#
# usage: exchange.sh PATHLOOM WORKFOLDER   (in the project's root)
set -eu
. tests/support/script.sh
begin "$@"
checks=0

ok() {
    checks=$((checks + 1))
}

# refused CODE WORDS COMMAND ...
refused() {
    wanted=$1
    words=$2
    shift 2
    code=0
    "$@" > "$work/stdout" 2> "$work/stderr" || code=$?
    [ "$code" -eq "$wanted" ] || fail "exit code $code instead of $wanted: $*"
    grep -qF -- "$words" "$work/stderr" ||
        fail "\`$(cat "$work/stderr")\` does not say \`$words\`"
    ok
}

train() { # OUT ARGUMENT ...
    out=$1
    shift
    "$pathloom" train "$@" --corpus tests --out "$out" --set data.valid_share=0.2 \
        --set train.tau=10 --set train.phases=2 --set train.batch=4 \
        --set router.prefix=8 --set eval.baselines=none --set eval.sample_tokens=0 \
        --set eval.max_tokens=2000 \
        > "$work/log" 2>&1 || {
        tail -n 5 "$work/log"
        fail "training into $out"
    }
}

# Prints the bytes after the header, because the headers of two exports name different
# origins.
values() { # FILE
    length=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    tail -c "+$((9 + length))" "$1"
}

same_values() { # FILE FILE
    values "$1" > "$work/a"
    values "$2" > "$work/b"
    [ -s "$work/a" ] && cmp -s "$work/a" "$work/b" || fail "$1 and $2 differ"
    ok
}

train "$work/run" --set data.vocab=600 --set data.max_bytes=600000 --set model.width=48 \
    --set model.heads=2 --set model.kv_heads=1 --set model.blocks=3 --set topology.blocks=2,1 \
    --set model.context=32 --set train.base_steps=20 --set topology.levels=2x2

# ---- every kind of file, for one path and for all ----
"$pathloom" export --run "$work/run" --path p01 --out "$work/hf" > "$work/stdout"
for file in model.safetensors config.json generation_config.json tokenizer.model \
    tokenizer.json tokenizer_config.json special_tokens_map.json; do
    [ -s "$work/hf/$file" ] || fail "export wrote no $file"
done
ok
for type in f32 f16 bf16 q8_0; do
    "$pathloom" export --run "$work/run" --all --format gguf --type $type \
        --out "$work/gguf" > "$work/stdout"
    for path in p00 p01 p10 p11; do
        [ -s "$work/gguf/mix-$path-$type.gguf" ] || fail "no GGUF of $path in $type"
    done
    ok
done
[ "$(find "$work/gguf" -type f ! -name '*.gguf' | wc -l)" -eq 0 ] ||
    fail "export left something behind"

# ---- the model card ----
card=$work/hf/README.md
[ "$(head -n 2 "$card" | tail -n 1)" = 'library_name: transformers' ] ||
    fail "the card does not begin with the library name"
grep -q '^# run mix p01$' "$card" || fail "the card has no title"
"$pathloom" store show L1.E0 --run "$work/run" --json > "$work/stdout"
hash=$(sed 's/.*"hash":"\([0-9a-f]*\)".*/\1/' "$work/stdout")
grep -q "^| .mix/L1.E0. | 2 | .$hash. |" "$card" || fail "the card has not L1.E0@2"
tokens=$("$pathloom" data coverage mix --run "$work/run" --json |
    sed 's/.*"path":"mix\/p01[^}]*"tokens":\([0-9]*\).*/\1/')
grep -q "^| .mix. | 2 of 2 | 10 x 4 x 32 | $tokens | " "$card" || fail "not $tokens tokens"
row=$(grep '^| [a-z]* | [0-9]* | [0-9]* | .* % |$' "$card" | tail -n 1)
domain=$(echo "$row" | cut -d ' ' -f 2)
documents=$("$pathloom" data coverage mix --of "$domain" --run "$work/run" --json |
    sed 's/.*"path":"mix\/p01[^}]*"documents":\([0-9]*\).*/\1/')
[ "$(echo "$row" | cut -d ' ' -f 4)" = "$documents" ] ||
    fail "the card has not $documents documents of $domain"
bits=$(tr -d ' \n' < "$work/run/report.json" |
    sed 's/.*"row":"mix","title":"[^"]*","bits_per_byte":\([0-9.]*\).*/\1/')
bits=$(printf '%.4f' "$bits")
grep -q "^| mixture, by the router | $bits |" "$card" || fail "not $bits bits per byte"
ok

! grep -q 'store verify' "$card" || fail "the card names store verify, which needs kept updates"
mkdir "$work/mine"
echo mine > "$work/mine/README.md"
refused 64 "is not a model card" \
    "$pathloom" export --run "$work/run" --path p01 --out "$work/mine"
[ "$(cat "$work/mine/README.md")" = mine ] && [ ! -e "$work/mine/model.safetensors" ] ||
    fail "a refused export wrote a file"
"$pathloom" export --run "$work/run" --path p01 --out "$work/hf" > "$work/stdout" ||
    fail "a card that pathloom wrote is not replaced"

# ---- the exported versions ----
"$pathloom" export --run "$work/run" --path 1 --at 2 --out "$work/second" > "$work/stdout"
cmp "$work/hf/model.safetensors" "$work/second/model.safetensors" ||
    fail "the newest version is 2 but --at 2 differs"
"$pathloom" store tag early 1 --run "$work/run" > "$work/stdout"
"$pathloom" export --run "$work/run" --path 1 --at early --out "$work/early" > "$work/stdout"
"$pathloom" export --run "$work/run" --path 1 --at 1 --out "$work/first" > "$work/stdout"
same_values "$work/early/model.safetensors" "$work/first/model.safetensors"
grep -q 'user chose the exported versions' "$work/early/README.md" &&
    ! grep -q '^## Evaluation' "$work/early/README.md" ||
    fail "the card of an earlier version has the evaluation of the newest"
"$pathloom" export --run "$work/run" --path 1 --at 0 --out "$work/start" > "$work/stdout"
"$pathloom" export --run "$work/run" --arm base --out "$work/base" > "$work/stdout"
! grep -q 'updates of other paths' "$work/base/README.md" ||
    fail "one path is merged with others"
same_values "$work/start/model.safetensors" "$work/base/model.safetensors"
"$pathloom" export --run "$work/run" --prompt "static void" --out "$work/routed" --json |
    grep -q '"path":"p' || fail "--route names no path"
ok

# ---- import into a different run, whose arms begin with the imported model ----
"$pathloom" import "$work/hf" --out "$work/base.yaml" --set router.prefix=8 > "$work/stdout"
train "$work/next" "$work/base.yaml"
"$pathloom" export --run "$work/next" --arm base --out "$work/again" > "$work/stdout"
same_values "$work/hf/model.safetensors" "$work/again/model.safetensors"
"$pathloom" export --run "$work/next" --path p3 --at 0 --out "$work/part" > "$work/stdout"
same_values "$work/hf/model.safetensors" "$work/part/model.safetensors"
mv "$work/hf" "$work/moved"
"$pathloom" train --out "$work/next" > "$work/log" 2>&1 || fail "a run cannot be continued without its imported model"
ok

# ---- where the configuration is written ----
"$pathloom" import "$work/moved" --out - --set router.prefix=8 > "$work/piped.yaml"
"$pathloom" import "$work/moved" --out "$work/kept.yaml" --set router.prefix=8 > "$work/stdout"
cmp "$work/piped.yaml" "$work/kept.yaml" || fail "--out - and --out FILE write different configurations"
echo precious > "$work/precious.txt"
refused 73 "precious.txt exists already" \
    "$pathloom" import "$work/moved" --out "$work/precious.txt"
grep -qx precious "$work/precious.txt" || fail "a refused import has overwritten a file"
"$pathloom" import "$work/moved" --out "$work/precious.txt" --force \
    --set router.prefix=8 > "$work/stdout"
grep -q '^model:' "$work/precious.txt" || fail "--force does not replace the file"
refused 64 "--out FILE.yaml" "$pathloom" import "$work/moved" --out - --json
for set in model.width=64 data.vocab=900 model.tied=true model.import=x; do
    refused 64 "the imported model determines ${set%=*}" \
        "$pathloom" import "$work/moved" --out "$work/x.yaml" --set $set
done

# ---- refusals ----
refused 64 "give --path NAME, --prompt TEXT or --all" \
    "$pathloom" export --run "$work/run" --out "$work/x"
refused 64 "--format gguf" \
    "$pathloom" export --run "$work/run" --path p01 --type q8_0 --out "$work/x"
refused 64 "known are f32, f16, bf16, q8_0" \
    "$pathloom" export --run "$work/run" --path p01 --type q4 --out "$work/x"
refused 66 "the last one is p11" \
    "$pathloom" export --run "$work/run" --path p22 --out "$work/x"
refused 66 "has versions 0 to 2, not 9" "$pathloom" export --run "$work/run" --path p01 --at 9 --out "$work/x"
refused 66 "has no arm \`dense\`" \
    "$pathloom" export --run "$work/run" --arm dense --out "$work/x"
refused 66 "no config.json in $work/run" \
    "$pathloom" import "$work/run" --out "$work/x.yaml"
refused 66 "to import" "$pathloom" import "$work/nowhere" --out "$work/x.yaml"
refused 78 "model.import" \
    "$pathloom" train --corpus tests --out "$work/x" --set train.base_steps=0
sed 's/"attention_bias": false/"attention_bias": true/' "$work/moved/config.json" \
    > "$work/config.json"
cp "$work/config.json" "$work/moved/config.json"
refused 69 "attention_bias is true; pathloom's projections have no biases" \
    "$pathloom" import "$work/moved" --out "$work/x.yaml"
[ ! -e "$work/x.yaml" ] || fail "a refused import left a configuration"
rm -rf "$work"
echo "exchange: $checks checks passed"
