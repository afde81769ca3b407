/* folder: modules; label: unit */
/* Compares the reference backend with independent formulas, and its gradients with
 * central differences. */
#include "tests/support/naive.h"
#include "tests/support/suite.h"

/* Limits of the squared relative errors of results and of gradients. Results are fp32,
 * so they may have a relative error of 1e-6. The gradients are compared with
 * differences in double, which are exact to about 1e-9. */
static const double value_error = 1e-12, gradient_error = 1e-11;

static pl_backend *be;

static int open_backend(void **state)
{
    (void)state;
    pl_backend_options options = {.name = "ref", .n_threads = 1, .precision = "auto"};
    return pl_backend_open(&options, &be) == PL_OK ? 0 : -1;
}

static int close_backend(void **state)
{
    (void)state;
    pl_backend_close(&be);
    return be == NULL ? 0 : -1;
}

static pl_act *act(const float *x)
{
    return (pl_act *)(uintptr_t)x;
}

static pl_weight *weight_of(const float *master, int O, int I)
{
    pl_weight *weight = NULL;
    assert_ok(be->ops->weight_create(be, master, O, I, &weight));
    return weight;
}

static void expect_close(const float *got, const double *want, size_t n, double limit)
{
    double error = naive_error(got, want, n);
    if (!(error <= limit))
        fail_msg("normalised error %g exceeds %g", error, limit);
}

/* An operation whose gradients are tested. The loss is sum_i seed[i] * out[i], and
 * run() computes out from a and b. */
typedef struct probe {
    void (*run)(struct probe *probe);
    double *a, *b, *out; /* two inputs, one output */
    const double *seed;  /* d loss / d out */
    int n_out;
    int n[5]; /* sizes that run() uses */
    const int32_t *targets;
} probe;

static double probe_loss(void *context)
{
    probe *p = context;
    double sum = 0.0;
    p->run(p);
    for (int i = 0; i < p->n_out; i++)
        sum += p->seed[i] * p->out[i];
    return sum;
}

/* Checks that got == base + d loss / d x for all n elements of x. */
static void expect_slopes(probe *p, double *x, const float *got, double base, int n)
{
    OWNED(free_memory) double *want = naive_zeros((size_t)n);
    for (int i = 0; i < n; i++)
        want[i] = base + naive_slope(probe_loss, p, &x[i]);
    expect_close(got, want, (size_t)n, gradient_error);
}

static float *filled(size_t n, float value)
{
    float *x = pl_alloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = value;
    return x;
}

/* ---- embedding ---- */

PL_TEST(embedding_copies_the_row_of_each_token)
{
    const float w[] = {1, 2, 3, 4, 5, 6};
    const int32_t tokens[] = {2, 0, 2};
    const float want[] = {5, 6, 1, 2, 5, 6};
    float out[6];
    be->ops->embed_forward(be, act(out), tokens, w, 3, 2);
    assert_memory_equal(out, want, sizeof want);
}

PL_TEST(embedding_gradient_sums_over_repeated_tokens)
{
    const float dout[] = {1, 2, 10, 20, 100, 200};
    const int32_t tokens[] = {2, 0, 2};
    float dw[] = {1000, 0, 0, 0, 0, 0};
    const float want[] = {1010, 20, 0, 0, 101, 202};
    be->ops->embed_backward(be, dw, act(dout), tokens, 3, 2);
    assert_memory_equal(dw, want, sizeof want);
}

/* ---- norm ---- */

enum { NORM_N = 3, NORM_C = 21 };
static const double norm_eps = 1e-3;

static void run_norm(probe *p)
{
    naive_rmsnorm(p->out, p->a, p->b, NORM_N, NORM_C, norm_eps);
}

