/* The arithmetic of noloco. gossip.h has the equations and the rules of matching;
 * contract.c defines the rounds and the holders. This file is pure.
 *
 * A holder without a mate is a group of one, so the mean is the holder's value.
 *
 * pl_gossip_next maps the second moments of the disagreement to those of the next
 * round. This map is linear, so pl_gossip_rate is the spectral radius of a 3x3 matrix.
 *
 * Invariants
 *   - Both mates compute the same mean bit for bit: mean_of(a, b) = mean_of(b, a) in
 *     floating point, and mean_of(a, a) = a.
 *   - half_way adds to one mate exactly the amount that it takes from the other, so the
 *     mean of all holders does not drift even when a codec rounds.
 *   - If only one mate of a pair took the step of a pair, that mean would change. So
 *     the home decides once whether a pair meets or splits (home_meet.c). */
#include "outer/gossip.h"

#include <math.h>
#include <stdlib.h>

/* ---- matching ---- */
typedef struct ranked {
    pl_hash key;
    uint64_t member;
    int index;
} ranked;

/* Computes the hash by which a member is sorted. There are two orders: one that changes
 * every round, and one that is the same in all rounds (computed with round 0). `use` is
 * a different text for each order. */
static void rank_member(const char *use, uint64_t seed, const char *module,
                        uint64_t round, ranked *r)
{
    pl_hasher hasher;
    uint8_t numbers[24];
    pl_le_put(numbers, seed, 8);
    pl_le_put(numbers + 8, round, 8);
    pl_le_put(numbers + 16, r->member, 8);
    pl_hasher_init(&hasher, use);
    pl_hasher_add(&hasher, numbers, sizeof numbers);
    pl_hasher_add(&hasher, module, strlen(module));
    pl_hasher_end(&hasher, &r->key);
}

/* Before keys are computed they are zeros, so this sorts by member. */
static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    int order = memcmp(x->key.bytes, y->key.bytes, PL_HASH_BYTES);
    if (order != 0)
        return order;
    return x->member < y->member ? -1 : x->member > y->member;
}

pl_status pl_gossip_match(uint64_t seed, const char *module, uint64_t round,
                          int n_members, const uint64_t *members, int *partner)
{
    pl_status status = PL_OK;
    if (n_members < 1)
        return pl_fail(PL_ERR_ARG,
                       "a meeting cannot have %d members; it needs at least 1",
                       n_members);
    ranked *list = pl_alloc((size_t)n_members * sizeof *list);
    for (int i = 0; i < n_members; i++)
        list[i] = (ranked){.member = members[i], .index = i};
    qsort(list, (size_t)n_members, sizeof *list, by_key);
    for (int i = 1; i < n_members; i++)
        if (list[i].member == list[i - 1].member)
            PL_TRY(pl_fail(PL_ERR_ARG, "member %llu is listed twice for a meeting",
                           (unsigned long long)list[i].member));
    const int n_paired = n_members - n_members % 2;
    if (n_paired < n_members) {
        /* the member that gets no mate moves to the end of the list */
        for (int i = 0; i < n_members; i++)
            rank_member("gossip-turn", seed, module, 0, &list[i]);
        qsort(list, (size_t)n_members, sizeof *list, by_key);
        int turn = (int)(round % (uint64_t)n_members);
        ranked left_over = list[turn];
        list[turn] = list[n_members - 1];
        list[n_members - 1] = left_over;
        partner[left_over.index] = left_over.index;
    }
    for (int i = 0; i < n_paired; i++)
        rank_member("gossip-pair", seed, module, round, &list[i]);
    qsort(list, (size_t)n_paired, sizeof *list, by_key);
    for (int i = 0; i < n_paired; i += 2) {
        partner[list[i].index] = list[i + 1].index;
        partner[list[i + 1].index] = list[i].index;
    }
done:
    pl_free(list);
    return status;
}

