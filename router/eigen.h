/* Eigenvectors of small symmetric matrices; private to router. */
#ifndef PL_ROUTER_EIGEN_H
#define PL_ROUTER_EIGEN_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Eigenvalues of a [n, n], falling, and the unit vector of the i-th as row i of
 * vectors [n, n]. Overwrites a. O(n^3) a sweep, a handful of sweeps. */
void eigen_symmetric(double *a, size_t n, double *values, double *vectors);

#ifdef __cplusplus
}
#endif
#endif