PL_TEST(rmsnorm_adds_the_residual_and_matches_its_equation)
{
    enum { N = NORM_N, C = NORM_C };
    double *x = naive_randoms(N * C, 1, 2.0), *r = naive_randoms(N * C, 2, 1.0);
    double *w = naive_randoms(C, 3, 1.0), *want = naive_zeros(N * C);
    float *fx = naive_floats(x, N * C), *fr = naive_floats(r, N * C);
    float *fw = naive_floats(w, C), out[N * C], rstd[N];
    be->ops->rmsnorm_forward(be, act(out), rstd, act(fx), act(fr), fw, N, C,
                             (float)norm_eps);
    for (int i = 0; i < N * C; i++)
        x[i] += r[i];
    naive_rmsnorm(want, x, w, N, C, norm_eps);
    expect_close(fx, x, N * C, value_error);
    expect_close(out, want, N * C, value_error);
    free(x), free(r), free(w), free(want), free(fx), free(fr), free(fw);
}

PL_TEST(rmsnorm_of_a_row_has_the_size_of_its_weight)
{
    float x[] = {3, -3, 3, -3}, w[] = {1, 1, 2, 2}, out[4], rstd[1];
    be->ops->rmsnorm_forward(be, act(out), rstd, act(x), NULL, w, 1, 4, 1e-12f);
    const double want[] = {1, -1, 2, -2};
    expect_close(out, want, 4, value_error);
}

PL_TEST(rmsnorm_gradients_match_differences_and_accumulate_on_request)
{
    enum { N = NORM_N, C = NORM_C };
    probe p = {.run = run_norm, .n_out = N * C};
    p.a = naive_randoms(N * C, 4, 1.0), p.b = naive_randoms(C, 5, 1.0);
    double *seed = naive_randoms(N * C, 6, 1.0);
    p.seed = seed, p.out = naive_zeros(N * C);
    float *x = naive_floats(p.a, N * C), *w = naive_floats(p.b, C);
    float *dout = naive_floats(seed, N * C), out[N * C], rstd[N];
    OWNED(free_memory) float *dx = filled(N * C, 0.5f), *dw = filled(C, -2.0f);
    be->ops->rmsnorm_forward(be, act(out), rstd, act(x), NULL, w, N, C,
                             (float)norm_eps);
    be->ops->rmsnorm_backward(be, act(dx), dw, act(dout), act(x), w, rstd, N, C, true);
    expect_slopes(&p, p.a, dx, 0.5, N * C);
    expect_slopes(&p, p.b, dw, -2.0, C);
    be->ops->rmsnorm_backward(be, act(dx), dw, act(dout), act(x), w, rstd, N, C, false);
    expect_slopes(&p, p.a, dx, 0.0, N * C);
    free(p.a), free(p.b), free(p.out), free(seed), free(x), free(w), free(dout);
}

/* ---- QK norm ---- */

enum { QK_N = 3, QK_H = 4, QK_G = 2, QK_D = 6, QK_W = (QK_H + 2 * QK_G) * QK_D };

static void run_head_norm(probe *p)
{
    memcpy(p->out, p->a, QK_N * QK_W * sizeof *p->out);
    naive_head_norm(p->out, p->b, QK_N, QK_H, QK_G, QK_D, norm_eps);
}

PL_TEST(head_norm_matches_its_equation_and_leaves_values)
{
    enum { N = QK_N, H = QK_H, G = QK_G, D = QK_D, W = QK_W };
    OWNED(free_memory)
    double *x = naive_randoms(N * W, 1, 2.0), *w = naive_randoms(2 * D, 2, 1.0);
    OWNED(free_memory)
    float *fx = naive_floats(x, N * W), *was = naive_floats(x, N * W);
    OWNED(free_memory)
    float *fw = naive_floats(w, 2 * D), *again = naive_floats(x, N * W);
    float before[N * (H + G) * D], rstd[N * (H + G)];
    be->ops->head_norm_forward(be, act(fx), act(before), rstd, fw, N, H, G, D,
                               (float)norm_eps);
    be->ops->head_norm_forward(be, act(again), NULL, NULL, fw, N, H, G, D,
                               (float)norm_eps);
    naive_head_norm(x, w, N, H, G, D, norm_eps);
    expect_close(fx, x, N * W, value_error);
    assert_memory_equal(fx, again, N * W * sizeof *fx);
    for (int n = 0; n < N; n++) {
        assert_memory_equal(before + n * (H + G) * D, was + n * W,
                            (H + G) * D * sizeof *was);
        assert_memory_equal(fx + n * W + (H + G) * D, was + n * W + (H + G) * D,
                            G * D * sizeof *was);
    }
}

