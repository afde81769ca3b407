/* Muon by our own tiles (product.h), always in f32.
 *
 * Matrices are zero-padded to whole panels of NR columns, and stored panel after panel:
 * element (row, col) lies at [col / NR][row][col % NR]. So each matrix can be the left
 * or the right operand of a product without packing. One update has fifteen products.
 * Padding stays zero. X has at least as many rows as columns (else its transpose is
 * used), so the Gram matrix X^T X is as small as possible.
 *
 * One thread adds all terms of an element of a product, in order. So the result does
 * not depend on the number of threads. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/product.h"

/* A matrix in panels: `rows` is a multiple of MR, `cols` of NR. */
typedef struct panels {
    float *at;
    int rows, cols;
} panels;

static float *tile_at(const panels *x, int row, int col)
{
    return x->at + ((size_t)(col / NR) * (size_t)x->rows + (size_t)row) * NR + col % NR;
}

/* ---- products ---- */

/* c = scale * add + factor * (a^T b if `turned`, else a b). `mirrored`: c is symmetric;
 * the elements below its diagonal are copied from above the diagonal. */
typedef struct panel_product {
    /* `add` is NULL, or another matrix of the size of c */
    const panels *c, *a, *b, *add;
    float scale, factor;
    bool turned, mirrored;
} panel_product;

static void store_panel_tile(const panel_product *job, vfloat sum[MR][2], int m, int n)
{
    float *to = tile_at(job->c, m, n);
    const float *add = job->add ? tile_at(job->add, m, n) : NULL;
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < 2; v++) {
            const int at = r * NR + v * LANES;
            const vfloat value = sum[r][v] * job->factor;
            v_store(to + at, add ? v_load(add + at) * job->scale + value : value);
        }
}

/* Computes rows m .. m+MR-1 of columns n .. n+NR-1 of c. */
static void multiply_panel_tile(const panel_product *job, int m, int n)
{
    const char *b = (const char *)tile_at(job->b, 0, n);
    vfloat sum[MR][2];
    tile_clear(sum);
    if (job->turned)
        tile_sums(sum, (const char *)tile_at(job->a, 0, m), WORD, NR * WORD, b,
                  NR * WORD, job->b->rows, 2, PL_F32);
    else
        for (int k = 0; k < job->b->rows; k += NR, b += NR * NR * WORD)
            tile_sums(sum, (const char *)tile_at(job->a, m, k), NR * WORD, WORD, b,
                      NR * WORD, NR, 2, PL_F32);
    store_panel_tile(job, sum, m, n);
}

static void mirror_panels(const panels *x)
{
    for (int row = 1; row < x->rows; row++)
        for (int col = 0; col < row; col++)
            *tile_at(x, row, col) = *tile_at(x, col, row);
}

static void multiply_all_panels(const panel_product *job, int n_threads)
{
    const int n_tiles = job->c->rows / MR;
#pragma omp parallel for schedule(static, 1) num_threads(n_threads)
    for (int tile = 0; tile < n_tiles; tile++)
        for (int n = 0; n < job->c->cols; n += NR)
            if (!job->mirrored || tile * MR < n + NR)
                multiply_panel_tile(job, tile * MR, n);
    if (job->mirrored)
        mirror_panels(job->c);
}

/* ---- the step ---- */

static int whole_panels(int n)
{
    return (n + NR - 1) / NR * NR;
}

/* Updates the momentum m and computes u of the equation in ops.h; u replaces g. */
static void add_momentum(float *m, float *g, size_t n, float grad_scale)
{
    const float mu = PL_MUON_MOMENTUM;
    for (size_t i = 0; i < n; i += LANES) {
        const int left = n - i < LANES ? (int)(n - i) : LANES;
        const vfloat grad = v_load_n(g + i, left) * grad_scale * (1.0f - mu);
        const vfloat mean = v_load_n(m + i, left) * mu + grad;
        v_store_n(m + i, mean, left);
        v_store_n(g + i, mean * mu + grad, left);
    }
}

/* Stores u * scale as x, transposed if u [O,I] is wide; padding is zero. */
static void load_panels(const panels *x, const float *u, int O, int I, float scale)
{
    memset(x->at, 0, (size_t)x->rows * (size_t)x->cols * sizeof *u);
    for (int o = 0; o < O; o++)
        for (int i = 0; O < I && i < I; i++, u++)
            *tile_at(x, i, o) = *u * scale;
    for (int o = 0; o < O; o++)
        for (int i = 0; O >= I && i < I; i += LANES) {
            const int left = v_left(i, I);
            v_store_n(tile_at(x, o, i), v_load_n(u, left) * scale, left);
            u += left;
        }
}

static void apply_panels(const panels *x, float *p, int O, int I, const pl_adamw *adam)
{
    const float scale = PL_MUON_SCALE * sqrtf((float)(O < I ? I : O));
    const float decay = adam->weight_decay;
    for (int o = 0; o < O; o++)
        for (int i = 0; O < I && i < I; i++, p++)
            *p -= adam->lr * (*tile_at(x, i, o) * scale + decay * *p);
    for (int o = 0; o < O; o++)
        for (int i = 0; O >= I && i < I; i += LANES) {
            const int left = v_left(i, I);
            const vfloat old = v_load_n(p, left);
            const vfloat step = v_load_n(tile_at(x, o, i), left) * scale + old * decay;
            v_store_n(p, old - step * adam->lr, left);
            p += left;
        }
}

void OP(muon)(pl_backend *be, float *p, float *m, float *g, float *work, int O, int I,
              float grad_scale, const pl_adamw *adam)
{
    const float q[3] = PL_MUON_QUINTIC;
    const size_t n = (size_t)O * (size_t)I;
    const int S = whole_panels(O < I ? O : I), L = whole_panels(O < I ? I : O);
    const size_t all = (size_t)S * (size_t)L;
    const panels gram = {work + 2 * all, S, S},
                 mix = {gram.at + (size_t)S * (size_t)S, S, S};
    panels x = {work, L, S}, y = {work + all, L, S};
    double squares;
    add_momentum(m, g, n, grad_scale);
    OP(sum_squares)(be, &squares, g, n);
    load_panels(&x, g, O, I, (float)(1.0 / (sqrt(squares) + (double)PL_MUON_TINY)));
    const int team = cpu_team(be, all * sizeof(float));
    for (int k = 0; k < PL_MUON_ITERATIONS; k++) {
        const panel_product products[] = {
            {&gram, &x, &x, NULL, 0.0f, 1.0f, true, true},
            {&mix, &gram, &gram, &gram, q[1], q[2], true, true},
            {&y, &x, &mix, &x, q[0], 1.0f, false, false},
        };
        for (size_t i = 0; i < sizeof products / sizeof *products; i++)
            multiply_all_panels(&products[i], team);
        const panels done = x;
        x = y;
        y = done;
    }
    apply_panels(&x, p, O, I, adam);
    memset(g, 0, n * sizeof *g);
}
