/* folder: workers; label: unit
 *
 * Tests the outer steps that holders of a module take themselves under noloco. The
 * steps must equal the equations in double, and the mean of the holders must be the
 * home's version of the module. Also tests the updates of streaming. */
#include "tests/support/holders.h"

/* ---- noloco ---- */
/* One step of noloco. For each holder, x are its parameters, d its update, v its
 * velocity, and mean_G is the mean over the holder and its mate. alpha is the momentum,
 * beta the outer learning rate, gamma the consensus factor.
 *
 *   heavy ball   v = alpha v - beta mean_G(share d) + gamma (mean_G(x) - x),  x += v
 *   nesterov     g = mean_G(share d) + gamma / beta (x - mean_G(x)),
 *                v = alpha v + g,  x -= beta (g + alpha v) */
static void equations_of_gossip(world *w, int64_t round)
{
    double alpha = w->arm.outer.momentum[PL_CLASS_EMBED],
           beta = w->arm.outer.lr[PL_CLASS_EMBED];
    double gamma = w->arm.outer.own_consensus ? w->arm.outer.method.consensus : beta;
    bool nesterov = w->arm.outer.method.rule == PL_RULE_NESTEROV;
    double scale = w->arm.outer.rescale ? sqrt(w->k) : 1;
    for (int i = 0; i < w->k; i++)
        for (size_t e = 0; e < w->n; e++)
            w->of[i].d[e] = scale * share(w, i) *
                            ((double)w->of[i].start[e] - (double)w->of[i].now[e]);
    for (int i = 0; i < w->k; i++) {
        const holder *a = &w->of[i], *b = &w->of[mate_of(w, i, round)];
        for (size_t e = 0; e < w->n; e++) {
            double d = 0.5 * (a->d[e] + b->d[e]), apart = 0.5 * (b->x[e] - a->x[e]);
            double g = d - gamma / beta * apart;
            a->v[e] = alpha * a->v[e] + (nesterov ? g : gamma * apart - beta * d);
            a->step[e] = nesterov ? -beta * (g + alpha * a->v[e]) : a->v[e];
        }
    }
    for (int i = 0; i < w->k; i++)
        for (size_t e = 0; e < w->n; e++)
            w->of[i].x[e] += w->of[i].step[e];
}

/* 0: gamma equals beta, and mates exchange one vector instead of two. */
static const double gammas[] = {0, 0.3, 1.1};
static const pl_rule both_rules[] = {PL_RULE_HEAVY_BALL, PL_RULE_NESTEROV};

PL_TEST(noloco_is_the_gossip_equations)
{
    for (int k = 2; k <= HOLDERS_MAX; k++)
        for (int variant = 0; variant < 12; variant++) {
            OWNED(end_world)
            world *w =
                new_gossip(k, "f32", gammas[variant % 3], both_rules[variant / 3 % 2]);
            w->arm.outer.rescale = variant / 6;
            for (int64_t phase = 0; phase < PHASES; phase++) {
                pl_buf encoded[HOLDERS_MAX] = {{0}};
                begin_gossip(w, phase);
                for (int i = 0; phase > 0 && i < k; i++)
                    assert_near(w, w->of[i].start, w->of[i].x, 1e-6);
                end_gossip(w, phase, 0, encoded);
                equations_of_gossip(w, phase);
                forget(encoded);
            }
        }
}

PL_TEST(odd_holder_is_left_alone_in_turn)
{
    OWNED(end_world) world *w = new_world(PL_METHOD_NOLOCO, 3, "f32");
    int alone[3] = {0};
    for (int64_t round = 0; round < 6; round++)
        for (int i = 0; i < 3; i++) {
            int mate = mate_of(w, i, round);
            assert_int_equal(mate_of(w, mate, round), i);
            alone[i] += mate == i;
        }
    for (int i = 0; i < 3; i++)
        assert_int_equal(alone[i], 2);
}

/* ---- the home ---- */
/* Checks that version t + 1 of the home is the mean of the parameters with which the
 * holders begin phase t + 1. */
static void follow(world *w, bool feedback)
{
    int k = w->k;
    OWNED(free_memory) float *version = floats(w);
    OWNED(free_memory) double *want = doubles(w);
    w->arm.outer.feedback = feedback;
    start_home(w);
    for (int64_t phase = 0; phase < PHASES; phase++) {
        pl_buf encoded[HOLDERS_MAX] = {{0}};
        pl_version_facts base =
            wait_holder_version(w, (int64_t)pl_round_base(contract_of(w), phase));
        begin_gossip(w, phase);
        if (phase > 0) {
            pl_version_facts head = wait_holder_version(w, phase);
            fetch(w, &head.params, 0, version);
            mean_of_holders(w, want);
            assert_near(w, version, want, 1e-6);
        }
        end_gossip(w, phase, base.norm, encoded);
        for (int i = k - 1; i >= 0; i--) /* in reverse order */
            submit(w, i, phase, &encoded[i]);
        forget(encoded);
    }
    end_home(w);
    end_world(&w);
}

