/* Causal attention. Scores are computed in blocks that stay in the cache, and are never
 * stored as a whole.
 *
 *   S = scale Q K^T,  P = softmax(S),  out = P V,  lse = log sum e^S
 *
 * A task is one row of the batch and one kv head, with the H/G query heads that read
 * this kv head. Each text of the row is computed separately, and its keys and values
 * are copied once. A block of QB queries is multiplied with one block of KB keys after
 * another; blocks of keys after the last of these queries are skipped. If a later block
 * has a larger score, the sums so far are rescaled (as in arXiv:2205.14135). Tasks
 * share nothing, so results do not depend on the number of threads. */
#include "modules/cpu/causal.h"

/* causal.h explains the sizes. */
typedef struct forward {
    shape s;
    pl_act *out;
    float *lse;
    const pl_act *qkv;
    const int32_t *texts; /* [B,T], or NULL */
    int first;            /* position of the first row of qkv and out */
    /* [0] is for keys, [1] for values. In from[i], head g of sequence b begins at
     * element at[i] + b next_b + g D; `stride` is the distance between positions */
    const pl_act *from[2];
    size_t at[2], next_b, stride;
    char *keys, *values, *value_pairs; /* [Tp, Dw]; pairs [Tp/2, Dp] */
    char *q_rows, *q_turned;           /* [QB, Dw], [Dw, QB] */
    /* [KB, QB] scores, later P; in bf16, P is stored in pairs of keys */
    float *scores;
    float *o; /* [QB, Dp] */
    /* for each query, over the keys so far: the largest score times log2 e, and the sum
     * of the exponentials relative to it */
    float most[QB], sum[QB];
    /* for each query: the factor by which earlier sums are rescaled; at the end,
     * 1/sum */
    float factor[QB], inverse[QB];
} forward;

/* Places the buffers in the memory at `base`, and returns their size in bytes; if base
 * is NULL, only counts the bytes. */
static size_t forward_carve(forward *f, char *base)
{
    const shape *s = &f->s;
    size_t used = 0;
    f->keys = carve(base, &used, words_bytes(s->Tp, s->Dw));
    f->values = carve(base, &used, words_bytes(s->Tp, s->Dw));
    f->value_pairs = carve(base, &used, pairs_bytes(s, s->Tp));
    f->q_rows = carve(base, &used, words_bytes(QB, s->Dw));
    f->q_turned = carve(base, &used, words_bytes(QB, s->Dw));
    f->scores = carve(base, &used, words_bytes(KB, QB));
    f->o = carve(base, &used, words_bytes(QB, s->Dp));
    return used;
}

/* ---- scores ---- */

/* Computes the scores of MR keys, from k on, for the queries of a panel: for both of
 * its vectors, or only for the second one if `first` is 1. `top` gets each query's
 * largest score. */
ALWAYS_INLINE void score_tile(const forward *f, const panel *p, const char *keys, int k,
                              vfloat top[2], const int first, const pl_type type)
{
    vfloat sum[MR][2];
    const size_t row = (size_t)f->s.Dw * WORD;
    const int at = p->q + first * LANES;
    tile_clear(sum);
    tile_sums(sum, keys + (size_t)k * row, row, WORD, f->q_turned + at * WORD,
              QB * WORD, words_of(f->s.D, type), 2 - first, type);
    for (int m = 0; m < MR; m++)
        for (int v = first; v < 2; v++) {
            const vfloat score = sum[m][v - first];
            v_store(f->scores + (k + m) * QB + p->q + v * LANES, score);
            if (is_masked(p, k))
                top[v] = v_max(
                    top[v], v_select(seen_lanes(p, k + m, v), score, v_set(-INFINITY)));
            else
                top[v] = v_max(top[v], score);
        }
}

/* Returns the exponentials of the scores of LANES queries with one key; 0 for queries
 * that do not see the key. */
ALWAYS_INLINE vfloat exp_lanes(const forward *f, const panel *p, int k, int v,
                               float scale, vfloat most)
{
    const vfloat x = v_load(f->scores + k * QB + p->q + v * LANES);
    const vfloat e = v_exp2(x * scale - most);
    return is_masked(p, k / MR * MR) ? v_keep(e, seen_lanes(p, k, v)) : e;
}

/* Turns the scores of MR keys into exponentials, in place. */
ALWAYS_INLINE void exp_tile(const forward *f, const panel *p, int k,
                            const vfloat most[2], vfloat sum[2], const int first,
                            const pl_type type)
{
    const float scale = f->s.scale * LOG2_E;
    for (int m = k; m < k + MR; m += word_size(type))
        for (int v = first; v < 2; v++) {
            vfloat e = exp_lanes(f, p, m, v, scale, most[v]);
            sum[v] += e;
            if (type == PL_BF16) {
                const vfloat next = exp_lanes(f, p, m + 1, v, scale, most[v]);
                sum[v] += next;
                e = pair_words(e, next);
            }
            v_store(f->scores + m / word_size(type) * QB + p->q + v * LANES, e);
        }
}

