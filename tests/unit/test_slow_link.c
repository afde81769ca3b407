/* folder: config; label: unit
 *
 * Tests how the rate of a link is read, and how many bytes a phase of a path is said to
 * send with the settings of `train --link`. */
#include "config/config.h"
#include "tests/support/suite.h"

PL_TEST(rates_are_read_or_refused)
{
    static const struct {
        const char *text;
        double bits;
    } rates[] = {{"500kbit", 5e5}, {"5mbit", 5e6}, {"1.5gbit", 1.5e9}, {"1kbit", 1e3}};
    static const char *const wrong[] = {"",       "mbit",     "5",      "5 mbit",
                                        "-5mbit", "0.1kbit",  "nan",    "nanmbit",
                                        "5MB",    "infgbit",  "5mbits", "99999gbit",
                                        "0mbit",  "1e40mbit", "5mbit "};
    double bits = 0;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        assert_ok(slow_link_parse_rate(rates[i].text, &bits));
        assert_true(bits == rates[i].bits);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(slow_link_parse_rate(wrong[i], &bits), PL_ERR_USAGE);
}

/* Returns the bytes per parameter of a phase with the keys of the first n levels. */
static double bytes_with(int n_levels, const char *last)
{
    config c;
    pl_shape shape;
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    pl_topology_spec spec = {.n_levels = 2, .experts = {2, 2}, .replicas = 1};
    char pairs[8][64];
    const char *sets[8];
    int n = 0;
    double bytes = 0;
    for (int level = 0; level < n_levels; level++)
        for (int i = 0; i < SLOW_LINK_PAIRS_MAX && slow_link_levels[level].key[i];
             i++, n++) {
            snprintf(pairs[n], sizeof *pairs, "%s=%s", slow_link_levels[level].key[i],
                     slow_link_levels[level].value[i]);
            sets[n] = pairs[n];
        }
    if (last)
        sets[n++] = last;
    assert_ok(config_build(NULL, sets, n, &c));
    assert_ok(config_shape(&c, &shape));
    assert_ok(pl_topology_create(&shape, &spec, &t));
    assert_ok(slow_link_phase_bytes(&c, t, &bytes));
    bytes /= (double)pl_topology_path_params(t);
    return bytes;
}

PL_TEST(each_level_sends_less_than_the_one_before)
{
    const double all = bytes_with(1, NULL), rare = bytes_with(2, NULL),
                 least = bytes_with(3, NULL);
    assert_true(all > 15.99 && all < 16.05); /* 4 + 4 and the moments, 8 */
    assert_true(rare > 8.79 && rare < 8.85); /* 4 + 4 and 8 / 10 */
    assert_true(least > 2.4 && least < 2.7); /* 0.5 + 1 and (8 + 1) / 10 */
    assert_true(bytes_with(2, "train.state=bf16") < rare - 0.3);
}
