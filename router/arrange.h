/* Private to router: decides which cluster becomes which path. */
#pragma once
#include "router/router.h"

/* Plain k-means numbers its clusters at random. But paths that share a module train the
 * module together, so similar clusters should share modules. This function reorders
 * centroids [n_paths, dim] in place; row p then belongs to path p. It searches for an
 * order with a small scatter inside modules:
 *
 *   sum over all modules m of all levels, and over all paths p of module m, of
 *   |centroid_p - mean of the centroids of the paths of m|^2
 *
 * The search starts from the given order and from several random orders, which depend
 * only on `seed`. From each start it swaps centroids as long as the sum gets smaller.
 * The best result is used; if results are equal, the first of them. ERR_NOMEM. */
pl_status arrange_grid(float *centroids, int n_paths, int dim, int n_levels,
                       const int *experts, uint64_t seed);
