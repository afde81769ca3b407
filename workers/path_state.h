/* Private to the worker: packs a path's state into the blob that is sent
 * (docs/PROTOCOL.md 3.3). The blob has the optimizer's m and v, then the path's own
 * vectors. The arm defines the number format of each vector (pl_path_kind). */
#pragma once
#include "outer/outer.h"
#include "net/net.h"

/* Rounds all vectors of state [n_vectors, n_params] to values that the blob can
 * represent. So every worker that continues the path begins with the same bytes, even
 * if one worker has the state in memory and another one gets it from a home. */
void state_round(const pl_arm *arm, float *state, size_t n_params);
/* Packs state [n_vectors, n_params] into `out`, which has pl_path_state_bytes bytes. A
 * shorter vector (pl_path_vector_floats) uses only the first part of its row. */
void state_pack(const pl_arm *arm, const float *state, size_t n_params, uint8_t *out);
/* Unpacks a blob. Vectors that the blob does not contain become zero; if `blob` is
 * NULL, all vectors become zero. This function cannot detect damage: any bytes of the
 * right length are a valid state. So the caller must have checked the blob's hash. */
void state_unpack(const pl_arm *arm, const uint8_t *blob, size_t n_params,
                  float *state);
