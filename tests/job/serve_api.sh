#!/bin/sh
# Tests the parts of OpenAI's completions API that evaluation programs and front ends
# use: scores of prompts and of answers, several prompts and answers, penalties, and
# streams.
#
# usage: serve_api.sh PATHLOOM WORKFOLDER   (in the project's root)
#
# Needs curl and jq.
set -eu
. tests/support/script.sh
. tests/support/server.sh
needs curl jq
begin "$@"

ask() { # BODY: writes the answer into $work/answer
    curl -s --max-time 60 "$at/v1/completions" -d "$1" > "$work/answer" ||
        fail "no answer to $1"
}

# holds FILTER [FILE]: the jq filter must be true of the answer, or of FILE
holds() {
    jq -e "$1" "${2:-$work/answer}" > "$work/jq" 2>&1 ||
        fail "not true: $1: $(head -c 2000 "${2:-$work/answer}")"
    ok
}

refused() { # HTTP-STATUS WORDS BODY
    status=$(curl -s --max-time 60 -o "$work/answer" -w '%{http_code}' \
        "$at/v1/completions" -d "$3")
    [ "$status" = "$1" ] || fail "HTTP $status instead of $1: $3"
    jq -e --arg words "$2" '.error.message | contains($words)' "$work/answer" \
        > "$work/jq" || fail "\`$(cat "$work/answer")\` does not say \`$2\`"
    ok
}

train_run --set eval.baselines=dense --set model.kv_heads=1 --set model.context=64 \
    --set topology.levels=2
start --slots 3

# ---- scores of a prompt: one score per token; the first one is null ----
ask '{"prompt": "static int x", "echo": true, "logprobs": 2, "max_tokens": 0}'
holds '.choices[0] | .text == "static int x" and .finish_reason == "length"'
holds '.choices[0].logprobs | .tokens[0] == "<s>" and .token_logprobs[0] == null and
    .top_logprobs[0] == null and (.token_logprobs[1:] | all(. < 0))'
holds '.usage.prompt_tokens as $n | .usage.completion_tokens == 0 and
    (.choices[0].logprobs | [.tokens, .token_logprobs, .top_logprobs, .text_offset] |
    all(length == $n))'
holds '.choices[0].logprobs | (.tokens[1:] | join("")) == "static int x"'
holds '.choices[0].logprobs | [.top_logprobs[1:][] | length] | all(. == 2 or . == 3)'
cp "$work/answer" "$work/none"
ask '{"prompt": "static int x", "echo": true, "logprobs": 2, "max_tokens": 1,
    "temperature": 0}'
jq -e --slurpfile none "$work/none" \
    '.choices[0].logprobs.token_logprobs[:-1] == $none[0].choices[0].logprobs.token_logprobs' \
    "$work/answer" > "$work/jq" || fail "one more token changes the scores of the prompt"
ok

# ---- a prompt as tokens ----
ask '{"prompt": [1, 300, 301, 302, 5], "echo": true, "logprobs": 0, "max_tokens": 1}'
holds '.choices[0].logprobs.tokens | length == 6'
holds '[.choices[0].logprobs.top_logprobs[1:][] | length] | all(. == 1)'
refused 400 'token 999999' '{"prompt": [1, 999999]}'

# ---- several prompts, several answers ----
ask '{"prompt": ["The ", "int ", [1, 5, 6]], "n": 2, "max_tokens": 6, "seed": 4,
    "echo": true, "logprobs": 1}'
holds '[.choices[].index] == [0, 1, 2, 3, 4, 5]'
holds '.choices[0:2] | all(.text | startswith("The "))'
holds '.choices | all(.path | test("^p[01]$"))'
cp "$work/answer" "$work/many"
for i in 0 1; do # answer i has seed 4 + i, and the bytes of a request with this seed
    ask "{\"prompt\": \"int \", \"max_tokens\": 6, \"seed\": $((4 + i)), \"echo\": true,
        \"logprobs\": 1}"
    jq -e --slurpfile many "$work/many" --argjson i "$i" '.choices[0] as $alone |
        $many[0].choices[2 + $i] | .text == $alone.text and
        .logprobs == $alone.logprobs and .path == $alone.path' "$work/answer" \
        > "$work/jq" || fail "answer $i of several differs from the answer to a single request"
    ok
done
[ "$(jq -c '[.choices[0:2][].text] | unique | length' "$work/many")" = 2 ] ||
    fail "two answers with different seeds are equal"
