/* How a version travels to whoever has the one before: as an encoded change.
 *
 * The home makes the exact step x -> x' and rounds it: with the residual e of the
 * module (zero at first, kept with the newest version)
 *
 *   message = encode(x - x' + e)     e' = x - x' + e - decode(message)
 *   version = x - decode(message)
 *
 * So a version is what its message says, for the home and for everybody alike, bit for
 * bit, and what rounding left out is in the next change. Whoever has no version before
 * takes the whole one. Modules of one contributor are not rounded: who trains them
 * knows the next version without asking.
 */
#ifndef PL_OUTER_CHANGE_H
#define PL_OUTER_CHANGE_H
#include "outer/arm.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Whether versions can travel so: ERR_CONFIG for codecs other than f32, bf16, i8 and
 * i4, and for methods whose workers do not take versions. */
PL_MUST_CHECK pl_status pl_change_check(const pl_outer *outer);

/* Whether versions of this module have a change (key codec.down). */
bool pl_change_is_kept(const pl_arm *arm, const pl_topology *topology, int module);

/* before: x [n]; params: x' in, the version out;
 * residual: e in, e' out. Appends the message to `change`; *norm is its L2 norm.
 * ERR_NUMERIC: x - x' is not finite. */
PL_MUST_CHECK pl_status pl_change_make(const pl_arm *arm, const pl_topology *topology,
                                       int module, const float *before, float *params,
                                       float *residual, pl_buf *change, double *norm);

/* params: the version before in, the next one out. ERR_DATA: no message of n values
 * (params are partly changed then). */
PL_MUST_CHECK pl_status pl_change_apply(const void *change, uint64_t bytes, size_t n,
                                        float *params);

#ifdef __cplusplus
}
#endif
#endif
