/* Fits a router: first the transform of features, then the centroids of each level (for
 * a linear router, the rows of weights), then the prices if shards must be balanced. */
#include "router/arrange.h"
#include "router/balance.h"
#include "router/discriminate.h"
#include "router/kmeans.h"
#include <math.h>

enum { POINTS_A_ITEM = 256, BALANCE_ROUNDS = 8 };

typedef struct fit {
    const pl_router_options *options;
    pl_router *router;
    const float *features;
    size_t n;
    double *weights;   /* [n] weight of each document */
    float *z;          /* [n, rank] transformed features */
    float *scratch;    /* [n_threads, dim] memory of each thread */
    double *distances; /* [n, n_centroids] from router_distances */
    int *path;         /* [n] path of each document */
    int *label;        /* [n] label of each document at one level */
} fit;

static int levels_of(const pl_router_options *options)
{
    return options->kind == PL_ROUTER_PRODUCT ? options->n_levels : 1;
}

static int rank_of(const pl_router_options *options, int dim)
{
    bool fewer = options->components > 0 && options->components < dim;
    return fewer ? options->components : dim;
}

static pl_status check_fit(const float *features, size_t n, int dim,
                           const pl_router_options *options)
{
    if (options->restarts < 1 || options->iterations < 1 || options->n_threads < 1)
        return pl_fail(PL_ERR_CONFIG,
                       "a router needs restarts, iterations and threads of at least 1, "
                       "not %d, %d, %d",
                       options->restarts, options->iterations, options->n_threads);
    if (!(options->balance >= 0.0) || options->components < 0 || options->sharpen < 0)
        return pl_fail(PL_ERR_CONFIG,
                       "the router's balance (%g), components (%d) and sharpen (%d) "
                       "must not be negative",
                       options->balance, options->components, options->sharpen);
    if (options->n_paths < 1 || options->n_paths > ROUTER_PATHS_MAX)
        return pl_fail(PL_ERR_CONFIG, "a router takes 1 to %d paths, not %d",
                       (int)ROUTER_PATHS_MAX, options->n_paths);
    const bool is_product = options->kind == PL_ROUTER_PRODUCT;
    if (is_product && (options->n_levels < 1 || options->n_levels > PL_LEVELS_MAX))
        return pl_fail(PL_ERR_CONFIG, "product k-means takes 1 to %d levels, not %d",
                       (int)PL_LEVELS_MAX, options->n_levels);
    int64_t product = 1;
    for (int level = 0; is_product && level < options->n_levels; ++level) {
        if (options->experts[level] < 1 || options->experts[level] > ROUTER_PATHS_MAX)
            return pl_fail(PL_ERR_CONFIG, "level %d has %d experts; give 1 to %d",
                           level + 1, options->experts[level], (int)ROUTER_PATHS_MAX);
        product *= options->experts[level];
        if (product > options->n_paths)
            break;
    }
    if (is_product && product != options->n_paths)
        return pl_fail(PL_ERR_CONFIG,
                       "the numbers of experts of all levels of product k-means must "
                       "multiply to %d, the number of paths",
                       options->n_paths);
    const bool linear = options->kind == PL_ROUTER_LINEAR;
    const size_t n_paths = (size_t)options->n_paths;
    if (linear && !(options->decay >= 0.0))
        return pl_fail(PL_ERR_CONFIG, "the router's decay (%g) must not be negative",
                       options->decay);
    for (size_t i = 0; linear && i < n * n_paths; ++i)
        if (!isfinite(options->scores[i]))
            return pl_fail(PL_ERR_NUMERIC,
                           "path %zu predicts document %zu with the log likelihood "
                           "%g, which is not finite; the path's parameters cannot be "
                           "used for routing",
                           i % n_paths, i / n_paths, options->scores[i]);
    if (dim < 1 || dim > ROUTER_DIM_MAX || rank_of(options, dim) < levels_of(options))
        return pl_fail(
            PL_ERR_CONFIG,
            "features have %d elements, of which the router uses %d; features may "
            "have 1 to %d elements, and the router must use at least %d (one per level "
            "of product k-means); use a larger router.components or a smaller "
            "model.width",
            dim, rank_of(options, dim), (int)ROUTER_DIM_MAX, levels_of(options));
    if (n < (size_t)options->n_paths)
        return pl_fail(PL_ERR_DATA,
                       "fewer documents than paths: %d paths but only %zu documents; "
                       "give more documents or fewer paths",
                       options->n_paths, n);
    for (size_t i = 0; i < n * (size_t)dim; ++i)
        if (!isfinite(features[i]))
            return pl_fail(PL_ERR_NUMERIC,
                           "element %zu of the feature of document %zu is %f, which "
                           "is not finite; this base model cannot be used for routing",
                           i % (size_t)dim, i / (size_t)dim, (double)features[i]);
    return PL_OK;
}

