/* folder: router. Shared by the tests of routers: clouds of points around known
 * centres, and routers that are fitted to these points. */
#pragma once
#include "router/router_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"

/* Returns options of a router that does not transform the features. */
pl_router_options plain_options(int n_paths);

/* Makes n points of `dim` values. Point i is the centre of cloud i % k plus noise of
 * variance 1. Each value of a centre is `apart` or -`apart`, chosen at random. */
float *make_clouds(size_t n, int dim, int k, float apart);

pl_router *fit(const float *points, size_t n, int dim,
               const pl_router_options *options);

/* Writes to `paths` the `top` cheapest paths, the cheapest first (top <= n_paths). */
void rank_paths(const pl_router *router, const float *feature, int top, int *paths);

int path_of(const pl_router *router, const float *feature);

/* Appends to `out` all numbers on which the router's choices depend. */
void router_bytes(const pl_router *router, pl_buf *out);

/* Returns the purity of the router's paths if point i belongs to cloud i % k. */
double purity_of(const pl_router *router, const float *points, size_t n, int k);
