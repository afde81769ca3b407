/* Private to router: Lloyd's k-means with k-means++ seeding. */
#pragma once
#include "base/base.h"

typedef struct kmeans_job {
    const float *points;      /* [n, stride] points; only columns 0..dim-1 are used */
    size_t n, stride;         /* n >= 1; stride >= dim */
    int dim, k;               /* 1 <= k <= n */
    int restarts, iterations; /* >= 1; iterations: at most this many per restart */
    uint64_t seed;
    int level; /* makes the random numbers of two levels with the same seed different */
    int n_threads;
} kmeans_job;

/* Returns the sum of (a[d]-b[d])^2 in double. It is always added in eight partial sums,
 * so the result does not depend on the vector length of the processor. */
double square_distance(const float *a, const float *b, int dim);

/* Computes `restarts` solutions and writes the best one to centroids [k, dim]. The best
 * solution has the smallest sum of squared distances; if sums are equal, it is the
 * first solution. label [n], which may be NULL, gets the index of each point's nearest
 * centroid. The result depends only on the job, not on n_threads. ERR_NOMEM. */
pl_status kmeans_fit(const kmeans_job *job, float *centroids, int *label);

/* Moves each of centroids [k, dim] to the mean of the points with its label. A centroid
 * without points does not move. ERR_NOMEM. */
pl_status kmeans_move(const kmeans_job *job, const int *label, float *centroids);
