/* Defines the functions of tiny_arm.h. */
#include "tests/support/shape.h"
#include "tests/support/tiny_arm.h"
#include <string.h>

pl_shape tiny_shape(int n_blocks)
{
    return (pl_shape)SHAPE(300, 16, 2, 2, 8, 24, n_blocks, 16, .tied = true,
                           .rope_theta = 1e4);
}

void tiny_shards(pl_arm *arm, int n)
{
    arm->n_shards = n;
    arm->shards = pl_alloc((size_t)n * sizeof *arm->shards);
    arm->weights = pl_alloc((size_t)n * sizeof *arm->weights);
}

void tiny_arm(pl_arm *arm, int n_blocks, int a, int b, int n_phases)
{
    memset(arm, 0, sizeof *arm);
    pl_copy_text(arm->name, sizeof arm->name, "mix");
    arm->shape = tiny_shape(n_blocks);
    arm->spec = (pl_topology_spec){.n_levels = 2, .experts = {a, b}, .replicas = 1};
    arm->inner = (pl_inner){.batch = 2, .context = 16, .tau = 12, .phases = n_phases};
    tiny_shards(arm, a * b);
}
