/* The outer methods: their names, coefficients, defaults and limits.
 *
 *   diloco            Nesterov as in torch.optim.SGD; momentum 0 is plain SGD
 *   fedavg            lr 1, momentum 0: the mean of the contributors' parameters
 *   heavy-ball        m = mu m + g, x -= eta m
 *   noloco            contributors step in pairs, without a home (outer/gossip.h)
 *   co2               heavy ball; an update is used `delay` phases later, so that it is
 *                     exchanged while the next phase trains
 *   streaming         diloco per fragment of the model; the fragments are merged at
 *                     different times (outer/method_streaming.c)
 *   delayed-nesterov  a step at each arrival, momentum at every `buffer`-th arrival
 *   iso               diloco, but the singular values of each matrix of the mean are
 *                     made equal (outer/iso.h)
 *
 * Limits of stability are computed for updates g = lambda (x - x*), where x* is the
 * optimum and lambda is the curvature. A phase that reaches the optimum has lambda 1,
 * and lambda is never larger. So the default curvature is 1. Settings that are stable
 * with curvature 1 are stable with every smaller curvature. */
#pragma once
#include "base/base.h"

/* The definitions of arms contain these numbers, so they must not change. Number 6 was
 * eager, which was removed (docs/DESIGN.md, Rejected). */
typedef enum pl_method {
    PL_METHOD_DILOCO,
    PL_METHOD_FEDAVG,
    PL_METHOD_HEAVY_BALL,
    PL_METHOD_NOLOCO,
    PL_METHOD_CO2,
    PL_METHOD_STREAMING,
    PL_METHOD_DELAYED_NESTEROV = 7,
    PL_METHOD_ISO,
    PL_METHOD_COUNT
} pl_method;

/* How momentum is used: x -= eta (g + mu m) for Nesterov, x -= eta m for heavy ball.
 * Both use m after this step's update g was added. */
typedef enum pl_rule { PL_RULE_NESTEROV, PL_RULE_HEAVY_BALL } pl_rule;

/* co2's staleness penalty, by which an update is divided: 1, or per module
 * 1 + |x_t - x_b| / (|g| + 1e-12), where b is the version that the updates are relative
 * to, max(0, t - delay). */
typedef enum pl_gap { PL_GAP_NONE, PL_GAP_NORM } pl_gap;

/* Returns the method's name in the configuration; NULL: the method was removed. */
const char *pl_method_name(pl_method method);

typedef struct pl_method_settings {
    pl_method method;
    /* noloco, co2 and fedavg allow both rules; others than heavy-ball need Nesterov */
    pl_rule rule;
    double lr, momentum; /* eta, mu (outer/step.h); in noloco beta, alpha */
    double curvature;    /* lambda > 0, with which the limits are computed */
    int holders;         /* number of contributors of the module; 0: many */
    double consensus;    /* noloco's gamma */
    int delay;           /* co2: number of phases between an update and its use */
    pl_gap gap;          /* co2: the staleness penalty */
    double gap_constant; /* 1; has no effect, but a place in an arm's bytes */
    double clip;         /* co2: |m| <= clip after each step; 0 is off */
    /* streaming: H, inner steps between two steps of one fragment */
    int inner_steps;
    int fragments; /* streaming: F, divides H */
    int overlap;   /* streaming: inner steps between sending and use, below H/F */
    double mix;    /* streaming: a in x_local = a x_local + (1-a) x_merged */
    int buffer;    /* delayed-nesterov: N, arrivals per momentum step */
    double spread; /* delayed-nesterov: c in outer/step.h, from 0 to 1/N */
} pl_method_settings;

/* The message of ERR_CONFIG has the most similar method and the list of all methods. */
pl_status pl_method_parse(const char *text, pl_method *out);
const char *pl_rule_name(pl_rule rule); /* "nesterov", "heavy-ball" */

/* Returns the default settings of a method. Coefficients that the method does not use
 * have no effect. The defaults pass pl_method_check for every number of holders. */
pl_method_settings pl_method_defaults(pl_method method);

/* Checks settings. ERR_CONFIG has the wrong values and what is allowed. */
pl_status pl_method_check(const pl_method_settings *settings);

/* ---- limits ---- */

/* Returns the smallest product eta * lambda at which training is unstable, if the
 * update of x_t is applied to x_{t+delay}. With D = delay, at that product a root of
 *
 *   heavy ball  (z-1)(z-mu) z^D + eta lambda z
 *   Nesterov    (z-1)(z-mu) z^D + eta lambda ((1+mu) z - mu)
 *
 * lies on the unit circle. Without delay the limit is 2(1+mu) for heavy ball and
 * (2+2mu)/(1+2mu) for Nesterov. For heavy ball with delay 1 it is 1-mu. `momentum` is
 * from 0 to below 1, `delay` from 0 to PL_DELAY_MAX. */
enum { PL_DELAY_MAX = 16 };
double pl_outer_limit(pl_rule rule, double momentum, int delay);

/* ---- learning rate ---- */

/* The outer learning rate is constant. In the last `settle` phases diloco, iso,
 * heavy-ball and streaming take the plain mean: lr 1, momentum 0. While the inner
 * learning rate falls to zero, a step that goes beyond the mean overshoots, and
 * training can no longer correct this. */
typedef struct pl_outer_schedule {
    int64_t phases;
    int64_t settle; /* how many phases at the end take the plain mean; 0: none */
    /* have no effect, but a place in an arm's bytes: 0, 0, and any number */
    int decay, warmup;
    double floor;
} pl_outer_schedule;
/* Sets lr and momentum of `settings` to the values for this phase. Returns whether this
 * phase takes the plain mean; in this case the mean must not be rescaled. */
bool pl_method_schedule(const pl_outer_schedule *schedule, int64_t phase,
                        pl_method_settings *settings);
