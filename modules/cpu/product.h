/* Small products on packed operands: the inside of attention.
 *
 * Everything is counted in words of 4 bytes: one float, or two bf16 neighbours along
 * the axis that is summed over. So fp32 and bf16 share one kernel, and only the
 * multiplication of two words differs (v_dot).
 *
 *   c[m,n] (+)= sum_k a(m,k) . b(k,n)      m < M, n < N, k < K words
 *
 * `a` is read word by word at any two strides. `b` is packed in panels of NR columns:
 * word (k,n) lies at panel n / NR, then [k][n % NR]. M is a multiple of MR and N of NR:
 * callers pad with zeros.
 */
#ifndef PL_MODULES_CPU_PRODUCT_H
#define PL_MODULES_CPU_PRODUCT_H
#include "modules/cpu/simd.h"

/* A tile of MR rows and two vectors stays in registers. */
enum { MR = LANES == 16 ? 8 : 4, NR = 2 * LANES };

typedef struct product {
    float *c;
    const void *a, *b;
    size_t c_stride;      /* floats */
    size_t a_row, a_step; /* bytes from m to m+1, from k to k+1 */
    size_t b_panel;       /* bytes from a panel to the next */
    int M, N, K;
    bool add;
    bool far; /* c lies in memory: it is fetched while the sums are made */
} product;

ALWAYS_INLINE void product_tile(const product *job, float *c, const char *a,
                                const char *b, const pl_type type)
{
    vfloat sum[MR][2];
    const size_t a_row = job->a_row, a_step = job->a_step;
    for (int m = 0; m < MR; m++)
        sum[m][0] = sum[m][1] = (vfloat){0};
    for (int m = 0; m < MR && job->far; m++)
        for (int n = 0; n < NR; n += LANES)
            __builtin_prefetch(c + (size_t)m * job->c_stride + n, 1);
    for (int k = 0; k < job->K; k++, a += a_step, b += NR * WORD) {
        const vfloat b0 = load_words(b), b1 = load_words(b + LANES * WORD);
        for (int m = 0; m < MR; m++) {
            const vfloat x = load_word(a + (size_t)m * a_row);
            sum[m][0] = v_dot(sum[m][0], x, b0, type);
            sum[m][1] = v_dot(sum[m][1], x, b1, type);
        }
    }
    for (int m = 0; m < MR; m++, c += job->c_stride) {
        v_store(c, job->add ? v_load(c) + sum[m][0] : sum[m][0]);
        v_store(c + LANES, job->add ? v_load(c + LANES) + sum[m][1] : sum[m][1]);
    }
}

ALWAYS_INLINE void product_typed(const product *job, const pl_type type)
{
    const char *a = job->a, *panel = job->b;
    for (int n = 0; n < job->N; n += NR, panel += job->b_panel)
        for (int m = 0; m < job->M; m += MR)
            product_tile(job, job->c + (size_t)m * job->c_stride + n,
                         a + (size_t)m * job->a_row, panel, type);
}

static void product_run(const product *job, pl_type type)
{
    if (type == PL_BF16)
        product_typed(job, PL_BF16);
    else
        product_typed(job, PL_F32);
}

/* LANES rows of LANES words, turned into rows of out. */
ALWAYS_INLINE void pack_square(char *out, const char *x, size_t stride)
{
    vfloat row[LANES];
    for (int i = 0; i < LANES; i++)
        row[i] = load_words(x + (size_t)i * stride);
    v_transpose(row);
    for (int i = 0; i < LANES; i++)
        memcpy(out + i * NR * WORD, &row[i], sizeof row[i]);
}

/* The same at an edge: the first `rows` rows, the others zero, of `words` words. */
static void pack_edge(char *out, const char *x, size_t stride, int rows, int words)
{
    for (int k = 0; k < words; k++, out += NR * WORD)
        for (int i = 0; i < LANES; i++) {
            uint32_t word = 0;
            if (i < rows)
                memcpy(&word, x + (size_t)i * stride + (size_t)k * WORD, WORD);
            memcpy(out + i * WORD, &word, WORD);
        }
}

