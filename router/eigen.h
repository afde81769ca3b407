/* Private to router: eigenvectors of small symmetric matrices. */
#ifndef PL_ROUTER_EIGEN_H
#define PL_ROUTER_EIGEN_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Writes the eigenvalues of the matrix a [n, n] in falling order, and the i-th unit
 * eigenvector as row i of vectors [n, n]. Overwrites a. Each sweep over the matrix
 * costs O(n^3), and a few sweeps suffice. */
void eigen_symmetric(double *a, size_t n, double *values, double *vectors);

#ifdef __cplusplus
}
#endif
#endif
