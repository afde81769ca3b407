/* folder: outer; label: unit */
/* Tests noloco: which holders are mates in a round, what a step with a mate does, and
 * how fast the holders' copies become equal if there are no updates. */
#include "outer/outer.h"

#include <math.h>

#include "tests/support/suite.h"

enum { N = 16, HOLDERS_MAX = 16 };

/* The k holders of a module. Each has parameters x, a velocity v and an update g; in a
 * round also its parameters `before` the step and the vector that it offers to its
 * mate. */
typedef struct holders {
    int k;
    float x[HOLDERS_MAX][N], v[HOLDERS_MAX][N], g[HOLDERS_MAX][N];
    float before[HOLDERS_MAX][N], offer[HOLDERS_MAX][N];
} holders;

static void fill(float *x, uint64_t seed, float scale)
{
    for (size_t i = 0; i < N; i++)
        x[i] = pl_random_normal(seed, 3, i) * scale;
}

static void fill_dyadic(float *x, uint64_t seed)
{
    for (size_t i = 0; i < N; i++)
        x[i] = (float)((int)(pl_random_u32(seed, 9, i) % 2048) - 1024) / 64.0f;
}

static void start(holders *h, int k, uint64_t seed, bool equal)
{
    memset(h, 0, sizeof *h);
    h->k = k;
    for (int i = 0; i < k; i++)
        fill(h->x[i], equal ? seed : seed + (uint64_t)i, 1);
}

static void draw_updates(holders *h, uint64_t seed, float scale)
{
    for (int i = 0; i < h->k; i++)
        fill(h->g[i], seed + (uint64_t)i, scale);
}

static void match(const char *module, uint64_t round, int k, int *partner)
{
    uint64_t members[HOLDERS_MAX];
    for (int i = 0; i < k; i++)
        members[i] = 1000 + 7 * (uint64_t)i;
    assert_ok(pl_gossip_match(42, module, round, k, members, partner));
}

static void meet(const pl_gossip_step *step, holders *h, const int *partner,
                 bool one_vector)
{
    memcpy(h->before, h->x, sizeof h->x);
    for (int i = 0; i < h->k; i++)
        pl_gossip_offer(h->x[i], h->g[i], 1, N, h->offer[i]);
    for (int i = 0; i < h->k; i++) {
        const int j = partner[i];
        const pl_gossip_view own = {h->g[i], h->before[i]},
                             mate = {h->g[j], h->before[j]};
        assert_ok(one_vector ? pl_gossip_apply_one(step, h->x[i], h->v[i], h->offer[i],
                                                   j == i ? NULL : h->offer[j], N)
                             : pl_gossip_apply_views(step, h->x[i], h->v[i], &own,
                                                     j == i ? NULL : &mate, N));
    }
}

static const pl_gossip_step paper = {0.5, 0.7, 0.7, PL_RULE_HEAVY_BALL};

/* ---- matching ---- */

PL_TEST(everybody_has_one_mate_and_the_left_over_takes_turns)
{
    for (int k = 1; k <= HOLDERS_MAX; k++) {
        int left_over[HOLDERS_MAX] = {0};
        for (int round = 0; round < 2 * k; round++) {
            int partner[HOLDERS_MAX], alone = 0;
            match("mix/L1.E0", (uint64_t)round, k, partner);
            for (int i = 0; i < k; i++) {
                assert_in_range(partner[i], 0, k - 1);
                assert_int_equal(partner[partner[i]], i);
                alone += partner[i] == i;
                left_over[i] += partner[i] == i;
            }
            assert_int_equal(alone, k % 2);
        }
        for (int i = 0; i < k; i++)
            assert_int_equal(left_over[i], k % 2 ? 2 : 0);
    }
}

