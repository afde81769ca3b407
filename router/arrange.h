/* Private to router: which cluster becomes which path. */
#ifndef PL_ROUTER_ARRANGE_H
#define PL_ROUTER_ARRANGE_H
#include "router/router.h"

/* Plain k-means numbers its clusters at random, but paths that share a module train it
 * together: clusters that are alike should share. Chooses an order of the centroids
 * [P, dim] over the grid of experts that makes the scatter inside modules small,
 *
 *   sum over levels l, experts e, of sum over paths p through (l,e) of |c_p - mean|^2
 *
 * by swaps that lower it, from several keyed starts; the best end wins, the earlier of
 * equals. `centroids` is reordered in place. */
PL_MUST_CHECK pl_status arrange_grid(float *centroids, int n_paths, int dim,
                                     int n_levels, const int *experts, uint64_t seed);

#endif
