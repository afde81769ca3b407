/* folder: net; label: unit
 *
 * Tests rendezvous hashing with weights. Each home must get a number of names that is
 * proportional to its weight, and no name may move without need. */
#include "net/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { NAMES = 20000 };

static const char *name_of(int i)
{
    static char name[32];
    snprintf(name, sizeof name, "mix/L%d.E%d", i % 7, i / 7);
    return name;
}

static pl_places weighing(const char *text)
{
    pl_places p;
    assert_int_equal(pl_places_parse(text, &p), PL_OK);
    return p;
}

/* Checks that `count` is near NAMES * share. The limit is five standard deviations of
 * the binomial distribution, which a fair draw exceeds once in 1.7 million. */
static void assert_share(int count, double share)
{
    double mean = NAMES * share, deviation = sqrt(mean * (1 - share));
    assert_true(fabs(count - mean) <= 5 * deviation);
}

static void homes_get_names_by_their_weights(void **state)
{
    (void)state;
    static const char *const tables[] = {"1 1 1 1", "1 1 2 3 4", "1 5 0 1", "1 10000 1",
                                         "1 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7"};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        pl_places p = weighing(tables[t]);
        int counts[PL_HOMES_MAX] = {0};
        double sum = 0;
        for (int i = 0; i < NAMES; i++)
            counts[pl_places_home(&p, name_of(i))]++;
        for (int h = 0; h < p.n; h++)
            sum += p.weights[h];
        for (int h = 0; h < p.n; h++)
            assert_share(counts[h], p.weights[h] / sum);
    }
}

/* Counts the names that moved. Each of them must move to home `gains`, or away from
 * home `loses`. */
static int count_moves(const char *before, const char *after, int gains, int loses)
{
    pl_places a = weighing(before), b = weighing(after);
    int n = 0;
    for (int i = 0; i < NAMES; i++) {
        int from = pl_places_home(&a, name_of(i)), to = pl_places_home(&b, name_of(i));
        assert_true(from == to || to == gains || from == loses);
        n += from != to;
    }
    return n;
}

static void a_home_that_is_added_takes_its_share_and_moves_nothing_else(void **state)
{
    (void)state;
    assert_share(count_moves("1 1 1", "2 1 1 2", 2, -1), 0.5);
    assert_share(count_moves("1 3 1 2", "2 3 1 2 2", 3, -1), 0.25);
}

static void a_home_that_is_emptied_gives_its_share_and_moves_nothing_else(void **state)
{
    (void)state;
    assert_share(count_moves("1 1 1 2", "2 1 1 0", -1, 2), 0.5);
}

static void a_weight_that_rises_only_attracts(void **state)
{
    (void)state;
    assert_share(count_moves("1 1 1 1", "2 1 2 1", 1, -1), 1.0 / 2 - 1.0 / 3);
}

/* Shows that with equal weights each name belongs to the home with the highest hash.
 * This was the rule before homes had weights, so earlier names stay where they are. */
static void equal_weights_choose_the_highest_hash(void **state)
{
    (void)state;
    pl_places p = weighing("0 9 9 9 9 9");
    for (int i = 0; i < NAMES; i++) {
        uint64_t best = 0;
        int home = 0;
        for (int h = 0; h < p.n; h++) {
            char key[64];
            int len = snprintf(key, sizeof key, "home %d %s", h, name_of(i));
            uint64_t score = pl_checksum(key, (size_t)len);
            if (h == 0 || score > best) {
                best = score;
                home = h;
            }
        }
        assert_int_equal(pl_places_home(&p, name_of(i)), home);
    }
}

static void placement_is_what_it_always_was(void **state)
{
    (void)state;
    pl_places p = weighing("3 1 2 3 4");
    char got[33];
    for (int i = 0; i < 32; i++)
        got[i] = (char)('0' + pl_places_home(&p, name_of(i)));
    got[32] = '\0';
    assert_string_equal(got, "23320102031331221133122321030332");
}

static void a_table_survives_its_text(void **state)
{
    (void)state;
    char text[PL_PLACES_TEXT];
    pl_places full =
        weighing("18 10000 10000 10000 10000 10000 10000 10000 10000 10000 "
                 "10000 10000 10000 10000 10000 10000 10000");
    full.epoch = UINT64_MAX / 2;
    pl_places_format(&full, text);
    pl_places again = weighing(text);
    assert_memory_equal(&again, &full, sizeof full);
}

static void a_table_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",        "1",     "x 1",
        "1 0 0",   "-1 1",  "1 -1",
        "1 10001", "1 1 x", "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_places p;
        assert_int_equal(pl_places_parse(texts[i], &p), PL_ERR_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(homes_get_names_by_their_weights),
        cmocka_unit_test(a_home_that_is_added_takes_its_share_and_moves_nothing_else),
        cmocka_unit_test(a_home_that_is_emptied_gives_its_share_and_moves_nothing_else),
        cmocka_unit_test(a_weight_that_rises_only_attracts),
        cmocka_unit_test(equal_weights_choose_the_highest_hash),
        cmocka_unit_test(placement_is_what_it_always_was),
        cmocka_unit_test(a_table_survives_its_text),
        cmocka_unit_test(a_table_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
