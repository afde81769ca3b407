/* NoLoCo (arXiv:2506.10911): averaging without a home. The holders of a module are the
 * paths, with their replicas, that train it. They meet in pairs, which change every
 * round. Each holder keeps its own parameters x_i and velocity v_i:
 *
 *   v_i = alpha v_i - beta mean_G(g) + gamma (mean_G(x) - x_i)
 *   x_i = x_i + v_i
 *
 * Here g = x - (x after the phase) is the update, and mean_G is the mean over the group
 * G, which has one or two holders. All values on the right are those before the step.
 * (The paper prints the beta term with the opposite sign; the sign here agrees with the
 * paper's analysis and with its code.)
 *
 * With gamma = beta this is v_i = alpha v_i + beta (mean_G(x - g) - x_i), so that one
 * vector is sent instead of two.
 *
 * The rule Nesterov is not in the paper. With Nesterov the step is the one in
 * outer/step.h with g = mean_G(g) + (gamma/beta) (x_i - mean_G(x)), mu = alpha and eta
 * = beta. v_i is then the momentum, without eta.
 *
 * Both mates of a pair compute equal means, because a + b = b + a is true for floating
 * point, too. If one mate's vectors do not arrive, each of the two takes the step of a
 * group of one. If only one of them took the step of a pair, the mean of all holders
 * would change. */
#pragma once
#include "outer/step_method.h"

/* Pairs the members for a round of a module. partner[i] is the index of member i's
 * mate, or i if member i has no mate, which happens to one member if their number is
 * odd. Every process can compute the pairs by itself: members are sorted by BLAKE2b of
 * (seed, round, module, member), and members that are next to each other form pairs. So
 * the order of the list does not matter. The member without a mate is at position
 * (round mod n) in the order of the hash of (seed, module, member), so each member is
 * without a mate equally often.
 *
 * The numbers in members [n_members] must all be different. `partner` also has
 * n_members entries. ERR_ARG if n_members < 1 or a member is listed twice. */
pl_status pl_gossip_match(uint64_t seed, const char *module, uint64_t round,
                          int n_members, const uint64_t *members, int *partner);

typedef struct pl_gossip_step {
    double alpha, beta, gamma;
    pl_rule rule; /* the rule of momentum; the paper uses heavy ball */
} pl_gossip_step;

/* Computes the offer, the one vector that is sent if gamma equals beta. out = params -
 * share * update. `out` and `update` may be the same vector. */
void pl_gossip_offer(const float *params, const float *update, double share, size_t n,
                     float *out);

/* Takes the step if one vector was exchanged: `own` and `mate` are offers; `mate` is
 * NULL for a group of one. params [n] and velocity [n] are changed in place and must
 * not overlap other vectors. ERR_ARG unless gamma equals beta. */
pl_status pl_gossip_apply_one(const pl_gossip_step *step, float *params,
                              float *velocity, const float *own, const float *mate,
                              size_t n);

/* The two vectors of a holder, after a codec has rounded them. The holder and its mate
 * both use the rounded vectors. */
typedef struct pl_gossip_view {
    /* update: times its share; params: before the step */
    const float *update, *params;
} pl_gossip_view;
/* Takes the step if each mate sent two vectors that a codec has rounded; `mate` is NULL
 * for a group of one. The gamma term uses only rounded parameters (views): mean_G(view)
 * - own view. So the gamma terms of both mates add up to 0, even though rounding has
 * changed the vectors. The vectors must not overlap. ERR_ARG if a vector is missing.
 * For a group of one own->params is not read. */
pl_status pl_gossip_apply_views(const pl_gossip_step *step, float *params,
                                float *velocity, const pl_gossip_view *own,
                                const pl_gossip_view *mate, size_t n);

/* ---- how fast the holders of a module become equal ---- */

/* Second moments over the holders: e = x_i - mean x is the disagreement of a holder, v
 * its velocity, and a = E[e e], b = E[e v], c = E[v v]. With Nesterov v is beta times
 * the momentum. */
typedef struct pl_gossip_moments {
    double a, b, c;
} pl_gossip_moments;

/* Returns h, the fraction of the disagreement between all holders that lies between the
 * two mates of a pair. For an even number N of holders h is N / (2(N-1)). h is 1/2 for
 * an odd number of holders and for n_holders 0, which means many. h is 0 for one
 * holder. */
double pl_gossip_coupling(int n_holders);

/* Returns the expected moments after a round without updates, from the moments `now`.
 * `h` is pl_gossip_coupling. The formula is exact. */
pl_gossip_moments pl_gossip_next(const pl_gossip_step *step, double h,
                                 pl_gossip_moments now);

/* Returns the factor by which, in the long run, each round multiplies the variance of
 * the disagreement. At 1 or more the variance does not shrink. */
double pl_gossip_rate(const pl_gossip_step *step, double h);

/* Returns the smallest gamma > 0 for which the variance does not shrink: 2(1-alpha^2) /
 * (1+alpha-2 alpha h) for heavy ball; for Nesterov the gamma at which pl_gossip_rate is
 * 1. */
double pl_gossip_limit(pl_rule rule, double alpha, double h);
