/* Held-out text of the paths of an arm, for curves while it trains.
 *
 * Before every held_every-th phase a path's first replica scores its held-out text with
 * the parameters that the phase begins with, as part of the phase's task. So the score
 * is leased, repeated and counted exactly once like the training itself, and needs no
 * parameters that the worker does not have already. Training never reads the score. All
 * arms have the same held-out text; in each arm the router deals it to the paths like
 * new text. So the sum over the paths, per byte of text, is comparable between arms. */
#ifndef PL_OUTER_HELD_H
#define PL_OUTER_HELD_H
#include "outer/arm.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Allocates the lists held and held_bytes of an arm, as zeros. */
void pl_arm_hold(pl_arm *arm);
/* Whether this replica of a path scores its held-out text before this phase. */
bool pl_held_scores(const pl_arm *arm, int path, int replica, int64_t phase);

/* Sums the nats of an arm's paths. */
typedef struct pl_held_sum {
    double nats;
    uint64_t bytes;
    int n_missing; /* number of paths that have held-out text, but no score yet */
} pl_held_sum;
/* `nats` is the score of the path's first replica; 0: there is none. */
void pl_held_add(pl_held_sum *sum, const pl_arm *arm, int path, double nats);
/* Bits per byte of text; 0 if the score of a path is missing, or there is no text. */
double pl_held_bits(const pl_held_sum *sum);

#ifdef __cplusplus
}
#endif
#endif
