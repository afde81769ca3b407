/* Tests of the model start from a "rig": a model of one tiny path on the reference
 * backend. */
#pragma once
#include "tests/support/shape.h"
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

static const pl_shape tiny =
    SHAPE(13, 10, 4, 2, 4, 14, 2, 8, .tied = true, .rope_theta = 100.0);

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

/* ---- training ---- */

/* Loads the parameters with which a training with this seed begins. */
void load_initial(rig *r, uint64_t seed);

/* The caller frees what these return. */
float *copy_params(const rig *r);
float *copy_grads(const rig *r);

enum { B2 = 2, T5 = 5 };
static const int32_t tokens_2x5[] = {1, 7, 12, 0, 7, 3, 3, 9, 11, 2};
static const int32_t targets_2x5[] = {7, 12, 0, -1, 7, -1, 9, 11, 2, 5};
static const pl_adamw adam_default = {.lr = 1e-2f,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.95f,
                                      .eps = 1e-8f,
                                      .weight_decay = 0.1f,
                                      .step = 1};

/* Takes steps 1 to n_steps with this batch. */
void train_some(const rig *r, int n_steps);
