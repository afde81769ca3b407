/* folder: config; label: unit */
/* Tests which values of keys `train --for` and `train --tokens` choose for the speed of
 * a machine, an amount of text, and a time. */
#include "config/config.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Facts about 9 million tokens of text and a machine with two cores. The speeds were
 * measured with a model of 2.2 MFLOPs per token and with one of 13.8. */
static const dial_facts two_cores = {
    .tokens = 9e6,
    .documents = 4777,
    .valid_tokens = 500e3,
    .workers = 2,
    .speeds = {{2.2e6, 125e3, 110e3}, {13.8e6, 27e3, 25e3}},
    .n_speeds = 2,
    .seconds = 60,
    .vocab = 2048,
    .context = 128};

static dial_choice chosen(const dial_facts *f)
{
    dial_choice c;
    memset(&c, 0, sizeof c);
    dial_choose(f, &c);
    return c;
}

static void check_sane(const dial_choice *c)
{
    assert_true(c->width >= 64 && c->heads >= 2 && c->blocks >= 4);
    assert_true(c->paths == 2 || c->paths == 4 || c->paths == 8 || c->paths == 16);
    assert_in_range(c->batch, 8, 512);
    assert_in_range(c->tau, 1, 1000000);
    assert_in_range(c->phases, 2, 1000000);
    assert_in_range(c->base_steps, 1, 1000000000);
    assert_true(c->lr > 1e-5 && c->lr < 0.1);
    assert_true(c->tokens > 0 && isfinite(c->bits) && isfinite(c->seconds));
}

static void a_choice_fills_the_time_it_has(void **state)
{
    static const double times[] = {30, 60, 120, 900, 3600, 86400};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        dial_facts f = two_cores;
        f.seconds = times[i];
        const dial_choice c = chosen(&f);
        check_sane(&c);
        assert_false(c.short_of_time);
        assert_true(fabs(c.seconds / times[i] - 1) < 0.05);
        double sum = 0;
        for (int k = 0; k < DIAL_PARTS; k++)
            sum += c.part[k];
        assert_true(fabs(sum - c.seconds) < 1e-6 * sum);
    }
}

static void more_time_never_predicts_a_worse_model(void **state)
{
    double before = INFINITY;
    (void)state;
    for (double t = 20; t < 1e6; t *= 1.7) {
        dial_facts f = two_cores;
        f.seconds = t;
        const dial_choice c = chosen(&f);
        assert_true(c.bits < before + 0.005);
        before = c.bits;
    }
}

static void muon_predicts_fewer_bits_with_twice_the_learning_rate(void **state)
{
    (void)state;
    dial_facts f = two_cores;
    f.width = 128, f.heads = 4, f.blocks = 4, f.params = 1.05e6;
    f.paths = 4, f.batch = 8;
    const dial_choice adamw = chosen(&f);
    f.muon = true;
    const dial_choice muon = chosen(&f);
    assert_true(muon.bits < adamw.bits && muon.bits > adamw.bits - 0.2);
    assert_true(fabs(muon.lr / adamw.lr - 2) < 1e-9);
}

static void half_of_the_tokens_train_the_base_model(void **state)
{
    (void)state;
    const dial_choice c = chosen(&two_cores);
    assert_int_equal(c.base_steps, c.paths * c.tau * c.phases);
    assert_true(fabs(c.tokens - 2.0 * (double)(c.base_steps * c.batch * 128)) < 1);
}

static void the_base_model_is_planned_with_the_speed_of_one_worker(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.params = 332352;
    f.width = 64;
    f.heads = 2;
    f.blocks = 4;
    f.paths = 4;
    f.n_speeds = 1;
    f.speeds[0] = (dial_speed){dial_flops(f.params, 64, 4, 128), 100e3, 100e3};
    const dial_choice even = chosen(&f);
    f.speeds[0].alone = 200e3; /* a worker alone is now twice as fast */
    const dial_choice faster = chosen(&f);
    assert_true(faster.tokens > even.tokens);
    const double tokens = (double)(faster.base_steps * faster.batch * 128);
    assert_true(faster.part[DIAL_BASE] > tokens / 200e3);
    assert_true(faster.part[DIAL_BASE] < 1.1 * tokens / 200e3);
    /* The paths train as many tokens as the base model. Two workers of half the speed
     * need the same time for them. */
    assert_true(faster.part[DIAL_PATHS] > tokens / 200e3);
    const double between = 0.1 * (double)(faster.phases * faster.paths) / 2;
    assert_true(faster.part[DIAL_PATHS] < 1.1 * tokens / 200e3 + between);
}