PL_TEST(head_norm_gradients_match_differences)
{
    enum { N = QK_N, H = QK_H, G = QK_G, D = QK_D, W = QK_W };
    probe p = {.run = run_head_norm, .n_out = N * W};
    p.a = naive_randoms(N * W, 4, 1.0), p.b = naive_randoms(2 * D, 5, 1.0);
    double *seed = naive_randoms(N * W, 6, 1.0);
    p.seed = seed, p.out = naive_zeros(N * W);
    float *qkv = naive_floats(p.a, N * W), *w = naive_floats(p.b, 2 * D);
    float *d = naive_floats(seed, N * W), *dw = filled(2 * D, -2.0f);
    float before[N * (H + G) * D], rstd[N * (H + G)];
    be->ops->head_norm_forward(be, act(qkv), act(before), rstd, w, N, H, G, D,
                               (float)norm_eps);
    be->ops->head_norm_backward(be, act(d), dw, act(before), w, rstd, N, H, G, D);
    expect_slopes(&p, p.a, d, 0.0, N * W);
    expect_slopes(&p, p.b, dw, -2.0, 2 * D);
    free(p.a), free(p.b), free(p.out), free(seed), free(qkv), free(w), free(d);
    free(dw);
}

/* ---- matrix products ---- */

enum { MAT_N = 5, MAT_O = 7, MAT_I = 19 };

static void run_matmul(probe *p)
{
    naive_matmul(p->out, p->a, p->b, MAT_N, MAT_O, MAT_I);
}

PL_TEST(matmul_matches_its_equation)
{
    enum { N = MAT_N, O = MAT_O, I = MAT_I };
    double *x = naive_randoms(N * I, 1, 1.0), *w = naive_randoms(O * I, 2, 1.0);
    double *want = naive_zeros(N * O);
    float *fx = naive_floats(x, N * I), *fw = naive_floats(w, O * I), out[N * O];
    pl_weight *weight = weight_of(fw, O, I);
    be->ops->matmul_forward(be, act(out), act(fx), weight, N, O, I);
    naive_matmul(want, x, w, N, O, I);
    expect_close(out, want, N * O, value_error);
    be->ops->logits(be, out, act(fx), weight, N, O, I);
    expect_close(out, want, N * O, value_error);
    be->ops->weight_destroy(be, &weight);
    assert_null(weight);
    free(x), free(w), free(want), free(fx), free(fw);
}

PL_TEST(matmul_gradients_match_differences)
{
    enum { N = MAT_N, O = MAT_O, I = MAT_I };
    probe p = {.run = run_matmul, .n_out = N * O};
    p.a = naive_randoms(N * I, 3, 1.0), p.b = naive_randoms(O * I, 4, 1.0);
    double *seed = naive_randoms(N * O, 5, 1.0);
    p.seed = seed, p.out = naive_zeros(N * O);
    float *x = naive_floats(p.a, N * I), *w = naive_floats(p.b, O * I);
    float *dout = naive_floats(seed, N * O);
    OWNED(free_memory) float *dx = filled(N * I, 3.0f), *dw = filled(O * I, 0.25f);
    pl_weight *weight = weight_of(w, O, I);
    be->ops->matmul_dx(be, act(dx), act(dout), weight, N, O, I, true);
    expect_slopes(&p, p.a, dx, 3.0, N * I);
    be->ops->matmul_dx(be, act(dx), act(dout), weight, N, O, I, false);
    expect_slopes(&p, p.a, dx, 0.0, N * I);
    be->ops->matmul_dw(be, dw, act(dout), act(x), N, O, I, true);
    expect_slopes(&p, p.b, dw, 0.25, O * I);
    be->ops->matmul_dw(be, dw, act(dout), act(x), N, O, I, false);
    expect_slopes(&p, p.b, dw, 0.0, O * I);
    be->ops->weight_destroy(be, &weight);
    free(p.a), free(p.b), free(p.out), free(seed), free(x), free(w), free(dout);
}

/* ---- rotary embedding ---- */

enum { ROPE_B = 2, ROPE_T = 5, ROPE_H = 4, ROPE_G = 2, ROPE_D = 6 };
enum { ROPE_N = ROPE_B * ROPE_T * (ROPE_H + 2 * ROPE_G) * ROPE_D };