PL_TEST(order_of_the_list_permutes_the_matching_and_no_more)
{
    uint64_t members[HOLDERS_MAX], shuffled[HOLDERS_MAX];
    int partner[HOLDERS_MAX], other[HOLDERS_MAX];
    for (int k = 2; k <= HOLDERS_MAX; k++)
        for (uint64_t round = 0; round < 8; round++) {
            for (int i = 0; i < k; i++)
                members[i] = 90 - (uint64_t)i;
            for (int i = 0; i < k; i++)
                shuffled[i] = members[pl_permute(round, 1, (uint64_t)k, (uint64_t)i)];
            assert_ok(pl_gossip_match(5, "m", round, k, members, partner));
            assert_ok(pl_gossip_match(5, "m", round, k, shuffled, other));
            for (int i = 0; i < k; i++) {
                uint64_t mine = shuffled[i];
                assert_true(members[partner[90 - mine]] == shuffled[other[i]]);
            }
        }
}

PL_TEST(seed_module_and_round_draw_other_pairs)
{
    uint64_t members[HOLDERS_MAX];
    int base[HOLDERS_MAX], other[HOLDERS_MAX];
    for (int i = 0; i < HOLDERS_MAX; i++)
        members[i] = (uint64_t)i;
    const struct {
        uint64_t seed, round;
        const char *module;
    } others[] = {{6, 3, "mix/L1.E0"}, {5, 4, "mix/L1.E0"}, {5, 3, "mix/L1.E1"}};
    assert_ok(pl_gossip_match(5, "mix/L1.E0", 3, HOLDERS_MAX, members, base));
    for (int o = 0; o < 3; o++) {
        assert_ok(pl_gossip_match(others[o].seed, others[o].module, others[o].round,
                                  HOLDERS_MAX, members, other));
        assert_memory_not_equal(base, other, sizeof base);
    }
}

/* Shows that the mates of holder 0 are drawn uniformly. In 1500 rounds, each of the 15
 * possible mates must be drawn 100 times, within 4 standard deviations. */
PL_TEST(mates_are_drawn_uniformly)
{
    int met[HOLDERS_MAX] = {0}, partner[HOLDERS_MAX];
    for (uint64_t round = 0; round < 1500; round++) {
        match("mix/embed", round, HOLDERS_MAX, partner);
        met[partner[0]]++;
    }
    assert_int_equal(met[0], 0);
    for (int i = 1; i < HOLDERS_MAX; i++)
        assert_in_range(met[i], 61, 139);
}

PL_TEST(member_listed_twice_is_refused)
{
    const uint64_t members[] = {4, 9, 4};
    int partner[3];
    assert_fails(pl_gossip_match(1, "m", 0, 3, members, partner), PL_ERR_ARG,
                 "member 4");
    assert_int_equal(pl_gossip_match(1, "m", 0, 0, members, partner), PL_ERR_ARG);
}

/* ---- the step ---- */

/* Takes the step of a holder that has no mate. The velocity v contains the factor
 * beta. */
static void heavy_ball(float *x, float *v, const float *g, const pl_gossip_step *s)
{
    for (size_t i = 0; i < N; i++) {
        v[i] = (float)s->alpha * v[i] - (float)s->beta * g[i];
        x[i] += v[i];
    }
}

PL_TEST(identical_replicas_take_heavy_ball_steps_bit_for_bit)
{
    static holders h;
    float x[N], v[N] = {0}, torch[N], m[N] = {0};
    const int partner[] = {1, 0};
    pl_outer_step nesterov = {.lr = 0.7, .momentum = 0.5, .n_contributors = 1};
    pl_outer_state state = {.params = torch, .momentum = m};
    start(&h, 2, 1, true);
    memcpy(x, h.x[0], sizeof x);
    memcpy(torch, x, sizeof x);
    for (uint64_t t = 0; t < 20; t++) {
        fill(h.g[0], 100 + t, 0.1f);
        memcpy(h.g[1], h.g[0], sizeof h.g[0]);
        heavy_ball(x, v, h.g[0], &paper);
        assert_ok(pl_outer_apply(&nesterov, &state, h.g[0], N, NULL));
        meet(&paper, &h, partner, false);
        for (int i = 0; i < 2; i++) {
            assert_memory_equal(h.x[i], x, sizeof x);
            assert_memory_equal(h.v[i], v, sizeof v);
        }
    }
    /* Torch's Nesterov momentum gives a different result, so the test can tell the
     * rules apart. */
    assert_true(fabsf(x[0] - torch[0]) > 1e-3f);
}

