/* Causal attention, fused: scores never leave the cache.
 *
 * A task is one sequence and one kv head with the H/G query heads that read it: its
 * keys and values are packed once. Queries go in blocks of QB rows against the keys up
 * to the block's last row, so that what lies right of the diagonal is skipped.
 *
 *   forward    S = Q K^T,  P = softmax(scale S),  out = P V,  lse = log sum e^(scale S)
 *   backward   P = e^(scale S - lse),  dP = dout V^T,  delta = sum_d dout out
 *              dS = P (dP - delta)
 *              dQ = scale dS K,  dK += scale dS^T Q,  dV += P^T dout
 *
 * The backward pass recomputes P from lse (as in arXiv:2205.14135). Tasks share
 * nothing, so that results do not depend on the number of threads.
 */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/product.h"

enum { QB = 32, KB = 128 }; /* queries, and in the backward pass keys, at a time */

typedef struct shape {
    pl_type type;
    int B, T, H, G, D;
    int Tp, Dp;    /* T padded to blocks of queries, D to panels */
    int Dw;        /* words of a row of D elements */
    size_t stride; /* elements from a position to the next in qkv */
    float scale;
} shape;

static shape make_shape(pl_type type, int B, int T, int H, int G, int D)
{
    return (shape){.type = type,
                   .B = B,
                   .T = T,
                   .H = H,
                   .G = G,
                   .D = D,
                   .Tp = (T + QB - 1) / QB * QB,
                   .Dp = (D + NR - 1) / NR * NR,
                   .Dw = words_of(D, type),
                   .stride = (size_t)(H + 2 * G) * (size_t)D,
                   .scale = 1.0f / sqrtf((float)D)};
}

/* First element of position 0 of a head of qkv; k heads follow the H query heads. */
static size_t head_at(const shape *s, int b, int head)
{
    return (size_t)b * (size_t)s->T * s->stride + (size_t)head * (size_t)s->D;
}
/* The same in out and dout [B,T,H*D]. */
static size_t out_at(const shape *s, int b, int t, int h)
{
    return (((size_t)b * (size_t)s->T + (size_t)t) * (size_t)s->H + (size_t)h) *
           (size_t)s->D;
}
static size_t out_stride(const shape *s)
{
    return (size_t)s->H * (size_t)s->D;
}

/* Parts of a task's scratch, in bytes. */
static size_t rows_bytes(const shape *s)
{
    return cpu_lines((size_t)s->Tp * (size_t)s->Dw * WORD);
}
static size_t cols_bytes(const shape *s, int n_rows)
{
    return cpu_lines((size_t)words_of(n_rows, s->type) * (size_t)s->Dp * WORD);
}
static size_t float_bytes(int rows, int cols)
{
    return cpu_lines((size_t)rows * (size_t)cols * sizeof(float));
}
static size_t block_bytes(const shape *s)
{
    return cpu_lines((size_t)QB * (size_t)s->Dw * WORD);
}

/* Carves a part off the scratch. */
static void *carve(char **at, size_t bytes)
{
    void *part = *at;
    *at += bytes;
    return part;
}

/* Rows i0 .. i0+QB of a head, side by side; rows from T on are zero. */
static void copy_block(const shape *s, pl_act *out, const pl_act *x, size_t at,
                       size_t stride, int i0)
{
    const size_t row_bytes = stride * pl_type_bytes(s->type);
    const char *from = (const char *)act_in(x, at + (size_t)i0 * stride, s->type);
    float *to = (float *)(void *)out;
    for (int r = 0; r < QB; r++, from += row_bytes, to += s->Dw)
        for (int k = 0; k < s->Dw; k += LANES) {
            const int left = v_left(k, s->Dw);
            vfloat words = {0};
            if (i0 + r < s->T)
                words = load_words_n(from + k * WORD, left);
            v_store_n(to + k, words, left);
        }
}

ALWAYS_INLINE void store_row(pl_act *out, size_t to, const float *x, float factor,
                             int D, const pl_type type)
{
    for (int d = 0; d < D; d += LANES)
        v_store_act(out, to + (size_t)d, v_load(x + d) * factor, v_left(d, D), type);
}

/* Rows of a float matrix [n_rows, Dp] to n_rows positions of a head, times `scale` and,
 * where given, times each row's own factor. */
