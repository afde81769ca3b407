/* delayed-nesterov (Async DiLoCo, arXiv:2401.09135): each update is merged by itself
 * when it arrives, with a momentum step at every `buffer`-th arrival (outer/step.h). A
 * phase begins with the newest version, so results depend on timing. */
#include "outer/method.h"

static pl_status check(const pl_method_settings *s)
{
    if (s->buffer < 1 || !(s->spread >= 0 && s->spread * s->buffer <= 1 + 1e-12))
        return pl_fail(
            PL_ERR_CONFIG,
            "delayed-nesterov needs outer.buffer of 1 or more and outer.spread "
            "from 0 to 1/outer.buffer, but they are %d and %g",
            s->buffer, s->spread);
    return method_check_limit(s, s->delay);
}

/* Each arrival is a round, and only the home knows its number. Holders may be two
 * phases apart in one module's rounds; tasks may be `staleness` phases apart, so that
 * updates are relative to older versions. */
static void agree(const pl_arm *arm, pl_contract *c)
{
    c->reach = (uint64_t)c->n_holders * (uint64_t)(arm->outer.staleness + 2);
    if (c->n_holders == 1)
        return;
    c->by_arrival = true;
    c->n_contributors = 1;
    c->window = 2 * c->n_holders;
    c->lag = c->wait = PL_FOREVER;
    c->sums = false;
}

const outer_method method_delayed_nesterov = {
    .name = "delayed-nesterov",
    .defaults = {.rule = PL_RULE_NESTEROV, .lr = 0.4, .momentum = 0.5, .delay = 1},
    .arrivals = true,
    .check = check,
    .agree = agree};

int pl_local_steps(int inner_steps, double speed, double top_speed)
{
    if (!(speed > 0) || !(top_speed > 0) || speed >= top_speed)
        return inner_steps;
    int steps = (int)((double)inner_steps * (speed / top_speed));
    return steps > 1 ? steps : 1;
}
