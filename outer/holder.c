/* Calls what the method of an arm does between two phases (holder.h). */
#include "outer/method.h"

pl_status pl_holder_begin(const pl_holder *h, const float *mate,
                          const float *mate_start, float *start)
{
    return h->of->kind->begin(h, mate, mate_start, start);
}

void pl_holder_update(const pl_holder *h, const float *start, const float *now,
                      float *update)
{
    h->of->kind->update(h, start, now, update);
}

void pl_holder_update_start(const pl_holder *h, const float *start, float *update)
{
    for (size_t i = 0; i < h->of->n_params; i++)
        update[i] = h->base[i] - start[i];
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
    h->of->kind->keep(h, start, now, sent, sent_start);
}
