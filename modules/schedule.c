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

double pl_learning_rate(const pl_schedule *s, int64_t step)
{
    const double pi = 3.14159265358979323846;
    const int64_t left = s->total - step;
    double share = 1.0;
    if (step < s->warmup)
        return s->peak * (double)(step + 1) / (double)s->warmup;
    if (s->kind == PL_SCHEDULE_WSD && s->decay == 0)
        return s->peak;
    if (left <= 0)
        return s->peak * s->floor;
    if (s->kind != PL_SCHEDULE_WSD) {
        const double q = (double)(step - s->warmup) / (double)(s->total - s->warmup);
        share = 0.5 * (1.0 + cos(pi * q));
    } else if (left < s->decay) {
        share = (double)left / (double)s->decay;
    }
    return s->peak * (s->floor + (1.0 - s->floor) * share);
}