static void store_rows(const shape *s, pl_act *out, size_t at, size_t stride,
                       const float *x, float scale, const float *factors, int n_rows)
{
    for (int r = 0; r < n_rows; r++, at += stride, x += s->Dp) {
        const float factor = factors != NULL ? factors[r] * scale : scale;
        if (s->type == PL_BF16)
            store_row(out, at, x, factor, s->D, PL_BF16);
        else
            store_row(out, at, x, factor, s->D, PL_F32);
    }
}

/* ---- forward ---- */

typedef struct forward {
    shape s;
    pl_act *out;
    float *lse;
    const pl_act *qkv;
    void *keys, *values; /* packed by rows, by columns */
    void *q, *p;         /* [QB, D] and [QB, Tp], activations */
    float *scores, *o;   /* [QB, Tp], [QB, Dp] */
} forward;

static size_t forward_bytes(const shape *s)
{
    return rows_bytes(s) + cols_bytes(s, s->Tp) + block_bytes(s) +
           2 * float_bytes(QB, s->Tp) + float_bytes(QB, s->Dp);
}

static void forward_carve(forward *f, char *at)
{
    const shape *s = &f->s;
    f->keys = carve(&at, rows_bytes(s));
    f->values = carve(&at, cols_bytes(s, s->Tp));
    f->q = carve(&at, block_bytes(s));
    f->scores = carve(&at, float_bytes(QB, s->Tp));
    f->p = carve(&at, float_bytes(QB, s->Tp));
    f->o = carve(&at, float_bytes(QB, s->Dp));
}

/* Row r of a block sees all columns before the block's own, and r + 1 of those QB: only
 * they need a mask. Rows from T on are zero and get finite values that nobody reads. */
static vfloat scores_max(const float *row, int i0, int r)
{
    vfloat most = v_set(-INFINITY);
    for (int j = 0; j < i0; j += LANES)
        most = v_max(most, v_load(row + j));
    for (int j = 0; j < QB; j += LANES)
        most = v_max(
            most, v_select(v_below(r + 1 - j), v_load(row + i0 + j), v_set(-INFINITY)));
    return most;
}

/* p = 2^(scale row - shift), 0 where masked; returns the sum, by lanes. */
ALWAYS_INLINE vfloat scores_exp(pl_act *p, size_t at, const float *row, float scale,
                                float shift, int i0, int r, const pl_type type)
{
    vfloat sum = {0};
    for (int j = 0; j < i0; j += LANES) {
        const vfloat e = v_exp2(v_load(row + j) * scale - shift);
        v_store_act(p, at + (size_t)j, e, LANES, type);
        sum += e;
    }
    for (int j = 0; j < QB; j += LANES) {
        const vfloat e = v_exp2(v_load(row + i0 + j) * scale - shift);
        const vfloat kept = v_keep(e, v_below(r + 1 - j));
        v_store_act(p, at + (size_t)(i0 + j), kept, LANES, type);
        sum += kept;
    }
    return sum;
}

/* Scores to unnormalised probabilities; inverse[r] is 1/sum. LANES rows together, so
 * that the sums along rows are turned into lanes at once. */
ALWAYS_INLINE void softmax_block(const forward *f, float *lse, float *inverse, int i0,
                                 const pl_type type)
{
    const shape *s = &f->s;
    const float scale = s->scale * LOG2_E;
    for (int r0 = 0; r0 < QB; r0 += LANES) {
        vfloat rows[LANES];
        float shift[LANES], sum[LANES];
        const size_t at = (size_t)r0 * (size_t)s->Tp;
        const float *row = f->scores + at;
        for (int r = 0; r < LANES; r++)
            rows[r] = scores_max(row + (size_t)r * (size_t)s->Tp, i0, r0 + r);
        v_store(shift, v_largest_rows(rows) * scale);
        for (int r = 0; r < LANES; r++) {
            const size_t step = (size_t)r * (size_t)s->Tp;
            rows[r] = scores_exp(f->p, at + step, row + step, scale, shift[r], i0,
                                 r0 + r, type);
        }
        const vfloat total = v_sum_rows(rows);
        v_store(sum, total);
        v_store(inverse + r0, 1.0f / total);
        for (int r = 0; r < LANES && i0 + r0 + r < s->T; r++)
            lse[i0 + r0 + r] = shift[r] * LN_2 + logf(sum[r]);
    }
}

