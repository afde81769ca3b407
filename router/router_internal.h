/* Private to router: the parts of a router. */
#ifndef PL_ROUTER_ROUTER_INTERNAL_H
#define PL_ROUTER_ROUTER_INTERNAL_H
#include "router/lens.h"
#include "router/router.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A path is a tuple (e_1..e_L) of labels, numbered row-major like the topology's
 * paths; plain k-means is L = 1. With z the transformed feature, divided into L nearly
 * equal parts,
 *
 *   cost(path) = sum_l |z_l - centroid[l][e_l]|^2 + bias[path]
 *
 * and a document takes the path of least cost, or the first of equals. The linear
 * router has one level and cost(path) = -(centroid[path] . [z, 1]) + bias[path], where
 * the centroid is a row of weights with an intercept at its end. */
struct pl_router {
    pl_router_kind kind;
    int n_paths, n_levels;
    int experts[PL_LEVELS_MAX];
    lens lens;
    float *centroids[PL_LEVELS_MAX]; /* a level's: [experts, router_row_size] */
    double *bias; /* [n_paths] prices; all 0 if shards are not balanced */
    /* mean squared distance to the nearest centroid; for a linear router, mean
     * cross-entropy in nats */
    double inertia;
};

enum { ROUTER_PATHS_MAX = 1 << 16, ROUTER_DIM_MAX = 1 << 16 };

/* Returns the first of z's `rank` columns that belongs to part `level`; for level L,
 * the end of the last part. */
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

int router_n_centroids(
    const pl_router *router); /* returns the number of centroids of all levels */

/* Writes distances [n_centroids] from z to every centroid, level after level; for a
 * linear router the negative scores. */
void router_distances(const pl_router *router, const float *z, double *distances);

/* Writes the cost of every path, given the distances; `bias` may be NULL. router_label
 * gives label l of a path. */
void router_costs(const pl_router *router, const double *distances, const double *bias,
                  double *costs);
int router_label(const pl_router *router, int path, int level);

/* Returns the path with the least cost, or the first of equals. */
int router_cheapest(const double *costs, int n_paths);

/* Writes the `top` cheapest paths, the cheapest first; if costs are equal, the lower
 * path comes first. Overwrites costs. */
void router_rank(double *costs, int n_paths, int top, int *paths);

/* Computes the costs [n_paths] of a feature, with prices, in `scratch` and returns
 * them. */
size_t router_scratch_doubles(const pl_router *router);
double *router_weigh(const pl_router *router, const float *feature, double *scratch);

/* Creates a router whose arrays are allocated and zero. ERR_NOMEM. */
PL_MUST_CHECK pl_status router_create(pl_router_kind kind, int n_levels,
                                      const int *experts, int dim, int rank,
                                      bool with_rows, pl_router **out);

#ifdef __cplusplus
}
#endif
#endif