PL_TEST(nesterov_form_of_identical_replicas_is_that_of_torch)
{
    static holders h;
    float x[N], m[N] = {0};
    const int partner[] = {1, 0, 2}; /* one pair, and one holder without a mate */
    const pl_gossip_step step = {0.9, 0.7, 0.5, PL_RULE_NESTEROV};
    pl_outer_step nesterov = {.lr = 0.7, .momentum = 0.9, .n_contributors = 1};
    pl_outer_state state = {.params = x, .momentum = m};
    start(&h, 3, 2, true);
    memcpy(x, h.x[0], sizeof x);
    for (uint64_t t = 0; t < 20; t++) {
        for (int i = 0; i < 3; i++)
            fill(h.g[i], 200 + t, 0.1f);
        assert_ok(pl_outer_apply(&nesterov, &state, h.g[0], N, NULL));
        meet(&step, &h, partner, false);
        for (int i = 0; i < 3; i++) {
            assert_memory_equal(h.x[i], x, sizeof x);
            assert_memory_equal(h.v[i], m, sizeof m);
        }
    }
}

/* Shows that two holders that start equal and always meet take the steps of DiLoCo with
 * heavy-ball momentum. beta is a power of two, so the results are equal to the bit,
 * although v contains the factor beta and the momentum m does not. */
PL_TEST(group_of_all_from_one_start_is_heavy_ball_diloco)
{
    static holders h;
    float x[N], m[N] = {0}, mean[N];
    const int partner[] = {1, 0};
    const pl_gossip_step step = {0.5, 0.5, 0.3, PL_RULE_HEAVY_BALL};
    pl_outer_step diloco = {.lr = 0.5,
                            .momentum = 0.5,
                            .n_contributors = 2,
                            .method = PL_METHOD_HEAVY_BALL,
                            .rule = PL_RULE_HEAVY_BALL};
    pl_outer_state state = {.params = x, .momentum = m};
    start(&h, 2, 3, true);
    memcpy(x, h.x[0], sizeof x);
    for (uint64_t t = 0; t < 20; t++) {
        draw_updates(&h, 300 + 2 * t, 0.1f);
        for (size_t i = 0; i < N; i++)
            mean[i] = 0.5f * (h.g[0][i] + h.g[1][i]);
        assert_ok(pl_outer_apply(&diloco, &state, mean, N, NULL));
        meet(&step, &h, partner, false);
        assert_memory_equal(h.x[0], x, sizeof x);
        assert_memory_equal(h.x[1], x, sizeof x);
    }
}

static double mean_at(float vectors[][N], int k, size_t i)
{
    double sum = 0;
    for (int r = 0; r < k; r++)
        sum += (double)vectors[r][i];
    return sum / k;
}

PL_TEST(mean_of_all_follows_heavy_ball_for_any_matching)
{
    static holders h;
    for (int k = 1; k <= 9; k++)
        for (int one_vector = 0; one_vector < 2; one_vector++) {
            double x[N], v[N] = {0};
            start(&h, k, 4, false);
            for (size_t i = 0; i < N; i++)
                x[i] = mean_at(h.x, k, i);
            for (uint64_t t = 0; t < 12; t++) {
                int partner[HOLDERS_MAX];
                match("mix/L2.E1", t, k, partner);
                int mate = partner[0];
                if (t % 3 == 2) { /* in these rounds a pair splits */
                    partner[0] = 0;
                    partner[mate] = mate;
                }
                draw_updates(&h, 400 + 20 * t, 0.1f);
                meet(&paper, &h, partner, one_vector);
                for (size_t i = 0; i < N; i++) {
                    v[i] = 0.5 * v[i] - 0.7 * mean_at(h.g, k, i);
                    x[i] += v[i];
                    assert_true(fabs(mean_at(h.v, k, i) - v[i]) < 2e-6);
                    assert_true(fabs(mean_at(h.x, k, i) - x[i]) < 4e-6);
                }
            }
        }
}

