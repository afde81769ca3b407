/* The backward pass of causal attention, over blocks of QB queries and KB keys:
 *
 *   P  = e^(scale S - lse)     dP    = dout V^T
 *   dS = P (dP - delta)        delta = sum_d dout out
 *   dQ = scale dS K            dK   += scale dS^T Q        dV += P^T dout
 *
 * P is recomputed once, from lse (as in arXiv:2205.14135). As in attention_cpu.c, a
 * task is one row of the batch and one kv head. */
#include "modules/cpu/causal.h"

/* causal.h explains the sizes. */
typedef struct backward {
    shape s;
    pl_act *dqkv;
    const pl_act *dout, *qkv, *out;
    const float *lse;
    const int32_t *texts;            /* [B,T], or NULL */
    char *keys, *values, *key_pairs; /* [Tp, Dw]; pairs [Tp/2, Dp] */
    char *q_rows, *dout_rows;        /* [QB, Dw] */
    char *q_turned, *dout_turned;    /* [Dw, QB] */
    char *q_pairs, *dout_pairs;      /* [QB/2, Dp] */
    char *p, *ds, *ds_pairs;         /* [KB, QB] activations; pairs [KB/2, QB] words */
    float *dq, *dk, *dv;             /* [QB, Dp]; dk and dv [Tp, Dp] */
    float delta[QB], row_lse[QB];    /* per query; row_lse is a base-2 logarithm */
} backward;

/* Places the buffers in the memory at `base`, and returns their size in bytes; if base
 * is NULL, only counts the bytes. */
static size_t backward_carve(backward *w, char *base)
{
    const shape *s = &w->s;
    size_t used = 0;
    w->keys = carve(base, &used, words_bytes(s->Tp, s->Dw));
    w->values = carve(base, &used, words_bytes(s->Tp, s->Dw));
    w->key_pairs = carve(base, &used, pairs_bytes(s, s->Tp));
    w->q_rows = carve(base, &used, words_bytes(QB, s->Dw));
    w->dout_rows = carve(base, &used, words_bytes(QB, s->Dw));
    w->q_turned = carve(base, &used, words_bytes(QB, s->Dw));
    w->dout_turned = carve(base, &used, words_bytes(QB, s->Dw));
    w->q_pairs = carve(base, &used, pairs_bytes(s, QB));
    w->dout_pairs = carve(base, &used, pairs_bytes(s, QB));
    w->p = carve(base, &used, words_bytes(KB, QB));
    w->ds = carve(base, &used, words_bytes(KB, QB));
    w->ds_pairs = carve(base, &used, words_bytes(KB, QB));
    w->dq = carve(base, &used, words_bytes(QB, s->Dp));
    w->dk = carve(base, &used, words_bytes(s->Tp, s->Dp));
    w->dv = carve(base, &used, words_bytes(s->Tp, s->Dp));
    if (s->type == PL_F32)
        w->ds_pairs = w->ds;
    return used;
}

/* ---- P and dS ---- */

/* Replaces the scores of MR keys, from k on, by P. */
ALWAYS_INLINE void p_tile(const backward *w, const panel *p, int k, vfloat sum[MR][2],
                          const int first, const pl_type type)
{
    const float scale = w->s.scale * LOG2_E;
    for (int v = first; v < 2; v++) {
        const int q = p->q + v * LANES;
        const vfloat lse = v_load(w->row_lse + q);
        for (int m = 0; m < MR; m++) {
            vfloat e = v_exp2(sum[m][v - first] * scale - lse);
            if (is_masked(p, k))
                e = v_keep(e, seen_lanes(p, k + m, v));
            sum[m][v - first] = e;
            v_store_act((pl_act *)(void *)w->p, (size_t)((k + m) * QB + q), e, LANES,
                        type);
        }
    }
}

/* Computes dS of MR keys and, in bf16, its pairs. dQ and dK are multiplied by `scale`
 * when they are stored. */
ALWAYS_INLINE void ds_tile(const backward *w, const panel *p, int k, vfloat prob[MR][2],
                           vfloat sum[MR][2], const int first, const pl_type type)
{
    for (int v = first; v < 2; v++) {
        const int q = p->q + v * LANES;
        const vfloat delta = v_load(w->delta + q);
        for (int m = 0; m < MR; m++) {
            sum[m][v - first] = prob[m][v - first] * (sum[m][v - first] - delta);
            v_store_act((pl_act *)(void *)w->ds, (size_t)((k + m) * QB + q),
                        sum[m][v - first], LANES, type);
        }
        for (int m = 0; m < MR && type == PL_BF16; m += 2) {
            const vfloat pair = pair_words(sum[m][v - first], sum[m + 1][v - first]);
            memcpy(w->ds_pairs + ((k + m) / 2 * QB + q) * WORD, &pair, sizeof pair);
        }
    }
}