/* Computes P for a panel of queries and the block of keys that begins at j0. P is not
 * divided by the sum yet. */
ALWAYS_INLINE void softmax_panel(forward *f, const panel *p, int j0, const pl_type type)
{
    vfloat top[2] = {v_set(-INFINITY), v_set(-INFINITY)}, most[2], sum[2];
    const char *keys = f->keys + (size_t)j0 * (size_t)f->s.Dw * WORD;
    for (int k = 0; k < p->n_keys; k += MR)
        if (is_half(p, k))
            score_tile(f, p, keys, k, top, 1, type);
        else
            score_tile(f, p, keys, k, top, 0, type);
    for (int v = 0; v < 2; v++) {
        const int at = p->q + v * LANES;
        const vfloat old = v_load(f->most + at);
        most[v] = v_max(old, top[v] * (f->s.scale * LOG2_E));
        const vfloat factor = v_exp2(old - most[v]);
        sum[v] = v_load(f->sum + at) * factor;
        v_store(f->most + at, most[v]);
        v_store(f->factor + at, factor);
    }
    for (int k = 0; k < p->n_keys; k += MR)
        if (is_half(p, k))
            exp_tile(f, p, k, most, sum, 1, type);
        else
            exp_tile(f, p, k, most, sum, 0, type);
    for (int v = 0; v < 2; v++)
        v_store(f->sum + p->q + v * LANES, sum[v]);
}

/* ---- sums of values ---- */

/* Where a block's output rows are stored: in o or, after the last block of keys, in
 * out. */
typedef struct target {
    size_t at; /* index in `out` of the block's first row */
    int n_rows;
    bool is_first, is_last;
} target;

ALWAYS_INLINE void value_tile(const forward *f, const target *t, const char *values,
                              int q, int d, int n_keys, const int n_vecs,
                              const pl_type type)
{
    const shape *s = &f->s;
    vfloat sum[MR][2];
    float *o = f->o + (size_t)q * (size_t)s->Dp + d;
    tile_clear(sum);
    for (int m = 0; m < MR && !t->is_first; m++)
        for (int v = 0; v < n_vecs; v++)
            sum[m][v] = v_load(o + m * s->Dp + v * LANES) * f->factor[q + m];
    tile_sums(sum, (const char *)(f->scores + q), WORD, QB * WORD, values + d * WORD,
              (size_t)s->Dp * WORD, words_of(n_keys, type), n_vecs, type);
    for (int m = 0; m < MR && !t->is_last; m++)
        for (int v = 0; v < n_vecs; v++)
            v_store(o + m * s->Dp + v * LANES, sum[m][v]);
    if (!t->is_last)
        return;
    for (int m = 0; m < MR && q + m < t->n_rows; m++)
        for (int v = 0; v < n_vecs; v++) {
            const int from = d + v * LANES;
            v_store_act(f->out, t->at + (size_t)(q + m) * out_stride(s) + (size_t)from,
                        sum[m][v] * f->inverse[q + m], v_left(from, s->D), type);
        }
}

ALWAYS_INLINE void add_values(const forward *f, const target *t, int i0, int j0,
                              const pl_type type)
{
    const shape *s = &f->s;
    const char *values =
        f->value_pairs + (size_t)words_of(j0, type) * (size_t)s->Dp * WORD;
    const int left = whole_tiles(s->T - j0 < KB ? s->T - j0 : KB);
    for (int d = 0; d < s->Dp; d += NR)
        for (int q = 0; q < t->n_rows; q += MR) {
            const int seen = i0 + q + MR - j0, n_keys = seen < left ? seen : left;
            if (d + LANES < s->Dp)
                value_tile(f, t, values, q, d, n_keys, 2, type);
            else
                value_tile(f, t, values, q, d, n_keys, 1, type);
        }
}

/* ---- blocks and tasks ---- */

/* Computes 1/sum of n_rows queries and, unless `lse` is NULL, their lse. */
static void finish_sums(forward *f, float *lse, int n_rows)
{
    for (int q = 0; q < n_rows; q += LANES) {
        const vfloat sum = v_load(f->sum + q);
        if (lse != NULL)
            v_store_n(lse + q, v_load(f->most + q) * LN_2 + v_log(sum),
                      v_left(q, n_rows));
        v_store(f->inverse + q, 1.0f / sum);
    }
}