PL_TEST(full_weights_take_the_mean_of_the_group)
{
    static holders h;
    const int partner[] = {1, 0, 2};
    const pl_gossip_step step = {0, 1, 1, PL_RULE_HEAVY_BALL};
    for (int one_vector = 0; one_vector < 2; one_vector++) {
        start(&h, 3, 5, false);
        for (int i = 0; i < 3; i++) {
            fill_dyadic(h.x[i], 50 + (uint64_t)i);
            fill_dyadic(h.g[i], 60 + (uint64_t)i);
        }
        meet(&step, &h, partner, one_vector);
        for (size_t i = 0; i < N; i++) {
            float a = h.before[0][i] - h.g[0][i], b = h.before[1][i] - h.g[1][i];
            assert_true(h.x[0][i] == 0.5f * (a + b));
            assert_true(h.x[1][i] == h.x[0][i]);
            assert_true(h.x[2][i] == h.before[2][i] - h.g[2][i]);
        }
    }
}

PL_TEST(one_vector_does_what_two_do_when_gamma_is_beta)
{
    static holders a, b;
    const pl_gossip_step steps[] = {paper, {0.7, 0.6, 0.6, PL_RULE_NESTEROV}};
    for (int s = 0; s < 2; s++) {
        start(&a, 5, 6, false);
        start(&b, 5, 6, false);
        for (uint64_t t = 0; t < 12; t++) {
            int partner[HOLDERS_MAX];
            match("mix/head", t, 5, partner);
            draw_updates(&a, 700 + 10 * t, 0.1f);
            draw_updates(&b, 700 + 10 * t, 0.1f);
            meet(&steps[s], &a, partner, true);
            meet(&steps[s], &b, partner, false);
            for (int i = 0; i < 5; i++)
                for (size_t e = 0; e < N; e++)
                    assert_true(fabsf(a.x[i][e] - b.x[i][e]) <= 1e-5f);
        }
    }
}

PL_TEST(one_vector_is_refused_when_gamma_is_not_beta)
{
    float x = 1, v = 0, own = 1;
    const pl_gossip_step step = {0.5, 0.7, 0.3, PL_RULE_HEAVY_BALL};
    assert_int_equal(pl_gossip_apply_one(&step, &x, &v, &own, NULL, 1), PL_ERR_ARG);
    assert_true(x == 1 && v == 0);
}

static void assert_pair(const pl_gossip_step *step, uint64_t t)
{
    float x[2], v[2] = {0}, update = 0, view[2];
    for (int i = 0; i < 2; i++) {
        x[i] = pl_random_normal(3, (uint64_t)i, t);
        view[i] = x[i] + 0.1f * pl_random_normal(4, (uint64_t)i, t);
    }
    double mean = 0.5 * ((double)x[0] + (double)x[1]);
    const pl_gossip_view a = {&update, &view[0]}, b = {&update, &view[1]};
    assert_ok(pl_gossip_apply_views(step, &x[0], &v[0], &a, &b, 1));
    assert_ok(pl_gossip_apply_views(step, &x[1], &v[1], &b, &a, 1));
    assert_true(v[0] == -v[1] && v[0] != 0);
    assert_true(fabs(0.5 * ((double)x[0] + (double)x[1]) - mean) < 1e-6);
}

/* Shows that the mean of two mates does not move because of what a codec loses. The
 * mates see each other's parameters only as rounded values (views), but their
 * velocities are exactly opposite. */
