/* Computes positions of documents on a plane, for a picture of a router. The
 * coordinates are the first two principal components of the standardised features, both
 * scaled to variance 1. */
#include "router/lens.h"
#include <math.h>

pl_status pl_router_map(const float *features, size_t n, int dim, int n_threads,
                        float *xy, double shares[2])
{
    const pl_router_options options = {.standardize = true, .n_threads = n_threads};
    const int rank = dim < 2 ? dim : 2;
    lens l = {0};
    float *scratch = NULL, z[2] = {0};
    double signs[2] = {1.0, 1.0};
    pl_status status;
    shares[0] = shares[1] = 0.0;
    memset(xy, 0, 2 * n * sizeof *xy);
    if (n < 2 || dim < 1)
        return PL_OK;
    PL_TRY(lens_alloc(&l, dim, rank, true));
    PL_TRY(lens_fit(&l, features, n, &options));
    scratch = pl_alloc((size_t)dim * sizeof *scratch);
    for (int r = 0; r < rank; ++r) {
        const float *row = l.rows + (size_t)r * (size_t)dim;
        double square = 0.0, n_varying = 0.0;
        int most = 0;
        for (int d = 0; d < dim; ++d) {
            square += (double)row[d] * (double)row[d];
            n_varying += l.scale[d] > 0.0f;
            most = fabsf(row[d]) > fabsf(row[most]) ? d : most;
        }
        /* The fraction of the total variance that lies along the axis. The row of a
         * whitened axis has the length 1 / sqrt(variance). Each column that varies has
         * variance 1, so the total variance is the number of these columns. */
        shares[r] = square > 0.0 ? 1.0 / (square * n_varying) : 0.0;
        /* An axis and its opposite are equally good, so the sign is chosen such that
         * the largest weight of the axis is positive. Then the same features always
         * give the same picture. */
        signs[r] = row[most] < 0.0f ? -1.0 : 1.0;
    }
    for (size_t i = 0; i < n; ++i) {
        lens_look(&l, features + i * (size_t)dim, scratch, z);
        for (int r = 0; r < rank; ++r)
            xy[2 * i + (size_t)r] = (float)(signs[r] * (double)z[r]);
    }
done:
    pl_free(scratch);
    lens_clear(&l);
    return status;
}
