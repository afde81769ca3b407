/* k-means (Lloyd 1982) with k-means++ seeding (Arthur & Vassilvitskii 2007).
 *
 * The result has the same bytes for any number of threads, because one thread computes
 * each value completely: the nearest centroid and distance of a point, or the means of
 * a column. Every sum is added in the order of the points, in double.
 *
 * If two choices are equally good, the lower index is used. A cluster that loses its
 * last point gets the point that is farthest from the centroid of its cluster, so all k
 * centroids stay in use. */
#include "router/kmeans.h"

enum { POINTS_A_ITEM = 512, COLUMNS_A_ITEM = 64 };

typedef struct work {
    const kmeans_job *job;
    /* [k, dim] sum of the points of each cluster; the block that holds all arrays */
    double *sums;
    float *centroids; /* [k, dim] */
    double *distance; /* [n] squared distance to the nearest centroid */
    int *label;       /* [n] cluster of each point */
    int *before;      /* [n] labels of the previous iteration */
    size_t *count;    /* [k] number of points of each cluster */
    int n_seeded;     /* number of centroids that exist while seeding */
} work;

PL_CHECKS_RANGES double square_distance(const float *a, const float *b, int dim)
{
    pl_check_range(a, (size_t)dim * sizeof *a);
    pl_check_range(b, (size_t)dim * sizeof *b);
    double lane[8] = {0.0};
    int d = 0;
    for (; d + 8 <= dim; d += 8)
        for (int l = 0; l < 8; ++l) {
            double difference = (double)a[d + l] - (double)b[d + l];
            lane[l] += difference * difference;
        }
    for (int l = 0; d < dim; ++d, ++l) {
        double difference = (double)a[d] - (double)b[d];
        lane[l] += difference * difference;
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static size_t smaller_count(size_t a, size_t b)
{
    return a < b ? a : b;
}

static const float *point(const work *w, size_t i)
{
    return w->job->points + i * w->job->stride;
}

static float *centroid(const work *w, int c)
{
    return w->centroids + (size_t)c * (size_t)w->job->dim;
}

static size_t point_items(const work *w)
{
    return (w->job->n + POINTS_A_ITEM - 1) / POINTS_A_ITEM;
}

/* ---- seeding ---- */
/* Sets distance[i] to the squared distance between point i and the newest centroid, if
 * that is smaller. */
static pl_status shrink_distances(void *context, size_t item, int thread)
{
    work *w = context;
    (void)thread;
    const float *newest = centroid(w, w->n_seeded - 1);
    size_t first = item * POINTS_A_ITEM,
           last = smaller_count(w->job->n, first + POINTS_A_ITEM);
    for (size_t i = first; i < last; ++i) {
        double d = square_distance(point(w, i), newest, w->job->dim);
        if (w->n_seeded == 1 || d < w->distance[i])
            w->distance[i] = d;
    }
    return PL_OK;
}

/* Draws a point. Its probability is proportional to its squared distance to the nearest
 * centroid. If no centroid exists yet, or every point coincides with a centroid, all
 * points are equally likely. */
static size_t draw_point(const work *w, uint64_t stream)
{
    size_t n = w->job->n;
    double u = pl_random_uniform(w->job->seed, stream, (uint64_t)w->n_seeded);
    double total = 0.0;
    for (size_t i = 0; w->n_seeded > 0 && i < n; ++i)
        total += w->distance[i];
    if (!(total > 0.0))
        return smaller_count((size_t)(u * (double)n), n - 1);
    double target = u * total, sum = 0.0;
    size_t last_positive = 0;
    for (size_t i = 0; i < n; ++i) {
        if (w->distance[i] > 0.0)
            last_positive = i;
        sum += w->distance[i];
        if (sum > target)
            return i;
    }
    return last_positive;
}

/* ---- Lloyd ---- */
static pl_status assign_points(void *context, size_t item, int thread)
{
    work *w = context;
    (void)thread;
    size_t first = item * POINTS_A_ITEM,
           last = smaller_count(w->job->n, first + POINTS_A_ITEM);
    for (size_t i = first; i < last; ++i) {
        int best = 0;
        double least = square_distance(point(w, i), centroid(w, 0), w->job->dim);
        for (int c = 1; c < w->job->k; ++c) {
            double d = square_distance(point(w, i), centroid(w, c), w->job->dim);
            if (d < least) {
                least = d;
                best = c;
            }
        }
        w->label[i] = best;
        w->distance[i] = least;
    }
    return PL_OK;
}

static void count_labels(work *w)
{
    memset(w->count, 0, (size_t)w->job->k * sizeof *w->count);
    for (size_t i = 0; i < w->job->n; ++i)
        ++w->count[w->label[i]];
}

static pl_status assign(work *w)
{
    PL_CHECK(pl_parallel(w->job->n_threads, point_items(w), assign_points, w));
    count_labels(w);
    return PL_OK;
}

/* Computes COLUMNS_A_ITEM columns of `sums`. Adds the points in their order. */
static pl_status sum_columns(void *context, size_t item, int thread)
{
    work *w = context;
    (void)thread;
    size_t dim = (size_t)w->job->dim;
    size_t first = item * COLUMNS_A_ITEM,
           last = smaller_count(dim, first + COLUMNS_A_ITEM);
    for (size_t c = 0; c < (size_t)w->job->k; ++c)
        memset(w->sums + c * dim + first, 0, (last - first) * sizeof *w->sums);
    for (size_t i = 0; i < w->job->n; ++i) {
        const float *x = point(w, i);
        double *sum = w->sums + (size_t)w->label[i] * dim;
        for (size_t d = first; d < last; ++d)
            sum[d] += (double)x[d];
    }
    return PL_OK;
}

/* Moves each centroid to the mean of its points. A centroid without points does not
 * move. */
static pl_status move_centroids(work *w)
{
    size_t dim = (size_t)w->job->dim;
    size_t n_items = (dim + COLUMNS_A_ITEM - 1) / COLUMNS_A_ITEM;
    PL_CHECK(pl_parallel(w->job->n_threads, n_items, sum_columns, w));
    for (size_t c = 0; c < (size_t)w->job->k; ++c)
        for (size_t d = 0; w->count[c] > 0 && d < dim; ++d)
            w->centroids[c * dim + d] =
                (float)(w->sums[c * dim + d] / (double)w->count[c]);
    return PL_OK;
}

/* Iterates until no label changes, at most `iterations` times. `total` gets the sum of
 * squared distances to the nearest centroids. */
static pl_status lloyd(work *w, double *total)
{
    const size_t n = w->job->n, label_bytes = n * sizeof *w->label;
    PL_CHECK(assign(w));
    for (int step = 0; step < w->job->iterations; ++step) {
        /* Gives each empty cluster the point that is farthest from its centroid, among
         * the points of clusters with more than one point. Such a point exists, because
         * k <= n. */
        for (int c = 0; c < w->job->k; ++c) {
            if (w->count[c] > 0)
                continue;
            size_t far = n;
            for (size_t i = 0; i < n; ++i)
                if (w->count[w->label[i]] > 1 &&
                    (far == n || w->distance[i] > w->distance[far]))
                    far = i;
            --w->count[w->label[far]];
            w->label[far] = c;
            w->distance[far] = 0.0;
            w->count[c] = 1;
        }
        memcpy(w->before, w->label, label_bytes);
        PL_CHECK(move_centroids(w));
        PL_CHECK(assign(w));
        if (memcmp(w->before, w->label, label_bytes) == 0)
            break;
    }
    *total = 0.0;
    for (size_t i = 0; i < n; ++i)
        *total += w->distance[i];
    return PL_OK;
}

/* ---- public functions ---- */
/* Allocates one block and divides it into arrays. Arrays with larger alignment come
 * first. */
static pl_status alloc_work(work *w)
{
    size_t n = w->job->n, k = (size_t)w->job->k, size = k * (size_t)w->job->dim;
    size_t bytes = (size + n) * sizeof(double) + k * sizeof(size_t) +
                   size * sizeof(float) + 2 * n * sizeof(int);
    PL_CHECK(pl_try_alloc(bytes, "k-means", (void **)&w->sums));
    w->distance = w->sums + size;
    w->count = (size_t *)(w->distance + n);
    w->centroids = (float *)(w->count + k);
    w->label = (int *)(w->centroids + size);
    w->before = w->label + n;
    return PL_OK;
}

pl_status kmeans_fit(const kmeans_job *job, float *centroids, int *label)
{
    work w = {.job = job};
    pl_status status;
    double least = 0.0;
    PL_TRY(alloc_work(&w));
    for (int restart = 0; restart < job->restarts; ++restart) {
        double total = 0.0;
        uint64_t stream = pl_stream("kmeans", (uint64_t)job->level, (uint64_t)restart);
        for (w.n_seeded = 0; w.n_seeded < job->k;) {
            size_t i = draw_point(&w, stream);
            memcpy(centroid(&w, w.n_seeded++), point(&w, i),
                   (size_t)job->dim * sizeof(float));
            PL_TRY(pl_parallel(job->n_threads, point_items(&w), shrink_distances, &w));
        }
        PL_TRY(lloyd(&w, &total));
        if (restart == 0 || total < least) {
            least = total;
            memcpy(centroids, w.centroids,
                   (size_t)job->k * (size_t)job->dim * sizeof(float));
            if (label)
                memcpy(label, w.label, job->n * sizeof *label);
        }
    }
done:
    pl_free(w.sums);
    return status;
}

pl_status kmeans_move(const kmeans_job *job, const int *label, float *centroids)
{
    work w = {.job = job};
    size_t size = (size_t)job->k * (size_t)job->dim * sizeof *centroids;
    PL_CHECK(alloc_work(&w));
    memcpy(w.label, label, job->n * sizeof *label);
    memcpy(w.centroids, centroids, size);
    count_labels(&w);
    const pl_status status = move_centroids(&w);
    if (status == PL_OK)
        memcpy(centroids, w.centroids, size);
    pl_free(w.sums);
    return status;
}
