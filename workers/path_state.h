/* Private to the worker: the blob that a path's state travels as
 * (docs/PROTOCOL.md 3.3): the optimizer's m and v, then the path's own vectors, each as
 * the arm says (pl_path_kind). */
#ifndef PL_WORKERS_PATH_STATE_H
#define PL_WORKERS_PATH_STATE_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

/* Rounds all vectors to what the blob can hold. So every worker that continues the path
 * begins with the same bytes, whether it gets them from memory or from a home. */
void state_round(const pl_arm *arm, float *state, size_t n_params);
/* out: pl_path_state_bytes. state: [n_vectors, n_params]; of a shorter vector
 * (pl_path_vector_floats) the rest is not used. */
void state_pack(const pl_arm *arm, const float *state, size_t n_params, uint8_t *out);
/* Vectors that the blob does not have become zero, and all of them if it is NULL. Any
 * bytes of the right length are a valid state; the hash says whether they are the
 * path's. */
void state_unpack(const pl_arm *arm, const uint8_t *blob, size_t n_params,
                  float *state);

#endif
