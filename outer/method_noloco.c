/* noloco (arXiv:2506.10911): holders of a module step by themselves after each phase,
 * in pairs, without waiting for a home (outer/gossip.h). A path keeps its own
 * parameters and velocity, and the vector that it sent last. The home only stores
 * updates, and makes versions from which no path begins.
 *
 * A module with a single contributor is merged as in diloco. */
#include "outer/gossip.h"
#include "outer/method.h"

#include <math.h>

static void fit(const pl_method_settings *wish, pl_method_settings *out)
{
    out->rule = wish->rule;
    out->consensus = wish->consensus;
}

static pl_status check(const pl_method_settings *s)
{
    double h = pl_gossip_coupling(s->holders);
    double limit = pl_gossip_limit(s->rule, s->momentum, h);
    if (!(s->consensus > 0 && s->consensus < limit))
        return pl_fail(
            PL_ERR_CONFIG,
            "noloco with outer.momentum %g (%s) needs a consensus weight "
            "(outer.consensus, or outer.lr if it is -1) above 0 and below %.4g, but it "
            "is %g: the holders of a module would drift apart; change the weight or "
            "outer.momentum",
            s->momentum, pl_rule_name(s->rule), limit, s->consensus);
    return method_check_limit(s, 0);
}

static void lay_out(const pl_arm *arm, pl_path_layout *l)
{
    l->params = l->n_vectors++;
    l->velocity = l->n_vectors++;
    l->last = l->n_vectors++;
    if (arm->outer.own_consensus)
        l->before = l->n_vectors++;
}

/* Updates are relative to version 0, which every worker has. */
static void agree(const pl_arm *arm, pl_contract *c)
{
    c->keeps_first = true;
    c->sums = false;
    if (c->n_holders == 1) {
        c->kind = &method_diloco;
        return;
    }
    c->meets = true;
    c->lag = c->wait = PL_FOREVER;
    c->window = arm->inner.phases;
    /* If the state of a path has not arrived, the path repeats its phase, even if the
     * phase's updates are already merged. It then needs the mates' updates of the
     * previous round. */
    c->keep_late = 2;
    c->n_vectors = arm->outer.own_consensus ? 2 : 1;
    /* updates are already weighted by the shares of their paths */
    c->counts_weights = false;
}

/* A version is the mean of the holders' parameters. This mean moves like one holder
 * that applies the mean of all updates and no consensus term, so the home can compute
 * it. Under heavy ball, velocities contain the learning rate of their round. If updates
 * u have only one vector, they are relative to version 0. Then the update relative to
 * version t is g = x_t - (x_0 - u) = (x_t - x_0) + u, with x_t, version t. */
static void merge(const pl_contract *c, pl_round_step *how)
{
    const bool scales = c->settings.rule == PL_RULE_HEAVY_BALL;
    how->step.method = scales ? PL_METHOD_HEAVY_BALL : PL_METHOD_DILOCO;
    how->step.lr = scales ? 1 : how->lr;
    how->step.rescale = false;
    how->factor = scales ? how->lr : 1;
    how->from_first = c->n_vectors == 1;
}

/* Takes the step with the mate's vectors. If one vector is sent, base minus this vector
 * is the mate's offer. If two vectors are sent, base minus the second vector is the
 * parameters from which the mate started. */
static pl_status begin(const pl_holder *h, const float *mate, const float *mate_start,
                       float *start)
{
    const pl_contract *of = h->of;
    const size_t n = of->n_params;
    const bool two = of->n_vectors == 2;
    const double lr = of->settings.lr;
    /* With one vector, gamma must equal beta, this round's learning rate
     * (outer/gossip.h). */
    const pl_gossip_step step = {.alpha = of->settings.momentum,
                                 .beta = lr,
                                 .gamma = two ? of->settings.consensus : lr,
                                 .rule = of->settings.rule};
    float *shown = NULL;
    if (mate) {
        PL_CHECK(pl_try_alloc(n * sizeof *shown, "a mate's vector", (void **)&shown));
        method_subtract(h->base, two ? mate_start : mate, n, shown);
    }
    const pl_gossip_view own = {h->last, h->before}, other = {mate, shown};
    pl_status status =
        two ? pl_gossip_apply_views(&step, h->params, h->velocity, &own,
                                    mate ? &other : NULL, n)
            : pl_gossip_apply_one(&step, h->params, h->velocity, h->last, shown, n);
    pl_free(shown);
    PL_CHECK(status);
    memcpy(start, h->params, n * sizeof *start);
    return PL_OK;
}

/* The holder offers the parameters start - share * (start - now), and sends version 0
 * minus the offer. If two vectors are sent, the first one is share * (start - now).
 * `share` is n_holders times the path's share, which is 1 if all holders have the same
 * weight; with outer.rescale it is multiplied by the root of n_holders. */
static void update(const pl_holder *h, const float *start, const float *now, float *out)
{
    const pl_contract *of = h->of;
    float share = (float)(of->n_holders * pl_round_share(of, h->path));
    if (of->rescale)
        share *= sqrtf((float)of->n_holders);
    method_subtract(start, now, of->n_params, out);
    if (of->n_vectors == 2) {
        for (size_t i = 0; i < of->n_params; i++)
            out[i] *= share;
        return;
    }
    pl_gossip_offer(start, out, share, of->n_params, out);
    method_subtract(h->base, out, of->n_params, out);
}

static void keep(const pl_holder *h, const float *start, const float *now,
                 const float *sent, const float *sent_start)
{
    const size_t n = h->of->n_params, bytes = n * sizeof *start;
    (void)now;
    memcpy(h->params, start, bytes);
    if (h->of->n_vectors == 2) {
        memcpy(h->last, sent, bytes);
        method_subtract(h->base, sent_start, n, h->before);
    } else {
        method_subtract(h->base, sent, n, h->last);
    }
}

const outer_method method_noloco = {
    .name = "noloco",
    .defaults = {.rule = PL_RULE_HEAVY_BALL, .lr = 0.7, .momentum = 0.5},
    .either_rule = true,
    .mates = true,
    .fit = fit,
    .check = check,
    .lay_out = lay_out,
    .agree = agree,
    .merge = merge,
    .begin = begin,
    .update = update,
    .keep = keep};
