#!/bin/sh
# Merges modules of several versions into a tag. With this tag the run is evaluated,
# generates text and is exported. The merged modules are computed again from their
# record.
#
# usage: surgery.sh PATHLOOM WORKFOLDER
# shellcheck disable=SC2154 # work belongs to job.sh
set -u
. tests/support/job.sh
begin "$@"

says() { # words
    grep -q -- "$1" "$work/verb.out" || fail "\`$verb\` does not say \`$1\`"
}

verb() { # runs a command of pathloom, which must succeed
    verb=$*
    "$pathloom" "$@" --run "$work/run" >"$work/verb.out" 2>&1 || fail "exit code $?: $verb"
}

refused() { # exit code, sentence, words of pathloom
    code=$1 sentence=$2
    shift 2
    verb=$*
    timeout 120 "$pathloom" "$@" --run "$work/run" >"$work/verb.out" 2>&1
    [ $? -eq "$code" ] || fail "not exit code $code: $verb"
    says "$sentence"
}


module_hash() { # MODULE@V: prints its whole hash
    "$pathloom" store show "$1" --run "$work/run" | sed -n 's/^hash *\([0-9a-f]*\).*/\1/p'
}

make_corpus base docs
(small_job run --set train.tau=8 --set train.phases=2 --set train.base_steps=8) \
    >"$work/run.out" 2>&1 || fail "the run"
verb store tag early 1
verb store tag late 2

echo "two tags: weights 1 and 0 give the hashes of the first"
verb store merge same late early --weights 1,0
says '^tag same names 12 merged and 0 other modules of mix'
for module in embed.E0 L1.E0 L1.E1 L2.E0 L2.E1 head.E0; do
    [ "$(module_hash "mix/$module@2")" = "$(module_hash "same.merged/$module@0")" ] ||
        fail "$module has another hash"
done

echo "every method of merge makes a tag that can be computed again from its record"
verb store merge mean late early
verb store merge arc late early --method slerp --weights 1,3
verb store merge elected late early --method ties --base mix@0 --density 0.3
verb store merge sum late early --method task --base mix@0 --weights 1,-0.5
verb store merge paths p00 p11 --method linear
says '^tag paths names 4 merged and 8 other modules'
verb store merge one L1.E0@1 L1.E0@2 L1.E1
says '^tag one names 1 merged and 11 other modules'
verb store merge twice mean arc
for tag in same mean arc elected sum paths one twice; do
    passes verb "store verify $tag" "$pathloom" store verify $tag --run "$work/run"
    verb="store verify $tag"
    says '^'$tag'.merged/L1.E0@0 .*  the same$'
done
verb store log one.merged/L1.E0
says 'merge linear  from \|merge linear  norm'
says '    mix/L1.E0@1  norm .*  weight 1 '
verb store log elected.merged/L1.E0
says 'merge ties  scale 1  density 0.3'
verb store blame elected.merged/L1.E0
says '^elected.merged/L1.E0@0: 2 versions were merged'
says ' %  mix/L1.E0@2$'
verb store fsck
verb store diff mean late

echo "merge --method task also changes shared modules, except those that equal the base"
verb store merge sums p00 p01 --method task --base mix@0
says '^tag sums names 4 merged and 8 other modules'
verb store verify sums
verb store merge kept p00@1 p01@1 --method task --base mix@1
says '^tag kept names 3 merged and 9 other modules'

echo "a merged module can be a source of another merge"
verb store merge again L1.E0@mean L1.E0@2
says '^tag again names 1 merged and 11 other modules of mix'
verb store merge again p00@mean p11@arc --force
says '^tag again names 4 merged and 8 other modules of mix'
verb store merge again mean.merged/L1.E0@0 L1.E0@1 --force
says '^tag again names 1 merged and 11 other modules of mix'
verb store verify again

echo "the same command finds its earlier result; a different command makes the next version"
verb store merge one L1.E0@1 L1.E0@2 L1.E1 --force
says 'one.merged/L1.E0@0'
verb store merge one L1.E0@1 L1.E0@2 --force
says 'one.merged/L1.E0@1'
[ "$(module_hash one.merged/L1.E0@1)" != "$(module_hash one.merged/L1.E0@0)" ] ||
    fail "two different merges have one hash"