static void rope(float *qkv, int start, int sign)
{
    be->ops->rope(be, act(qkv), NULL, ROPE_B, ROPE_T, ROPE_H, ROPE_G, ROPE_D, 100.0,
                  start, sign);
}

PL_TEST(rope_turns_q_and_k_as_llama_does_and_leaves_v)
{
    OWNED(free_memory) double *x = naive_randoms(ROPE_N, 1, 1.0);
    OWNED(free_memory) float *fx = naive_floats(x, ROPE_N);
    rope(fx, 3, 1);
    naive_rope(x, ROPE_B, ROPE_T, ROPE_H, ROPE_G, ROPE_D, 100.0, 3);
    expect_close(fx, x, ROPE_N, value_error);
}

PL_TEST(inverse_rope_undoes_rope)
{
    OWNED(free_memory) double *x = naive_randoms(ROPE_N, 2, 1.0);
    OWNED(free_memory) float *fx = naive_floats(x, ROPE_N);
    rope(fx, 11, 1);
    assert_true(naive_error(fx, x, ROPE_N) > 0.01);
    rope(fx, 11, -1);
    expect_close(fx, x, ROPE_N, value_error);
}

PL_TEST(rope_makes_scores_depend_on_distance_only)
{
    enum { D = 8, W = 3 * D };
    OWNED(free_memory) double *one = naive_randoms(W, 3, 1.0);
    float rows[2][2 * W]; /* the same q and k at two positions that differ by 3 */
    for (int shift = 0; shift < 2; shift++) {
        for (int i = 0; i < W; i++)
            rows[shift][i] = rows[shift][W + i] = (float)one[i];
        be->ops->rope(be, act(rows[shift]), NULL, 1, 1, 1, 1, D, 1e4, 40 * shift, 1);
        be->ops->rope(be, act(rows[shift] + W), NULL, 1, 1, 1, 1, D, 1e4,
                      40 * shift + 3, 1);
    }
    double score[2] = {0, 0};
    for (int shift = 0; shift < 2; shift++)
        for (int d = 0; d < D; d++)
            score[shift] += (double)rows[shift][W + d] * (double)rows[shift][D + d];
    assert_true(fabs(score[0] - score[1]) < 1e-4);
}

/* ---- attention ---- */

typedef struct attention_case {
    int B, T, H, G, D;
} attention_case;
static const attention_case attention_cases[] = {
    {1, 1, 1, 1, 2}, {2, 5, 2, 2, 4}, {1, 7, 4, 2, 6}, {2, 4, 3, 1, 2}};
enum { N_ATTENTION = sizeof attention_cases / sizeof attention_cases[0] };

/* Rotates, then attends: the backward pass goes back through both. */
static void run_attention(probe *p)
{
    const int B = p->n[0], T = p->n[1], H = p->n[2], G = p->n[3], D = p->n[4];
    const size_t n = (size_t)(B * T * (H + 2 * G) * D);
    double *qkv = naive_zeros(n);
    memcpy(qkv, p->a, n * sizeof *qkv);
    naive_rope(qkv, B, T, H, G, D, 100.0, 0);
    naive_attention(p->out, qkv, B, T, H, G, D);
    free(qkv);
}

static void expect_lse(const float *lse, const float *qkv, const attention_case *c)
{
    int W = (c->H + 2 * c->G) * c->D;
    for (int i = 0; i < c->B * c->H * c->T; i++) {
        int t = i % c->T, h = i / c->T % c->H, b = i / c->T / c->H;
        const float *rows = qkv + b * c->T * W;
        double total = 0.0;
        for (int s = 0; s <= t; s++) {
            double score = 0.0;
            for (int d = 0; d < c->D; d++)
                score += (double)rows[t * W + h * c->D + d] *
                         (double)rows[s * W + (c->H + h * c->G / c->H) * c->D + d];
            total += exp(score / sqrt(c->D));
        }
        assert_true(fabs((double)lse[i] - log(total)) < 1e-5);
    }
}

