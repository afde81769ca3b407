/* Calls what the method of an arm does between two phases (holder.h). */
#include "outer/method.h"

void method_subtract(const float *a, const float *b, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] - b[i];
}

pl_status pl_holder_begin(const pl_holder *h, const float *mate,
                          const float *mate_start, float *start)
{
    if (h->phase > 0 && h->of->kind->begin)
        return h->of->kind->begin(h, mate, mate_start, start);
    memcpy(start, h->base, h->of->n_params * sizeof *start);
    return PL_OK;
}

void pl_holder_update(const pl_holder *h, const float *start, const float *now,
                      float *update)
{
    if (h->of->kind->update)
        h->of->kind->update(h, start, now, update);
    else
        method_subtract(h->base, now, h->of->n_params, update);
}

void pl_holder_update_start(const pl_holder *h, const float *start, float *update)
{
    method_subtract(h->base, start, h->of->n_params, update);
}

/* Let u = base - own parameters be the update of this round, e (`before`) the residual
 * of this round, s the vector as it was sent, left = u + e - s, and c = of->carries.
 * The path's own parameters keep c * (u - s) = c * (left - e), so the next u contains
 * this part. The new residual is the rest: left - c * (left - e). */
void pl_holder_keep_left(const pl_holder *h, const float *before, float *left)
{
    const float carried = h->of->carries;
    for (size_t i = 0; i < h->of->n_params; i++)
        left[i] = (1.0f - carried) * left[i] + carried * before[i];
}

void pl_holder_keep(const pl_holder *h, const float *start, const float *now,
                    const float *sent, const float *sent_start)
{
    if (h->of->kind->keep)
        h->of->kind->keep(h, start, now, sent, sent_start);
    else if (h->params)
        memcpy(h->params, now, h->of->n_params * sizeof *now);
}
