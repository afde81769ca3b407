/* folder: outer; label: unit */
/* Compares the steps with equal singular values (outer/iso.h) to an SVD in double, and
 * to the equations of outer/iso.h in plain loops. Also tests which matrices of a module
 * are changed. */
#include "outer/outer.h"
#include "tests/support/shape.h"
#include <math.h>
#include <stdlib.h>

#include "tests/support/suite.h"

static float *random_matrix(int rows, int cols, uint64_t stream, float scale)
{
    const size_t n = (size_t)rows * (size_t)cols;
    float *x = pl_alloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = scale * pl_random_normal(17, stream, i);
    return x;
}

static float *copy_of(const float *x, size_t n)
{
    float *y = pl_alloc(n * sizeof *y);
    memcpy(y, x, n * sizeof *y);
    return y;
}

/* ---- an SVD: one-sided Jacobi rotations (Hestenes 1958) ---- */

/* Rotates columns p and q of u [R,C] so that they become orthogonal, and rotates the
 * same columns of v [C,C] by the same angle. */
static void rotate_columns(double *u, double *v, int R, int C, int p, int q)
{
    double a = 0, b = 0, c = 0;
    for (int r = 0; r < R; r++) {
        a += u[r * C + p] * u[r * C + p];
        b += u[r * C + q] * u[r * C + q];
        c += u[r * C + p] * u[r * C + q];
    }
    if (fabs(c) <= 1e-15 * sqrt(a * b))
        return;
    const double z = (b - a) / (2 * c);
    const double t = (z >= 0 ? 1 : -1) / (fabs(z) + sqrt(1 + z * z));
    const double k = 1 / sqrt(1 + t * t), s = k * t;
    for (int r = 0; r < R + C; r++) {
        double *row = r < R ? u + r * C : v + (r - R) * C;
        const double x = row[p], y = row[q];
        row[p] = k * x - s * y;
        row[q] = s * x + k * y;
    }
}

/* Writes mean(S) U V^T to out, where U S V^T is the SVD of x; x and out are [rows,
 * cols]. Returns the smallest singular value divided by the Frobenius norm. */
static double equalize_by_svd(double *out, const float *x, int rows, int cols)
{
    const bool turned = rows < cols;
    const int R = turned ? cols : rows, C = turned ? rows : cols;
    double *u = pl_alloc((size_t)(R * C) * 8), *v = pl_alloc((size_t)(C * C) * 8);
    double *s = pl_alloc((size_t)C * 8), mean = 0, squares = 0, least = INFINITY;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            u[turned ? c * C + r : r * C + c] = (double)x[r * cols + c];
    for (int c = 0; c < C; c++)
        v[c * C + c] = 1;
    for (int sweep = 0; sweep < 60; sweep++)
        for (int p = 0; p < C; p++)
            for (int q = p + 1; q < C; q++)
                rotate_columns(u, v, R, C, p, q);
    for (int c = 0; c < C; c++) {
        for (int r = 0; r < R; r++)
            s[c] += u[r * C + c] * u[r * C + c];
        squares += s[c];
        s[c] = sqrt(s[c]);
        mean += s[c] / C;
        least = fmin(least, s[c]);
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            double sum = 0;
            for (int k = 0; k < C; k++)
                sum += u[r * C + k] / s[k] * v[c * C + k];
            out[turned ? c * cols + r : r * cols + c] = mean * sum;
        }
    free(u), free(v), free(s);
    return least / sqrt(squares);
}

static double relative_error(const float *got, const double *want, size_t n)
{
    double wrong = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        wrong += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += want[i] * want[i];
    }
    return sqrt(wrong / all);
}