echo "the run can be evaluated and generate text with the tags"
bits() { # options of eval: prints held-out bits per byte of the mixture
    "$pathloom" eval --run "$work/run" --json "$@" | tr ',{' '\n\n' |
        sed -n 's/^"bits_per_byte":\([0-9.]*\)$/\1/p' | head -1
}
[ -n "$(bits)" ] && [ "$(bits --at same)" = "$(bits)" ] || fail "eval --at same"
[ -n "$(bits --at mean)" ] && [ "$(bits --at mean)" != "$(bits)" ] || fail "eval --at mean"
verb eval --at same
says 'answers with the versions of tag same)'
verb eval --at same --json
says '"at": *"same"'
text() { # options of generate: prints the generated text
    "$pathloom" generate --run "$work/run" --prompt "int main(" --temperature 0 \
        --max-tokens 12 "$@" 2>/dev/null
}
[ "$(text --at same)" = "$(text)" ] || fail "generate --at same"
text --at paths >/dev/null || fail "generate --at paths"
verb route --prompt "int main(" --at mean
verb export --path p00 --at mean --out "$work/exported"
verb export --path p00 --at same --out "$work/a"
verb export --path p00 --out "$work/b"
[ "$(tail -c 40000 "$work/a/model.safetensors" | cksum)" = \
    "$(tail -c 40000 "$work/b/model.safetensors" | cksum)" ] || fail "export --at same"

echo "export --at chooses the path that answers at the tag; push leaves out tags without versions"
for prompt in int "def x" "# A" "(" static; do
    at=$("$pathloom" route --run "$work/run" --at early --prompt "$prompt" --json |
        sed 's/^{"path":"\([^"]*\)".*/\1/')
    "$pathloom" export --run "$work/run" --at early --prompt "$prompt" --out "$work/of-$at" \
        --json >"$work/exported.json" || fail "export --at early --prompt"
    grep -q "\"path\":\"$at\"" "$work/exported.json" ||
        fail "$prompt: $at answers, and another path is exported"
    rm -rf "$work/of-$at"
done
"$pathloom" store push "$work/pushed" mix --run "$work/run" >"$work/out" || fail "push of mix"
"$pathloom" store fsck --store "$work/pushed" >"$work/out" 2>&1 ||
    fail "the pushed store: $(cat "$work/out")"
"$pathloom" check --store "$work/pushed" >"$work/out" 2>&1 ||
    fail "check of the pushed store: $(cat "$work/out")"
grep -q '^data *unproven' "$work/out" || fail "a pushed store has data"

echo "with --without, no byte of the module is read"
verb eval --without L2.E1
says 'paths that use L2.E1 do not answer'
verb eval --without L2.E1 --json
says '"without": *"L2.E1"'
verb route --prompt "int main(" --without L2.E1,L1.E0
says 'the only path that may answer'
grep -q inf "$work/verb.out" && fail "a closed path has infinite numbers"
alone() { # prints the answers of the run without the paths through L2.E1
    text --without L2.E1 && bits --without L2.E1 &&
        "$pathloom" route --run "$work/run" --prompt "int main(" --without L2.E1 --json &&
        "$pathloom" generate --run "$work/run" --prompt "int main(" --temperature 0 \
            --max-tokens 12 --route-every 4 --without L2.E1 2>/dev/null
}
text --without L2.E0 --json | grep -q '"path":"p[01]1"' || fail "--without L2.E0 answers with a path through L2.E0"
text --without L2.E1 --json | grep -q '"path":"p[01]0"' || fail "--without L2.E1 answers with a path through L2.E1"
text --without L2.E1,L1.E0 --json --route router | grep -q '"path":"p10"' ||
    fail "the only path"