PL_TEST(home_of_noloco_has_the_mean_of_its_holders)
{
    for (int k = 2; k <= HOLDERS_MAX; k++)
        follow(new_gossip(k, "f32", 0, PL_RULE_HEAVY_BALL), false);
    follow(new_gossip(3, "f32", 0, PL_RULE_NESTEROV), false);
    follow(new_gossip(3, "i8", 0, PL_RULE_HEAVY_BALL), false);
}

PL_TEST(home_follows_noloco_with_two_vectors)
{
    for (int k = 2; k <= HOLDERS_MAX; k++)
        follow(new_gossip(k, "f32", 0.3, both_rules[k % 2]), false);
    follow(new_gossip(4, "bf16", 1.1, PL_RULE_HEAVY_BALL), false);
    follow(new_gossip(3, "i8", 0.3, PL_RULE_NESTEROV), false);
    follow(new_gossip(4, "i4", 0.3, PL_RULE_HEAVY_BALL), true);
}

/* ---- streaming ---- */
PL_TEST(streaming_goes_on_with_its_own)
{
    OWNED(end_world) world *w = new_world(PL_METHOD_STREAMING, 2, "f32");
    holder *h = &w->of[0];
    pl_holder s = slot_of(w, 0, 1);
    memcpy(h->start, w->zero, w->n * sizeof(float));
    h->start[0] += 1; /* the holder's own parameters differ from the base */
    train(w, 0, 0);
    pl_holder_update(&s, h->start, h->now, h->update);
    pl_holder_keep(&s, h->start, h->now, h->update, NULL);
    for (size_t e = 0; e < w->n; e++)
        assert_true(h->update[e] == w->zero[e] - h->now[e]);
    assert_memory_equal(h->params, h->now, w->n * sizeof(float));
}

/* Sends the update of one holder in a round. Adds the vector that was sent to `mean`,
 * and returns the part that was not sent. */
static float *send_part(world *w, int i, int64_t round, float *mean)
{
    holder *h = &w->of[i];
    pl_codec_options o = w->arm.outer.codec;
    pl_codec_part part = {0, w->n, PL_ROLE_MLP};
    pl_holder s = slot_of(w, i, round);
    OWNED(pl_buf_destroy) pl_buf message = {0};
    float *before = floats(w), *left = floats(w);
    double norm;
    s.base = w->zero;
    memcpy(before, h->residual, w->n * sizeof *before);
    pl_holder_update(&s, h->start, h->params, h->update);
    assert_ok(
        pl_codec_encode_module(&o, &part, 1, NULL, h->update, h->residual, &message));
    assert_ok(
        pl_codec_add(message.data, message.len, w->n, 1.0f / (float)w->k, mean, &norm));
    memcpy(left, h->residual, w->n * sizeof *left);
    pl_holder_keep_left(&s, before, h->residual);
    pl_free(before);
    return left;
}

/* With streaming and a lossy codec, a value that was merged into the holder's own
 * parameters must not be sent again. So what was sent plus what was left out must equal
 * what was trained. *most_left becomes the largest value that was left out in the last
 * round. */
static void nothing_is_sent_twice(int k, double mix, double *most_left)
{
    enum { ROUNDS = 60 };
    OWNED(end_world) world *w = new_world(PL_METHOD_STREAMING, k, "topk");
    w->arm.outer.method.mix = mix;
    w->arm.outer.codec.k = 512;
    w->arm.outer.codec.small = 1;
    w->arm.outer.codec.beta = 1; /* the residual does not fade */
    OWNED(free_memory) double *due = doubles(w);
    float *mean = floats(w), *left[HOLDERS_MAX];
    memset(due, 0, w->n * sizeof *due);
    for (int i = 0; i < k; i++) {
        memcpy(w->of[i].params, w->zero, w->n * sizeof *mean);
        memset(w->of[i].residual, 0, w->n * sizeof *mean);
    }
    for (int64_t round = 0; round < ROUNDS; round++) {
        memset(mean, 0, w->n * sizeof *mean);
        *most_left = 0;
        for (int i = 0; i < k; i++) {
            for (size_t e = 0; e < w->n; e++) { /* each value changes at its own rate */
                double d = 1e-3 * (1 + (double)(e % 97) / 97) * (i + 1);
                w->of[i].params[e] -= (float)d;
                due[e] += d / k;
            }
            left[i] = send_part(w, i, round, mean);
        }
        for (size_t e = 0; e < w->n; e++) {
            double rest = 0;
            due[e] -= (double)mean[e];
            w->zero[e] -= mean[e]; /* makes the next version */
            for (int i = 0; i < k; i++) {
                float *own = &w->of[i].params[e];
                if (k > 1)
                    *own = (float)mix * *own + (float)(1 - mix) * w->zero[e];
                rest += (double)left[i][e] / k;
            }
            assert_float_equal(due[e], rest, 2e-5);
            *most_left = fmax(*most_left, fabs(rest));
        }
        for (int i = 0; i < k; i++)
            pl_free(left[i]);
    }
    pl_free(mean);
}

PL_TEST(what_was_left_out_is_sent_once)
{
    const double mixes[] = {0, 0.25, 0.5, 1};
    double most;
    nothing_is_sent_twice(1, 0.5, &most);
    assert_true(most < 8 * 8 * 2e-3); /* a value is sent after about eight rounds */
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        nothing_is_sent_twice(2, mixes[i], &most);
}
