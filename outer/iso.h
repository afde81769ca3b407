/* The mean of a module's updates with equal singular values per matrix
 * (outer.method=iso; IsoLoCo, arXiv:2607.03011).
 *
 * A matrix G = U S V^T of rank r = min(rows, cols) becomes mean(S) U V^T: a step of the
 * same length in all directions in which the contributors moved. Vectors, the embedding
 * and the head keep their plain mean.
 *
 * U V^T comes from an iteration of matrix products (Newton-Schulz), not from an SVD, on
 * the matrix or, if it has more rows than columns, on its transpose:
 *
 *   X = G / (1.01 |G|), |G| the Frobenius norm; PL_ISO_ITERATIONS times
 *   A = X X^T,  X = a X + (b A + c A A) X
 *   mean(S) = <X, G> / r
 *
 * The first five a, b, c are those of Polar Express (arXiv:2505.16932); the last two
 * are (15, -10, 3) / 8, which converge cubically. In exact arithmetic a singular value
 * from |G|/1000 to |G| ends within 1.2e-6 of 1. Smaller singular values end smaller, at
 * most 1, so that directions of pure rounding noise are not blown up. Zero stays zero.
 *
 * Pure; fp32. Every element is summed by one thread in the order of its index, without
 * contraction, so the bytes depend neither on the number of threads nor on the
 * processor. */
#ifndef PL_OUTER_ISO_H
#define PL_OUTER_ISO_H
#include "modules/modules.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_ISO_ITERATIONS = 7 };

/* A matrix within a module's vector of values. */
typedef struct pl_iso_matrix {
    size_t offset;
    int rows, cols;
} pl_iso_matrix;

/* The matrices of blocks in a module, in the order of their offsets. Returns their
 * number; *out is the caller's to free, and NULL if there are none. */
int pl_iso_matrices(const pl_topology *topology, int module, pl_iso_matrix **out);

/* The bytes that pl_iso_equalize allocates while it runs. */
size_t pl_iso_work_bytes(int rows, int cols);
/* Changes one matrix [rows, cols] in place. A matrix whose norm is 0 or not finite
 * stays as it is. ERR_NOMEM. */
PL_MUST_CHECK pl_status pl_iso_equalize(float *values, int rows, int cols,
                                        int n_threads);

#ifdef __cplusplus
}
#endif
#endif