static pl_status project_points(void *context, size_t item, int thread)
{
    fit *f = context;
    const lens *l = &f->router->lens;
    size_t dim = (size_t)l->dim, rank = (size_t)l->rank, first = item * POINTS_A_ITEM;
    float *scratch = f->scratch + (size_t)thread * dim;
    for (size_t i = first; i < f->n && i < first + POINTS_A_ITEM; ++i)
        lens_look(l, f->features + i * dim, scratch, f->z + i * rank);
    return PL_OK;
}

static pl_status measure_points(void *context, size_t item, int thread)
{
    fit *f = context;
    (void)thread;
    size_t rank = (size_t)f->router->lens.rank, first = item * POINTS_A_ITEM;
    size_t stride = (size_t)router_n_centroids(f->router);
    for (size_t i = first; i < f->n && i < first + POINTS_A_ITEM; ++i)
        router_distances(f->router, f->z + i * rank, f->distances + i * stride);
    return PL_OK;
}

static pl_status on_points(fit *f, pl_item_fn fn)
{
    size_t n_items = (f->n + POINTS_A_ITEM - 1) / POINTS_A_ITEM;
    return pl_parallel(f->options->n_threads, n_items, fn, f);
}

static kmeans_job level_job(const fit *f, int level)
{
    const pl_router *router = f->router;
    return (kmeans_job){.points = f->z + router_part(router, level),
                        .n = f->n,
                        .stride = (size_t)router->lens.rank,
                        .dim = router_part_size(router, level),
                        .k = router->experts[level],
                        .restarts = f->options->restarts,
                        .iterations = f->options->iterations,
                        .seed = f->options->seed,
                        .level = level,
                        .n_threads = f->options->n_threads};
}

/* Computes prices that balance the shards, in several rounds. Each round computes
 * prices for the present centroids. All rounds except the last one then move the
 * centroids to the means of the new shards. If a round finds no prices that keep the
 * limit, the weight of its heaviest shard becomes the limit of the next rounds. */
static pl_status balance_shards(fit *f)
{
    double total = 0.0, fullest = 0.0;
    /* copies the weights; if the caller gave none, every weight is 1 */
    const double *weights = f->options->weights;
    for (size_t i = 0; i < f->n; ++i) {
        f->weights[i] = weights ? weights[i] : 1.0;
        if (!(f->weights[i] >= 0.0) || !isfinite(f->weights[i]))
            return pl_fail(PL_ERR_CONFIG,
                           "document %zu has the weight %g; weights must be finite and "
                           "not negative",
                           i, f->weights[i]);
        total += f->weights[i];
    }
    if (!(total > 0.0))
        return pl_fail(PL_ERR_CONFIG,
                       "all %zu documents have weight 0, so shards cannot be balanced",
                       f->n);
    double limit = (1.0 + f->options->balance) * total / f->router->n_paths;
    balance_job job = {.router = f->router,
                       .distances = f->distances,
                       .weights = f->weights,
                       .n = f->n,
                       .limit = limit,
                       .step = fmax(1e-4 * f->router->inertia, 1e-30),
                       .n_threads = f->options->n_threads};
    /* a linear router has no centroids to move */
    int rounds = f->router->kind == PL_ROUTER_LINEAR ? 1 : BALANCE_ROUNDS;
    for (int round = 0; round < rounds; ++round) {
        PL_CHECK(balance_fit(&job, f->router->bias, f->path, &fullest));
        if (round + 1 == rounds)
            break;
        job.limit = fmax(job.limit, fullest);
        for (int level = 0; level < f->router->n_levels; ++level) {
            kmeans_job means = level_job(f, level);
            int below = 1; /* number of tuples of the labels at deeper levels */
            for (int l = level + 1; l < f->router->n_levels; ++l)
                below *= f->router->experts[l];
            for (size_t i = 0; i < f->n; ++i)
                f->label[i] = f->path[i] / below % f->router->experts[level];
            PL_CHECK(kmeans_move(&means, f->label, f->router->centroids[level]));
        }
        PL_CHECK(on_points(f, measure_points));
    }
    return PL_OK;
}

/* Sets the inertia to the mean squared distance between a document and the centroids of
 * its path. For a linear router the inertia stays the cross-entropy of the fit. */
