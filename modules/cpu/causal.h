/* Functions that the forward and the backward pass of attention share: they copy blocks
 * of rows of a head into the layouts that products need.
 *
 * Scores are computed transposed, S^T = K Q^T, so that each lane of a vector belongs to
 * one query. So the maximum and the sum of a softmax are computed per lane, keys are
 * read in the order in which they lie in memory, and only queries need a transposed
 * copy. In the products that follow, P (the weights) and dS (the gradient of the
 * scores) are read word by word, so they need no special layout:
 *
 *   S^T, dP^T [keys, queries]  a = keys, values          b = Q^T, dout^T   over D
 *   out, dQ   [queries, D]     a = P^T, dS^T by columns  b = values, keys  over keys
 *   dV, dK    [keys, D]        a = P^T, dS^T by rows     b = dout, Q       over queries
 *
 * In bf16 a word holds two values that are adjacent along the summed axis. Sums over
 * positions therefore need a second copy, the pairs, in which each word has the values
 * of two neighbouring rows. In fp32 this copy would equal the rows, so the rows are
 * used. */
#pragma once
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/product.h"

/* number of queries, and of keys, that are computed at once */
enum { QB = 64, KB = 64 };

typedef struct shape {
    pl_type type;
    int B, T, H, G, D;
    int Tp; /* T rounded up to whole blocks */
    /* number of elements between neighbouring heads in lse: the T of the whole row,
     * even in the shape of one text (text_shape) */
    int row;
    /* Dw is the number of words of a copied row, and Dp the number of columns of a row
     * of floats or pairs; both are rounded up to whole vectors */
    int Dw, Dp;
    size_t stride; /* number of elements between positions in qkv */
    float scale;
} shape;

static inline int padded_positions(int T)
{
    return (T + QB - 1) / QB * QB;
}

static inline shape make_shape(pl_type type, int B, int T, int H, int G, int D)
{
    return (shape){.type = type,
                   .B = B,
                   .T = T,
                   .H = H,
                   .G = G,
                   .D = D,
                   .Tp = padded_positions(T),
                   .row = T,
                   .Dw = (words_of(D, type) + LANES - 1) / LANES * LANES,
                   .Dp = (D + LANES - 1) / LANES * LANES,
                   .stride = (size_t)(H + 2 * G) * (size_t)D,
                   .scale = 1.0f / sqrtf((float)D)};
}

/* Returns the index in a row of qkv of a head's first element; k heads follow the H
 * query heads. */
static inline size_t head_at(const shape *s, int head)
{
    return (size_t)head * (size_t)s->D;
}
static inline size_t out_stride(const shape *s)
{
    return (size_t)s->H * (size_t)s->D;
}

/* Returns the shape for one text of a row, with n tokens. A text is computed like a
 * separate sequence: no other text needs to be masked, and the result has the same
 * bytes as if the text were alone. */
static inline shape text_shape(const shape *s, int n)
{
    shape text = *s;
    text.T = n;
    text.Tp = padded_positions(n);
    return text;
}
/* Returns the end of the text that begins at position `first` of a row. texts[t] is
 * where the text of position t begins; NULL: the row is one text. */
static inline int text_end(const int32_t *texts, int T, int first)
{
    int end = texts != NULL ? first + 1 : T;
    while (end < T && texts[end] <= first)
        end++;
    return end;
}

/* Returns the size in bytes of `rows` rows of `words` words. pairs_bytes returns the
 * size of the pairs of `rows` rows: 0 in fp32, which uses the rows themselves. */
static inline size_t words_bytes(int rows, int words)
{
    return cpu_lines((size_t)rows * (size_t)words * WORD);
}
static inline size_t pairs_bytes(const shape *s, int rows)
{
    return s->type == PL_BF16 ? words_bytes(rows / 2, s->Dp) : 0;
}

/* Returns the next `bytes` bytes of the memory at `base`, of which *used are in use. If
 * base is NULL, only counts them. */