static const int shapes[][2] = {{1, 7},   {7, 1},   {5, 5},   {24, 10}, {10, 24},
                                {16, 16}, {33, 64}, {48, 17}, {40, 100}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

PL_TEST(the_result_is_that_of_an_svd)
{
    for (int i = 0; i < N_SHAPES; i++) {
        const int rows = shapes[i][0], cols = shapes[i][1];
        const size_t n = (size_t)rows * (size_t)cols;
        OWNED(free_memory) float *x = random_matrix(rows, cols, (uint64_t)i, 1e-3f);
        OWNED(free_memory) double *want = calloc(n, sizeof *want);
        /* the iteration is accurate only for singular values of at least |x| / 1000 */
        assert_true(equalize_by_svd(want, x, rows, cols) > 1e-3);
        assert_ok(pl_iso_equalize(x, rows, cols, 1));
        const double error = relative_error(x, want, n);
        if (!(error < 5e-6))
            fail_msg("%d x %d: the relative error is %g", rows, cols, error);
    }
}

/* ---- the equations of the header, in plain loops ---- */

static void plain_product(float *out, const float *a, const float *b, int R, int K,
                          int C)
{
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            float sum = 0;
            for (int k = 0; k < K; k++)
                sum += a[r * K + k] * b[k * C + c];
            out[r * C + c] = sum;
        }
}

/* Makes the singular values of x [n,m] equal, by the iteration of outer/iso.h. `of` has
 * the coefficients of the iteration. n must not be above m. */
static void plain_equalize(float *x, int n, int m)
{
    static const float of[PL_ISO_ITERATIONS][3] = {
        {8.15655f, -22.48329f, 15.87877f}, {4.04293f, -2.80892f, 0.50002f},
        {3.89167f, -2.77248f, 0.50606f},   {3.28575f, -2.36813f, 0.46449f},
        {2.34654f, -1.70978f, 0.42324f},   {1.875f, -1.25f, 0.375f},
        {1.875f, -1.25f, 0.375f}};
    const size_t N = (size_t)n * (size_t)m, Q = (size_t)n * (size_t)n;
    OWNED(free_memory)
    float *g = copy_of(x, N), *xt = copy_of(x, N), *y = copy_of(x, N);
    OWNED(free_memory) float *a = calloc(Q, sizeof *a), *b = calloc(Q, sizeof *b);
    double squares = 0, product = 0;
    for (size_t i = 0; i < N; i++)
        squares += (double)g[i] * (double)g[i];
    for (size_t i = 0; i < N; i++)
        x[i] = (float)((double)g[i] / (1.01 * sqrt(squares)));
    for (int k = 0; k < PL_ISO_ITERATIONS; k++) {
        for (int r = 0; r < n; r++)
            for (int c = 0; c < m; c++)
                xt[c * n + r] = x[r * m + c];
        plain_product(a, x, xt, n, m, n);
        plain_product(b, a, a, n, n, n);
        for (size_t i = 0; i < Q; i++)
            b[i] = of[k][1] * a[i] + of[k][2] * b[i];
        plain_product(y, b, x, n, n, m);
        for (size_t i = 0; i < N; i++)
            x[i] = of[k][0] * x[i] + y[i];
    }
    for (size_t i = 0; i < N; i++)
        product += (double)x[i] * (double)g[i];
    for (size_t i = 0; i < N; i++)
        x[i] = (float)(product / n * (double)x[i]);
}

PL_TEST(the_bytes_are_those_of_plain_loops_on_any_number_of_threads)
{
    for (int i = 0; i < N_SHAPES; i++) {
        const int rows = shapes[i][0], cols = shapes[i][1];
        const size_t n = (size_t)rows * (size_t)cols;
        if (rows > cols)
            continue;
        OWNED(free_memory)
        float *want = random_matrix(rows, cols, 50 + (uint64_t)i, 2.0f);
        OWNED(free_memory) float *from = copy_of(want, n);
        plain_equalize(want, rows, cols);
        for (int threads = 1; threads <= 3; threads++) {
            OWNED(free_memory) float *got = copy_of(from, n);
            assert_ok(pl_iso_equalize(got, rows, cols, threads));
            assert_memory_equal(got, want, n * sizeof *got);
        }
    }
}

PL_TEST(a_transpose_gives_the_transpose)
{
    enum { R = 20, C = 37 };
    float *x = random_matrix(R, C, 3, 1.0f), t[R * C];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            t[c * R + r] = x[r * C + c];
    assert_ok(pl_iso_equalize(x, R, C, 2));
    assert_ok(pl_iso_equalize(t, C, R, 2));
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            assert_true(fabsf(t[c * R + r] - x[r * C + c]) < 1e-5f);
    free(x);
}