holds '.usage as $u | ($u.prompt_tokens + $u.completion_tokens) == $u.total_tokens' \
    "$work/many"

# ---- more answers than the server computes at once, while other clients ask ----
many=$(jq -cn '[range(20) | "text \(.)"]')
for i in 1 2 3; do
    curl -s --max-time 60 "$at/v1/completions" \
        -d "{\"prompt\": $many, \"max_tokens\": 5, \"logprobs\": 1}" > "$work/beside.$i" &
    clients="$clients $!"
done
clients_end "a client got no answer"
for i in 1 2 3; do
    [ "$(jq -c .choices "$work/beside.$i")" = "$(jq -c .choices "$work/beside.1")" ] ||
        fail "equal requests have different answers"
done
holds '[.choices[].index] == [range(20)]' "$work/beside.1"

# ---- options that change which tokens are chosen ----
ask '{"prompt": "The ", "max_tokens": 8, "logit_bias": {"300": 100}, "logprobs": 0}'
holds '.choices[0].logprobs.tokens | unique | length == 1'
ask '{"prompt": "The ", "max_tokens": 8, "min_p": 1, "logprobs": 1}' # the likeliest token
holds '.choices[0].logprobs | [.token_logprobs, (.top_logprobs | map([.[]] | max))] |
    .[0] == .[1]'
refused 400 'logit_bias names token 999999' \
    '{"prompt": "x", "logit_bias": {"999999": 1}}'
refused 400 '`stream_options` needs `stream`' \
    '{"prompt": "x", "stream_options": {"include_usage": true}}'
refused 400 '`echo`' '{"prompt": "x", "max_tokens": 0}'
refused 400 '600 answers' '{"prompt": ["x", "y", "z"], "n": 200}'

# ---- a stream has the same texts and scores; it has usage only if the request asks for
# it ----
ask '{"prompt": ["The ", "int "], "n": 2, "max_tokens": 9, "seed": 2, "echo": true,
    "logprobs": 2}'
cp "$work/answer" "$work/whole"
ask '{"prompt": ["The ", "int "], "n": 2, "max_tokens": 9, "seed": 2, "echo": true,
    "logprobs": 2, "stream": true, "stream_options": {"include_usage": true}}'
tail -n 2 "$work/answer" | grep -qx 'data: \[DONE\]' || fail "the stream has no end"
sed -n 's/^data: {/{/p' "$work/answer" | jq -s '
    . as $chunks | {usage: .[-1].usage, last: .[-1].choices,
    others: ([.[:-1][] | has("usage")] | any),
    choices: [range(4) as $i | [$chunks[].choices[] | select(.index == $i)] |
        {text: (map(.text) | join("")), finish_reason: .[-1].finish_reason,
        tokens: (map(.logprobs.tokens) | add),
        token_logprobs: (map(.logprobs.token_logprobs) | add),
        text_offset: (map(.logprobs.text_offset) | add)}]}' > "$work/joined" ||
    fail "the stream is no JSON: $(cat "$work/answer")"
jq -e --slurpfile whole "$work/whole" '.choices == [$whole[0].choices[] |
    {text, finish_reason, tokens: .logprobs.tokens,
    token_logprobs: .logprobs.token_logprobs, text_offset: .logprobs.text_offset}] and
    .usage == $whole[0].usage and .last == [] and .others == false' "$work/joined" \
    > "$work/jq" || fail "the stream differs: $(cat "$work/joined") $(cat "$work/whole")"
ok
ask '{"prompt": "The ", "max_tokens": 3, "stream": true}'
grep -q usage "$work/answer" && fail "the stream has usage although the request did not ask for it"
ok

# ---- a prompt that was read before ----
repeated='"prompt": "The same text, a second time", "max_tokens": 6, "logprobs": 1, "model": "p1"'
ask "{$repeated}"
holds '.usage.prompt_tokens_details.cached_tokens == 0'
cp "$work/answer" "$work/once"
ask "{$repeated}"
holds '.usage.prompt_tokens_details.cached_tokens == .usage.prompt_tokens'
jq -e --slurpfile once "$work/once" '.choices == $once[0].choices' "$work/answer" \
    > "$work/jq" || fail "a repeated prompt has another answer"
ask "{$repeated, \"echo\": true}" # for its scores the prompt must be read
holds '.usage.prompt_tokens_details.cached_tokens == 0'
curl -s "$at/metrics" | grep -q '^pathloom_serve_known_tokens_total [1-9]' ||
    fail "known tokens are not counted"

