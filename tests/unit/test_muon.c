/* folder: workers; label: unit */
/* Tests Muon. On ref and cpu, a step must follow the equation, which is computed in
 * double; the number of threads must not matter. Then Muon is tested in a model and in
 * the state of a path. */
#include "workers/path_state.h"
#include "tests/support/pairs.h"
#include "tests/support/shape.h"

enum { O_MAX = 344, I_MAX = 344, N_MAX = O_MAX * 128 };

static const pl_adamw rates = {.lr = 0.02f, .weight_decay = 0.1f, .step = 1};
static const float grad_scale = 0.5f;

static const struct {
    int O, I;
} sizes[] = {{1, 1}, {3, 5}, {5, 3}, {33, 64}, {64, 33}, {344, 128}, {128, 344}};
enum { N_SIZES = sizeof sizes / sizeof *sizes, STEPS = 2 };

typedef struct matrices {
    float p[N_MAX], m[N_MAX], g[N_MAX];
} matrices;

/* Draws a gradient in which every third row is ten times as large as the others. */
static void draw_gradient(float *g, int O, int I, int step)
{
    for (int i = 0; i < O * I; i++)
        g[i] = pl_random_normal(1, (uint64_t)(10 + step), (uint64_t)i) *
               (i / I % 3 == 0 ? 1.0f : 0.1f);
}

static void step_matrix(const char *name, int n_threads, int O, int I, matrices *x)
{
    OWNED(pl_backend_close) pl_backend *be = open_side(name, "f32", n_threads);
    assert_non_null(be);
    void *work = NULL;
    assert_ok(
        be->ops->alloc(be, pl_muon_work_floats(O, I) * sizeof(float), "a test", &work));
    for (int i = 0; i < O * I; i++)
        x->p[i] = 0.02f * pl_random_normal(1, 1, (uint64_t)i);
    memset(x->m, 0, sizeof x->m);
    for (int step = 0; step < STEPS; step++) {
        draw_gradient(x->g, O, I, step);
        be->ops->muon(be, x->p, x->m, x->g, work, 1, O, I, grad_scale, &rates);
        for (int i = 0; i < O * I; i++)
            assert_true(x->g[i] == 0.0f);
    }
    assert_ok(be->ops->sync(be));
    be->ops->release(be, work);
}

/* ---- the equation in double; a wide matrix is transposed first ---- */

/* Returns the product a b of a [M,K] and b [K,N], or, if `turned` is set, a^T b with a
 * [K,M]. The caller frees it. */
static double *multiply(const double *a, const double *b, int M, int N, int K,
                        bool turned)
{
    double *c = calloc((size_t)(M * N), sizeof *c);
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            for (int n = 0; n < N; n++)
                c[m * N + n] += a[turned ? k * M + m : m * K + k] * b[k * N + n];
    return c;
}

static void iterate_double(double *x, int L, int S)
{
    OWNED(free_memory)
    double *s = multiply(x, x, S, S, L, true), *ss = multiply(s, s, S, S, S, false);
    for (int i = 0; i < S * S; i++)
        ss[i] = -4.7750 * s[i] + 2.0315 * ss[i];
    OWNED(free_memory) double *y = multiply(x, ss, L, S, S, false);
    for (int i = 0; i < L * S; i++)
        x[i] = 3.4445 * x[i] + y[i];
}

static void step_double(double *p, double *m, const float *g, int O, int I)
{
    const int L = O > I ? O : I, S = O > I ? I : O;
    double *x = calloc((size_t)(O * I), sizeof *x), squares = 0;
    for (int i = 0; i < O * I; i++) {
        double grad = (double)g[i] * (double)grad_scale;
        m[i] = 0.95 * m[i] + 0.05 * grad;
        double u = 0.95 * m[i] + 0.05 * grad;
        squares += u * u;
        x[O >= I ? i : i % I * O + i / I] = u;
    }
    for (int i = 0; i < O * I; i++)
        x[i] /= sqrt(squares) + 1e-7;
    for (int k = 0; k < 5; k++)
        iterate_double(x, L, S);
    for (int i = 0; i < O * I; i++)
        p[i] -= (double)rates.lr * (0.2 * sqrt(L) * x[O >= I ? i : i % I * O + i / I] +
                                    (double)rates.weight_decay * p[i]);
    free(x);
}