static void forward_block(const forward *f, int b, int h, int i0)
{
    const shape *s = &f->s;
    const size_t element = pl_type_bytes(s->type), q_row = (size_t)s->Dw * WORD;
    const int end = i0 + QB, n_rows = s->T - i0 < QB ? s->T - i0 : QB;
    float inverse[QB];
    copy_block(s, f->q, f->qkv, head_at(s, b, h), s->stride, i0);
    const product qk = {.c = f->scores,
                        .a = f->q,
                        .b = f->keys,
                        .c_stride = (size_t)s->Tp,
                        .a_row = q_row,
                        .a_step = WORD,
                        .b_panel = (size_t)s->Dw * NR * WORD,
                        .M = QB,
                        .N = end,
                        .K = s->Dw};
    product_run(&qk, s->type);
    float *lse = f->lse + ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->T;
    if (s->type == PL_BF16)
        softmax_block(f, lse, inverse, i0, PL_BF16);
    else
        softmax_block(f, lse, inverse, i0, PL_F32);
    const product pv = {.c = f->o,
                        .a = f->p,
                        .b = f->values,
                        .c_stride = (size_t)s->Dp,
                        .a_row = (size_t)s->Tp * element,
                        .a_step = WORD,
                        .b_panel = (size_t)words_of(s->Tp, s->type) * NR * WORD,
                        .M = QB,
                        .N = s->Dp,
                        .K = words_of(end, s->type)};
    product_run(&pv, s->type);
    store_rows(s, f->out, out_at(s, b, i0, h), out_stride(s), f->o, 1.0f, inverse,
               n_rows);
}

static void forward_task(const forward *f, int b, int g)
{
    const shape *s = &f->s;
    const int group = s->H / s->G;
    pack_rows(f->keys, f->qkv, head_at(s, b, s->H + g), s->stride, s->T, s->Tp, s->Dw,
              s->type);
    pack_cols(f->values, f->qkv, head_at(s, b, s->H + s->G + g), s->stride, s->T, s->Tp,
              s->D, s->type);
    for (int h = g * group; h < (g + 1) * group; h++)
        for (int i0 = 0; i0 < s->T; i0 += QB)
            forward_block(f, b, h, i0);
}

void OP(attention_forward)(pl_backend *be, pl_act *out, float *lse, const pl_act *qkv,
                           int B, int T, int H, int G, int D)
{
    const shape s = make_shape(be->act, B, T, H, G, D);
    const int n_threads = be->n_threads, n_tasks = B * G;
    const size_t part = forward_bytes(&s);
    char *scratch = cpu_scratch(cpu_self(be), part * (size_t)n_threads);
    if (scratch == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int i = 0; i < n_threads; i++) {
        forward f = {.s = s, .out = out, .lse = lse, .qkv = qkv};
        forward_carve(&f, scratch + (size_t)i * part);
        for (int task = i; task < n_tasks; task += n_threads)
            forward_task(&f, task / G, task % G);
    }
}

/* ---- backward ---- */

typedef struct backward {
    shape s;
    pl_act *dqkv;
    const pl_act *dout, *qkv, *out;
    const float *lse;
    void *keys, *values, *keys_by_col; /* packed */
    void *q, *dout_block;              /* [QB, D] */
    void *q_by_col, *dout_by_col;      /* the same packed */
    float *scores, *dp;                /* [QB, KB] */
    void *ds, *ds_pairs, *p_pairs;     /* [QB, KB]; pairs: words [QB/2, KB] in bf16 */
    float *dq, *dk, *dv;               /* [QB, Dp], [Tp, Dp] twice */
    float delta[QB], row_lse[QB];
} backward;

static size_t backward_bytes(const shape *s)
{
    return 2 * rows_bytes(s) + cols_bytes(s, s->Tp) + 2 * block_bytes(s) +
           2 * cols_bytes(s, QB) + 5 * float_bytes(QB, KB) + float_bytes(QB, s->Dp) +
           2 * float_bytes(s->Tp, s->Dp);
}

static void backward_carve(backward *w, char *at)
{
    const shape *s = &w->s;
    w->keys = carve(&at, rows_bytes(s));
    w->values = carve(&at, rows_bytes(s));
    w->keys_by_col = carve(&at, cols_bytes(s, s->Tp));
    w->q = carve(&at, block_bytes(s));
    w->dout_block = carve(&at, block_bytes(s));
    w->q_by_col = carve(&at, cols_bytes(s, QB));
    w->dout_by_col = carve(&at, cols_bytes(s, QB));
    w->scores = carve(&at, float_bytes(QB, KB));
    w->dp = carve(&at, float_bytes(QB, KB));
    w->ds = carve(&at, float_bytes(QB, KB));
    w->ds_pairs = carve(&at, float_bytes(QB, KB));
    w->p_pairs = carve(&at, float_bytes(QB, KB));
    w->dq = carve(&at, float_bytes(QB, s->Dp));
    w->dk = carve(&at, float_bytes(s->Tp, s->Dp));
    w->dv = carve(&at, float_bytes(s->Tp, s->Dp));
}

