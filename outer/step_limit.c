/* Computes the limits within which the coefficients of outer methods are stable, and
 * checks settings against these limits. */
#include "outer/gossip.h"
#include "outer/step.h"

#include <math.h>

enum { DEGREE_MAX = PL_DELAY_MAX + 3 };

/* Returns whether the step is stable for k = eta * lambda (outer learning rate times
 * curvature). The polynomial is in the comment at pl_outer_limit (step_method.h). */
static bool step_is_stable(pl_rule rule, double mu, int delay, double fresh, double k)
{
    double p[DEGREE_MAX + 1] = {0};
    double linear = rule == PL_RULE_NESTEROV ? 1 + mu : 1;
    double constant = rule == PL_RULE_NESTEROV ? -mu : 0;
    p[delay] += mu;
    p[delay + 1] -= 1 + mu;
    p[delay + 2] += 1;
    p[0] += k * constant * (1 - fresh);
    p[1] += k * linear * (1 - fresh);
    p[delay] += k * constant * fresh;
    p[delay + 1] += k * linear * fresh;
    /* Tests whether all roots are inside the unit circle (Schur-Cohn). This is the case
     * if |p_0| < |p_n| and all roots of (p - (p_0/p_n) p*)/z, which has one root fewer,
     * are inside the circle, too. Here n is the degree of p, and p* has the
     * coefficients of p in reverse order. */
    int degree = delay + 2;
    for (int n = degree; n > 0; n--) {
        double ratio = p[0] / p[n], next[DEGREE_MAX + 1];
        if (!(fabs(ratio) < 1))
            return false;
        for (int i = 0; i < n; i++)
            next[i] = p[i + 1] - ratio * p[n - i - 1];
        memcpy(p, next, (size_t)n * sizeof *p);
    }
    return true;
}

double pl_outer_limit(pl_rule rule, double momentum, int delay, double fresh)
{
    /* 4.5 is above 2(1+mu), the largest possible limit */
    double stable = 0, unstable = 4.5;
    for (int i = 0; i < 60; i++) {
        double k = 0.5 * (stable + unstable);
        if (step_is_stable(rule, momentum, delay, fresh, k))
            stable = k;
        else
            unstable = k;
    }
    return unstable;
}

static pl_status check_step_limit(const pl_method_settings *s, int delay, double fresh)
{
    double limit = pl_outer_limit(s->rule, s->momentum, delay, fresh);
    double gap = s->gap == PL_GAP_CONSTANT && delay > 0 ? s->gap_constant : 1;
    if (s->lr * s->curvature / gap < limit)
        return PL_OK;
    return pl_fail(PL_ERR_CONFIG,
                   "outer.method=%s with outer.lr %g, outer.momentum %g (%s) and delay "
                   "%d is not stable: at curvature %g, outer.lr must be below %.4g; "
                   "lower outer.lr, outer.momentum or the delay",
                   pl_traits(s->method)->name, s->lr, s->momentum,
                   pl_rule_name(s->rule), delay, s->curvature,
                   limit * gap / s->curvature);
}

static pl_status check_noloco(const pl_method_settings *s)
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
    return check_step_limit(s, 0, 0);
}

static pl_status check_co2(const pl_method_settings *s)
{
    if (!(s->clip >= 0 && isfinite(s->clip) && s->gap_constant >= 1 &&
          isfinite(s->gap_constant)))
        return pl_fail(PL_ERR_CONFIG,
                       "co2 needs outer.clip of 0 (off) or more and a constant gap of "
                       "1 or more, but they are %g and %g",
                       s->clip, s->gap_constant);
    return check_step_limit(s, s->delay, 0);
}

static pl_status check_streaming(const pl_method_settings *s)
{
    if (s->fragments < 1 || s->inner_steps < 1 || s->inner_steps % s->fragments != 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "streaming cannot place %d fragments at equal offsets in %d inner "
            "steps; outer.fragments must divide train.tau",
            s->fragments, s->inner_steps);
    if (s->overlap < 0 || s->overlap >= s->inner_steps / s->fragments)
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.overlap is %d inner steps, but streaming sends one of its "
            "%d fragments every %d steps; outer.overlap must be 0 or more "
            "and below that number of steps",
            s->overlap, s->fragments, s->inner_steps / s->fragments);
    if (!(s->mix >= 0 && s->mix <= 1))
        return pl_fail(PL_ERR_CONFIG,
                       "streaming needs outer.mix from 0 to 1, but it is %g", s->mix);
    return check_step_limit(s, 0, 0);
}

