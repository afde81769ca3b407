/* Muon by our own tiles (product.h), always in f32.
 *
 * Newton-Schulz multiplies X by a polynomial of the Gram matrix G = X^T X in each
 * iteration: X = X F, F = a + b G + c G G. Then the next Gram matrix is F G F. So X is
 * needed only at the beginning, for G, and at the end, for the product with all factors
 * F. The iterations work on G alone. X [L,S] has at least as many rows as columns (else
 * its transpose is used), so G is small: for 64 x 1024, a quarter of the operations
 * remains; for square matrices nothing is saved. Each iteration makes rounding errors
 * of the small eigenvalues of G about twelve times as large. In f32 the result still
 * has three correct digits; in bf16 it would have none.
 *
 * Matrices are zero-padded to whole panels of NR columns, and stored panel after panel:
 * element (row, col) lies at [col / NR][row][col % NR]. So each matrix can be the left
 * or the right operand of a product without packing. Padding of X and G stays zero.
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

/* c = factor * (a^T b + ratio * add) if `turned`, else factor * (a b + ratio * add).
 * `mirrored`: c is symmetric; the elements below its diagonal are copied from above the
 * diagonal. */
typedef struct panel_product {
    /* `add` is NULL, or a matrix of the size of c */
    const panels *c, *a, *b, *add;
    float ratio, factor;
    bool turned, mirrored;
} panel_product;

/* Computes a tile of a^T b. The sum over the rows is divided into pieces, because a
 * long sum in f32 has a larger rounding error, which the iterations would increase. */
ALWAYS_INLINE void sum_pieces(vfloat sum[MR][2], const char *a, const char *b, int K)
{
    enum { PIECE = 128 };
    for (int k = 0; k < K; k += PIECE) {
        vfloat piece[MR][2];
        tile_clear(piece);
        tile_sums(piece, a, WORD, NR * WORD, b, NR * WORD,
                  K - k < PIECE ? K - k : PIECE, 2, PL_F32);
        for (int r = 0; r < MR; r++)
            for (int v = 0; v < 2; v++)
                sum[r][v] += piece[r][v];
        a += PIECE * NR * WORD;
        b += PIECE * NR * WORD;
    }
}

/* Computes rows m .. m+MR-1 of columns n .. n+NR-1 of c. */
static void multiply_panel_tile(const panel_product *job, int m, int n)
{
    const char *b = (const char *)tile_at(job->b, 0, n);
    float *to = tile_at(job->c, m, n);
    const float *add = job->add ? tile_at(job->add, m, n) : NULL;
    vfloat sum[MR][2];
    tile_clear(sum);
    if (job->turned)
        sum_pieces(sum, (const char *)tile_at(job->a, 0, m), b, job->b->rows);
    else
        for (int k = 0; k < job->b->rows; k += NR, b += NR * NR * WORD)
            tile_sums(sum, (const char *)tile_at(job->a, m, k), NR * WORD, WORD, b,
                      NR * WORD, NR, 2, PL_F32);
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < 2; v++) {
            const int at = r * NR + v * LANES;
            const vfloat value =
                add ? sum[r][v] + v_load(add + at) * job->ratio : sum[r][v];
            v_store(to + at, value * job->factor);
        }
}

/* load_square loads the LANES x LANES elements of x, or of its transpose if `turned`,
 * that begin at (row, col). store_square stores such elements; it may change `in`. */
ALWAYS_INLINE void load_square(vfloat out[LANES], const panels *x, int row, int col,
                               bool turned)
{
    const float *from = turned ? tile_at(x, col, row) : tile_at(x, row, col);
    for (int r = 0; r < LANES; r++)
        out[r] = v_load(from + r * NR);
    if (turned)
        v_transpose(out);
}
ALWAYS_INLINE void store_square(const panels *x, int row, int col, vfloat in[LANES],
                                bool turned)
{
    float *to = turned ? tile_at(x, col, row) : tile_at(x, row, col);
    if (turned)
        v_transpose(in);
    for (int r = 0; r < LANES; r++)
        v_store(to + r * NR, in[r]);
}