/* ---- the step ---- */
typedef struct rates {
    float alpha, beta, gamma, pull; /* pull: gamma / beta (used with Nesterov) */
    bool is_nesterov;
} rates;

static rates rates_of(const pl_gossip_step *step)
{
    return (rates){.alpha = (float)step->alpha,
                   .beta = (float)step->beta,
                   .gamma = (float)step->gamma,
                   .pull = (float)(step->gamma / step->beta),
                   .is_nesterov = step->rule == PL_RULE_NESTEROV};
}

/* The Nesterov step for one element (gossip.h); v has no learning rate. */
static inline void nesterov(const rates *r, float *x, float *v, float g)
{
    *v = r->alpha * *v + g;
    *x -= r->beta * (g + r->alpha * *v);
}

/* The mean, which does not depend on the order; mean_of(a, a) is a. */
static inline float mean_of(float a, float b)
{
    return 0.5f * (a + b);
}

/* Returns half of b - a. half_way(b, a) is exactly the negative of half_way(a, b), so
 * one mate gets the amount that the other mate loses, bit for bit. */
static inline float half_way(float a, float b)
{
    return 0.5f * (b - a);
}

static void meet_offers(const rates *r, float *restrict x, float *restrict v,
                        const float *own, const float *mate, size_t n)
{
    if (r->is_nesterov) {
        for (size_t i = 0; i < n; i++)
            nesterov(r, &x[i], &v[i], x[i] - mean_of(own[i], mate[i]));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        v[i] = r->alpha * v[i] + r->beta * (mean_of(own[i], mate[i]) - x[i]);
        x[i] += v[i];
    }
}

static void meet_views(const rates *r, float *restrict x, float *restrict v,
                       const pl_gossip_view *own, const pl_gossip_view *mate, size_t n)
{
    const float *own_g = own->update, *mate_g = mate->update;
    const float *own_x = own->params, *mate_x = mate->params;
    if (r->is_nesterov) {
        for (size_t i = 0; i < n; i++)
            nesterov(r, &x[i], &v[i],
                     mean_of(own_g[i], mate_g[i]) +
                         r->pull * half_way(mate_x[i], own_x[i]));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        v[i] = (r->alpha * v[i] - r->beta * mean_of(own_g[i], mate_g[i])) +
               r->gamma * half_way(own_x[i], mate_x[i]);
        x[i] += v[i];
    }
}

/* Takes the step of a holder that has no mate. It equals meet_views with a mate whose
 * vectors are the same as the holder's. */
static void meet_nobody(const rates *r, float *restrict x, float *restrict v,
                        const float *own, size_t n)
{
    if (r->is_nesterov) {
        for (size_t i = 0; i < n; i++)
            nesterov(r, &x[i], &v[i], own[i]);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        v[i] = r->alpha * v[i] - r->beta * own[i];
        x[i] += v[i];
    }
}

void pl_gossip_offer(const float *params, const float *update, double share, size_t n,
                     float *out)
{
    const float scale = (float)share;
    for (size_t i = 0; i < n; i++)
        out[i] = params[i] - scale * update[i];
}

pl_status pl_gossip_apply_one(const pl_gossip_step *step, float *params,
                              float *velocity, const float *own, const float *mate,
                              size_t n)
{
    const rates r = rates_of(step);
    if (step->gamma != step->beta)
        return pl_fail(PL_ERR_ARG,
                       "a meeting with one vector needs gamma equal to beta, but they "
                       "are %g and %g",
                       step->gamma, step->beta);
    meet_offers(&r, params, velocity, own, mate ? mate : own, n);
    return PL_OK;
}

pl_status pl_gossip_apply_views(const pl_gossip_step *step, float *params,
                                float *velocity, const pl_gossip_view *own,
                                const pl_gossip_view *mate, size_t n)
{
    const rates r = rates_of(step);
    if (!own->update || (mate && !(mate->update && mate->params && own->params)))
        return pl_fail(PL_ERR_ARG, "a holder or its mate lacks its update or its "
                                   "parameters, which the meeting needs");
    if (mate)
        meet_views(&r, params, velocity, own, mate, n);
    else
        meet_nobody(&r, params, velocity, own->update, n);
    return PL_OK;
}

