/* folder: router. What its tests share: clouds of points around known centres. */
#ifndef PL_TESTS_ROUTER_SUPPORT_H
#define PL_TESTS_ROUTER_SUPPORT_H
#include "router/router_internal.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define assert_ok(expression)                                                          \
    do {                                                                               \
        if ((expression) != PL_OK)                                                     \
            fail_msg("%s: %s", #expression, pl_last_error());                          \
    } while (0)

#define assert_said(words)                                                             \
    do {                                                                               \
        if (!strstr(pl_last_error(), words))                                           \
            fail_msg("'%s' does not say '%s'", pl_last_error(), words);                \
    } while (0)

/* A plain router: features as they are. */
pl_router_options plain_options(int n_paths);

/* n points in `dim` columns: point i belongs to cloud i % k, whose centre is a random
 * corner, `apart` from the origin in every column, with unit noise. */
float *make_clouds(size_t n, int dim, int k, float apart);

pl_router *fit(const float *points, size_t n, int dim,
               const pl_router_options *options);

int path_of(const pl_router *router, const float *feature);

/* Appends all numbers that a router decides by. */
void router_bytes(const pl_router *router, pl_buf *out);

/* The purity of the router's paths against cloud i % k. */
double purity_of(const pl_router *router, const float *points, size_t n, int k);

#endif