PL_TEST(what_is_lost_on_the_way_moves_no_mean)
{
    const pl_rule rules[] = {PL_RULE_HEAVY_BALL, PL_RULE_NESTEROV};
    for (int r = 0; r < 2; r++)
        for (uint64_t t = 0; t < 200; t++) {
            const pl_gossip_step step = {0.5, 0.7, 0.3, rules[r]};
            assert_pair(&step, t);
        }
}

PL_TEST(view_without_a_vector_is_refused)
{
    float x = 1, v = 0, own = 1;
    const pl_gossip_step step = {0.5, 0.7, 0.3, PL_RULE_HEAVY_BALL};
    const pl_gossip_view whole = {&own, &own}, half = {&own, NULL}, none = {NULL, &own};
    assert_int_equal(pl_gossip_apply_views(&step, &x, &v, &whole, &half, 1),
                     PL_ERR_ARG);
    assert_int_equal(pl_gossip_apply_views(&step, &x, &v, &half, &whole, 1),
                     PL_ERR_ARG);
    assert_int_equal(pl_gossip_apply_views(&step, &x, &v, &none, NULL, 1), PL_ERR_ARG);
    assert_true(x == 1 && v == 0);
    assert_ok(pl_gossip_apply_views(&step, &x, &v, &half, NULL, 1));
}

PL_TEST(shares_keep_the_weighted_mean_of_unequal_work)
{
    enum { K = 4 };
    static holders h;
    const double weights[K] = {1, 2, 3, 10};
    const int partner[K] = {2, 3, 0, 1};
    double x[N], weighted[N] = {0};
    start(&h, K, 7, false);
    draw_updates(&h, 77, 0.1f);
    for (size_t i = 0; i < N; i++) {
        x[i] = mean_at(h.x, K, i);
        for (int r = 0; r < K; r++)
            weighted[i] += weights[r] / 16 * (double)h.g[r][i];
    }
    for (int r = 0; r < K; r++)
        for (size_t i = 0; i < N; i++)
            h.g[r][i] *= (float)(K * weights[r] / 16);
    meet(&paper, &h, partner, true);
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(mean_at(h.x, K, i) - (x[i] - 0.7 * weighted[i])) < 2e-6);
}

/* ---- differences between the holders ---- */

static pl_gossip_moments measure(holders *h)
{
    pl_gossip_moments sum = {0, 0, 0};
    for (size_t i = 0; i < N; i++) {
        double x = mean_at(h->x, h->k, i), v = mean_at(h->v, h->k, i);
        for (int r = 0; r < h->k; r++) {
            double e = (double)h->x[r][i] - x, d = (double)h->v[r][i] - v;
            sum.a += e * e / (N * h->k);
            sum.b += e * d / (N * h->k);
            sum.c += d * d / (N * h->k);
        }
    }
    return sum;
}

/* Pairs holders at random. If k is odd, one more member is added that does not exist;
 * the holder that is paired with it has no mate. So each holder is left out with the
 * same probability. */
static void match_uniformly(const char *module, uint64_t round, int k, int *partner)
{
    int with_nobody[HOLDERS_MAX + 1];
    match(module, round, k + k % 2, with_nobody);
    for (int i = 0; i < k; i++)
        partner[i] = with_nobody[i] < k ? with_nobody[i] : i;
}

typedef void (*match_fn)(const char *module, uint64_t round, int k, int *partner);

/* Simulates rounds without updates for `trials` populations of k holders. mean[t]
 * becomes the mean of their moments (measure) after t rounds. */
