/* folder: outer; label: unit */
#include "outer/outer.h"
#include "outer/step_kernel.h"

#include <math.h>

#include "tests/support/suite.h"

enum { N = 3001 }; /* five whole blocks and a part of another one */

static void fill(float *x, size_t n, uint64_t seed, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = pl_random_normal(seed, 7, i) * scale;
}

/* Fills x with numbers whose sums and halves are exact in fp32. */
static void fill_dyadic(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((int)(pl_random_u32(seed, 9, i) % 2048) - 1024) / 64.0f;
}

static void apply(const pl_outer_step *step, pl_outer_state *state, const float *mean)
{
    assert_ok(pl_outer_apply(step, state, mean, N, NULL));
}

/* The step of torch.optim.SGD(nesterov=True), one tensor operation after another. */
static void torch_step(float *x, float *b, const float *g, float eta, float mu,
                       bool first)
{
    for (size_t i = 0; i < N; i++) {
        volatile float scaled = mu * b[i];
        b[i] = first ? g[i] : scaled + g[i];
        volatile float look_ahead = mu * b[i];
        volatile float d = g[i] + look_ahead;
        volatile float step = eta * d;
        x[i] -= step;
    }
}

PL_TEST(nesterov_is_that_of_torch_bit_for_bit)
{
    static float x[N], m[N], y[N], b[N], g[N];
    pl_outer_step step = {.lr = 0.7, .momentum = 0.9, .n_contributors = 3};
    pl_outer_state state = {.params = x, .momentum = m};
    fill(x, N, 1, 1);
    memcpy(y, x, sizeof x);
    memset(m, 0, sizeof m);
    for (uint64_t t = 0; t < 20; t++) {
        fill(g, N, 100 + t, 1e-2f);
        apply(&step, &state, g);
        torch_step(y, b, g, 0.7f, 0.9f, t == 0);
        assert_memory_equal(x, y, sizeof x);
        assert_memory_equal(m, b, sizeof m);
    }
}

PL_TEST(heavy_ball_follows_its_equation)
{
    static float x[N], m[N], y[N], v[N], g[N];
    pl_outer_step step = {.lr = 0.7,
                          .momentum = 0.3,
                          .n_contributors = 3,
                          .method = PL_METHOD_HEAVY_BALL,
                          .rule = PL_RULE_HEAVY_BALL};
    pl_outer_state state = {.params = x, .momentum = m};
    fill(x, N, 2, 1);
    memcpy(y, x, sizeof x);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    for (uint64_t t = 0; t < 20; t++) {
        fill(g, N, 200 + t, 1e-2f);
        apply(&step, &state, g);
        for (size_t i = 0; i < N; i++) { /* v contains the factor eta */
            v[i] = 0.3f * v[i] - 0.7f * g[i];
            y[i] += v[i];
            assert_true(fabsf(x[i] - y[i]) <= 2e-6f);
        }
    }
}

PL_TEST(full_step_without_momentum_is_the_mean_of_parameters)
{
    enum { K = 4 };
    static float x[N], ends[K][N], mean[N];
    pl_outer_step step = {.lr = 1, .n_contributors = K, .method = PL_METHOD_FEDAVG};
    pl_outer_state state = {.params = x};
    fill_dyadic(x, N, 3);
    memset(mean, 0, sizeof mean);
    for (int k = 0; k < K; k++) {
        fill_dyadic(ends[k], N, 30 + (uint64_t)k);
        for (size_t i = 0; i < N; i++)
            mean[i] += (x[i] - ends[k][i]) / K;
    }
    apply(&step, &state, mean);
    for (size_t i = 0; i < N; i++)
        assert_true(x[i] == (ends[0][i] + ends[1][i] + ends[2][i] + ends[3][i]) / 4);
}

