# shellcheck shell=sh disable=SC2034,SC2154
# This file is sourced by scripts that start the processes of a job one by one and wait
# for results. Such a script sources script.sh or job.sh first, sets `pathloom` (the
# program) and calls own_folder.
children=
trap 'kill -9 $children 2>/dev/null' EXIT INT TERM

# Starts a command in the background. The output of the command goes to NAME.out, and
# the variable `pid` gets its process id.
start() { # name, command
    out=$1
    shift
    "$@" >>"$work/$out.out" 2>&1 &
    pid=$!
    children="$children $pid"
}

# Makes a second machine: a network of its own, joined to this one by a cable. The script
# has set the addresses `here` and `there` of its ends. Sets `second` to a script that
# becomes a command there, with a home folder of its own. It is not a function, because a
# process that starts in the background must be the command itself.
second_machine() { # seconds that the machine lives
    ip link set lo up || skip "ip cannot set up a network here"
    unshare --net sleep "$1" &
    other=$!
    children="$children $other"
    own=$(readlink /proc/self/ns/net)
    await 600 "no second network" sh -c "[ \"\$(readlink /proc/$other/ns/net)\" != '$own' ]"
    ip link add near type veth peer name far netns "$other" 2>/dev/null ||
        skip "this kernel has no veth"
    ip addr add "$here/24" dev near
    ip link set near up
    mkdir -p "$work/second"
    second=$work/second/run
    cat >"$second" <<END
#!/bin/sh
exec nsenter -t $other -n env HOME="\${0%/run}" XDG_CONFIG_HOME= XDG_CACHE_HOME= "\$@"
END
    chmod 755 "$second"
    "$second" ip link set lo up
    "$second" ip addr add "$there/24" dev far
    "$second" ip link set far up
}
