/* folder: modules; label: unit */
/* Compares the production backends with the reference backend, operation by operation.
 *
 * Both backends get the same inputs, which are rounded to the activation type of the
 * tested backend. The error of an operation is the sum of squared differences divided
 * by the sum of squares of the reference's results. The reference is also compared with
 * itself, which checks the test. */
#include "tests/support/pairs.h"

/* Two buffers with the same numbers: at[0] in the reference backend, at[1] in the
 * tested one. The numbers are fp32, or activations in the type of each backend. */
typedef struct twin {
    size_t n;
    bool is_act;
    void *at[2];
} twin;

static float *read_back(const pair *p, const twin *x, int side)
{
    pl_backend *be = p->be[side];
    float *host = malloc(x->n * sizeof *host);
    assert_non_null(host);
    if (x->is_act) {
        void *floats = new_buffer(be, x->n * sizeof(float));
        be->ops->act_to_float(be, floats, x->at[side], x->n);
        be->ops->download(be, host, floats, x->n * sizeof *host);
        be->ops->release(be, floats);
    } else {
        be->ops->download(be, host, x->at[side], x->n * sizeof *host);
    }
    if (be->ops->sync(be) != PL_OK)
        fail_msg("%s: %s", p->label, pl_last_error());
    return host;
}

static void write_side(const pair *p, twin *x, int side, const float *host)
{
    pl_backend *be = p->be[side];
    if (!x->is_act) {
        be->ops->upload(be, x->at[side], host, x->n * sizeof *host);
        return;
    }
    void *floats = new_buffer(be, x->n * sizeof(float));
    be->ops->upload(be, floats, host, x->n * sizeof *host);
    be->ops->act_from_float(be, x->at[side], floats, x->n);
    assert_ok(be->ops->sync(be));
    be->ops->release(be, floats);
}

/* Rounds a value to one that both backends can represent. */
static float representable(const pair *p, float value)
{
    return p->be[1]->act == PL_F32 ? value
                                   : pl_bf16_to_float(pl_bf16_from_float(value));
}

static twin make_twin(const pair *p, size_t n, bool is_act, uint64_t stream,
                      float scale)
{
    twin x = {.n = n, .is_act = is_act};
    const float *normals = kept_normals(11, stream, n);
    OWNED(free_memory) float *host = pl_alloc(n * sizeof *host);
    for (size_t i = 0; i < n; i++)
        host[i] = representable(p, scale * normals[i]);
    for (int side = 0; side < 2; side++) {
        size_t bytes = is_act ? pl_type_bytes(p->be[side]->act) : sizeof(float);
        x.at[side] = new_buffer(p->be[side], n * bytes);
        write_side(p, &x, side, host);
    }
    return x;
}

static twin acts(const pair *p, size_t n, uint64_t stream, float scale)
{
    return make_twin(p, n, true, stream, scale);
}

static twin floats(const pair *p, size_t n, uint64_t stream, float scale)
{
    return make_twin(p, n, false, stream, scale);
}

/* Gives both backends the result of the reference, so that their next operations have
 * equal inputs. Activations are rounded to the type of the tested backend. */
static void copy_from_ref(const pair *p, twin *x)
{
    OWNED(free_memory) float *host = read_back(p, x, 0);
    for (size_t i = 0; x->is_act && i < x->n; i++)
        host[i] = representable(p, host[i]);
    write_side(p, x, 0, host);
    write_side(p, x, 1, host);
}

static void drop(const pair *p, twin *x)
{
    for (int side = 0; side < 2; side++)
        p->be[side]->ops->release(p->be[side], x->at[side]);
}

static double twin_error(const pair *p, const twin *x)
{
    OWNED(free_memory) float *want = read_back(p, x, 0), *got = read_back(p, x, 1);
    OWNED(free_memory) double *wide = naive_zeros(x->n);
    for (size_t i = 0; i < x->n; i++)
        wide[i] = (double)want[i];
    double error = naive_error(got, wide, x->n);
    return error;
}

