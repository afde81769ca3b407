#!/bin/sh
# Tests `pathloom serve`. Its answers must be those of `pathloom generate`, also for
# many clients at the same time. It must refuse a bad request with one sentence. A
# server that is told to end must complete its answers first.
#
# usage: serve.sh PATHLOOM SERVE_ODD WORKFOLDER   (in the project's root)
#
# Needs curl.
set -eu
pathloom=$1
serve_odd=$2
. tests/support/script.sh
. tests/support/server.sh
needs curl
own_folder "$3"

ask() { # BODY [CURL'S OPTION ...]
    body=$1
    shift
    curl -s --max-time 60 "$@" "$at/v1/completions" -d "$body"
}

# Prints the text of an answer, or the joined texts of a stream's chunks.
text_of() {
    sed -n 's/.*"choices":\[{"text":"\(.*\)","index".*/\1/p' "$1" | tr -d '\n'
}

# refused HTTP-STATUS WORDS CURL'S ARGUMENT ...
refused() {
    wanted=$1
    words=$2
    shift 2
    status=$(curl -s --max-time 60 -o "$work/answer" -w '%{http_code}' "$@")
    [ "$status" = "$wanted" ] || fail "HTTP $status instead of $wanted: $*"
    grep -qF -- "$words" "$work/answer" ||
        fail "\`$(cat "$work/answer")\` does not say \`$words\`"
    ok
}

# Prints the first text field of this name in a JSON object.
field() { # NAME FILE
    grep -o "\"$1\":\"[^\"]*\"" "$2" | head -n 1 | cut -d'"' -f4
}

# alike RULE [OPTION OF GENERATE ...]: for each prompt, the server must choose the same
# path as `generate` by this rule. $work/paths.RULE gets the chosen paths. What
# `generate` chooses with these options is kept for the next call.
alike() {
    rule=$1
    shift
    grep -q "serve.routing by=$rule" "$work/stderr" || fail "the server does not route by $rule"
    told=$work/told.$rule.$(echo "$*" | tr -d ' ')
    [ -e "$told" ] || tell_paths "$@"
    : > "$work/paths.$rule"
    while read -r path prompt; do
        ask "{\"prompt\": \"$prompt\", \"max_tokens\": 1}" > "$work/answer"
        [ "$(field model "$work/answer")" = "$path" ] ||
            fail "by $rule generate takes $path, the server not: $(cat "$work/answer")"
        echo "$path" >> "$work/paths.$rule"
    done < "$told"
    ok
}

# Writes the path that `generate` chooses for each prompt, and the prompt, into $told.
tell_paths() { # OPTION OF GENERATE ...
    while read -r prompt; do
        "$pathloom" generate --run "$work/run" --prompt "$prompt" --max-tokens 1 --json \
            "$@" > "$work/alone" || fail "generate: $prompt"
        path=$(field path "$work/alone")
        [ "$(field route "$work/alone")" = "$rule" ] || fail "generate is not by $rule"
        [ -n "$path" ] || fail "generate names no path: $prompt"
        echo "$path $prompt" >> "$told"
    done < "$work/prompts"
}

several() { # RULE: checks that the prompts did not all get the same path
    [ "$(sort -u "$work/paths.$1" | wc -l)" -gt 1 ] || fail "the rule $1 chooses the same path for all prompts"
}

# Waits until N clients are connected. The kernel connects them also while the server is
# stopped. (In /proc/net/tcp the state 01 means connected.)
connected() { # N
    await 60 "$1 clients do not connect" has_clients "$1"
}

has_clients() { # N
    [ "$(awk -v port="$(printf ':%04X' "${at##*:}")" '$3 ~ port "$" && $4 == "01"' /proc/net/tcp |
        wc -l)" -ge "$1" ]
}

becomes_idle() {
    await 60 "requests of clients that left are still counted" is_idle
}

is_idle() {
    [ "$(metric requests_active)$(metric requests_waiting)" = 00 ]
}

# Tells the server to read the store again, and waits until it has done so.
reload() {
    reloads=$(grep -c serve.reloaded "$work/stderr" || :)
    kill -HUP "$server"
    await 60 "the server did not read the store again after HUP" has_reloaded
}

