/* Discriminant analysis without labels: k-means gives each point a label, its cluster.
 * The labels give a better projection, and the projection gives better clusters (Ding &
 * Li 2007, "Adaptive dimension reduction using discriminant analysis and k-means
 * clustering").
 *
 * The covariance of the points is the identity I. It is the sum of the scatter within
 * clusters, S_w, and the scatter between clusters, S_b. So S_w and S_b have the same
 * eigenvectors. A direction in which points vary little within clusters (a small
 * eigenvalue v of S_w) separates clusters well. Fisher's projection keeps the
 * directions with the smallest v and divides them by sqrt(v + RIDGE). In the projection
 * clusters are about round.
 *
 * There are more clusters than paths, because the points of a domain are seldom one
 * round cluster. */
#include "router/sharpen.h"
#include "router/eigen.h"
#include "router/kmeans.h"
#include <math.h>

enum { POINTS_A_ITEM = 256, ITERATIONS = 30 };
static const double RIDGE = 0.03;

typedef struct work {
    const sharpen_job *job;
    /* C: columns of a point; R: rows of the projection; K: number of clusters */
    size_t C, R, K;
    double *rows; /* [R, C] the projection */
    /* whether `rows` has been computed; in the first round it has not, and the points
     * are clustered without a projection */
    bool turned;
    double *means;   /* [K, C] means of the clusters */
    double *within;  /* [C, C] S_w */
    double *vectors; /* [C, C] eigenvectors of S_w as rows */
    double *values;  /* [C] eigenvalues of S_w */
    size_t *count;   /* [K] number of points of each cluster */
    /* [n, C] in the first round, later [n, R]: the projected points, scaled to length
     * 1 */
    float *view;
    float *centroids; /* [K, C] in the first round, later [K, R] */
    int *label;       /* [n] cluster of each point */
} work;

static pl_status view_points(void *context, size_t item, int thread)
{
    work *w = context;
    const size_t first = item * POINTS_A_ITEM, n = w->turned ? w->R : w->C;
    (void)thread;
    for (size_t i = first; i < w->job->n && i < first + POINTS_A_ITEM; ++i) {
        const float *point = w->job->points + i * w->C;
        float *out = w->view + i * n;
        double square = 0.0;
        for (size_t r = 0; r < n; ++r) {
            double sum = w->turned ? 0.0 : (double)point[r];
            for (size_t c = 0; w->turned && c < w->C; ++c)
                sum += w->rows[r * w->C + c] * (double)point[c];
            out[r] = (float)sum;
            square += sum * sum;
        }
        double factor = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
        for (size_t r = 0; r < n; ++r)
            out[r] = (float)((double)out[r] * factor);
    }
    return PL_OK;
}

/* Computes one row of S_w. Adds all points, in their order. */
static pl_status scatter_rows(void *context, size_t row, int thread)
{
    work *w = context;
    double *out = w->within + row * w->C;
    (void)thread;
    memset(out, 0, w->C * sizeof *out);
    for (size_t i = 0; i < w->job->n; ++i) {
        const float *point = w->job->points + i * w->C;
        const double *mean = w->means + (size_t)w->label[i] * w->C;
        double here = (double)point[row] - mean[row];
        for (size_t c = 0; c < w->C; ++c)
            out[c] += here * ((double)point[c] - mean[c]);
    }
    for (size_t c = 0; c < w->C; ++c)
        out[c] /= (double)w->job->n;
    return PL_OK;
}

pl_status sharpen_fit(const sharpen_job *job, double *rows)
{
    work w = {.job = job,
              .C = (size_t)job->dim,
              .R = (size_t)job->rank,
              .K = (size_t)job->clusters,
              .rows = rows};
    pl_status status;
    size_t n = w.job->n, square = w.C * w.C;
    size_t doubles = w.K * w.C + 2 * square + w.C;
    PL_TRY(pl_try_alloc(doubles * sizeof(double) + w.K * sizeof(size_t) +
                            (n + w.K) * w.C * sizeof(float) + n * sizeof(int),
                        "sharpening the router's features", (void **)&w.means));
    w.within = w.means + w.K * w.C;
    w.vectors = w.within + square;
    w.values = w.vectors + square;
    w.count = (size_t *)(w.values + w.C);
    w.view = (float *)(w.count + w.K);
    w.centroids = w.view + n * w.C;
    w.label = (int *)(w.centroids + w.K * w.C);
    for (int round = 0; round < job->rounds; ++round) {
        const size_t n_items = (n + POINTS_A_ITEM - 1) / POINTS_A_ITEM;
        const size_t columns = w.turned ? w.R : w.C;
        const kmeans_job clusters = {
            .points = w.view,
            .n = n,
            .stride = columns,
            .dim = (int)columns,
            .k = job->clusters,
            .restarts = 1,
            .iterations = ITERATIONS,
            .seed = job->seed,
            .level = -1 - round, /* each round has a separate random stream */
            .n_threads = job->n_threads};
        PL_TRY(pl_parallel(job->n_threads, n_items, view_points, &w));
        PL_TRY(kmeans_fit(&clusters, w.centroids, w.label));
        memset(w.means, 0, w.K * w.C * sizeof *w.means);
        memset(w.count, 0, w.K * sizeof *w.count);
        for (size_t i = 0; i < n; ++i) {
            double *mean = w.means + (size_t)w.label[i] * w.C;
            ++w.count[w.label[i]];
            for (size_t c = 0; c < w.C; ++c)
                mean[c] += (double)job->points[i * w.C + c];
        }
        for (size_t k = 0; k < w.K; ++k)
            for (size_t c = 0; w.count[k] > 0 && c < w.C; ++c)
                w.means[k * w.C + c] /= (double)w.count[k];
        PL_TRY(pl_parallel(job->n_threads, w.C, scatter_rows, &w));
        /* The rows of the projection are the eigenvectors with the least variance
         * within clusters. These are the last eigenvectors, and the last one becomes
         * the first row. */
        eigen_symmetric(w.within, w.C, w.values, w.vectors);
        for (size_t r = 0; r < w.R; ++r) {
            const size_t from = w.C - 1 - r;
            const double factor = 1.0 / sqrt(fmax(w.values[from], 0.0) + RIDGE);
            for (size_t c = 0; c < w.C; ++c)
                rows[r * w.C + c] = factor * w.vectors[from * w.C + c];
        }
        w.turned = true;
    }
done:
    pl_free(w.means);
    return status;
}