/* Operands, delta and lse (to base 2) of the block's rows; 0 from T on, where dout is 0
 * as well. */
static void load_block(backward *w, int b, int h, int i0)
{
    const shape *s = &w->s;
    const size_t at = out_at(s, b, 0, h), stride = out_stride(s);
    const float *lse = w->lse + ((size_t)b * (size_t)s->H + (size_t)h) * (size_t)s->T;
    const size_t q_at = head_at(s, b, h);
    const int n_rows = s->T - i0 < QB ? s->T - i0 : QB;
    copy_block(s, w->q, w->qkv, q_at, s->stride, i0);
    copy_block(s, w->dout_block, w->dout, at, stride, i0);
    pack_cols(w->q_by_col, w->q, 0, (size_t)s->D, QB, QB, s->D, s->type);
    pack_cols(w->dout_by_col, w->dout_block, 0, (size_t)s->D, QB, QB, s->D, s->type);
    for (int r = 0; r < QB; r++) {
        vfloat sum = {0};
        const size_t row = at + (size_t)(i0 + r) * stride;
        for (int d = 0; r < n_rows && d < s->D; d += LANES) {
            const int left = v_left(d, s->D);
            sum += v_load_act(w->dout, row + (size_t)d, left, s->type) *
                   v_load_act(w->out, row + (size_t)d, left, s->type);
        }
        w->delta[r] = v_sum(sum);
        w->row_lse[r] = r < n_rows ? lse[i0 + r] * LOG2_E : 0.0f;
    }
}

/* P and dS of LANES keys of row r; the scale of dS waits until dQ and dK are stored. */
ALWAYS_INLINE vfloat grad_lanes(const backward *w, vfloat *p, int r, int j, vint keep)
{
    const size_t at = (size_t)r * KB + (size_t)j;
    const float scale = w->s.scale * LOG2_E;
    *p = v_keep(v_exp2(v_load(w->scores + at) * scale - w->row_lse[r]), keep);
    return *p * (v_load(w->dp + at) - w->delta[r]);
}

/* The same of row r, in bf16 of rows r and r + 1, to where the products want them. */
ALWAYS_INLINE void grad_word(const backward *w, int r, int j, vint keep, vint keep_next,
                             const pl_type type)
{
    const size_t at = (size_t)r * KB + (size_t)j;
    const size_t word = ((size_t)(r / word_size(type)) * KB + (size_t)j) * WORD;
    vfloat p, ds = grad_lanes(w, &p, r, j, keep);
    v_store_act(w->ds, at, ds, LANES, type);
    if (type == PL_BF16) {
        vfloat p2, ds2 = grad_lanes(w, &p2, r + 1, j, keep_next);
        v_store_act(w->ds, at + KB, ds2, LANES, type);
        ds = pair_words(ds, ds2);
        p = pair_words(p, p2);
    }
    memcpy((char *)w->p_pairs + word, &p, sizeof p);
    memcpy((char *)w->ds_pairs + word, &ds, sizeof ds);
}

/* n_keys columns, of which those from `diagonal` on are masked in part. In rows from T
 * on dout is 0, so that dS is 0 and P meets only zeros. */
ALWAYS_INLINE void grad_scores(const backward *w, int n_keys, int diagonal,
                               const pl_type type)
{
    const int n_free = diagonal < n_keys ? diagonal : n_keys;
    const vint all = v_below(LANES);
    for (int r = 0; r < QB; r += word_size(type)) {
        for (int j = 0; j < n_free; j += LANES)
            grad_word(w, r, j, all, all, type);
        for (int j = n_free; j < n_keys; j += LANES)
            grad_word(w, r, j, v_below(diagonal + r + 1 - j),
                      v_below(diagonal + r + 2 - j), type);
    }
}

/* S and dP of the block against keys j0 .. j0+n_keys. */
static void backward_scores(const backward *w, int i0, int j0, int n_keys)
{
    const shape *s = &w->s;
    const size_t panel = (size_t)s->Dw * NR * WORD;
    product job = {.c = w->scores,
                   .a = w->q,
                   .b = (const char *)w->keys + (size_t)(j0 / NR) * panel,
                   .c_stride = KB,
                   .a_row = (size_t)s->Dw * WORD,
                   .a_step = WORD,
                   .b_panel = panel,
                   .M = QB,
                   .N = n_keys,
                   .K = s->Dw};
    product_run(&job, s->type);
    job.c = w->dp;
    job.a = w->dout_block;
    job.b = (const char *)w->values + (size_t)(j0 / NR) * panel;
    product_run(&job, s->type);
    if (s->type == PL_BF16)
        grad_scores(w, n_keys, i0 - j0, PL_BF16);
    else
        grad_scores(w, n_keys, i0 - j0, PL_F32);
}

