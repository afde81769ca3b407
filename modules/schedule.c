/* The inner learning rate. */
#include "modules/model.h"
#include <math.h>

double pl_learning_rate(int64_t step, int64_t warmup, int64_t total, double peak,
                        double floor)
{
    const double pi = 3.14159265358979323846;
    if (step < warmup)
        return peak * (double)(step + 1) / (double)warmup;
    if (step >= total)
        return peak * floor;
    double progress = (double)(step - warmup) / (double)(total - warmup);
    return peak * (floor + (1.0 - floor) * 0.5 * (1.0 + cos(pi * progress)));
}
