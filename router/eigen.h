/* Private to router: eigenvectors of small symmetric matrices. */
#ifndef PL_ROUTER_EIGEN_H
#define PL_ROUTER_EIGEN_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Writes the eigenvalues of the symmetric matrix a [n, n] in falling order. Row i of
 * vectors [n, n] gets the unit eigenvector of the i-th eigenvalue. Overwrites `a`. Each
 * sweep over the matrix costs O(n^3), and a few sweeps suffice. */
void eigen_symmetric(double *a, size_t n, double *values, double *vectors);

#ifdef __cplusplus
}
#endif
#endif
