/* Computes the pseudo-gradients of the steps between versions, and compares consecutive
 * pseudo-gradients (health.h). */
#include "outer/health.h"
#include <math.h>

struct pl_health_walk {
    size_t n;
    /* [n] parameters and momentum of the previous version; last: its step's g */
    float *params, *momentum, *last;
    bool has_momentum, has_last;
};

pl_status pl_health_walk_create(size_t n, pl_health_walk **out)
{
    float *block = NULL;
    *out = NULL;
    PL_CHECK(pl_try_alloc((3 * n + 1) * sizeof *block, "a module's health",
                          (void **)&block));
    pl_health_walk *walk = pl_alloc(sizeof *walk);
    *walk = (pl_health_walk){
        .n = n, .params = block, .momentum = block + n, .last = block + 2 * n};
    *out = walk;
    return PL_OK;
}

void pl_health_walk_destroy(pl_health_walk **walk)
{
    if (!*walk)
        return;
    pl_free_all((*walk)->params, *walk);
    *walk = NULL;
}

void pl_health_begin(pl_health_walk *walk, const float *params, bool initial)
{
    memcpy(walk->params, params, walk->n * sizeof *params);
    memset(walk->momentum, 0, walk->n * sizeof *params);
    walk->has_momentum = initial;
    walk->has_last = false;
}

void pl_health_next(pl_health_walk *w, const float *params, const pl_health_step *step,
                    pl_health *out)
{
    double ss = 0, xx = 0, gg = 0, ll = 0, gl = 0;
    /* the factors in g = scale * (s / eta - pull * m); g is not known for methods whose
     * steps depend on vectors other than the mean and the momentum */
    const bool heavy = strcmp(step->method, "heavy-ball") == 0;
    const double mu = step->momentum;
    const double scale = heavy ? 1 : 1 / (1 + mu), pull = heavy ? mu : mu * mu;
    const bool known =
        (heavy || pl_lists_word("nesterov sgd diloco iso fedavg", ' ', step->method)) &&
        step->lr > 0 && (w->has_momentum || mu == 0);
    for (size_t i = 0; i < w->n; i++) {
        const double s = (double)w->params[i] - (double)params[i];
        const double m = w->momentum[i], last = w->last[i];
        ss += s * s;
        xx += (double)params[i] * (double)params[i];
        if (!known)
            continue;
        const double g = scale * (s / step->lr - pull * m);
        gg += g * g;
        ll += last * last;
        gl += g * last;
        w->last[i] = (float)g;
        w->momentum[i] = (float)(mu * m + g);
    }
    /* the part of the updates that cancels in the mean */
    double squares = 0, total = 0, transverse = NAN;
    for (int i = 0; i < step->n; i++) {
        squares += step->weights[i] * step->norms[i] * step->norms[i];
        total += step->weights[i];
    }
    if (step->n >= 2 && squares > 0 && total > 0) {
        transverse = 1 - step->mean_norm * step->mean_norm * total / squares;
        if (!(transverse > 0)) /* rounding may give a value below 0 */
            transverse = 0;
    }
    *out = (pl_health){
        .lag = known && w->has_last && gg > 0 && ll > 0 ? gl / sqrt(gg * ll) : NAN,
        .step = sqrt(ss),
        .gain = step->mean_norm > 0 ? sqrt(ss) / step->mean_norm : NAN,
        .relative = xx > 0 ? sqrt(ss / xx) : NAN,
        .transverse = transverse};
    memcpy(w->params, params, w->n * sizeof *params);
    w->has_last = known;
    w->has_momentum = known;
}
