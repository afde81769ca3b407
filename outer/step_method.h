/* The outer methods: their names, coefficients, defaults and limits.
 *
 *   diloco            Nesterov as torch.optim.SGD has it; momentum 0 is plain SGD
 *   fedavg            lr 1, momentum 0: the mean of the contributors' parameters
 *   heavy-ball        m = mu m + g, x -= eta m
 *   noloco            pairs instead of a home's mean (outer/gossip.h)
 *   co2               heavy ball, `delay` phases late: exchange during the next phase
 *   streaming         diloco per fragment, fragments at offsets (outer/step_overlap.h)
 *   eager             last phase's mean with this phase's own part (step_overlap.h)
 *   delayed-nesterov  a step at each arrival, momentum at every `buffer`-th arrival
 *   iso               diloco with the mean's singular values equal per matrix
 *                     (outer/iso.h)
 *
 * A limit holds for updates g = lambda (x - x*). A phase that trains to its optimum has
 * lambda 1, and no phase has more. So 1 is the default curvature, and settings that are
 * stable there are stable for every smaller one. */
#ifndef PL_OUTER_STEP_METHOD_H
#define PL_OUTER_STEP_METHOD_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The definitions of arms contain these numbers. */
typedef enum pl_method {
    PL_METHOD_DILOCO,
    PL_METHOD_FEDAVG,
    PL_METHOD_HEAVY_BALL,
    PL_METHOD_NOLOCO,
    PL_METHOD_CO2,
    PL_METHOD_STREAMING,
    PL_METHOD_EAGER,
    PL_METHOD_DELAYED_NESTEROV,
    PL_METHOD_ISO,
    PL_METHOD_COUNT
} pl_method;

/* How momentum is used: x -= eta (g + mu m) or x -= eta m, both with the new m. */
typedef enum pl_rule { PL_RULE_NESTEROV, PL_RULE_HEAVY_BALL } pl_rule;

/* co2's staleness penalty, by which an update is divided:
 *   norm      1 + |x_t - x_b| / (|g| + 1e-12) per module; b is the version that the
 *             updates are relative to, max(0, t - delay)
 *   constant  `gap_constant` */
typedef enum pl_gap { PL_GAP_NONE, PL_GAP_NORM, PL_GAP_CONSTANT } pl_gap;

/* The properties of a method. Only outer/step*.c, which compute, look at the enum; all
 * other code asks for these properties. A method without gossips, streams, leads and
 * arrives "averages": each version is made from a mean, and paths begin with versions
 * alone. */
typedef struct pl_method_traits {
    const char *name;
    double lr, momentum; /* default lr and momentum, for this rule */
    pl_rule rule;
    bool delays;  /* an update is used `delay` phases after it was made */
    bool gossips; /* pairs of contributors step together; a home only keeps updates */
    bool streams; /* fragments of the model are merged at offsets within a phase */
    /* a path steps at once with its own part of a mean that comes later */
    bool leads;
    bool arrives;   /* each update is merged alone when it arrives */
    bool equalizes; /* the mean gets equal singular values per matrix of a block */
    bool settles;   /* allows pl_outer_schedule.settle */
} pl_method_traits;

const pl_method_traits *pl_traits(pl_method method);
bool pl_method_averages(pl_method method);
/* Whether paths keep parameters of their own in addition to the versions: gossips,
 * streams or leads. */
bool pl_method_keeps_own(pl_method method);

typedef struct pl_method_settings {
    pl_method method;
    /* heavy-ball and co2 need heavy ball; noloco and eager allow both rules */
    pl_rule rule;
    double lr, momentum; /* eta, mu; in noloco beta, alpha */
    double curvature;    /* lambda > 0, for which limits are computed */
    int holders;         /* number of contributors of the module; 0: many */
    double consensus;    /* noloco's gamma */
    int delay;  /* co2: number of phases between an update's start and its use */
    pl_gap gap; /* co2 */
    double gap_constant; /* co2, >= 1 */
    double clip;         /* co2: |m| <= clip after each step; 0 is off */
    /* streaming: H, inner steps between two steps of one fragment */
    int inner_steps;
    int fragments; /* streaming: F, divides H */
    int overlap;   /* streaming: tau < H/F, inner steps between sending and use */
    double mix;    /* streaming: a in x_local = a x_local + (1-a) x */
    int buffer;    /* delayed-nesterov: N, arrivals per momentum step */
    double spread; /* delayed-nesterov: c in [0, 1/N] */
} pl_method_settings;