/* Computes every step-th row of tiles of c, from the tile `first` on. */
static void multiply_tile_rows(const panel_product *job, int first, int step)
{
    for (int m = first * MR; m < job->c->rows; m += step * MR)
        for (int n = 0; n < job->c->cols; n += NR)
            if (!job->mirrored || m < n + NR)
                multiply_panel_tile(job, m, n);
}

/* With one thread no parallel region begins, because the caller may be one of the
 * threads that divide the matrices. */
static void multiply_panels(const panel_product *job, int n_threads)
{
    if (n_threads == 1) {
        multiply_tile_rows(job, 0, 1);
    } else {
#pragma omp parallel for schedule(static) num_threads(n_threads)
        for (int thread = 0; thread < n_threads; thread++)
            multiply_tile_rows(job, thread, n_threads);
    }
    for (int row = 0; row < job->c->rows && job->mirrored; row += LANES)
        for (int col = 0; col <= row; col += LANES) {
            vfloat upper[LANES];
            load_square(upper, job->c, row, col, true);
            for (int r = 0; r < LANES && row == col; r++)
                upper[r] = v_select(v_below(r), upper[r],
                                    v_load(tile_at(job->c, row + r, col)));
            store_square(job->c, row, col, upper, false);
        }
}

/* ---- the step ---- */

typedef struct muon_job { /* the arguments of the operation */
    float *p, *m, *g;
    int O, I;
    float grad_scale;
    const pl_adamw *adam;
} muon_job;

static int whole_panels(int n)
{
    return (n + NR - 1) / NR * NR;
}

/* Returns how many of the rows o .. o+LANES-1 of a matrix with O rows exist. */
static int rows_left(int o, int O)
{
    return o >= O ? 0 : v_left(o, O);
}

/* Stores u * scale as x, transposed if u [O,I] is wide; padding is zero. */
static void load_panels(const panels *x, const float *u, int O, int I, float scale)
{
    const bool turned = O < I;
    const int rows = turned ? x->cols : x->rows, cols = turned ? x->rows : x->cols;
    for (int o = 0; o < rows; o += LANES)
        for (int i = 0; i < cols; i += LANES) {
            const int n_rows = rows_left(o, O), n = rows_left(i, I);
            vfloat square[LANES];
            for (int r = 0; r < LANES; r++)
                square[r] = (vfloat){0};
            for (int r = 0; r < n_rows && n > 0; r++)
                square[r] =
                    v_load_n(u + (size_t)(o + r) * (size_t)I + (size_t)i, n) * scale;
            store_square(x, o, i, square, turned);
        }
}

/* Steps p [O,I] by x, which contains the scale of the step, and sets g to zero. */
static void apply_panels(const panels *x, float *p, float *g, int O, int I,
                         const pl_adamw *adam)
{
    const float decay = adam->weight_decay;
    for (int o = 0; o < O; o += LANES)
        for (int i = 0; i < I; i += LANES) {
            const int n_rows = rows_left(o, O), n = rows_left(i, I);
            vfloat square[LANES];
            load_square(square, x, o, i, O < I);
            for (int r = 0; r < n_rows; r++) {
                const size_t at = (size_t)(o + r) * (size_t)I + (size_t)i;
                const vfloat old = v_load_n(p + at, n);
                const vfloat step = square[r] + old * decay;
                v_store_n(p + at, old - step * adam->lr, n);
                v_store_n(g + at, (vfloat){0}, n);
            }
        }
}

/* The working memory of one matrix. The matrices [S,S] are polynomials of the Gram
 * matrix, so they are symmetric, and so is the product of two of them. */
typedef struct newton_schulz {
    panels x, y;         /* X, and X times the product of all factors [L,S] */
    panels gram, factor; /* the present Gram matrix; the factor of this iteration */
    panels whole, spare; /* the product of the factors so far; a result */
} newton_schulz;

static void swap_panels(panels *a, panels *b)
{
    const panels old = *a;
    *a = *b;
    *b = old;
}

static void multiply_symmetric(panels *c, const panels *a, const panels *b, int team)
{
    const panel_product job = {c, a, b, NULL, 0, 1, true, true};
    multiply_panels(&job, team);
}