static void check_attention(const attention_case *c, uint64_t stream)
{
    int W = (c->H + 2 * c->G) * c->D, n_qkv = c->B * c->T * W;
    int n_out = c->B * c->T * c->H * c->D;
    probe p = {
        .run = run_attention, .n_out = n_out, .n = {c->B, c->T, c->H, c->G, c->D}};
    p.a = naive_randoms((size_t)n_qkv, stream, 1.5), p.out = naive_zeros((size_t)n_out);
    double *seed = naive_randoms((size_t)n_out, stream + 1, 1.0);
    p.seed = seed;
    float *qkv = naive_floats(p.a, (size_t)n_qkv);
    float *dout = naive_floats(seed, (size_t)n_out), *out = filled((size_t)n_out, 9.0f);
    float *lse = filled((size_t)(c->B * c->H * c->T), 9.0f);
    OWNED(free_memory) float *dqkv = filled((size_t)n_qkv, 9.0f);
    be->ops->rope(be, act(qkv), NULL, c->B, c->T, c->H, c->G, c->D, 100.0, 0, 1);
    be->ops->attention_forward(be, act(out), lse, act(qkv), NULL, c->B, c->T, c->H,
                               c->G, c->D);
    run_attention(&p);
    expect_close(out, p.out, (size_t)n_out, value_error);
    expect_lse(lse, qkv, c);
    be->ops->attention_backward(be, act(dqkv), act(dout), act(qkv), act(out), lse, NULL,
                                c->B, c->T, c->H, c->G, c->D, 100.0);
    expect_slopes(&p, p.a, dqkv, 0.0, n_qkv);
    free(p.a), free(p.out), free(seed), free(qkv), free(dout), free(out), free(lse);
}

PL_TEST(attention_and_its_gradient_match_formula_and_differences)
{
    for (uint64_t i = 0; i < N_ATTENTION; i++)
        check_attention(&attention_cases[i], 10 * i);
}

PL_TEST(attention_survives_scores_beyond_the_range_of_exp)
{
    float qkv[2 * 6] = {40, 40, 40, 40, 1, 2, 40, 40, 60, 60, 3, 4}, out[4], lse[2];
    be->ops->attention_forward(be, act(out), lse, act(qkv), NULL, 1, 2, 1, 1, 2);
    const double want[] = {1, 2, 3, 4};
    expect_close(out, want, 4, value_error);
}

PL_TEST(decoding_equals_the_last_row_of_attention)
{
    enum { T = 6, H = 4, G = 2, D = 4, W = (H + 2 * G) * D, S = 9 };
    double *x = naive_randoms(T * W, 5, 1.0);
    float *qkv = naive_floats(x, T * W), out[T * H * D], lse[H * T], row[2 * H * D];
    float rows[2 * W], keys[2 * S * G * D] = {0}, values[2 * S * G * D] = {0};
    const int32_t slot[] = {1, 0}, pos[] = {T - 1, 2}, all[T] = {0},
                  rise[T] = {0, 1, 2, 3, 4, 5};
    for (int b = 0; b < 2; b++) {
        OWNED(free_memory) float *before = naive_floats(x, T * W);
        const size_t at = (size_t)slot[b] * S * G * D;
        memcpy(rows + b * W, qkv + pos[b] * W, W * sizeof *rows);
        if (pos[b] > 0)
            be->ops->decode_append(be, act(before), act(keys + at), act(values + at),
                                   all, rise, pos[b], S, H, G, D, 1e4);
    }
    be->ops->rope(be, act(qkv), NULL, 1, T, H, G, D, 1e4, 0, 1);
    be->ops->attention_forward(be, act(out), lse, act(qkv), NULL, 1, T, H, G, D);
    be->ops->decode_append(be, act(rows), act(keys), act(values), slot, pos, 2, S, H, G,
                           D, 1e4);
    be->ops->attention_decode(be, act(row), act(rows), act(keys), act(values), slot,
                              pos, 2, S, H, G, D);
    for (int b = 0; b < 2; b++) {
        assert_memory_equal(rows + b * W, qkv + pos[b] * W, W * sizeof *rows);
        assert_memory_equal(row + b * H * D, out + pos[b] * H * D, H * D * sizeof *row);
    }
    free(x), free(qkv);
}

/* ---- feed-forward ---- */

