/* The gradient of a weight, dw += dout^T x, in bf16 by our own tiles (product.h), for
 * machines where no library is faster. The sum runs over the rows of both operands, so
 * both must be transposed; this file transposes them while it packs them.
 *
 * x is packed as a whole. BLOCK columns of dout at a time are packed; they stay in the
 * second-level cache while all of x is read. The sums of at most DEEP rows replace
 * those in dw, or are added to them, before the next rows are packed; the caller may
 * ask for fewer rows per sum (`part`). The blocks are divided among the threads. The
 * order of a sum does not depend on the number of threads. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/product.h"

enum { DEEP = 1024, BLOCK = 4 * NR };

typedef struct gradient {
    float *dw;
    const pl_act *dout;
    /* O and I: rows and columns of dw; depth: number of rows of dout and x, from row
     * `first` on, that are summed now */
    int O, I, depth;
    int part;             /* rows per sum; even, or not below depth */
    bool add;             /* whether the first sum is added to dw, too */
    size_t first, panel;  /* panel: bytes of a panel of NR packed columns */
    char *packed_x, *own; /* own: each thread's packed dout and an edge tile */
} gradient;

/* Packs columns c0 .. c0+cols-1 of g->depth rows of x, a matrix of width C, in panels
 * of NR columns. A word has a column of two neighbouring rows. What lies after the last
 * row and after the last column is zero. Each row is read from end to end, so that
 * memory is read in order. */
static void pack_dw_columns(const gradient *g, char *out, const pl_act *x, int C,
                            int c0, int cols)
{
    const int padded = (cols + NR - 1) / NR * NR;
    for (int r = 0; r < g->depth; r += 2, out += NR * WORD) {
        const size_t row = (g->first + (size_t)r) * (size_t)C + (size_t)c0;
        for (int c = 0; c < padded; c += LANES) {
            const int left = c < cols ? v_left(c, cols) : 0;
            const size_t at = row + (size_t)c;
            char *to = out + (size_t)(c / NR) * g->panel + (size_t)(c % NR) * WORD;
            const vfloat even = v_load_act(x, at, left, PL_BF16);
            vfloat odd = {0};
            if (r + 1 < g->depth)
                odd = v_load_act(x, at + (size_t)C, left, PL_BF16);
            const vfloat words = pair_halves(even, odd);
            memcpy(to, &words, sizeof words);
        }
    }
}

/* Multiplies MR columns of dout with a panel of columns of x, which gives MR rows of c.
 * Each sum of `part` rows is added to c, except that the first one overwrites c unless
 * `add`. */
static void multiply_rows(const gradient *g, const char *a, const char *b, float *c,
                          size_t stride, bool add)
{
    for (int at = 0; at < g->depth; at += g->part, add = true) {
        const int left = g->depth - at, rows = left < g->part ? left : g->part;
        const size_t skip = (size_t)(at / 2) * NR * WORD;
        vfloat sum[MR][2];
        tile_clear(sum);
        tile_sums(sum, a + skip, WORD, NR * WORD, b + skip, NR * WORD, (rows + 1) / 2,
                  2, PL_BF16);
        for (int r = 0; r < MR; r++)
            for (int v = 0; v < 2; v++) {
                float *to = c + (size_t)r * stride + v * LANES;
                v_store(to, add ? v_load(to) + sum[r][v] : sum[r][v]);
            }
    }
}

/* Multiplies one panel of columns of dout, which are rows o0.. of dw, with one panel of
 * columns of x. The sums of a panel at an edge of dw first go to `edge` [NR, NR]. */
static void multiply_panels(const gradient *g, const char *a, int o0, int i0,
                            float *edge)
{
    const int rows = g->O - o0 < NR ? g->O - o0 : NR;
    const int cols = g->I - i0 < NR ? g->I - i0 : NR;
    const bool whole = rows == NR && cols == NR, add = g->add || g->first > 0;
    const char *b = g->packed_x + (size_t)(i0 / NR) * g->panel;
    float *dw = g->dw + (size_t)o0 * (size_t)g->I + (size_t)i0;
    float *c = whole ? dw : edge;
    const size_t stride = whole ? (size_t)g->I : NR;
    for (int r = 0; r < rows && !whole && add; r++)
        for (int n = 0; n < cols; n += LANES) {
            const int left = v_left(n, cols);
            v_store_n(edge + r * NR + n,
                      v_load_n(dw + (size_t)r * (size_t)g->I + n, left), left);
        }
    for (int m = 0; m < rows; m += MR, a += MR * WORD, c += MR * stride) {
        /* this part of dw is probably not in a cache */
        for (int r = 0; r < MR && whole; r++)
            for (int n = 0; n < NR; n += LANES)
                __builtin_prefetch(c + (size_t)r * stride + n, 1);
        multiply_rows(g, a, b, c, stride, add);
    }
    for (int r = 0; r < rows && !whole; r++, edge += NR, dw += g->I)
        for (int n = 0; n < cols; n += LANES)
            v_store_n(dw + n, v_load_n(edge + n, v_left(n, cols)), v_left(n, cols));
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

void OP(matmul_dw)(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                   int N, int O, int I, bool accumulate)
{
    if (cpu_self(be)->own_dw)
        OP(sum_dw)(be, dw, dout, x, N, O, I, DEEP, accumulate);
    else
        cpu_matmul_dw(be, dw, dout, x, N, O, I, accumulate);
}

void OP(sum_dw)(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x, int N,
                int O, int I, int part, bool accumulate)
{
    cpu_state *self = cpu_self(be);
    const int deepest = N < DEEP ? N : DEEP;
    gradient g = {
        .dw = dw, .dout = dout, .O = O, .I = I, .part = part, .add = accumulate};
    g.panel = (size_t)((deepest + 1) / 2) * NR * WORD;
    const int n_threads = be->n_threads, n_panels = (I + NR - 1) / NR;
    const int share = (n_panels + n_threads - 1) / n_threads * NR;
    const int n_blocks = (O + BLOCK - 1) / BLOCK;
    const size_t x_bytes = (size_t)n_panels * g.panel;
    cpu_note_failure(self, cpu_block_grow(&self->packed,
                                          x_bytes + own_bytes(&g) * (size_t)n_threads,
                                          "packed matrices"));
    g.packed_x = self->packed.data;
    if (g.packed_x == NULL)
        return;
    g.own = g.packed_x + x_bytes;
    for (int n = 0; n < N; n += DEEP) {
        g.first = (size_t)n;
        g.depth = N - n < DEEP ? N - n : DEEP;
        g.panel = (size_t)((g.depth + 1) / 2) * NR * WORD;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n_threads))
        for (int i = 0; i < n_threads; i++) {
            const int i0 = i * share, cols = I - i0 < share ? I - i0 : share;
            if (cols > 0)
                pack_dw_columns(&g, g.packed_x + (size_t)(i0 / NR) * g.panel, x, I, i0,
                                cols);
        }
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n_threads))
        for (int i = 0; i < n_threads; i++)
            for (int block = i; block < n_blocks; block += n_threads)
                multiply_dw_block(&g, g.own + (size_t)i * own_bytes(&g), block * BLOCK);
    }
}
