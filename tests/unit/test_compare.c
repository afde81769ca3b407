/* folder: eval; label: unit */
#include "eval/eval.h"
#include "tests/support/corpus_support.h"
#include <math.h>

enum { N = 9 };
static const uint32_t all[N] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static pl_buf file;
static pl_tokens *tokens; /* nine documents, in turn of two domains */

static int open_tokens(void **state)
{
    (void)state;
    static const uint32_t lens[N] = {9, 9, 9, 9, 9, 9, 9, 9, 9};
    build_tokens(lens, N, 3000, &file);
    return pl_tokens_view(file.data, file.len, "test", &tokens) == PL_OK ? 0 : -1;
}

static int close_tokens(void **state)
{
    (void)state;
    pl_tokens_close(&tokens);
    pl_buf_destroy(&file);
    return 0;
}

/* Standard errors of nats per target, compared with values that were worked out by hand
 * for two documents of 2 and 3 targets. */
PL_TEST(errors_are_those_of_a_ratio_of_sums)
{
    const pl_score a[] = {{4.0, 2, 0, 0}, {9.0, 3, 0, 0}};
    const pl_score b[] = {{3.0, 2, 0, 0}, {6.0, 3, 0, 0}};
    double off = 4.0 - 2.0 * 13.0 / 5.0; /* the second document is off by -off */
    double want = sqrt(2.0 * off * off * 2.0) / 5.0;
    assert_true(fabs(pl_score_error(a, NULL, 2) - want) < 1e-12);
    off = 1.0 - 2.0 * 4.0 / 5.0;
    want = sqrt(2.0 * off * off * 2.0) / 5.0;
    assert_true(fabs(pl_score_error(a, b, 2) - want) < 1e-12);
    assert_true(pl_score_error(a, a, 2) == 0.0);
    assert_true(isnan(pl_score_error(a, NULL, 1)));
}

/* Two documents of 2 and 3 targets, as above: 13/5 nats per target against 9/5. */
PL_TEST(a_gain_is_a_ratio_of_perplexities)
{
    const pl_score a[] = {{4.0, 2, 0, 0}, {9.0, 3, 0, 0}};
    const pl_score b[] = {{3.0, 2, 0, 0}, {6.0, 3, 0, 0}};
    const pl_score sum = pl_score_sum(a, 2);
    const pl_gain g = pl_score_gain(a, b, 2);
    const double ratio = exp(4.0 / 5.0);
    assert_true(fabs(g.percent - 100 * (1 - ratio)) < 1e-10);
    assert_true(fabs(g.error - 100 * ratio * pl_score_error(a, b, 2)) < 1e-10);
    assert_true(isnan(pl_score_gain(a, b, 1).error));
    assert_true(fabs(pl_bits_per_byte(&sum, 26) - 0.5 / log(2)) < 1e-12);
    assert_true(isnan(pl_bits_per_byte(&sum, 0)));
}

/* A path of 300 tokens after a base model of 100, and a baseline whose batches are
 * shared by 4 machines. */
PL_TEST(effort_includes_the_base_model)
{
    const pl_spent base = {.tokens = 100, .longest = 100, .mean = 100, .n = 1};
    const pl_spent mix = {.tokens = 1100, .longest = 300, .mean = 275, .n = 4};
    const pl_effort first = pl_effort_of(&base, NULL, 1, 6, 50);
    const pl_effort paths = pl_effort_of(&mix, &base, 1, 6, 50);
    assert_int_equal(first.tokens_total, 100);
    assert_int_equal(first.tokens_per_path, 100);
    assert_true(first.seconds == 2);
    assert_int_equal(paths.tokens_total, 1200);
    assert_int_equal(paths.tokens_per_path, 375);
    assert_true(paths.flops == 7200 && paths.seconds == 8);
    assert_true(pl_effort_of(&mix, &base, 4, 6, 50).seconds == 3.5);
    assert_true(isnan(pl_effort_of(&mix, &base, 1, 6, 0).seconds));
}

PL_TEST(domains_add_up)
{
    pl_score scores[N], by_domain[2];
    for (uint32_t d = 0; d < N; ++d)
        scores[d] = (pl_score){.nats = d, .n_targets = 1};
    pl_score_by_domain(tokens, all, scores, N, by_domain);
    assert_true(by_domain[0].nats == 0 + 2 + 4 + 6 + 8);
    assert_true(by_domain[1].nats == 1 + 3 + 5 + 7);
    assert_int_equal(by_domain[1].n_targets, 4);
}

PL_TEST(domains_count_equally_in_a_macro_mean)
{
    pl_score a[4], b[4], by_domain[2], half[2][2];
    for (uint32_t d = 0; d < 4; ++d) {
        const uint64_t n = d % 2 == 0 ? 10 : 40;
        a[d] = (pl_score){20 + d, n, 5, 5};
        b[d] = (pl_score){26 - 2 * d, n, 6 + d, 5};
        half[d % 2][d / 2] = a[d];
    }
    const pl_gain gain = pl_macro_gain(tokens, all, a, b, 4);
    double error[2];
    for (int d = 0; d < 2; ++d) {
        const pl_score other[2] = {b[d], b[d + 2]};
        error[d] = pl_score_error(half[d], other, 2);
    }
    /* differences of the domains: (42 - 48) / 20 and (44 - 44) / 80 nats per target */
    const double ratio = exp((-6.0 / 20 + 0.0 / 80) / 2);
    assert_true(fabs(gain.percent - 100 * (1 - ratio)) < 1e-9);
    assert_true(fabs(gain.error - 100 * ratio * hypot(error[0], error[1]) / 2) < 1e-9);
    pl_score_by_domain(tokens, all, a, 4, by_domain);
    assert_true(fabs(pl_macro_perplexity(by_domain, 2) -
                     exp((42.0 / 20 + 44.0 / 80) / 2)) < 1e-9);
    assert_true(isnan(pl_macro_perplexity(by_domain, 0)));
    /* one document of a domain has no error */
    assert_true(isnan(pl_macro_gain(tokens, all, a, b, 3).error));
    assert_true(isnan(pl_macro_gain(tokens, all, a, b, 0).percent));
    /* first windows: 20 nats against 6 + 7 + 8 + 9, 20 targets */
    assert_true(fabs(pl_first_gain(a, b, 4).percent - 100 * (1 - exp(-10.0 / 20))) <
                1e-9);
}

PL_SUITE(open_tokens, close_tokens)