has_reloaded() {
    [ "$(grep -c serve.reloaded "$work/stderr")" -gt "$reloads" ]
}

metric() { # NAME
    curl -s --max-time 60 "$at/metrics" | sed -n "s/^pathloom_serve_$1 //p"
}

train_run --set train.tau=20 --set train.phases=4 --set eval.baselines=none \
    --set model.kv_heads=1 --set model.context=64 --set topology.levels=2x2

# ---- clients that ask at the same time get the texts of `generate`; the server
# computes three answers at once, and has memory for two of the four paths ----
start --slots 3 --paths 2
n=0
for prompt in 'static int ' 'The ' '/* ' 'for (int i' 'return'; do
    n=$((n + 1))
    "$pathloom" generate --run "$work/run" --prompt "$prompt" --max-tokens 40 --seed $n \
        --temperature 1 --top-k 0 --top-p 0.9 --json > "$work/alone.$n"
    body="{\"prompt\": \"$prompt\", \"max_tokens\": 40, \"seed\": $n, \"top_p\": 0.9"
    ask "$body}" > "$work/whole.$n" &
    clients="$clients $!"
    ask "$body, \"stream\": true}" > "$work/stream.$n" &
    clients="$clients $!"
done
clients_end "a client got no answer"
for i in $(seq $n); do
    want=$(sed -n 's/.*"text":"\(.*\)","prompt_tokens".*/\1/p' "$work/alone.$i")
    path=$(sed -n 's/.*"path":"\([^"]*\)".*/\1/p' "$work/alone.$i")
    [ -n "$want" ] || fail "generate wrote nothing"
    [ "$(text_of "$work/whole.$i")" = "$want" ] || fail "request $i has another text"
    [ "$(text_of "$work/stream.$i")" = "$want" ] || fail "stream $i has another text"
    grep -q "\"model\":\"$path\"" "$work/whole.$i" || fail "request $i took another path"
    [ "$(field route "$work/alone.$i")" = likelihood ] || fail "without --route, generate does not choose by likelihood"
    tail -n 2 "$work/stream.$i" | grep -qx 'data: \[DONE\]' || fail "stream $i has no end"
    ok
done
[ "$(metric requests_answered_total)" -eq $((2 * n)) ] || fail "answers are not counted"
ask '{"prompt": "The ", "model": "p10"}' | grep -q '"model":"p10"' || fail "no path p10"
curl -s "$at/v1/models" | grep -q '"id":"p11"' || fail "p11 is not listed"
curl -s "$at/health" | grep -q '"ok"' || fail "/health does not answer ok"
curl -s -D "$work/head" "$at/" | grep -q '<title>Talk' || fail "no page at /"
grep -q "^Content-Security-Policy: default-src 'none'" "$work/head" || fail "the page has no policy"
ok

# ---- a module is in memory only once ----
[ "$(metric paths_loaded)" -eq 2 ] || fail "$(metric paths_loaded) paths instead of 2"
[ "$(metric modules_loaded)" -ge 6 ] && [ "$(metric modules_loaded)" -le 8 ] ||
    fail "two paths have $(metric modules_loaded) modules"
curl -s "$at/props" | grep -q "\"modules\":{\"all\":12,\"in_memory\":$(metric modules_loaded),\"bytes\":$(metric module_bytes)}" ||
    fail "props has other modules: $(curl -s "$at/props")"
grep -q 'serve.memory paths=4 modules=12 ' "$work/stderr" || fail "no plan of the memory"
refused 400 'a slot for each of 4 paths' "$at/v1/completions" \
    -d '{"prompt": "The int x", "route_every": 4}'

# ---- the choice of the path for prompts of one token, for prompts shorter than the
# prefix (8 tokens), and for longer prompts ----
cat > "$work/prompts" << 'END'
a
The
return 0;
#!/bin/sh
/* folder: store; label: unit */
for (int i = 0; i < n; i++)
assert_int_equal(pl_store_open(path, PL_STORE_READ, &store), PL_OK);
The same text as generate, from clients at once, in three places and two paths
END
alike likelihood
several likelihood
"$pathloom" generate --run "$work/run" --prompt 'int x' --max-tokens 1 --json \
    --path p10 > "$work/alone"