# ---- tokens, in the forms of llama-server and of vLLM ----
page() { # METHOD PATH [BODY]: writes the answer into $work/answer; the status must be 200
    status=$(curl -s --max-time 60 -X "$1" -o "$work/answer" -w '%{http_code}' \
        "$at$2" ${3:+-d "$3"})
    [ "$status" = 200 ] || fail "HTTP $status of $2: $(cat "$work/answer")"
}
page POST /tokenize '{"content": "static int x"}'
holds '(.tokens | length) == .count and .count > 1'
ids=$(jq -c .tokens "$work/answer")
page POST /tokenize '{"prompt": "static int x"}'
holds ".tokens == [1] + $ids and .max_model_len == 64"
page POST /tokenize '{"content": "static int x", "with_pieces": true}'
holds '[.tokens[].piece] | join("") == "static int x"'
page POST /detokenize "{\"tokens\": [1, ${ids#[}}"
holds '.content == "static int x" and .prompt == .content'
page GET /tokenizer_info
holds '.bos_token == "<s>" and .eos_token == "</s>" and .model_max_length == 64'
ask "{\"prompt\": [1, ${ids#[}, \"echo\": true, \"logprobs\": 2, \"max_tokens\": 0}"
jq -e --slurpfile none "$work/none" '.choices == $none[0].choices' "$work/answer" \
    > "$work/jq" || fail "a text and its tokens have different answers"
ok

# ---- embeddings, which the base model makes, so that all texts share one space ----
page POST /v1/embeddings '{"input": ["static int x;", "The weather", "static int x;"]}'
holds '.model == "base" and (.data | length) == 3 and (.data[0].embedding | length) == 48
    and .data[0].embedding == .data[2].embedding and
    .data[0].embedding != .data[1].embedding and .usage.prompt_tokens > 6'
holds '[.data[].embedding | map(. * .) | add] | all(. > 0.999 and . < 1.001)'
first=$(jq -c '.data[0].embedding' "$work/answer")
page POST /v1/embeddings '{"input": "static int x;", "model": "p1"}'
holds ".model == \"p1\" and .data[0].embedding != $first"
page POST /v1/embeddings '{"input": "static int x;", "encoding_format": "base64"}'
[ "$(jq -r '.data[0].embedding' "$work/answer" | base64 -d | wc -c)" = 192 ] ||
    fail "not 48 floats: $(cat "$work/answer")"
ok

# ---- properties of the server ----
page GET /props
holds '.default_generation_settings.n_ctx == 64 and .total_slots == 3 and
    .default_generation_settings.params.max_tokens == 16'
page GET /slots
holds 'length >= 3 and all(.n_ctx == 64) and (map(.id) == [range(length)]) and
    (map(.is_processing) | any | not)'
page GET /v1/models
holds '[.data[].id] == ["auto", "p0", "p1", "base", "dense"]'
page GET /v1/models/dense
holds '.id == "dense" and .object == "model"'
status=$(curl -s -o "$work/answer" -w '%{http_code}' "$at/v1/models/p7")
[ "$status" = 404 ] || fail "HTTP $status for a model that is not there"
ask '{"prompt": "The ", "model": "dense", "max_tokens": 4}'
holds '.model == "dense" and .choices[0].path == "dense"'
ask '{"prompt": "The ", "model": "mix", "max_tokens": 4}'
holds '.model | test("^p[01]$")'
refused 404 'send `auto`, or a name of GET /v1/models' '{"prompt": "x", "model": "nosuch"}'
ask '{"prompt": "The ", "max_tokens": 55, "stream": true}' &
client=$!
for _ in $(seq 100); do
    curl -s "$at/slots" > "$work/slots"
    jq -e 'any(.is_processing and .next_token[0].n_decoded > 0)' "$work/slots" \
        > "$work/jq" && break
done
wait "$client"
refused_at() { # HTTP-STATUS WORDS PATH CURL'S OPTION ...
    wanted=$1 words=$2 page=$3
    shift 3
    status=$(curl -s -o "$work/answer" -w '%{http_code}' "$at$page" "$@")
    [ "$status" = "$wanted" ] || fail "HTTP $status instead of $wanted: $page"
    grep -qF -- "$words" "$work/answer" || fail "$page: $(cat "$work/answer")"
    ok
}
refused_at 405 'with POST' /tokenize
refused_at 405 'with GET' /slots -d '{}'
refused_at 404 'GET /v1/models' /v1/nothing -d '{}'
allows() { # METHODS PATH CURL'S OPTION ...
    methods=$1 page=$2
    shift 2
    curl -s -i "$at$page" "$@" | tr -d '\r' | grep -qx "Allow: $methods" ||
        fail "405 without Allow: $methods for $page"
    ok
}
allows POST /v1/completions -X DELETE
allows 'GET, HEAD' /v1/models -d '{}'

