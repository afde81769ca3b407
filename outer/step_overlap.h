/* The worker's computations for methods in which workers need not wait for each other.
 *
 * Streaming (arXiv:2501.18512): a path's blocks form F fragments. Each fragment is sent
 * every H inner steps: fragment p after the inner steps s = (p+1) H/F (mod H).
 * `overlap` steps later the fragment's next version is mixed into the local parameters.
 * With F = 1, overlap 0 and mix 0 this is DiLoCo. */
#ifndef PL_OUTER_STEP_OVERLAP_H
#define PL_OUTER_STEP_OVERLAP_H
#include "outer/step_method.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Returns the fragment of block `index` of a path with `n_blocks` blocks. The embedding
 * counts as the first block and the head as the last one. If `strided`, block b is in
 * fragment b mod F, so that each fragment has shallow and deep blocks; otherwise a
 * fragment has consecutive blocks. */
int pl_streaming_fragment(int index, int n_blocks, int fragments, bool strided);

/* Returns the fragment that is sent when `done` inner steps of the arm are finished
 * (`done` is at least 1), or -1 if none is sent. If `round` is not NULL, *round gets
 * the number of times that this fragment was sent before. */
int pl_streaming_sends(const pl_method_settings *s, int64_t done, int64_t *round);

/* local = mix local + (1 - mix) merged. With mix 0 `local` becomes `merged`; with mix 1
 * it does not change. */
void pl_streaming_mix(float *local, const float *merged, double mix, size_t n);

/* Returns the number of inner steps of a slower worker (dynamic local steps, Async
 * DiLoCo, arXiv:2401.09135). It is max(1, floor(inner_steps * speed / top_speed)), so
 * that all workers need about the same time. It is inner_steps if a speed is not
 * positive or `speed` is at least top_speed. */
int pl_local_steps(int inner_steps, double speed, double top_speed);

#ifdef __cplusplus
}
#endif
#endif
