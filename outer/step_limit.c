/* Computes the limits within which the coefficients of outer methods are stable, and
 * checks settings against these limits. */
#include "outer/method.h"

#include <math.h>

enum { DEGREE_MAX = PL_DELAY_MAX + 3 };

/* Returns whether the step is stable for k = eta * lambda (outer learning rate times
 * curvature). The polynomial is in the comment at pl_outer_limit (step_method.h). */
static bool step_is_stable(pl_rule rule, double mu, int delay, double k)
{
    double p[DEGREE_MAX + 1] = {0};
    double linear = rule == PL_RULE_NESTEROV ? 1 + mu : 1;
    double constant = rule == PL_RULE_NESTEROV ? -mu : 0;
    p[delay] += mu;
    p[delay + 1] -= 1 + mu;
    p[delay + 2] += 1;
    p[0] += k * constant;
    p[1] += k * linear;
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

double pl_outer_limit(pl_rule rule, double momentum, int delay)
{
    /* 4.5 is above 2(1+mu), the largest possible limit */
    double stable = 0, unstable = 4.5;
    for (int i = 0; i < 60; i++) {
        double k = 0.5 * (stable + unstable);
        if (step_is_stable(rule, momentum, delay, k))
            stable = k;
        else
            unstable = k;
    }
    return unstable;
}

pl_status method_check_limit(const pl_method_settings *s, int delay)
{
    double limit = pl_outer_limit(s->rule, s->momentum, delay);
    if (s->lr * s->curvature < limit)
        return PL_OK;
    return pl_fail(PL_ERR_CONFIG,
                   "outer.method=%s with outer.lr %g, outer.momentum %g (%s) and delay "
                   "%d is not stable: at curvature %g, outer.lr must be below %.4g; "
                   "lower outer.lr, outer.momentum or the delay",
                   pl_method_name(s->method), s->lr, s->momentum, pl_rule_name(s->rule),
                   delay, s->curvature, limit / s->curvature);
}

pl_status pl_method_check(const pl_method_settings *s)
{
    if (!(s->lr > 0 && isfinite(s->lr) && s->momentum >= 0 && s->momentum < 1))
        return pl_fail(PL_ERR_CONFIG,
                       "outer.method=%s needs outer.lr above 0 and outer.momentum from "
                       "0 to below 1, but they are %g and %g",
                       pl_method_name(s->method), s->lr, s->momentum);
    if (!(s->curvature > 0 && isfinite(s->curvature)) || s->holders < 0)
        return pl_fail(PL_ERR_CONFIG,
                       "outer.method=%s needs outer.curvature above 0 and a number of "
                       "holders of 0 or more, but they are %g and %d",
                       pl_method_name(s->method), s->curvature, s->holders);
    if (s->delay < 0 || s->delay > PL_DELAY_MAX)
        return pl_fail(PL_ERR_CONFIG,
                       "outer.method=%s cannot have outer.delay %d; choose 0 to %d",
                       pl_method_name(s->method), s->delay, PL_DELAY_MAX);
    const outer_method *of = outer_method_of(s->method);
    if (!of->either_rule && s->rule != of->defaults.rule)
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.method=%s cannot use the momentum rule %s; set outer.rule=auto",
            of->name, pl_rule_name(s->rule));
    return of->check(s);
}

pl_outer_step pl_method_step(const pl_method_settings *s, double lr, bool rescale,
                             int n_contributors)
{
    return (pl_outer_step){.lr = lr,
                           .momentum = s->momentum,
                           .rescale = rescale,
                           .n_contributors = n_contributors,
                           .method = s->method,
                           .rule = s->rule,
                           /* a single contributor need not wait for others */
                           .delay = n_contributors > 1 ? s->delay : 0,
                           .gap = s->gap,
                           .clip = s->clip,
                           .buffer = s->buffer,
                           .spread = s->spread};
}
