/* Private to router: rotates whitened points so that clusters are well separated. */
#pragma once
#include "base/base.h"

typedef struct sharpen_job {
    const float *points; /* [n, dim] whitened points: their covariance is I */
    size_t n;
    int dim, rank; /* 1 <= rank <= dim */
    int clusters;  /* 1 <= clusters <= n */
    int rounds;    /* >= 1 */
    uint64_t seed;
    int n_threads;
} sharpen_job;

/* Writes rows [rank, dim]: the projection in which clusters are smallest compared to
 * the distances between them. The best direction comes first. The result does not
 * depend on n_threads. ERR_NOMEM. */
pl_status sharpen_fit(const sharpen_job *job, double *rows);
