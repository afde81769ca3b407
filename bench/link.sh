#!/bin/sh
# Runs a command on a slow network. The network is a separate loopback device that the
# kernel slows down.
#
#   sh bench/link.sh RATE COMMAND [ARGUMENT ...]
#
# RATE is a rate for tc, such as 10mbit, 100mbit or 1gbit, or `free`: a separate network
# without a limit. All processes of the command share one link, in both directions
# together, so n processes that send at the same time share the rate. Packets have 1500
# bytes, as on Ethernet, and their headers count. The link has a queue of up to 400 ms
# and adds no other delay. The exit code is the exit code of the command, or 69 if this
# machine does not allow separate networks.
#
# The network exists as long as a process uses it, so nothing is left after the command
# has ended. `cat /proc/net/dev` inside the network shows how many bytes were sent.
set -u

refuse() { # code, sentence
    echo "link: $2" >&2
    exit "$1"
}

# Inside the new network: makes the link, then becomes the command.
if [ "${1-}" = --inside ]; then
    rate=$2
    shift 2
    ip link set lo mtu 1500 up || exit 69
    if [ "$rate" != free ]; then
        # A burst has the bytes that a link of 1 Gb/s or 100 Mb/s carries in 2 to 3 ms.
        case $rate in
        *gbit) burst=256kb ;;
        *) burst=32kb ;;
        esac
        tc qdisc add dev lo root tbf rate "$rate" burst "$burst" latency 400ms ||
            refuse 69 "tc cannot limit loopback to $rate; the kernel needs qdisc tbf"
    fi
    exec "$@"
fi

rate=${1-}
[ $# -ge 2 ] || refuse 64 "usage: sh bench/link.sh RATE COMMAND [ARGUMENT ...]"
shift
if [ "$rate" != free ]; then
    number=${rate%[kmg]bit}
    case $number in
    '' | 0* | *[!0-9]* | "$rate")
        refuse 64 "RATE is free, or a number with kbit, mbit or gbit (10mbit), not \`$rate\`"
        ;;
    esac
fi
for tool in unshare ip tc; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
        refuse 69 "there is no $tool; install util-linux and iproute2"
done
PATH=$PATH:/usr/sbin:/sbin
if unshare --net true 2>/dev/null; then
    exec unshare --net sh "$0" --inside "$rate" "$@"
fi
unshare --map-root-user --net true 2>/dev/null ||
    refuse 69 "this user cannot make a network namespace on this machine; try as root"
exec unshare --map-root-user --net sh "$0" --inside "$rate" "$@"
