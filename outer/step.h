/* The outer step of one module at its home (docs/DESIGN.md "The outer step").
 *
 *   D = sum_i a_i d_i            the weighted mean of the updates; with `present`, for
 *                                each value, of the updates that send it
 *                                (outer/arith.h)
 *   g = D sqrt(n) / Lambda       sqrt only with `rescale`; Lambda only in co2
 *
 *   nesterov      m = mu m + g                  x -= eta (g + mu m)
 *   heavy ball    m = clip(mu m + g)            x -= eta m
 *   mu = 0        (no momentum is kept)         x -= eta clip(g)
 *   eager         g = E + (g_t - E) / n, E = g_t (the mean of the previous phase), then
 *                 as `rule` says: the mean of the steps that the contributors take by
 *                 themselves
 *   delayed       S += g; every N-th arrival m = mu m + S/N, S = 0 and
 *   nesterov      x -= eta ((1 - cN + c) mu m + g/N), else x -= eta (c mu m + g/N)
 *
 * m does not contain eta, so a change of the learning rate does not rescale past
 * updates.
 *
 * A delay needs no arithmetic of its own: version v is the result of v merges, phase p
 * starts from version max(0, p - delay), and its update is the p-th merge. That is
 * x_{t+1} = x_t - eta m(g_{t-1}) of the paper, where round 0 applies nothing and the
 * last update is flushed; only the numbers are shifted.
 *
 * One pass over memory: blocks of fixed size are filled with D by the caller's function
 * and used while they lie in the cache. Sums over a module are made block by block in a
 * fixed order, so the bytes depend neither on threads nor on the machine's vectors. */
#ifndef PL_OUTER_STEP_H
#define PL_OUTER_STEP_H
#include "outer/step_method.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {
    PL_OUTER_BLOCK = 512
}; /* values per block; only the last block may be shorter */

/* If only lr, momentum and n_contributors are set and all other fields are 0, the step
 * is plain diloco. */
typedef struct pl_outer_step {
    double lr, momentum; /* eta, mu */
    bool rescale;
    int n_contributors;
    pl_method method; /* any but noloco (outer/gossip.h) */
    pl_rule rule;
    /* number of phases between an update's start and its use; if 0, Lambda is 1 */
    int delay;
    pl_gap gap;
    double gap_constant, clip;
    int buffer; /* N, number of arrivals per momentum step */
    double spread;
} pl_outer_step;

/* The step for these settings in a phase with learning rate `lr`. In delayed-nesterov
 * each call is for one arrival. */
pl_outer_step pl_method_step(const pl_method_settings *settings, double lr,
                             bool rescale, int n_contributors);

/* The vectors that a module's home keeps: [n] fp32 each, zero at first, changed in
 * place. They are borrowed. `displacement` and `arrivals` are stored with the version.
 *
 * Before a step, `displacement` is how far x has moved since the version that the
 * updates are relative to; after the step, it is the length of the step. With a delay
 * of 1 a step leaves the value that the next one needs; with a longer delay the caller
 * sets it before each step. */
typedef struct pl_outer_state {
    float *params;
    float *momentum;     /* may be NULL if pl_outer_keeps_momentum is false */
    float *carry;        /* E or S; may be NULL without pl_outer_keeps_carry */
    double displacement; /* an L2 norm; used only with the gap penalty */
    int arrivals;        /* arrivals since the last momentum step, 0 .. N-1 */
} pl_outer_state;

bool pl_outer_keeps_momentum(const pl_outer_step *step);
bool pl_outer_keeps_carry(const pl_outer_step *step);

/* Writes D for the values first .. first+count-1 to mean[0..count). Several threads
 * call it at once, for blocks in any order, perhaps twice for a block; it must give the
 * same bytes each time. */
typedef pl_status (*pl_mean_fn)(void *context, size_t first, size_t count, float *mean);

typedef struct pl_outer_report {
    double mean_norm;   /* |D| */
    double params_norm; /* |x| after the step; not finite if any value of x is not */
    double gap;         /* Lambda */
} pl_outer_report;

/* Takes one outer step. Errors: those of `fill` (the state is then partly changed:
 * discard it), ERR_ARG for noloco or a missing vector, ERR_NOMEM. */
PL_MUST_CHECK pl_status pl_outer_merge(const pl_outer_step *step, pl_outer_state *state,
                                       size_t n, pl_mean_fn fill, void *context,
                                       int n_threads, pl_outer_report *report);

/* Does what pl_outer_merge does, with a mean that exists as a vector; report may be
 * NULL. */
PL_MUST_CHECK pl_status pl_outer_apply(const pl_outer_step *step, pl_outer_state *state,
                                       const float *mean, size_t n,
                                       pl_outer_report *report);

/* A pl_mean_fn over plain arrays: sum_u weight_u values_u, added in the order of the
 * list to zero. bf16 values need no alignment. Eight arrays at addresses that differ by
 * multiples of the page compete for the same lines of the cache (a quarter of the
 * speed): let each array begin some lines further than the previous one. */
typedef struct pl_update_view {
    const void *values; /* float [n], or bf16 [n] */
    bool is_bf16;
    float weight;
} pl_update_view;
typedef struct pl_update_list {
    const pl_update_view *views;
    int n_views;
} pl_update_list;
pl_status pl_update_list_mean(void *list, size_t first, size_t count, float *mean);

/* returns the L2 norm; sums are double, over fixed blocks */
double pl_l2_norm(const float *values, size_t n);

/* Whether a step must know |D| before it begins, and must measure |x_t - x_{t-1}|. */
bool pl_outer_depends_on_gap(const pl_outer_step *step);

#ifdef __cplusplus
}
#endif
#endif