static double distance(const float *got, const double *want, int n)
{
    double error = 0, size = 0;
    for (int i = 0; i < n; i++) {
        error += pow((double)got[i] - want[i], 2);
        size += want[i] * want[i];
    }
    return error / size;
}

static void expect_double(const char *name)
{
    OWNED(free_memory) matrices *x = calloc(1, sizeof *x);
    OWNED(free_memory) float *g = calloc(N_MAX, sizeof *g);
    for (int s = 0; s < N_SIZES; s++) {
        const int O = sizes[s].O, I = sizes[s].I;
        OWNED(free_memory)
        double *p = calloc((size_t)(O * I), sizeof *p), *m = calloc((size_t)(O * I), 8);
        step_matrix(name, 1, O, I, x);
        for (int i = 0; i < O * I; i++)
            p[i] = (double)(0.02f * pl_random_normal(1, 1, (uint64_t)i));
        for (int step = 0; step < STEPS; step++) {
            draw_gradient(g, O, I, step);
            step_double(p, m, g, O, I);
        }
        assert_true(distance(x->m, m, O * I) < 1e-12);
        assert_true(distance(x->p, p, O * I) < 1e-8);
    }
}

PL_TEST(ref_follows_the_equation)
{
    expect_double("ref");
}

PL_TEST(cpu_follows_the_equation)
{
    expect_double("cpu");
}

PL_TEST(threads_do_not_change_a_byte)
{
    OWNED(free_memory)
    matrices *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);
    for (int s = 0; s < N_SIZES; s++) {
        const size_t bytes = (size_t)(sizes[s].O * sizes[s].I) * sizeof(float);
        step_matrix("cpu", 1, sizes[s].O, sizes[s].I, one);
        for (int n = 2; n < 5; n++) {
            step_matrix("cpu", n, sizes[s].O, sizes[s].I, many);
            assert_memory_equal(one->p, many->p, bytes);
            assert_memory_equal(one->m, many->m, bytes);
        }
    }
}

/* ---- several matrices in one call ---- */
enum { ALL_MAX = 2 * 400 * 128, BEYOND = 64 };
typedef struct many_matrices {
    float p[ALL_MAX + BEYOND], m[ALL_MAX + BEYOND], g[ALL_MAX + BEYOND];
} many_matrices;

/* Steps n matrices with calls of `per_call` matrices each. */
static void step_many(const char *name, int n_threads, int n, int per_call, int O,
                      int I, many_matrices *x)
{
    OWNED(pl_backend_close) pl_backend *be = open_side(name, "f32", n_threads);
    assert_non_null(be);
    const size_t bytes = pl_muon_work_floats(O, I) * sizeof(float);
    void *work = NULL;
    assert_ok(be->ops->alloc(be, bytes, "a test", &work));
    for (int i = 0; i < ALL_MAX + BEYOND; i++) {
        x->p[i] = x->m[i] = 1.0f;
        x->g[i] = pl_random_normal(1, 3, (uint64_t)i);
    }
    for (int at = 0; at < n * O * I; at += per_call * O * I)
        be->ops->muon(be, x->p + at, x->m + at, x->g + at, work, per_call, O, I,
                      grad_scale, &rates);
    assert_ok(be->ops->sync(be));
    be->ops->release(be, work);
}

/* Shows that several matrices in one call get the bytes that each gets alone with one
 * thread, and that nothing after them changes. With these sizes threads divide the
 * matrices in some cases, and in others the rows of each (two of 400 x 128 with three
 * threads). */
