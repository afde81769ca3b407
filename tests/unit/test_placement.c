/* folder: net; label: unit
 *
 * Tests rendezvous hashing. Each home must get an equal share of the names, and a name
 * must belong to the same home in every release. */
#include "net/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/suite.h"

enum { NAMES = 20000 };

static const char *name_of(int i)
{
    static char name[32];
    snprintf(name, sizeof name, "mix/L%d.E%d", i % 7, i / 7);
    return name;
}

/* Checks that `count` is near NAMES * share. The limit is five standard deviations of
 * the binomial distribution, which a fair draw exceeds once in 1.7 million. */
static void assert_share(int count, double share)
{
    double mean = NAMES * share, deviation = sqrt(mean * (1 - share));
    assert_true(fabs(count - mean) <= 5 * deviation);
}

PL_TEST(every_home_gets_an_equal_share)
{
    for (int n = 2; n <= PL_HOMES_MAX; n++) {
        int counts[PL_HOMES_MAX] = {0};
        for (int i = 0; i < NAMES; i++)
            counts[pl_home_of(name_of(i), n)]++;
        for (int home = 0; home < n; home++)
            assert_share(counts[home], 1.0 / n);
    }
}

PL_TEST(one_more_home_takes_its_share_and_moves_nothing_else)
{
    int n = 0;
    for (int i = 0; i < NAMES; i++) {
        int before = pl_home_of(name_of(i), 4), after = pl_home_of(name_of(i), 5);
        assert_true(before == after || after == 4);
        n += before != after;
    }
    assert_share(n, 0.2);
}

PL_TEST(a_name_belongs_to_the_home_with_the_highest_hash)
{
    for (int i = 0; i < NAMES; i++) {
        uint64_t best = 0;
        int home = -1;
        for (int h = 0; h < 5; h++) {
            char key[64];
            int len = snprintf(key, sizeof key, "home %d %s", h, name_of(i));
            uint64_t score = pl_checksum(key, (size_t)len);
            if (home < 0 || score > best) {
                best = score;
                home = h;
            }
        }
        assert_int_equal(pl_home_of(name_of(i), 5), home);
    }
}

/* The stores of earlier releases have their names in these homes. */
PL_TEST(placement_is_what_it_always_was)
{
    static const struct {
        int n;
        const char *homes;
    } rows[] = {{1, "0000000000000000000000000000000000000000"},
                {2, "0000010000101111011110100101011010110111"},
                {3, "2002010200121122011212202101011210112112"},
                {5, "4002010203431424013312202101033410112333"},
                {16, "bfff05950cb3ce28eb8312f861010387171793ce"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int i = 0; i < 40; i++) {
            const char digit[] = {rows[k].homes[i], '\0'};
            assert_int_equal(pl_home_of(name_of(i), rows[k].n),
                             strtol(digit, NULL, 16));
        }
}
