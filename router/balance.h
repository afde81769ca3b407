/* Prices that keep the paths' shards below a limit; private to router. */
#ifndef PL_ROUTER_BALANCE_H
#define PL_ROUTER_BALANCE_H
#include "router/router_inside.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct balance_job {
    const pl_router *router; /* its tuples; its bias is not read */
    const double *distances; /* [n, n_centroids] of router_distances */
    size_t n, limit;         /* documents; the most a path may have */
    double step;             /* > 0, the raise of a price where documents are a tie */
    int n_threads;
} balance_job;

/* Writes bias [n_paths], at least 0, and label [n], the cheapest path of each document
 * under it. Documents that are alike stay together, and count as n / n_paths if they
 * are more; with that, no path has more than the limit if it was held. Where no prices
 * are found that hold it, those with the smallest fullest path are taken. ERR_NOMEM. */
PL_MUST_CHECK pl_status balance_fit(const balance_job *job, double *bias, int *label,
                                    bool *held);

#ifdef __cplusplus
}
#endif
#endif
