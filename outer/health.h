/* Health of the outer steps of one module, from what the store keeps: parameters of
 * consecutive versions and their records. Nothing extra is stored.
 *
 * The pseudo-gradient g_v that made version v is found from the step itself: with
 * s = x_{v-1} - x_v, the learning rate eta and the momentum mu of the record,
 *
 *   mu = 0       g = s / eta
 *   nesterov     g = (s / eta - mu^2 m) / (1 + mu),   m = mu m + g
 *   heavy ball   g = s / eta - mu m,                  m = mu m + g
 *
 * where m is the momentum before the step; it is zero at version 0. For other methods
 * the lag is not known. With iso, g is the mean after its singular values were made
 * equal. */
#ifndef PL_OUTER_HEALTH_H
#define PL_OUTER_HEALTH_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The step that made a version, from the version's record. */
typedef struct pl_health_step {
    const char *method; /* as in the version's record */
    double lr, momentum;
    double mean_norm; /* |D|, the norm of the mean of the updates */
    /* [n] norms of the contributors' updates and their weights; n is 0 if these cannot
     * be compared with the mean */
    const double *norms, *weights;
    int n;
} pl_health_step;

/* A value that is not known is NaN. */
typedef struct pl_health {
    double lag;      /* cosine of g_v and g_{v-1} */
    double step;     /* |s| */
    double gain;     /* |s| / |D| */
    double relative; /* |s| / |x_v| */
    /* 1 - |D|^2 / sum_i a_i |d_i|^2: the share of the contributors' updates in which
     * they disagree, so that it vanishes in their mean; 0: all sent the same */
    double transverse;
} pl_health;

typedef struct pl_health_walk pl_health_walk;
/* A walk over the versions of a module of n values, in rising order. ERR_NOMEM. */
PL_MUST_CHECK pl_status pl_health_walk_create(size_t n, pl_health_walk **out);
void pl_health_walk_destroy(pl_health_walk **walk);
/* Begins the walk with the parameters of some version; `initial`: whether this is
 * version 0. Call it again behind a gap of versions whose parameters were deleted. */
void pl_health_begin(pl_health_walk *walk, const float *params, bool initial);
/* Goes on to the next version and computes its health. */
void pl_health_next(pl_health_walk *walk, const float *params,
                    const pl_health_step *step, pl_health *out);

#ifdef __cplusplus
}
#endif
#endif