/* Compares the two results and frees them. */
static void expect_same(const pair *p, twin *x, const char *what, const int *extents,
                        int n_extents)
{
    char text[96] = "";
    double error = twin_error(p, x);
    drop(p, x);
    if (error <= p->tolerance)
        return;
    for (int i = 0; i < n_extents; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %d", extents[i]);
    fail_msg("%s: %s of shape%s: error %g exceeds %g", p->label, what, text, error,
             p->tolerance);
}

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- embedding ---- */

/* A shape is N positions, V tokens, C columns. In the last two shapes, every second
 * position has the same token. */
PAIR_TEST(embedding_agrees_with_ref)
{
    static const int shapes[][3] = {{1, 1, 1},    {37, 33, 128}, {200, 7, 896},
                                    {5, 90, 63},  {1200, 3, 8},  {200, 90, 328},
                                    {2300, 90, 7}};
    for (int i = 0; i < COUNT(shapes); i++) {
        int N = shapes[i][0], V = shapes[i][1], C = shapes[i][2];
        twin w = floats(p, (size_t)(V * C), 1, 1.0f),
             dw = floats(p, (size_t)(V * C), 2, 1);
        twin out = acts(p, (size_t)(N * C), 3, 1.0f),
             d = acts(p, (size_t)(N * C), 4, 1);
        OWNED(free_memory) int32_t *tokens = calloc((size_t)N, sizeof *tokens);
        for (int n = 0; n < N; n++)
            tokens[n] = i >= 5 && n % 2 == 1
                            ? 1
                            : (int32_t)(pl_random_u32(1, 2, (uint64_t)n) % (uint32_t)V);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            void *device = new_buffer(be, (size_t)N * sizeof *tokens);
            be->ops->upload(be, device, tokens, (size_t)N * sizeof *tokens);
            be->ops->embed_forward(be, out.at[side], device, w.at[side], N, C);
            be->ops->embed_backward(be, dw.at[side], d.at[side], device, N, C);
            assert_ok(be->ops->sync(be));
            be->ops->release(be, device);
        }
        expect_same(p, &out, "embed_forward", shapes[i], 3);
        expect_same(p, &dw, "embed_backward", shapes[i], 3);
        drop(p, &w), drop(p, &d);
    }
}

/* ---- norm ---- */

/* N rows, C columns. The rows of the last two shapes have more elements than one block
 * of the cuda backend can keep in registers. */
static const int norm_shapes[][2] = {{1, 8},    {3, 7},    {37, 128},  {64, 896},
                                     {5, 1003}, {17, 264}, {19, 8456}, {3, 8203}};

PAIR_TEST(rmsnorm_agrees_with_ref)
{
    for (int i = 0; i < COUNT(norm_shapes); i++) {
        int N = norm_shapes[i][0], C = norm_shapes[i][1];
        size_t n = (size_t)(N * C);
        twin x = acts(p, n, 1, 2.0f), r = acts(p, n, 2, 1.0f);
        twin out = acts(p, n, 3, 1.0f), rstd = floats(p, (size_t)N, 4, 1.0f);
        twin w = floats(p, (size_t)C, 5, 1.0f), dw = floats(p, (size_t)C, 6, 1.0f);
        twin dx = acts(p, n, 7, 1.0f), dout = acts(p, n, 8, 1.0f);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            be->ops->rmsnorm_forward(be, out.at[side], rstd.at[side], x.at[side],
                                     i % 2 ? NULL : r.at[side], w.at[side], N, C,
                                     1e-5f);
        }
        expect_same(p, &out, "rmsnorm_forward", norm_shapes[i], 2);
        copy_from_ref(p, &x), copy_from_ref(p, &rstd);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            be->ops->rmsnorm_backward(be, dx.at[side], dw.at[side], dout.at[side],
                                      x.at[side], w.at[side], rstd.at[side], N, C,
                                      i % 3 > 0);
        }
        expect_same(p, &dx, "rmsnorm_backward dx", norm_shapes[i], 2);
        expect_same(p, &dw, "rmsnorm_backward dw", norm_shapes[i], 2);
        drop(p, &x), drop(p, &r), drop(p, &rstd), drop(p, &w), drop(p, &dout);
    }
}