PL_TEST(matrices_do_not_depend_on_each_other)
{
    static const struct {
        int n, O, I;
    } cases[] = {{9, 66, 130}, {3, 130, 66}, {2, 400, 128}};
    OWNED(free_memory)
    many_matrices *alone = calloc(1, sizeof *alone), *all = calloc(1, sizeof *all);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int n = cases[c].n, O = cases[c].O, I = cases[c].I;
        step_many("cpu", 1, n, 1, O, I, alone);
        assert_true(alone->p[n * O * I - 1] != 1.0f && alone->p[n * O * I] == 1.0f);
        for (int n_threads = 1; n_threads < 5; n_threads++) {
            step_many("cpu", n_threads, n, n, O, I, all);
            assert_memory_equal(alone, all, sizeof *all);
        }
    }
    step_many("ref", 1, 3, 1, 5, 9, alone);
    step_many("ref", 1, 3, 3, 5, 9, all);
    assert_memory_equal(alone, all, sizeof *all);
}

/* Shows that cpu, which computes with the Gram matrix, is accurate for a gradient in
 * which one direction is a hundred times as large as all others together. */
PL_TEST(one_large_direction_does_not_hide_the_others)
{
    enum { O = 64, I = 1024, N = O * I };
    OWNED(free_memory) many_matrices *x = calloc(1, sizeof *x);
    OWNED(free_memory) double *p = calloc(N, sizeof *p), *m = calloc(N, sizeof *m);
    OWNED(pl_backend_close) pl_backend *be = open_side("cpu", "f32", 1);
    assert_non_null(be);
    void *work = NULL;
    assert_ok(be->ops->alloc(be, pl_muon_work_floats(O, I) * sizeof(float), "", &work));
    for (int i = 0; i < N; i++)
        x->g[i] = pl_random_normal(1, 4, (uint64_t)i) +
                  100.0f * pl_random_normal(1, 5, (uint64_t)(i / I)) *
                      pl_random_normal(1, 6, (uint64_t)(i % I));
    step_double(p, m, x->g, O, I);
    be->ops->muon(be, x->p, x->m, x->g, work, 1, O, I, grad_scale, &rates);
    printf("%g\n", distance(x->p, p, N));
    assert_true(distance(x->p, p, N) < 1e-6);
    be->ops->release(be, work);
}

/* Shows that with a learning rate of 1 the root mean square of a step's elements is
 * about 0.2, as in a typical step of AdamW. */
PL_TEST(a_step_has_the_length_that_its_scale_says)
{
    OWNED(free_memory) matrices *x = calloc(1, sizeof *x);
    OWNED(pl_backend_close) pl_backend *be = open_side("ref", "f32", 1);
    assert_non_null(be);
    const pl_adamw adam = {.lr = 1.0f, .step = 1};
    void *work = NULL;
    double squares = 0;
    assert_ok(
        be->ops->alloc(be, pl_muon_work_floats(128, 64) * sizeof(float), "", &work));
    draw_gradient(x->g, 128, 64, 0);
    be->ops->muon(be, x->p, x->m, x->g, work, 1, 128, 64, 1e-3f, &adam);
    for (int i = 0; i < 128 * 64; i++)
        squares += (double)x->p[i] * (double)x->p[i];
    assert_true(sqrt(squares / (128 * 64)) > 0.14);
    assert_true(sqrt(squares / (128 * 64)) < 0.24);
    be->ops->release(be, work);
}

PL_TEST(a_gradient_of_zeros_changes_nothing_but_the_decay)
{
    OWNED(free_memory) matrices *x = calloc(1, sizeof *x);
    OWNED(pl_backend_close) pl_backend *be = open_side("cpu", "f32", 1);
    assert_non_null(be);
    void *work = NULL;
    assert_ok(be->ops->alloc(be, pl_muon_work_floats(3, 5) * sizeof(float), "", &work));
    for (int i = 0; i < 15; i++)
        x->p[i] = 1.0f;
    be->ops->muon(be, x->p, x->m, x->g, work, 1, 3, 5, 1.0f, &rates);
    for (int i = 0; i < 15; i++)
        assert_true(fabsf(x->p[i] - 0.998f) < 1e-6f);
    be->ops->release(be, work);
}

/* ---- in a model ---- */
static const pl_shape shape =
    SHAPE(19, 16, 2, 1, 8, 24, 2, 4, .tied = true, .rope_theta = 1e4);
enum { HIDDEN = 2 * (16 * 32 + 16 * 16 + 3 * 16 * 24) };
static const pl_model_options options = {
    .batch = 2, .context = 4, .training = true, .muon = true};