# ---- requests as other clients send them ----
refused_at 200 text_completion /v1/completions -H 'Transfer-Encoding: chunked' \
    -d '{"prompt": "x", "max_tokens": 1}'
head -c 1500000 /dev/zero | tr '\0' ' ' > "$work/long"
refused_at 413 'larger than' /v1/completions -H 'Transfer-Encoding: chunked' \
    --data-binary @"$work/long"
refused_at 415 uncompressed /v1/completions -H 'Content-Encoding: gzip' -d x
refused_at 200 text_completion /v1/completions/ -d '{"prompt": "x", "max_tokens": 1}'
refused_at 200 '"object":"list"' /v1/models/
refused_at 200 '"ok"' / --request-target "$at/health"

# ---- the answer says how its path was chosen, unless the request named it ----
ask '{"prompt": "static int x", "max_tokens": 1}'
holds '(.usage.routes | length) == 1 and .usage.routes[0].path == .choices[0].path and
    .usage.routes[0].rule == "likelihood" and .usage.routes[0].margin_nats > 0'
ask '{"prompt": "static int x", "max_tokens": 1, "model": "p0"}'
holds '.usage | has("routes") | not'

# ---- the probabilities of all last tokens sum to 1, also in a text that is shorter than
# router.prefix: the last token does not choose the path by which it is scored ----
total=0
for first in 0 200 400; do
    ask "{\"prompt\": $(jq -nc "[range($first; $first + 200) | [1, 300, .]]"),
        \"echo\": true, \"logprobs\": 0, \"max_tokens\": 0}"
    total=$(jq "$total + ([.choices[].logprobs.token_logprobs[2] | exp] | add)" \
        "$work/answer")
done
jq -en "($total - 1) | fabs < 1e-3" > "$work/jq" || fail "the probabilities sum to $total"
ok
refused_at 400 '`content`' /tokenize -d '{}'
refused_at 400 '`input`' /v1/embeddings -d '{}'
refused_at 400 'context is 64' /v1/embeddings -d "{\"input\": \"$(seq 300 | tr '\n' ' ')\"}"

ends

# ---- conversations ----
start --chat plain
chat() { curl -s --max-time 60 "$at/v1/chat/completions" -d "$1" > "$work/answer"; }
turns='[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "The"}]'
ask '{"prompt": "system: Be kind.\nuser: The\nassistant:", "max_tokens": 12,
    "stop": ["\nuser:", "\nsystem:"]}'