static void rates_lie_between_what_was_measured(void **state)
{
    const dial_facts *f = &two_cores;
    const dial_speed *small = &f->speeds[0], *large = &f->speeds[1];
    (void)state;
    assert_true(fabs(dial_rate(f, small->flops, true) - small->alone) < 1);
    assert_true(fabs(dial_rate(f, large->flops, false) - large->together) < 1);
    const double between = dial_rate(f, 6e6, true);
    assert_true(between < small->alone && between > large->alone);
    assert_true(fabs(dial_rate(f, 2 * large->flops, true) - large->alone / 2) < 1);
    assert_true(fabs(dial_rate(f, small->flops / 2, true) - 2 * small->alone) < 1);
    const dial_facts none = {.n_speeds = 0};
    assert_true(dial_rate(&none, 1e6, true) <= 0);
}

static void a_second_gives_the_shortest_run_and_says_so(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.seconds = 1;
    const dial_choice c = chosen(&f);
    check_sane(&c);
    assert_true(c.short_of_time);
    assert_true(c.seconds > 1);
    assert_int_equal(c.width, 64);
    assert_int_equal(c.paths, 2);
}

static void a_year_stays_within_the_ranges_of_the_keys(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.seconds = 365 * 86400.0;
    f.tokens = 1e12;
    f.documents = 1e9;
    dial_choice c = chosen(&f);
    check_sane(&c);
    assert_true(c.width > 256);
    f.speeds[0].alone = f.speeds[0].together = 1e12;
    f.n_speeds = 1;
    f.batch = 1; /* set by the user, so it may be below 8 */
    c = chosen(&f);
    c.batch = 8;
    check_sane(&c);
}

static void a_megabyte_has_few_paths(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.tokens = 400e3;
    f.documents = 250;
    f.valid_tokens = 16e3;
    const dial_choice c = chosen(&f);
    check_sane(&c);
    assert_true(c.paths <= 4);
    assert_true(c.epochs > 1);
    assert_true(c.eval_tokens <= 16000);
}

static void text_smaller_than_a_batch_still_has_a_choice(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.tokens = 500;
    f.documents = 3;
    f.valid_tokens = 100;
    const dial_choice c = chosen(&f);
    check_sane(&c);
    assert_int_equal(c.paths, 2);
    assert_int_equal(c.eval_tokens, 100);
}

static void text_that_is_read_again_counts_less(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.seconds = 3600;
    const dial_choice rich = chosen(&f);
    f.tokens = 400e3;
    const dial_choice poor = chosen(&f);
    assert_true(poor.bits > rich.bits);
    assert_true(poor.params <= rich.params);
}

static void paths_read_their_text_twice_at_most(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.tokens = 1e6;
    f.seconds = 900;
    dial_choice c = chosen(&f);
    const double step = (double)(c.paths * c.batch * f.context);
    assert_true((double)(c.tau * c.phases) * step < 2.1 * f.tokens);
    assert_true((double)(c.tau * c.phases) * step > 1.8 * f.tokens);
    assert_true(c.base_steps > 2 * c.paths * c.tau * c.phases);
    assert_true(fabs(c.seconds / 900 - 1) < 0.05);
    f.phases = 300; /* set by the user */
    c = chosen(&f);
    assert_true((double)(c.tau * c.phases) * step > 6 * f.tokens);
}

/* A fast worker needs less time for a phase of 7 cbrt(steps) steps than for sending and
 * merging its update. */
static void a_fast_machine_has_longer_phases(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.tokens = 1e9;
    f.workers = 1;
    const dial_choice slow = chosen(&f);
    for (int i = 0; i < f.n_speeds; i++)
        f.speeds[i] = (dial_speed){f.speeds[i].flops, 4e6, 4e6};
    const dial_choice fast = chosen(&f);
    assert_true(fast.tau > 2 * slow.tau);
    assert_true(fast.phases >= 4);
    assert_true(fabs(fast.seconds / 60 - 1) < 0.05);
    const double training =
        (double)(fast.paths * fast.tau * fast.phases * fast.batch * f.context) / 4e6;
    assert_true(fast.part[DIAL_PATHS] > 1.05 * training);
    assert_true(fast.part[DIAL_PATHS] < 1.6 * training);
}

static void fixed_keys_stay_and_enter_the_choice(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    f.paths = 4;
    f.batch = 16;
    f.tau = 10;
    dial_choice c = chosen(&f);
    assert_int_equal(c.paths, 4);
    assert_int_equal(c.batch, 16);
    assert_int_equal(c.tau, 10);
    assert_true(fabs(c.seconds / 60 - 1) < 0.05);
    f.base_steps = 100;
    c = chosen(&f);
    assert_int_equal(c.base_steps, 100);
    assert_true(fabs(c.seconds / 60 - 1) < 0.05);
    f.phases = 3;
    c = chosen(&f);
    assert_int_equal(c.phases, 3);
    assert_true(c.seconds < 60);
    f.base_steps = f.tau = 0;
    f.phases = 300;
    f.seconds = 1800;
    c = chosen(&f);
    assert_int_equal(c.phases, 300);
    assert_true(fabs(c.seconds / 1800 - 1) < 0.05);
    f.phases = 0;
    f.tau = 1000; /* one more phase would take more time than there is */
    c = chosen(&f);
    const double phase = (c.part[DIAL_BASE] + c.part[DIAL_PATHS]) / (double)c.phases;
    assert_true(c.seconds <= 1800 && c.seconds + 1.1 * phase > 1800);
}

