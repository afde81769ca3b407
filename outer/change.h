/* Changes: a worker that has the previous version gets the next one as an encoded
 * difference.
 *
 * The home makes the exact step x -> x' and rounds it, using the residual e of the
 * module (zero at first, kept with the newest version):
 *
 *   message = encode(x - x' + e)     e' = x - x' + e - decode(message)
 *   version = x - decode(message)
 *
 * So a version is defined by its message, and the home and all workers have the same
 * bits. The part that rounding leaves out is added to the next change. A worker without
 * the previous version fetches the whole version. Modules with one contributor are not
 * rounded, because their worker can compute the next version by itself. */
#ifndef PL_OUTER_CHANGE_H
#define PL_OUTER_CHANGE_H
#include "outer/arm.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ERR_CONFIG unless versions can be sent in this way: only the codecs f32, bf16, i8 and
 * i4, and only methods whose workers fetch versions. */
PL_MUST_CHECK pl_status pl_change_check(const pl_outer *outer);

/* Whether versions of this module are also sent as a change (key codec.down). */
bool pl_change_is_kept(const pl_arm *arm, const pl_topology *topology, int module);

/* `before` [n] is x. `params` is x' on entry and the version on return. `residual` is e
 * on entry and e' on return. Appends the message to `change` and sets *norm to its L2
 * norm. ERR_NUMERIC: x - x' is not finite. */
PL_MUST_CHECK pl_status pl_change_make(const pl_arm *arm, const pl_topology *topology,
                                       int module, const float *before, float *params,
                                       float *residual, pl_buf *change, double *norm);

/* `params` is the previous version on entry and the next one on return. ERR_DATA: the
 * bytes are not a message of n values (params are then partly changed). */
PL_MUST_CHECK pl_status pl_change_apply(const void *change, uint64_t bytes, size_t n,
                                        float *params);

#ifdef __cplusplus
}
#endif
#endif
