/* Held-out text of the paths of an arm, for loss curves during training.
 *
 * Before every held_every-th phase, the first replica of a path computes the loss on
 * the path's held-out text (the score), with the parameters at the start of the phase.
 * The scoring is a part of the phase's task. So the score is retried after a failure
 * and counted exactly once, like the training, and the worker already has the
 * parameters. Training never uses the score.
 *
 * All arms have the same held-out text. In each arm the router assigns this text to the
 * paths as it assigns new documents. So the sum of the scores over the paths, per byte
 * of text, can be compared between arms. */
#pragma once
#include "outer/arm.h"

/* Allocates the lists `held` and `held_bytes` of an arm, and fills them with zeros. */
void pl_arm_hold(pl_arm *arm);
/* Whether this replica scores its path's held-out text before this phase. */
bool pl_held_scores(const pl_arm *arm, int path, int replica, int64_t phase);

/* The sum of the scores of an arm's paths, in nats. */
typedef struct pl_held_sum {
    double nats;
    uint64_t bytes;
    int n_missing; /* number of paths that have held-out text, but no score yet */
} pl_held_sum;
/* Adds the score of a path's first replica; nats 0: there is none yet. */
void pl_held_add(pl_held_sum *sum, const pl_arm *arm, int path, double nats);
/* Returns bits per byte of text; 0: a score is missing, or no held-out text. */
double pl_held_bits(const pl_held_sum *sum);
