/* folder: outer; label: unit */
/* Tests the outer methods whose exchange overlaps with training: co2, delayed-nesterov
 * and streaming. */
#include "outer/outer.h"

#include <math.h>

#include "tests/support/suite.h"

enum { N = 300, ROUNDS = 24, DELAY_MAX = 3 };

static void fill(float *x, uint64_t seed, float scale)
{
    for (size_t i = 0; i < N; i++)
        x[i] = pl_random_normal(seed, 3, i) * scale;
}

/* Fills x with multiples of 1/64, so that sums are exact. */
static void fill_dyadic(float *x, uint64_t seed)
{
    for (size_t i = 0; i < N; i++)
        x[i] = (float)((int)(pl_random_u32(seed, 9, i) % 256) - 128) / 64.0f;
}

static pl_outer_report apply(const pl_outer_step *step, pl_outer_state *state,
                             const float *g)
{
    pl_outer_report report;
    assert_ok(pl_outer_apply(step, state, g, N, &report));
    return report;
}

static void assert_near(const float *a, const float *b, float tolerance)
{
    for (size_t i = 0; i < N; i++)
        assert_true(fabsf(a[i] - b[i]) <= tolerance);
}

static pl_outer_step co2_step(double lr, double momentum, int delay)
{
    return (pl_outer_step){.lr = lr,
                           .momentum = momentum,
                           .n_contributors = 4,
                           .method = PL_METHOD_CO2,
                           .rule = PL_RULE_HEAVY_BALL,
                           .delay = delay};
}

/* ---- co2 ---- */

/* Stands for one phase of training from x: computes an update that depends on x. */
static void train(const float *x, float *update)
{
    for (size_t i = 0; i < N; i++)
        update[i] = 0.5f * (x[i] - 0.01f * (float)i);
}

/* Computes versions in the order of Pathloom: phase p starts from version max(0, p -
 * delay), and the merge of its update makes version p + 1. */
static void run_home(const pl_outer_step *step, int rounds, float versions[][N])
{
    static float m[N];
    float x[N], g[N];
    pl_outer_state state = {.params = x, .momentum = m};
    memset(m, 0, sizeof m);
    memcpy(x, versions[0], sizeof x);
    for (int p = 0; p < rounds; p++) {
        train(versions[p > step->delay ? p - step->delay : 0], g);
        apply(step, &state, g);
        memcpy(versions[p + 1], x, sizeof x);
    }
}

/* Computes parameters in the order of the paper, for delay 1: x_{t+1} = x_t - eta m_t
 * with m_t = mu m_{t-1} + g_{t-1}/Lambda_t. Lambda_t is the gap, which is 1 without
 * penalty. Round 0 applies no update. The last round only applies the last update. */
static void run_paper(double lr, double momentum, bool penalty, int rounds,
                      float xs[][N])
{
    float m[N] = {0}, g[N];
    memcpy(xs[1], xs[0], sizeof xs[0]);
    for (int t = 1; t <= rounds; t++) {
        double moved = 0, norm = 0;
        train(xs[t - 1], g);
        for (size_t i = 0; i < N; i++) {
            moved += pow((double)xs[t][i] - (double)xs[t - 1][i], 2);
            norm += pow((double)g[i], 2);
        }
        double gap = penalty ? 1 + sqrt(moved) / (sqrt(norm) + 1e-12) : 1;
        for (size_t i = 0; i < N; i++) {
            m[i] = (float)momentum * m[i] + (float)((double)g[i] / gap);
            xs[t + 1][i] = xs[t][i] - (float)lr * m[i];
        }
    }
}

