/* Private to router: Lloyd's k-means with k-means++ seeding. */
#ifndef PL_ROUTER_KMEANS_H
#define PL_ROUTER_KMEANS_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct kmeans_job {
    const float *points; /* [n, stride] points; only columns 0..dim-1 are used */
    size_t n, stride;
    int dim, k; /* 1 <= k <= n */
    int restarts, iterations;
    uint64_t seed;
    int level; /* makes random numbers of levels with the same seed differ */
    int n_threads;
} kmeans_job;

/* Returns the sum of (a[d]-b[d])^2 in double. Terms are added in eight lanes, in an
 * order that does not depend on the machine's vector length. */
double square_distance(const float *a, const float *b, int dim);

/* Writes the best of `restarts` solutions to centroids [k, dim]: the one with the
 * smallest sum of squared distances, or the first of equal ones. The result depends
 * only on the job, not on n_threads. Errors: ERR_ARG, ERR_NOMEM. */
PL_MUST_CHECK pl_status kmeans_fit(const kmeans_job *job, float *centroids);

/* Writes label [n]: for each point the nearest of centroids [k, dim]. Errors: ERR_ARG,
 * ERR_NOMEM. */
PL_MUST_CHECK pl_status kmeans_assign(const kmeans_job *job, const float *centroids,
                                      int *label);

/* Moves centroids [k, dim] to the means of the points with their label; a centroid
 * without points stays. Errors: ERR_ARG, ERR_NOMEM. */
PL_MUST_CHECK pl_status kmeans_move(const kmeans_job *job, const int *label,
                                    float *centroids);

#ifdef __cplusplus
}
#endif
#endif
