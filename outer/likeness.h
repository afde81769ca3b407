/* A likeness is a sketch of a vector: 128 numbers (cells). The distance of two vectors
 * is estimated from their likenesses.
 *
 *   cell[k] = sum of s(i) x_i over all i with h(i) = k
 *
 * h(i) is in 0..127 and s(i) is +1 or -1; both are computed from (seed, i). This is a
 * count sketch (Charikar, Chen, Farach-Colton 2002). It is linear, and the expected
 * inner product of two sketches is the inner product of the vectors. The cells give the
 * cosine c of two vectors with a standard deviation of (1 - c^2) / 11. If one vector is
 * a multiple of the other, they give the factor exactly. A worker that knows the seed
 * could make a vector far from x with the same cells. Therefore the seed must be drawn
 * when x can no longer change.
 *
 * The functions are pure: equal input gives equal bits on every machine. */
#ifndef PL_OUTER_LIKENESS_H
#define PL_OUTER_LIKENESS_H
#include "base/base.h"
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_LIKENESS_CELLS = 128 };

typedef struct pl_likeness {
    float cells[PL_LIKENESS_CELLS];
} pl_likeness;

/* Computes the cells of x [n]. `part` makes the sketches of different vectors with the
 * same seed independent. */
void pl_likeness_of(uint64_t seed, uint64_t part, const float *x, size_t n,
                    pl_likeness *out);
/* Returns the larger one of 1 - cosine and 1 - (shorter length / longer length). The
 * result is 0 if the vectors are equal or both zero, 1 if only one is zero or they are
 * orthogonal, 2 if they are opposite, and infinity if a cell is not finite.
 *
 * |x - y| is not used, because on different kinds of devices the directions of updates
 * drift apart during a phase, but the lengths do not. This distance shows a wrong
 * length that |x - y| would hide. */
double pl_likeness_distance(const pl_likeness *x, const pl_likeness *y);

#ifdef __cplusplus
}
#endif
#endif
