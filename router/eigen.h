/* Private to router: eigenvectors of small symmetric matrices. */
#pragma once
#include "base/base.h"

/* Writes to values [n] the eigenvalues of the symmetric matrix a [n, n], the largest
 * first. Row i of vectors [n, n] gets the eigenvector of values[i], with length 1.
 * Overwrites `a`. Each sweep over the matrix costs O(n^3), and a few sweeps suffice. */
void eigen_symmetric(double *a, size_t n, double *values, double *vectors);
