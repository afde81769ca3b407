/* folder: serve; label: unit */
#include "serve/serve.h"
#include <math.h>

#include "tests/support/suite.h"

enum { V = 6 };
/* The probabilities are .4 .05 .3 .05 .15 .05. Token 0 is the likeliest one, then come
 * tokens 2 and 4, and then three equal ones. */
static const double shares[V] = {0.40, 0.05, 0.30, 0.05, 0.15, 0.05};
static float logits[V];
static pl_chooser *chooser;

static int open_all(void **state)
{
    (void)state;
    for (int v = 0; v < V; ++v)
        logits[v] = (float)log(shares[v]) + 3.0f;
    return pl_chooser_create(V, &chooser) == PL_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    pl_chooser_destroy(&chooser);
    return chooser ? -1 : 0;
}

static int32_t choose(const pl_choice *choice, uint64_t index)
{
    int32_t token = -1;
    assert_ok(pl_choose_token(chooser, logits, choice, index, &token));
    return token;
}

/* Chooses 20000 times, and checks how often each token was chosen. */
static void expect_shares(const pl_choice *choice, const double want[V])
{
    double got[V] = {0};
    for (uint64_t i = 0; i < 20000; ++i)
        got[choose(choice, i)] += 1.0 / 20000.0;
    for (int v = 0; v < V; ++v) {
        if (want[v] == 0.0)
            assert_true(got[v] == 0.0);
        if (fabs(got[v] - want[v]) > 0.015)
            fail_msg("token %d has frequency %f instead of %f", v, got[v], want[v]);
    }
}

PL_TEST(temperature_zero_takes_the_likeliest)
{
    pl_choice choice = {.temperature = 0.0, .top_k = 3, .top_p = 0.5};
    const float ties[V] = {-1.0f, 2.0f, 0.0f, 2.0f, 1.0f, 2.0f};
    int32_t token;
    for (uint64_t i = 0; i < 50; ++i)
        assert_int_equal(choose(&choice, i), 0);
    assert_ok(pl_choose_token(chooser, ties, &choice, 0, &token));
    assert_int_equal(token, 1);
}

PL_TEST(at_temperature_one_tokens_come_by_their_share)
{
    pl_choice choice = {.temperature = 1.0, .top_p = 1.0, .seed = 5};
    expect_shares(&choice, shares);
}

PL_TEST(temperature_sharpens_and_flattens)
{
    for (int i = 0; i < 2; ++i) {
        double want[V], sum = 0.0, temperature = i ? 0.5 : 2.0;
        pl_choice choice = {.temperature = temperature, .top_p = 1.0};
        for (int v = 0; v < V; ++v)
            sum += want[v] = pow(shares[v], 1.0 / temperature);
        for (int v = 0; v < V; ++v)
            want[v] /= sum;
        expect_shares(&choice, want);
    }
}

PL_TEST(top_k_keeps_the_k_likeliest)
{
    const double want[V] = {0.4 / 0.85, 0, 0.3 / 0.85, 0, 0.15 / 0.85, 0};
    const double four[V] = {0.4 / 0.9, 0.05 / 0.9, 0.3 / 0.9, 0, 0.15 / 0.9, 0};
    pl_choice choice = {.temperature = 1.0, .top_k = 3, .top_p = 1.0};
    expect_shares(&choice, want);
    /* If tokens are equally likely, the one with the lowest number is kept. */
    choice.top_k = 4;
    expect_shares(&choice, four);
    choice.top_k = 100;
    expect_shares(&choice, shares);
}

PL_TEST(top_p_keeps_the_smallest_nucleus)
{
    const double two[V] = {0.4 / 0.7, 0, 0.3 / 0.7, 0, 0, 0}, one[V] = {1.0};
    pl_choice choice = {.temperature = 1.0, .top_p = 0.65};
    expect_shares(&choice, two);
    choice.top_p = 0.39;
    expect_shares(&choice, one);
}

/* top_p is a fraction of the probability of the tokens that top_k keeps. The three
 * likeliest tokens have .85 together. The first two have .7: more than .8 of .85, but
 * less than .8. */