PL_TEST(delayed_versions_are_the_papers_recursion_with_a_flush)
{
    static float versions[ROUNDS + 1][N], xs[ROUNDS + 2][N];
    pl_outer_step step = co2_step(0.7, 0.2, 1);
    fill(versions[0], 1, 1);
    memcpy(xs[0], versions[0], sizeof xs[0]);
    run_home(&step, ROUNDS, versions);
    run_paper(0.7, 0.2, false, ROUNDS, xs);
    for (int v = 0; v <= ROUNDS; v++)
        assert_memory_equal(versions[v], xs[v + 1], sizeof xs[0]);
}

PL_TEST(staleness_penalty_is_that_of_the_recursion)
{
    static float versions[ROUNDS + 1][N], xs[ROUNDS + 2][N], without[ROUNDS + 1][N];
    pl_outer_step step = co2_step(0.7, 0.2, 1);
    fill(versions[0], 2, 1);
    memcpy(xs[0], versions[0], sizeof xs[0]);
    memcpy(without[0], versions[0], sizeof xs[0]);
    run_home(&step, ROUNDS, without);
    step.gap = PL_GAP_NORM;
    run_home(&step, ROUNDS, versions);
    run_paper(0.7, 0.2, true, ROUNDS, xs);
    for (int v = 0; v <= ROUNDS; v++)
        assert_near(versions[v], xs[v + 1], 1e-5f);
    assert_true(fabsf(versions[2][0] - without[2][0]) > 1e-3f);
}

PL_TEST(penalty_divides_by_one_plus_moved_over_norm)
{
    float x[N] = {0}, m[N] = {0}, g[N];
    pl_outer_state state = {.params = x, .momentum = m};
    pl_outer_step step = co2_step(0.5, 0, 1);
    step.gap = PL_GAP_NORM;
    for (size_t i = 0; i < N; i++)
        g[i] = 1;
    /* The module has not moved, so the gap is 1. */
    assert_true(apply(&step, &state, g).gap == 1);
    assert_true(fabs(state.displacement - 0.5 * sqrt((double)N)) < 1e-9);
    assert_true(fabs(apply(&step, &state, g).gap - 1.5) < 1e-9);
    assert_true(fabsf(x[0] + 0.5f + 0.5f / 1.5f) < 1e-6f);
    step.delay = 0;
    assert_true(apply(&step, &state, g).gap == 1);
}

PL_TEST(co2_without_delay_penalty_and_clip_is_heavy_ball)
{
    float x[N], m[N] = {0}, y[N], b[N] = {0}, slow[N], u[N] = {0}, g[N];
    pl_outer_step co2 = co2_step(0.7, 0.3, 0), heavy = co2;
    pl_outer_state one = {.params = x, .momentum = m},
                   other = {.params = y, .momentum = b};
    const float fast_lr = 0.125f;
    co2.gap = PL_GAP_NORM; /* without delay the gap is 1 */
    heavy.method = PL_METHOD_HEAVY_BALL;
    fill(x, 3, 1);
    memcpy(y, x, sizeof x);
    memcpy(slow, x, sizeof x);
    for (uint64_t t = 0; t < ROUNDS; t++) {
        fill(g, 300 + t, 0.1f);
        apply(&co2, &one, g);
        apply(&heavy, &other, g);
        for (size_t i = 0; i < N; i++) { /* the equations of SlowMo */
            u[i] = 0.3f * u[i] + g[i] / fast_lr;
            slow[i] -= 0.7f * fast_lr * u[i];
        }
    }
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(m, b, sizeof m);
    assert_near(x, slow, 1e-5f);
}

/* Shows that a delay of D shifts the versions of a given sequence of updates by D
 * rounds: x_{t+1} = x_t - eta m(g_{t-D}), with the round numbers of the papers. */