/* dQ of the block, and its part of dK and dV, from keys j0 .. j0+n_keys. */
static void backward_products(const backward *w, int j0, int n_keys)
{
    const shape *s = &w->s;
    const size_t first_word = (size_t)words_of(j0, s->type) * NR * WORD;
    const product dq = {.c = w->dq,
                        .a = w->ds,
                        .b = (const char *)w->keys_by_col + first_word,
                        .c_stride = (size_t)s->Dp,
                        .a_row = KB * pl_type_bytes(s->type),
                        .a_step = WORD,
                        .b_panel = (size_t)words_of(s->Tp, s->type) * NR * WORD,
                        .M = QB,
                        .N = s->Dp,
                        .K = words_of(n_keys, s->type),
                        .add = j0 > 0};
    product_run(&dq, s->type);
    product turned = {.c = w->dk + (size_t)j0 * (size_t)s->Dp,
                      .a = w->ds_pairs,
                      .b = w->q_by_col,
                      .c_stride = (size_t)s->Dp,
                      .a_row = WORD,
                      .a_step = KB * WORD,
                      .b_panel = (size_t)words_of(QB, s->type) * NR * WORD,
                      .M = n_keys,
                      .N = s->Dp,
                      .K = words_of(QB, s->type),
                      .add = true};
    product_run(&turned, s->type);
    turned.c = w->dv + (size_t)j0 * (size_t)s->Dp;
    turned.a = w->p_pairs;
    turned.b = w->dout_by_col;
    product_run(&turned, s->type);
}

static void backward_block(backward *w, int b, int h, int i0)
{
    const shape *s = &w->s;
    const int end = i0 + QB, n_rows = s->T - i0 < QB ? s->T - i0 : QB;
    load_block(w, b, h, i0);
    for (int j0 = 0; j0 < end; j0 += KB) {
        const int n_keys = end - j0 < KB ? end - j0 : KB;
        backward_scores(w, i0, j0, n_keys);
        backward_products(w, j0, n_keys);
    }
    store_rows(s, w->dqkv, head_at(s, b, h) + (size_t)i0 * s->stride, s->stride, w->dq,
               s->scale, NULL, n_rows);
}

static void backward_task(backward *w, int b, int g)
{
    const shape *s = &w->s;
    const int group = s->H / s->G;
    const size_t k_at = head_at(s, b, s->H + g), v_at = head_at(s, b, s->H + s->G + g);
    pack_rows(w->keys, w->qkv, k_at, s->stride, s->T, s->Tp, s->Dw, s->type);
    pack_rows(w->values, w->qkv, v_at, s->stride, s->T, s->Tp, s->Dw, s->type);
    pack_cols(w->keys_by_col, w->qkv, k_at, s->stride, s->T, s->Tp, s->D, s->type);
    memset(w->dk, 0, float_bytes(s->Tp, s->Dp));
    memset(w->dv, 0, float_bytes(s->Tp, s->Dp));
    for (int h = g * group; h < (g + 1) * group; h++)
        for (int i0 = 0; i0 < s->T; i0 += QB)
            backward_block(w, b, h, i0);
    store_rows(s, w->dqkv, k_at, s->stride, w->dk, s->scale, NULL, s->T);
    store_rows(s, w->dqkv, v_at, s->stride, w->dv, 1.0f, NULL, s->T);
}

void OP(attention_backward)(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                            const pl_act *qkv, const pl_act *out, const float *lse,
                            int B, int T, int H, int G, int D)
{
    const shape s = make_shape(be->act, B, T, H, G, D);
    const int n_threads = be->n_threads, n_tasks = B * G;
    const size_t part = backward_bytes(&s);
    char *scratch = cpu_scratch(cpu_self(be), part * (size_t)n_threads);
    if (scratch == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int i = 0; i < n_threads; i++) {
        backward w = {.s = s, .dqkv = dqkv, .dout = dout, .qkv = qkv};
        w.out = out;
        w.lse = lse;
        backward_carve(&w, scratch + (size_t)i * part);
        for (int task = i; task < n_tasks; task += n_threads)
            backward_task(&w, task / G, task % G);
    }
}
