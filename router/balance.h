/* Prices that keep the paths' shards below a limit; private to router. */
#ifndef PL_ROUTER_BALANCE_H
#define PL_ROUTER_BALANCE_H
#include "router/router_internal.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct balance_job {
    const pl_router *router; /* its tuples; its bias is not read */
    const double *distances; /* [n, n_centroids] of router_distances */
    const double *weights;   /* [n] of each document, >= 0 and finite */
    size_t n;
    double limit; /* the most weight a path may have, at least the mean */
    double step;  /* > 0, the raise of a price where documents are a tie */
    int n_threads;
} balance_job;

/* Writes bias [n_paths], at least 0, and label [n], the cheapest path of each document
 * under it. Documents that are alike stay together. A document, or a group of alike
 * ones, that is heavier than the limit counts as the mean of the paths; with that,
 * `fullest` gets the weight of the heaviest path: at most the limit, or, where no
 * prices were found that hold it, the least that was found. ERR_ARG, ERR_NOMEM. */
PL_MUST_CHECK pl_status balance_fit(const balance_job *job, double *bias, int *label,
                                    double *fullest);

#ifdef __cplusplus
}
#endif
#endif
