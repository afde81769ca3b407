/* Takes the optimizer's step on a whole path, for backends whose memory is the host's.
 */
#include "modules/backend.h"
#include <math.h>

struct pl_update {
    pl_update_plan plan;
};

pl_status pl_host_update_create(pl_backend *be, const pl_update_plan *plan,
                                pl_update **out)
{
    (void)be;
    *out = pl_alloc(sizeof **out);
    (*out)->plan = *plan;
    return PL_OK;
}

void pl_host_update_destroy(pl_backend *be, pl_update **update)
{
    (void)be;
    pl_free(*update);
    *update = NULL;
}

static bool all_finite(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

void pl_host_update_apply(pl_backend *be, pl_update *update, const float *loss, int N,
                          const pl_step_numbers *numbers)
{
    const pl_update_plan *p = &update->plan;
    be->ops->sum_squares(be, p->squares, p->grads, p->n_params);
    if (!all_finite(loss, N))
        *p->squares = (double)NAN;
    if (!isfinite(*p->squares)) {
        be->ops->fill_zero(be, p->grads, p->n_params * sizeof(float));
        return;
    }
    /* Clipping scales all gradients by min(1, clip / norm), in one rounding. */
    double squares = *p->squares;
    float clip = numbers->clip;
    double norm = sqrt(squares);
    float factor =
        clip > 0.0f && norm > (double)clip ? (float)((double)clip / norm) : 1.0f;
    for (int i = 0; i < p->n_runs; i++) {
        size_t at = p->runs[i].offset;
        pl_adamw adam = numbers->adam;
        if (!p->runs[i].decay)
            adam.weight_decay = 0.0f;
        be->ops->adamw(be, p->params + at, p->moments + at,
                       p->moments + p->n_params + at, p->grads + at, p->runs[i].n,
                       factor, &adam);
    }
    be->ops->weights_refresh(be, p->weights, p->n_weights);
}

void pl_host_perform(pl_backend *be, pl_routine **routine, uint64_t shape,
                     void (*work)(void *context), void *context)
{
    (void)be, (void)routine, (void)shape;
    work(context);
}

void pl_host_routine_destroy(pl_backend *be, pl_routine **routine)
{
    (void)be, (void)routine;
}
