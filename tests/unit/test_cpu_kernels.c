/* folder: modules; label: unit */
/* Compares the kernels of the cpu backend with the reference backend, on every
 * instruction set of this machine and in all precisions, with odd sizes and several
 * threads. */
#include "modules/cpu/cpu.h"
#include "modules/modules.h"
#include "modules/ref/ref.h"
#include <math.h>

#include "tests/support/suite.h"

typedef struct variant {
    const char *isa, *precision;
} variant;
static const variant variants[] = {
    {"portable", "f32"},     {"avx2", "f32"},        {"avx512", "f32"},
    {"avx512_vnni", "f32"},  {"avx512_bf16", "f32"}, {"portable", "bf16"},
    {"avx2", "bf16"},        {"avx512", "bf16"},     {"avx512_vnni", "bf16"},
    {"avx512_bf16", "bf16"}, {"avx512_bf16", "f16"},
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

/* Returns NULL if this build or machine lacks the variant. */
static pl_backend *open_variant(const variant *v, int n_threads)
{
    const pl_backend_options options = {
        .name = "cpu", .n_threads = n_threads, .precision = v->precision};
    pl_backend *be;
    const pl_status status = cpu_backend_create(&options, v->isa, &be);
    assert_true(status == PL_OK || status == PL_ERR_UNSUPPORTED);
    /* if a library is not installed, the test must not pass by testing less */
    if (status != PL_OK)
        assert_null(strstr(pl_last_error(), "install"));
    return be;
}

static pl_backend *open_ref(void)
{
    const pl_backend_options options = {
        .name = "ref", .n_threads = 1, .precision = "f32"};
    pl_backend *be;
    assert_ok(ref_backend_create(&options, &be));
    return be;
}

/* The memory of the newest arrays, which forget() frees. */
static void *kept[512];
static int n_kept;

static void *keep(size_t n_floats)
{
    assert_true(n_kept < (int)(sizeof kept / sizeof *kept));
    return kept[n_kept++] = pl_alloc(n_floats * sizeof(float));
}

static void forget(void)
{
    while (n_kept > 0)
        pl_free(kept[--n_kept]);
}

static uint64_t stream; /* random stream of the newest array; each has its own */

static float *floats(size_t n, float scale)
{
    float *x = keep(n);
    stream++;
    for (size_t i = 0; i < n; i++) {
        x[i] = scale * pl_random_normal(7, stream, i);
        x[i] = pl_bf16_to_float(pl_bf16_from_float(x[i]));
    }
    return x;
}

/* Returns n activations of the backend `be` with these values. */
static pl_act *acts(pl_backend *be, const float *values, size_t n)
{
    pl_act *out = keep(n);
    be->ops->act_from_float(be, out, values, n);
    return out;
}

static float *values_of(pl_backend *be, const pl_act *in, size_t n)
{
    float *out = keep(n);
    be->ops->act_to_float(be, out, in, n);
    return out;
}

/* The squared relative error of a: sum (a-b)^2 / sum b^2. */
static double error(const float *a, const float *b, size_t n)
{
    double difference = 0, square = 1e-30;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        square += (double)b[i] * b[i];
    }
    return difference / square;
}

/* The significand of bf16 has 8 bits, so the relative error of one rounding is at most
 * 2^-9. The square of this error is about 4e-6, and there are a few roundings. With
 * f16, sums are rounded to a significand of 11 bits. */
static void assert_close(pl_backend *be, const float *a, const float *b, size_t n)
{
    const bool f16 = strstr(be->device, " f16 ") != NULL;
    const double limit = be->act == PL_BF16 ? 5e-5 : f16 ? 5e-6 : 2e-12;
    const double e = error(a, b, n);
    if (!(e < limit))
        fail_msg("%s: the squared error %g is above %g", be->device, e, limit);
}

static void assert_acts_close(pl_backend *be, const pl_act *a, const pl_act *b,
                              size_t n)
{
    float *left = values_of(be, a, n);
    assert_close(be, left, (const float *)(const void *)b, n);
}