enum { SW_N = 4, SW_F = 9 };

static void run_swiglu(probe *p)
{
    naive_swiglu(p->out, p->a, SW_N, SW_F);
}

PL_TEST(swiglu_and_its_gradient_match_formula_and_differences)
{
    enum { N = SW_N, F = SW_F };
    probe p = {.run = run_swiglu, .n_out = N * F};
    p.a = naive_randoms(N * 2 * F, 1, 3.0), p.out = naive_zeros(N * F);
    double *seed = naive_randoms(N * F, 2, 1.0);
    p.seed = seed;
    float *gu = naive_floats(p.a, N * 2 * F), *dout = naive_floats(seed, N * F);
    float out[N * F], *dgu = filled(N * 2 * F, 9.0f);
    be->ops->swiglu_forward(be, act(out), act(gu), N, F);
    run_swiglu(&p);
    expect_close(out, p.out, N * F, value_error);
    be->ops->swiglu_backward(be, act(dgu), act(dout), act(gu), N, F);
    expect_slopes(&p, p.a, dgu, 0.0, N * 2 * F);
    free(p.a), free(p.out), free(seed), free(gu), free(dout), free(dgu);
}

PL_TEST(swiglu_is_finite_for_huge_gates)
{
    const float gu[] = {-300.0f, 300.0f, 2.0f, 2.0f}, dout[] = {1.0f, 1.0f};
    float out[2], dgu[4];
    be->ops->swiglu_forward(be, act(out), act(gu), 1, 2);
    be->ops->swiglu_backward(be, act(dgu), act(dout), act(gu), 1, 2);
    const double want_out[] = {0, 600}, want_dgu[] = {0, 2, 0, 300};
    expect_close(out, want_out, 2, value_error);
    expect_close(dgu, want_dgu, 4, value_error);
}

/* ---- classifier ---- */

enum { CLS_N = 5, CLS_V = 11, CLS_C = 6 };
static const int32_t cls_targets[CLS_N] = {0, -1, 10, 4, -1};

static void run_classifier(probe *p)
{
    naive_losses(p->out, p->a, p->b, cls_targets, CLS_N, CLS_V, CLS_C);
}

PL_TEST(classifier_and_its_gradients_match_formula_and_differences)
{
    enum { N = CLS_N, V = CLS_V, C = CLS_C };
    const float factor = 0.25f;
    const double scale = (double)factor, seed[N] = {scale, scale, scale, scale, scale};
    probe p = {.run = run_classifier, .n_out = N, .seed = seed};
    p.a = naive_randoms(N * C, 1, 1.0), p.b = naive_randoms(V * C, 2, 1.0);
    p.out = naive_zeros(N);
    float *x = naive_floats(p.a, N * C), *w = naive_floats(p.b, V * C);
    float loss[N], *dx = filled(N * C, 9.0f), *dw = filled(V * C, -1.0f);
    pl_weight *weight = weight_of(w, V, C);
    for (int added = 1; added >= 0; added--) {
        run_classifier(&p);
        be->ops->classifier(be, loss, act(dx), dw, act(x), weight, cls_targets, &factor,
                            N, V, C, added == 1);
        expect_close(loss, p.out, N, value_error);
        expect_slopes(&p, p.a, dx, 0.0, N * C);
        expect_slopes(&p, p.b, dw, added == 1 ? -1.0 : 0.0, V * C);
    }
    be->ops->weight_destroy(be, &weight);
    free(p.a), free(p.b), free(p.out), free(x), free(w), free(dx), free(dw);
}

PL_TEST(classifier_gives_exact_zeros_where_there_is_no_target)
{
    enum { N = CLS_N, V = CLS_V, C = CLS_C };
    double *x = naive_randoms(N * C, 1, 1.0), *w = naive_randoms(V * C, 2, 1.0);
    float *fx = naive_floats(x, N * C), *fw = naive_floats(w, V * C);
    float loss[N], *dx = filled(N * C, 9.0f), *dw = filled(V * C, 0.0f);
    const float one = 1.0f;
    pl_weight *weight = weight_of(fw, V, C);
    be->ops->classifier(be, loss, act(dx), dw, act(fx), weight, cls_targets, &one, N, V,
                        C, true);
    for (int n = 0; n < N; n++)
        if (cls_targets[n] < 0) {
            assert_true(loss[n] == 0.0f);
            for (int c = 0; c < C; c++)
                assert_true(dx[n * C + c] == 0.0f);
        }
    float only_loss[N];
    be->ops->classifier(be, only_loss, NULL, NULL, act(fx), weight, cls_targets, NULL,
                        N, V, C, false);
    assert_memory_equal(only_loss, loss, sizeof loss);
    be->ops->weight_destroy(be, &weight);
    free(x), free(w), free(fx), free(fw), free(dx), free(dw);
}