static void take_inertia(fit *f)
{
    pl_router *router = f->router;
    if (router->kind == PL_ROUTER_LINEAR)
        return;
    size_t stride = (size_t)router_n_centroids(router);
    double *costs = pl_alloc((size_t)router->n_paths * sizeof *costs), sum = 0.0;
    for (size_t i = 0; i < f->n; ++i) {
        router_costs(router, f->distances + i * stride, router->bias, costs);
        int path = router_cheapest(costs, router->n_paths);
        sum += costs[path] - router->bias[path];
    }
    router->inertia = sum / (double)f->n;
    pl_free(costs);
}

/* Allocates the arrays as one block, which begins with `distances`. */
static pl_status alloc_fit(fit *f)
{
    size_t n = f->n, stride = (size_t)router_n_centroids(f->router);
    size_t rank = (size_t)f->router->lens.rank, dim = (size_t)f->router->lens.dim;
    size_t threads = (size_t)f->options->n_threads;
    PL_CHECK(pl_try_alloc(n * (stride + 1) * sizeof(double) +
                              (n * rank + threads * dim) * sizeof(float) +
                              2 * n * sizeof(int),
                          "the router's points", (void **)&f->distances));
    f->weights = f->distances + n * stride;
    f->z = (float *)(f->weights + n);
    f->scratch = f->z + n * rank;
    f->path = (int *)(f->scratch + threads * dim);
    f->label = f->path + n;
    return PL_OK;
}

static pl_status price_documents(pl_router *router, const float *features, size_t n,
                                 const pl_router_options *options)
{
    fit f = {.options = options, .router = router, .features = features, .n = n};
    pl_status status = PL_OK;
    PL_TRY(alloc_fit(&f));
    PL_TRY(on_points(&f, project_points));
    PL_TRY(on_points(&f, measure_points));
    PL_TRY(balance_shards(&f));
done:
    pl_free(f.distances);
    return status;
}

size_t pl_router_stride(const pl_router_options *options, size_t n, int dim)
{
    const bool product = options->kind == PL_ROUTER_PRODUCT;
    const int levels = options->n_levels < PL_LEVELS_MAX ? options->n_levels : 0;
    uint64_t centroids = product ? 0 : (uint64_t)options->n_paths;
    for (int l = 0; product && l < levels; l++)
        centroids += (uint64_t)options->experts[l];
    /* The bytes that a fit needs per document: for copies of the feature and the
     * weight, for the transformed feature, the distances, the path and the label, and
     * for the arrays of k-means. */
    const uint64_t kmeans = sizeof(double) + 2 * sizeof(int);
    const uint64_t bytes = (uint64_t)(dim + rank_of(options, dim)) * sizeof(float) +
                           (centroids + 2) * sizeof(double) + 2 * sizeof(int) + kmeans;
    uint64_t most = options->memory / bytes, least = (uint64_t)options->n_paths;
    if (options->memory == 0 || n <= most)
        return 1;
    most = most < least ? least : most;
    size_t stride = n / (size_t)most + (n % (size_t)most != 0);
    return n / stride < least ? n / (size_t)least : stride;
}

static pl_status fit_documents(const float *features, size_t n, int dim,
                               const pl_router_options *options, pl_router **out)
{
    fit f = {.options = options, .features = features, .n = n};
    const int *experts =
        options->kind == PL_ROUTER_PRODUCT ? options->experts : &options->n_paths;
    /* Whether the feature transform has a projection (lens.h). Sharpening always needs
     * a projection; if `components` is 0, the projection keeps as many components as
     * the feature has elements. */
    const bool has_rows = options->components > 0 || options->sharpen > 0;
    pl_status status;
    PL_TRY(router_create(options->kind, levels_of(options), experts, dim,
                         rank_of(options, dim), has_rows, &f.router));
    PL_TRY(alloc_fit(&f));
    PL_TRY(lens_fit(&f.router->lens, features, n, options));
    /* Product k-means: components are sorted by importance and given to the parts in
     * turn, so that every level gets important components. */
    pl_router *router = f.router;
    const lens *l = &router->lens;
    const size_t C = (size_t)dim, bytes = (size_t)l->rank * C * sizeof *l->rows;
    if (l->rows && router->n_levels >= 2) {
        float *best_first = pl_alloc(bytes);
        memcpy(best_first, l->rows, bytes);
        for (int round = 0, from = 0; from < l->rank; ++round)
            for (int level = 0; level < router->n_levels; ++level)
                if (round < router_part_size(router, level))
                    memcpy(l->rows + (size_t)(router_part(router, level) + round) * C,
                           best_first + (size_t)from++ * C, C * sizeof *l->rows);
        pl_free(best_first);
    }
    PL_TRY(on_points(&f, project_points));
    if (router->kind == PL_ROUTER_LINEAR) {
        discriminate_job job = {.points = f.z,
                                .n = n,
                                .dim = l->rank,
                                .k = router->n_paths,
                                .scores = options->scores,
                                .decay = options->decay,
                                .iterations = options->iterations,
                                .n_threads = options->n_threads};
        PL_TRY(discriminate_fit(&job, f.distances, router->centroids[0],
                                &router->inertia));
    } else {
        for (int level = 0; level < router->n_levels; ++level) {
            kmeans_job job = level_job(&f, level);
            PL_TRY(kmeans_fit(&job, router->centroids[level], NULL));
        }
    }
    /* with plain k-means, similar clusters are assigned to paths that share modules */
    int64_t n_paths = 1;
    for (int level = 0; level < options->n_levels && level < PL_LEVELS_MAX; ++level)
        n_paths *= options->experts[level];
    if (options->kind == PL_ROUTER_KMEANS && options->n_levels >= 2 &&
        n_paths == options->n_paths)
        PL_TRY(arrange_grid(router->centroids[0], options->n_paths, l->rank,
                            options->n_levels, options->experts, options->seed));
    PL_TRY(on_points(&f, measure_points));
    take_inertia(&f);
    if (options->balance > 0.0) {
        PL_TRY(balance_shards(&f));
        take_inertia(&f);
    }
    *out = router;
    f.router = NULL;
done:
    pl_free(f.distances);
    pl_router_destroy(&f.router);
    return status;
}

