/* folder: outer; label: unit */
#include "outer/outer.h"
#include "outer/step_kernel.h"

#include <math.h>

#include "tests/support/suite.h"

enum { N = 3001 }; /* one whole block, and a part of a block */

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
    static float x[N], ends[K][N], updates[K][N];
    pl_update_view views[K];
    pl_update_list list = {views, K};
    pl_outer_step step = {.lr = 1, .n_contributors = K, .method = PL_METHOD_FEDAVG};
    pl_outer_state state = {.params = x};
    pl_outer_report report;
    fill_dyadic(x, N, 3);
    for (int k = 0; k < K; k++) {
        fill_dyadic(ends[k], N, 30 + (uint64_t)k);
        for (size_t i = 0; i < N; i++)
            updates[k][i] = x[i] - ends[k][i];
        views[k] = (pl_update_view){updates[k], false, 1.0f / K};
    }
    assert_ok(pl_outer_merge(&step, &state, N, pl_update_list_mean, &list, 1, &report));
    for (size_t i = 0; i < N; i++)
        assert_true(x[i] == (ends[0][i] + ends[1][i] + ends[2][i] + ends[3][i]) / 4);
}

PL_TEST(mean_of_many_is_added_in_the_order_of_the_list)
{
    enum { K = 5 };
    static float floats[K][N], want[N], mean[N];
    static uint8_t halves[2 * N + 1]; /* the messages begin at an odd address */
    pl_update_view views[K];
    memset(want, 0, sizeof want);
    for (int k = 0; k < K; k++) {
        float weight = 0.1f * (float)(k + 1);
        fill(floats[k], N, 40 + (uint64_t)k, 1);
        views[k] = (pl_update_view){floats[k], false, weight};
        for (size_t i = 0; k == 2 && i < N; i++) {
            uint16_t half = pl_bf16_from_float(floats[k][i]);
            memcpy(halves + 1 + 2 * i, &half, 2);
            floats[k][i] = pl_bf16_to_float(half);
        }
        for (size_t i = 0; i < N; i++)
            want[i] += weight * floats[k][i];
    }
    views[2].values = halves + 1;
    views[2].is_bf16 = true;
    pl_update_list list = {views, K};
    for (size_t first = 0; first < N; first += PL_OUTER_BLOCK) {
        size_t count = N - first < PL_OUTER_BLOCK ? N - first : PL_OUTER_BLOCK;
        assert_ok(pl_update_list_mean(&list, first, count, mean + first));
    }
    assert_memory_equal(mean, want, sizeof mean);
}

PL_TEST(halves_are_added_in_the_same_order_four_at_once)
{
    enum { K = 6 };
    static uint16_t halves[K][N];
    static float want[N], mean[N];
    pl_update_view views[K];
    pl_update_list list = {views, K};
    memset(want, 0, sizeof want);
    for (int k = 0; k < K; k++) {
        views[k] = (pl_update_view){halves[k], true, 0.1f * (float)(k + 1)};
        fill(mean, N, 60 + (uint64_t)k, 1);
        for (size_t i = 0; i < N; i++) {
            halves[k][i] = pl_bf16_from_float(mean[i]);
            want[i] += views[k].weight * pl_bf16_to_float(halves[k][i]);
        }
    }
    assert_ok(pl_update_list_mean(&list, 0, N, mean));
    assert_memory_equal(mean, want, sizeof mean);
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

static pl_status give(void *context, size_t first, size_t count, float *mean)
{
    const vectors *v = context;
    memcpy(mean, v->g + first, count * sizeof *mean);
    return PL_OK;
}

static pl_outer_report advance(const pl_outer_step *step, vectors *v, uint64_t round,
                               int n_threads)
{
    pl_outer_report report;
    fill(v->g, v->n, 500 + round, 1e-1f);
    assert_ok(pl_outer_merge(step, &v->state, v->n, give, v, n_threads, &report));
    return report;
}

static void assert_same(const vectors *a, const vectors *b)
{
    assert_memory_equal(a->x, b->x, 3 * a->n * sizeof(float));
    assert_memory_equal(&a->state.displacement, &b->state.displacement, sizeof(double));
    assert_int_equal(a->state.arrivals, b->state.arrivals);
}

PL_TEST(number_of_threads_does_not_change_a_bit)
{
    const size_t n = 3 * 131072 + 77;
    for (int s = 0; s < STEPS; s++) {
        vectors alone = vectors_create(n), crew = vectors_create(n);
        for (uint64_t t = 0; t < 2; t++) {
            pl_outer_report a = advance(&every_step[s], &alone, t, 1);
            pl_outer_report b = advance(&every_step[s], &crew, t, 5);
            assert_memory_equal(&a, &b, sizeof a);
        }
        assert_same(&alone, &crew);
        pl_free_aligned(alone.x);
        pl_free_aligned(crew.x);
    }
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
                advance(&every_step[s], &whole, t, 1);
                if (t >= saved)
                    advance(&every_step[s], &resumed, t, 1);
            }
            assert_same(&whole, &resumed);
            pl_free_aligned(whole.x);
            pl_free_aligned(resumed.x);
        }
}

