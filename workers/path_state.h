/* Private to the worker: the blob that a path's state travels as
 * (docs/PROTOCOL.md 3.3): AdamW's m and v, then the path's own vectors, each as the arm
 * says (pl_path_kind). */
#ifndef PL_WORKERS_PATH_STATE_H
#define PL_WORKERS_PATH_STATE_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

/* All vectors become what the blob can say, so that whoever goes on with the path
 * begins with the same bytes, wherever it gets them from. */
void state_round(const pl_arm *arm, float *state, size_t n_params);
/* out: pl_path_state_bytes. state: [n_vectors, n_params]. */
void state_pack(const pl_arm *arm, const float *state, size_t n_params, uint8_t *out);
/* What the blob does not have is zero, or everything if it is NULL. Any bytes of the
 * right length are a state; the hash says whether they are the path's. */
void state_unpack(const pl_arm *arm, const uint8_t *blob, size_t n_params,
                  float *state);

#endif
