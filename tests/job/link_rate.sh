#!/bin/sh
# Tests bench/link.sh. A link must not be faster than its nominal rate. (How near the
# real rate comes to it depends on the load of the machine, so it is only printed.) No
# other process may use the link, and bad calls must be refused.
#
# usage: link_rate.sh PATHLOOM
#
# Exit code 77 (skipped) where the machine does not permit network namespaces.
set -u
. tests/support/script.sh
pathloom=$1
link=bench/link.sh

sh "$link" free true
case $? in
0) ;;
69) exit 77 ;;
*) complain "a free link does not run \`true\`" ;;
esac

# Each check takes about a second. Headers and acknowledgements take 3 to 6 % of the
# rate.
check_rate() { # rate of the link, the same in Mb/s, number of bytes
    got=$(sh "$link" "$1" "$pathloom" bench wire --messages --rounds 1 --bytes "$3") ||
        complain "$1: no bytes got through"
    echo "$1: $got"
    echo "$got" | awk -v want="$2" '
        { for (i = 2; i <= NF; i++) if ($i == "Mbit/s") rate = $(i - 1)
          exit !(rate > 0 && rate <= 1.1 * want) }' ||
        complain "$1 is faster than $2 Mb/s"
}
check_rate 10mbit 10 1500000
check_rate 100mbit 100 15000000

# All bytes are counted. No other process adds bytes to the count.
counted=$(sh "$link" free sh -c "'$pathloom' bench wire --messages --rounds 1 --bytes 2000000 >/dev/null
    awk '\$1 == \"lo:\" { print \$2 }' /proc/net/dev")
if [ "$counted" -lt 2000000 ] || [ "$counted" -gt 2400000 ]; then
    complain "2000000 bytes were sent and $counted counted"
fi

sh "$link" free sh -c 'exit 23'
[ $? -eq 23 ] || complain "the command's exit code is lost"
sh "$link" 10 true 2>/dev/null
[ $? -eq 64 ] || complain "a rate without a unit is taken"
sh "$link" 10mbit 2>/dev/null
[ $? -eq 64 ] || complain "no command is taken"
PATH=/nowhere /bin/sh "$link" 10mbit true 2>/dev/null
[ $? -eq 69 ] || complain "a machine without the tools is not refused"

exit "$found"