typedef struct rig {
    pl_backend *be;
    pl_topology *topology;
    pl_model *model;
    size_t n, second;
    float *params, *m, *v;
} rig;

static void open_rig_of_rows(rig *r, const char *backend, int muon_rows)
{
    pl_model_options rows = options;
    rows.muon_rows = muon_rows;
    r->be = open_side(backend, "f32", 1);
    assert_non_null(r->be);
    r->topology = one_path(&shape);
    assert_ok(pl_model_create(r->be, r->topology, &rows, &r->model));
    r->n = pl_topology_path_params(r->topology);
    r->second = r->n - HIDDEN;
    r->params = calloc(r->n, sizeof(float));
    r->m = calloc(r->n, sizeof(float));
    r->v = calloc(r->second, sizeof(float));
    init_path(r->topology, 1, r->params);
    assert_ok(pl_model_load(r->model, r->params));
}

static void open_rig(rig *r, const char *backend)
{
    open_rig_of_rows(r, backend, 0);
}

static void close_rig(rig *r)
{
    pl_model_destroy(&r->model);
    pl_topology_destroy(&r->topology);
    pl_backend_close(&r->be);
    free(r->params), free(r->m), free(r->v);
}

static void train_rig(rig *r, int first, int end)
{
    const int32_t tokens[8] = {1, 5, 7, 2, 9, 9, 4, 18};
    const int32_t targets[8] = {5, 7, 2, 1, 9, 4, 18, -1};
    for (int step = first; step < end; step++) {
        pl_step_result result;
        pl_adamw adam = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, step + 1};
        assert_ok(
            pl_model_train_step(r->model, tokens, targets, 2, 4, &adam, 1.0f, &result));
    }
    assert_ok(pl_model_save(r->model, r->params));
    assert_ok(pl_model_save_moments(r->model, r->m, r->v));
}

PL_TEST(a_model_goes_on_from_its_smaller_state_with_the_same_bytes)
{
    for (int i = 0; i < 2; i++) {
        OWNED(close_rig) rig a, b;
        open_rig(&a, i ? "cpu" : "ref");
        open_rig(&b, i ? "cpu" : "ref");
        train_rig(&a, 0, 3);
        assert_ok(pl_model_load(b.model, a.params));
        assert_ok(pl_model_load_moments(b.model, a.m, a.v));
        train_rig(&a, 3, 6);
        train_rig(&b, 3, 6);
        assert_memory_equal(a.params, b.params, a.n * sizeof(float));
        assert_memory_equal(a.m, b.m, a.n * sizeof(float));
        assert_memory_equal(a.v, b.v, a.second * sizeof(float));
    }
}

static void expect_same_training(int muon_rows)
{
    OWNED(close_rig) rig a, b;
    open_rig_of_rows(&a, "ref", muon_rows);
    open_rig_of_rows(&b, "cpu", muon_rows);
    train_rig(&a, 0, 5);
    train_rig(&b, 0, 5);
    double error = 0, size = 0;
    for (size_t i = 0; i < a.n; i++) {
        error += pow((double)a.params[i] - (double)b.params[i], 2);
        size += pow((double)a.params[i], 2);
    }
    assert_true(error / size < 1e-6);
}

/* Shows that cpu trains as ref does: with whole matrices, in parts of 7 rows (no matrix
 * has a multiple of 7 rows), and in parts of 100 rows (no matrix has so many). */
PL_TEST(cpu_trains_as_ref_does)
{
    expect_same_training(0);
    expect_same_training(7);
    expect_same_training(100);
}

/* Shows that each part of a divided matrix is stepped as a matrix of its own. After the
 * first step of the model, m is 0.05 times the gradient. So the test steps each part of
 * the matrix with the gradient 20 m, and the parameters must be those of the model. */
