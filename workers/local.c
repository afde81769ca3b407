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

pl_status local_step_eager(const local_slot *s, const float *mean_before)
{
    pl_method_settings m = settings_of(s);
    float *g = NULL;
    bool first = s->phase == 1;
    PL_RETURN_IF(pl_try_alloc(s->n * sizeof *g, "an eager step", (void **)&g));
    pl_eager_update(s->last, first ? NULL : s->before, first ? NULL : mean_before,
                    m.holders, s->n, g);
    m.method = m.rule == PL_RULE_NESTEROV ? PL_METHOD_DILOCO : PL_METHOD_HEAVY_BALL;
    pl_outer_step step = pl_method_step(&m, lr_of(s, &m, s->phase - 1),
                                        s->arm->outer.rescale, m.holders);
    pl_outer_state state = {.params = s->params, .momentum = s->velocity};
    pl_status status = pl_outer_apply(&step, &state, g, s->n, NULL);
    pl_free_aligned(g);
    return status;
}

pl_status local_step_gossip(const local_slot *s, const float *mate)
{
    pl_method_settings m = settings_of(s);
    pl_gossip_step step = pl_method_gossip(&m, lr_of(s, &m, s->phase - 1));
    step.gamma = step.beta; /* also of a learning rate that changes */
    float *offer = NULL;
    if (mate)
        PL_RETURN_IF(
            pl_try_alloc(s->n * sizeof *offer, "a mate's offer", (void **)&offer));
    if (mate)
        subtract(s->base, mate, s->n, offer);
    pl_status status =
        pl_gossip_apply_one(&step, s->params, s->velocity, s->last, offer, s->n, 1);
    pl_free_aligned(offer);
    return status;
}

/* What the holder's part in the mean of all is, times their number. */
static float share_of(const local_slot *s)
{
    return (float)(pl_arm_contributors(s->topology, s->module) *
                   pl_arm_share(s->arm, s->topology, s->module, s->path));
}

/* noloco offers x - share (x - now), and sends how far that is from version 0. A factor
 * on the mean is one on each update; it must not act on x. */
void local_update(const local_slot *s, const float *start, const float *now,
                  float *update)
{
    pl_method method = settings_of(s).method;
    if (method == PL_METHOD_NOLOCO) {
        float share = share_of(s);
        if (s->arm->outer.rescale)
            share *= sqrtf((float)pl_arm_contributors(s->topology, s->module));
        subtract(start, now, s->n, update);
        pl_gossip_offer(start, update, share, s->n, update);
        subtract(s->base, update, s->n, update);
        return;
    }
    subtract(method == PL_METHOD_EAGER ? start : s->base, now, s->n, update);
}

/* The factor that makes of what was sent the holder's part in the mean, times their
 * number. */
static float part_of(const local_slot *s)
{
    if (pl_codec_is_homomorphic(&s->arm->outer.codec)) /* it is weighted already */
        return (float)pl_arm_contributors(s->topology, s->module);
    return share_of(s);
}

void local_keep(const local_slot *s, const float *start, const float *now,
                const float *sent)
{
    pl_method method = settings_of(s).method;
    size_t bytes = s->n * sizeof *start;
    if (method == PL_METHOD_NOLOCO) {
        memcpy(s->params, start, bytes);
        subtract(s->base, sent, s->n, s->last);
    } else if (method == PL_METHOD_EAGER) {
        memcpy(s->params, start, bytes);
        memcpy(s->before, s->last, bytes);
        float share = part_of(s);
        for (size_t i = 0; i < s->n; i++)
            s->last[i] = share * sent[i];
    } else if (s->params) {
        memcpy(s->params, now, bytes);
    }
}
