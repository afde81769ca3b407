#include "outer/merge.h"

#include <math.h>

void pl_outer_apply(const pl_outer_step *step, float *params, float *momentum,
                    float *mean, size_t n)
{
    const float eta = (float)step->lr, beta = (float)step->momentum;
    if (step->rescale) {
        float scale = (float)sqrt((double)step->n_contributors);
        for (size_t i = 0; i < n; i++)
            mean[i] *= scale;
    }
    if (step->momentum == 0) {
        for (size_t i = 0; i < n; i++)
            params[i] -= eta * mean[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        momentum[i] = beta * momentum[i] + mean[i];
        params[i] -= eta * (mean[i] + beta * momentum[i]);
    }
}

double pl_l2_norm(const float *values, size_t n)
{
    enum { BLOCK = 4096 };
    double total = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t end = first + BLOCK < n ? first + BLOCK : n;
        double squares = 0;
        for (size_t i = first; i < end; i++)
            squares += (double)values[i] * (double)values[i];
        total += squares;
    }
    return sqrt(total);
}
