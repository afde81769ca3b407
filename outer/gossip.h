/* NoLoCo (arXiv:2506.10911): averaging without a home. Holders of a module meet in
 * pairs, which change every round, and each keeps its own parameters x_i and velocity
 * v_i:
 *
 *   v_i = alpha v_i - beta mean_G(g) + gamma (mean_G(x) - x_i)
 *   x_i = x_i + v_i
 *
 * with the update g = x - (x after the phase), means over the group G of one or two,
 * and only values from before the step on the right. (The paper prints the beta term
 * with the opposite sign; its expectation and its code have this one.)
 *
 * With gamma = beta this is v_i = alpha v_i + beta (mean_G(x - g) - x_i), so that one
 * vector is sent instead of two.
 *
 * The rule Nesterov is an addition of this project. With Nesterov the step is that of
 * outer/step.h for g = mean_G(g) + (gamma/beta) (x_i - mean_G(x)), with mu = alpha and
 * eta = beta; v_i is then the momentum, without eta.
 *
 * Both mates of a pair compute equal means, since a + b = b + a in floating point too.
 * A holder whose mate does not come takes the step of a group of one, and so does its
 * mate: a step on one side only would move the mean of all holders. */
#ifndef PL_OUTER_GOSSIP_H
#define PL_OUTER_GOSSIP_H
#include "outer/step_method.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Pairs the members for a round of a module: partner[i] is the index of member i's
 * mate, or i for the member that is left over if their number is odd. Every process
 * computes this by itself: members are ordered by BLAKE2b of (seed, round, module,
 * member) and neighbours pair up, so the order of the list does not matter. The member
 * left over is the one at position (round mod n) in the order of (seed, module,
 * member), so that all take their turn.
 *
 * members [n_members], all different; partner [n_members]. Errors: ERR_ARG if n_members
 * < 1 or a member is listed twice. */
PL_MUST_CHECK pl_status pl_gossip_match(uint64_t seed, const char *module,
                                        uint64_t round, int n_members,
                                        const uint64_t *members, int *partner);

typedef struct pl_gossip_step {
    double alpha, beta, gamma;
    pl_rule rule; /* the rule of momentum; the paper uses heavy ball */
} pl_gossip_step;
pl_gossip_step pl_method_gossip(const pl_method_settings *settings, double lr);

/* Computes the single vector that is sent: out = x - share * update. out may alias
 * update. */
void pl_gossip_offer(const float *params, const float *update, double share, size_t n,
                     float *out);

/* Takes the step with one vector: `own` and `mate` are offers (mate NULL: group of
 * one). params and velocity [n] are changed in place and alias nothing. ERR_ARG unless
 * gamma equals beta. */
PL_MUST_CHECK pl_status pl_gossip_apply_one(const pl_gossip_step *step, float *params,
                                            float *velocity, const float *own,
                                            const float *mate, size_t n, int n_threads);

/* A holder's two vectors after rounding by a codec; the holder and its mate both use
 * these. */
typedef struct pl_gossip_view {
    /* `update` is scaled by its share; `params` are those before the step */
    const float *update, *params;
} pl_gossip_view;
/* Takes the step with two vectors that a codec has rounded; mate NULL: group of one.
 * The gamma term is mean_G(view) - own view, so that it adds up to 0 over a pair
 * whatever rounding lost. The vectors alias nothing. ERR_ARG if a vector is missing;
 * for a group of one own->params is not read. */
PL_MUST_CHECK pl_status pl_gossip_apply_views(const pl_gossip_step *step, float *params,
                                              float *velocity,
                                              const pl_gossip_view *own,
                                              const pl_gossip_view *mate, size_t n,
                                              int n_threads);

/* Takes the step with two vectors: updates (scaled by their shares) and the mate's x
 * before the step. mate_params and mate_update are both NULL for a group of one;
 * ERR_ARG if only one is. */
PL_MUST_CHECK pl_status pl_gossip_apply_two(const pl_gossip_step *step, float *params,
                                            float *velocity, const float *own_update,
                                            const float *mate_params,
                                            const float *mate_update, size_t n,
                                            int n_threads);

/* ---- how disagreement dies out ---- */

/* Second moments over the holders of e = x_i - mean x, v: A = E[e e], B = E[e v],
 * C = E[v v] (Nesterov: v stands for beta m). */
typedef struct pl_gossip_moments {
    double a, b, c;
} pl_gossip_moments;

/* Returns h, the share of the disagreement that a meeting sees. For an even number N of
 * holders it is (n-1)N / (n(N-1)) with n = 2; for an odd number or for many (n_holders
 * 0) 1/2; for one holder 0. */
double pl_gossip_coupling(int n_holders);

/* Returns the expected moments after a round without updates; they are exact. */
pl_gossip_moments pl_gossip_next(const pl_gossip_step *step, double h,
                                 pl_gossip_moments now);

/* Returns the factor by which, in the long run, each round multiplies the variance of
 * the disagreement. At 1 or more the variance does not shrink. */
double pl_gossip_rate(const pl_gossip_step *step, double h);

/* The smallest gamma > 0 for which the variance does not shrink: 2(1-alpha^2) /
 * (1+alpha-2 alpha h) for heavy ball; for Nesterov the gamma with rate 1. */
double pl_gossip_limit(pl_rule rule, double alpha, double h);

#ifdef __cplusplus
}
#endif
#endif