text=$(jq '.choices[0].text | ltrimstr(" ")' "$work/answer")
usage=$(jq -c '.usage | [.prompt_tokens, .completion_tokens]' "$work/answer")
chat "{\"messages\": $turns, \"max_tokens\": 12, \"logprobs\": true, \"top_logprobs\": 2}"
holds '.object == "chat.completion" and .choices[0].message.role == "assistant"'
holds ".choices[0].message.content == $text"
holds "(.usage | [.prompt_tokens, .completion_tokens]) == $usage"
holds '.choices[0].logprobs.content | length == 12 and all(.top_logprobs | length == 2)'
chat "{\"messages\": $turns, \"max_tokens\": 12, \"stream\": true}"
sed -n 's/^data: \({.*\)/\1/p' "$work/answer" > "$work/chunks"
jq -s -e "(map(.choices[0].delta.content) | add) == $text and
    .[0].choices[0].delta.role == \"assistant\" and
    (map(.object) | unique) == [\"chat.completion.chunk\"] and
    ([.[] | .choices[0].delta | has(\"role\")] | map(select(.)) | length) == 1" \
    "$work/chunks" > "$work/jq" || fail "a stream: $(cat "$work/answer")"
refused_at 400 '`messages`' /v1/chat/completions -d '{}'
refused_at 400 '`tools`' /v1/chat/completions -d "{\"messages\": $turns, \"tools\": [1]}"
page GET /props
holds '.chat_template == "plain"'
ends
refuses 64 'chatml, llama2, plain or none, not `jinja`' \
    "$pathloom" serve --run "$work/run" --chat jinja

# ---- keys, requests from other origins, and the log line of a request ----
key=0123456789abcdef0123456789abcdef
printf 'alice %s\n' "$(printf %s "$key" | b2sum -l 256 | cut -d' ' -f1)" > "$work/keys"
start --api-keys "$work/keys" --cors https://page.example --log-requests
refused_at 401 'Authorization: Bearer KEY' /v1/models
refused_at 401 invalid_api_key /v1/completions -d '{"prompt": "x"}'
refused_at 401 invalid_api_key /v1/models -H "Authorization: Bearer ${key}0"
refused_at 401 invalid_api_key /nosuch
refused_at 200 '"ok"' /health
refused_at 200 '<title>Talk' / # the page itself contains no data
refused_at 200 '"auto"' /v1/models -H "Authorization: Bearer $key"
refused_at 200 text_completion /v1/completions -H "Authorization: Bearer $key" \
    -d '{"prompt": "x", "max_tokens": 3}'
curl -s -i -X OPTIONS "$at/v1/completions" -H 'Origin: https://page.example' \
    > "$work/answer"
grep -q '^HTTP/1.1 204' "$work/answer" || fail "no preflight: $(cat "$work/answer")"
grep -qi '^Access-Control-Allow-Origin: https://page.example' "$work/answer" ||
    fail "no origin is allowed: $(cat "$work/answer")"
grep -qi '^Access-Control-Allow-Headers: .*Authorization' "$work/answer" ||
    fail "no header is allowed: $(cat "$work/answer")"
curl -s -i "$at/v1/completions" -H "Authorization: Bearer $key" \
    -d '{"prompt": "x", "max_tokens": 3, "stream": true}' > "$work/answer"
grep -qi '^Access-Control-Allow-Origin: https://page.example' "$work/answer" ||
    fail "a stream allows no origin"
ends
grep 'serve.request' "$work/stderr" > "$work/requests" || fail "no request is logged"
grep -q 'endpoint=/v1/completions status=200 .*key=alice .*tokens=3$' "$work/requests" ||
    fail "the log lacks an answer: $(cat "$work/requests")"
grep -q 'endpoint=/v1/models status=401 .*key=- ' "$work/requests" ||
    fail "the log lacks a refusal: $(cat "$work/requests")"
grep -q 'endpoint=- status=401' "$work/requests" || fail "the log lacks /nosuch"
grep -q "$key" "$work/stderr" && fail "the log contains a key"
ok
start
status=$(curl -s -o "$work/answer" -w '%{http_code}' -X OPTIONS "$at/v1/completions")
[ "$status" = 405 ] || fail "HTTP $status for OPTIONS without --cors"

# ---- a server without keys answers only this machine, and no page of another site ----
body='{"prompt": "x", "max_tokens": 1}'
for host in evil.example 127.0.0.1.evil.example 127.0.0.11 localhost.evil.example; do
    refused_at 403 'the Host header' /v1/models -H "Host: $host"
    refused_at 403 foreign_site /v1/completions -H "Host: $host:80" -d "$body"
done
refused_at 200 '"auto"' /v1/models -H "Host: LOCALHOST:1"
for origin in https://evil.example null http://localhost.evil.example "https://127.0.0.1:1"; do
    refused_at 403 'a different site' /v1/completions -H "Origin: $origin" \
        -H 'Content-Type: text/plain' -d "$body"
    refused_at 403 'a different site' /slots -H "Origin: $origin"
done
refused_at 403 'a different site' /v1/completions -H 'Sec-Fetch-Site: cross-site' -d "$body"
refused_at 403 'a different site' /metrics -H 'Sec-Fetch-Site: same-site'
refused_at 200 '<title>Talk' / -H 'Sec-Fetch-Site: cross-site' # a link to the page
refused_at 200 text_completion /v1/completions -H "Origin: $at" -d "$body" # its own page
refused_at 404 'no such endpoint' /health%00x
refused_at 404 'no such endpoint' /metrics%00/y
refused_at 200 '"ok"' /h%65alth
refused_at 400 'U+0000' /tokenize -d '{"content": "a\u0000b"}'
refused_at 400 'U+0000' /tokenize -d '{"prompt": "\u0000"}'
ends
refuses 64 'give --api-keys FILE' "$pathloom" serve --run "$work/run" --listen '0.0.0.0:*'
start --cors https://page.example
refused_at 200 text_completion /v1/completions -H 'Origin: https://page.example' -d "$body"
refused_at 403 'a different site' /v1/completions -H 'Origin: https://evil.example' -d "$body"
ends

# ---- what one key has asked is not known to another ----
for name in alice bob; do
    printf '%s %s\n' $name "$(printf %s "$key-$name" | b2sum -l 256 | cut -d' ' -f1)"
done > "$work/two-keys"
start --api-keys "$work/two-keys"
known() { # key's name -> number of known tokens of the prompt
    curl -s "$at/v1/completions" -H "Authorization: Bearer $key-$1" \
        -d '{"prompt": "My PIN is 4711 and", "max_tokens": 1}' |
        jq '.usage.prompt_tokens_details.cached_tokens'
}
carol=$("$pathloom" key api carol --keys "$work/two-keys")
refused_at 401 'no key' /v1/models -H "Authorization: Bearer $carol"
kill -HUP "$server"
await 60 "the server does not read its keys again" grep -q serve.reloaded "$work/stderr"
refused_at 200 '"auto"' /v1/models -H "Authorization: Bearer $carol"
[ "$(known alice)" = 0 ] || fail "a new prompt is known"
[ "$(known bob)" = 0 ] || fail "one key learns that another sent the same prompt"
[ "$(known alice)" -gt 0 ] || fail "a key's own prompt is read again"
[ "$(known bob)" -gt 0 ] || fail "a key's own prompt is read again"

# ---- the last keys are taken away, and come back ----
cp "$work/two-keys" "$work/keys-kept"
: > "$work/two-keys"
kill -HUP "$server"
await 60 "a server without keys answers" sh -c \
    "curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer $key-bob' '$at/v1/models' | grep -q 401"
cat "$work/keys-kept" > "$work/two-keys"
kill -HUP "$server"
await 60 "the keys do not come back" sh -c \
    "curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer $key-bob' '$at/v1/models' | grep -q 200"

# ---- one text of embeddings at a time: others are answered between them ----
jq -n '[range(200) | "word " * 18] | {input: .}' > "$work/texts"
curl -s "$at/v1/embeddings" -H "Authorization: Bearer $key-bob" -d "@$work/texts" > "$work/embedded" &
embeds=$!
for i in 1 2 3; do
    curl -s "$at/v1/completions" -H "Authorization: Bearer $key-bob" \
        -d '{"prompt": "a", "max_tokens": 1}' > "$work/answer"
    holds '.choices | length == 1'
done
wait "$embeds"
jq -e '.data | length == 200' "$work/embedded" > /dev/null || fail "not all texts were embedded"

# ---- answers that wait to be sent are bounded ----
large() { # answers
    curl -s "$at/v1/completions" -H "Authorization: Bearer $key-bob" \
        -d "{\"prompt\": [\"a\", \"b\", \"c\", \"d\"], \"n\": $1, \"max_tokens\": 64,
            \"logprobs\": 20, \"echo\": true}" > "$work/answer"
}
large 2
holds '.choices | length == 8'
large 1000000
holds '.error.message | length > 0'
ends
starts_not() { # OPTION ...
    timeout 120 "$pathloom" serve --run "$work/run" --listen '127.0.0.1:*' "$@" \
        > "$work/answer" 2>&1 && fail "serve starts with $*"
    ok
}
starts_not --api-keys "$work/nothing"
starts_not --tls-cert "$work/keys"
starts_not --tls-cert "$work/keys" --tls-key "$work/keys"
grep -q 'PEM' "$work/answer" || fail "a wrong certificate: $(cat "$work/answer")"

# ---- TLS ----
if command -v openssl > "$work/jq"; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/tls.key" \
        -out "$work/tls.cert" -days 2 -subj /CN=localhost > "$work/log" 2>&1 ||
        fail "openssl: $(cat "$work/log")"
    start --tls-cert "$work/tls.cert" --tls-key "$work/tls.key"
    case $at in https://*) ;; *) fail "the server with TLS has the address $at" ;; esac
    curl -s --cacert "$work/tls.cert" --resolve "localhost:${at##*:}:127.0.0.1" \
        "https://localhost:${at##*:}/v1/completions" \
        -d '{"prompt": "The ", "max_tokens": 20, "stream": true}' > "$work/answer"
    grep -q 'DONE' "$work/answer" || fail "no stream over TLS: $(cat "$work/answer")"
    curl -s "http://${at#https://}/health" > "$work/answer" && fail "a server with TLS answers plain HTTP"
    ends
    ok
else
    echo "TLS, which needs openssl: not on this machine"
fi
rm -rf "$work/run"
echo "ok: $checks checks"