[ "$(field route "$work/alone") $(field path "$work/alone")" = 'asked p10' ] ||
    fail "a path that was asked for: $(cat "$work/alone")"
grep -q nats "$work/alone" && fail "generate prints nats for a path that the user chose"
"$pathloom" generate --run "$work/run" --prompt 'int x' --max-tokens 1 --json \
    --route likelihood > "$work/alone"
least=$(grep -o '"p[01]*":[0-9.]*' "$work/alone" | tr -d '"' | tr : ' ' | sort -g -k 2)
[ "$(echo "$least" | wc -l)" -eq 4 ] || fail "not four paths: $(cat "$work/alone")"
[ "$(field path "$work/alone")" = "$(echo "$least" | head -n 1 | cut -d' ' -f1)" ] ||
    fail "the likelihood rule did not choose the likeliest path: $(cat "$work/alone")"
echo "$least" | awk -v told="$(sed 's/.*"margin_nats":\([0-9.]*\).*/\1/' "$work/alone")" \
    'NR == 1 { best = $2 }
     NR == 2 { gap = $2 - best - told; exit !(told > 0 && gap < 1e-9 && gap > -1e-9) }' ||
    fail "the margin is wrong: $(cat "$work/alone")"
ok
nats() { # PROMPT
    "$pathloom" generate --run "$work/run" --prompt "$1" --max-tokens 1 --json |
        sed 's/.*"nats"://'
}
[ "$(nats 'for (int i = 0; i < n; i++) {')" != "$(nats 'for (int i = 0; i < n; i++) a')" ] ||
    fail "tokens after the prefix do not count"
[ "$(nats 'for (int')" != "$(nats 'for (int i')" ] || fail "tokens of the prefix do not count"
ok
mkdir "$work/begin" # this run's prefix is only BOS, for which no loss can be computed
cp "$work/run/run.yaml" "$work/begin"
ln -s "$work/run/data" "$work/run/store" "$work/begin"
sed -i 's/^\( *prefix: *\)8/\11/' "$work/begin/run.yaml"
"$pathloom" generate --run "$work/begin" --prompt 'int x' --max-tokens 1 --json \
    --route likelihood > "$work/alone" || fail "generate by BOS alone"
[ "$(field route "$work/alone")" = router ] || fail "BOS alone: $(cat "$work/alone")"
ok
for verb in "generate --prompt x" "serve --listen 127.0.0.1:*"; do
    # shellcheck disable=SC2086 # the list is several words
    refuses 64 '^pathloom: --route takes auto, router or likelihood, not `best`$' \
        "$pathloom" $verb --run "$work/run" --route best
done

# ---- refused requests ----
refused 400 'not JSON' "$at/v1/completions" -d '{"prompt":'
refused 400 'is empty' "$at/v1/completions" -d ''
refused 400 'JSON object' "$at/v1/completions" -d '[1]'
refused 400 '`prompt`' "$at/v1/completions" -d '{}'
refused 400 '`prompt`' "$at/v1/completions" -d '{"prompt": ""}'
refused 400 '`n` must be' "$at/v1/completions" -d '{"prompt": "x", "n": 0}'
refused 400 '`top_p`' "$at/v1/completions" -d '{"prompt": "x", "top_p": 0}'
refused 400 '`max_tokens`' "$at/v1/completions" -d '{"prompt": "x", "max_tokens": 1.5}'
refused 400 '`stop`' "$at/v1/completions" -d '{"prompt": "x", "stop": ["a", ""]}'
refused 400 'unknown key' "$at/v1/completions" -d '{"prompt": "x", "tempreature": 1}'
refused 404 'model_not_found' "$at/v1/completions" -d '{"prompt": "x", "model": "p77"}'
refused 400 'leave one of them out' "$at/v1/completions" \
    -d '{"prompt": "x", "model": "p01", "route_every": 4}'
