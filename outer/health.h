/* The health of a module: measures of its outer steps, computed from the parameters and
 * the records of consecutive versions. No additional data are stored for this.
 *
 * The pseudo-gradient g_v of the step that made version v is computed from s = x_{v-1}
 * - x_v, and from the learning rate eta and the momentum mu in the record:
 *
 *   mu = 0       g = s / eta
 *   nesterov     g = (s / eta - mu^2 m) / (1 + mu),   m = mu m + g
 *   heavy ball   g = s / eta - mu m,                  m = mu m + g
 *
 * On the right side, m is the momentum before the step; it is zero at version 0. For
 * other methods g is not known, so `lag` is not known. With iso, g is the mean after
 * its singular values were made equal. */
#pragma once
#include "base/base.h"

/* Facts about the outer step that made a version, read from the version's record. */
typedef struct pl_health_step {
    const char *method; /* as in the version's record */
    double lr, momentum;
    double mean_norm; /* |D|, the norm of the mean of the updates */
    /* [n] the norms of the contributors' updates, and the weights of the updates in the
     * mean; n is 0 if the norms cannot be compared with mean_norm */
    const double *norms, *weights;
    int n;
} pl_health_step;

/* A value that is not known is NaN. */
typedef struct pl_health {
    double lag;      /* cosine of g_v and g_{v-1} */
    double step;     /* |s| */
    double gain;     /* |s| / |D| */
    double relative; /* |s| / |x_v| */
    /* 1 - |D|^2 / sum_i a_i |d_i|^2, where a_i is the normalised weight of update d_i:
     * the part of the updates that cancels in the mean, because the updates differ; 0:
     * all updates are equal */
    double transverse;
} pl_health;

typedef struct pl_health_walk pl_health_walk;
/* A walk visits versions of a module with n parameters, rising. ERR_NOMEM. */
pl_status pl_health_walk_create(size_t n, pl_health_walk **out);
void pl_health_walk_destroy(pl_health_walk **walk);
/* Begins the walk at a version with these parameters. `initial`: whether this is
 * version 0. If the parameters of some versions were deleted, call this function again
 * for the first version after them. */
void pl_health_begin(pl_health_walk *walk, const float *params, bool initial);
/* Moves to the next version and computes the health of the step that made it. */
void pl_health_next(pl_health_walk *walk, const float *params,
                    const pl_health_step *step, pl_health *out);
