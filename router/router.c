/* Creates a router, computes the cost of each path for a feature, and chooses a
 * path. */
#include "router/kmeans.h"
#include "router/router_internal.h"
#include <math.h>

/* ---- creating a router ---- */
pl_status router_create(pl_router_kind kind, int n_levels, const int *experts, int dim,
                        int rank, bool with_rows, pl_router **out)
{
    pl_status status = PL_OK;
    pl_router *router = pl_alloc(sizeof *router);
    router->kind = kind;
    router->n_levels = n_levels;
    router->n_paths = 1;
    for (int level = 0; level < n_levels; ++level) {
        router->experts[level] = experts[level];
        router->n_paths *= experts[level];
    }
    PL_TRY(lens_alloc(&router->lens, dim, rank, with_rows));
    for (int level = 0; level < n_levels; ++level) {
        size_t size = (size_t)experts[level] * (size_t)router_row_size(router, level);
        PL_TRY(pl_try_alloc(size * sizeof(float), "centroids",
                            (void **)&router->centroids[level]));
    }
    router->bias = pl_alloc((size_t)router->n_paths * sizeof *router->bias);
done:
    if (status != PL_OK)
        pl_router_destroy(&router);
    *out = router;
    return status;
}

void pl_router_destroy(pl_router **router)
{
    if (!*router)
        return;
    lens_clear(&(*router)->lens);
    for (int level = 0; level < (*router)->n_levels; ++level)
        pl_free((*router)->centroids[level]);
    pl_free_all((*router)->bias, *router);
    *router = NULL;
}

/* ---- costs of paths ---- */
int router_n_centroids(const pl_router *router)
{
    int sum = 0;
    for (int level = 0; level < router->n_levels; ++level)
        sum += router->experts[level];
    return sum;
}

void router_distances(const pl_router *router, const float *z, double *distances)
{
    const int rank = router->lens.rank;
    for (int e = 0; router->kind == PL_ROUTER_LINEAR && e < router->n_paths; ++e) {
        const float *row = router->centroids[0] + (size_t)e * ((size_t)rank + 1);
        double score = (double)row[rank];
        for (int d = 0; d < rank; ++d)
            score += (double)row[d] * (double)z[d];
        distances[e] = -score;
    }
    if (router->kind == PL_ROUTER_LINEAR)
        return;
    for (int level = 0; level < router->n_levels; ++level) {
        int first = router_part(router, level), size = router_part_size(router, level);
        for (int e = 0; e < router->experts[level]; ++e)
            *distances++ = square_distance(
                z + first, router->centroids[level] + (size_t)e * (size_t)size, size);
    }
}

/* Adds the distances level by level. After l levels, `costs` has the cost of each
 * combination of the first l labels, in row-major order. Each level makes the array
 * longer in place. So the loop goes from the last combination to the first, because the
 * new costs of a combination overwrite only old costs that are no longer needed. */
void router_costs(const pl_router *router, const double *distances, const double *bias,
                  double *costs)
{
    int n = 1;
    costs[0] = 0.0;
    for (int level = 0; level < router->n_levels; ++level) {
        int experts = router->experts[level];
        for (int i = n - 1; i >= 0; --i) {
            double sum = costs[i];
            for (int e = 0; e < experts; ++e)
                costs[i * experts + e] = sum + distances[e];
        }
        n *= experts;
        distances += experts;
    }
    for (int path = 0; bias && path < n; ++path)
        costs[path] += bias[path];
}

int router_cheapest(const double *costs, int n_paths)
{
    int best = 0;
    for (int path = 1; path < n_paths; ++path)
        if (costs[path] < costs[best])
            best = path;
    return best;
}

void router_rank(double *costs, int n_paths, int top, int *paths)
{
    for (int i = 0; i < top; ++i) {
        paths[i] = router_cheapest(costs, n_paths);
        costs[paths[i]] = INFINITY;
    }
}

size_t router_scratch_doubles(const pl_router *router)
{
    return (size_t)(router_n_centroids(router) + router->n_paths + router->lens.dim +
                    router->lens.rank);
}

double *router_weigh(const pl_router *router, const float *feature, double *scratch)
{
    double *distances = scratch;
    double *costs = distances + router_n_centroids(router);
    float *y = (float *)(costs + router->n_paths);
    float *z = y + router->lens.dim;
    lens_look(&router->lens, feature, y, z);
    router_distances(router, z, distances);
    router_costs(router, distances, router->bias, costs);
    return costs;
}