/* The message of ERR_CONFIG names the nearest known method, and all methods. */
PL_MUST_CHECK pl_status pl_method_parse(const char *text, pl_method *out);
/* The names of a rule ("nesterov", "heavy-ball") and of a gap ("none", "norm",
 * "constant"). ERR_CONFIG. */
const char *pl_rule_name(pl_rule rule);
PL_MUST_CHECK pl_status pl_rule_parse(const char *text, pl_rule *out);
PL_MUST_CHECK pl_status pl_gap_parse(const char *text, pl_gap *out);

/* Returns the default settings of a method. Coefficients that a method does not use
 * have no effect. The defaults pass the check for every number of holders. */
pl_method_settings pl_method_defaults(pl_method method);

/* The message of ERR_CONFIG names the coefficient, its limit, and what to lower. */
PL_MUST_CHECK pl_status pl_method_check(const pl_method_settings *settings);

/* Returns the delay of a module; 0 if it has a single contributor, which waits for no
 * others. */
int pl_method_delay(const pl_method_settings *settings, int n_contributors);

/* ---- limits ---- */

/* Returns the smallest eta lambda at which training is unstable, if the share `fresh`
 * of the update of x_t is applied at once and the rest to x_{t+delay} (fresh is 0 if
 * all is late, 1/M in eager). At that value a root of
 *
 *   heavy ball  (z-1)(z-mu) z^D + eta lambda z L(z),   L(z) = 1 - fresh + fresh z^D
 *   Nesterov    (z-1)(z-mu) z^D + eta lambda ((1+mu) z - mu) L(z)
 *
 * lies on the unit circle. Without delay the limits are 2(1+mu) and (2+2mu)/(1+2mu);
 * for heavy ball with delay 1 it is 1-mu. 0 <= momentum < 1; delay 0..PL_DELAY_MAX. */
enum { PL_DELAY_MAX = 16 };
double pl_outer_limit(pl_rule rule, double momentum, int delay, double fresh);

/* ---- learning rate ---- */

typedef enum pl_decay { PL_DECAY_CONSTANT, PL_DECAY_COSINE, PL_DECAY_LINEAR } pl_decay;
PL_MUST_CHECK pl_status pl_decay_parse(const char *text, pl_decay *out);

/* The outer learning rate of phase p = 0 .. phases-1:
 *
 *   lr (p+1) / warmup                         p < warmup
 *   lr (floor + (1-floor) shape(q))           q = (p - warmup) / (phases - warmup)
 *
 * shape: 1, (1 + cos(pi q))/2, 1 - q; floor is a share of lr. After the last phase the
 * rate stays at lr floor (constant: at lr).
 *
 * In the last `settle` phases diloco, iso, heavy-ball and streaming take the plain
 * mean: lr 1, momentum 0. While the inner learning rate falls to zero, a step beyond
 * the mean overshoots, and training can no longer correct it. */
typedef struct pl_outer_schedule {
    pl_decay decay;
    int64_t warmup, phases;
    double floor;
    int64_t settle; /* number of last phases with the plain mean; 0: none */
} pl_outer_schedule;
double pl_outer_lr(const pl_outer_schedule *schedule, double lr, int64_t phase);
/* Sets lr and momentum of `settings` to the values for this phase. Returns whether this
 * phase takes the plain mean, which must not be rescaled. */
bool pl_method_schedule(const pl_outer_schedule *schedule, int64_t phase,
                        pl_method_settings *settings);

#ifdef __cplusplus
}
#endif
#endif
