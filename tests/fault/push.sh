#!/bin/sh
# Tests export --push with a small server of models (hub_server.c): new and existing
# repositories, files that the server already has, tokens, and a server that is busy or
# down, that cuts uploads off, or that stores wrong bytes. "Hub" means this server here.
#
# usage: push.sh PATHLOOM TESTS-BUILD-FOLDER WORKFOLDER
set -u
pathloom=$1
tests=$2
. tests/support/job.sh
own_folder "$3"
HF_TOKEN=hf_test HOME=$work
export HF_TOKEN HOME
unset HF_TOKEN_PATH HF_HOME HF_HUB_OFFLINE

# Starts a server, which runs until its standard input is closed.
serve() { # name, options
    name=$1
    shift
    mkfifo "$work/$name.pipe"
    "$tests/hub_server" "$work/$name.port" "$work/$name.log" "$@" <"$work/$name.pipe" &
    exec 9>"$work/$name.pipe"
    i=0
    until [ -s "$work/$name.port" ]; do
        i=$((i + 1))
        [ $i -lt 1200 ] || fail "the server does not begin"
        sleep 0.05
    done
    HF_ENDPOINT="http://127.0.0.1:$(cat "$work/$name.port")"
    export HF_ENDPOINT
}

push() { # path, options
    path=$1
    shift
    "$pathloom" export --run "$work/run" --path "$path" --out "$work/$path" \
        --push hf:me/model "$@"
}

pushed() { # path, words of the output
    push "$1" >"$work/push.out" 2>&1 || fail "push of $1"
    grep -q "$2" "$work/push.out" || fail "the output of push does not contain \`$2\`"
}

puts() { # N: expects that N large files were sent to the hub
    [ "$(grep -c '^PUT' "$work/$name.log")" -eq "$1" ] ||
        fail "$name: $(grep -c '^PUT' "$work/$name.log") files were sent, not $1"
}

make_corpus base
(small_job run --set train.tau=1 --set train.phases=1 --set train.base_steps=1) \
    >"$work/run.out" 2>&1 || fail "a run"

echo "a new repository gets all files, and an existing one only what changed"
serve plain
pushed p00 'me/model (new, private): \([0-9]*\) of \1 files sent'
puts 1
pushed p00 'model: 0 of [0-9]* files sent, 0 B; the server already has all files'
puts 1
pushed p01 'model: [12] of [0-9]* files sent'
puts 2
push p00 --json >"$work/push.out" || fail "push --json"
grep -q '"made":false,"files":[0-9]*,"files_sent":[12],' "$work/push.out" || fail "push --json printed $(cat "$work/push.out")"

echo "a token from a file, a wrong token, and no token"
unset HF_TOKEN
refused 77 'there is no token for http' push p00
mkdir -p "$work/.cache/huggingface"
echo hf_test >"$work/.cache/huggingface/token"
pushed p00 'the server already has all files'
HF_TOKEN=hf_secret_of_a_stranger
export HF_TOKEN
refused 77 'HTTP 401: Invalid credentials.*give a token that may write' push p00
! grep -rq "$HF_TOKEN" "$work" || fail "the token was written"
HF_TOKEN='two words'
refused 77 'HF_TOKEN does not hold a token' push p00
HF_TOKEN=hf_test

echo "a busy hub is asked again; a hub that is down is asked 6 times"
serve busy busy=3
pushed p00 '(new, private)'
serve limited busy=1 pause=1
pushed p00 '(new, private)'
serve patient busy=1 pause=3600
refused 75 'asks for a pause of 3600 s' push p00
serve down down
refused 69 'HTTP 500: down (tried 6 times)' push p00
[ "$(wc -l <"$work/down.log")" -eq 6 ] || fail "the hub that is down was not asked 6 times"

echo "an upload that is cut in the middle of a file is repeated"
serve cut cut=2
pushed p00 '(new, private)'
puts 1
serve gone cut=6
refused 69 'cannot send a file .*are not sent again' push p00
pushed p00 'model: \([0-9]*\) of \1 files sent'

echo "different bytes on the hub are found, and files that arrived are not sent again"
serve wrong wrong
refused 65 'a file model.safetensors with different bytes' push p00
refused 65 'a file model.safetensors with different bytes' push p00
puts 1

echo "members with the value null count as missing"
serve nulls nulls
pushed p00 'model (new, private): \([0-9]*\) of \1 files sent'
pushed p00 'the server already has all files'

echo "a redirection is not followed, and the error names it"
serve moved moved
refused 76 'HTTP 307; the repository was renamed' push p00

echo "a file that is too large is refused before anything is sent"
serve large
truncate -s 6G "$work/p00/large.bin"
refused 69 'large.bin has 6442450944 bytes, and --push sends files of at most' push p00
rm "$work/p00/large.bin"
[ ! -s "$work/large.log" ] || fail "a request was sent before the refusal"

echo "a token is not sent to a proxy, or to an address that contains a user"
http_proxy=http://127.0.0.1:1
export http_proxy
pushed p00 '(new, private)'
unset http_proxy
serve astray astray
refused 76 'gives an address without encryption' push p00
puts 0

echo "wrong addresses and names are refused"
refused 64 'takes hf:USER/NAME' "$pathloom" export --run "$work/run" --path p00 \
    --out "$work/p00" --push me/model
refused 64 'names no repository' "$pathloom" export --run "$work/run" --path p00 \
    --out "$work/p00" --push hf:model
refused 64 'folder of one path' "$pathloom" export --run "$work/run" --all \
    --out "$work/all" --push hf:me/model
HF_ENDPOINT='https://[hub'
refused 78 'cannot make the repository at https://\[hub: ' push p00
HF_ENDPOINT=http://hub.invalid
refused 78 'HF_ENDPOINT must be https' push p00
HF_HUB_OFFLINE=1
export HF_HUB_OFFLINE
refused 78 'HF_HUB_OFFLINE is 1' push p00
