/* Private to router: decides which cluster becomes which path. */
#ifndef PL_ROUTER_ARRANGE_H
#define PL_ROUTER_ARRANGE_H
#include "router/router.h"

/* Plain k-means numbers its clusters at random. But paths that share a module train the
 * module together, so similar clusters should share modules. This function orders the
 * centroids [P, dim] over the grid of experts so that the scatter inside modules is
 * small:
 *
 *   sum over levels l, experts e, of sum over paths p through (l,e) of |c_p - mean|^2
 *
 * The search starts from several random orders, which depend only on `seed`. It swaps
 * centroids as long as the sum gets smaller. The best result is used; if results are
 * equal, the first one. `centroids` is reordered in place. */
PL_MUST_CHECK pl_status arrange_grid(float *centroids, int n_paths, int dim,
                                     int n_levels, const int *experts, uint64_t seed);

#endif
