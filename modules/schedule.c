/* The inner learning rate:
 *
 *   peak (s + 1) / warmup                                      s < warmup
 *   peak (floor + (1 - floor) (1 + cos(pi q)) / 2)             q = (s - warmup) /
 *                                                                  (total - warmup)
 *   peak floor                                                 s >= total
 *
 * The first step is not lost to a rate of zero, and the peak is reached at the last
 * step of the warm-up.
 */
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
