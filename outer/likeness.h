/* The distance of two vectors, estimated from a few numbers of each.
 *
 *   cell[h(i)] = sum_i s(i) x_i        s(i) = +1 or -1, both from (seed, i)
 *
 * (a count sketch: Charikar, Chen, Farach-Colton 2002), h(i) in 0..127. The sketch is
 * linear and keeps inner products in expectation. From the cells alone, the cosine c of
 * two vectors is known within (1 - c^2) / 11 (one standard deviation); if one vector is
 * a multiple of the other, the factor is known exactly. A worker that knows the seed
 * could make a vector far from x with the same cells. Therefore draw the seed when x
 * can no longer change.
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

/* Computes the cells of x [n]; `part` separates vectors with the same seed. */
void pl_likeness_of(uint64_t seed, uint64_t part, const float *x, size_t n,
                    pl_likeness *out);
/* The larger of 1 - cosine and 1 - shorter / longer: 0 if the vectors are equal, 1 if
 * one is zero or they are orthogonal, 2 if they are opposite. 0 if both are zero;
 * infinity if a cell is not finite. The function does not use |x - y|: between kinds of
 * devices directions drift apart during a phase while lengths do not, so this distance
 * shows a wrong length that |x - y| would hide. */
double pl_likeness_distance(const pl_likeness *x, const pl_likeness *y);

#ifdef __cplusplus
}
#endif
#endif
