/* Checks whether moments of AdamW and Muon are possible.
 *
 * A worker makes a path's state. A state that no training could produce would make
 * honest workers fail at the path's next task. With the decays b1, b2 and the gradients
 * g of one parameter, the moments after any number of steps are
 *
 *   m = (1 - b1) sum_i b1^i g_i,   v = (1 - b2) sum_i b2^i g_i^2
 *
 * so by Cauchy's inequality, if b1^2 < b2,
 *
 *   m^2 <= C v,   C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2))
 *
 * which also holds for averages of moments. Because of rounding, also to bf16, the
 * check allows 1.5 C. A step from such moments, and every later step, moves each
 * parameter by at most sqrt(1.5 C) times the learning rate: 1.43 with the default
 * decays, where an honest step reaches sqrt(C) = 1.17. So a false state cannot make the
 * next update much longer than an honest one can be.
 *
 * The momentum of Muon is a mean of clipped gradients, so its norm over all matrices is
 * at most the clip (the check allows 1.5 times its square). Muon's step has the same
 * length from any momentum: the root mean square over a matrix is at most 0.24 learning
 * rates per element (modules/ops.h). Second moments exist only for the parameters that
 * AdamW steps. */
#ifndef PL_OUTER_MOMENTS_H
#define PL_OUTER_MOMENTS_H
#include "outer/arm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns by how many learning rates one step can move a parameter at most, from a
 * state that passes pl_moments_check, without weight decay; for Muon as a root mean
 * square. INFINITY if the decays give no bound. */
double pl_moments_longest_step(const pl_inner *inner);

/* Checks a packed state (pl_path_state_bytes long) of a path with `n_params`
 * parameters: its moments can exist, and other vectors are finite. `t` is the arm's
 * topology; without Muon it may be NULL. ERR_DATA. */
PL_MUST_CHECK pl_status pl_moments_check(const pl_arm *arm, const pl_topology *t,
                                         size_t n_params, const void *state);

#ifdef __cplusplus
}
#endif
#endif
