/* Defines the functions of tiny_arm.h. */
#include "tests/support/tiny_arm.h"

pl_shape tiny_shape(int n_blocks)
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

void tiny_shards(pl_arm *arm, int n)
{
    arm->n_shards = n;
    arm->shards = pl_alloc((size_t)n * sizeof *arm->shards);
    arm->weights = pl_alloc((size_t)n * sizeof *arm->weights);
}