PL_TEST(top_p_counts_what_top_k_left)
{
    const double two[V] = {0.4 / 0.7, 0, 0.3 / 0.7, 0, 0, 0};
    const double three[V] = {0.4 / 0.85, 0, 0.3 / 0.85, 0, 0.15 / 0.85, 0};
    pl_choice choice = {.temperature = 1.0, .top_k = 3, .top_p = 0.8};
    expect_shares(&choice, two);
    choice.top_k = 0;
    expect_shares(&choice, three);
}

PL_TEST(the_same_seed_and_place_choose_the_same)
{
    pl_choice choice = {.temperature = 1.0, .top_p = 0.9, .seed = 3}, other = choice;
    int n_different = 0;
    other.seed = 4;
    for (uint64_t i = 0; i < 200; ++i) {
        assert_int_equal(choose(&choice, i), choose(&choice, i));
        n_different += choose(&choice, i) != choose(&other, i);
    }
    assert_true(n_different > 50);
}

PL_TEST(a_forbidden_token_is_never_chosen)
{
    float some[V];
    memcpy(some, logits, sizeof some);
    some[0] = -INFINITY;
    for (int cut = 0; cut < 3; ++cut)
        for (uint64_t i = 0; i < 500; ++i) {
            int32_t token;
            pl_choice choice = {.temperature = 5.0,
                                .top_k = cut == 1 ? 5 : 0,
                                .top_p = cut == 2 ? 0.999 : 1.0};
            assert_ok(pl_choose_token(chooser, some, &choice, i, &token));
            assert_int_not_equal(token, 0);
        }
}

PL_TEST(unusable_logits_are_a_numeric_error)
{
    pl_choice choice = pl_choice_defaults();
    const float bad[] = {NAN, INFINITY};
    int32_t token;
    for (int i = 0; i < 2; ++i) {
        float some[V] = {0};
        some[3] = bad[i];
        assert_fails(pl_choose_token(chooser, some, &choice, 0, &token), PL_ERR_NUMERIC,
                     "token 3");
    }
    float none[V];
    for (int v = 0; v < V; ++v)
        none[v] = -INFINITY;
    assert_int_equal(pl_choose_token(chooser, none, &choice, 0, &token),
                     PL_ERR_NUMERIC);
}

PL_TEST(options_out_of_range_are_named)
{
    static const struct {
        pl_choice choice;
        const char *says;
    } wrong[] = {{{.temperature = -1.0, .top_p = 1.0}, "temperature"},
                 {{.temperature = NAN, .top_p = 1.0}, "temperature"},
                 {{.temperature = 1.0, .top_k = -1, .top_p = 1.0}, "top_k"},
                 {{.temperature = 1.0, .top_p = 0.0}, "top_p"},
                 {{.temperature = 1.0, .top_p = 1.5}, "top_p"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        int32_t token;
        assert_fails(pl_choose_token(chooser, logits, &wrong[i].choice, 0, &token),
                     PL_ERR_USAGE, wrong[i].says);
    }
}

/* min_p drops each token that is less likely than min_p times the likeliest token. The
 * probabilities are .4 .05 .3 .05 .15 .05. */
PL_TEST(min_p_drops_the_unlikely)
{
    pl_choice choice = {.temperature = 1.0, .top_p = 1.0, .min_p = 0.5, .seed = 5};
    /* keeps .4 and .3; .15 is less than half of .4 */
    expect_shares(&choice, (double[V]){4 / 7.0, 0, 3 / 7.0, 0, 0, 0});
    choice.min_p = 0.2;
    choice.top_k = 2; /* min_p keeps .4, .3 and .15; top_k keeps two of them */
    expect_shares(&choice, (double[V]){4 / 7.0, 0, 3 / 7.0, 0, 0, 0});
    choice.top_k = 0;
    /* min_p keeps .85 of the probability. Token 0 has less than half of it, so top_p
     * keeps the second token, too. */
    choice.top_p = 0.5;
    expect_shares(&choice, (double[V]){4 / 7.0, 0, 3 / 7.0, 0, 0, 0});
    choice.min_p = 1.0;
    choice.top_p = 1.0;
    assert_int_equal(choose(&choice, 3), 0);
    choice.min_p = 1.5;
    int32_t token = 0;
    assert_int_equal(pl_choose_token(chooser, logits, &choice, 0, &token),
                     PL_ERR_USAGE);
}

PL_SUITE(open_all, close_all)
