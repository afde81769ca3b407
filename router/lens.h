/* Private to router: the feature transform, which is applied before distances are
 * computed. It makes z [rank] from a document's feature x [dim]:
 *
 *   y[d] = (x[d] - mean[d]) * scale[d]
 *   z    = rows * y  (whitened components, sharpened or not; z = y without `rows`)
 *   z    = z / |z|   (only if `unit`) */
#pragma once
#include "router/router.h"

typedef struct lens {
    /* number of elements of x, and of z; the two are equal if `rows` is NULL */
    int dim, rank;
    bool unit;
    float *mean, *scale; /* [dim] */
    float *rows;         /* [rank, dim] the projection, or NULL */
} lens;                  /* all fields are zero before lens_alloc */

/* Allocates the arrays; lens_clear frees them. Without with_rows, `rows` is NULL.
 * ERR_NOMEM. */
pl_status lens_alloc(lens *l, int dim, int rank, bool with_rows);
void lens_clear(lens *l);

/* Fits an allocated transform to features [n, dim]. Uses only these options:
 * standardize (scale = 1/deviation, else 1), unit, sharpen, seed, n_threads. The result
 * does not depend on n_threads. ERR_NOMEM. */
pl_status lens_fit(lens *l, const float *features, size_t n,
                   const pl_router_options *options);

/* Transforms x [dim] into z [rank]; scratch [dim] is overwritten. */
void lens_look(const lens *l, const float *x, float *scratch, float *z);
