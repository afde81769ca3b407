/* co2: heavy ball on updates that are used `delay` phases after they were made, so that
 * they are exchanged while the next phase trains. The staleness penalty (pl_gap) is in
 * outer/step.c. A module with a single contributor need not wait. */
#include "outer/method.h"

#include <math.h>

static void fit(const pl_method_settings *wish, pl_method_settings *out)
{
    out->delay = wish->delay;
    out->gap = wish->gap;
    out->clip = wish->clip;
}

static pl_status check(const pl_method_settings *s)
{
    if (!(s->clip >= 0 && isfinite(s->clip)))
        return pl_fail(PL_ERR_CONFIG,
                       "co2 needs outer.clip of 0 (off) or more, but it is %g",
                       s->clip);
    return method_check_limit(s, s->delay);
}

/* Phase p begins with version max(0, p - delay) and is merged in round p. */
static void agree(const pl_arm *arm, pl_contract *c)
{
    if (c->n_holders == 1)
        return;
    c->lag = c->wait = arm->outer.method.delay;
    c->window = arm->outer.method.delay + 1;
}

const outer_method method_co2 = {.name = "co2",
                                 .defaults = {.rule = PL_RULE_HEAVY_BALL,
                                              .lr = 0.7,
                                              .momentum = 0.2,
                                              .delay = 1,
                                              .gap = PL_GAP_NORM},
                                 .either_rule = true,
                                 .fit = fit,
                                 .check = check,
                                 .agree = agree};