static void simulate(const pl_gossip_step *step, match_fn draw, int k, int rounds,
                     int trials, pl_gossip_moments *mean)
{
    static holders h;
    memset(mean, 0, (size_t)(rounds + 1) * sizeof *mean);
    for (int trial = 0; trial < trials; trial++) {
        char module[32];
        snprintf(module, sizeof module, "trial/%d", trial);
        start(&h, k, 10000 + 100 * (uint64_t)trial, false);
        for (int t = 0; t <= rounds; t++) {
            int partner[HOLDERS_MAX];
            pl_gossip_moments now = measure(&h);
            mean[t].a += now.a / trials;
            mean[t].b += now.b / trials;
            mean[t].c += now.c / trials;
            draw(module, (uint64_t)t, k, partner);
            meet(step, &h, partner, false);
        }
    }
}

static const pl_gossip_step drifting[] = {{0.5, 1e-30, 0.7, PL_RULE_HEAVY_BALL},
                                          {0.5, 0.7, 0.7, PL_RULE_NESTEROV}};

PL_TEST(variance_of_the_holders_follows_the_map_of_moments)
{
    enum { ROUNDS = 3 };
    const int holders_of[] = {16, 7};
    for (int s = 0; s < 2; s++)
        for (int c = 0; c < 2; c++) {
            pl_gossip_moments mean[ROUNDS + 1];
            double h = pl_gossip_coupling(holders_of[c]);
            simulate(&drifting[s], match_uniformly, holders_of[c], ROUNDS, 8000, mean);
            pl_gossip_moments want = mean[0];
            for (int t = 1; t <= ROUNDS; t++) {
                want = pl_gossip_next(&drifting[s], h, want);
                assert_true(fabs(mean[t].a / want.a - 1) < 0.01);
            }
        }
}

/* Shows that the variance does not exceed that of the formula if holders take turns in
 * having no mate. Then the rounds are not independent: a holder that had no mate has
 * one in the next round. */
PL_TEST(turns_of_the_left_over_do_not_raise_the_variance)
{
    enum { ROUNDS = 6 };
    for (int s = 0; s < 2; s++) {
        pl_gossip_moments mean[ROUNDS + 1];
        simulate(&drifting[s], match, 7, ROUNDS, 500, mean);
        pl_gossip_moments want = mean[0];
        for (int t = 1; t <= ROUNDS; t++) {
            want = pl_gossip_next(&drifting[s], pl_gossip_coupling(7), want);
            assert_true(mean[t].a < 1.01 * want.a && mean[t].a > 0.85 * want.a);
        }
    }
}

PL_TEST(first_round_and_long_run_shrink_as_derived)
{
    const pl_gossip_moments unit = {1, 0, 0};
    const pl_gossip_step mean = {0, 1, 1, PL_RULE_HEAVY_BALL};
    const pl_gossip_step best = {0.5, 0.7, 0.3, PL_RULE_HEAVY_BALL};
    const pl_gossip_step nesterov = {0.9, 0.7, 0.7, PL_RULE_NESTEROV};
    assert_true(fabs(pl_gossip_next(&paper, 0.5, unit).a - 0.545) < 1e-12);
    assert_true(fabs(pl_gossip_next(&mean, 0.5, unit).a - 0.5) < 1e-12);
    double h16 = pl_gossip_coupling(16);
    assert_true(fabs(pl_gossip_next(&mean, h16, unit).a - 0.46667) < 1e-4);
    assert_true(fabs(pl_gossip_rate(&paper, 0.5) - 0.700) < 5e-4);
    assert_true(fabs(pl_gossip_rate(&paper, h16) - 0.685) < 5e-4);
    assert_true(fabs(pl_gossip_rate(&paper, pl_gossip_coupling(8)) - 0.668) < 5e-4);
    assert_true(fabs(pl_gossip_rate(&best, 0.5) - 0.625) < 5e-4);
    assert_true(fabs(pl_gossip_rate(&nesterov, 0.5) - 0.916) < 5e-4);
}