static inline void *carve(char *base, size_t *used, size_t bytes)
{
    void *part = base != NULL ? base + *used : NULL;
    *used += bytes;
    return part;
}

/* Copies rows i0 .. i0+n-1 of a head to `out`, one after another. The words after the D
 * elements of a row, and rows from T on, are zero. */
static inline void copy_rows(const shape *s, char *out, const pl_act *x, size_t at,
                             size_t stride, int i0, int n)
{
    const size_t row_bytes = stride * pl_type_bytes(s->type);
    const int words = words_of(s->D, s->type);
    const char *from = (const char *)act_in(x, at + (size_t)i0 * stride, s->type);
    const int n_rows = s->T - i0 < n ? s->T - i0 : n;
    for (int r = 0; r < n_rows; r++, from += row_bytes)
        for (int k = 0; k < s->Dw; k += LANES, out += LANES * WORD) {
            const vfloat row = load_words_n(from + k * WORD, v_left(k, words));
            memcpy(out, &row, sizeof row);
        }
    memset(out, 0, (size_t)(n - n_rows) * (size_t)s->Dw * WORD);
}

/* Makes pairs of n rows that copy_rows made; in fp32 returns the rows themselves. */
static inline char *pair_rows(const shape *s, char *out, char *rows, int n)
{
    if (s->type == PL_F32)
        return rows;
    const pl_act *x = (const pl_act *)(const void *)rows;
    const size_t stride = (size_t)s->Dw * 2;
    char *to = out;
    for (int r = 0; r < n; r += 2)
        for (int d = 0; d < s->Dp; d += LANES, to += LANES * WORD) {
            const size_t at = (size_t)r * stride + (size_t)d;
            const vfloat pair = pair_halves(v_load_act(x, at, LANES, PL_BF16),
                                            v_load_act(x, at + stride, LANES, PL_BF16));
            memcpy(to, &pair, sizeof pair);
        }
    return out;
}

/* Transposes QB rows that copy_rows made: [Dw, QB] words. */
static inline void turn_rows(const shape *s, char *out, const char *rows)
{
    const size_t from = (size_t)s->Dw * WORD;
    for (int q = 0; q < QB; q += LANES)
        for (int k = 0; k < s->Dw; k += LANES) {
            vfloat row[LANES];
            for (int i = 0; i < LANES; i++)
                row[i] = load_words(rows + (size_t)(q + i) * from + k * WORD);
            v_transpose(row);
            for (int i = 0; i < LANES; i++)
                memcpy(out + ((k + i) * QB + q) * WORD, &row[i], sizeof row[i]);
        }
}

/* A panel is NR queries, one per lane, with a block of keys. The query of lane l sees
 * key k of the block if k <= diagonal + l. */
typedef struct panel {
    int q;        /* the first query, within its block */
    int diagonal; /* position of query q minus that of the block's first key */
    /* number of keys that at least one query sees, rounded up to whole tiles */
    int n_keys;
} panel;

static inline int whole_tiles(int n)
{
    return (n + MR - 1) / MR * MR;
}

static inline panel make_panel(const shape *s, int i0, int q, int j0)
{
    const int diagonal = i0 + q - j0, seen = diagonal + NR;
    const int left = whole_tiles(s->T - j0 < KB ? s->T - j0 : KB);
    return (panel){.q = q, .diagonal = diagonal, .n_keys = seen < left ? seen : left};
}

/* Returns the mask of those lanes of a panel's vector v that see key k. */
ALWAYS_INLINE vint seen_lanes(const panel *p, int k, int v)
{
    return v_number() >= k - p->diagonal - v * LANES;
}
/* is_masked: whether at least one query of the panel does not see all keys of the tile
 * that begins at k. is_half: whether no query of the panel's first vector sees any key
 * of this tile. */
ALWAYS_INLINE bool is_masked(const panel *p, int k)
{
    return k + MR > p->diagonal + 1;
}
ALWAYS_INLINE bool is_half(const panel *p, int k)
{
    return k >= p->diagonal + LANES;
}