refused 400 '`route_every` must be' "$at/v1/completions" -d '{"prompt": "x", "route_every": 0}'
refused 405 'POST' "$at/v1/completions"
refused 404 '/v1/models' "$at/v2"
refused 404 'POST /v1/completions' "$at/v1/chat/completions" \
    -d '{"messages": [{"role": "user", "content": "x"}]}'
grep -q '"type":"invalid_request_error","code":"not_found"' "$work/answer" ||
    fail "no error of OpenAI's shape: $(cat "$work/answer")"
for page in health metrics v1/models; do
    curl -sI --max-time 60 "$at/$page" > "$work/answer"
    grep -q '^HTTP/1.1 200' "$work/answer" || fail "HEAD /$page: $(cat "$work/answer")"
    ok
done
long=$(seq 300 | tr '\n' ' ')
refused 400 'exceed_context_size_error' "$at/v1/completions" -d "{\"prompt\": \"$long\"}"
head -c 2000000 /dev/zero | tr '\0' a > "$work/large"
refused 413 'larger than' "$at/v1/completions" -d "@$work/large"

# ---- clients that behave as no library does ----
odd() { # CASE [N]
    how=$1
    shift
    "$serve_odd" "$how" 127.0.0.1 "${at##*:}" "$@" > "$work/odd" ||
        fail "$how: $(cat "$work/odd")"
}
odd framing
ok
odd crowd 1500
ok
odd half
ok

# ---- clients that disconnect ----
kill -STOP "$server"
for _ in 1 2 3 4 5; do
    curl -s --max-time 60 "$at/v1/completions" \
        -d '{"prompt": "The ", "max_tokens": 60, "stream": true}' > "$work/gone" &
    client=$! # curl itself, and not a shell that waits for it
    sleep 0.1
    kill -KILL "$client"
    wait "$client" 2> "$work/gone" || :
done
kill -CONT "$server"
ask '{"prompt": "The "}' | grep -q finish_reason || fail "no answer after clients left"
becomes_idle
ok

# ---- if a client disconnects while its answer is computed, the computation ends ----
lost=$(metric requests_left_total)
# The answer may be complete before the client is killed; then the test tries again.
for _ in $(seq 50); do
    curl -s --max-time 60 "$at/v1/completions" \
        -d '{"prompt": "The ", "max_tokens": 60, "n": 64}' > "$work/gone" &
    client=$!
    while [ "$(metric requests_active)" = 0 ] && kill -0 "$client" 2> "$work/pids"; do
        :
    done
    kill -KILL "$client" 2> "$work/pids" || :
    wait "$client" 2> "$work/pids" || :
    becomes_idle
    [ "$(metric requests_left_total)" -eq "$lost" ] || break
done
[ "$(metric requests_left_total)" -gt "$lost" ] || fail "the server does not notice that a client has gone"
ok

# ---- after HUP the server reads the store again ----
ask '{"prompt": "The ", "seed": 3}' > "$work/before"
read=$(metric modules_read_total)
reload
ask '{"prompt": "The ", "seed": 3}' > "$work/after"
[ "$(text_of "$work/before")" = "$(text_of "$work/after")" ] || fail "HUP changed a text"
[ "$(metric modules_read_total)" = "$read" ] || fail "HUP read modules that had not changed"
ends TERM

