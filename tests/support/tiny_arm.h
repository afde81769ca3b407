/* The smallest model that has every kind of module. Tests use it if they need an arm
 * but train nothing. */
#pragma once
#include "outer/outer.h"

pl_shape tiny_shape(int n_blocks);

/* Allocates the shards and weights of n paths, filled with zeros. pl_arm_clear frees
 * them. */
void tiny_shards(pl_arm *arm, int n);