static void for_each_variant(void (*check)(pl_backend *be, pl_backend *ref))
{
    OWNED(ref_backend_destroy) pl_backend *ref = open_ref();
    for (int i = 0; i < N_VARIANTS; i++) {
        OWNED(cpu_backend_destroy) pl_backend *be = open_variant(&variants[i], 1);
        if (be == NULL)
            continue;
        stream = 0; /* each backend gets the same numbers */
        check(be, ref);
        forget();
        assert_ok(be->ops->sync(be));
    }
}

/* A test of the parameters `be` and `ref`, which runs for every variant. */
#define VARIANT_TEST(name)                                                             \
    static void name##_of(pl_backend *be, pl_backend *ref);                            \
    PL_TEST(name)                                                                      \
    {                                                                                  \
        for_each_variant(name##_of);                                                   \
    }                                                                                  \
    static void name##_of(pl_backend *be, __attribute__((unused)) pl_backend *ref)

/* ---- exp: SwiGLU with up = 1 is the function silu(g) = g / (1 + e^-g) ---- */

VARIANT_TEST(silu_is_exact_to_4e_7_between_minus_85_and_85)
{
    enum { N = 1 << 16 };
    if (be->act != PL_F32)
        return;
    float *gu = keep(2 * N), *out = keep(N);
    for (int i = 0; i < N; i++) {
        gu[i] = -85.0f + 170.0f * (float)i / N;
        gu[N + i] = 1.0f;
    }
    be->ops->swiglu_forward(be, (pl_act *)(void *)out, (pl_act *)(void *)gu, 1, N);
    for (int i = 0; i < N; i++) {
        const double right = gu[i] / (1.0 + exp(-(double)gu[i]));
        assert_true(fabs(out[i] - right) <= 4e-7 * fabs(right));
    }
}

/* ---- activations ---- */

VARIANT_TEST(activations_round_to_nearest_even_and_keep_nan)
{
    enum { N = 1003 };
    float *x = keep(N);
    for (int i = 0; i < N; i++)
        x[i] = pl_random_normal(1, 2, (uint64_t)i) * 100.0f;
    x[5] = INFINITY;
    x[6] = NAN;
    x[7] = -0.0f;
    pl_act *a = acts(be, x, N);
    float *back = values_of(be, a, N);
    for (int i = 0; i < N; i++) {
        const float right =
            be->act == PL_BF16 ? pl_bf16_to_float(pl_bf16_from_float(x[i])) : x[i];
        assert_true(memcmp(&back[i], &right, sizeof right) == 0 || isnan(right));
        assert_int_equal(isnan(back[i]) != 0, i == 6);
    }
}

/* ---- matrices ---- */

static void check_matmul_shape(pl_backend *be, pl_backend *ref, int N, int O, int I)
{
    const size_t no = (size_t)(N * O), ni = (size_t)(N * I), oi = (size_t)(O * I);
    float *x = floats(ni, 1), *w = floats(oi, 0.2f), *dout = floats(no, 1),
          *dx = floats(ni, 1), *dw = floats(oi, 1);
    pl_backend *both[2] = {be, ref};
    pl_act *out[2], *sum[2], *xs[2], *douts[2];
    float *dws[2];
    for (int i = 0; i < 2; i++) {
        pl_backend *b = both[i];
        pl_weight *weight;
        assert_ok(b->ops->weight_create(b, w, O, I, &weight));
        b->ops->weights_refresh(b, &weight, 1);
        xs[i] = acts(b, x, ni);
        douts[i] = acts(b, dout, no);
        out[i] = acts(b, dout, no);
        sum[i] = acts(b, dx, ni);
        dws[i] = keep(oi);
        memcpy(dws[i], dw, oi * sizeof(float));
        b->ops->matmul_forward(b, out[i], xs[i], weight, N, O, I);
        b->ops->matmul_dx(b, sum[i], douts[i], weight, N, O, I, true);
        b->ops->matmul_dw(b, dws[i], douts[i], xs[i], N, O, I, false);
        b->ops->matmul_dw(b, dws[i], douts[i], xs[i], N, O, I, true);
        b->ops->weight_destroy(b, &weight);
        assert_null(weight);
    }
    assert_acts_close(be, out[0], out[1], no);
    assert_acts_close(be, sum[0], sum[1], ni);
    assert_close(be, dws[0], dws[1], oi);
}

VARIANT_TEST(products_match_and_gradients_accumulate)
{
    check_matmul_shape(be, ref, 1, 48, 32);
    check_matmul_shape(be, ref, 2, 37, 30);
    check_matmul_shape(be, ref, 37, 24, 40);
    check_matmul_shape(be, ref, 128, 96, 64);
    /* With so many rows, the sum over rows in matmul_dw is computed in parts. */
    check_matmul_shape(be, ref, 1043, 136, 72);
}

VARIANT_TEST(refreshed_weights_follow_their_master)
{
    float master[4] = {1, 0, 0, 1}, out[4];
    const float x[4] = {3, 4, 5, 6};
    pl_weight *weight;
    assert_ok(be->ops->weight_create(be, master, 2, 2, &weight));
    master[0] = 2;
    be->ops->weights_refresh(be, &weight, 1);
    pl_act *in = acts(be, x, 4);
    be->ops->logits(be, out, in, weight, 2, 2, 2);
    assert_float_equal(out[0], 6, 0);
    assert_float_equal(out[1], 4, 0);
    assert_float_equal(out[2], 10, 0);
    be->ops->weight_destroy(be, &weight);
}

/* ---- attention ---- */

typedef struct extents {
    int B, T, H, G, D;
} extents;

static void run_attention(pl_backend *be, const extents *e, const float *qkv,
                          const float *dout, pl_act **out, float **lse, pl_act **dqkv)
{
    const size_t n_out = (size_t)(e->B * e->T * e->H * e->D);
    const size_t n_qkv = (size_t)(e->B * e->T * (e->H + 2 * e->G) * e->D);
    pl_act *in = acts(be, qkv, n_qkv), *grad = acts(be, dout, n_out);
    *out = keep(n_out);
    *lse = keep((size_t)(e->B * e->H * e->T));
    *dqkv = acts(be, qkv, n_qkv); /* old values, which must be overwritten */
    be->ops->attention_forward(be, *out, *lse, in, NULL, e->B, e->T, e->H, e->G, e->D);
    be->ops->attention_backward(be, *dqkv, grad, in, *out, *lse, NULL, e->B, e->T, e->H,
                                e->G, e->D, 1e4);
}

static void check_attention_shape(pl_backend *be, pl_backend *ref, extents e)
{
    const size_t n_out = (size_t)(e.B * e.T * e.H * e.D);
    const size_t n_qkv = (size_t)(e.B * e.T * (e.H + 2 * e.G) * e.D);
    float *qkv = floats(n_qkv, 1.5f), *dout = floats(n_out, 1), *lse[2];
    pl_act *out[2], *dqkv[2];
    run_attention(be, &e, qkv, dout, &out[0], &lse[0], &dqkv[0]);
    run_attention(ref, &e, qkv, dout, &out[1], &lse[1], &dqkv[1]);
    assert_acts_close(be, out[0], out[1], n_out);
    assert_acts_close(be, dqkv[0], dqkv[1], n_qkv);
    assert_close(be, lse[0], lse[1], (size_t)(e.B * e.H * e.T));
}

VARIANT_TEST(attention_matches_with_odd_lengths_and_grouped_keys)
{
    const extents shapes[] = {
        {1, 1, 1, 1, 16},   {2, 33, 4, 2, 16},  {1, 64, 2, 1, 64},
        {1, 150, 2, 2, 24}, {1, 257, 1, 1, 32}, {1, 100, 3, 1, 128},
        {2, 129, 6, 2, 48}, {1, 191, 4, 1, 80}, {1, 95, 2, 2, 96},
        {1, 321, 3, 3, 64}, {1, 63, 1, 1, 2},   {1, 130, 2, 1, 34}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_attention_shape(be, ref, shapes[i]);
}

VARIANT_TEST(decoding_matches_at_the_first_and_last_position)
{
    enum { N = 3, SLOTS = 2, S = 70, H = 4, G = 2, D = 24, W = (H + 2 * G) * D };
    const int32_t slot[N] = {1, 0, 1}, pos[N] = {0, 69, 1};
    float *qkv = floats(N * W, 1.5f), *k = floats(SLOTS * S * G * D, 1),
          *v = floats(SLOTS * S * G * D, 1);
    pl_backend *both[2] = {be, ref};
    pl_act *out[2], *rows[2], *ks[2], *vs[2];
    for (int i = 0; i < 2; i++) {
        pl_backend *b = both[i];
        rows[i] = acts(b, qkv, N * W);
        ks[i] = acts(b, k, SLOTS * S * G * D);
        vs[i] = acts(b, v, SLOTS * S * G * D);
        out[i] = keep(N * H * D);
        b->ops->decode_append(b, rows[i], ks[i], vs[i], slot, pos, N, S, H, G, D, 1e4);
        b->ops->attention_decode(b, out[i], rows[i], ks[i], vs[i], slot, pos, N, S, H,
                                 G, D);
    }
    assert_acts_close(be, out[0], out[1], N * H * D);
    assert_acts_close(be, rows[0], rows[1], N * W);
    assert_acts_close(be, ks[0], ks[1], SLOTS * S * G * D);
    assert_acts_close(be, vs[0], vs[1], SLOTS * S * G * D);
}

/* Compares the attention of N consecutive rows of one sequence, from position `first`
 * on. The cpu backend computes some of these rows in blocks. */
static void check_piece(pl_backend *be, pl_backend *ref, int first, int N)
{
    enum { SLOTS = 2, S = 400, H = 4, G = 2, D = 24, W = (H + 2 * G) * D };
    int32_t slot[S], pos[S];
    float *qkv = floats((size_t)N * W, 1.5f), *k = floats(SLOTS * S * G * D, 1),
          *v = floats(SLOTS * S * G * D, 1);
    pl_backend *both[2] = {be, ref};
    pl_act *out[2];
    for (int n = 0; n < N; n++) {
        slot[n] = 1;
        pos[n] = first + n;
    }
    for (int i = 0; i < 2; i++) {
        pl_backend *b = both[i];
        pl_act *rows = acts(b, qkv, (size_t)N * W);
        pl_act *ks = acts(b, k, SLOTS * S * G * D), *vs = acts(b, v, SLOTS * S * G * D);
        out[i] = keep((size_t)N * H * D);
        b->ops->attention_decode(b, out[i], rows, ks, vs, slot, pos, N, S, H, G, D);
    }
    assert_acts_close(be, out[0], out[1], (size_t)N * H * D);
}

VARIANT_TEST(pieces_of_a_prompt_match_wherever_they_begin)
{
    static const int pieces[][2] = {{0, 1},     {0, 70},   {64, 16},
                                    {64, 33},   {128, 64}, {128, 3},
                                    {256, 144}, {320, 65}, {65, 40}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        check_piece(be, ref, pieces[i][0], pieces[i][1]);
}

/* ---- classifier ---- */

VARIANT_TEST(classifier_skips_negative_targets_and_adds_to_dw)
{
    enum { N = 300, V = 101, C = 40 };
    const float half = 0.5f;
    float *x = floats(N * C, 1), *w = floats(V * C, 0.3f), *dw = floats(V * C, 1);
    int32_t targets[N];
    for (int n = 0; n < N; n++)
        targets[n] = n % 7 == 0 ? -1 : n % V;
    pl_backend *both[2] = {be, ref};
    pl_act *dx[2];
    float *dws[2], *loss[2], alone[N];
    for (int i = 0; i < 2; i++) {
        pl_backend *b = both[i];
        pl_weight *weight;
        assert_ok(b->ops->weight_create(b, w, V, C, &weight));
        b->ops->weights_refresh(b, &weight, 1);
        pl_act *xs = acts(b, x, N * C);
        dx[i] = acts(b, x, N * C);
        loss[i] = keep(N);
        dws[i] = keep(V * C);
        memcpy(dws[i], dw, V * C * sizeof(float));
        b->ops->classifier(b, loss[i], dx[i], dws[i], xs, weight, targets, &half, N, V,
                           C, true);
        b->ops->classifier(b, alone, NULL, NULL, xs, weight, targets, NULL, N, V, C,
                           false);
        assert_memory_equal(alone, loss[i], sizeof alone);
        assert_float_equal(loss[i][0], 0, 0);
        b->ops->weight_destroy(b, &weight);
    }
    assert_close(be, loss[0], loss[1], N);
    assert_acts_close(be, dx[0], dx[1], N * C);
    assert_close(be, dws[0], dws[1], V * C);
}

/* ---- threads ---- */

static void run_reductions(pl_backend *be, float *dw, float *embed, double *squares,
                           pl_act **dqkv)
{
    enum { N = 200, C = 50 };
    const extents e = {3, 40, 2, 1, 16};
    stream = 1000;
    float *grad = floats(N * C, 1), *w = floats(C, 1), *qkv = floats(3 * 40 * 64, 1);
    float rstd[N], *lse;
    int32_t tokens[N];
    for (int n = 0; n < N; n++) {
        rstd[n] = 0.5f;
        tokens[n] = n % 3;
    }
    pl_act *dout = acts(be, grad, N * C), *dx = acts(be, grad, N * C), *out;
    be->ops->rmsnorm_backward(be, dx, dw, dout, dout, w, rstd, N, C, true);
    be->ops->embed_backward(be, embed, dout, tokens, N, C);
    be->ops->sum_squares(be, squares, grad, N * C);
    run_attention(be, &e, qkv, grad, &out, &lse, dqkv);
}

PL_TEST(three_threads_give_the_bits_of_one)
{
    for (int i = 0; i < N_VARIANTS; i++) {
        float dw[2][50] = {{0}}, embed[2][150] = {{0}};
        double squares[2] = {0, 0};
        pl_act *dqkv[2];
        for (int j = 0; j < 2; j++) {
            OWNED(cpu_backend_destroy)
            pl_backend *be = open_variant(&variants[i], j == 0 ? 1 : 3);
            if (be == NULL)
                break;
            run_reductions(be, dw[j], embed[j], &squares[j], &dqkv[j]);
        }
        if (squares[0] <= 0) { /* this machine lacks the variant; all have variant 0 */
            assert_true(i > 0);
            continue;
        }
        assert_memory_equal(dw[0], dw[1], sizeof dw[0]);
        assert_memory_equal(embed[0], embed[1], sizeof embed[0]);
        assert_true(squares[0] == squares[1]);
        assert_memory_equal(dqkv[0], dqkv[1], 3 * 40 * 64 * 2);
        forget();
    }
}

/* The gradients dw of this project's own kernels must not depend on the number of
 * threads. A library may divide a sum between threads, so its kernels are not
 * tested. */
PL_TEST(own_gradients_of_weights_do_not_depend_on_threads)
{
    enum { N = 1100, O = 300, I = 100 };
    const variant tiles = {"avx512_bf16", "bf16"};
    float *dw[2] = {NULL, NULL};
    for (int j = 0; j < 2; j++) {
        OWNED(cpu_backend_destroy)
        pl_backend *be = open_variant(&tiles, j == 0 ? 1 : 3);
        /* On a machine with AMX the kernels belong to the library oneDNN. */
        if (be == NULL || strstr(be->device, " amx")) {
            cpu_backend_destroy(&be);
            skip();
        }
        stream = 3000;
        float *dout = floats(N * O, 1), *x = floats(N * I, 1);
        pl_act *douts = acts(be, dout, N * O), *xs = acts(be, x, N * I);
        dw[j] = floats(O * I, 1);
        be->ops->matmul_dw(be, dw[j], douts, xs, N, O, I, true);
    }
    assert_memory_equal(dw[0], dw[1], O * I * sizeof(float));
    forget();
}

/* ---- products of few rows, also with weights of one byte (bytes_cpu.c) ---- */

enum { BYTES_N = 7, BYTES_O = 155, BYTES_I = 150, BYTES_GROUP = 64 };

/* Rounds n values to whole steps: 127 steps on either side of zero reach the largest
 * value. Returns the size of a step. */
static double to_steps(double *to, const float *from, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        most = fmaxf(most, fabsf(from[i]));
    for (int i = 0; i < n; i++)
        to[i] = most > 0 ? rint((double)(from[i] * (127.0f / most))) : 0;
    return (double)most / 127.0;
}

static void multiply_bytes(float *out, const float *x, const float *w)
{
    double u[BYTES_I], q[BYTES_I], sum;
    for (int n = 0; n < BYTES_N; n++)
        for (int o = 0; o < BYTES_O; o++) {
            const double scale = to_steps(u, w + o * BYTES_I, BYTES_I);
            sum = 0;
            for (int i = 0; i < BYTES_I; i += BYTES_GROUP) {
                const int end = i + BYTES_GROUP < BYTES_I ? i + BYTES_GROUP : BYTES_I;
                const double step = to_steps(q, x + n * BYTES_I + i, end - i);
                for (int k = i; k < end; k++)
                    sum += step * q[k - i] * u[k];
            }
            out[n * BYTES_O + o] = (float)(scale * sum);
        }
}

/* Makes rows whose values are multiples of 1/64, and whose step (to_steps) is 1/64. So
 * no value is half way between two steps, where different kernels may round in
 * different directions. */
static float *whole_steps(int n_rows)
{
    float *out = floats((size_t)n_rows * BYTES_I, 40);
    for (int i = 0; i < n_rows * BYTES_I; i++) {
        const bool begins = i % BYTES_I % BYTES_GROUP == 0;
        out[i] = begins ? 127 : fmaxf(-127, fminf(127, rintf(out[i])));
        out[i] /= 64;
    }
    return out;
}

/* Compares a product of several rows with the products of each row alone: the bytes
 * must be the same. Two threads compute several rows, but one thread computes a single
 * row. */
static void check_few(pl_backend *be)
{
    pl_weight *weight = NULL;
    const bool bytes = strstr(be->device, " int8 ") != NULL;
    stream = 4000;
    float *x = whole_steps(BYTES_N), *w = whole_steps(BYTES_O);
    float out[BYTES_N * BYTES_O], want[BYTES_N * BYTES_O], alone[BYTES_O];
    pl_act *xs = acts(be, x, BYTES_N * BYTES_I);
    if (bytes)
        multiply_bytes(want, x, w);
    assert_ok(be->ops->weight_create(be, w, BYTES_O, BYTES_I, &weight));
    be->ops->weights_refresh(be, &weight, 1);
    be->ops->logits(be, out, xs, weight, BYTES_N, BYTES_O, BYTES_I);
    if (bytes && !(error(out, want, BYTES_N * BYTES_O) < 1e-11))
        fail_msg("%s: error %g", be->device, error(out, want, BYTES_N * BYTES_O));
    for (int n = 0; n < BYTES_N; n++) {
        pl_act *row = acts(be, x + n * BYTES_I, BYTES_I);
        be->ops->logits(be, alone, row, weight, 1, BYTES_O, BYTES_I);
        assert_memory_equal(alone, out + n * BYTES_O, sizeof alone);
    }
    be->ops->weight_destroy(be, &weight);
}

PL_TEST(few_rows_on_every_instruction_set)
{
    static const char *const isa[] = {"portable", "avx2", "avx512", "avx512_vnni",
                                      "avx512_bf16"};
    static const char *const precisions[] = {"int8", "f32", "bf16"};
    for (size_t i = 0; i < 3 * sizeof isa / sizeof *isa; i++) {
        const variant v = {isa[i / 3], precisions[i % 3]};
        OWNED(cpu_backend_destroy) pl_backend *be = open_variant(&v, 2);
        if (be == NULL)
            continue;
        check_few(be);
        forget();
        assert_ok(be->ops->sync(be));
    }
}

/* ---- optimizer ---- */

VARIANT_TEST(adamw_matches_and_clears_the_gradient)
{
    enum { N = (1 << 14) + 21 };
    const pl_adamw adam = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 3};
    pl_backend *both[2] = {be, ref};
    float *p[2], *m[2], *v[2], *g[2];
    double squares[2];
    for (int i = 0; i < 2; i++) {
        stream = 2000;
        p[i] = floats(N, 1);
        m[i] = floats(N, 1);
        v[i] = floats(N, 1);
        g[i] = floats(N, 1);
        for (int j = 0; j < N; j++)
            v[i][j] = fabsf(v[i][j]);
        both[i]->ops->sum_squares(both[i], &squares[i], g[i], N);
        both[i]->ops->adamw(both[i], p[i], m[i], v[i], g[i], N, 0.5f, &adam, NULL);
    }
    assert_true(fabs(squares[0] - squares[1]) < 1e-6 * squares[1]);
    assert_true(error(p[0], p[1], N) < 1e-12);
    assert_true(error(m[0], m[1], N) < 1e-12);
    assert_true(error(v[0], v[1], N) < 1e-12);
    for (int j = 0; j < N; j++)
        assert_true(g[0][j] == 0);
}

/* ---- norm and rope with sizes that are not multiples of a vector's length ---- */

VARIANT_TEST(rows_that_fill_no_vector_match_and_rope_inverts)
{
    enum { N = 70, C = 42, H = 2, G = 1, D = 18, QKV = 2 * 35 * (H + 2 * G) * D };
    float *x = floats(N * C, 1), *res = floats(N * C, 1), *w = floats(C, 1),
          *qkv = floats(QKV, 1), dw[2][C] = {{0}}, rstd[2][N];
    pl_backend *both[2] = {be, ref};
    pl_act *xs[2], *out[2], *dx[2], *turned[2];
    for (int i = 0; i < 2; i++) {
        pl_backend *b = both[i];
        pl_act *residual = acts(b, res, N * C);
        xs[i] = acts(b, x, N * C);
        out[i] = acts(b, x, N * C);
        dx[i] = acts(b, x, N * C);
        turned[i] = acts(b, qkv, QKV);
        b->ops->rmsnorm_forward(b, out[i], rstd[i], xs[i], residual, w, N, C, 1e-5f);
        b->ops->rmsnorm_backward(b, dx[i], dw[i], residual, xs[i], w, rstd[i], N, C,
                                 true);
        b->ops->rope(b, turned[i], NULL, 2, 35, H, G, D, 10000.0, 3, 1);
    }
    assert_acts_close(be, xs[0], xs[1], N * C);
    assert_acts_close(be, out[0], out[1], N * C);
    assert_acts_close(be, dx[0], dx[1], N * C);
    assert_acts_close(be, turned[0], turned[1], QKV);
    assert_close(be, dw[0], dw[1], C);
    be->ops->rope(be, turned[0], NULL, 2, 35, H, G, D, 10000.0, 3, -1);
    assert_acts_close(be, turned[0], (const pl_act *)(const void *)qkv, QKV);
}

/* ---- create ---- */

PL_TEST(wrong_options_are_refused)
{
    pl_backend *be;
    pl_backend_options options = {.name = "cpu", .n_threads = 1, .precision = "int4"};
    assert_int_equal(cpu_backend_create(&options, "auto", &be), PL_ERR_CONFIG);
    assert_null(be);
    options.precision = "f32";
    options.n_threads = 0;
    assert_int_equal(cpu_backend_create(&options, "auto", &be), PL_ERR_CONFIG);
    options.n_threads = 1;
    assert_int_equal(cpu_backend_create(&options, "mmx", &be), PL_ERR_UNSUPPORTED);
}

PL_TEST(the_library_runs_kernels_of_this_machine)
{
    static const char *const old[] = {"Prescott", "Core2", "Penryn", "Nehalem"};
    const variant v = {"avx2", "f32"};
    OWNED(cpu_backend_destroy) pl_backend *be = open_variant(&v, 1);
    if (be == NULL)
        skip();
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        assert_null(strstr(be->device, old[i]));
}