ALWAYS_INLINE void grad_tile(const backward *w, const panel *p, int j0, int k,
                             const int first, const pl_type type)
{
    vfloat prob[MR][2], sum[MR][2];
    const shape *s = &w->s;
    const size_t row = (size_t)s->Dw * WORD, at = (size_t)(j0 + k) * row;
    const int lanes = (p->q + first * LANES) * WORD, words = words_of(s->D, type);
    tile_clear(prob);
    tile_sums(prob, w->keys + at, row, WORD, w->q_turned + lanes, QB * WORD, words,
              2 - first, type);
    p_tile(w, p, k, prob, first, type);
    tile_clear(sum);
    tile_sums(sum, w->values + at, row, WORD, w->dout_turned + lanes, QB * WORD, words,
              2 - first, type);
    ds_tile(w, p, k, prob, sum, first, type);
}

ALWAYS_INLINE void grad_scores(const backward *w, int i0, int j0, int n_rows,
                               const pl_type type)
{
    for (int q = 0; q < n_rows; q += NR) {
        const panel p = make_panel(&w->s, i0, q, j0);
        for (int k = 0; k < p.n_keys; k += MR)
            if (is_half(&p, k))
                grad_tile(w, &p, j0, k, 1, type);
            else
                grad_tile(w, &p, j0, k, 0, type);
    }
}

/* ---- products ---- */

/* Stores the sums of a tile in c [MR, n_vecs vectors] or, with `add`, adds them to
 * c. */
ALWAYS_INLINE void add_tile(float *c, size_t stride, vfloat sum[MR][2], bool add,
                            const int n_vecs)
{
    for (int m = 0; m < MR; m++, c += stride)
        for (int v = 0; v < n_vecs; v++)
            v_store(c + v * LANES, add ? v_load(c + v * LANES) + sum[m][v] : sum[m][v]);
}

/* Computes dQ of MR queries from q on. */
ALWAYS_INLINE void dq_tile(const backward *w, int q, int j0, int d, int n_keys,
                           const int n_vecs, const pl_type type)
{
    const size_t Dp = (size_t)w->s.Dp;
    vfloat sum[MR][2];
    tile_clear(sum);
    tile_sums(sum, w->ds_pairs + q * WORD, WORD, QB * WORD,
              w->key_pairs + ((size_t)words_of(j0, type) * Dp + (size_t)d) * WORD,
              Dp * WORD, words_of(n_keys, type), n_vecs, type);
    add_tile(w->dq + (size_t)q * Dp + (size_t)d, Dp, sum, j0 > 0, n_vecs);
}

/* Adds the contribution of queries q .. end-1 to dV or dK of the MR keys from key k
 * on. */
ALWAYS_INLINE void dkv_tile(const backward *w, float *out, const char *a, const char *b,
                            int k, int d, int q, int end, const int n_vecs,
                            const pl_type type)
{
    const size_t Dp = (size_t)w->s.Dp, element = pl_type_bytes(type);
    vfloat sum[MR][2];
    tile_clear(sum);
    tile_sums(sum, a + (size_t)(k * QB + q) * element, QB * element, WORD,
              b + ((size_t)words_of(q, type) * Dp + (size_t)d) * WORD, Dp * WORD,
              words_of(end - q, type), n_vecs, type);
    add_tile(out + (size_t)k * Dp + (size_t)d, Dp, sum, true, n_vecs);
}

ALWAYS_INLINE void add_dq(const backward *w, int i0, int j0, int n_rows, int left,
                          const pl_type type)
{
    const shape *s = &w->s;
    for (int d = 0; d < s->Dp; d += NR)
        for (int q = 0; q < n_rows; q += MR) {
            const int seen = i0 + q + MR - j0, n_keys = seen < left ? seen : left;
            if (d + LANES < s->Dp)
                dq_tile(w, q, j0, d, n_keys, 2, type);
            else
                dq_tile(w, q, j0, d, n_keys, 1, type);
        }
}

ALWAYS_INLINE void add_dkv(const backward *w, float *out, const char *a, const char *b,
                           int i0, int j0, int n_rows, int left, const pl_type type)
{
    const shape *s = &w->s;
    const int end = whole_tiles(n_rows);
    out += (size_t)j0 * (size_t)s->Dp;
    for (int d = 0; d < s->Dp; d += NR)
        for (int k = 0; k < left; k += MR) {
            const int q = j0 + k > i0 ? j0 + k - i0 : 0;
            if (d + LANES < s->Dp)
                dkv_tile(w, out, a, b, k, d, q, end, 2, type);
            else
                dkv_tile(w, out, a, b, k, d, q, end, 1, type);
        }
}

/* ---- blocks and tasks ---- */

ALWAYS_INLINE void backward_keys(const backward *w, int i0, int n_rows,
                                 const pl_type type)
{
    for (int j0 = 0; j0 <= i0; j0 += KB) {
        const int left = whole_tiles(w->s.T - j0 < KB ? w->s.T - j0 : KB);
        grad_scores(w, i0, j0, n_rows, type);
        add_dq(w, i0, j0, n_rows, left, type);
        add_dkv(w, w->dv, w->p, w->dout_pairs, i0, j0, n_rows, left, type);
        add_dkv(w, w->dk, w->ds, w->q_pairs, i0, j0, n_rows, left, type);
    }
}