PL_TEST(some_rows_are_stepped_as_a_matrix_of_their_own)
{
    enum { ROWS = 7, FFN = 24, WIDTH = 16 };
    OWNED(close_rig) rig r;
    void *work = NULL;
    const pl_adamw adam = {.lr = 1e-2f, .weight_decay = 0.1f, .step = 1};
    open_rig_of_rows(&r, "ref", ROWS);
    const pl_tensor *tensor = NULL;
    for (int i = 0; i < pl_topology_n_tensors(r.topology) && !tensor; i++) {
        tensor = pl_topology_tensor(r.topology, i);
        if (tensor->rows != FFN)
            tensor = NULL;
    }
    assert_non_null(tensor);
    float before[FFN * WIDTH], m[FFN * WIDTH] = {0}, g[FFN * WIDTH];
    memcpy(before, r.params + tensor->offset, sizeof before);
    train_rig(&r, 0, 1);
    memcpy(g, r.m + tensor->offset, sizeof g);
    const size_t floats = pl_muon_work_floats(FFN, WIDTH) * sizeof(float);
    assert_ok(r.be->ops->alloc(r.be, floats, "a test", &work));
    for (int row = 0; row < FFN; row += ROWS) {
        const int O = FFN - row < ROWS ? FFN - row : ROWS, at = row * WIDTH;
        r.be->ops->muon(r.be, before + at, m + at, g + at, work, 1, O, WIDTH, 20.0f,
                        &adam);
    }
    for (int i = 0; i < FFN * WIDTH; i++)
        assert_true(fabsf(before[i] - r.params[tensor->offset + (size_t)i]) < 1e-5f);
    r.be->ops->release(r.be, work);
}

PL_TEST(the_plan_counts_one_moment_for_matrices_and_the_working_memory)
{
    pl_model_options plain = options;
    pl_model_plan with, without;
    OWNED(pl_topology_destroy) pl_topology *t = one_path(&shape);
    plain.muon = false;
    pl_model_plan_bytes(t, &options, PL_F32, &with);
    pl_model_plan_bytes(t, &plain, PL_F32, &without);
    assert_int_equal(pl_shape_hidden_params(&shape), HIDDEN);
    assert_int_equal(without.moments_bytes - with.moments_bytes,
                     HIDDEN * sizeof(float));
    assert_int_equal(with.scratch_bytes, pl_muon_work_floats(24, 16) * sizeof(float));
    assert_int_equal(without.scratch_bytes, 0);
    pl_model_options rows = options;
    rows.muon_rows = 7;
    pl_model_plan_bytes(t, &rows, PL_F32, &with);
    assert_int_equal(with.scratch_bytes, pl_muon_work_floats(7, 24) * sizeof(float));
}

/* ---- in a path's state ---- */
PL_TEST(second_moments_of_matrices_do_not_travel)
{
    pl_arm arm = {.shape = shape, .inner.muon = true};
    const size_t n = HIDDEN + 19 * 16 + 5 * 16, second = n - HIDDEN;
    for (int kind = PL_STATE_F32; kind <= PL_STATE_BF16; kind++) {
        arm.outer.state = (pl_state_kind)kind;
        const size_t size = kind == PL_STATE_F32 ? 4 : 2;
        const size_t bytes = pl_path_state_bytes(&arm, n);
        OWNED(free_memory)
        float *from = calloc(2 * n, sizeof *from), *to = calloc(2 * n, sizeof *to);
        OWNED(free_memory) uint8_t *blob = calloc(bytes + 1, 1);
        assert_int_equal(bytes, (n + second) * size);
        assert_int_equal(pl_path_moments_floats(&arm, n), n + second);
        for (size_t i = 0; i < n + second; i++)
            from[i] = 0.5f * (float)i;
        state_round(&arm, from, n);
        blob[bytes] = 0x5a;
        state_pack(&arm, from, n, blob);
        assert_int_equal(blob[bytes], 0x5a);
        state_unpack(&arm, blob, n, to);
        assert_memory_equal(from, to, 2 * n * sizeof *to);
    }
}

static const float clip = 1;

static pl_arm muon_arm(pl_state_kind kind)
{
    pl_arm arm = {.shape = shape,
                  .spec = {.n_levels = 1, .experts = {1}, .replicas = 1},
                  .outer.state = kind};
    arm.inner = (pl_inner){
        .muon = true, .tau = 1000, .clip = clip, .beta1 = 0.9, .beta2 = 0.95};
    return arm;
}

