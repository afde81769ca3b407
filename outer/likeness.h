/* How far apart two vectors are, told from a few numbers of each.
 *
 *   cell[h(i)] = sum_i s(i) x_i        s(i) = +1 or -1, both from (seed, i)
 *
 * (a count sketch: Charikar, Chen, Farach-Colton 2002), h(i) in 0..127. It is linear
 * and keeps inner products in expectation: from the cells alone a cosine c is known
 * within (1 - c^2) / 11 (one deviation), and a factor between two vectors exactly.
 * Whoever knows the seed can make a vector that is far from x with the same cells: draw
 * it when x can change no more.
 *
 * Pure; equal input gives equal bits on every machine. */
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

/* Of x [n]; `part` tells vectors of one seed apart. */
void pl_likeness_of(uint64_t seed, uint64_t part, const float *x, size_t n,
                    pl_likeness *out);
/* The larger of 1 - cosine and 1 - shorter / longer: 0 the same, 1 one of them is zero
 * or they have nothing in common, 2 opposite. 0 where both are zero; infinity where a
 * cell is not finite. Not |x - y|: between kinds of devices directions drift apart
 * while a phase trains and lengths do not, so a factor is seen that |x - y| would
 * drown. */
double pl_likeness_distance(const pl_likeness *x, const pl_likeness *y);

#ifdef __cplusplus
}
#endif
#endif
