/* Tests of the model start from a "rig": a model of one tiny path on the reference
 * backend. */
#pragma once
#include "tests/support/naive.h"
#include <stdio.h>

#include "tests/support/suite.h"

extern pl_backend *be;

int open_backend(void **state);

int close_backend(void **state);

/* ---- a rig: topology, model, parameters ---- */

typedef struct rig {
    pl_shape shape;
    pl_topology *topology;
    pl_model *model;
    size_t n;      /* number of parameters */
    float *params; /* the parameters that the model has loaded */
} rig;

static const pl_shape tiny = {.vocab = 13,
                              .width = 10,
                              .n_heads = 4,
                              .n_kv_heads = 2,
                              .head_size = 4,
                              .ffn = 14,
                              .n_blocks = 2,
                              .context = 8,
                              .tied = true,
                              .rope_theta = 100.0,
                              .norm_eps = 1e-5};

/* Loads random parameters that are larger than those of a real training, so that a
 * wrong term of a gradient makes a large error. */
void load_randoms(rig *r, uint64_t stream, float scale);

rig open_rig(const pl_shape *shape, int batch, bool training);

void close_rig(rig *r);

/* Returns shape i of four. All have four heads, and all except shape 1 have a tied
 * embedding. The numbers of key-value heads are 2, 1, 4 and 2. Shape 3 also has QK
 * norm. */
pl_shape shape_case(int i);
enum { N_SHAPES = 4 };