/* Computes one block of queries, from i0 on, with all keys that these queries see. */
ALWAYS_INLINE void forward_keys(forward *f, float *lse, target t, int i0,
                                const pl_type type)
{
    const shape *s = &f->s;
    for (int q = 0; q < QB; q++) {
        f->most[q] = -INFINITY;
        f->sum[q] = 0.0f;
    }
    for (int j0 = 0; j0 <= i0; j0 += KB) {
        for (int q = 0; q < t.n_rows; q += NR) {
            const panel p = make_panel(s, i0, q, j0);
            softmax_panel(f, &p, j0, type);
        }
        t.is_first = j0 == 0;
        t.is_last = j0 + KB > i0;
        if (t.is_last)
            finish_sums(f, lse, t.n_rows);
        add_values(f, &t, i0, j0, type);
    }
}

static void forward_block(forward *f, int h, int i0)
{
    const shape *s = &f->s;
    const int row = i0 - f->first;
    shape rows = *s;
    rows.T -= f->first;
    float *lse =
        f->lse == NULL ? NULL : f->lse + (size_t)h * (size_t)s->row + (size_t)i0;
    const target t = {.at = (size_t)row * out_stride(s) + head_at(s, h),
                      .n_rows = s->T - i0 < QB ? s->T - i0 : QB};
    copy_rows(&rows, f->q_rows, f->qkv, head_at(&rows, h), s->stride, row, QB);
    turn_rows(s, f->q_turned, f->q_rows);
    if (s->type == PL_BF16)
        forward_keys(f, lse, t, i0, PL_BF16);
    else
        forward_keys(f, lse, t, i0, PL_F32);
}

static void forward_task(const forward *f, int b, int g)
{
    const int group = f->s.H / f->s.G;
    const size_t row = (size_t)b * (size_t)f->s.T;
    const int32_t *texts = f->texts != NULL ? f->texts + row : NULL;
    for (int begin = 0, end; begin < f->s.T; begin = end) {
        const size_t at = row + (size_t)begin;
        forward text = *f;
        const shape *s = &text.s;
        end = text_end(texts, f->s.T, begin);
        text.s = text_shape(&f->s, end - begin);
        text.out = act_at(f->out, at * out_stride(s), s->type);
        text.qkv = act_in(f->qkv, at * s->stride, s->type);
        if (f->lse != NULL)
            text.lse = f->lse + row * (size_t)s->H + (size_t)begin;
        for (int i = 0; i < 2; i++)
            text.at[i] += (size_t)b * f->next_b + (size_t)begin * f->stride +
                          (size_t)g * (size_t)s->D;
        copy_rows(s, text.keys, text.from[0], text.at[0], text.stride, 0, s->Tp);
        copy_rows(s, text.values, text.from[1], text.at[1], text.stride, 0, s->Tp);
        text.value_pairs = pair_rows(s, text.value_pairs, text.values, s->Tp);
        for (int h = g * group; h < (g + 1) * group; h++)
            for (int i0 = text.first; i0 < s->T; i0 += QB)
                forward_block(&text, h, i0);
    }
}

/* Gets scratch memory for each thread and runs all tasks. */
static void forward_all(pl_backend *be, const forward *job)
{
    const int n_threads = be->n_threads, G = job->s.G, n_tasks = job->s.B * G;
    forward planned = *job;
    const size_t part = forward_carve(&planned, NULL);
    char *scratch = cpu_scratch(cpu_self(be), part * (size_t)n_threads);
    if (scratch == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n_threads))
    for (int i = 0; i < n_threads; i++)
        for (int task = i; task < n_tasks; task += n_threads) {
            forward f = *job;
            (void)forward_carve(&f, scratch + (size_t)i * part);
            forward_task(&f, task / G, task % G);
        }
}

void OP(attention_forward)(pl_backend *be, pl_act *out, float *lse, const pl_act *qkv,
                           const int32_t *texts, int B, int T, int H, int G, int D)
{
    const shape s = make_shape(be->act, B, T, H, G, D);
    const forward job = {.s = s,
                         .out = out,
                         .lse = lse,
                         .qkv = qkv,
                         .texts = texts,
                         .from = {qkv, qkv},
                         .at = {head_at(&s, H), head_at(&s, H + G)},
                         .next_b = (size_t)T * s.stride,
                         .stride = s.stride};
    forward_all(be, &job);
}

bool OP(attention_after)(pl_backend *be, pl_act *out, const pl_act *qkv,
                         const pl_act *keys, const pl_act *values, size_t at, int first,
                         int N, int H, int G, int D)
{
    if (first % QB != 0 || N < LANES)
        return false;
    const forward job = {.s = make_shape(be->act, 1, first + N, H, G, D),
                         .out = out,
                         .qkv = qkv,
                         .first = first,
                         .from = {keys, values},
                         .at = {at, at},
                         .stride = (size_t)G * (size_t)D};
    forward_all(be, &job);
    return true;
}
