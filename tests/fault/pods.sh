#!/bin/sh
# Plays the life of a run in Kubernetes by hand, with the manifests of deploy/kubernetes
# (tests/fault/pods.py says what happens). Everything runs in namespaces that end with the
# test. If the machine does not permit them, the test is skipped (77).
#
# usage: pods.sh PATHLOOM WORKFOLDER
set -u
PATH=$PATH:/usr/sbin:/sbin
skip() {
    echo "skipped: $1"
    exit 77
}
for tool in unshare nsenter ip setpriv mount python3; do
    command -v "$tool" >/dev/null || skip "there is no $tool"
done
python3 -c 'import yaml' 2>/dev/null || skip "there is no python3-yaml"
user=
unshare --net --mount --pid --fork --mount-proc true 2>/dev/null || user=--map-root-user
# shellcheck disable=SC2086 # $user is empty or one word
{
    unshare $user --net --mount --pid --fork --mount-proc \
        ip link add pods type bridge 2>/dev/null ||
        skip "this user may not make network namespaces, or the kernel has no bridges"
    exec unshare $user --net --mount --pid --fork --mount-proc --kill-child \
        python3 tests/fault/pods.py "$@"
}
