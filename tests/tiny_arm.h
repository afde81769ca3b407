/* The smallest model that has every kind of module, for tests that need an arm but
 * train nothing. */
#ifndef PL_TESTS_TINY_ARM_H
#define PL_TESTS_TINY_ARM_H
#include "outer/outer.h"

static inline pl_shape tiny_shape(int n_blocks)
{
    return (pl_shape){.vocab = 300,
                      .width = 16,
                      .n_heads = 2,
                      .n_kv_heads = 2,
                      .head_size = 8,
                      .ffn = 24,
                      .n_blocks = n_blocks,
                      .context = 16,
                      .tied = true,
                      .rope_theta = 1e4,
                      .norm_eps = 1e-5};
}

/* Places for the data of n paths, all zero; pl_arm_clear frees them. */
static inline void tiny_shards(pl_arm *arm, int n)
{
    arm->n_shards = n;
    arm->shards = pl_alloc((size_t)n * sizeof *arm->shards);
    arm->weights = pl_alloc((size_t)n * sizeof *arm->weights);
}

#endif