PAIR_TEST(rmsnorm_leaves_the_sum_with_the_residual_in_x)
{
    for (int i = 0; i < COUNT(norm_shapes); i++) {
        int N = norm_shapes[i][0], C = norm_shapes[i][1];
        size_t n = (size_t)(N * C);
        twin x = acts(p, n, 1, 2.0f), r = acts(p, n, 2, 1.0f),
             out = acts(p, n, 3, 1.0f);
        twin rstd = floats(p, (size_t)N, 4, 1.0f), w = floats(p, (size_t)C, 5, 1.0f);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            be->ops->rmsnorm_forward(be, out.at[side], rstd.at[side], x.at[side],
                                     r.at[side], w.at[side], N, C, 1e-5f);
        }
        expect_same(p, &x, "rmsnorm_forward x + residual", norm_shapes[i], 2);
        expect_same(p, &rstd, "rmsnorm_forward rstd", norm_shapes[i], 2);
        expect_same(p, &out, "rmsnorm_forward out", norm_shapes[i], 2);
        drop(p, &r), drop(p, &w);
    }
}

/* ---- QK norm ---- */

/* rows N, heads H, heads of keys and values G, elements of a head D */
static const int head_shapes[][4] = {
    {1, 1, 1, 2}, {3, 4, 2, 10}, {70, 3, 3, 32}, {130, 2, 1, 64}, {5, 4, 1, 126}};

PAIR_TEST(head_norm_agrees_with_ref)
{
    for (int i = 0; i < COUNT(head_shapes); i++) {
        const int N = head_shapes[i][0], H = head_shapes[i][1], G = head_shapes[i][2],
                  D = head_shapes[i][3];
        const size_t n = (size_t)(N * (H + 2 * G) * D);
        const size_t kept = (size_t)(N * (H + G));
        twin qkv = acts(p, n, 1, 2.0f), bare = acts(p, n, 1, 2.0f);
        twin before = acts(p, kept * (size_t)D, 2, 1.0f), d = acts(p, n, 3, 1.0f);
        twin rstd = floats(p, kept, 4, 1.0f), w = floats(p, 2 * (size_t)D, 5, 1.0f);
        twin dw = floats(p, 2 * (size_t)D, 6, 1.0f);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            be->ops->head_norm_forward(be, qkv.at[side], before.at[side], rstd.at[side],
                                       w.at[side], N, H, G, D, 1e-5f);
            be->ops->head_norm_forward(be, bare.at[side], NULL, NULL, w.at[side], N, H,
                                       G, D, 1e-5f);
        }
        expect_same(p, &qkv, "head_norm_forward", head_shapes[i], 4);
        expect_same(p, &bare, "head_norm_forward alone", head_shapes[i], 4);
        if (twin_error(p, &before) != 0.0)
            fail_msg("%s: head_norm_forward stores wrong inputs", p->label);
        copy_from_ref(p, &rstd);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            be->ops->head_norm_backward(be, d.at[side], dw.at[side], before.at[side],
                                        w.at[side], rstd.at[side], N, H, G, D);
        }
        expect_same(p, &d, "head_norm_backward dx", head_shapes[i], 4);
        expect_same(p, &dw, "head_norm_backward dw", head_shapes[i], 4);
        drop(p, &before), drop(p, &rstd), drop(p, &w);
    }
}

/* ---- matrix products ---- */

/* rows N, outputs O, inputs I; the last two need several blocks of gemm_wide.c, and are
 * left out on an emulated device */
static const int matmul_shapes[][3] = {
    {1, 1, 1},     {3, 5, 7},       {37, 344, 128},  {64, 384, 128},  {1, 1792, 896},
    {33, 129, 65}, {128, 688, 128}, {130, 96, 1003}, {9, 1100, 1024}, {1100, 9, 1024}};

typedef struct twin_weight {
    twin master;
    pl_weight *handle[2];
} twin_weight;

static twin_weight make_weight(const pair *p, int O, int I, uint64_t stream,
                               float scale)
{
    twin_weight w = {.master = floats(p, (size_t)(O * I), stream, scale)};
    for (int side = 0; side < 2; side++) {
        pl_backend *be = p->be[side];
        assert_ok(be->ops->weight_create(be, w.master.at[side], O, I, &w.handle[side]));
        be->ops->weights_refresh(be, &w.handle[side], 1);
    }
    return w;
}

static void drop_weight(const pair *p, twin_weight *w)
{
    for (int side = 0; side < 2; side++) {
        p->be[side]->ops->weight_destroy(p->be[side], &w->handle[side]);
        assert_null(w->handle[side]);
    }
    drop(p, &w->master);
}