PL_TEST(delay_shifts_a_given_sequence_by_its_rounds)
{
    static float versions[ROUNDS + 1][N], g[ROUNDS][N];
    for (int t = 0; t < ROUNDS; t++)
        fill(g[t], 400 + (uint64_t)t, 0.1f);
    for (int delay = 0; delay <= DELAY_MAX; delay++) {
        float x[N], m[N] = {0}, paper[N], b[N] = {0};
        pl_outer_step step = co2_step(0.7, 0.2, delay);
        pl_outer_state state = {.params = x, .momentum = m};
        fill(x, 4, 1);
        memcpy(versions[0], x, sizeof x);
        memcpy(paper, x, sizeof x);
        for (int t = 0; t < ROUNDS; t++) {
            apply(&step, &state, g[t]);
            memcpy(versions[t + 1], x, sizeof x);
        }
        /* The last rounds apply the updates that remain. */
        for (int t = 0; t < ROUNDS + delay; t++) {
            for (size_t i = 0; t >= delay && i < N; i++) {
                b[i] = 0.2f * b[i] + g[t - delay][i];
                paper[i] -= 0.7f * b[i];
            }
            int shifted = t + 1 > delay ? t + 1 - delay : 0;
            assert_memory_equal(paper, versions[shifted], sizeof paper);
        }
    }
}

PL_TEST(every_update_is_applied_once_with_the_flush)
{
    float x[N], start[N], sum[N] = {0}, g[N];
    pl_outer_step step = co2_step(0.5, 0, 1);
    pl_outer_state state = {.params = x};
    fill_dyadic(x, 5);
    memcpy(start, x, sizeof x);
    for (uint64_t t = 0; t < ROUNDS; t++) {
        fill_dyadic(g, 50 + t);
        apply(&step, &state, g);
        for (size_t i = 0; i < N; i++)
            sum[i] += g[i];
    }
    for (size_t i = 0; i < N; i++)
        assert_true(x[i] == start[i] - 0.5f * sum[i]);
}

PL_TEST(clip_holds_every_element_of_the_momentum)
{
    float x[N], m[N] = {0}, g[N], before[N];
    pl_outer_step step = co2_step(0.7, 0.2, 1);
    pl_outer_state state = {.params = x, .momentum = m};
    bool touched = false;
    step.clip = 0.25;
    fill(x, 6, 1);
    for (uint64_t t = 0; t < ROUNDS; t++) {
        memcpy(before, x, sizeof x);
        fill(g, 600 + t, 1);
        apply(&step, &state, g);
        for (size_t i = 0; i < N; i++) {
            assert_true(fabsf(m[i]) <= 0.25f);
            touched = touched || fabsf(m[i]) == 0.25f;
            assert_true(fabsf(x[i] - before[i]) <= 0.7f * 0.25f + 1e-6f);
        }
    }
    assert_true(touched);
}

/* ---- delayed Nesterov ---- */

static pl_outer_step delayed_step(int buffer, double spread)
{
    return (pl_outer_step){.lr = 0.7,
                           .momentum = 0.9,
                           .n_contributors = 1,
                           .method = PL_METHOD_DELAYED_NESTEROV,
                           .buffer = buffer,
                           .spread = spread};
}

PL_TEST(arrivals_of_a_buffer_are_one_nesterov_step_on_their_mean)
{
    enum { BUFFER = 4 };
    float x[N], m[N] = {0}, s[N] = {0}, y[N], b[N] = {0}, g[N], mean[N] = {0};
    pl_outer_step delayed = delayed_step(BUFFER, 0), torch = {.n_contributors = 1};
    pl_outer_state one = {.params = x, .momentum = m, .carry = s},
                   other = {.params = y, .momentum = b};
    torch.lr = 0.7, torch.momentum = 0.9;
    fill(x, 10, 1);
    memcpy(y, x, sizeof x);
    for (uint64_t t = 1; t <= 6 * BUFFER; t++) {
        fill(g, 1000 + t, 0.1f);
        apply(&delayed, &one, g);
        for (size_t i = 0; i < N; i++)
            mean[i] += g[i] / BUFFER;
        assert_int_equal(one.arrivals, t % BUFFER);
        if (t % BUFFER)
            continue;
        apply(&torch, &other, mean);
        memset(mean, 0, sizeof mean);
        assert_near(x, y, 1e-5f);
        assert_near(m, b, 1e-5f);
    }
}