# ---- the path is chosen again during an answer: the text and the paths must be those
# of `generate`, beside other requests, in a stream, and alone ----
rerouted() { # LIKELIHOOD_OR_ROUTER
    n=0
    while read -r prompt; do
        n=$((n + 1))
        "$pathloom" generate --run "$work/run" --prompt "$prompt" --max-tokens 30 --seed $n \
            --temperature 3 --top-k 0 --top-p 1 --route "$1" --route-every 4 --json \
            > "$work/alone.$n" || fail "generate --route-every: $prompt"
        body="{\"prompt\": \"$prompt\", \"max_tokens\": 30, \"seed\": $n, \"temperature\": 3, \"route_every\": 4"
        echo "$body}" > "$work/body.$n"
        ask "$body}" > "$work/whole.$n" &
        clients="$clients $!"
        ask "$body, \"stream\": true}" > "$work/stream.$n" &
        clients="$clients $!"
        ask "{\"prompt\": \"$prompt\", \"max_tokens\": 20}" > "$work/answer.$n" &
        clients="$clients $!"
    done < "$work/prompts"
    clients_end "a client got no answer"
    moves=0
    for i in $(seq $n); do
        want=$(sed -n 's/.*"text":"\(.*\)","prompt_tokens".*/\1/p' "$work/alone.$i")
        paths=$(grep -o '"paths":\[[^]]*\]' "$work/alone.$i")
        [ -n "$want" ] && [ -n "$paths" ] || fail "generate wrote nothing"
        ask "$(cat "$work/body.$i")" > "$work/again.$i"
        for answer in whole stream again; do
            [ "$(text_of "$work/$answer.$i")" = "$want" ] ||
                fail "by $1 $answer $i has another text than $want: $(cat "$work/$answer.$i")"
            [ "$(grep -o '"paths":\[[^]]*\]' "$work/$answer.$i")" = "$paths" ] ||
                fail "$answer $i took other paths than $paths: $(cat "$work/$answer.$i")"
        done
        cost=$(grep -o '"routing_tokens":[0-9]*' "$work/alone.$i")
        [ "$(grep -o '"routing_tokens":[0-9]*' "$work/whole.$i")" = "$cost" ] ||
            fail "the cost is not $cost: $(cat "$work/whole.$i")"
        grep -q '"routing_seconds":[0-9]' "$work/whole.$i" || fail "no time: $(cat "$work/whole.$i")"
        grep -q '"model":"auto"' "$work/whole.$i" || fail "rerouted $i names one path"
        moves=$((moves + $(echo "$paths" | grep -o from | wc -l) - 1))
        ok
    done
    [ "$moves" -gt 0 ] || fail "by $1 no path has changed, so that nothing was tested"
    [ "$(metric routing_tokens_total)" -gt 0 ] || fail "routing_tokens_total is 0"
    [ "$(metric modules_loaded)" -eq 12 ] || fail "four paths have $(metric modules_loaded) modules"
}
routing_tokens() { # counts all tokens that `generate` has read to choose paths
    cat "$work"/alone.[0-9]* | sed 's/.*"routing_tokens":\([0-9]*\).*/\1/' |
        awk '{ sum += $1 } END { print sum }'
}
start --slots 9
rerouted likelihood
by_paths=$(routing_tokens)
ends TERM

# ---- the router ----
start --route router --slots 9
alike router --route router
several router
rerouted router
by_gate=$(routing_tokens)
[ "$by_gate" -lt "$by_paths" ] ||
    fail "by the router paths read $by_gate tokens more, by likelihood $by_paths"
ends TERM
cmp -s "$work/paths.router" "$work/paths.likelihood" &&
    fail "router and likelihood take the same paths, so that nothing was tested"
ok

# ---- if the queue is full, a new request gets 429; accepted requests are answered even
# after SIGTERM ----
start --slots 1 --queue 1
kill -STOP "$server"
for i in $(seq 12); do
    ask '{"prompt": "The ", "max_tokens": 50}' -i > "$work/burst.$i" &
    clients="$clients $!"
done
connected 12
kill -CONT "$server"
clients_end "a client of the burst got no answer"
grep -q '^HTTP/1.1 200' "$work"/burst.* || fail "no request of the burst was answered"
grep -q '^HTTP/1.1 429' "$work"/burst.* || fail "no request of the burst was refused"
grep -l '^HTTP/1.1 429' "$work"/burst.* | while read -r file; do
    grep -q '^Retry-After: ' "$file" || fail "429 without Retry-After"
done
ok
ask '{"prompt": "The ", "max_tokens": 60, "stream": true}' > "$work/last" &
client=$!
while [ "$(metric requests_active)" = 0 ] && kill -0 "$client" 2> "$work/gone"; do
    sleep 0.05
done
ends TERM
wait "$client" || fail "the last client got no answer"
grep -q 'DONE' "$work/last" || fail "the last stream was cut"

