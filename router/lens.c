/* Fits the feature transform, and applies it (lens.h). */
#include "router/lens.h"
#include "router/pca.h"
#include "router/sharpen.h"
#include <math.h>

enum {
    POINTS_A_ITEM = 256,
    WHITE = 64, /* sharpening searches directions among this many components */
    /* sharpening uses one cluster per POINTS_A_CLUSTER points, but at most CLUSTERS */
    CLUSTERS = 320,
    POINTS_A_CLUSTER = 16,
    SAMPLE = 16384 /* sharpening uses at most this many evenly spaced points */
};

pl_status lens_alloc(lens *l, int dim, int rank, bool with_rows)
{
    size_t C = (size_t)dim, n_rows = with_rows ? (size_t)rank * C : 0;
    *l = (lens){.dim = dim, .rank = rank};
    PL_CHECK(pl_try_alloc((2 * C + n_rows) * sizeof(float),
                          "the transform of the router's features", (void **)&l->mean));
    l->scale = l->mean + C;
    l->rows = with_rows ? l->scale + C : NULL;
    return PL_OK;
}

void lens_clear(lens *l)
{
    pl_free(l->mean);
    *l = (lens){0};
}

/* ---- the rows of the projection ---- */
typedef struct rows_fit {
    const lens *lens;
    const pl_router_options *options;
    const float *features;
    size_t n;
    size_t white;    /* number of whitened components */
    double *rows;    /* [white, dim] the rows that whiten (fit_white) */
    double *turn;    /* [rank, white] the projection that sharpening found */
    size_t n_sample; /* sharpening uses n_sample points: every stride-th point */
    size_t stride;
    float *sample; /* [n_sample, white] the sample, whitened */
} rows_fit;

/* Computes the rows that whiten: each principal direction divided by the square root of
 * its variance. Directions with almost no variance are noise, which must not be scaled
 * up, so their rows become zero, and `white` becomes the number of the remaining
 * directions. If there is any variance, at least one direction is kept. */
static pl_status fit_white(rows_fit *f)
{
    size_t C = (size_t)f->lens->dim, n_kept = 0;
    pca_job job = {.x = f->features,
                   .mean = f->lens->mean,
                   .scale = f->lens->scale,
                   .n = f->n,
                   .dim = f->lens->dim,
                   .rank = (int)f->white,
                   .seed = f->options->seed,
                   .n_threads = f->options->n_threads};
    double *variances = pl_alloc(f->white * sizeof *variances);
    pl_status status;
    PL_TRY(pca_fit(&job, f->rows, variances));
    while (n_kept < f->white && variances[n_kept] > 1e-9 * variances[0])
        ++n_kept;
    for (size_t r = 0; r < f->white; ++r)
        for (size_t d = 0; d < C; ++d)
            f->rows[r * C + d] *= r < n_kept ? 1.0 / sqrt(variances[r]) : 0.0;
    f->white = n_kept;
done:
    pl_free(variances);
    return status;
}

static pl_status whiten_points(void *context, size_t item, int thread)
{
    rows_fit *f = context;
    size_t C = (size_t)f->lens->dim, first = item * POINTS_A_ITEM;
    (void)thread;
    for (size_t i = first; i < f->n_sample && i < first + POINTS_A_ITEM; ++i) {
        const float *x = f->features + i * f->stride * C;
        for (size_t r = 0; r < f->white; ++r) {
            double sum = 0.0;
            for (size_t d = 0; d < C; ++d)
                sum += f->rows[r * C + d] * ((double)x[d] - (double)f->lens->mean[d]) *
                       (double)f->lens->scale[d];
            f->sample[i * f->white + r] = (float)sum;
        }
    }
    return PL_OK;
}

static pl_status fit_rows(lens *l, const float *features, size_t n,
                          const pl_router_options *options)
{
    size_t C = (size_t)l->dim, R = (size_t)l->rank, white = R;
    if (options->sharpen > 0 && white < WHITE)
        white = C < WHITE ? C : WHITE;
    rows_fit f = {.lens = l,
                  .options = options,
                  .features = features,
                  .n = n,
                  .white = white,
                  .stride = (n + SAMPLE - 1) / SAMPLE};
    f.n_sample = n / f.stride;
    pl_status status;
    PL_TRY(pl_try_alloc(
        (C + R) * white * sizeof(double) + f.n_sample * white * sizeof(float),
        "fitting the transform of the router's features", (void **)&f.rows));
    f.turn = f.rows + white * C;
    f.sample = (float *)(f.turn + R * white);
    PL_TRY(fit_white(&f));
    /* sharpening needs enough points for at least two clusters */
    const size_t most = f.n_sample / POINTS_A_CLUSTER;
    const sharpen_job job = {.points = f.sample,
                             .n = f.n_sample,
                             .dim = (int)f.white,
                             .rank = (int)(R < f.white ? R : f.white),
                             .clusters = most < CLUSTERS ? (int)most : CLUSTERS,
                             .rounds = options->sharpen,
                             .seed = options->seed,
                             .n_threads = options->n_threads};
    const bool turned = options->sharpen > 0 && f.white > 0 && job.clusters > 1;
    if (turned) {
        const size_t n_items = (f.n_sample + POINTS_A_ITEM - 1) / POINTS_A_ITEM;
        PL_TRY(pl_parallel(job.n_threads, n_items, whiten_points, &f));
        PL_TRY(sharpen_fit(&job, f.turn));
    }
    memset(l->rows, 0, R * C * sizeof *l->rows);
    for (size_t r = 0; r < R && r < f.white; ++r)
        for (size_t d = 0; d < C; ++d) {
            double sum = turned ? 0.0 : f.rows[r * C + d];
            for (size_t s = 0; turned && s < f.white; ++s)
                sum += f.turn[r * f.white + s] * f.rows[s * C + d];
            l->rows[r * C + d] = (float)sum;
        }
done:
    pl_free(f.rows);
    return status;
}

/* Reads the features twice: first for the means, then for the deviations from the
 * means. A single pass would lose precision if all values had a large common offset.
 * With `standardize`, a column that does not vary gets scale 0; otherwise every scale
 * is 1. Then fits the rows, if the lens has some. */
pl_status lens_fit(lens *l, const float *features, size_t n,
                   const pl_router_options *options)
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
        l->scale[d] = !options->standardize ? 1.0f
                      : varies              ? (float)(1.0 / deviation)
                                            : 0.0f;
    }
    pl_free(sum);
    l->unit = options->unit;
    return l->rows ? fit_rows(l, features, n, options) : PL_OK;
}

static double dot_floats(const float *a, const float *b, int n)
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
        z[r] = (float)dot_floats(l->rows + (size_t)r * (size_t)l->dim, y, l->dim);
    if (!l->unit)
        return;
    double norm = sqrt(dot_floats(z, z, l->rank));
    for (int r = 0; norm > 0.0 && r < l->rank; ++r)
        z[r] = (float)((double)z[r] / norm);
}