/* ---- how fast the disagreement between holders falls ---- */
double pl_gossip_coupling(int n_holders)
{
    if (n_holders == 1)
        return 0;
    if (n_holders == 0 || n_holders % 2 == 1)
        return 0.5;
    return 0.5 * n_holders / (n_holders - 1);
}

pl_gossip_moments pl_gossip_next(const pl_gossip_step *step, double h,
                                 pl_gossip_moments now)
{
    double alpha = step->alpha, gamma = step->gamma;
    pl_gossip_moments next;
    if (step->rule == PL_RULE_HEAVY_BALL) { /* v' = alpha v - gamma z, e' = e + v' */
        next.c = alpha * alpha * now.c - 2 * alpha * gamma * h * now.b +
                 gamma * gamma * h * now.a;
        next.b = alpha * now.b - gamma * h * now.a + next.c;
        next.a = now.a + 2 * (alpha * now.b - gamma * h * now.a) + next.c;
        return next;
    }
    /* With z = e - mean_G e: v' = alpha v + gamma z and e' = e - s z - alpha^2 v. Here
     * E[z z] = E[z e] = h a, and E[z v] = h b. */
    double s = gamma * (1 + alpha), square = alpha * alpha;
    next.c = square * now.c + 2 * alpha * gamma * h * now.b + gamma * gamma * h * now.a;
    next.b = (alpha - (alpha * s + gamma * square) * h) * now.b +
             gamma * h * (1 - s) * now.a - alpha * square * now.c;
    next.a = (1 - 2 * s * h + s * s * h) * now.a - 2 * square * (1 - s * h) * now.b +
             square * square * now.c;
    return next;
}

/* Returns the spectral radius of the matrix M that maps the moments to those of the
 * next round, computed as |M^k|^(1/k) with k = 2^50. */
double pl_gossip_rate(const pl_gossip_step *step, double h)
{
    double m[3][3], log_norm = 0, power = 1;
    for (int j = 0; j < 3; j++) {
        pl_gossip_moments column =
            pl_gossip_next(step, h, (pl_gossip_moments){j == 0, j == 1, j == 2});
        m[0][j] = column.a;
        m[1][j] = column.b;
        m[2][j] = column.c;
    }
    for (int n = 0; n < 50; n++) {
        /* divides the matrix by its largest element, then squares it */
        double norm = 0, square[3][3] = {{0}};
        for (int i = 0; i < 9; i++)
            norm = fmax(norm, fabs(m[i / 3][i % 3]));
        if (norm == 0)
            return 0;
        for (int i = 0; i < 9; i++)
            m[i / 3][i % 3] /= norm;
        log_norm += log(norm) * power;
        power *= 0.5;
        for (int i = 0; i < 9; i++)
            for (int k = 0; k < 3; k++)
                square[i / 3][i % 3] += m[i / 3][k] * m[k][i % 3];
        memcpy(m, square, sizeof m);
    }
    return exp(log_norm);
}

double pl_gossip_limit(pl_rule rule, double alpha, double h)
{
    if (h <= 0)
        return INFINITY; /* a single holder cannot disagree with another one */
    if (rule == PL_RULE_HEAVY_BALL)
        return 2 * (1 - alpha * alpha) / (1 + alpha - 2 * alpha * h);
    /* the limit is far below 8: without momentum it is gamma = 2 */
    double stable = 0, unstable = 8;
    for (int i = 0; i < 50; i++) {
        pl_gossip_step step = {alpha, 1, 0.5 * (stable + unstable), rule};
        if (pl_gossip_rate(&step, h) < 1)
            stable = step.gamma;
        else
            unstable = step.gamma;
    }
    return unstable;
}
