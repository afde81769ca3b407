/* Checks whether the moments of AdamW and Muon in a path's state are possible.
 *
 * A path's state comes from a worker. If no training could produce the state, honest
 * workers would fail at the path's next task. With the decays b1, b2 and the gradients
 * g of one parameter, the moments after any number of steps are
 *
 *   m = (1 - b1) sum_i b1^i g_i,   v = (1 - b2) sum_i b2^i g_i^2
 *
 * So by Cauchy's inequality, if b1^2 < b2,
 *
 *   m^2 <= C v,   C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2))
 *
 * Averages of moments also satisfy this inequality. The check allows 1.5 C, because
 * moments are rounded, perhaps to bf16. A step with moments that pass the check, and
 * every later step, moves each parameter by at most sqrt(1.5 C) times the learning
 * rate. With the default decays sqrt(1.5 C) is 1.43; with moments from training the
 * largest step is sqrt(C) = 1.17. So a false state cannot make the next update much
 * longer than the longest honest update.
 *
 * The momentum of Muon is a mean of clipped gradients, so its norm over all matrices is
 * at most the clip (the check allows 1.5 times its square). The length of Muon's step
 * does not depend on the length of the momentum: the step's root mean square over a
 * matrix is at most 0.24 learning rates (modules/ops.h). Second moments exist only for
 * the parameters that AdamW updates. */
#ifndef PL_OUTER_MOMENTS_H
#define PL_OUTER_MOMENTS_H
#include "outer/arm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the longest step of a parameter, in learning rates, with a state that passes
 * pl_moments_check. Weight decay is not included. With Muon the value is a root mean
 * square. INFINITY if the decays give no bound. */
double pl_moments_longest_step(const pl_inner *inner);

/* Checks a packed state (of pl_path_state_bytes bytes) of a path with `n_params`
 * parameters: its moments must be possible, and its other vectors must be finite. `t`
 * is the arm's topology; it may be NULL without Muon. ERR_DATA if the state fails the
 * check. */
PL_MUST_CHECK pl_status pl_moments_check(const pl_arm *arm, const pl_topology *t,
                                         size_t n_params, const void *state);

#ifdef __cplusplus
}
#endif
#endif
