/* The names of the outer methods, their default coefficients, and their learning
 * rate per phase (step_method.h). The limits of stability are in step_limit.c. */
#include "outer/step_method.h"

#include <math.h>

/* Default lr, momentum and rule of each method. They are the values of the method's
 * paper, unless the paper gives none or pl_method_check would refuse these values as
 * unstable. (DiLoCo's values 0.7 and 0.9 are not stable if updates are used late, so
 * methods that use updates late have smaller values.) */
static const pl_method_traits traits[PL_METHOD_COUNT] = {
    [PL_METHOD_DILOCO] = {"diloco", 0.7, 0.9, PL_RULE_NESTEROV, .settles = true},
    [PL_METHOD_FEDAVG] = {"fedavg", 1, 0, PL_RULE_NESTEROV, .settles = false},
    [PL_METHOD_HEAVY_BALL] = {"heavy-ball", 0.7, 0.3, PL_RULE_HEAVY_BALL,
                              .settles = true},
    [PL_METHOD_NOLOCO] = {"noloco", 0.7, 0.5, PL_RULE_HEAVY_BALL, .gossips = true},
    [PL_METHOD_CO2] = {"co2", 0.7, 0.2, PL_RULE_HEAVY_BALL, .delays = true},
    [PL_METHOD_STREAMING] = {"streaming", 0.4, 0.9, PL_RULE_NESTEROV, .streams = true,
                             .settles = true},
    [PL_METHOD_EAGER] = {"eager", 0.4, 0.5, PL_RULE_NESTEROV, .leads = true},
    [PL_METHOD_DELAYED_NESTEROV] = {"delayed-nesterov", 0.4, 0.5, PL_RULE_NESTEROV,
                                    .arrives = true},
    [PL_METHOD_ISO] = {"iso", 0.7, 0.9, PL_RULE_NESTEROV, .equalizes = true,
                       .settles = true},
};
static const char *const rules[] = {"nesterov", "heavy-ball"};
static const char *const gaps[] = {"none", "norm", "constant"};

/* Finds the index of `text` in `names`. The message of ERR_CONFIG has the most similar
 * name and the list of all names. */
static pl_status find_name(const char *what, const char *text, const char *const *names,
                           int n_names, int *out)
{
    char known[160] = "";
    for (int i = 0; i < n_names; i++) {
        size_t used = strlen(known);
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return PL_OK;
        }
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = pl_nearest(text, names, (size_t)n_names);
    return pl_fail(PL_ERR_CONFIG, "unknown %s `%s`%s%s%s; known are %s", what, text,
                   near ? ", did you mean `" : "", near ? near : "", near ? "`" : "",
                   known);
}

const pl_method_traits *pl_traits(pl_method method)
{
    return &traits[method];
}

bool pl_method_keeps_own(pl_method method)
{
    const pl_method_traits *t = &traits[method];
    return t->gossips || t->streams || t->leads;
}

bool pl_method_averages(pl_method method)
{
    return !pl_method_keeps_own(method) && !traits[method].arrives;
}

const char *pl_rule_name(pl_rule rule)
{
    return rules[rule];
}

pl_status pl_method_parse(const char *text, pl_method *out)
{
    const char *names[PL_METHOD_COUNT];
    int found = 0;
    *out = PL_METHOD_DILOCO;
    for (int i = 0; i < PL_METHOD_COUNT; i++)
        names[i] = traits[i].name;
    PL_CHECK(find_name("outer method", text, names, PL_METHOD_COUNT, &found));
    *out = (pl_method)found;
    return PL_OK;
}

pl_status pl_rule_parse(const char *text, pl_rule *out)
{
    int found = 0;
    *out = PL_RULE_NESTEROV;
    PL_CHECK(find_name("momentum rule", text, rules, 2, &found));
    *out = (pl_rule)found;
    return PL_OK;
}

pl_status pl_gap_parse(const char *text, pl_gap *out)
{
    int found = 0;
    *out = PL_GAP_NONE;
    PL_CHECK(find_name("staleness penalty", text, gaps, 3, &found));
    *out = (pl_gap)found;
    return PL_OK;
}

pl_method_settings pl_method_defaults(pl_method method)
{
    const pl_method_traits *t = &traits[method];
    const bool late = t->delays || t->arrives;
    return (pl_method_settings){.method = method,
                                .rule = t->rule,
                                .lr = t->lr,
                                .momentum = t->momentum,
                                .curvature = 1,
                                .consensus = 0.7,
                                .delay = late ? 1 : 0,
                                .gap = t->delays ? PL_GAP_NORM : PL_GAP_NONE,
                                .gap_constant = 1,
                                .inner_steps = 32,
                                .fragments = t->streams ? 4 : 1,
                                .overlap = t->streams ? 1 : 0,
                                .mix = t->streams ? 0.5 : 0,
                                .buffer = 4};
}

int pl_method_delay(const pl_method_settings *settings, int n_contributors)
{
    return n_contributors > 1 ? settings->delay : 0;
}

double pl_outer_lr(const pl_outer_schedule *schedule, double lr, int64_t phase)
{
    const double pi = 3.14159265358979323846;
    if (phase < schedule->warmup)
        return lr * (double)(phase + 1) / (double)schedule->warmup;
    if (schedule->decay == PL_DECAY_CONSTANT)
        return lr;
    if (phase >= schedule->phases)
        return lr * schedule->floor;
    double q = (double)(phase - schedule->warmup) /
               (double)(schedule->phases - schedule->warmup);
    double shape =
        schedule->decay == PL_DECAY_COSINE ? 0.5 * (1.0 + cos(pi * q)) : 1.0 - q;
    return lr * (schedule->floor + (1.0 - schedule->floor) * shape);
}

bool pl_method_schedule(const pl_outer_schedule *schedule, int64_t phase,
                        pl_method_settings *settings)
{
    settings->lr = pl_outer_lr(schedule, settings->lr, phase);
    if (!traits[settings->method].settles || schedule->settle == 0 ||
        phase < schedule->phases - schedule->settle)
        return false;
    settings->lr = 1;
    settings->momentum = 0;
    return true;
}
