/* folder: outer; label: unit */
/* Tests pl_health. The test makes versions by outer steps with known updates. From the
 * versions, pl_health must find the length, lag, gain and transverse part of these
 * steps. */
#include "outer/outer.h"
#include <math.h>

#include "tests/support/suite.h"

enum { N = 1000, VERSIONS = 8 };

static void draw_update(float *g, int v)
{
    for (int i = 0; i < N; i++) {
        const float fresh = pl_random_normal(5, (uint64_t)v, (uint64_t)i);
        g[i] = v == 0 ? fresh : 0.6f * g[i] + 0.8f * fresh;
    }
}

static double cosine(const float *a, const float *b)
{
    double aa = 0, bb = 0, ab = 0;
    for (int i = 0; i < N; i++) {
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
        ab += (double)a[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Makes versions by the steps of a method, and visits them with a walk, except version
 * `gap` (0: visits all). After the gap the walk begins again. From there on the lag is
 * known only without momentum, and only from the second step on. */
static void play_steps(pl_method method, pl_rule rule, double momentum, int gap)
{
    static float x[N], m[N], g[N], last[N], before[N];
    pl_health_walk *walk;
    assert_ok(pl_health_walk_create(N, &walk));
    for (int i = 0; i < N; i++) {
        x[i] = pl_random_normal(6, 0, (uint64_t)i);
        m[i] = 0;
    }
    pl_health_begin(walk, x, true);
    for (int v = 1; v <= VERSIONS; v++) {
        pl_outer_step step = {.lr = 0.4 + 0.05 * v,
                              .momentum = momentum,
                              .n_contributors = 2,
                              .method = method,
                              .rule = rule};
        pl_outer_state state = {.params = x, .momentum = m};
        pl_outer_report report;
        memcpy(last, g, sizeof last);
        memcpy(before, x, sizeof before);
        draw_update(g, v - 1);
        for (int i = 0; i < N; i++)
            g[i] *= 0.01f;
        assert_ok(pl_outer_apply(&step, &state, g, N, &report));
        for (int i = 0; i < N; i++)
            g[i] *= 100.0f;
        if (v == gap)
            continue;
        if (gap > 0 && v == gap + 1) {
            pl_health_begin(walk, x, false);
            continue;
        }
        const pl_health_step made = {.method = pl_method_name(method),
                                     .lr = step.lr,
                                     .momentum = momentum,
                                     .mean_norm = report.mean_norm};
        pl_health h;
        double moved = 0;
        for (int i = 0; i < N; i++)
            moved += pow((double)x[i] - (double)before[i], 2);
        pl_health_next(walk, x, &made, &h);
        assert_true(fabs(h.gain - sqrt(moved) / report.mean_norm) < 1e-6);
        assert_true(fabs(h.step - sqrt(moved)) < 1e-6);
        assert_true(fabs(h.relative - h.step / report.params_norm) < 1e-6);
        assert_true(isnan(h.transverse));
        const bool lost = gap > 0 && v > gap && (momentum > 0 || v == gap + 2);
        if (v == 1 || lost)
            assert_true(isnan(h.lag));
        else if (!(fabs(h.lag - cosine(g, last)) < 1e-3))
            fail_msg("%s, version %d: the lag is %g instead of %g", made.method, v,
                     h.lag, cosine(g, last));
    }
    pl_health_walk_destroy(&walk);
    assert_null(walk);
}

PL_TEST(lag_and_gain_are_those_of_the_updates)
{
    play_steps(PL_METHOD_DILOCO, PL_RULE_NESTEROV, 0.9, 0);
    play_steps(PL_METHOD_DILOCO, PL_RULE_NESTEROV, 0, 0);
    play_steps(PL_METHOD_ISO, PL_RULE_NESTEROV, 0.6, 0);
    play_steps(PL_METHOD_HEAVY_BALL, PL_RULE_HEAVY_BALL, 0.5, 0);
}

PL_TEST(behind_a_gap_only_steps_without_momentum_have_a_lag)
{
    play_steps(PL_METHOD_DILOCO, PL_RULE_NESTEROV, 0.9, 3);
    play_steps(PL_METHOD_DILOCO, PL_RULE_NESTEROV, 0, 3);
}

PL_TEST(the_transverse_part_is_the_spread_around_the_mean)
{
    static float a[N], b[N], mean[N];
    const double weights[] = {3, 1};
    double norms[2], spread = 0, squares = 0;
    OWNED(pl_health_walk_destroy) pl_health_walk *walk;
    pl_health h;
    draw_update(a, 0);
    memcpy(b, a, sizeof b);
    draw_update(b, 1);
    for (int i = 0; i < N; i++) {
        mean[i] = 0.75f * a[i] + 0.25f * b[i];
        spread += 0.75 * pow((double)a[i] - (double)mean[i], 2) +
                  0.25 * pow((double)b[i] - (double)mean[i], 2);
        squares += 0.75 * pow((double)a[i], 2) + 0.25 * pow((double)b[i], 2);
    }
    norms[0] = pl_l2_norm(a, N), norms[1] = pl_l2_norm(b, N);
    assert_ok(pl_health_walk_create(N, &walk));
    pl_health_begin(walk, a, true);
    pl_health_step made = {.method = "diloco",
                           .lr = 1,
                           .mean_norm = pl_l2_norm(mean, N),
                           .norms = norms,
                           .weights = weights,
                           .n = 2};
    pl_health_next(walk, b, &made, &h);
    assert_true(fabs(h.transverse - spread / squares) < 1e-6);
    assert_true(h.transverse > 0.01 && h.transverse < 0.9);
    /* the updates are equal */
    norms[1] = norms[0], made.mean_norm = norms[0];
    pl_health_next(walk, a, &made, &h);
    assert_true(h.transverse < 1e-12 && h.transverse >= 0);
}
