/* Computes the vectors of one module of a path between two phases (holder.h). */
#include "outer/holder.h"
#include "outer/gossip.h"

#include <math.h>

static void subtract(const float *a, const float *b, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] - b[i];
}

static void scale_by(float factor, size_t n, float *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] *= factor;
}

/* Takes the noloco step. The base of noloco's updates is version 0. If one vector is
 * sent, base minus this vector is the mate's offer. If two vectors are sent, base minus
 * the second vector is the parameters from which the mate started. */
static pl_status step_gossip(const pl_holder *h, const float *mate,
                             const float *mate_start)
{
    const pl_contract *of = h->of;
    const size_t n = of->n_params;
    pl_gossip_step step = pl_method_gossip(
        &of->settings, pl_outer_lr(&of->schedule, of->settings.lr, h->phase - 1));
    bool two = of->n_vectors == 2;
    float *shown = NULL;
    if (!two)
        /* With one vector, gamma must equal beta, this round's learning rate
         * (outer/gossip.h). */
        step.gamma = step.beta;
    if (mate) {
        PL_CHECK(pl_try_alloc(n * sizeof *shown, "a mate's vector", (void **)&shown));
        subtract(h->base, two ? mate_start : mate, n, shown);
    }
    const pl_gossip_view own = {h->last, h->before}, other = {mate, shown};
    pl_status status =
        two ? pl_gossip_apply_views(&step, h->params, h->velocity, &own,
                                    mate ? &other : NULL, n, 1)
            : pl_gossip_apply_one(&step, h->params, h->velocity, h->last, shown, n, 1);
    pl_free_aligned(shown);
    return status;
}

pl_status pl_holder_begin(const pl_holder *h, const float *mate,
                          const float *mate_start, float *start)
{
    const bool own = h->phase > 0 && h->params && h->of->starts_own;
    if (own && h->of->meets)
        PL_CHECK(step_gossip(h, mate, mate_start));
    memcpy(start, own ? h->params : h->base, h->of->n_params * sizeof *start);
    return PL_OK;
}

/* With noloco the holder offers the parameters start - share * (start - now), and sends
 * version 0 minus the offer. If two vectors are sent, the first one is share * (start -
 * now). `share` is n_holders times the path's share, which is 1 if all holders have the
 * same weight; with outer.rescale it is multiplied by the root of n_holders. */
void pl_holder_update(const pl_holder *h, const float *start, const float *now,
                      float *update)
{
    const pl_contract *of = h->of;
    if (!of->meets) {
        subtract(h->base, now, of->n_params, update);
        return;
    }
    float share = (float)(of->n_holders * pl_round_share(of, h->path));
    if (of->rescale)
        share *= sqrtf((float)of->n_holders);
    subtract(start, now, of->n_params, update);
    if (of->n_vectors == 2) {
        scale_by(share, of->n_params, update);
        return;
    }
    pl_gossip_offer(start, update, share, of->n_params, update);
    subtract(h->base, update, of->n_params, update);
}

void pl_holder_update_start(const pl_holder *h, const float *start, float *update)
{
    subtract(h->base, start, h->of->n_params, update);
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
    const size_t n = h->of->n_params, bytes = n * sizeof *start;
    if (!h->of->meets) {
        if (h->params)
            memcpy(h->params, now, bytes);
        return;
    }
    memcpy(h->params, start, bytes);
    if (h->of->n_vectors == 2) {
        memcpy(h->last, sent, bytes);
        subtract(h->base, sent_start, n, h->before);
    } else {
        subtract(h->base, sent, n, h->last);
    }
}
