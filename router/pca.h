/* Private to router: principal components of centred data. */
#pragma once
#include "base/base.h"

typedef struct pca_job {
    const float *x; /* [n, dim] the points */
    /* [dim] each; the result is the principal components of (x - mean) * scale */
    const float *mean, *scale;
    size_t n;      /* >= 1 */
    int dim, rank; /* 1 <= rank <= dim */
    uint64_t seed;
    int n_threads;
} pca_job;

/* Writes the `rank` orthonormal directions of greatest variance as rows [rank, dim],
 * and the variances [rank] along these directions, the largest first. The result does
 * not depend on n_threads. ERR_NOMEM. */
pl_status pca_fit(const pca_job *job, double *rows, double *variances);
