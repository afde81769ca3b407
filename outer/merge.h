/* The outer step of one module (docs/DESIGN.md "Outer step"; DiPaCo Algorithm 1,
 * Nesterov in the convention of torch.optim.SGD).
 *
 *   D  = sum_i a_i d_i          a_i = w_i / sum_k w_k over this module's contributors
 *   D *= sqrt(n)                only with `rescale`
 *   m  = beta m + D
 *   theta -= eta (D + beta m)   beta = 0: theta -= eta D
 *
 * Contributions are added in the order given; callers give (path, replica) order,
 * so that the bytes do not depend on who arrived first.
 */
#ifndef PL_OUTER_MERGE_H
#define PL_OUTER_MERGE_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_outer_step {
    double lr, momentum;
    bool rescale;
    int n_contributors;
} pl_outer_step;

/* params, momentum, mean: [n]. Both params and momentum are updated in place. */
void pl_outer_apply(const pl_outer_step *step, float *params, float *momentum,
                    float *mean, size_t n);
double pl_l2_norm(const float *values, size_t n); /* double sums over fixed blocks */

#ifdef __cplusplus
}
#endif
#endif