PAIR_TEST(matrix_products_agree_with_ref)
{
    const bool emulated = strstr(p->be[1]->device, "emulated");
    for (int i = 0; i < COUNT(matmul_shapes) - (emulated ? 2 : 0); i++) {
        const int *s = matmul_shapes[i];
        int N = s[0], O = s[1], I = s[2];
        twin_weight w = make_weight(p, O, I, 1, 0.1f);
        twin x = acts(p, (size_t)(N * I), 2, 1.0f),
             dout = acts(p, (size_t)(N * O), 3, 1);
        twin out = acts(p, (size_t)(N * O), 4, 1.0f),
             dw = floats(p, (size_t)(O * I), 5, 1),
             first = floats(p, (size_t)(O * I), 8, 1);
        twin dx = acts(p, (size_t)(N * I), 6, 1.0f),
             more = acts(p, (size_t)(N * I), 7, 1);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            be->ops->matmul_forward(be, out.at[side], x.at[side], w.handle[side], N, O,
                                    I);
            be->ops->matmul_dx(be, dx.at[side], dout.at[side], w.handle[side], N, O, I,
                               false);
            be->ops->matmul_dx(be, more.at[side], dout.at[side], w.handle[side], N, O,
                               I, true);
            be->ops->matmul_dw(be, dw.at[side], dout.at[side], x.at[side], N, O, I,
                               true);
            be->ops->matmul_dw(be, first.at[side], dout.at[side], x.at[side], N, O, I,
                               false);
        }
        expect_same(p, &out, "matmul_forward", s, 3);
        expect_same(p, &dx, "matmul_dx", s, 3);
        expect_same(p, &more, "matmul_dx accumulating", s, 3);
        expect_same(p, &dw, "matmul_dw accumulating", s, 3);
        expect_same(p, &first, "matmul_dw", s, 3);
        drop(p, &x), drop(p, &dout);
        drop_weight(p, &w);
    }
}

PAIR_TEST(a_refreshed_weight_is_the_new_master)
{
    enum { N = 9, O = 40, I = 24 };
    const int extents[] = {N, O, I};
    twin_weight w = make_weight(p, O, I, 1, 0.1f);
    twin other = floats(p, O * I, 77, 0.1f);
    twin x = acts(p, N * I, 2, 1.0f), out = acts(p, N * O, 4, 1.0f);
    for (int side = 0; side < 2; side++) {
        pl_backend *be = p->be[side];
        OWNED(free_memory) float *host = read_back(p, &other, side);
        be->ops->upload(be, w.master.at[side], host, O * I * sizeof *host);
        be->ops->weights_refresh(be, &w.handle[side], 1);
        be->ops->matmul_forward(be, out.at[side], x.at[side], w.handle[side], N, O, I);
    }
    expect_same(p, &out, "matmul_forward after refresh", extents, 3);
    drop(p, &other), drop(p, &x);
    drop_weight(p, &w);
}

/* ---- rope and attention ---- */

static const int attention_shapes[][5] = {
    /* rows B, tokens T, heads H, heads of keys and values G, elements of a head D */
    {1, 1, 1, 1, 16},    {2, 37, 4, 2, 32},  {1, 128, 4, 4, 32}, {2, 65, 3, 1, 64},
    {1, 37, 4, 2, 128},  {3, 16, 6, 3, 16},  {1, 450, 2, 1, 64}, {2, 1, 4, 2, 32},
    {1, 70, 2, 1, 96},   {1, 70, 2, 1, 80},  {1, 35, 3, 1, 34},  {2, 20, 20, 1, 16},
    {1, 260, 1, 1, 128}, {1, 150, 2, 1, 40},
};

/* Divides B rows of T tokens into texts of random lengths, 1 to `longest`. at[side]
 * [B,T] has, for each token, the position in the row at which its text begins. */
typedef struct text_places {
    int longest; /* 0: each row is one text, and at[] is NULL */
    int32_t *at[2];
} text_places;

static const int longest_texts[] = {0, 9, 90};

