/* Replaces the singular values of a matrix by their mean (iso.h).
 *
 * The numbers of rows and columns are rounded up to multiples of TILE. The added
 * elements are zeros, which do not change any sum. A matrix product is computed in
 * tiles of ROWS x COLUMNS elements that stay in registers. The terms of each element
 * are added in rising order of the summed index. The loops are compiled once per
 * instruction set, and all versions give the same bits. */
#include "outer/iso.h"
#include <math.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8, ROWS = 4, COLUMNS = 2 * LANES, TILE = 16 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

static const float quintics[PL_ISO_ITERATIONS][3] = {
    {8.15655f, -22.48329f, 15.87877f}, {4.04293f, -2.80892f, 0.50002f},
    {3.89167f, -2.77248f, 0.50606f},   {3.28575f, -2.36813f, 0.46449f},
    {2.34654f, -1.70978f, 0.42324f},   {1.875f, -1.25f, 0.375f},
    {1.875f, -1.25f, 0.375f}};

/* out [R,C] = a [R,K] b [K,C]; all extents are multiples of TILE. */
typedef struct iso_product {
    float *out;
    const float *a, *b;
    size_t K, C;
} iso_product;

INLINE void multiply_tile(const iso_product *p, size_t row, size_t column)
{
    lanes sums[ROWS][2] = {{{0}}};
    for (size_t k = 0; k < p->K; k++) {
        const float *b = p->b + k * p->C + column;
        lanes low, high;
        memcpy(&low, b, sizeof low);
        memcpy(&high, b + LANES, sizeof high);
        for (int r = 0; r < ROWS; r++) {
            const float a = p->a[(row + (size_t)r) * p->K + k];
            sums[r][0] += a * low;
            sums[r][1] += a * high;
        }
    }
    for (int r = 0; r < ROWS; r++)
        memcpy(p->out + (row + (size_t)r) * p->C + column, sums[r], sizeof sums[r]);
}

/* Defines a function that computes TILE rows of a product, a thread's unit of work. */
#define MULTIPLY(isa, attribute)                                                       \
    attribute static pl_status multiply_rows_##isa(void *context, size_t item,         \
                                                   int thread)                         \
    {                                                                                  \
        const iso_product *p = context;                                                \
        (void)thread;                                                                  \
        for (size_t column = 0; column < p->C; column += COLUMNS)                      \
            for (size_t row = 0; row < TILE; row += ROWS)                              \
                multiply_tile(p, item *TILE + row, column);                            \
        return PL_OK;                                                                  \
    }

MULTIPLY(portable, )
MULTIPLY(avx2, PL_AVX2)

/* x [n,m] with n <= m; xt is its transpose; a = x xt. The matrix `b` is first a a, then
 * the polynomial of iso.h, "b A + c A A". y is the matrix `b` times x. n and m are
 * multiples of TILE. */
typedef struct iso_work {
    size_t n, m;
    float *x, *xt, *a, *b, *y;
    int n_threads;
} iso_work;

static pl_status multiply(const iso_work *w, float *out, const float *a, const float *b,
                          const size_t extents[3])
{
    iso_product p = {.out = out, .a = a, .b = b, .K = extents[1], .C = extents[2]};
    return pl_parallel(w->n_threads, extents[0] / TILE,
                       pl_isa_newest() >= PL_ISA_AVX2 ? multiply_rows_avx2
                                                      : multiply_rows_portable,
                       &p);
}

static pl_status iterate_polar(iso_work *w, const float quintic[3])
{
    const size_t n = w->n, m = w->m;
    const float a = quintic[0], b = quintic[1], c = quintic[2];
    for (size_t r = 0; r < n; r++)
        for (size_t k = 0; k < m; k++)
            w->xt[k * n + r] = w->x[r * m + k];
    PL_CHECK(multiply(w, w->a, w->x, w->xt, (size_t[]){n, m, n}));
    PL_CHECK(multiply(w, w->b, w->a, w->a, (size_t[]){n, n, n}));
    for (size_t i = 0; i < n * n; i++)
        w->b[i] = b * w->a[i] + c * w->b[i];
    PL_CHECK(multiply(w, w->y, w->b, w->x, (size_t[]){n, n, m}));
    for (size_t i = 0; i < n * m; i++)
        w->x[i] = a * w->x[i] + w->y[i];
    return PL_OK;
}

static size_t whole_tiles(int extent)
{
    return ((size_t)extent + TILE - 1) / TILE * TILE;
}

size_t pl_iso_work_bytes(int rows, int cols)
{
    const size_t a = whole_tiles(rows), b = whole_tiles(cols), n = a < b ? a : b;
    return (3 * a * b + 2 * n * n) * sizeof(float);
}

/* Returns the index in x of an element of the matrix (`turned`: transposed). */
static size_t place_in_x(const iso_work *w, bool turned, size_t row, size_t col)
{
    return turned ? col * w->m + row : row * w->m + col;
}

pl_status pl_iso_equalize(float *values, int rows, int cols, int n_threads)
{
    const bool turned = rows > cols;
    const size_t R = (size_t)rows, C = (size_t)cols;
    iso_work w = {.n = whole_tiles(turned ? cols : rows),
                  .m = whole_tiles(turned ? rows : cols),
                  .n_threads = n_threads};
    double squares = 0, product = 0;
    for (size_t i = 0; i < R * C; i++)
        squares += (double)values[i] * (double)values[i];
    const double norm = sqrt(squares);
    if (!(norm > 0) || !isfinite(norm))
        return PL_OK;
    float *block = NULL;
    const size_t matrix = w.n * w.m, square = w.n * w.n;
    PL_CHECK(pl_try_alloc(pl_iso_work_bytes(rows, cols), "a step of method iso",
                          (void **)&block));
    w.x = block, w.xt = block + matrix, w.y = block + 2 * matrix;
    w.a = block + 3 * matrix, w.b = w.a + square;
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c < C; c++)
            w.x[place_in_x(&w, turned, r, c)] =
                (float)((double)values[r * C + c] / (1.01 * norm));
    pl_status status = PL_OK;
    for (int i = 0; i < PL_ISO_ITERATIONS; i++)
        PL_TRY(iterate_polar(&w, quintics[i]));
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c < C; c++)
            product +=
                (double)w.x[place_in_x(&w, turned, r, c)] * (double)values[r * C + c];
    const double mean = product / (double)(turned ? cols : rows);
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c < C; c++)
            values[r * C + c] =
                (float)(mean * (double)w.x[place_in_x(&w, turned, r, c)]);
done:
    pl_free(block);
    return status;
}

int pl_iso_matrices(const pl_topology *topology, int module, pl_iso_matrix **out)
{
    const pl_slot *slot =
        pl_topology_slot(topology, pl_topology_module_slot(topology, module));
    int n = 0;
    *out = NULL;
    for (int i = slot->first_tensor; i < slot->first_tensor + slot->n_tensors; i++) {
        const pl_tensor *t = pl_topology_tensor(topology, i);
        if (t->block < 0 || !t->decay)
            continue;
        *out = pl_grow(*out, (size_t)(n + 1) * sizeof **out);
        (*out)[n++] = (pl_iso_matrix){t->offset - slot->offset, t->rows, t->cols};
    }
    return n;
}