PL_TEST(what_has_no_direction_stays_as_it_is)
{
    float zeros[6] = {0}, wrong[6] = {1, 2, NAN, 4, 5, 6}, was[6];
    memcpy(was, wrong, sizeof was);
    assert_ok(pl_iso_equalize(zeros, 2, 3, 1));
    for (int i = 0; i < 6; i++)
        assert_true(zeros[i] == 0.0f);
    assert_ok(pl_iso_equalize(wrong, 2, 3, 1));
    assert_memory_equal(wrong, was, sizeof was);
    /* A matrix of rank 1 has only one direction. Its singular value is replaced by the
     * mean of this value and 0. */
    float one[] = {3, 0, 0, 4, 0, 0};
    assert_ok(pl_iso_equalize(one, 2, 3, 1));
    const float half[] = {1.5f, 0, 0, 2, 0, 0};
    for (int i = 0; i < 6; i++)
        assert_true(fabsf(one[i] - half[i]) < 1e-5f);
}

PL_TEST(size_does_not_matter)
{
    static const float scales[] = {1e-30f, 1e-12f, 1e15f, 1e30f};
    OWNED(free_memory) float *unit = random_matrix(12, 30, 4, 1.0f);
    assert_ok(pl_iso_equalize(unit, 12, 30, 1));
    for (int i = 0; i < 4; i++) {
        OWNED(free_memory) float *x = random_matrix(12, 30, 4, scales[i]);
        assert_ok(pl_iso_equalize(x, 12, 30, 1));
        for (int k = 0; k < 360; k++)
            assert_true(fabsf(x[k] / scales[i] - unit[k]) < 1e-5f);
    }
}

/* ---- a module ---- */

static const pl_shape shape = SHAPE(11, 8, 2, 1, 4, 12, 2, 8, .tied = false,
                                    .rope_theta = 100.0, .qk_norm = true);

PL_TEST(only_matrices_of_blocks_are_changed)
{
    OWNED(pl_topology_destroy) pl_topology *t;
    const pl_topology_spec spec = {.n_levels = 1, .experts = {2}, .replicas = 1};
    assert_ok(pl_topology_create(&shape, &spec, &t));
    for (int module = 0; module < pl_topology_n_modules(t); module++) {
        const pl_slot *slot = pl_topology_slot(t, pl_topology_module_slot(t, module));
        OWNED(free_memory) pl_iso_matrix *matrices;
        const int n = pl_iso_matrices(t, module, &matrices);
        assert_int_equal(n, slot->kind == PL_SLOT_BLOCKS ? 2 * 7 : 0);
        OWNED(free_memory)
        float *values = random_matrix(1, (int)slot->n_params, 5, 1.0f);
        OWNED(free_memory) float *params = pl_alloc(slot->n_params * sizeof *params);
        pl_outer_state at = {.params = params};
        const pl_outer_step step = {.lr = 1, .n_contributors = 1};
        pl_outer_report report;
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        const float weight = 1.0f;
        const pl_codec_part part = {0, slot->n_params, PL_ROLE_MLP};
        pl_codec_options options;
        assert_ok(pl_codec_options_default("f32", &options));
        assert_ok(
            pl_codec_encode_module(&options, &part, 1, NULL, values, NULL, &bytes));
        const pl_codec_message message = {bytes.data, bytes.len};
        pl_codec_list list = {&message, &weight, 1, 0};
        const pl_arith_merge merge = {.step = &step,
                                      .state = &at,
                                      .n = slot->n_params,
                                      .messages = pl_codec_source_of(&list),
                                      .matrices = matrices,
                                      .n_matrices = n,
                                      .factor = 1.0f};
        assert_ok(pl_arith_step(&merge, &report));
        /* the norm is that of the mean update before the change */
        assert_true(report.mean_norm == pl_l2_norm(values, slot->n_params));
        for (int i = slot->first_tensor; i < slot->first_tensor + slot->n_tensors;
             i++) {
            const pl_tensor *x = pl_topology_tensor(t, i);
            const size_t from = x->offset - slot->offset;
            const size_t count = (size_t)x->rows * (size_t)x->cols;
            if (x->block >= 0 && x->decay)
                assert_ok(pl_iso_equalize(values + from, x->rows, x->cols, 1));
            for (size_t k = from; k < from + count; k++)
                assert_true(params[k] == -values[k]);
        }
    }
}