static text_places place_texts(const pair *p, int B, int T, int longest)
{
    text_places x = {.longest = longest};
    OWNED(free_memory) int32_t *host = pl_alloc((size_t)(B * T) * sizeof *host);
    uint64_t drawn = 0;
    for (int b = 0; b < B && longest > 0; b++)
        for (int t = 0, begin = 0, left = 0; t < T; t++, left--) {
            if (left == 0) {
                begin = t;
                left = 1 + (int)(pl_random_u32(3, 4, drawn++) % (uint32_t)longest);
            }
            host[b * T + t] = begin;
        }
    for (int side = 0; side < 2 && longest > 0; side++) {
        size_t bytes = (size_t)(B * T) * sizeof *host;
        x.at[side] = new_buffer(p->be[side], bytes);
        p->be[side]->ops->upload(p->be[side], x.at[side], host, bytes);
    }
    return x;
}

static void drop_texts(const pair *p, const text_places *x)
{
    for (int side = 0; side < 2 && x->longest > 0; side++)
        p->be[side]->ops->release(p->be[side], x->at[side]);
}

static void check_rope_of(const pair *p, const int *s, int longest, int start)
{
    size_t n = (size_t)(s[0] * s[1] * (s[2] + 2 * s[3]) * s[4]);
    twin there = acts(p, n, 1, 1.0f), back = acts(p, n, 2, 1.0f);
    text_places texts = place_texts(p, s[0], s[1], longest);
    for (int side = 0; side < 2; side++) {
        pl_backend *be = p->be[side];
        be->ops->rope(be, there.at[side], texts.at[side], s[0], s[1], s[2], s[3], s[4],
                      10000.0, start, 1);
        be->ops->rope(be, back.at[side], texts.at[side], s[0], s[1], s[2], s[3], s[4],
                      10000.0, 0, -1);
    }
    expect_same(p, &there, "rope", s, 5);
    expect_same(p, &back, "inverse rope", s, 5);
    drop_texts(p, &texts);
}

PAIR_TEST(rope_agrees_with_ref)
{
    for (int i = 0; i < COUNT(attention_shapes); i++)
        for (int k = 0; k < COUNT(longest_texts); k++)
            check_rope_of(p, attention_shapes[i], longest_texts[k], i * 100);
}

static void check_attention_of(const pair *p, const int *s, int longest)
{
    int B = s[0], T = s[1], H = s[2], G = s[3], D = s[4];
    size_t n_qkv = (size_t)(B * T * (H + 2 * G) * D), n_out = (size_t)(B * T * H * D);
    twin qkv = acts(p, n_qkv, 1, 1.0f), dqkv = acts(p, n_qkv, 2, 1.0f);
    twin out = acts(p, n_out, 3, 1.0f), dout = acts(p, n_out, 4, 1.0f);
    twin lse = floats(p, (size_t)(B * H * T), 5, 1.0f);
    text_places texts = place_texts(p, B, T, longest);
    for (int side = 0; side < 2; side++)
        p->be[side]->ops->attention_forward(p->be[side], out.at[side], lse.at[side],
                                            qkv.at[side], texts.at[side], B, T, H, G,
                                            D);
    assert_true(twin_error(p, &lse) <= p->tolerance);
    assert_true(twin_error(p, &out) <= p->tolerance);
    copy_from_ref(p, &lse), copy_from_ref(p, &out);
    for (int side = 0; side < 2; side++)
        p->be[side]->ops->attention_backward(p->be[side], dqkv.at[side], dout.at[side],
                                             qkv.at[side], out.at[side], lse.at[side],
                                             texts.at[side], B, T, H, G, D, 1e4);
    expect_same(p, &dqkv, "attention_backward", s, 5);
    drop(p, &qkv), drop(p, &out), drop(p, &dout), drop(p, &lse);
    drop_texts(p, &texts);
}

PAIR_TEST(attention_agrees_with_ref)
{
    for (int i = 0; i < COUNT(attention_shapes); i++)
        for (int k = 0; k < COUNT(longest_texts); k++)
            check_attention_of(p, attention_shapes[i], longest_texts[k]);
}

