/* Computes the vectors of one slot between two phases (local.h): takes the outer step,
 * if the method's paths have their own parameters; makes the update that is sent; and
 * keeps the parts of the update that later phases need. No function of this file reads
 * a file or a socket. */
#include "workers/local.h"

#include <math.h>

static pl_method_settings settings_of(const local_slot *s)
{
    return pl_arm_method(s->arm, s->topology, s->module);
}

static double lr_of(const local_slot *s, const pl_method_settings *m, int64_t round)
{
    return pl_outer_lr(&s->arm->outer.schedule, m->lr, round);
}

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

static bool sends_two(const local_slot *s)
{
    return pl_round_vectors(s->arm, s->topology, s->module) == 2;
}

/* Takes the noloco step. The base of noloco's updates (s->base) is version 0. If one
 * vector is sent, base minus this vector is the mate's offer. If two vectors are sent,
 * base minus the second vector is the parameters from which the mate started. */
pl_status local_step_gossip(const local_slot *s, const float *mate,
                            const float *mate_start)
{
    pl_method_settings m = settings_of(s);
    pl_gossip_step step = pl_method_gossip(&m, lr_of(s, &m, s->phase - 1));
    bool two = sends_two(s);
    float *shown = NULL;
    if (!two)
        /* With one vector, gamma must equal beta, this round's learning rate
         * (outer/gossip.h). */
        step.gamma = step.beta;
    if (mate) {
        PL_CHECK(
            pl_try_alloc(s->n * sizeof *shown, "a mate's vector", (void **)&shown));
        subtract(s->base, two ? mate_start : mate, s->n, shown);
    }
    const pl_gossip_view own = {s->last, s->before}, other = {mate, shown};
    pl_status status = two ? pl_gossip_apply_views(&step, s->params, s->velocity, &own,
                                                   mate ? &other : NULL, s->n, 1)
                           : pl_gossip_apply_one(&step, s->params, s->velocity, s->last,
                                                 shown, s->n, 1);
    pl_free_aligned(shown);
    return status;
}

/* Returns n_contributors times this holder's normalised weight. The result is 1 if all
 * holders have the same weight. */
static float holder_share(const local_slot *s)
{
    return (float)(pl_arm_contributors(s->topology, s->module) *
                   pl_arm_share(s->arm, s->topology, s->module, s->path));
}

/* With noloco the holder offers the parameters start - share * (start - now), and sends
 * version 0 minus the offer. If two vectors are sent, the first one is share * (start -
 * now). With outer.rescale, share is multiplied by the root of the number of
 * contributors. */
void local_update(const local_slot *s, const float *start, const float *now,
                  float *update)
{
    const pl_method_traits *of = pl_traits(settings_of(s).method);
    if (of->gossips) {
        float share = holder_share(s);
        if (s->arm->outer.rescale)
            share *= sqrtf((float)pl_arm_contributors(s->topology, s->module));
        subtract(start, now, s->n, update);
        if (sends_two(s)) {
            scale_by(share, s->n, update);
            return;
        }
        pl_gossip_offer(start, update, share, s->n, update);
        subtract(s->base, update, s->n, update);
        return;
    }
    subtract(s->base, now, s->n, update);
}

void local_update_start(const local_slot *s, const float *start, float *update)
{
    subtract(s->base, start, s->n, update);
}

float local_carries(const local_slot *s)
{
    if (!pl_traits(s->arm->outer.method.method)->streams)
        return 0;
    return pl_arm_contributors(s->topology, s->module) == 1
               ? 1.0f
               : (float)s->arm->outer.method.mix;
}

/* Let u = base - own parameters be the update of this round, e (`before`) the residual
 * of this round, s the vector as it was sent, left = u + e - s, and c = local_carries.
 * The path's own parameters keep c * (u - s) = c * (left - e), so the next u contains
 * this part. The new residual is the rest: left - c * (left - e). */
void local_keep_left(const local_slot *s, const float *before, float *left)
{
    float carried = local_carries(s);
    for (size_t i = 0; i < s->n; i++)
        left[i] = (1.0f - carried) * left[i] + carried * before[i];
}

void local_keep(const local_slot *s, const float *start, const float *now,
                const float *sent, const float *sent_start)
{
    const pl_method_traits *of = pl_traits(settings_of(s).method);
    size_t bytes = s->n * sizeof *start;
    if (of->gossips) {
        memcpy(s->params, start, bytes);
        if (sends_two(s)) {
            memcpy(s->last, sent, bytes);
            subtract(s->base, sent_start, s->n, s->before);
        } else {
            subtract(s->base, sent, s->n, s->last);
        }
    } else if (s->params) {
        memcpy(s->params, now, bytes);
    }
}
