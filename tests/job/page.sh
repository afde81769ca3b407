#!/bin/sh
# Tests `pathloom page` over HTTP, while a run trains and after its end. The page must
# agree with `status` and with the store. Bad requests, and requests without permission,
# must be refused.
#
# usage: page.sh PATHLOOM WORKFOLDER SERVE_ODD   (in the project's root)
#
# Needs curl and jq.
set -u
. tests/support/job.sh
needs curl jq
begin "$@"
page=''
trap '[ -z "$page" ] || kill "$page" 2>/dev/null' EXIT

# page_begins OPTIONS: starts a page, and sets $page to its process and $at to its
# address
page_begins() {
    : >"$work/page.out"
    "$pathloom" page --run "$work/run" --listen '127.0.0.1:*' "$@" >"$work/page.out" 2>&1 &
    page=$!
    at=''
    for _ in $(seq 1200); do
        at=$(sed -n 's/.* is at \(http[^#]*\)\/.*/\1/p' "$work/page.out")
        [ -z "$at" ] || return 0
        kill -0 "$page" 2>/dev/null || break
        sleep 0.05
    done
    fail "no page: $(cat "$work/page.out")"
}

page_ends() {
    kill "$page"
    wait "$page" || fail "the page ends with $?: $(cat "$work/page.out")"
    page=''
}

code() { # expected code, arguments of curl
    want=$1
    shift
    got=$(curl -s -o "$work/answer" -w '%{http_code}' --max-time 60 "$@")
    [ "$got" = "$want" ] || fail "$got instead of $want: $* ($(head -c 300 "$work/answer"))"
}

holds() { # FILTER: the jq filter must be true of the last answer
    jq -e "$1" "$work/answer" >"$work/jq.out" 2>&1 ||
        fail "not true: $1 ($(head -c 600 "$work/answer"))"
}

# ---- before the job begins ----
make_corpus base docs
refused 66 'there is no run in' "$pathloom" page --run "$work/nothing"

# ---- while the job trains ----
(PATHLOOM_FAILPOINT=worker.step.before@worker:sleep:40,worker.step.before@worker:stop:115 \
    small_job run --set train.tau=10 --set train.phases=6 --set train.base_steps=10 \
    $patient --page) \
    >"$work/run.out" 2>&1 &
job=$!
training_begins run
own=$(sed -n 's,^page *\(http.*\)/$,\1,p' "$work/run.out")
code 200 "$own/state.json" # the page that `train --page` has started
page_begins
sees() { # what, FILTER: asks until the jq filter is true of the answer
    tries=300
    until code 200 "$at/state.json" && jq -e "$2" "$work/answer" >"$work/jq.out"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "the page does not see the $1: $(head -c 500 "$work/answer")"
        sleep 0.2
    done
}
sees job '.life == "training" and .serial > 2 and (.arms | length) > 1'
"$pathloom" status --run "$work/run" --json >"$work/status" || fail "status"
code 200 "$at/state.json"
jq -r '.arms[] | .arm as $a | .paths[] | [$a, .path] | join("/")' "$work/status" >"$work/a"
jq -r '.arms[] | .arm as $a | .paths[] | [$a, .[0]] | join("/")' "$work/answer" >"$work/b"
diff "$work/a" "$work/b" || fail "the page and status show different paths"
jq -r '.workers[].worker' "$work/status" | sort >"$work/a"
jq -r '.workers.rows[][0]' "$work/answer" | sort >"$work/b"
diff "$work/a" "$work/b" || fail "the page and status show different workers"
holds '.homes | length == 1'
holds '.progress.total > .progress.done'
code 200 "$at/modules.json"
holds '.modules | length >= 8'
code 200 "$at/modules.json?module=base/L1.E0"
holds '.version >= 0 and .hash != ""'
# mawk would read until curl ends
curl -sN --max-time 60 "$at/events" | grep -m 2 '^event: state' >"$work/events"
[ "$(wc -l <"$work/events")" -eq 2 ] || fail "the page sends no events"

