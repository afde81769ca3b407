/* The smallest model that has every kind of module. Tests use it if they need an arm
 * but train nothing. */
#pragma once
#include "outer/outer.h"

pl_shape tiny_shape(int n_blocks);

/* Makes an arm "mix" of a tiny_shape with two levels of a and b experts and one
 * replica. A task has 12 steps with a batch of 2 windows of 16 tokens. Its weights are
 * 0. */
void tiny_arm(pl_arm *arm, int n_blocks, int a, int b, int n_phases);

/* Lets the arm train with AdamW and diloco and send its updates in this codec. A task
 * has tau steps. All modules have the outer rate 0.7 and the momentum 0.9. */
pl_status tiny_diloco(pl_arm *arm, int tau, const char *codec);

/* Allocates the shards and weights of n paths, filled with zeros. pl_arm_clear frees
 * them. */
void tiny_shards(pl_arm *arm, int n);
