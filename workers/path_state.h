/* Private to the worker: the blob as which a path's state is sent (docs/PROTOCOL.md
 * 3.3): the optimizer's m and v, then the path's own vectors, each in the form that the
 * arm defines (pl_path_kind). */
#ifndef PL_WORKERS_PATH_STATE_H
#define PL_WORKERS_PATH_STATE_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

/* Rounds all vectors to what the blob can hold. So every worker that continues the path
 * begins with the same bytes, whether it gets them from memory or from a home. */
void state_round(const pl_arm *arm, float *state, size_t n_params);
/* out has pl_path_state_bytes. state [n_vectors, n_params]; a shorter vector
 * (pl_path_vector_floats) uses only the first part of its row. */
void state_pack(const pl_arm *arm, const float *state, size_t n_params, uint8_t *out);
/* Vectors that the blob does not contain become zero; if blob is NULL, all do. Any
 * bytes of the right length are a valid state; the hash tells whether they are this
 * path's. */
void state_unpack(const pl_arm *arm, const uint8_t *blob, size_t n_params,
                  float *state);

#endif
