/* The method iso: in the mean of a module's updates, the singular values of each matrix
 * are made equal (outer.method=iso; IsoLoCo, arXiv:2607.03011).
 *
 * A matrix G = U S V^T of rank r = min(rows, cols) becomes mean(S) U V^T. So the step
 * has the same length in all directions in which the contributors moved. For vectors,
 * the embedding and the head the mean is not changed.
 *
 * U V^T is computed by an iteration of matrix products (Newton-Schulz), not by an SVD.
 * If the matrix has more rows than columns, the iteration is applied to its transpose:
 *
 *   X = G / (1.01 |G|), where |G| is the Frobenius norm; then PL_ISO_ITERATIONS times:
 *   A = X X^T,  X = a X + (b A + c A A) X
 *   mean(S) = <X, G> / r
 *
 * The coefficients a, b, c of the first five iterations are those of Polar Express
 * (arXiv:2505.16932); those of the last two are (15, -10, 3) / 8, which converge
 * cubically. In exact arithmetic a singular value from |G|/1000 to |G| ends within
 * 1.2e-6 of 1. A smaller singular value may end further below 1, but never above 1, so
 * directions with only rounding noise do not become as long as the others. Zero stays
 * zero.
 *
 * The functions are pure and compute in fp32. The sum of each element is computed by
 * one thread in a fixed order, without contraction. So the result depends neither on
 * the number of threads nor on the processor. */
#pragma once
#include "modules/modules.h"

enum { PL_ISO_ITERATIONS = 7 };

/* A matrix within a module's vector of values. */
typedef struct pl_iso_matrix {
    size_t offset;
    int rows, cols;
} pl_iso_matrix;

/* Lists the matrices of the blocks in a module, in the order of their offsets, and
 * returns their number. The caller frees *out (NULL: none). */
int pl_iso_matrices(const pl_topology *topology, int module, pl_iso_matrix **out);

size_t pl_iso_work_bytes(int rows, int cols);
/* Makes the singular values of a matrix [rows, cols] equal, in place. A matrix whose
 * norm is 0 or not finite is not changed. ERR_NOMEM. */
pl_status pl_iso_equalize(float *values, int rows, int cols, int n_threads);
