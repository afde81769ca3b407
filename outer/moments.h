/* Which moments of AdamW and Muon can exist.
 *
 * A path's state is made by a worker, and a state that no training could leave makes
 * honest workers fail at the path's next task. With b1, b2 the decays and g the
 * gradients of one parameter, the moments after any number of steps are
 *
 *   m = (1 - b1) sum_i b1^i g_i,   v = (1 - b2) sum_i b2^i g_i^2
 *
 * so by Cauchy's inequality, where b1^2 < b2,
 *
 *   m^2 <= C v,   C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2))
 *
 * also if moments are averaged. For moments that travel as bf16, and for rounding, a
 * check allows 1.5 C. A step from such moments, and from all that follow, is not longer
 * than sqrt(1.5 C) times the learning rate for each parameter: 1.43 with the default
 * decays, where an honest step reaches sqrt(C) = 1.17. So a false state cannot make the
 * next update much longer than an honest one can be.
 *
 * The momentum of Muon is a mean of clipped gradients, so its norm over all matrices is
 * at most the clip (1.5 is allowed for the square). Its step has the same length from
 * any momentum: at most 0.24 learning rates per element in the mean square
 * (modules/ops.h). Its second moments are those of the other parameters. */
#ifndef PL_OUTER_MOMENTS_H
#define PL_OUTER_MOMENTS_H
#include "outer/arm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most by which one step can move a parameter, in learning rates, from a state that
 * pl_moments_check takes, without weight decay, by Muon in the mean square. INFINITY if
 * the decays bound nothing.
 */
double pl_moments_longest_step(const pl_inner *inner);

/* Checks a packed state (pl_path_state_bytes long) of a path with `n_params`
 * parameters: its moments can exist, and its other vectors are finite. `t`
 * is the arm's topology; without Muon it may be NULL. ERR_DATA. */
PL_MUST_CHECK pl_status pl_moments_check(const pl_arm *arm, const pl_topology *t,
                                         size_t n_params, const void *state);

#ifdef __cplusplus
}
#endif
#endif