static pl_status check_delayed(const pl_method_settings *s)
{
    if (s->buffer < 1 || !(s->spread >= 0 && s->spread * s->buffer <= 1 + 1e-12))
        return pl_fail(
            PL_ERR_CONFIG,
            "delayed-nesterov needs outer.buffer of 1 or more and outer.spread "
            "from 0 to 1/outer.buffer, but they are %d and %g",
            s->buffer, s->spread);
    return check_step_limit(s, s->delay, 0);
}

pl_status pl_method_check(const pl_method_settings *s)
{
    if (!(s->lr > 0 && isfinite(s->lr) && s->momentum >= 0 && s->momentum < 1))
        return pl_fail(PL_ERR_CONFIG,
                       "outer.method=%s needs outer.lr above 0 and outer.momentum from "
                       "0 to below 1, but they are %g and %g",
                       pl_traits(s->method)->name, s->lr, s->momentum);
    if (!(s->curvature > 0 && isfinite(s->curvature)) || s->holders < 0)
        return pl_fail(PL_ERR_CONFIG,
                       "outer.method=%s needs outer.curvature above 0 and a number of "
                       "holders of 0 or more, but they are %g and %d",
                       pl_traits(s->method)->name, s->curvature, s->holders);
    if (s->delay < 0 || s->delay > PL_DELAY_MAX)
        return pl_fail(PL_ERR_CONFIG,
                       "outer.method=%s cannot have outer.delay %d; choose 0 to %d",
                       pl_traits(s->method)->name, s->delay, PL_DELAY_MAX);
    /* Refuses the rule if the method allows only the other rule. */
    bool heavy = s->method == PL_METHOD_HEAVY_BALL;
    bool either = s->method == PL_METHOD_NOLOCO || s->method == PL_METHOD_CO2 ||
                  s->method == PL_METHOD_EAGER || s->method == PL_METHOD_FEDAVG;
    if (!either && heavy != (s->rule == PL_RULE_HEAVY_BALL)) {
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.method=%s cannot use the momentum rule %s; set outer.rule=auto",
            pl_traits(s->method)->name, pl_rule_name(s->rule));
    }
    switch (s->method) {
    case PL_METHOD_FEDAVG:
        if (s->lr != 1 || s->momentum != 0)
            return pl_fail(
                PL_ERR_CONFIG,
                "fedavg needs outer.lr 1 and outer.momentum 0, but they are %g "
                "and %g; use outer.method=diloco for other values",
                s->lr, s->momentum);
        return PL_OK;
    case PL_METHOD_NOLOCO:
        return check_noloco(s);
    case PL_METHOD_CO2:
        return check_co2(s);
    case PL_METHOD_STREAMING:
        return check_streaming(s);
    /* eager with M holders: the fraction 1/M of the mean is from this phase, and the
     * rest is one phase old */
    case PL_METHOD_EAGER:
        return check_step_limit(s, 1, s->holders > 0 ? 1.0 / s->holders : 0);
    case PL_METHOD_DELAYED_NESTEROV:
        return check_delayed(s);
    case PL_METHOD_DILOCO:
    case PL_METHOD_HEAVY_BALL:
    case PL_METHOD_ISO:
    case PL_METHOD_COUNT:
        break;
    }
    return check_step_limit(s, 0, 0);
}

pl_outer_step pl_method_step(const pl_method_settings *settings, double lr,
                             bool rescale, int n_contributors)
{
    const pl_method_settings *s = settings;
    return (pl_outer_step){.lr = lr,
                           .momentum = s->momentum,
                           .rescale = rescale,
                           .n_contributors = n_contributors,
                           .method = s->method,
                           .rule = s->rule,
                           .delay = pl_method_delay(s, n_contributors),
                           .gap = s->gap,
                           .gap_constant = s->gap_constant,
                           .clip = s->clip,
                           .buffer = s->buffer,
                           .spread = s->spread};
}

pl_gossip_step pl_method_gossip(const pl_method_settings *settings, double lr)
{
    return (pl_gossip_step){.alpha = settings->momentum,
                            .beta = lr,
                            .gamma = settings->consensus,
                            .rule = settings->rule};
}