/* Stores a float matrix [n_rows, Dp], times `scale`, at n_rows positions of a head. */
static void store_rows(const backward *w, size_t at, const float *x, float scale,
                       int n_rows)
{
    const shape *s = &w->s;
    for (int r = 0; r < n_rows; r++, at += s->stride, x += s->Dp)
        for (int d = 0; d < s->D; d += LANES)
            v_store_act(w->dqkv, at + (size_t)d, v_load(x + d) * scale, v_left(d, s->D),
                        s->type);
}

/* Computes a block of queries of one head with all keys that they see. Rows from T on
 * are 0, also in dout. So dS is 0 there, and P, which is not 0 there, is multiplied
 * only by zeros. */
static void backward_block(backward *w, int h, int i0)
{
    const shape *s = &w->s;
    const size_t at = head_at(s, h), stride = out_stride(s);
    const float *lse = w->lse + (size_t)h * (size_t)s->row;
    const int n_rows = s->T - i0 < QB ? s->T - i0 : QB;
    copy_rows(s, w->q_rows, w->qkv, head_at(s, h), s->stride, i0, QB);
    copy_rows(s, w->dout_rows, w->dout, at, stride, i0, QB);
    turn_rows(s, w->q_turned, w->q_rows);
    turn_rows(s, w->dout_turned, w->dout_rows);
    w->q_pairs = pair_rows(s, w->q_pairs, w->q_rows, QB);
    w->dout_pairs = pair_rows(s, w->dout_pairs, w->dout_rows, QB);
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
    if (s->type == PL_BF16)
        backward_keys(w, i0, n_rows, PL_BF16);
    else
        backward_keys(w, i0, n_rows, PL_F32);
    store_rows(w, head_at(s, h) + (size_t)i0 * s->stride, w->dq, s->scale, n_rows);
}

static void backward_task(const backward *w, int b, int g)
{
    const int group = w->s.H / w->s.G;
    const size_t row = (size_t)b * (size_t)w->s.T;
    const int32_t *texts = w->texts != NULL ? w->texts + row : NULL;
    for (int begin = 0, end; begin < w->s.T; begin = end) {
        const size_t at = row + (size_t)begin;
        backward text = *w;
        const shape *s = &text.s;
        end = text_end(texts, w->s.T, begin);
        text.s = text_shape(&w->s, end - begin);
        text.dqkv = act_at(w->dqkv, at * s->stride, s->type);
        text.qkv = act_in(w->qkv, at * s->stride, s->type);
        text.dout = act_in(w->dout, at * out_stride(s), s->type);
        text.out = act_in(w->out, at * out_stride(s), s->type);
        text.lse = w->lse + row * (size_t)s->H + (size_t)begin;

        const size_t k_at = head_at(s, s->H + g);
        const size_t v_at = head_at(s, s->H + s->G + g);
        copy_rows(s, text.keys, text.qkv, k_at, s->stride, 0, s->Tp);
        copy_rows(s, text.values, text.qkv, v_at, s->stride, 0, s->Tp);
        text.key_pairs = pair_rows(s, text.key_pairs, text.keys, s->Tp);
        memset(text.dk, 0, words_bytes(s->Tp, s->Dp));
        memset(text.dv, 0, words_bytes(s->Tp, s->Dp));
        for (int h = g * group; h < (g + 1) * group; h++)
            for (int i0 = 0; i0 < s->T; i0 += QB)
                backward_block(&text, h, i0);
        store_rows(&text, k_at, text.dk, s->scale, s->T);
        store_rows(&text, v_at, text.dv, 1.0f, s->T);
    }
}

void OP(attention_backward)(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                            const pl_act *qkv, const pl_act *out, const float *lse,
                            const int32_t *texts, int B, int T, int H, int G, int D,
                            double theta)
{
    const shape s = make_shape(be->act, B, T, H, G, D);
    const int n_threads = be->n_threads, n_tasks = B * G;
    backward planned = {.s = s};
    const size_t part = backward_carve(&planned, NULL);
    char *scratch = cpu_scratch(cpu_self(be), part * (size_t)n_threads);
    if (scratch == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n_threads))
    for (int i = 0; i < n_threads; i++)
        for (int task = i; task < n_tasks; task += n_threads) {
            backward w = {.s = s, .dqkv = dqkv, .dout = dout, .qkv = qkv};
            w.out = out;
            w.lse = lse;
            w.texts = texts;
            (void)backward_carve(&w, scratch + (size_t)i * part);
            backward_task(&w, task / G, task % G);
        }
    OP(rope)(be, dqkv, texts, B, T, H, G, D, theta, 0, -1);
}