/* ---- optimizer ---- */

PL_TEST(sum_squares_counts_every_element)
{
    enum { N = 100003 };
    OWNED(free_memory) float *g = filled(N, 0.5f);
    g[N - 1] = 100.0f;
    double sum = -1.0;
    be->ops->sum_squares(be, &sum, g, N);
    assert_true(sum == 0.25 * (N - 1) + 10000.0);
}

PL_TEST(adamw_follows_the_scalar_formula_for_many_steps)
{
    enum { N = 37, STEPS = 20 };
    double *p = naive_randoms(N, 1, 1.0), m[N] = {0}, v[N] = {0};
    float *fp = naive_floats(p, N), fm[N] = {0}, fv[N] = {0};
    const double lr = 0.01, b1 = 0.9, b2 = 0.95, eps = 1e-8, wd = 0.1, scale = 0.5;
    for (int step = 1; step <= STEPS; step++) {
        OWNED(free_memory) double *g = naive_randoms(N, 100 + (uint64_t)step, 1.0);
        OWNED(free_memory) float *fg = naive_floats(g, N);
        pl_adamw adam = {.lr = 0.01f,
                         .beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1e-8f,
                         .weight_decay = 0.1f,
                         .step = step};
        be->ops->adamw(be, fp, fm, fv, fg, N, (float)scale, &adam, NULL);
        for (int i = 0; i < N; i++) {
            m[i] = b1 * m[i] + (1 - b1) * scale * g[i];
            v[i] = b2 * v[i] + (1 - b2) * scale * g[i] * scale * g[i];
            double mean = m[i] / (1 - pow(b1, step)), var = v[i] / (1 - pow(b2, step));
            p[i] -= lr * (mean / (sqrt(var) + eps) + wd * p[i]);
            assert_true(fg[i] == 0.0f);
        }
    }
    expect_close(fp, p, N, value_error);
    expect_close(fm, m, N, value_error);
    expect_close(fv, v, N, value_error);
    free(p), free(fp);
}

PL_TEST(first_adamw_step_is_lr_times_the_sign)
{
    float p[] = {1, 1, 1}, m[3] = {0}, v[3] = {0}, g[] = {5.0f, -1e-3f, 0.0f};
    pl_adamw adam = {
        .lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-12f, .step = 1};
    be->ops->adamw(be, p, m, v, g, 3, 1.0f, &adam, NULL);
    const double want[] = {0.9, 1.1, 1.0};
    expect_close(p, want, 3, value_error);
}

PL_TEST(ref_refuses_halves)
{
    static const char *const halves[] = {"bf16", "f16"};
    for (int i = 0; i < 2; i++) {
        pl_backend *other;
        pl_backend_options options = {
            .name = "ref", .n_threads = 1, .precision = halves[i]};
        assert_int_equal(pl_backend_open(&options, &other), PL_ERR_UNSUPPORTED);
        assert_null(other);
    }
}

PL_TEST(unknown_backends_and_precisions_are_refused_by_name)
{
    pl_backend *other;
    pl_backend_options options = {.name = "tpu", .n_threads = 1, .precision = "auto"};
    assert_fails(pl_backend_open(&options, &other), PL_ERR_CONFIG, "tpu");
    options.name = "ref", options.precision = "f12";
    assert_fails(pl_backend_open(&options, &other), PL_ERR_CONFIG, "f12");
    options.precision = "f32", options.n_threads = 0;
    assert_int_equal(pl_backend_open(&options, &other), PL_ERR_CONFIG);
}

PL_SUITE(open_backend, close_backend)