static void iterate_gram(newton_schulz *s, int team)
{
    const float q[3] = PL_MUON_QUINTIC;
    multiply_symmetric(&s->gram, &s->x, &s->x, team);
    for (int k = 0; k < PL_MUON_ITERATIONS; k++) {
        /* factor = a + b G + c G G of the Gram matrix G */
        const panel_product factor = {&s->factor,  &s->gram, &s->gram, &s->gram,
                                      q[1] / q[2], q[2],     true,     true};
        multiply_panels(&factor, team);
        for (int i = 0; i < s->factor.rows; i++)
            *tile_at(&s->factor, i, i) += q[0];
        if (k + 1 < PL_MUON_ITERATIONS) {
            multiply_symmetric(&s->spare, &s->gram, &s->factor, team);
            multiply_symmetric(&s->gram, &s->spare, &s->factor, team);
        }
        if (k == 0) {
            swap_panels(&s->whole, &s->factor);
        } else {
            multiply_symmetric(&s->spare, &s->whole, &s->factor, team);
            swap_panels(&s->whole, &s->spare);
        }
    }
}

/* One matrix of the operation muon (ops.h), by a team of threads. */
static void step_matrix(const muon_job *job, size_t at, float *work, int team)
{
    const int O = job->O, I = job->I;
    const int S = whole_panels(O < I ? O : I), L = whole_panels(O < I ? I : O);
    const size_t n = (size_t)O * (size_t)I;
    const size_t all = (size_t)S * (size_t)L, square = (size_t)S * (size_t)S;
    float *squares = work + 2 * all;
    /* `spare` lies in the memory of y, which only the last product needs. Then `whole`
     * is elsewhere again: each iteration but the first exchanges the two. */
    _Static_assert(PL_MUON_ITERATIONS % 2 == 1, "whole would end in the memory of y");
    newton_schulz s = {.x = {work, L, S},
                       .y = {work + all, L, S},
                       .gram = {squares, S, S},
                       .factor = {squares + square, S, S},
                       .whole = {squares + 2 * square, S, S},
                       .spare = {work + all, S, S}};
    /* Updates the momentum m and computes u of the equation in ops.h; u replaces g. */
    float *m = job->m + at, *u = job->g + at;
    const float mu = PL_MUON_MOMENTUM, grad_scale = job->grad_scale;
    for (size_t i = 0; i < n; i += LANES) {
        const int left = n - i < LANES ? (int)(n - i) : LANES;
        const vfloat grad = v_load_n(u + i, left) * grad_scale * (1.0f - mu);
        const vfloat mean = v_load_n(m + i, left) * mu + grad;
        v_store_n(m + i, mean, left);
        v_store_n(u + i, mean * mu + grad, left);
    }
    const double norm = sqrt(OP(chunk_squares)(u, n));
    load_panels(&s.x, u, O, I, (float)(1.0 / (norm + (double)PL_MUON_TINY)));
    iterate_gram(&s, team);
    const panel_product last = {.c = &s.y,
                                .a = &s.x,
                                .b = &s.whole,
                                .factor =
                                    PL_MUON_SCALE * sqrtf((float)(O < I ? I : O))};
    multiply_panels(&last, team);
    apply_panels(&s.y, job->p + at, u, O, I, job->adam);
}

/* Threads divide the rows of each product if there are fewer matrices than threads and
 * the matrices are large. Otherwise threads divide the matrices. */
void OP(muon)(pl_backend *be, float *p, float *m, float *g, float *work, int n, int O,
              int I, float grad_scale, const pl_adamw *adam)
{
    const muon_job job = {p, m, g, O, I, grad_scale, adam};
    const size_t size = (size_t)O * (size_t)I, floats = pl_muon_work_floats(O, I);
    const int within = n < be->n_threads ? cpu_team(be, size * sizeof *p) : 1;
    const int team = within > 1 ? 1 : cpu_team(be, (size_t)n * size * sizeof *p);
    const int others = (n < team ? n : team) - 1; /* threads that cannot use `work` */
    float *more = NULL;
    if (others > 0) {
        more = cpu_scratch(cpu_self(be), (size_t)others * floats * sizeof *more);
        if (more == NULL)
            return;
    }
#pragma omp parallel for schedule(static) num_threads(team) if (team > 1)
    for (int thread = 0; thread < team; thread++)
        for (int i = thread; i < n; i += team) {
            float *own = thread == 0 ? work : more + (size_t)(thread - 1) * floats;
            step_matrix(&job, (size_t)i * size, own, within);
        }
}