# ---- if a client disconnects while it waits, it loses its place in the queue ----
start --slots 1 --queue 4 --per-address 4
kill -STOP "$server"
odd vanish 300
ask '{"prompt": "The "}' > "$work/answer" &
client=$!
connected 1
kill -CONT "$server"
wait "$client" || fail "no answer after others have gone"
grep -q finish_reason "$work/answer" || fail "clients that disconnected keep their places in the queue: $(cat "$work/answer")"
ok

# ---- the number of requests from one address ----
ends TERM
start --slots 1 --per-address 2
kill -STOP "$server"
for i in $(seq 8); do
    ask '{"prompt": "The ", "max_tokens": 50}' > "$work/local.$i" &
    clients="$clients $!"
done
connected 8
kill -CONT "$server"
clients_end "a client of one address got no answer"
grep -q finish_reason "$work"/local.* || fail "no request of the address was answered"
grep -q '2 requests from this client' "$work"/local.* || fail "an address has no limit"
ends TERM

# ---- int8 ----
start --precision int8
ask '{"prompt": "The "}' | grep -q finish_reason || fail "int8 does not answer"
alike likelihood --precision int8
refuses 75 "${at#http://}.*another port" \
    "$pathloom" serve --run "$work/run" --listen "${at#http://}"
ends INT
refuses 64 '--listen' "$pathloom" serve --run "$work/run" --listen nowhere

# ---- a machine without memory for a second copy of every path ----
sed 's/^\(MemAvailable\|SwapFree\): .*/\1: 1200 kB/' /proc/meminfo > "$work/meminfo"
# little: runs a command for which /proc/meminfo shows only 2.4 MB of memory
cat > "$work/little" << END
mount --bind "$work/meminfo" /proc/meminfo && exec "\$@"
END
if unshare -m sh "$work/little" true 2> "$work/stdout"; then
    real=$pathloom
    printf '#!/bin/sh\nexec unshare -m sh "%s" "%s" "$@"\n' "$work/little" "$real" \
        > "$work/small"
    chmod +x "$work/small"
    pathloom=$work/small
    start
    pathloom=$real
    grep -q 'by=router.*reason=' "$work/stderr" || fail "the server did not say why it routes by the router"
    alike router --route router
    ends TERM
    refuses 71 'all 4 paths.*--route router' \
        "$work/small" serve --run "$work/run" --route likelihood
else
    echo "a server with little memory, which needs root: not on this machine"
fi

# ---- several HUPs while requests are answered must not change the choice of paths ----
start
: > "$work/busy"
for _ in 1 2 3; do
    while [ -e "$work/busy" ]; do
        ask '{"prompt": "The ", "max_tokens": 60}' > "$work/gone"
        kill -HUP "$server"
    done &
done
alike likelihood
rm "$work/busy"
several likelihood

# ---- after HUP the server reads the models for routing again: at version 0 every path
# is the base model ----
"$pathloom" store rollback mix --to 0 --run "$work/run" > "$work/stdout" 2>&1 ||
    fail "rollback: $(cat "$work/stdout")"
rm "$work"/told.*
reload # this may still be the reload of an earlier HUP
reload
alike likelihood
# Of equal paths the lowest answers a prompt that is not longer than router.prefix.
for prompt in 'The ' 'int x' 'for (int'; do
    ask "{\"prompt\": \"$prompt\", \"max_tokens\": 1}" > "$work/short"
    [ "$(field path "$work/short")" = p00 ] ||
        fail "equal paths: the lowest answers \`$prompt\`, not $(field path "$work/short")"
done
# A request that only scores its prompt gets its path by the first tokens, and any other
# request by all.
while read -r prompt; do
    ask "{\"prompt\": \"$prompt\", \"max_tokens\": 2, \"echo\": true, \"logprobs\": 0}" > "$work/echoed"
    field path "$work/echoed"
done < "$work/prompts" | cmp - "$work/paths.likelihood" || fail "echo changes the path"
while read -r prompt; do
    ask "{\"prompt\": \"$prompt\", \"max_tokens\": 1, \"echo\": true, \"logprobs\": 0}" > "$work/scored"
    [ "$(field path "$work/scored")" = p00 ] ||
        fail "tokens of \`$prompt\` that are scored choose the path $(field path "$work/scored")"
done < "$work/prompts"
ends TERM
echo "PASSED: $checks checks"
