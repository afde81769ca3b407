/* A change is the encoded difference between two consecutive versions of a module. A
 * worker that has the previous version is sent the change instead of the next version.
 *
 * The home computes x' from the parameters x with the exact outer step, and encodes the
 * difference with a lossy codec. The part that is lost is the module's residual e. The
 * residual is zero at first and is stored with the newest version:
 *
 *   message = encode(x - x' + e)     e' = x - x' + e - decode(message)
 *   version = x - decode(message)
 *
 * So the message alone determines the new version, and the home and all workers get the
 * same bits. The residual is added to the next change. A worker without the previous
 * version fetches the parameters of the version. Versions of modules with one
 * contributor are not sent as changes, because the worker of that contributor can
 * compute the next version by itself. */
#pragma once
#include "outer/arm.h"

/* Returns ERR_CONFIG unless versions can be sent as changes. This needs one of the
 * codecs f32, bf16, i8 and i4, and a method whose workers fetch versions. */
pl_status pl_change_check(const pl_outer *outer);

/* Makes a change. before [n] is x. `params` is x' on entry and the new version on
 * return. `residual` is e on entry and e' on return. Appends the message to `change`;
 * *norm is the L2 norm of the decoded message. ERR_NUMERIC: x - x' is not finite. */
pl_status pl_change_make(const pl_arm *arm, const pl_topology *topology, int module,
                         const float *before, float *params, float *residual,
                         pl_buf *change, double *norm);

/* Applies a change. `params` is the previous version on entry and the next version on
 * return. ERR_DATA: the bytes are not a message with n values; `params` may then be
 * partly changed. */
pl_status pl_change_apply(const void *change, uint64_t bytes, size_t n, float *params);