# ---- refused requests ----
code 403 -H 'Host: elsewhere.example' "$at/state.json"
code 403 -H 'Host: 127.0.0.1.elsewhere.example' "$at/"
code 200 -H 'Host: localhost:1' "$at/state.json"
code 403 -H 'Origin: https://elsewhere.example' "$at/state.json"
code 403 -H 'Sec-Fetch-Site: cross-site' "$at/route.json?text=x"
code 404 "$at/state.json%00x"
"$3" crowd 127.0.0.1 "${at##*:}" 500 /state.json >"$work/crowd.out" ||
    fail "silent connections keep others out: $(cat "$work/crowd.out")"
"$3" events 127.0.0.1 "${at##*:}" >"$work/events.out" || fail "$(cat "$work/events.out")"
listeners=''
for _ in $(seq 80); do # streams of events give way, too
    curl -s -o "$work/stream" --max-time 20 "$at/events" &
    listeners="$listeners $!"
done
for _ in 1 2 3; do code 200 "$at/state.json"; done
kill $listeners 2>/dev/null
code 405 -X POST -d x=1 "$at/state.json"
code 405 -X DELETE "$at/"
code 404 "$at/../etc/passwd"
code 404 "$at/nothing"
code 400 "$at/history?a=1&b=2&c=3&d=4&e=5"
code 200 "$at/history?since=-1&epoch=x"
code 200 -I "$at/"
code 200 -D "$work/head" "$at/"
nonce=$(sed -n "s/.*script-src 'nonce-\([0-9a-f]*\)'.*/\1/p" "$work/head")
[ ${#nonce} -eq 32 ] && grep -q "<script nonce=\"$nonce\">" "$work/answer" ||
    fail "the page's script does not have the nonce of its policy"
grep -q "default-src 'none'" "$work/head" || fail "no Content-Security-Policy"
! grep -qE '(src|href)="https?:' "$work/answer" || fail "the page loads files from other servers"
! grep -qE 'innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(' "$work/answer" ||
    fail "the page makes HTML of text"
refused 64 'give --token FILE' "$pathloom" page --run "$work/run" --listen '0.0.0.0:*'
let_go worker
job_ends
! curl -s --max-time 5 "$own/state.json" >"$work/answer" || fail "the page of train still runs"

# ---- a finished run ----
sees end '.life == "finished" and .reading == false'
holds '[.arms[] | select(.arm == "mix")][0] | .tasks == 24 and .tasks_done == 24'
holds '.held_out | length > 1 and all(.bits_per_byte > 0)'
code 200 "$at/history"
holds '.cells | length == 25' # six phases of four paths, and the base model
holds '.whole and ([.cells[] | .[3]] | all(. > 0))'
holds '[.events[] | select(.[3] == "worker.joined")] | length == 2'
holds '.leases | length >= 25'
# The loss of the last phase must be the one in the store.
"$pathloom" store ls --paths --run "$work/run" --json | jq -s -r \
    '.[] | "\(.path) \(.loss * 10000 | round)"' | sort >"$work/a"
jq -r '.paths as $p | .cells | group_by(.[0])[] | max_by(.[1]) |
    "\($p[.[0]]) \(.[3] * 10000 | round)"' "$work/answer" | sort >"$work/b"
diff "$work/a" "$work/b" || fail "the page and the store show different losses"
# The newest versions of modules, the details of one version, and the heat map of how
# its tensors changed must agree with the store.
cp "$work/answer" "$work/history"
code 200 "$at/modules.json?arm=mix"
jq -r '.modules[] | "\(.module) \(.versions - 1)"' "$work/answer" | sort >"$work/a"
versions --run "$work/run" | sed -n 's/^\(mix.*\) .*/\1/p' | sort >"$work/b"
diff "$work/a" "$work/b" || fail "the page and the store show different modules"
holds '.stride == 1 and ([.modules[].nodes | length] | all(. == 7))'
holds '[.modules[] | select(.module == "mix/L1.E0").nodes[1:][] | .[5] == 2 and .[7] == [0, 1]] | all'
code 200 "$at/modules.json?module=mix/L1.E0&version=2"
cp "$work/answer" "$work/version"
store show mix/L1.E0@2 --run "$work/run" --json
for what in .hash .parent .params_norm .update_norm; do
    [ "$(jq "$what" "$work/version")" = "$(jq "$what" "$work/verb.out")" ] ||
        fail "$what is different from that of \`store show\`"
done
holds '.contributors | length == 2 and all(.worker != "" and .samples > 0 and .cosine == null)'
holds '.no_cosine | contains("store.keep_updates")'
code 200 "$at/modules.json?module=mix/L1.E0&heat=1"
holds '(.columns | length) == 6 and (.tensors | length) == 10'
cp "$work/answer" "$work/heat"
store diff mix/L1.E0@2 mix/L1.E0@3 --run "$work/run" --json
jq -s -e --slurpfile heat "$work/heat" '[.[].relative_l2] as $told |
    ($heat[0].columns[2][2]) as $shown | [range(10) | ($told[.] - $shown[.]) |
    fabs < 0.001] | all' "$work/verb.out" >"$work/jq.out" ||
    fail "the heat map is different from \`store diff\`"
code 200 "$at/modules.json?module=mix/L1.E0&heat=1&from=4&to=5"
holds '[.columns[] | .[:2]] == [[4, 5]]'
code 404 "$at/modules.json?arm=nothing"
code 404 "$at/modules.json?module=mix/L9.E0"
code 404 "$at/modules.json?module=mix/L1.E0&version=7"
code 400 "$at/modules.json?module=mix/L1.E0&version=x"

# ---- the router ----
code 200 "$at/router.json"
holds '[.x, .y, .path, .domain, .answer, .margin] | map(length) | unique | length == 1'
holds '(.x | length) == ([.documents, 2000] | min) and (.x | length) > 8'
holds '[.x[], .y[]] | min == 0 and max == 1000'
holds '(.paths == ["p00", "p01", "p10", "p11"]) and (.domains | sort) == ["base", "docs"]'
holds '.shares | length == 2 and .[0] >= .[1] and .[1] > 0 and add <= 1'
[ "$(jq -c .shard_documents "$work/answer")" = "$(jq -c .shard_documents "$work/run/router.json")" ] ||
    fail "the picture has other shards than router.json"
[ "$(jq -c '.shard_tokens | map(add)' "$work/answer")" = "$(jq -c .shard_tokens "$work/run/router.json")" ] ||
    fail "the domains of a shard are not the shard"

# The server pauses after each text, but answers a text that comes too soon a little
# later.
for text in 'static int open_file(const char *path)' 'The store keeps versions & "parts" of é' 'a'; do
    code 200 "$at/route.json?text=$(printf %s "$text" | jq -sRr @uri)"
    "$pathloom" route --run "$work/run" --prompt "$text" --json >"$work/route" || fail "route"
    jq -e --slurpfile told "$work/route" '$told[0] as $t | .path == $t.path and
        .router_path == $t.router_path and .why == $t.why and .tokens == $t.tokens and
        .tokens_seen == $t.tokens_seen and (.margin_nats - $t.margin_nats | fabs) < 1e-3 and
        (.router_margin - $t.router_margin | fabs) < 1e-3 and
        ([.paths, $t.paths] | transpose | all(.[0][0] == .[1].path and
            (.[0][1] - .[1].nats | fabs) < 1e-3 and (.[0][2] - .[1].posterior | fabs) < 1e-3 and
            (.[0][3] - .[1].router_cost | fabs) < 1e-3))' "$work/answer" >"$work/jq.out" ||
        fail "the page routes \`$text\` differently than \`route\`: $(head -c 600 "$work/answer")"
done
code 400 "$at/route.json"
code 400 "$at/route.json?text="
code 400 "$at/route.json?text=ab%ffcd"
grep -q 'byte 2 of the text is not UTF-8' "$work/answer" || fail "the error does not name the byte that is not UTF-8"
long=$(head -c 4095 /dev/zero | tr '\0' x)
code 200 "$at/route.json?text=$long"
code 400 "$at/route.json?text=${long}x"
code 405 -X POST -d 'text=x' "$at/route.json"
code 403 -H 'Host: elsewhere.example' "$at/route.json?text=x"

cp "$work/history" "$work/answer"
serial=$(jq .serial "$work/answer") epoch=$(jq .epoch "$work/answer")
code 200 "$at/history?since=$serial&epoch=$epoch"
holds '.cells == [] and .whole == false'
page_ends

# ---- tokens ----
printf 'viewer %s\n' "$(printf %s open-sesame | b2sum -l 256 | cut -d' ' -f1)" >"$work/tokens"
chmod 600 "$work/tokens"
page_begins --token "$work/tokens"
code 200 "$at/" # the page itself contains no data
code 401 "$at/state.json"
code 401 "$at/events"
code 401 "$at/router.json"
code 401 "$at/route.json?text=x"
code 401 -H 'Authorization: Bearer open-sesam' "$at/route.json?text=x"
code 401 -H 'Authorization: Bearer open-sesam' "$at/history"
code 200 -H 'Authorization: Bearer open-sesame' "$at/history"
page_ends

# ---- history and report ----
"$pathloom" status --run "$work/run" --history --json >"$work/history.json" || fail "status --history"
jq -s -e --argjson n "$(versions --run "$work/run" | grep -c '^mix/')" \
    '[.[] | select(.arm == "mix")] | length == 6 and all(.paths_done == 4 and .paths == 4 and
    .versions == $n and .tokens > 0 and .restarts == 0) and ([.[].phase] == [range(6)])' \
    "$work/history.json" >"$work/jq.out" || fail "the history: $(head -n 3 "$work/history.json")"
jq -s -e '[.[].time] | . == sort' "$work/history.json" >"$work/jq.out" || fail "the history is not sorted by time"
# The mean loss of a phase must be the mean of the phase's cells on the page.
for phase in 0 5; do
    want=$(jq --argjson n $phase '.paths as $p | [.cells[] | select($p[.[0]] | startswith("mix/")) |
        select(.[1] == $n)] | (map(.[3] * .[4]) | add) / (map(.[4]) | add) * 1000 | round' "$work/history")
    got=$(jq -s --argjson n $phase '.[] | select(.arm == "mix" and .phase == $n).loss * 1000 | round' \
        "$work/history.json")
    [ $((want - got)) -ge -1 ] && [ $((want - got)) -le 1 ] || fail "loss $got of phase $phase, the page has $want"
done
"$pathloom" status --run "$work/run" --history >"$work/history.csv" || fail "status --history"
[ "$(wc -l <"$work/history.csv")" -eq $(($(wc -l <"$work/history.json") + 1)) ] || fail "the CSV does not have a header and the rows of the JSON"
[ "$(awk -F, '{ print NF }' "$work/history.csv" | sort -u)" = 16 ] || fail "the CSV does not have 16 columns"
"$pathloom" status --run "$work/run" --history | cmp - "$work/history.csv" || fail "a second call prints another CSV"
refused 66 'there is no run in' "$pathloom" status --run "$work/nothing" --history
"$pathloom" page --run "$work/run" --report "$work/report.html" >"$work/report.out" || fail "page --report"
for words in '<title>run</title>' '<svg' 'Bits per byte' 'mix/L1.E0' 'topology' 'data.json' '</html>'; do
    grep -q -- "$words" "$work/report.html" || fail "no $words in the report"
done
! grep -qiE '<script|(src|href)=|url\(|@import' "$work/report.html" || fail "the report loads files or has scripts"
grep -q "$(sed -n 's/^mix.L1.E0 6 \(.\{12\}\).*/\1/p' <<end
$(versions --run "$work/run")
end
)" "$work/report.html" || fail "the hash of mix/L1.E0@6 is not in the report"
refused 66 'there is no run in' "$pathloom" page --run "$work/nothing" --report "$work/none.html"
[ ! -e "$work/none.html" ] || fail "a refused report left a file"
echo "page: all checks passed"
