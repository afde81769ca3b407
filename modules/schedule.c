/* The inner learning rate of step s, with w = warmup, d = decay, n = total, f = floor:
 *
 *   s < w              peak (s + 1) / w
 *   cosine, s < n      peak (f + (1 - f) (1 + cos(pi (s - w) / (n - w))) / 2)
 *   wsd, s < n - d     peak, and at any later step if d = 0
 *   wsd, s < n         peak (f + (1 - f) (n - s) / d)
 *   s >= n             peak f
 *
 * The first step has a rate above zero, and the last step of the warm-up has the peak.
 *
 * wsd (warm-up, stable, decay; Hu et al. 2024, arXiv:2404.06395; Haegele et al. 2024,
 * arXiv:2405.18392) lets several trainings share their first steps: each can continue
 * from any point before the decay, and has a decay at its end. */
#include "modules/model.h"
#include <math.h>

static double cosine_share(const pl_schedule *s, int64_t step)
{
    const double pi = 3.14159265358979323846;
    double q = (double)(step - s->warmup) / (double)(s->total - s->warmup);
    return 0.5 * (1.0 + cos(pi * q));
}

static double wsd_share(const pl_schedule *s, int64_t step)
{
    int64_t left = s->total - step;
    return left >= s->decay ? 1.0 : (double)left / (double)s->decay;
}

double pl_learning_rate(const pl_schedule *s, int64_t step)
{
    if (step < s->warmup)
        return s->peak * (double)(step + 1) / (double)s->warmup;
    if (s->kind == PL_SCHEDULE_WSD && s->decay == 0)
        return s->peak;
    if (step >= s->total)
        return s->peak * s->floor;
    double share =
        s->kind == PL_SCHEDULE_WSD ? wsd_share(s, step) : cosine_share(s, step);
    return s->peak * (s->floor + (1.0 - s->floor) * share);
}