PL_TEST(instruction_sets_agree_bit_for_bit)
{
    const step_kernels *kernels[] = {step_kernels_portable(), step_kernels_best()};
    static float a[2][4][PL_OUTER_BLOCK];
    const size_t counts[] = {PL_OUTER_BLOCK, 311}, pieces[] = {STEP_PIECE, 111};
    for (int kind = STEP_PLAIN; kind <= STEP_LAST_ARRIVAL; kind++)
        for (int c = 0; c < 2; c++) {
            step_coefficients k = {(step_kind)kind, 0.7f, 0.9f, 1.3f, 0.8f, 3, 0.4f};
            step_sums sums[2] = {{0}};
            for (int which = 0; which < 2; which++) {
                double (*squares)(const float *, size_t) = kernels[which]->squares;
                float(*v)[PL_OUTER_BLOCK] = a[which];
                for (uint64_t i = 0; i < 4; i++)
                    fill(v[i], PL_OUTER_BLOCK, i, 1);
                /* Fills v[2] with bf16 values, two in the place of one float. */
                for (size_t i = 0; i < PL_OUTER_BLOCK / 2; i++) {
                    uint16_t half = pl_bf16_from_float(v[1][i]);
                    uint32_t twice = (uint32_t)half << 16 | half;
                    memcpy(&v[2][i], &twice, sizeof twice);
                }
                step_block block = {v[0], v[1], v[2], v[3], counts[c]};
                kernels[which]->add(v[3], v[2], true, 0.3f, false, pieces[c]);
                kernels[which]->add(v[3], v[1], false, 0.3f, false, pieces[c]);
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
    pl_outer_report report = advance(&every_step[0], &v, 1, 2);
    double mean = 0, params = 0;
    for (size_t i = 0; i < v.n; i++) {
        mean += (double)v.g[i] * (double)v.g[i];
        params += (double)v.x[i] * (double)v.x[i];
    }
    assert_true(fabs(report.mean_norm - sqrt(mean)) <= 1e-12 * sqrt(mean));
    assert_true(fabs(report.params_norm - sqrt(params)) <= 1e-12 * sqrt(params));
    assert_true(report.params_norm == pl_l2_norm(v.x, v.n) && report.gap == 1);
    v.g[v.n - 1] = NAN;
    assert_ok(pl_outer_merge(&every_step[0], &v.state, v.n, give, &v, 2, &report));
    assert_true(isnan(report.params_norm));
    pl_free_aligned(v.x);
}

static pl_status refuse(void *context, size_t first, size_t count, float *mean)
{
    (void)context, (void)count, (void)mean;
    if (first >= 131072)
        return pl_fail(PL_ERR_DATA, "an update is damaged at %zu", first);
    memset(mean, 0, count * sizeof *mean);
    return PL_OK;
}

PL_TEST(failure_of_an_update_is_forwarded_with_its_sentence)
{
    vectors v = vectors_create(400000);
    pl_outer_report report;
    assert_int_equal(
        pl_outer_merge(&every_step[0], &v.state, v.n, refuse, NULL, 3, &report),
        PL_ERR_DATA);
    assert_string_equal(pl_last_error(), "an update is damaged at 131072");
    pl_free_aligned(v.x);
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