alone >"$work/whole"
[ -s "$work/whole" ] || fail "generate --without L2.E1 prints nothing"
"$pathloom" store cat L2.E1 --run "$work/run" >"$work/params"
at=4000 # the place of some bytes without a newline, so that grep can search for them
while od -An -v -tx1 -j $at -N 16 "$work/params" | grep -q '0a'; do at=$((at + 4)); done
bytes=$(od -An -v -tx1 -j $at -N 16 "$work/params" | sed 's/ /\\x/g')
n=0
for file in "$work"/run/store/db/*; do
    for place in $(LC_ALL=C grep -obUaP "$bytes" "$file" | cut -d: -f1); do
        printf 'damage!!' | dd of="$file" bs=1 seek="$place" conv=notrunc 2>/dev/null
        n=$((n + 1))
    done
done
[ $n -gt 0 ] || fail "the parameters of L2.E1 are not found on the disk"
alone >"$work/hurt"
cmp "$work/whole" "$work/hurt" || fail "generate --without L2.E1 answers differently if L2.E1 is damaged"
if command -v curl >/dev/null; then
    "$pathloom" serve --run "$work/run" --listen '127.0.0.1:*' --threads 1 \
        --without L2.E1 >"$work/serve.out" 2>&1 &
    job=$!
    await_in_job 60 "serve --without does not begin" "serve --without has ended" \
        grep '^serving' "$work/serve.out"
    at=$(sed -n 's/^serving .* at //p' "$work/serve.out")
    curl -s --max-time 60 "$at/models" >"$work/models"
    grep -q '"p10"' "$work/models" && ! grep -q '"p11"' "$work/models" ||
        fail "the server's models: $(cat "$work/models")"
    for model in auto:200 p10:200 p11:404; do
        code=$(curl -s --max-time 60 -o /dev/null -w '%{http_code}' "$at/completions" \
            -d "{\"prompt\": \"int\", \"max_tokens\": 2, \"model\": \"${model%:*}\"}")
        [ "$code" = "${model#*:}" ] || fail "model ${model%:*} is answered with $code"
    done
    kill $job
    wait $job || fail "serve ends with $?"
    job=''
fi
refused 65 'store/db' generate --path p11 --prompt "int main("

echo "the graph of a merged module goes back to the base model"
verb store log mean.merged/L1.E0 --graph
grep -q '^[*] mean.merged/L1.E0@0 .*merge linear of mix/L1.E0@' "$work/verb.out" ||
    fail "no merge: $(cat "$work/verb.out")"
grep -qF '|-.' "$work/verb.out" || fail "no branch: $(cat "$work/verb.out")"
[ "$(grep -c 'base/.*@0 ' "$work/verb.out")" -eq 1 ] ||
    fail "the lanes do not end in one base model: $(cat "$work/verb.out")"

echo "impossible merges are refused with one sentence"
refused 64 'without L1.E0,L1.E1 no path is left' \
    generate --prompt int --without L1.E0,L1.E1
refused 66 'no module `L9.E0`' eval --without L9.E0
refused 64 'that --without excludes' generate --prompt int --path p11 --without L2.E1
refused 64 'only modules of the same shape can be merged' store merge bad L1.E0 embed
refused 64 'linear has no density' store merge bad late early --density 0.5
refused 64 'slerp has no scale' store merge bad late early --method slerp --scale 2
refused 64 'slerp needs two sources, not 3' \
    store merge bad L1.E0 L1.E1 L1.E0@1 --method slerp
refused 64 'ties needs --base' store merge bad late early --method ties
refused 64 '--weights has 1 numbers for 2 sources' \
    store merge bad late early --weights 1
refused 64 'no module that corresponds to' store merge bad p00 late
refused 64 'no module that corresponds to' store merge bad mix base
verb store ls
grep -q '^bad.merged' "$work/verb.out" && fail "a refused merge left modules"
refused 66 'no best versions' serve --route router --select best --listen '127.0.0.1:*'
refused 64 'is not trained, so it cannot be rolled back' store rollback mean.merged/L1.E0 --to 0
refused 64 'nothing to merge' store merge bad late mix
refused 73 'exists already; give --force to replace it' store merge mean late early
refused 64 'a rollback needs versions of the modules themselves' \
    store rollback mix --to mean
rm -rf "$work"
