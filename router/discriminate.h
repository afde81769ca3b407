/* Private to router: multinomial logistic regression on scores of documents. */
#pragma once
#include "base/base.h"

typedef struct discriminate_job {
    const float *points; /* [n, dim] */
    size_t n;
    int dim, k; /* dim: number of values per point; k: number of classes */
    /* [n, k] score of each point for each class, in nats; a point's target is the first
     * class with the highest score */
    const double *scores;
    /* weight decay: decay/2 times the sum of squares of the rows is added to the
     * loss */
    double decay;
    int iterations;
    int n_threads;
} discriminate_job;

/* Writes rows [k, dim + 1]; their last column is the intercept, which does not decay.
 * *loss gets the mean cross-entropy in nats. residuals [n, k] is scratch memory. The
 * result's bytes depend only on the job, not on n_threads. Errors: ERR_NOMEM. */
pl_status discriminate_fit(const discriminate_job *job, double *residuals, float *rows,
                           double *loss);
