/* Which moments of AdamW can exist.
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
 * also if moments are averaged. A step from such moments, and from all that follow, is
 * not longer than sqrt(C) times the learning rate for each parameter (1.17 with the
 * default decays). So a false state cannot make the next update much longer than an
 * honest one can be. Rounding is allowed for. */
#ifndef PL_OUTER_MOMENTS_H
#define PL_OUTER_MOMENTS_H
#include "outer/arm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most by which one step can move a parameter, in learning rates, from a state that
 * pl_moments_check takes, without weight decay. INFINITY if the decays bound nothing.
 */
double pl_moments_longest_step(const pl_inner *inner);

/* Checks a packed state (pl_path_state_bytes long) of a path with `n_params`
 * parameters: its moments can exist, and the vectors that travel as f32 are finite.
 * ERR_DATA. */
PL_MUST_CHECK pl_status pl_moments_check(const pl_arm *arm, size_t n_params,
                                         const void *state);

#ifdef __cplusplus
}
#endif
#endif
