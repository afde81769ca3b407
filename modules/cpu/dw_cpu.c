/* The gradient of a weight, dw += dout^T x, by our own tiles (product.h). It is used
 * for bf16 on machines where no library is faster. The sum runs over the rows of both
 * operands, so both must be transposed; this file transposes them while it packs them.
 *
 * x is packed as a whole. BLOCK columns of dout at a time are packed; they stay in the
 * second-level cache while all of x is read. At most DEEP rows are summed before the
 * sums are added to dw. The blocks are divided among the threads. The order of a sum
 * does not depend on the number of threads. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/product.h"

enum { DEEP = 1024, BLOCK = 4 * NR };

/* ---- products of packed operands ---- */

/* c[m,n] (+)= sum_k a(m,k) . b(k,n)      m < M, n < N, k < K words
 *
 * `b` is packed in panels of NR columns: word (k,n) lies at panel n / NR, then
 * [k][n % NR]. M is a multiple of MR and N of NR: callers pad with zeros. */
typedef struct product {
    float *c;
    const void *a, *b;
    size_t c_stride;      /* number of floats between rows of c */
    size_t a_row, a_step; /* number of bytes between rows of a, and between steps k */
    size_t b_panel;       /* number of bytes between panels of b */
    int M, N, K;
    bool add;
    /* whether c is probably not in a cache, so that it is prefetched while sums are
     * computed */
    bool far;
} product;

