/* The names of the outer methods, their default coefficients, and their learning
 * rate per phase (step_method.h). The limits of stability are in step_limit.c. */
#include "outer/method.h"

static const outer_method *const methods[PL_METHOD_COUNT] = {
    [PL_METHOD_DILOCO] = &method_diloco,
    [PL_METHOD_FEDAVG] = &method_fedavg,
    [PL_METHOD_HEAVY_BALL] = &method_heavy_ball,
    [PL_METHOD_NOLOCO] = &method_noloco,
    [PL_METHOD_CO2] = &method_co2,
    [PL_METHOD_STREAMING] = &method_streaming,
    [PL_METHOD_DELAYED_NESTEROV] = &method_delayed_nesterov,
    [PL_METHOD_ISO] = &method_iso,
};

const outer_method *outer_method_of(pl_method method)
{
    return methods[method];
}

const char *pl_method_name(pl_method method)
{
    return methods[method] ? methods[method]->name : NULL;
}

const char *pl_rule_name(pl_rule rule)
{
    return rule == PL_RULE_HEAVY_BALL ? "heavy-ball" : "nesterov";
}

pl_status pl_method_parse(const char *text, pl_method *out)
{
    const char *names[PL_METHOD_COUNT];
    char known[160] = "";
    size_t n = 0;
    *out = PL_METHOD_DILOCO;
    if (strcmp(text, "eager") == 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "the outer method eager was removed, because its perplexity was "
            "39 %% worse than diloco's with eight replicas; use diloco, or "
            "streaming to send updates while training continues; open a run that "
            "used it with the release that made it");
    for (int i = 0; i < PL_METHOD_COUNT; i++) {
        if (!methods[i])
            continue;
        const size_t used = strlen(known);
        names[n] = methods[i]->name;
        if (strcmp(text, names[n]) == 0) {
            *out = (pl_method)i;
            return PL_OK;
        }
        snprintf(known + used, sizeof known - used, "%s%s", n ? ", " : "", names[n]);
        n++;
    }
    const char *near = pl_nearest(text, names, n);
    return pl_fail(PL_ERR_CONFIG, "unknown outer method `%s`%s%s%s; known are %s", text,
                   near ? ", did you mean `" : "", near ? near : "", near ? "`" : "",
                   known);
}

pl_method_settings pl_method_defaults(pl_method method)
{
    pl_method_settings m = {0};
    if (methods[method])
        m = methods[method]->defaults;
    m.method = method;
    m.curvature = 1;
    m.consensus = 0.7;
    m.gap_constant = 1;
    m.inner_steps = 32;
    m.fragments = m.fragments > 0 ? m.fragments : 1;
    m.buffer = 4;
    return m;
}

bool pl_method_schedule(const pl_outer_schedule *schedule, int64_t phase,
                        pl_method_settings *settings)
{
    if (!methods[settings->method]->settles || schedule->settle == 0 ||
        phase < schedule->phases - schedule->settle)
        return false;
    settings->lr = 1;
    settings->momentum = 0;
    return true;
}
