/* folder: outer; label: unit */
/* Tests the names of outer methods, the limits of their coefficients, the check of
 * settings at the start, and the outer learning rate. */
#include "outer/outer.h"

#include <math.h>

#include "tests/support/suite.h"

PL_TEST(every_method_is_found_by_its_name)
{
    for (int m = 0; m < PL_METHOD_COUNT; m++) {
        pl_method found = PL_METHOD_COUNT;
        if (!pl_method_name((pl_method)m))
            continue; /* the number of a method that was removed */
        assert_ok(pl_method_parse(pl_method_name((pl_method)m), &found));
        assert_int_equal(found, m);
    }
}

PL_TEST(removed_method_is_refused_with_methods_to_take)
{
    pl_method method;
    assert_fails(pl_method_parse("eager", &method), PL_ERR_CONFIG, "eager was removed");
    assert_said("use diloco, or streaming");
}

PL_TEST(unknown_method_is_refused_with_its_neighbour)
{
    pl_method method;
    assert_fails(pl_method_parse("dilco", &method), PL_ERR_CONFIG,
                 "did you mean `diloco`");
    assert_said("delayed-nesterov");
    assert_int_equal(pl_method_parse("", &method), PL_ERR_CONFIG);
}

PL_TEST(limits_have_their_closed_forms)
{
    for (int i = 0; i < 10; i++) {
        double mu = 0.1 * i;
        assert_true(fabs(pl_outer_limit(PL_RULE_HEAVY_BALL, mu, 0) - 2 * (1 + mu)) <
                    1e-9);
        assert_true(fabs(pl_outer_limit(PL_RULE_NESTEROV, mu, 0) -
                         (2 + 2 * mu) / (1 + 2 * mu)) < 1e-9);
        assert_true(fabs(pl_outer_limit(PL_RULE_HEAVY_BALL, mu, 1) - (1 - mu)) < 1e-9);
    }
}

PL_TEST(limits_with_delay_are_those_of_the_derivation)
{
    assert_true(fabs(pl_outer_limit(PL_RULE_NESTEROV, 0.5, 1) - 0.56) < 5e-3);
    assert_true(fabs(pl_outer_limit(PL_RULE_NESTEROV, 0.9, 1) - 0.25) < 5e-3);
    /* By Jury's condition for the cubic polynomial, the limit is the positive solution
     * k of 1 - k^2 = 1.5 k + 0.5. */
    assert_true(fabs(pl_outer_limit(PL_RULE_HEAVY_BALL, 0.5, 2) -
                     (sqrt(4.25) - 1.5) / 2) < 1e-9);
}

/* Returns the growth of |x| under pl_outer_apply with the updates g = x: the largest
 * |x| of the last rounds divided by the largest |x| of earlier rounds. */
static double growth(pl_rule rule, double mu, int delay, double lr)
{
    enum { ROUNDS = 400 };
    static float x[ROUNDS + 1];
    float now = 1, m = 0, early = 0, late = 0;
    pl_outer_step step = {.lr = lr,
                          .momentum = mu,
                          .n_contributors = 2,
                          .method = PL_METHOD_CO2,
                          .rule = rule,
                          .delay = delay};
    pl_outer_state state = {.params = &now, .momentum = &m};
    x[0] = now;
    for (int t = 0; t < ROUNDS; t++) {
        float g = x[t > delay ? t - delay : 0];
        assert_ok(pl_outer_apply(&step, &state, &g, 1, NULL));
        x[t + 1] = now;
        if (t < ROUNDS / 2 && t >= ROUNDS / 3)
            early = fmaxf(early, fabsf(now));
        if (t >= ROUNDS - ROUNDS / 6)
            late = fmaxf(late, fabsf(now));
    }
    return (double)late / fmax((double)early, 1e-30);
}

PL_TEST(step_decays_below_its_limit_and_grows_above)
{
    for (int rule = 0; rule < 2; rule++)
        for (int delay = 0; delay <= 3; delay++)
            for (int i = 0; i < 3; i++) {
                double mu = 0.3 * i, edge = pl_outer_limit((pl_rule)rule, mu, delay);
                assert_true(growth((pl_rule)rule, mu, delay, 0.97 * edge) < 1);
                assert_true(growth((pl_rule)rule, mu, delay, 1.03 * edge) > 1);
            }
}

PL_TEST(defaults_are_stable_for_every_number_of_holders)
{
    for (int m = 0; m < PL_METHOD_COUNT; m++)
        for (int holders = 0; holders <= 17; holders++) {
            pl_method_settings s = pl_method_defaults((pl_method)m);
            if (!pl_method_name((pl_method)m))
                continue; /* the number of a method that was removed */
            s.holders = holders;
            assert_ok(pl_method_check(&s));
            assert_int_equal(s.method, m);
        }
}