/* The evenly spaced documents that a fit uses if all documents would need too much
 * memory. */
typedef struct document_sample {
    size_t n;
    double *weights; /* [n], the block that holds all arrays */
    double *scores;
    float *features; /* [n, dim] */
} document_sample;

/* Copies every stride-th document. *few becomes a copy of `options` that points to the
 * copied weights and scores. */
static pl_status take_sample(const float *features, size_t n, size_t columns,
                             size_t stride, const pl_router_options *options,
                             document_sample *s, pl_router_options *few)
{
    const size_t n_scores = options->scores ? (size_t)options->n_paths : 0;
    s->n = n / stride;
    PL_CHECK(pl_try_alloc_bare(
        s->n * ((1 + n_scores) * sizeof(double) + columns * sizeof(float)),
        "the router's sample", (void **)&s->weights));
    s->scores = s->weights + s->n;
    s->features = (float *)(s->scores + s->n * n_scores);
    for (size_t i = 0; i < s->n; ++i) {
        memcpy(s->features + i * columns, features + i * stride * columns,
               columns * sizeof *features);
        s->weights[i] = options->weights ? options->weights[i * stride] : 1.0;
        if (n_scores > 0)
            memcpy(s->scores + i * n_scores, options->scores + i * stride * n_scores,
                   n_scores * sizeof *s->scores);
    }
    *few = *options;
    few->scores = n_scores > 0 ? s->scores : NULL;
    few->weights = options->weights ? s->weights : NULL;
    return PL_OK;
}

pl_status pl_router_price(pl_router *router, const float *features, size_t n,
                          const pl_router_options *options)
{
    const int dim = router->lens.dim;
    pl_router_options few = *options;
    document_sample sample = {.n = 0};
    memset(router->bias, 0, (size_t)router->n_paths * sizeof *router->bias);
    if (router->kind != PL_ROUTER_LINEAR)
        return pl_fail(PL_ERR_ARG, "only a linear router can get new prices");
    if (!(options->balance > 0.0))
        return PL_OK;
    few.kind = router->kind;
    few.n_paths = router->n_paths;
    few.components = 0;
    few.scores = NULL;
    const pl_router_options all = few;
    const size_t stride = pl_router_stride(&all, n, dim);
    if (stride == 1)
        return price_documents(router, features, n, &all);
    PL_CHECK(take_sample(features, n, (size_t)dim, stride, &all, &sample, &few));
    const pl_status status = price_documents(router, sample.features, sample.n, &few);
    pl_free(sample.weights);
    return status;
}

pl_status pl_router_fit(const float *features, size_t n, int dim,
                        const pl_router_options *options, pl_router **out)
{
    pl_router_options few;
    document_sample sample = {.n = 0};
    *out = NULL;
    PL_CHECK(check_fit(features, n, dim, options));
    const size_t stride = pl_router_stride(options, n, dim);
    if (stride == 1)
        return fit_documents(features, n, dim, options, out);
    PL_CHECK(take_sample(features, n, (size_t)dim, stride, options, &sample, &few));
    const pl_status status = fit_documents(sample.features, sample.n, dim, &few, out);
    pl_free(sample.weights);
    return status;
}