PL_TEST(two_holders_differ_by_the_deterministic_map)
{
    static holders h;
    const int partner[] = {1, 0};
    const pl_gossip_step step = {0.5, 1e-30, 0.8, PL_RULE_HEAVY_BALL};
    double d = 0, v = 0;
    start(&h, 2, 12, false);
    d = (double)h.x[0][0] - (double)h.x[1][0];
    for (int t = 0; t < 10; t++) {
        double next = (1 - 0.8) * d + 0.5 * v;
        v = next - d;
        d = next;
        meet(&step, &h, partner, false);
        assert_true(fabs((double)h.x[0][0] - (double)h.x[1][0] - d) < 1e-5);
    }
}

static double factor_of_50_rounds(pl_rule rule, double alpha, double share, int k)
{
    static holders h;
    double limit = pl_gossip_limit(rule, alpha, pl_gossip_coupling(k)), first = 0;
    const pl_gossip_step step = {alpha, 1, share * limit, rule};
    const int partner[] = {1, 0};
    start(&h, k, 13, false);
    for (int t = 0; t < 60; t++) {
        if (t == 10)
            first = measure(&h).a;
        meet(&step, &h, partner, false);
    }
    return measure(&h).a / first;
}

PL_TEST(disagreement_dies_below_the_limit_and_grows_above)
{
    const double alphas[] = {0, 0.3, 0.5, 0.7, 0.9};
    for (int rule = PL_RULE_NESTEROV; rule <= PL_RULE_HEAVY_BALL; rule++)
        for (int i = 0; i < 5; i++) {
            double limit = pl_gossip_limit((pl_rule)rule, alphas[i], 0.5);
            pl_gossip_step below = {alphas[i], 1, 0.95 * limit, (pl_rule)rule};
            pl_gossip_step above = {alphas[i], 1, 1.05 * limit, (pl_rule)rule};
            assert_true(pl_gossip_rate(&below, 0.5) < 1);
            assert_true(pl_gossip_rate(&above, 0.5) > 1);
            assert_true(factor_of_50_rounds((pl_rule)rule, alphas[i], 0.95, 2) < 1);
            assert_true(factor_of_50_rounds((pl_rule)rule, alphas[i], 1.05, 2) > 1);
        }
}

PL_TEST(populations_drift_apart_above_the_limit_only)
{
    enum { ROUNDS = 40 };
    pl_gossip_moments mean[ROUNDS + 1];
    double limit = pl_gossip_limit(PL_RULE_HEAVY_BALL, 0.5, pl_gossip_coupling(8));
    pl_gossip_step step = {0.5, 1e-30, 0.95 * limit, PL_RULE_HEAVY_BALL};
    simulate(&step, match, 8, ROUNDS, 150, mean);
    assert_true(mean[ROUNDS].a < mean[ROUNDS / 2].a);
    step.gamma = 1.05 * limit;
    simulate(&step, match, 8, ROUNDS, 150, mean);
    assert_true(mean[ROUNDS].a > mean[ROUNDS / 2].a);
}

PL_TEST(limits_are_those_of_the_derivation)
{
    const double alphas[] = {0, 0.3, 0.5, 0.7, 0.9};
    const double heavy[] = {2, 1.82, 1.5, 1.02, 0.38};
    for (int i = 0; i < 5; i++)
        assert_true(fabs(pl_gossip_limit(PL_RULE_HEAVY_BALL, alphas[i], 0.5) -
                         heavy[i]) < 1e-12);
    assert_true(fabs(pl_gossip_limit(PL_RULE_NESTEROV, 0.5, 0.5) - 1.303) < 1e-3);
    assert_true(fabs(pl_gossip_limit(PL_RULE_NESTEROV, 0.9, 0.5) - 0.848) < 1e-3);
    assert_true(fabs(pl_gossip_limit(PL_RULE_NESTEROV, 0, 0.5) - 2) < 1e-9);
    pl_gossip_step unsafe = {0.9, 0.7, 0.7, PL_RULE_HEAVY_BALL};
    assert_true(fabs(pl_gossip_rate(&unsafe, 0.5) - 1.098) < 1e-3);
}