/* Tests decoding with sequences whose slots are in reverse order. */
PAIR_TEST(decoding_agrees_with_ref)
{
    for (int i = 0; i < COUNT(attention_shapes); i++) {
        const int *s = attention_shapes[i];
        int B = s[0], S = s[1], H = s[2], G = s[3], D = s[4];
        size_t cache = (size_t)(B * S * G * D);
        twin qkv = acts(p, (size_t)(B * (H + 2 * G) * D), 1, 1.0f);
        twin keys = acts(p, cache, 2, 1.0f), values = acts(p, cache, 3, 1.0f);
        twin out = acts(p, (size_t)(B * H * D), 4, 1.0f);
        int32_t places[2][3] = {{B - 1, B - 2, B - 3}, {S - 1, S / 2, 0}};
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            int32_t *device = new_buffer(be, sizeof places);
            be->ops->upload(be, device, places, sizeof places);
            be->ops->decode_append(be, qkv.at[side], keys.at[side], values.at[side],
                                   device, device + 3, B, S, H, G, D, 1e4);
            be->ops->attention_decode(be, out.at[side], qkv.at[side], keys.at[side],
                                      values.at[side], device, device + 3, B, S, H, G,
                                      D);
            assert_ok(be->ops->sync(be));
            be->ops->release(be, device);
        }
        expect_same(p, &out, "attention_decode", s, 5);
        expect_same(p, &keys, "the keys of decode_append", s, 5);
        expect_same(p, &values, "the values of decode_append", s, 5);
        drop(p, &qkv);
    }
}

/* ---- rows in another order ---- */
PAIR_TEST(rows_in_another_order_agree_with_ref)
{
    static const int shapes[][2] = {{1, 3}, {5, 64}, {64, 33}, {7, 300}};
    for (int i = 0; i < COUNT(shapes); i++) {
        const int N = shapes[i][0], C = shapes[i][1];
        twin x = acts(p, (size_t)(N * C), 1, 1.0f);
        twin scratch = acts(p, (size_t)(N * C), 2, 1.0f);
        int32_t order[64];
        for (int n = 0; n < N; n++)
            /* No N is a multiple of 3, so this is a permutation of the rows. */
            order[n] = (n * 3 + 1) % N;
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            int32_t *device = new_buffer(be, sizeof order);
            be->ops->upload(be, device, order, sizeof order);
            be->ops->permute_rows(be, x.at[side], scratch.at[side], device, N, C);
            assert_ok(be->ops->sync(be));
            be->ops->release(be, device);
        }
        expect_same(p, &x, "permute_rows", shapes[i], 2);
        drop(p, &scratch);
    }
}

/* Tests ref alone: after the call, row n must be the earlier row order[n]. */
PL_TEST(a_row_goes_where_the_order_says)
{
    OWNED(pl_backend_close) pl_backend *ref = open_side("ref", "f32", 1);
    float x[] = {1, 2, 3, 4, 5, 6}, scratch[6];
    const float wanted[] = {5, 6, 1, 2, 3, 4};
    const int32_t order[] = {2, 0, 1};
    ref->ops->permute_rows(ref, (pl_act *)(void *)x, (pl_act *)(void *)scratch, order,
                           3, 2);
    assert_memory_equal(x, wanted, sizeof x);
}

/* ---- feed-forward ---- */

PAIR_TEST(swiglu_agrees_with_ref)
{
    static const int shapes[][2] = {{1, 1}, {3, 7}, {37, 344}, {8, 2368}, {5, 1003}};
    for (int i = 0; i < COUNT(shapes); i++) {
        int N = shapes[i][0], F = shapes[i][1];
        twin gu = acts(p, (size_t)(N * 2 * F), 1, 3.0f);
        twin out = acts(p, (size_t)(N * F), 2, 1.0f);
        twin dgu = acts(p, (size_t)(N * 2 * F), 3, 1.0f);
        twin dout = acts(p, (size_t)(N * F), 4, 1.0f);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            be->ops->swiglu_forward(be, out.at[side], gu.at[side], N, F);
            be->ops->swiglu_backward(be, dgu.at[side], dout.at[side], gu.at[side], N,
                                     F);
        }
        expect_same(p, &out, "swiglu_forward", shapes[i], 2);
        expect_same(p, &dgu, "swiglu_backward", shapes[i], 2);
        drop(p, &gu), drop(p, &dout);
    }
}

/* ---- classifier ---- */

static const int classifier_shapes[][3] = {
    /* positions N, tokens of the vocabulary V, columns C */
    {1, 2, 4},      {5, 1003, 64}, {37, 2048, 128}, {130, 257, 33},
    {3, 1003, 127}, {2, 8200, 8},  {3, 8195, 8}};