ALWAYS_INLINE void product_tile(const product *job, float *c, const char *a,
                                const char *b, const pl_type type)
{
    vfloat sum[MR][2];
    tile_clear(sum);
    for (int m = 0; m < MR && job->far; m++)
        for (int n = 0; n < NR; n += LANES)
            __builtin_prefetch(c + (size_t)m * job->c_stride + n, 1);
    tile_sums(sum, a, job->a_row, job->a_step, b, NR * WORD, job->K, 2, type);
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

/* ---- packing ---- */

ALWAYS_INLINE vfloat row_lanes(const pl_act *x, size_t at, size_t stride, int row,
                               int R, int left, const pl_type type)
{
    if (row >= R)
        return (vfloat){0};
    return v_load_act(x, at + (size_t)row * stride, left, type);
}

/* Returns one word for each of LANES columns: the element of row r and, in bf16, also
 * that of row r + 1. Only `left` columns exist; `at` is the index of the first one in
 * row 0. */
ALWAYS_INLINE vfloat col_words(const pl_act *x, size_t at, size_t stride, int r, int R,
                               int left, const pl_type type)
{
    const vfloat words = row_lanes(x, at, stride, r, R, left, type);
    if (type == PL_F32)
        return words;
    return pair_halves(words, row_lanes(x, at, stride, r + 1, R, left, type));
}

/* Packs b for sums over rows: b(k,n) = the words of rows k (in bf16: 2k and 2k+1) at
 * column n. Rows from R to `padded` are zero, and so are columns from D to the next
 * multiple of NR. Each row is read from end to end, so that memory is read in order. */
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

/* ---- the gradient ---- */

typedef struct gradient {
    float *dw;
    const pl_act *dout, *x;
    /* O and I: rows and columns of dw; depth: number of rows of dout and x, from row
     * `first` on, that are summed now */
    int O, I, depth;
    size_t first, panel;  /* panel: bytes of a panel of NR packed columns */
    char *packed_x, *own; /* own: each thread's packed dout and an edge tile */
    pl_type type;
} gradient;

static int panels_of(int n)
{
    return (n + NR - 1) / NR;
}

/* Packs columns c0 .. c0+cols-1 of g->depth rows of x, a matrix of width C. */
static void pack_dw_columns(const gradient *g, char *out, const pl_act *x, int C,
                            int c0, int cols)
{
    const int size = word_size(g->type), padded = (g->depth + size - 1) / size * size;
    const size_t stride = (size_t)C, at = g->first * stride + (size_t)c0;
    if (g->type == PL_BF16)
        pack_cols_typed(out, x, at, stride, g->depth, padded, cols, PL_BF16);
    else
        pack_cols_typed(out, x, at, stride, g->depth, padded, cols, PL_F32);
}

/* Multiplies one panel of columns of dout, which are rows o0.. of dw, with one panel of
 * columns of x. */
static void multiply_panels(const gradient *g, const char *a, int o0, int i0,
                            float *edge)
{
    const int rows = g->O - o0 < NR ? g->O - o0 : NR;
    const int cols = g->I - i0 < NR ? g->I - i0 : NR;
    const bool whole = rows == NR && cols == NR;
    const product job = {.c = whole ? g->dw + (size_t)o0 * (size_t)g->I + i0 : edge,
                         .a = a,
                         .b = g->packed_x + (size_t)(i0 / NR) * g->panel,
                         .c_stride = whole ? (size_t)g->I : NR,
                         .a_row = WORD,
                         .a_step = NR * WORD,
                         .b_panel = g->panel,
                         .M = (rows + MR - 1) / MR * MR,
                         .N = NR,
                         .K = (int)(g->panel / (NR * WORD)),
                         .add = whole,
                         .far = whole};
    if (g->type == PL_BF16)
        product_typed(&job, PL_BF16);
    else
        product_typed(&job, PL_F32);
    /* The sums of a tile at an edge are in scratch memory. */
    for (int r = 0; r < rows && !whole; r++, edge += NR) {
        float *to = g->dw + (size_t)(o0 + r) * (size_t)g->I + (size_t)i0;
        for (int c = 0; c < cols; c += LANES) {
            const int left = v_left(c, cols);
            v_store_n(to + c, v_load_n(to + c, left) + v_load_n(edge + c, left), left);
        }
    }
}

static void multiply_dw_block(const gradient *g, char *own, int o0)
{
    const int rows = g->O - o0 < BLOCK ? g->O - o0 : BLOCK;
    float *edge = (float *)(void *)(own + BLOCK / NR * g->panel);
    pack_dw_columns(g, own, g->dout, g->O, o0, rows);
    for (int i0 = 0; i0 < g->I; i0 += NR)
        for (int r = 0; r < rows; r += NR)
            multiply_panels(g, own + (size_t)(r / NR) * g->panel, o0 + r, i0, edge);
}

static size_t own_bytes(const gradient *g)
{
    return BLOCK / NR * g->panel + NR * NR * sizeof(float);
}

static void add_gradient_rows(const gradient *g, int n_threads)
{
    const int n_blocks = (g->O + BLOCK - 1) / BLOCK;
    const int share = (panels_of(g->I) + n_threads - 1) / n_threads * NR;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n_threads))
    for (int i = 0; i < n_threads; i++) {
        const int i0 = i * share, cols = g->I - i0 < share ? g->I - i0 : share;
        if (cols > 0)
            pack_dw_columns(g, g->packed_x + (size_t)(i0 / NR) * g->panel, g->x, g->I,
                            i0, cols);
    }
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n_threads))
    for (int i = 0; i < n_threads; i++)
        for (int block = i; block < n_blocks; block += n_threads)
            multiply_dw_block(g, g->own + (size_t)i * own_bytes(g), block * BLOCK);
}

void OP(matmul_dw)(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                   int N, int O, int I)
{
    cpu_state *self = cpu_self(be);
    const int size = word_size(be->act), deepest = N < DEEP ? N : DEEP;
    if (!self->own_dw) {
        cpu_matmul_dw(be, dw, dout, x, N, O, I);
        return;
    }
    gradient g = {.dw = dw, .dout = dout, .x = x, .O = O, .I = I, .type = be->act};
    g.panel = (size_t)((deepest + size - 1) / size) * NR * WORD;
    const size_t x_bytes = (size_t)panels_of(I) * g.panel;
    g.packed_x = cpu_packed(self, x_bytes + own_bytes(&g) * (size_t)be->n_threads);
    if (g.packed_x == NULL)
        return;
    g.own = g.packed_x + x_bytes;
    for (int n = 0; n < N; n += DEEP) {
        g.first = (size_t)n;
        g.depth = N - n < DEEP ? N - n : DEEP;
        g.panel = (size_t)((g.depth + size - 1) / size) * NR * WORD;
        add_gradient_rows(&g, be->n_threads);
    }
}
