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

pl_status tiny_diloco(pl_arm *arm, int tau, const char *codec)
{
    arm->inner.tau = tau;
    arm->inner.lr = 1e-3;
    arm->inner.beta1 = 0.9;
    arm->inner.beta2 = 0.95;
    arm->inner.eps = 1e-8;
    arm->inner.clip = 1;
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        arm->outer.lr[c] = 0.7;
        arm->outer.momentum[c] = 0.9;
    }
    arm->outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name, codec);
    return pl_codec_options_default(codec, &arm->outer.codec);
}