/* Packs b for sums over columns: b(k,n) = word k of row n of x. Rows R .. padded are
 * zero; `padded` is a multiple of NR. */
static inline void pack_rows(char *out, const pl_act *x, size_t at, size_t stride,
                             int R, int padded, int K, pl_type type)
{
    const char *first = (const char *)x + at * pl_type_bytes(type);
    const size_t row_bytes = stride * pl_type_bytes(type);
    for (int n = 0; n < padded; n += LANES, first += LANES * row_bytes) {
        char *panel = out + (size_t)(n / NR * NR) * (size_t)K * WORD + n % NR * WORD;
        for (int k = 0; k < K; k += LANES) {
            char *to = panel + (size_t)k * NR * WORD;
            const char *from = first + (size_t)k * WORD;
            if (n + LANES <= R && k + LANES <= K)
                pack_square(to, from, row_bytes);
            else
                pack_edge(to, from, row_bytes, R - n, v_left(k, K));
        }
    }
}

/* The word of two neighbours along k: `even` low, `odd` high. */
ALWAYS_INLINE vfloat pair_words(vfloat even, vfloat odd)
{
    const vuint low = (vuint)v_from_half(v_to_half(even)) >> 16;
    return (vfloat)(low | (vuint)v_from_half(v_to_half(odd)));
}

/* The same of floats that are bf16 already. */
ALWAYS_INLINE vfloat pair_halves(vfloat even, vfloat odd)
{
    return (vfloat)((vuint)even >> 16 | (vuint)odd);
}

ALWAYS_INLINE vfloat row_lanes(const pl_act *x, size_t at, size_t stride, int row,
                               int R, int left, const pl_type type)
{
    if (row >= R)
        return (vfloat){0};
    return v_load_act(x, at + (size_t)row * stride, left, type);
}

/* The words of column d .. d+LANES of rows r and, in bf16, r + 1. */
ALWAYS_INLINE vfloat col_words(const pl_act *x, size_t at, size_t stride, int r, int R,
                               int left, const pl_type type)
{
    const vfloat words = row_lanes(x, at, stride, r, R, left, type);
    if (type == PL_F32)
        return words;
    return pair_halves(words, row_lanes(x, at, stride, r + 1, R, left, type));
}

/* Rows are read from end to end, so that the source streams. */
ALWAYS_INLINE void pack_cols_typed(char *out, const pl_act *x, size_t at, size_t stride,
                                   int R, int padded, int D, const pl_type type)
{
    const int Dp = (D + NR - 1) / NR * NR, size = word_size(type);
    const size_t panel = (size_t)(padded / size) * NR * WORD;
    for (int r = 0; r < padded; r += size, out += NR * WORD)
        for (int d = 0; d < Dp; d += LANES) {
            const size_t from = at + (size_t)d;
            char *to = out + (size_t)(d / NR) * panel + (size_t)(d % NR) * WORD;
            vfloat words;
            if (r + size <= R && d + LANES <= D)
                words = col_words(x, from, stride, r, r + size, LANES, type);
            else
                words =
                    col_words(x, from, stride, r, R, d < D ? v_left(d, D) : 0, type);
            memcpy(to, &words, sizeof words);
        }
}

/* Packs b for sums over rows: b(k,n) = the words of rows k (in bf16: 2k and 2k+1) at
 * column n. Rows R .. padded and columns D .. a multiple of NR are zero. */
static void pack_cols(char *out, const pl_act *x, size_t at, size_t stride, int R,
                      int padded, int D, pl_type type)
{
    if (type == PL_BF16)
        pack_cols_typed(out, x, at, stride, R, padded, D, PL_BF16);
    else
        pack_cols_typed(out, x, at, stride, R, padded, D, PL_F32);
}

#endif
