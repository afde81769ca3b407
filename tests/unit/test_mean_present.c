/* folder: outer; label: unit */
/* Tests outer.mean=present: the mean of each value of an update is taken over only
 * those contributors that send this value. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "outer/arith.h"
#include "outer/arm.h"
#include <math.h>

#include "tests/support/suite.h"

enum { N = 3 * 4096 + 17, MESSAGES = 3 };

typedef struct sent {
    pl_buf bytes[MESSAGES];
    pl_codec_message messages[MESSAGES];
    float weights[MESSAGES];
} sent;

static void send_update(sent *s, int i, const char *codec, int k, const float *update)
{
    const pl_codec_part part = {0, N, PL_ROLE_MLP};
    pl_codec_options options;
    assert_ok(pl_codec_options_default(codec, &options));
    options.k = k;
    options.value_bits = 8;
    assert_ok(
        pl_codec_encode_module(&options, &part, 1, NULL, update, NULL, &s->bytes[i]));
    s->messages[i] = (pl_codec_message){s->bytes[i].data, s->bytes[i].len};
}

static void clear(sent *s)
{
    for (int i = 0; i < MESSAGES; i++)
        pl_buf_destroy(&s->bytes[i]);
}

/* Computes the mean update of the first n messages. It is the negative result of an
 * outer step with learning rate 1 that starts from parameters of zero. */
static void mean_of(const sent *s, int n, bool present, float *mean)
{
    const pl_outer_step step = {.lr = 1, .n_contributors = n};
    pl_outer_state state = {.params = mean};
    pl_outer_report report;
    pl_codec_list list = {s->messages, s->weights, n, 0};
    const pl_arith_merge merge = {.step = &step,
                                  .state = &state,
                                  .n = N,
                                  .messages = pl_codec_source_of(&list),
                                  .present = present,
                                  .factor = 1.0f};
    memset(mean, 0, N * sizeof *mean);
    assert_ok(pl_arith_step(&merge, &report));
    for (int i = 0; i < N; i++)
        mean[i] = -mean[i];
}

/* ---- the mean ---- */

/* Returns whether contributor u sends value i. The lowest three bits of i choose the
 * senders, so all 8 subsets of the three contributors occur, also the empty one. */
static bool sends(int i, int u)
{
    return i % 8 >> u & 1;
}

static float value(int i, int u)
{
    return (float)((i * 7 + u * 5) % 31 - 15) + 0.5f;
}

PL_TEST(the_weights_of_those_that_send_a_value_make_its_mean)
{
    static float update[N], mean[N];
    OWNED(clear) sent s = {.weights = {0.5f, 0.125f, 0.375f}};
    for (int u = 0; u < MESSAGES; u++) {
        for (int i = 0; i < N; i++)
            update[i] = sends(i, u) ? value(i, u) : 0.0f;
        send_update(&s, u, "f32", 64, update);
    }
    mean_of(&s, MESSAGES, true, mean);
    for (int i = 0; i < N; i++) {
        double sum = 0, whole = 0;
        for (int u = 0; u < MESSAGES; u++) {
            sum += sends(i, u) ? (double)s.weights[u] * (double)value(i, u) : 0;
            whole += sends(i, u) ? (double)s.weights[u] : 0;
        }
        const double right = whole > 0 ? sum / whole : 0;
        assert_true(fabs((double)mean[i] - right) <= 1e-7 * (1 + fabs(right)));
    }
}

PL_TEST(values_that_one_sends_count_whole)
{
    static float update[MESSAGES][N], mean[N], all[N];
    OWNED(clear) sent s = {.weights = {0.25f, 0.25f, 0.5f}};
    memset(update, 0, sizeof update);
    for (int u = 0; u < MESSAGES; u++) {
        for (int i = u; i < N; i += 500)
            update[u][i] = value(i, u);
        send_update(&s, u, "topk", 64, update[u]);
    }
    mean_of(&s, MESSAGES, true, mean);
    mean_of(&s, MESSAGES, false, all);
    for (int i = 0; i < N; i++)
        for (int u = 0; u < MESSAGES; u++)
            if (update[u][i] != 0) {
                const float sum = all[i] / s.weights[u];
                /* The error of a value that is encoded in 8 bits. */
                assert_true(fabsf(mean[i] - update[u][i]) <= 0.07f);
                assert_true(fabsf(mean[i] - sum) <= 1e-6f * fabsf(sum));
            }
}

PL_TEST(of_one_contributor_it_is_the_mean_of_all)
{
    static float update[N], mean[N], all[N];
    OWNED(clear) sent s = {.weights = {1}};
    for (int i = 0; i < N; i++)
        update[i] = value(i, 0) * 1.1e-3f;
    send_update(&s, 0, "topk", 200, update);
    mean_of(&s, 1, true, mean);
    mean_of(&s, 1, false, all);
    assert_memory_equal(mean, all, sizeof mean);
}

/* ---- settings with which outer.mean=present can be used ---- */

static pl_outer outer_of(pl_method method, const char *codec)
{
    pl_outer outer = {.present = true, .method = pl_method_defaults(method)};
    pl_copy_text(outer.codec_name, sizeof outer.codec_name, codec);
    assert_ok(pl_codec_options_default(codec, &outer.codec));
    return outer;
}

static void assert_needs(const pl_outer *outer, const char *words)
{
    assert_fails(pl_mean_check(outer), PL_ERR_CONFIG, words);
}

PL_TEST(it_goes_with_updates_that_leave_values_out)
{
    static const char *const others[] = {"f32", "i8", "sketch16", "tagc"};
    pl_outer outer = outer_of(PL_METHOD_FEDAVG, "topk");
    outer.codec.codec[PL_ROLE_EMBED] = PL_CODEC_F32;
    assert_ok(pl_mean_check(&outer));
    outer.codec.codec[PL_ROLE_EMBED] = PL_CODEC_I4;
    assert_needs(&outer, "codec.name=topk");
    for (int i = 0; i < 4; i++) {
        outer = outer_of(PL_METHOD_FEDAVG, others[i]);
        assert_needs(&outer, "codec.name=topk");
        outer.present = false;
        assert_ok(pl_mean_check(&outer));
    }
}

PL_TEST(it_goes_with_methods_that_know_no_shares)
{
    static const pl_method good[] = {PL_METHOD_DILOCO, PL_METHOD_FEDAVG,
                                     PL_METHOD_HEAVY_BALL, PL_METHOD_CO2};
    static const pl_method bad[] = {PL_METHOD_NOLOCO, PL_METHOD_STREAMING,
                                    PL_METHOD_DELAYED_NESTEROV};
    for (int i = 0; i < 4; i++) {
        pl_outer outer = outer_of(good[i], "topk");
        assert_ok(pl_mean_check(&outer));
    }
    for (int i = 0; i < 3; i++) {
        pl_outer outer = outer_of(bad[i], "topk");
        assert_needs(&outer, "outer.method");
    }
}

PL_TEST(it_refuses_what_would_count_twice)
{
    pl_outer outer = outer_of(PL_METHOD_DILOCO, "topk");
    outer.momentum[PL_CLASS_PRIVATE] = 0.9; /* allowed: one contributor each */
    assert_ok(pl_mean_check(&outer));
    outer.momentum[PL_CLASS_LEVEL] = 0.9;
    assert_needs(&outer, "momentum");
    outer = outer_of(PL_METHOD_DILOCO, "topk");
    outer.rescale = true;
    assert_needs(&outer, "outer.rescale");
    outer = outer_of(PL_METHOD_DILOCO, "topk");
    outer.quorum = 0.5;
    assert_ok(pl_mean_check(&outer));
}
