/* The methods in which a round is the mean of its updates, and phase p begins with
 * version p (Douillard et al. 2023, arXiv:2311.08105). step_method.h lists them.
 *
 * DiLoCo's values 0.7 and 0.9 are not stable if updates are used late, so methods that
 * use updates late have smaller values. */
#include "outer/method.h"

static pl_status check_limit(const pl_method_settings *s)
{
    return method_check_limit(s, 0);
}

static pl_status check_fedavg(const pl_method_settings *s)
{
    if (s->lr == 1 && s->momentum == 0)
        return PL_OK;
    return pl_fail(PL_ERR_CONFIG,
                   "fedavg needs outer.lr 1 and outer.momentum 0, but they are %g "
                   "and %g; use outer.method=diloco for other values",
                   s->lr, s->momentum);
}

const outer_method method_diloco = {
    .name = "diloco",
    .defaults = {.rule = PL_RULE_NESTEROV, .lr = 0.7, .momentum = 0.9},
    .settles = true,
    .quorum = true,
    .check = check_limit};

const outer_method method_fedavg = {
    .name = "fedavg",
    .defaults = {.rule = PL_RULE_NESTEROV, .lr = 1, .momentum = 0},
    .either_rule = true,
    .quorum = true,
    .check = check_fedavg};

const outer_method method_heavy_ball = {
    .name = "heavy-ball",
    .defaults = {.rule = PL_RULE_HEAVY_BALL, .lr = 0.7, .momentum = 0.3},
    .settles = true,
    .quorum = true,
    .check = check_limit};

const outer_method method_iso = {
    .name = "iso",
    .defaults = {.rule = PL_RULE_NESTEROV, .lr = 0.7, .momentum = 0.9},
    .settles = true,
    .quorum = true,
    .equalizes = true,
    .check = check_limit};