static void baselines_take_time_from_the_mixture(void **state)
{
    dial_facts f = two_cores;
    (void)state;
    const dial_choice without = chosen(&f);
    f.n_baselines = 1;
    f.baselines = f.longest_baseline = 1;
    const dial_choice with = chosen(&f);
    assert_true(with.tokens < without.tokens);
    assert_true(fabs(with.seconds / 60 - 1) < 0.05);
}

static void tokens_take_the_place_of_a_time(void **state)
{
    static const double numbers[] = {1, 1e6, 20e6, 1e9, 1e12, 9e18};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        dial_facts f = two_cores;
        f.seconds = 0;
        f.n_speeds = 0;
        f.n_tokens = numbers[i];
        const dial_choice c = chosen(&f);
        check_sane(&c);
        assert_true(c.seconds <= 0);
        if (numbers[i] >= 1e6 && numbers[i] <= 1e12)
            assert_true(fabs(c.tokens / numbers[i] - 1) < 0.1);
    }
}

static void no_more_text_is_read_than_the_time_allows(void **state)
{
    dial_facts f = two_cores;
    int64_t vocab, bytes, more;
    (void)state;
    f.tokens = f.documents = f.valid_tokens = 0;
    dial_text(&f, &vocab, &bytes);
    assert_int_equal(vocab, 2048);
    assert_in_range(bytes, 4000000, 18000000);
    dial_facts slow = f;
    for (int i = 0; i < slow.n_speeds; i++) {
        slow.speeds[i].alone /= 4;
        slow.speeds[i].together /= 4;
    }
    dial_text(&slow, &vocab, &more);
    assert_true(more < bytes);
    f.seconds = 3600;
    dial_text(&f, &vocab, &more);
    assert_true(more > bytes);
    assert_true((double)more <= 0.1 * 3600 * 3e6);
    f.seconds = 1;
    dial_text(&f, &vocab, &bytes);
    assert_int_equal(bytes, 4000000);
    f.seconds = 0;
    f.n_tokens = 1e18;
    dial_text(&f, &vocab, &bytes);
    assert_true(bytes > 1000000000);
    assert_true(bytes <= (int64_t)9e15);
}

static void times_have_a_unit(void **state)
{
    double s = 0;
    (void)state;
    assert_int_equal(dial_parse_time("90s", &s), PL_OK);
    assert_true(fabs(s - 90) < 1e-9);
    assert_int_equal(dial_parse_time("15min", &s), PL_OK);
    assert_true(fabs(s - 900) < 1e-9);
    assert_int_equal(dial_parse_time("2m", &s), PL_OK);
    assert_true(fabs(s - 120) < 1e-9);
    assert_int_equal(dial_parse_time("1.5h", &s), PL_OK);
    assert_true(fabs(s - 5400) < 1e-9);
}

static void other_times_are_refused(void **state)
{
    static const char *const bad[] = {"",     "5",     "min", "0s",
                                      "-3s",  "nans",  "5d",  "1h5m",
                                      "infs", "1e99h", "s",   "5 parsecs"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double s;
        assert_int_equal(dial_parse_time(bad[i], &s), PL_ERR_USAGE);
        assert_non_null(strstr(pl_last_error(), "15min"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_fills_the_time_it_has),
        cmocka_unit_test(more_time_never_predicts_a_worse_model),
        cmocka_unit_test(muon_predicts_fewer_bits_with_twice_the_learning_rate),
        cmocka_unit_test(half_of_the_tokens_train_the_base_model),
        cmocka_unit_test(the_base_model_is_planned_with_the_speed_of_one_worker),
        cmocka_unit_test(rates_lie_between_what_was_measured),
        cmocka_unit_test(a_second_gives_the_shortest_run_and_says_so),
        cmocka_unit_test(a_year_stays_within_the_ranges_of_the_keys),
        cmocka_unit_test(a_megabyte_has_few_paths),
        cmocka_unit_test(text_smaller_than_a_batch_still_has_a_choice),
        cmocka_unit_test(text_that_is_read_again_counts_less),
        cmocka_unit_test(paths_read_their_text_twice_at_most),
        cmocka_unit_test(a_fast_machine_has_longer_phases),
        cmocka_unit_test(fixed_keys_stay_and_enter_the_choice),
        cmocka_unit_test(baselines_take_time_from_the_mixture),
        cmocka_unit_test(tokens_take_the_place_of_a_time),
        cmocka_unit_test(no_more_text_is_read_than_the_time_allows),
        cmocka_unit_test(times_have_a_unit),
        cmocka_unit_test(other_times_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
