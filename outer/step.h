/* The outer step of one module at its home (docs/DESIGN.md "The outer step").
 *
 *   D = sum_i a_i d_i            the weighted mean of the updates; with `present`, the
 *                                mean of each value over the updates that send it
 *                                (outer/arith.h)
 *   g = D sqrt(n) / Lambda       sqrt(n) only with `rescale`, for n contributors;
 *                                Lambda, the staleness penalty, only in co2
 *
 *   nesterov      m = mu m + g                  x -= eta (g + mu m)
 *   heavy ball    m = clip(mu m + g)            x -= eta m
 *   mu = 0        (no momentum is kept)         x -= eta clip(g)
 *   delayed       S += g; at every N-th arrival m = mu m + S/N, S = 0 and
 *   nesterov      x -= eta ((1 - cN + c) mu m + g/N); at the other arrivals
 *                 x -= eta (c mu m + g/N), where c is `spread`
 *
 * m does not contain eta, so a change of the learning rate does not rescale the updates
 * that m already contains.
 *
 * A delay does not change the equations: version v is the result of v merges, phase p
 * starts from version max(0, p - delay), and the update of phase p is merged in round
 * p. This equals x_{t+1} = x_t - eta m(g_{t-1}) in the paper of co2, but with different
 * numbers of rounds: in the paper round 0 applies no update, and the last update is
 * applied after the end.
 *
 * Sums over a module are made in a fixed order, so the result does not depend on the
 * vector length of the processor. */
#pragma once
#include "outer/step_method.h"

/* With only lr, momentum and n_contributors set, the step is plain diloco. */
typedef struct pl_outer_step {
    double lr, momentum; /* outer learning rate (eta), outer momentum (mu) */
    bool rescale;
    int n_contributors;
    pl_method method; /* any method except noloco (outer/gossip.h) */
    pl_rule rule;
    /* number of phases between an update and its use; if 0, Lambda is 1 */
    int delay;
    pl_gap gap;
    double clip;
    int buffer; /* N, number of arrivals per momentum step */
    double spread;
} pl_outer_step;

/* Returns the step for these settings in a phase with the outer learning rate `lr`. In
 * delayed-nesterov each step is for one arrival of an update. */
pl_outer_step pl_method_step(const pl_method_settings *settings, double lr,
                             bool rescale, int n_contributors);

/* The vectors that a module's home keeps, each with n fp32 values. `momentum` and
 * `carry` are zero at first. The vectors are borrowed and changed in place.
 * `displacement` and `arrivals` are stored in the version's record.
 *
 * Before a step with the gap penalty, `displacement` must be the distance between x and
 * the version to which the updates are relative. After the step it is the length of the
 * step. With a delay of 1 this is the value that the next step needs; with a longer
 * delay the caller sets `displacement` before each step. */
typedef struct pl_outer_state {
    float *params;
    float *momentum;     /* may be NULL if pl_outer_keeps_momentum is false */
    float *carry;        /* S; may be NULL if pl_outer_keeps_carry is false */
    double displacement; /* an L2 norm; used only with the gap penalty */
    int arrivals;        /* arrivals since the last momentum step, 0 .. N-1 */
} pl_outer_state;

bool pl_outer_keeps_momentum(const pl_outer_step *step);
bool pl_outer_keeps_carry(const pl_outer_step *step);

typedef struct pl_outer_report {
    double mean_norm;   /* |D| */
    double params_norm; /* |x| after the step; not finite if any value of x is not */
    double gap;         /* Lambda */
} pl_outer_report;

/* Takes one outer step with D = mean [n]. `report` may be NULL. ERR_ARG: the method is
 * noloco, a vector is missing, or a count is out of its range. */
pl_status pl_outer_apply(const pl_outer_step *step, pl_outer_state *state,
                         const float *mean, size_t n, pl_outer_report *report);

/* Returns the L2 norm. Sums are computed in double over fixed blocks. */
double pl_l2_norm(const float *values, size_t n);
/* Returns the L2 norm of a - b; of `a` if b is NULL. Squares are added one by one. */
double pl_l2_distance(const float *a, const float *b, size_t n);

/* Returns whether a step has the gap penalty `norm`. Such a step needs |D| before it
 * begins, and must measure its own length. */
bool pl_outer_depends_on_gap(const pl_outer_step *step);
