/* Private to router: computes prices that keep the weights of the paths' shards below a
 * limit. */
#pragma once
#include "router/router_internal.h"

typedef struct balance_job {
    const pl_router *router; /* its present prices are ignored */
    const double *distances; /* [n, n_centroids] from router_distances */
    const double *weights;   /* [n] weight of each document, >= 0 and finite */
    size_t n;
    /* the largest weight that a path may have: above 0, and at least the mean weight */
    double limit;
    /* The margin of a document is the price rise at which the document leaves its path
     * (balance.c). If margins are equal, a price rises by the margin plus `step`, which
     * must be above 0. */
    double step;
    int n_threads;
} balance_job;

/* Writes the prices to bias [n_paths]; they are at least 0. Writes to label [n] the
 * cheapest path of each document with these prices. Documents with equal distances get
 * the same path. A document, or a group of documents with equal distances, that is
 * heavier than the limit counts only as much as the mean weight of a path. *fullest
 * gets the weight of the heaviest path, counted in this way. If *fullest is above the
 * limit, the search found no prices that keep the limit, and the prices are those with
 * the smallest *fullest. ERR_NOMEM. */
pl_status balance_fit(const balance_job *job, double *bias, int *label,
                      double *fullest);