enum { STEPS = 5 };
static const pl_outer_step every_step[STEPS] = {
    {.lr = 0.7, .momentum = 0.9, .n_contributors = 4, .rescale = true},
    {.lr = 1, .n_contributors = 4, .method = PL_METHOD_FEDAVG},
    {.lr = 0.7,
     .momentum = 0.3,
     .n_contributors = 4,
     .method = PL_METHOD_HEAVY_BALL,
     .rule = PL_RULE_HEAVY_BALL},
    {.lr = 0.7,
     .momentum = 0.2,
     .n_contributors = 4,
     .method = PL_METHOD_CO2,
     .rule = PL_RULE_HEAVY_BALL,
     .delay = 1,
     .gap = PL_GAP_NORM,
     .clip = 0.5},
    {.lr = 0.4,
     .momentum = 0.5,
     .n_contributors = 4,
     .method = PL_METHOD_DELAYED_NESTEROV,
     .buffer = 3,
     .spread = 0.25}};

typedef struct vectors {
    float *x, *m, *carry, *g;
    size_t n;
    pl_outer_state state;
} vectors;

static vectors vectors_create(size_t n)
{
    vectors v = {.n = n};
    assert_ok(pl_try_alloc(4 * n * sizeof(float), "test", (void **)&v.x));
    v.m = v.x + n;
    v.carry = v.m + n;
    v.g = v.carry + n;
    fill(v.x, n, 5, 1);
    v.state = (pl_outer_state){.params = v.x, .momentum = v.m, .carry = v.carry};
    return v;
}

static pl_outer_report advance(const pl_outer_step *step, vectors *v, uint64_t round)
{
    pl_outer_report report;
    fill(v->g, v->n, 500 + round, 1e-1f);
    assert_ok(pl_outer_apply(step, &v->state, v->g, v->n, &report));
    return report;
}

static void assert_same(const vectors *a, const vectors *b)
{
    assert_memory_equal(a->x, b->x, 3 * a->n * sizeof(float));
    assert_memory_equal(&a->state.displacement, &b->state.displacement, sizeof(double));
    assert_int_equal(a->state.arrivals, b->state.arrivals);
}

PL_TEST(state_of_any_round_replays_bit_for_bit)
{
    enum { ROUNDS = 9 };
    for (int s = 0; s < STEPS; s++)
        for (uint64_t saved = 0; saved < ROUNDS; saved++) {
            vectors whole = vectors_create(N), resumed = vectors_create(N);
            for (uint64_t t = 0; t < ROUNDS; t++) {
                if (t == saved) {
                    memcpy(resumed.x, whole.x, 3 * N * sizeof(float));
                    resumed.state.displacement = whole.state.displacement;
                    resumed.state.arrivals = whole.state.arrivals;
                }
                advance(&every_step[s], &whole, t);
                if (t >= saved)
                    advance(&every_step[s], &resumed, t);
            }
            assert_same(&whole, &resumed);
            pl_free(whole.x);
            pl_free(resumed.x);
        }
}

PL_TEST(instruction_sets_agree_bit_for_bit)
{
    const step_kernels *kernels[] = {step_kernels_of(PL_ISA_PORTABLE),
                                     step_kernels_of(pl_isa_newest())};
    static float a[2][4][STEP_BLOCK];
    const size_t counts[] = {STEP_BLOCK, 311};
    for (int kind = STEP_PLAIN; kind <= STEP_LAST_ARRIVAL; kind++)
        for (int c = 0; c < 2; c++) {
            step_coefficients k = {(step_kind)kind, 0.7f, 0.9f, 1.3f, 0.8f, 3, 0.4f};
            step_sums sums[2] = {{0}};
            for (int which = 0; which < 2; which++) {
                double (*squares)(const float *, size_t) = kernels[which]->squares;
                float(*v)[STEP_BLOCK] = a[which];
                for (uint64_t i = 0; i < 4; i++)
                    fill(v[i], STEP_BLOCK, i, 1);
                step_block block = {v[0], v[1], v[2], v[3], counts[c]};
                const double before = squares(v[3], counts[c]);
                kernels[which]->step(&k, &block, which + c != 1, &sums[which]);
                assert_true(sums[which].mean == before);
                assert_true(sums[which].params == squares(v[0], counts[c]));
                assert_true(sums[which].step ==
                            (which + c != 1 ? squares(v[3], counts[c]) : 0));
            }
            assert_memory_equal(a[0], a[1], sizeof a[0]);
            assert_true(sums[0].mean == sums[1].mean);
        }
}

