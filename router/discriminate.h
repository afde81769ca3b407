/* Private to router: multinomial logistic regression on scores of documents. */
#ifndef PL_ROUTER_DISCRIMINATE_H
#define PL_ROUTER_DISCRIMINATE_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct discriminate_job {
    const float *points; /* [n, dim] */
    size_t n;
    int dim, k;           /* columns of a point; classes */
    const double *scores; /* [n, k] nats, higher is better */
    double temperature;   /* 0: a point's class is the one with the highest score, the
                             lower of equals; > 0: softmax(scores / temperature) */
    double decay;         /* of the rows: decay/2 times the sum of their squares */
    int iterations;
    int n_threads;
} discriminate_job;

/* Writes rows [k, dim + 1], the last column of which is the intercept and does not
 * decay, and the mean cross-entropy in nats. residuals [n, k] is scratch. The bytes
 * depend only on the job, and not on n_threads. Errors: ERR_NOMEM. */
PL_MUST_CHECK pl_status discriminate_fit(const discriminate_job *job, double *residuals,
                                         float *rows, double *loss);

#ifdef __cplusplus
}
#endif
#endif