static void classify(const pair *p, int side, const twin *loss, const twin *dx,
                     const twin *dw, const twin *x, const twin_weight *w, const int *s,
                     bool accumulate)
{
    pl_backend *be = p->be[side];
    int N = s[0], V = s[1], C = s[2];
    OWNED(free_memory) int32_t *targets = calloc((size_t)N, sizeof *targets);
    for (int n = 0; n < N; n++)
        targets[n] = n % 4 == 3 ? -1 : (n * 7919 + V - 1) % V;
    void *device = new_buffer(be, (size_t)N * sizeof *targets);
    be->ops->upload(be, device, targets, (size_t)N * sizeof *targets);
    const float eighth = 0.125f;
    void *scale = new_buffer(be, sizeof eighth);
    be->ops->upload(be, scale, &eighth, sizeof eighth);
    be->ops->classifier(be, loss->at[side], dx ? dx->at[side] : NULL,
                        dw ? dw->at[side] : NULL, x->at[side], w->handle[side], device,
                        dx ? scale : NULL, N, V, C, accumulate);
    assert_ok(be->ops->sync(be));
    be->ops->release(be, device);
    be->ops->release(be, scale);
}

PAIR_TEST(classifier_agrees_with_ref)
{
    for (int i = 0; i < COUNT(classifier_shapes); i++) {
        const int *s = classifier_shapes[i];
        int N = s[0], V = s[1], C = s[2];
        twin_weight w = make_weight(p, V, C, 1, 0.1f);
        twin x = acts(p, (size_t)(N * C), 2, 1.0f),
             dx = acts(p, (size_t)(N * C), 3, 1.0f);
        twin dw = floats(p, (size_t)(V * C), 4, 0.01f),
             first = floats(p, (size_t)(V * C), 8, 0.01f);
        twin loss = floats(p, (size_t)N, 5, 1.0f),
             alone = floats(p, (size_t)N, 6, 1.0f);
        twin logits = floats(p, (size_t)(N * V), 7, 1.0f);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            classify(p, side, &loss, &dx, &first, &x, &w, s, false);
            classify(p, side, &loss, &dx, &dw, &x, &w, s, true);
            classify(p, side, &alone, NULL, NULL, &x, &w, s, false);
            be->ops->logits(be, logits.at[side], x.at[side], w.handle[side], N, V, C);
        }
        expect_same(p, &loss, "classifier loss", s, 3);
        expect_same(p, &alone, "classifier loss without gradients", s, 3);
        expect_same(p, &dx, "classifier dx", s, 3);
        expect_same(p, &dw, "classifier dw accumulating", s, 3);
        expect_same(p, &first, "classifier dw", s, 3);
        expect_same(p, &logits, "logits", s, 3);
        drop(p, &x);
        drop_weight(p, &w);
    }
}

/* ---- optimizer ---- */

PAIR_TEST(optimizer_agrees_with_ref)
{
    static const int sizes[][1] = {{1}, {1000}, {100003}};
    /* the optimizer computes in fp32 in every precision */
    pair strict = *p;
    strict.tolerance = p->tolerance > 0.0 ? 1e-10 : 0.0;
    for (int i = 0; i < COUNT(sizes); i++) {
        size_t n = (size_t)sizes[i][0];
        twin param = floats(p, n, 1, 1.0f), m = floats(p, n, 2, 0.1f);
        twin v = floats(p, n, 3, 0.0f), g = floats(p, n, 4, 1.0f);
        double sum[2];
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            void *device = new_buffer(be, sizeof(double));
            be->ops->sum_squares(be, device, g.at[side], n);
            be->ops->download(be, &sum[side], device, sizeof(double));
            pl_adamw adam = {.lr = 1e-2f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-8f,
                             .weight_decay = 0.1f,
                             .step = 7};
            be->ops->adamw(be, param.at[side], m.at[side], v.at[side], g.at[side], n,
                           0.5f, &adam, NULL);
            assert_ok(be->ops->sync(be));
            be->ops->release(be, device);
        }
        assert_true(fabs(sum[1] / sum[0] - 1.0) < 1e-6);
        expect_same(&strict, &param, "adamw p", sizes[i], 1);
        expect_same(&strict, &m, "adamw m", sizes[i], 1);
        expect_same(&strict, &v, "adamw v", sizes[i], 1);
        OWNED(free_memory) float *zeros = read_back(p, &g, 1);
        for (size_t k = 0; k < n; k++)
            assert_true(zeros[k] == 0.0f);
        drop(p, &g);
    }
}