PL_TEST(report_holds_the_norms_of_mean_and_parameters)
{
    vectors v = vectors_create(300001);
    pl_outer_report report = advance(&every_step[0], &v, 1);
    double mean = 0, params = 0;
    for (size_t i = 0; i < v.n; i++) {
        mean += (double)v.g[i] * (double)v.g[i];
        params += (double)v.x[i] * (double)v.x[i];
    }
    assert_true(fabs(report.mean_norm - sqrt(mean)) <= 1e-12 * sqrt(mean));
    assert_true(fabs(report.params_norm - sqrt(params)) <= 1e-12 * sqrt(params));
    assert_true(report.params_norm == pl_l2_norm(v.x, v.n) && report.gap == 1);
    v.g[v.n - 1] = NAN;
    assert_ok(pl_outer_apply(&every_step[0], &v.state, v.g, v.n, &report));
    assert_true(isnan(report.params_norm));
    pl_free(v.x);
}

/* Norms and the gap are sums over spans of 131,072 values; all else is per value. */
PL_TEST(step_over_several_spans_is_that_of_its_parts)
{
    const size_t n = 2 * 131072 + 77, cut = 131072 + 1001;
    for (int s = 0; s < STEPS; s++) {
        const pl_outer_step *step = &every_step[s];
        vectors whole = vectors_create(n), parts = vectors_create(n);
        whole.state.displacement = 3;
        pl_outer_report report = advance(step, &whole, 1);
        fill(parts.g, n, 501, 1e-1f);
        assert_memory_equal(parts.g, whole.g, n * sizeof(float));
        if (pl_outer_depends_on_gap(step)) {
            double moved = 0;
            for (size_t i = 0; i < n; i++)
                moved += pow((double)whole.x[i] - (double)parts.x[i], 2);
            assert_true(report.gap == 1 + 3 / (pl_l2_norm(whole.g, n) + 1e-12));
            assert_true(fabs(whole.state.displacement - sqrt(moved)) <
                        1e-4 * sqrt(moved));
        } else {
            pl_outer_state rest = {parts.x + cut, parts.m + cut, parts.carry + cut, 0,
                                   0};
            assert_ok(pl_outer_apply(step, &parts.state, parts.g, cut, NULL));
            assert_ok(pl_outer_apply(step, &rest, parts.g + cut, n - cut, NULL));
            assert_memory_equal(whole.x, parts.x, 3 * n * sizeof(float));
        }
        pl_free(whole.x);
        pl_free(parts.x);
    }
}

PL_TEST(step_that_lacks_a_vector_is_refused)
{
    float x = 1, m = 0, g = 1;
    pl_outer_state bare = {.params = &x}, some = {.params = &x, .momentum = &m};
    pl_outer_step gossip = {.lr = 1, .n_contributors = 2, .method = PL_METHOD_NOLOCO};
    assert_int_equal(pl_outer_apply(&every_step[0], &bare, &g, 1, NULL), PL_ERR_ARG);
    assert_int_equal(pl_outer_apply(&every_step[4], &some, &g, 1, NULL), PL_ERR_ARG);
    assert_int_equal(pl_outer_apply(&gossip, &some, &g, 1, NULL), PL_ERR_ARG);
    some.arrivals = 3;
    some.carry = &m;
    assert_int_equal(pl_outer_apply(&every_step[4], &some, &g, 1, NULL), PL_ERR_ARG);
    assert_true(x == 1 && m == 0);
}

PL_TEST(rescale_multiplies_the_mean_before_the_momentum)
{
    static float x[N], m[N], y[N], b[N], g[N], doubled[N];
    pl_outer_step rescaled = {.lr = 0.5, .momentum = 0.5, .n_contributors = 4},
                  plain = rescaled;
    pl_outer_state one = {.params = x, .momentum = m},
                   other = {.params = y, .momentum = b};
    rescaled.rescale = true;
    fill(g, N, 6, 1);
    for (size_t i = 0; i < N; i++)
        doubled[i] = 2 * g[i];
    apply(&rescaled, &one, g);
    apply(&plain, &other, doubled);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(m, b, sizeof m);
}
