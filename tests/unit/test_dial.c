/* folder: config; label: unit */
/* Tests which values of keys `train --for` and `train --tokens` choose for the speed of
 * a machine, an amount of text, and a time. */
#include "config/config.h"
#include <math.h>

#include "tests/support/suite.h"

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
    dial_choice c = {0};
    dial_choose(f, &c);
    return c;
}

/* The facts for a model that the user has chosen, on a machine with this speed (0: as
 * measured). */
static dial_facts small_model(int paths, double rate)
{
    dial_facts f = two_cores;
    f.params = 332352;
    f.width = 64, f.heads = 2, f.blocks = 4;
    f.paths = paths;
    if (rate > 0) {
        f.n_speeds = 1;
        f.speeds[0] = (dial_speed){dial_flops(f.params, 64, 4, 128), rate, rate};
    }
    return f;
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

PL_TEST(a_choice_fills_the_time_it_has)
{
    static const double times[] = {30, 60, 120, 900, 3600, 86400};
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

PL_TEST(more_time_never_predicts_a_worse_model)
{
    double before = INFINITY;
    for (double t = 20; t < 1e6; t *= 1.7) {
        dial_facts f = two_cores;
        f.seconds = t;
        const dial_choice c = chosen(&f);
        assert_true(c.bits < before + 0.005);
        before = c.bits;
    }
}

PL_TEST(muon_predicts_fewer_bits_with_twice_the_learning_rate)
{
    dial_facts f = two_cores;
    f.width = 128, f.heads = 4, f.blocks = 4, f.params = 1.05e6;
    f.paths = 4, f.batch = 8;
    const dial_choice adamw = chosen(&f);
    f.muon = true;
    const dial_choice muon = chosen(&f);
    assert_true(muon.bits < adamw.bits && muon.bits > adamw.bits - 0.2);
    assert_true(fabs(muon.lr / adamw.lr - 2) < 1e-9);
}

PL_TEST(half_of_the_tokens_train_the_base_model_of_one_worker)
{
    dial_facts f = two_cores;
    f.workers = 1;
    f.speeds[0].alone = f.speeds[0].together;
    f.speeds[1].alone = f.speeds[1].together;
    dial_choice c = chosen(&f);
    assert_int_equal(c.base_steps, c.paths * c.tau * c.phases);
    assert_true(fabs(c.tokens - 2.0 * (double)(c.base_steps * c.batch * 128)) < 1);
    f = two_cores; /* nothing says how long the workers will need */
    f.seconds = 0;
    f.n_tokens = 4e6;
    c = chosen(&f);
    assert_int_equal(c.base_steps, c.paths * c.tau * c.phases);
}

/* While one of several workers trains the base model, the others wait. So the base
 * model gets 30 % of the time instead of half of the tokens. */
PL_TEST(the_base_model_of_several_workers_has_30_percent_of_the_time)
{
    dial_facts f = small_model(8, 0);
    f.tokens = 1e9; /* paths never read their text twice */
    for (f.workers = 2; f.workers <= 16; f.workers *= 2) {
        const dial_choice c = chosen(&f);
        assert_true(c.base_steps < c.paths * c.tau * c.phases);
        /* exchanges take time, too */
        assert_true(fabs(c.part[DIAL_BASE] / c.part[DIAL_PATHS] - 3.0 / 7) < 0.1);
    }
}

PL_TEST(a_base_model_has_enough_tokens_however_many_workers_there_are)
{
    dial_facts f = small_model(16, 0);
    f.workers = 16;
    for (f.seconds = 10; f.seconds < 1000; f.seconds *= 2) {
        const dial_choice c = chosen(&f);
        const double base = (double)(c.base_steps * c.batch * 128);
        const double half = c.tokens / 2, least = 0.9 * c.params;
        /* rounded to whole phases */
        assert_true(base > 0.9 * fmin(half, least));
    }
}

PL_TEST(the_base_model_is_planned_with_the_speed_of_one_worker)
{
    dial_facts f = small_model(4, 100e3);
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

PL_TEST(rates_lie_between_what_was_measured)
{
    const dial_facts *f = &two_cores;
    const dial_speed *small = &f->speeds[0], *large = &f->speeds[1];
    assert_true(fabs(dial_rate(f, small->flops, true) - small->alone) < 1);
    assert_true(fabs(dial_rate(f, large->flops, false) - large->together) < 1);
    const double between = dial_rate(f, 6e6, true);
    assert_true(between < small->alone && between > large->alone);
    assert_true(fabs(dial_rate(f, 2 * large->flops, true) - large->alone / 2) < 1);
    assert_true(fabs(dial_rate(f, small->flops / 2, true) - 2 * small->alone) < 1);
    const dial_facts none = {.n_speeds = 0};
    assert_true(dial_rate(&none, 1e6, true) <= 0);
}

PL_TEST(a_second_gives_the_shortest_run_and_says_so)
{
    dial_facts f = two_cores;
    f.seconds = 1;
    const dial_choice c = chosen(&f);
    check_sane(&c);
    assert_true(c.short_of_time);
    assert_true(c.seconds > 1);
    assert_int_equal(c.width, 64);
    assert_int_equal(c.paths, 2);
}

PL_TEST(a_year_stays_within_the_ranges_of_the_keys)
{
    dial_facts f = two_cores;
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

PL_TEST(a_megabyte_has_few_paths)
{
    dial_facts f = two_cores;
    f.tokens = 400e3;
    f.documents = 250;
    f.valid_tokens = 16e3;
    const dial_choice c = chosen(&f);
    check_sane(&c);
    assert_true(c.paths <= 4);
    assert_true(c.epochs > 1);
    assert_true(c.eval_tokens <= 16000);
}

PL_TEST(text_smaller_than_a_batch_still_has_a_choice)
{
    dial_facts f = two_cores;
    f.tokens = 500;
    f.documents = 3;
    f.valid_tokens = 100;
    const dial_choice c = chosen(&f);
    check_sane(&c);
    assert_int_equal(c.paths, 2);
    assert_int_equal(c.eval_tokens, 100);
}

PL_TEST(text_that_is_read_again_counts_less)
{
    dial_facts f = two_cores;
    f.seconds = 3600;
    const dial_choice rich = chosen(&f);
    f.tokens = 400e3;
    const dial_choice poor = chosen(&f);
    assert_true(poor.bits > rich.bits);
    assert_true(poor.params <= rich.params);
}

PL_TEST(paths_read_their_text_twice_at_most)
{
    dial_facts f = two_cores;
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
PL_TEST(a_fast_machine_has_longer_phases)
{
    dial_facts f = two_cores;
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

PL_TEST(processors_beyond_four_train_further_replicas_of_the_base_model)
{
    /* processors, threads of a worker, given replicas; expected threads and replicas */
    static const int64_t cases[][5] = {
        {1, 1, 0, 1, 1}, {2, 1, 0, 2, 1},  {4, 1, 0, 4, 1},  {7, 1, 0, 4, 1},
        {8, 1, 0, 4, 2}, {16, 1, 0, 4, 4}, {16, 8, 0, 8, 2}, {2, 8, 0, 8, 1},
        {0, 1, 0, 1, 1}, {8, 1, 1, 4, 1},  {8, 1, 4, 2, 4},  {8, 1, 16, 1, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *k = cases[i];
        const dial_team team = dial_base_team(k[0], k[1], k[2]);
        assert_int_equal(team.threads, k[3]);
        assert_int_equal(team.replicas, k[4]);
    }
}

/* Four workers train four replicas of the base model at the same time, but two workers
 * train them in two turns. */
PL_TEST(replicas_of_the_base_model_divide_its_time)
{
    dial_facts f = small_model(4, 0);
    f.batch = 8, f.tau = 100, f.phases = 10, f.base_steps = 4000;
    f.seconds = 1e6;
    f.workers = 4;
    const double one = chosen(&f).part[DIAL_BASE], bits = chosen(&f).bits;
    f.base_replicas = 4;
    const double four = chosen(&f).part[DIAL_BASE];
    assert_true(chosen(&f).bits > bits); /* as with fewer tokens */
    /* between two merges, each replica trains 10 steps */
    assert_true(four > one / 4 && four < one / 4 + 4000.0 / 4 / 10 * 0.1);
    f.workers = 2;
    assert_true(fabs(chosen(&f).part[DIAL_BASE] / four - 2) < 1e-9);
}

/* Three workers train four replicas in two turns, so only two train at a time: 2/3 of
 * the workers. Then the base model has (8 * 2/3 - 1) / 7 of the time of the paths. With
 * half of the workers it would have 3/7, which is 30 % of the whole time. */
PL_TEST(replicas_that_take_turns_have_more_than_30_percent_of_the_time)
{
    dial_facts f = small_model(6, 100e3);
    f.batch = 512; /* exchanges take little of the time */
    f.tokens = 1e12;
    f.seconds = 86400;
    f.workers = 3, f.base_replicas = 4;
    const dial_choice c = chosen(&f);
    assert_true(c.base_steps < c.paths * c.tau * c.phases);
    assert_true(fabs(c.part[DIAL_BASE] / c.part[DIAL_PATHS] - (8.0 * 2 / 3 - 1) / 7) <
                0.1);
}

/* The evaluation's windows slide by half a context, so every model reads two tokens for
 * each one that counts. */
PL_TEST(evaluation_reads_two_tokens_for_each_that_counts)
{
    dial_facts f = small_model(4, 100e3);
    const double models = 4 + 2, forward = 3 * 100e3 * 2, end = 0.8;
    f.valid_tokens = 40e3;
    dial_choice c = chosen(&f);
    assert_int_equal(c.eval_tokens, 40000);
    assert_true(fabs(c.part[DIAL_EVALUATION] - end - 2 * 40e3 * models / forward) <
                1e-6);
    f.valid_tokens = 1e9; /* at most a twentieth of the time */
    c = chosen(&f);
    assert_true(fabs((double)c.eval_tokens - 0.05 * 60 * forward / models / 2) < 1);
    assert_true(fabs(c.part[DIAL_EVALUATION] - end - 0.05 * 60) < 1e-3);
}

PL_TEST(fixed_keys_stay_and_enter_the_choice)
{
    dial_facts f = two_cores;
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

PL_TEST(baselines_take_time_from_the_mixture)
{
    dial_facts f = two_cores;
    const dial_choice without = chosen(&f);
    f.n_baselines = 1;
    f.baselines = f.longest_baseline = 1;
    const dial_choice with = chosen(&f);
    assert_true(with.tokens < without.tokens);
    assert_true(fabs(with.seconds / 60 - 1) < 0.05);
}

PL_TEST(tokens_take_the_place_of_a_time)
{
    static const double numbers[] = {1, 1e6, 20e6, 1e9, 1e12, 9e18};
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

PL_TEST(no_more_text_is_read_than_the_time_allows)
{
    dial_facts f = two_cores;
    int64_t vocab, bytes, more;
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

PL_TEST(times_have_a_unit)
{
    static const struct {
        const char *text;
        double seconds;
    } times[] = {{"90s", 90}, {"15min", 900}, {"2m", 120}, {"1.5h", 5400}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        double s = 0;
        assert_ok(dial_parse_time(times[i].text, &s));
        assert_true(fabs(s - times[i].seconds) < 1e-9);
    }
}

PL_TEST(other_times_are_refused)
{
    static const char *const bad[] = {"",     "5",     "min", "0s",
                                      "-3s",  "nans",  "5d",  "1h5m",
                                      "infs", "1e99h", "s",   "5 parsecs"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double s;
        assert_fails(dial_parse_time(bad[i], &s), PL_ERR_USAGE, "15min");
    }
}
