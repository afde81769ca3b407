/* Private to outer: the arithmetic of one block of an outer step.
 *
 * The loops have a constant number of values, so that compilers vectorise them. The
 * source is compiled twice, for the portable instruction set and for AVX2. Both
 * versions give the same bits, because products and sums are not contracted, and sums
 * are made in a fixed number (LANES) of interleaved lanes. */
#pragma once
#include "outer/step.h"

/* Values per block; only the last block may be shorter. */
enum { STEP_BLOCK = 512 };

typedef enum step_kind {
    STEP_PLAIN,       /* no momentum */
    STEP_NESTEROV,    /* Nesterov momentum as in torch.optim.SGD */
    STEP_HEAVY_BALL,  /* heavy ball with a clip, which may be infinite */
    STEP_ARRIVAL,     /* an arrival of delayed-nesterov between two momentum steps */
    STEP_LAST_ARRIVAL /* an arrival of delayed-nesterov with a momentum step */
} step_kind;

typedef struct step_coefficients {
    step_kind kind;
    /* eta: learning rate; mu: momentum; scale: g / D; clip: limit of |m| */
    float eta, mu, scale, clip;
    float parts; /* delayed-nesterov: N */
    float pull;  /* delayed-nesterov: factor of m in the step */
} step_coefficients;

/* The vectors of one block, with `count` <= STEP_BLOCK values. `mean` is D on
 * entry; on return it is the step that was subtracted from `params`. */
typedef struct step_block {
    float *params, *momentum, *carry, *mean;
    size_t count;
} step_block;

/* Returns the part of a vector from `first` on; NULL if the vector is NULL. */
static inline float *step_from(float *vector, size_t first)
{
    return vector ? vector + first : NULL;
}

typedef struct step_sums {
    double mean, params, step; /* sums of squares over the block */
} step_sums;

typedef struct step_kernels {
    /* Takes the step. Adds to `sums` the squares of D, of the new parameters, and, if
     * `measures_step` is true, of the step that was subtracted. */
    void (*step)(const step_coefficients *c, const step_block *block,
                 bool measures_step, step_sums *sums);
    double (*squares)(const float *values, size_t count); /* sum of squares */
} step_kernels;

/* The kernels for an instruction set, which the machine must have. */
const step_kernels *step_kernels_of(pl_isa isa);
