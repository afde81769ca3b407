/* Computes principal components by subspace iteration with a Rayleigh-Ritz step at the
 * end (Halko, Martinsson & Tropp 2011, arXiv:0909.4061, algorithm 4.4).
 *
 * All arithmetic is in double. Rows of a matrix are computed in parallel, each in a
 * fixed order by one thread. */
#include "router/pca.h"
#include "router/eigen.h"
#include <math.h>

enum {
    /* number of additional directions in the iteration: with them the last of the
     * `rank` directions converges faster */
    SPARE = 8,
    POWER_STEPS = 24, /* number of multiplications by the covariance */
    /* the covariance is computed from at most this many evenly spaced points */
    SAMPLE = 16384,
    POINTS_A_BLOCK = 256, /* number of points that are copied to double at once */
    ROWS_AN_ITEM = 16
};

typedef struct work {
    /* C: columns of a point; R: number of directions in the iteration */
    size_t C, R;
    double *points;     /* [POINTS_A_BLOCK, C] points, centred and scaled */
    size_t n_points;    /* number of points in the block */
    double *covariance; /* [C, C] */
    double *q, *next;   /* [R, C] directions as rows */
    double *small;      /* [R, R] the covariance along the directions q */
    double *turn;       /* [R, R] eigenvectors of `small` as rows */
    double *values;     /* [R] eigenvalues of `small` */
} work;

static double dot_doubles(const double *a, const double *b, size_t n)
{
    double lane[4] = {0.0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t l = 0; l < 4; ++l)
            lane[l] += a[i + l] * b[i + l];
    for (; i < n; ++i)
        lane[0] += a[i] * b[i];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* y += factor * x */
static void add_scaled(double *y, double factor, const double *x, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        y[i] += factor * x[i];
}

/* ---- covariance ---- */
static pl_status add_covariance_rows(void *context, size_t item, int thread)
{
    work *w = context;
    const size_t first = item * ROWS_AN_ITEM;
    (void)thread;
    for (size_t r = first; r < w->C && r < first + ROWS_AN_ITEM; ++r)
        for (size_t i = 0; i < w->n_points; ++i) {
            const double *point = w->points + i * w->C;
            add_scaled(w->covariance + r * w->C, point[r], point, w->C);
        }
    return PL_OK;
}

/* ---- subspace iteration ---- */
/* Orthonormalises the rows of q by modified Gram-Schmidt, applied twice for accuracy. A
 * direction that becomes zero stays zero. */
static void orthonormalise(double *q, size_t R, size_t C)
{
    for (size_t r = 0; r < R; ++r) {
        double *row = q + r * C;
        double before = sqrt(dot_doubles(row, row, C));
        for (int pass = 0; pass < 2; ++pass)
            for (size_t s = 0; s < r; ++s)
                add_scaled(row, -dot_doubles(row, q + s * C, C), q + s * C, C);
        double norm = sqrt(dot_doubles(row, row, C));
        double factor = norm > 1e-12 * before ? 1.0 / norm : 0.0;
        for (size_t c = 0; c < C; ++c)
            row[c] *= factor;
    }
}

/* next = q * covariance, one row per direction (the covariance is symmetric). */
static pl_status multiply_directions(void *context, size_t item, int thread)
{
    work *w = context;
    const size_t first = item * ROWS_AN_ITEM;
    (void)thread;
    for (size_t r = first; r < w->R && r < first + ROWS_AN_ITEM; ++r)
        for (size_t c = 0; c < w->C; ++c)
            w->next[r * w->C + c] =
                dot_doubles(w->q + r * w->C, w->covariance + c * w->C, w->C);
    return PL_OK;
}

pl_status pca_fit(const pca_job *job, double *rows, double *variances)
{
    work w = {.C = (size_t)job->dim, .R = (size_t)job->rank + SPARE};
    if (w.R > w.C)
        w.R = w.C;
    const size_t C = w.C, R = w.R;
    const size_t C_items = (C + ROWS_AN_ITEM - 1) / ROWS_AN_ITEM;
    const size_t R_items = (R + ROWS_AN_ITEM - 1) / ROWS_AN_ITEM;
    const size_t size = POINTS_A_BLOCK * C + C * C + 2 * R * C + 2 * R * R + R;
    pl_status status;
    PL_TRY(pl_try_alloc(size * sizeof(double), "principal components",
                        (void **)&w.points));
    w.covariance = w.points + POINTS_A_BLOCK * C;
    w.q = w.covariance + C * C;
    w.next = w.q + R * C;
    w.small = w.next + R * C;
    w.turn = w.small + R * R;
    w.values = w.turn + R * R;
    size_t stride = (job->n + SAMPLE - 1) / SAMPLE, n = job->n / stride;
    for (size_t first = 0; first < n; first += POINTS_A_BLOCK) {
        w.n_points = n - first < POINTS_A_BLOCK ? n - first : POINTS_A_BLOCK;
        for (size_t i = 0; i < w.n_points; ++i) {
            const float *x = job->x + (first + i) * stride * C;
            for (size_t c = 0; c < C; ++c)
                w.points[i * C + c] =
                    ((double)x[c] - (double)job->mean[c]) * (double)job->scale[c];
        }
        PL_TRY(pl_parallel(job->n_threads, C_items, add_covariance_rows, &w));
    }
    for (size_t i = 0; i < C * C; ++i)
        w.covariance[i] /= (double)n;
    uint64_t stream = pl_stream("pca", 0, 0);
    for (size_t i = 0; i < R * C; ++i)
        w.q[i] = (double)pl_random_normal(job->seed, stream, i);
    orthonormalise(w.q, R, C);
    for (int step = 0; step < POWER_STEPS; ++step) {
        PL_TRY(pl_parallel(job->n_threads, R_items, multiply_directions, &w));
        memcpy(w.q, w.next, R * C * sizeof *w.q);
        orthonormalise(w.q, R, C);
    }
    /* Rayleigh-Ritz step: the eigenvectors of q C q^T rotate the rows of q into
     * principal components. */
    PL_TRY(pl_parallel(job->n_threads, R_items, multiply_directions, &w));
    for (size_t i = 0; i < R; ++i)
        for (size_t j = 0; j < R; ++j)
            w.small[i * R + j] = dot_doubles(w.next + i * C, w.q + j * C, C);
    eigen_symmetric(w.small, R, w.values, w.turn);
    memset(rows, 0, (size_t)job->rank * C * sizeof *rows);
    for (size_t r = 0; r < (size_t)job->rank; ++r) {
        variances[r] = fmax(w.values[r], 0.0);
        for (size_t s = 0; s < R; ++s)
            add_scaled(rows + r * C, w.turn[r * R + s], w.q + s * C, C);
    }
done:
    pl_free(w.points);
    return status;
}
