/* Private to router: prices that keep the paths' shards below a limit. */
#ifndef PL_ROUTER_BALANCE_H
#define PL_ROUTER_BALANCE_H
#include "router/router_internal.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct balance_job {
    const pl_router *router; /* the router; its own bias is not read */
    const double *distances; /* [n, n_centroids] from router_distances */
    const double *weights;   /* [n] weight of each document, >= 0 and finite */
    size_t n;
    double limit; /* the largest weight that a path may have; at least the mean */
    double step;  /* > 0: by how much a price is raised when documents are tied */
    int n_threads;
} balance_job;

/* Writes the prices bias [n_paths], which are at least 0, and label [n], the cheapest
 * path of each document with these prices. Documents that are alike stay together. A
 * document, or a group of alike ones, that is heavier than the limit counts as much as
 * the mean of the paths. `fullest` gets the weight of the heaviest path, counted in
 * this way: at most the limit or, if no such prices were found, the smallest value that
 * was found. ERR_ARG, ERR_NOMEM. */
PL_MUST_CHECK pl_status balance_fit(const balance_job *job, double *bias, int *label,
                                    double *fullest);

#ifdef __cplusplus
}
#endif
#endif