static pl_status check_blob(const pl_arm *arm, const rig *r, const uint8_t *blob)
{
    OWNED(free_memory) pl_contract *contracts = pl_contracts_create(arm, r->topology);
    const pl_state_claim claim = {.arm = arm,
                                  .topology = r->topology,
                                  .contracts = contracts,
                                  .n_phases = 1,
                                  .is_known = true,
                                  .before = pl_state_view_of(arm, r->n, NULL),
                                  .after = pl_state_view_of(arm, r->n, blob)};
    return pl_state_check(&claim);
}

/* Packs m and v of a path, and checks the packed state. */
static pl_status check_packed(const pl_arm *arm, const rig *r)
{
    OWNED(free_memory) uint8_t *blob = calloc(pl_path_state_bytes(arm, r->n) + 1, 1);
    OWNED(free_memory) float *values = calloc(2 * r->n, sizeof *values);
    memcpy(values, r->m, r->n * sizeof *values);
    memcpy(values + r->n, r->v, r->second * sizeof *values);
    state_pack(arm, values, r->n, blob);
    pl_status status = check_blob(arm, r, blob);
    return status;
}

PL_TEST(states_that_muon_leaves_are_taken)
{
    OWNED(close_rig) rig r;
    open_rig(&r, "ref");
    for (int kind = PL_STATE_F32; kind <= PL_STATE_BF16; kind++)
        for (int step = 0; step < 20; step++) {
            const pl_arm arm = muon_arm((pl_state_kind)kind);
            train_rig(&r, step, step + 1);
            assert_ok(check_packed(&arm, &r));
        }
}

PL_TEST(states_that_muon_cannot_leave_are_refused)
{
    const pl_arm arms[] = {muon_arm(PL_STATE_F32), muon_arm(PL_STATE_BF16)};
    const size_t at = 19 * 16 + 40; /* an element of the first matrix */
    for (size_t i = 0; i < 2; i++) {
        const pl_arm *arm = &arms[i];
        OWNED(close_rig) rig r;
        open_rig(&r, "ref");
        r.m[at] = 0.9f * clip; /* clip limits the joint norm of all matrices */
        assert_ok(check_packed(arm, &r));
        r.m[at + 500] = -0.9f * clip;
        assert_int_equal(check_packed(arm, &r), PL_ERR_DATA);
        r.m[at + 500] = 0;
        r.m[at] = NAN;
        assert_int_equal(check_packed(arm, &r), PL_ERR_DATA);
        r.m[at] = 1e30f; /* too large, even without clipping */
        pl_arm loose = *arm;
        loose.inner.clip = 0;
        assert_int_equal(check_packed(&loose, &r), PL_ERR_DATA);
        r.m[at] = 1e10f;
        assert_ok(check_packed(&loose, &r));
        r.m[at] = 0;
        r.m[0] = 1; /* an element of the embedding, for AdamW; v is 0 */
        assert_int_equal(check_packed(arm, &r), PL_ERR_DATA);
        r.v[0] = 1;
        assert_ok(check_packed(arm, &r));
        r.v[r.second - 1] = -1;
        assert_int_equal(check_packed(arm, &r), PL_ERR_DATA);
    }
}

PL_TEST(residuals_that_are_not_finite_are_refused)
{
    static const pl_state_kind kinds[] = {PL_STATE_F32, PL_STATE_BF16, PL_STATE_I8};
    OWNED(close_rig) rig r;
    open_rig(&r, "ref");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pl_arm arm = muon_arm(PL_STATE_F32);
        assert_ok(pl_codec_options_default("i4", &arm.outer.codec));
        arm.outer.feedback = true;
        arm.outer.residual = kinds[i];
        const uint64_t bytes = pl_path_state_bytes(&arm, r.n);
        OWNED(free_memory) uint8_t *blob = calloc(bytes, 1);
        assert_ok(check_blob(&arm, &r, blob));
        /* NaN. If the residual is in i8, this is the exponent 32767 of a block. */
        blob[bytes - 2] = 0xff, blob[bytes - 1] = 0x7f;
        assert_int_equal(check_blob(&arm, &r, blob), PL_ERR_DATA);
    }
}