PL_TEST(delayed_nesterov_of_every_arrival_is_torch_bit_for_bit)
{
    float x[N], m[N] = {0}, s[N] = {0}, y[N], b[N] = {0}, g[N];
    pl_outer_step delayed = delayed_step(1, 0), torch = {.n_contributors = 1};
    pl_outer_state one = {.params = x, .momentum = m, .carry = s},
                   other = {.params = y, .momentum = b};
    torch.lr = 0.7, torch.momentum = 0.9;
    fill(x, 11, 1);
    memcpy(y, x, sizeof x);
    for (uint64_t t = 0; t < ROUNDS; t++) {
        fill(g, 1100 + t, 0.1f);
        apply(&delayed, &one, g);
        apply(&torch, &other, g);
        assert_memory_equal(x, y, sizeof x);
        assert_memory_equal(m, b, sizeof m);
    }
}

PL_TEST(spread_momentum_follows_its_equation)
{
    enum { BUFFER = 4 };
    float x[N], m[N] = {0}, s[N] = {0}, g[N];
    double y[N], b[N] = {0}, sum[N] = {0};
    const double c = 0.2;
    pl_outer_step delayed = delayed_step(BUFFER, c);
    pl_outer_state state = {.params = x, .momentum = m, .carry = s};
    fill(x, 12, 1);
    for (size_t i = 0; i < N; i++)
        y[i] = x[i];
    for (uint64_t t = 1; t <= ROUNDS; t++) {
        fill(g, 1200 + t, 0.1f);
        apply(&delayed, &state, g);
        for (size_t i = 0; i < N; i++) {
            double pull = t % BUFFER ? c : 1 - c * BUFFER + c;
            sum[i] += g[i];
            if (t % BUFFER == 0) {
                b[i] = 0.9 * b[i] + sum[i] / BUFFER;
                sum[i] = 0;
            }
            y[i] -= 0.7 * (pull * 0.9 * b[i] + g[i] / BUFFER);
            assert_true(fabs(x[i] - y[i]) <= 1e-5);
        }
    }
}

PL_TEST(slow_workers_get_fewer_steps_but_never_none)
{
    assert_int_equal(pl_local_steps(100, 1, 4), 25);
    assert_int_equal(pl_local_steps(100, 4, 4), 100);
    assert_int_equal(pl_local_steps(100, 1, 3), 33);
    assert_int_equal(pl_local_steps(100, 1e-6, 3), 1);
    assert_int_equal(pl_local_steps(100, 0, 3), 100);
    assert_int_equal(pl_local_steps(100, 5, 3), 100);
}

/* ---- streaming ---- */

/* Returns the fragment that is sent after `done` inner steps, or -1. */
static int fragment_at(const pl_method_settings *s, int64_t done)
{
    const int64_t every = s->inner_steps / s->fragments;
    return done < 1 || done % every != 0 ? -1
                                         : (int)((done / every - 1) % s->fragments);
}

typedef struct stream {
    pl_method_settings settings;
    float local[2][N], merged[N], momentum[N], pending[N];
} stream;

static size_t fragment_start(const stream *s, int p)
{
    return (size_t)p * N / (size_t)s->settings.fragments;
}

/* Computes the mean of the updates that two workers send of fragment p. */
static void send_fragment(stream *s, int p)
{
    size_t first = fragment_start(s, p), end = fragment_start(s, p + 1);
    for (size_t i = first; i < end; i++)
        s->pending[i] = 0.5f * (s->merged[i] - s->local[0][i]) +
                        0.5f * (s->merged[i] - s->local[1][i]);
}

/* Takes the outer step of fragment p, and mixes the result into the parameters of both
 * workers. */
