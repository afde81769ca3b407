/* folder: router */
/* Defines the functions of router_support.h. */
#include "tests/support/router_support.h"

pl_router_options plain_options(int n_paths)
{
    return (pl_router_options){.kind = PL_ROUTER_KMEANS,
                               .n_paths = n_paths,
                               .restarts = 4,
                               .iterations = 50,
                               .seed = 7,
                               .n_threads = 1};
}

float *make_clouds(size_t n, int dim, int k, float apart)
{
    float *points = malloc(n * (size_t)dim * sizeof *points);
    assert_non_null(points);
    for (size_t i = 0; i < n; ++i)
        for (size_t d = 0; d < (size_t)dim; ++d) {
            uint64_t corner = (i % (size_t)k) * (size_t)dim + d;
            float side = pl_random_u32(1, 2, corner) & 1 ? apart : -apart;
            points[i * (size_t)dim + d] =
                side + pl_random_normal(1, 3, i * (size_t)dim + d);
        }
    return points;
}

pl_router *fit(const float *points, size_t n, int dim, const pl_router_options *options)
{
    pl_router *router;
    assert_ok(pl_router_fit(points, n, dim, options, &router));
    return router;
}

void rank_paths(const pl_router *router, const float *feature, int top, int *paths)
{
    OWNED(free_memory)
    double *scratch = malloc(router_scratch_doubles(router) * sizeof *scratch);
    router_rank(router_weigh(router, feature, scratch), router->n_paths, top, paths);
}

int path_of(const pl_router *router, const float *feature)
{
    int path;
    rank_paths(router, feature, 1, &path);
    return path;
}

double purity_of(const pl_router *router, const float *points, size_t n, int k)
{
    OWNED(free_memory) int *cluster = malloc(n * sizeof *cluster);
    OWNED(free_memory) uint32_t *label = malloc(n * sizeof *label);
    pl_judgement judgement;
    for (size_t i = 0; i < n; ++i) {
        cluster[i] = path_of(router, points + i * (size_t)router->lens.dim);
        label[i] = (uint32_t)(i % (size_t)k);
    }
    pl_judge(cluster, router->n_paths, label, k, n, &judgement);
    return judgement.purity;
}

void router_bytes(const pl_router *router, pl_buf *out)
{
    const lens *l = &router->lens;
    size_t dim = (size_t)l->dim;
    pl_buf_append(out, &router->inertia, sizeof router->inertia);
    pl_buf_append(out, l->mean, dim * sizeof *l->mean);
    pl_buf_append(out, l->scale, dim * sizeof *l->scale);
    if (l->rows)
        pl_buf_append(out, l->rows, (size_t)l->rank * dim * sizeof *l->rows);
    for (int level = 0; level < router->n_levels; ++level)
        pl_buf_append(out, router->centroids[level],
                      (size_t)router->experts[level] *
                          (size_t)router_row_size(router, level) * sizeof(float));
    pl_buf_append(out, router->bias, (size_t)router->n_paths * sizeof *router->bias);
}
