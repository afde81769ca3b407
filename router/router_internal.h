/* Private to router: the struct of a router and functions that its files share. */
#pragma once
#include "router/lens.h"

/* A path is a tuple (e_1..e_L) of labels, one per level; a label is the index of a
 * centroid. Tuples are numbered in row-major order, like the paths of the topology.
 * Plain k-means has L = 1. The transformed feature z is divided into L nearly equal
 * parts z_l, and
 *
 *   cost(path) = sum_l |z_l - centroid[l][e_l]|^2 + bias[path]
 *
 * A document goes to the path with the least cost; if costs are equal, to the first
 * such path. The linear router has one level and
 *
 *   cost(path) = -(centroid[path] . [z, 1]) + bias[path]
 *
 * Here the centroid is a row of weights with an intercept at its end. */
struct pl_router {
    pl_router_kind kind;
    int n_paths, n_levels;
    int experts[PL_LEVELS_MAX];
    lens lens;
    float *centroids[PL_LEVELS_MAX]; /* per level: [experts, router_row_size] */
    double *bias; /* [n_paths] prices; all 0 if shards are not balanced */
    /* mean squared distance between a document and the centroids of its path; for a
     * linear router, mean cross-entropy in nats */
    double inertia;
};

enum { ROUTER_PATHS_MAX = 1 << 16, ROUTER_DIM_MAX = 1 << 16 };

/* Returns the index of the first column of z that belongs to part `level`. For level L,
 * returns the end of the last part. */
static inline int router_part(const pl_router *router, int level)
{
    return (int)((int64_t)level * router->lens.rank / router->n_levels);
}
static inline int router_part_size(const pl_router *router, int level)
{
    return router_part(router, level + 1) - router_part(router, level);
}

static inline int router_row_size(const pl_router *router, int level)
{
    return router_part_size(router, level) + (router->kind == PL_ROUTER_LINEAR);
}

/* Returns the number of centroids of all levels together. */
int router_n_centroids(const pl_router *router);

/* Writes distances [n_centroids]: the squared distance from z to each centroid, level
 * after level. For a linear router, writes the negative scores instead. */
void router_distances(const pl_router *router, const float *z, double *distances);

/* Computes the costs of all paths from the distances; `bias` may be NULL. */
void router_costs(const pl_router *router, const double *distances, const double *bias,
                  double *costs);

/* Returns the path with the least cost; if costs are equal, the first such path. */
int router_cheapest(const double *costs, int n_paths);

/* Writes the `top` cheapest paths, the cheapest first; if costs are equal, the path
 * with the lower number comes first. Overwrites costs. */
void router_rank(double *costs, int n_paths, int top, int *paths);

/* Computes the costs [n_paths] of all paths for a feature, including prices. The result
 * is a part of `scratch`, which needs router_scratch_doubles values. */
size_t router_scratch_doubles(const pl_router *router);
double *router_weigh(const pl_router *router, const float *feature, double *scratch);

/* Creates a router whose arrays are allocated and zero. ERR_NOMEM. */
pl_status router_create(pl_router_kind kind, int n_levels, const int *experts, int dim,
                        int rank, bool with_rows, pl_router **out);
