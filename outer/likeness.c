/* Computes the count sketch of a vector, and the distance of two vectors from their
 * sketches (likeness.h). */
#include "outer/likeness.h"

#include <math.h>

/* Sums are computed in double, in a fixed order, so that the result does not depend on
 * the machine. */
void pl_likeness_of(uint64_t seed, uint64_t part, const float *x, size_t n,
                    pl_likeness *out)
{
    double sums[PL_LIKENESS_CELLS] = {0};
    uint64_t stream = pl_stream("likeness", part, 0);
    uint32_t words[4];
    for (size_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            pl_philox(seed, stream, i / 4, words);
        uint32_t word = words[i % 4];
        sums[word % PL_LIKENESS_CELLS] += word >> 31 ? (double)x[i] : -(double)x[i];
    }
    for (int i = 0; i < PL_LIKENESS_CELLS; i++)
        out->cells[i] = (float)sums[i];
}

double pl_likeness_distance(const pl_likeness *x, const pl_likeness *y)
{
    double xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < PL_LIKENESS_CELLS; i++) {
        double a = x->cells[i], b = y->cells[i];
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    double most = xx > yy ? xx : yy, least = xx > yy ? yy : xx;
    if (!isfinite(most))
        return INFINITY;
    if (least == 0)
        return most > 0 ? 1 : 0;
    double turn = 1 - xy / sqrt(xx * yy), factor = 1 - sqrt(least / most);
    turn = turn > 0 ? turn : 0;
    return turn > factor ? turn : factor;
}