static void assert_refused(const pl_method_settings *s, const char *reason)
{
    assert_fails(pl_method_check(s), PL_ERR_CONFIG, reason);
}

PL_TEST(delay_of_diloco_coefficients_is_refused_with_the_limit)
{
    pl_method_settings s = pl_method_defaults(PL_METHOD_CO2);
    s.lr = 0.7, s.momentum = 0.9;
    assert_refused(&s, "outer.lr must be below 0.1;");
    s.curvature = 0.1; /* a phase goes only a tenth of the way to the minimum */
    assert_ok(pl_method_check(&s));
    s.curvature = 1, s.momentum = 0.5, s.delay = 2;
    assert_refused(&s, "below 0.2808");
    s.delay = 17;
    assert_refused(&s, "0 to 16");
}

PL_TEST(consensus_beyond_the_bound_is_refused_with_it)
{
    pl_method_settings s = pl_method_defaults(PL_METHOD_NOLOCO);
    s.momentum = 0.9;
    assert_refused(&s, "below 0.38");
    s.rule = PL_RULE_NESTEROV;
    assert_ok(pl_method_check(&s));
    s.rule = PL_RULE_HEAVY_BALL, s.momentum = 0.5, s.consensus = 0;
    assert_refused(&s, "above 0");
    s.consensus = 1.499;
    assert_ok(pl_method_check(&s));
    s.consensus = 1.501;
    assert_refused(&s, "below 1.5");
    s.holders = 2; /* with two holders the bound is 2 (1 + alpha) */
    assert_ok(pl_method_check(&s));
    s.consensus = 3.01;
    assert_refused(&s, "below 3");
}

PL_TEST(coefficients_out_of_range_are_refused)
{
    pl_method_settings d = pl_method_defaults(PL_METHOD_DILOCO), s = d;
    s.lr = 1.4;
    assert_refused(&s, "below 1.357");
    s = d, s.lr = 0;
    assert_refused(&s, "lr above 0");
    s = d, s.momentum = 1;
    assert_refused(&s, "below 1");
    s = d, s.momentum = NAN;
    assert_refused(&s, "momentum");
    s = d, s.curvature = 0;
    assert_refused(&s, "curvature");
    s = d, s.rule = PL_RULE_HEAVY_BALL;
    assert_refused(&s, "cannot use the momentum rule heavy-ball");
    s = pl_method_defaults(PL_METHOD_FEDAVG), s.lr = 0.7;
    assert_refused(&s, "fedavg needs outer.lr 1");
    s = pl_method_defaults(PL_METHOD_CO2), s.clip = -1;
    assert_refused(&s, "clip");
    s = pl_method_defaults(PL_METHOD_STREAMING), s.inner_steps = 30;
    assert_refused(&s, "4 fragments");
    s = pl_method_defaults(PL_METHOD_STREAMING), s.overlap = 8;
    assert_refused(&s, "outer.overlap is 8");
    s = pl_method_defaults(PL_METHOD_STREAMING), s.mix = 1.5;
    assert_refused(&s, "1.5");
    s = pl_method_defaults(PL_METHOD_DELAYED_NESTEROV), s.spread = 0.3;
    assert_refused(&s, "spread");
}

PL_TEST(single_contributor_has_no_delay)
{
    pl_method_settings s = pl_method_defaults(PL_METHOD_CO2);
    pl_outer_step step = pl_method_step(&s, 0.3, true, 1);
    assert_true(step.delay == 0 && step.lr == 0.3 && step.rescale);
    assert_int_equal(pl_method_step(&s, 0.3, true, 2).delay, 1);
}

PL_TEST(the_last_phases_take_the_plain_mean)
{
    const pl_outer_schedule s = {.phases = 10, .settle = 4};
    for (int phase = 0; phase <= 10; phase++) {
        pl_method_settings m = pl_method_defaults(PL_METHOD_DILOCO);
        assert_true(pl_method_schedule(&s, phase, &m) == (phase >= 6));
        assert_true(m.lr == (phase < 6 ? 0.7 : 1.0));
        assert_true(m.momentum == (phase < 6 ? 0.9 : 0.0));
    }
    pl_method_settings co2 = pl_method_defaults(PL_METHOD_CO2), was = co2;
    pl_method_schedule(&s, 9, &co2); /* co2 never takes the mean without momentum */
    assert_true(co2.lr == was.lr && co2.momentum == was.momentum);
    const pl_outer_schedule never = {.phases = 10};
    pl_method_settings m = pl_method_defaults(PL_METHOD_DILOCO);
    pl_method_schedule(&never, 9, &m);
    assert_true(m.lr == 0.7 && m.momentum == 0.9);
}
