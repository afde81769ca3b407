/* Learning the lens, and looking through it. */
#include "router/lens.h"
#include "router/pca.h"
#include <math.h>
#include <string.h>

pl_status lens_alloc(lens *l, int dim, int rank, bool with_rows)
{
    size_t C = (size_t)dim, n_rows = with_rows ? (size_t)rank * C : 0;
    void *memory = NULL;
    PL_RETURN_IF(pl_try_alloc((2 * C + n_rows) * sizeof(float), "lens", &memory));
    *l = (lens){.dim = dim, .rank = rank, .mean = memory};
    l->scale = l->mean + C;
    l->rows = with_rows ? l->scale + C : NULL;
    return PL_OK;
}

void lens_clear(lens *l)
{
    pl_free_aligned(l->mean);
    *l = (lens){0};
}

/* Two passes: the deviation is taken around the mean, so that a large common offset
 * does not cancel it away. A column that does not vary has scale 0. */
static void fit_columns(lens *l, const float *features, size_t n, bool standardize)
{
    size_t C = (size_t)l->dim;
    double *sum = pl_alloc(2 * C * sizeof *sum), *square = sum + C;
    for (size_t i = 0; i < n; ++i)
        for (size_t d = 0; d < C; ++d)
            sum[d] += (double)features[i * C + d];
    for (size_t d = 0; d < C; ++d)
        l->mean[d] = (float)(sum[d] / (double)n);
    for (size_t i = 0; i < n; ++i)
        for (size_t d = 0; d < C; ++d) {
            double y = (double)features[i * C + d] - (double)l->mean[d];
            square[d] += y * y;
        }
    for (size_t d = 0; d < C; ++d) {
        double deviation = sqrt(square[d] / (double)n);
        bool varies = deviation > 1e-6 * fabs((double)l->mean[d]) && deviation > 1e-20;
        l->scale[d] = !standardize ? 1.0f : varies ? (float)(1.0 / deviation) : 0.0f;
    }
    pl_free(sum);
}

/* rows = diag(variance)^(-1/2) V: whitened components. A direction
 * with next to no variance is noise and is left out, not blown up. */
static pl_status fit_rows(lens *l, const float *features, size_t n,
                          const lens_options *options)
{
    size_t C = (size_t)l->dim, R = (size_t)l->rank;
    pca_job job = {.x = features,
                   .mean = l->mean,
                   .scale = l->scale,
                   .n = n,
                   .dim = l->dim,
                   .rank = l->rank,
                   .seed = options->seed,
                   .n_threads = options->n_threads};
    void *memory = NULL;
    pl_status status;
    PL_TRY(pl_try_alloc((R * C + R) * sizeof(double), "principal components", &memory));
    double *rows = memory, *variances = rows + R * C;
    PL_TRY(pca_fit(&job, rows, variances));
    for (size_t r = 0; r < R; ++r) {
        bool varies = variances[r] > 1e-9 * variances[0];
        double factor = varies ? 1.0 / sqrt(variances[r]) : 0.0;
        for (size_t d = 0; d < C; ++d)
            l->rows[r * C + d] = (float)(rows[r * C + d] * factor);
    }
done:
    pl_free_aligned(memory);
    return status;
}

pl_status lens_fit(lens *l, const float *features, size_t n,
                   const lens_options *options)
{
    l->unit = options->unit;
    fit_columns(l, features, n, options->standardize);
    return l->rows ? fit_rows(l, features, n, options) : PL_OK;
}

static double dot(const float *a, const float *b, int n)
{
    double lane[8] = {0.0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; ++k)
            lane[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < n; ++i)
        lane[0] += (double)a[i] * (double)b[i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void lens_look(const lens *l, const float *x, float *scratch, float *z)
{
    float *y = l->rows ? scratch : z;
    for (int d = 0; d < l->dim; ++d)
        y[d] = (x[d] - l->mean[d]) * l->scale[d];
    for (int r = 0; l->rows && r < l->rank; ++r)
        z[r] = (float)dot(l->rows + (size_t)r * (size_t)l->dim, y, l->dim);
    if (!l->unit)
        return;
    double norm = sqrt(dot(z, z, l->rank));
    for (int r = 0; norm > 0.0 && r < l->rank; ++r)
        z[r] = (float)((double)z[r] / norm);
}