static void take_fragment(stream *s, int p)
{
    size_t first = fragment_start(s, p), end = fragment_start(s, p + 1);
    pl_outer_step step = pl_method_step(&s->settings, s->settings.lr, false, 2);
    pl_outer_state state = {.params = s->merged + first,
                            .momentum = s->momentum + first};
    assert_ok(pl_outer_apply(&step, &state, s->pending + first, end - first, NULL));
    for (int w = 0; w < 2; w++)
        pl_streaming_mix(s->local[w] + first, s->merged + first, s->settings.mix,
                         end - first);
}

static void run_stream(stream *s, int64_t steps)
{
    fill(s->merged, 13, 1);
    memset(s->momentum, 0, sizeof s->momentum);
    for (int w = 0; w < 2; w++)
        memcpy(s->local[w], s->merged, sizeof s->merged);
    for (int64_t done = 1; done <= steps; done++) {
        for (int w = 0; w < 2; w++)
            for (size_t i = 0; i < N; i++)
                s->local[w][i] -= 0.1f * (s->local[w][i] - (float)(w + 1));
        int p = fragment_at(&s->settings, done);
        if (p >= 0)
            send_fragment(s, p);
        p = fragment_at(&s->settings, done - s->settings.overlap);
        if (p >= 0)
            take_fragment(s, p);
    }
}

static void run_diloco(float *x, int rounds, int inner_steps)
{
    float m[N] = {0}, g[N], local[2][N];
    pl_outer_step step = {.lr = 0.4, .momentum = 0.9, .n_contributors = 2};
    pl_outer_state state = {.params = x, .momentum = m};
    fill(x, 13, 1);
    for (int t = 0; t < rounds; t++) {
        for (int w = 0; w < 2; w++) {
            memcpy(local[w], x, N * sizeof *x);
            for (int s = 0; s < inner_steps; s++)
                for (size_t i = 0; i < N; i++)
                    local[w][i] -= 0.1f * (local[w][i] - (float)(w + 1));
        }
        for (size_t i = 0; i < N; i++)
            g[i] = 0.5f * (x[i] - local[0][i]) + 0.5f * (x[i] - local[1][i]);
        apply(&step, &state, g);
    }
}

PL_TEST(streaming_of_one_fragment_at_once_is_diloco_bit_for_bit)
{
    static stream s;
    float x[N];
    s.settings = pl_method_defaults(PL_METHOD_STREAMING);
    s.settings.fragments = 1, s.settings.overlap = 0, s.settings.mix = 0;
    s.settings.inner_steps = 6;
    run_stream(&s, 5 * 6);
    run_diloco(x, 5, 6);
    assert_memory_equal(s.merged, x, sizeof x);
    assert_memory_equal(s.local[0], x, sizeof x);
}

PL_TEST(full_mix_leaves_local_parameters_untouched)
{
    static stream s;
    float start[N], alone[N];
    s.settings = pl_method_defaults(PL_METHOD_STREAMING);
    s.settings.mix = 1, s.settings.inner_steps = 12;
    fill(start, 13, 1);
    memcpy(alone, start, sizeof start);
    run_stream(&s, 48);
    for (int t = 0; t < 48; t++)
        for (size_t i = 0; i < N; i++)
            alone[i] -= 0.1f * (alone[i] - 1.0f);
    assert_memory_equal(s.local[0], alone, sizeof alone);
    for (size_t i = 0; i < N; i++)
        assert_true(s.merged[i] != start[i]);
}

PL_TEST(streaming_with_overlap_approaches_the_mean_of_the_optima)
{
    static stream s;
    s.settings = pl_method_defaults(PL_METHOD_STREAMING);
    s.settings.inner_steps = 12;
    assert_ok(pl_method_check(&s.settings));
    run_stream(&s, 12 * 120);
    for (size_t i = 0; i < N; i++)
        assert_true(fabsf(s.merged[i] - 1.5f) < 1e-2f);
}
