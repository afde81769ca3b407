/* folder: home; label: unit */
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

#include <math.h>

#include "tests/support/suite.h"

static void fill(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = pl_random_normal(seed, 7, i) * 1e-3f;
}

/* ---- the outer step ---- */
static void apply(const pl_outer_step *step, float *params, float *momentum,
                  const float *mean, size_t n)
{
    pl_outer_state kept = {.params = params, .momentum = momentum};
    assert_ok(pl_outer_apply(step, &kept, mean, n, NULL));
}

PL_TEST(nesterov_with_zero_momentum_is_sgd)
{
    float params[] = {1, 2, 3}, momentum[] = {0, 0, 0}, mean[] = {0.5f, -1, 0.25f};
    pl_outer_step step = {.lr = 0.5, .n_contributors = 4};
    apply(&step, params, momentum, mean, 3);
    assert_true(params[0] == 0.75f && params[1] == 2.5f && params[2] == 2.875f);
    assert_true(momentum[0] == 0 && momentum[1] == 0 && momentum[2] == 0);
}

PL_TEST(full_step_of_one_contributor_takes_its_parameters)
{
    enum { N = 1000 };
    static float start[N], end[N], update[N], momentum[N];
    pl_outer_step step = {.lr = 1, .n_contributors = 1};
    fill(start, N, 8);
    fill(end, N, 9);
    for (int i = 0; i < N; i++)
        update[i] = start[i] - end[i];
    apply(&step, start, momentum, update, N);
    for (int i = 0; i < N; i++)
        assert_true(fabsf(start[i] - end[i]) <= 1e-9f);
}

PL_TEST(rescale_multiplies_by_the_root_of_the_contributors)
{
    float a[] = {1}, b[] = {1}, m[] = {0}, mean_a[] = {0.125f}, mean_b[] = {0.125f};
    pl_outer_step plain = {.lr = 1, .n_contributors = 16}, rescaled = plain;
    rescaled.rescale = true;
    apply(&plain, a, m, mean_a, 1);
    apply(&rescaled, b, m, mean_b, 1);
    assert_true(a[0] == 1 - 0.125f && b[0] == 1 - 0.5f);
}

/* ---- arms ---- */
static void make_arm(pl_arm *arm)
{
    memset(arm, 0, sizeof *arm);
    pl_copy_text(arm->name, sizeof arm->name, "mix");
    assert_ok(pl_preset("laptop", &arm->shape, &arm->spec));
    memset(arm->spec.private_block, 0, sizeof arm->spec.private_block);
    arm->spec.private_block[1] = true;
    arm->seed = 42;
    arm->inner = (pl_inner){.batch = 4,
                            .context = 64,
                            .tau = 10,
                            .phases = 3,
                            .lr = 1e-3,
                            .lr_floor = 0.1,
                            .warmup = 5,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .eps = 1e-8,
                            .weight_decay = 0.1,
                            .clip = 1,
                            .skip_prefix = 0};
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        arm->outer.lr[c] = 0.1 * (c + 1);
        arm->outer.momentum[c] = 0.1 * c;
    }
    arm->outer.weighted = true;
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name, "bf16");
    assert_ok(pl_codec_options_default("bf16", &arm->outer.codec));
    arm->outer.method = pl_method_defaults(PL_METHOD_CO2);
    arm->n_shards = 4;
    arm->shards = pl_alloc(4 * sizeof *arm->shards);
    arm->weights = pl_alloc(4 * sizeof *arm->weights);
    for (int p = 0; p < 4; p++) {
        pl_hash_of("blob", &p, sizeof p, &arm->shards[p]);
        arm->weights[p] = 100.0 * (p + 1);
    }
}

/* Decodes what the arm is encoded to. */
static pl_status travel(const pl_arm *arm, pl_arm *back)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_arm_encode(arm, &bytes);
    return pl_arm_decode(bytes.data, bytes.len, back);
}

PL_TEST(arm_survives_encoding)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    OWNED(pl_buf_destroy) pl_buf a = {0}, b = {0};
    make_arm(&arm);
    arm.inner.pack = true;
    pl_arm_encode(&arm, &a);
    assert_ok(pl_arm_decode(a.data, a.len, &back));
    assert_true(back.inner.pack);
    pl_arm_encode(&back, &b);
    assert_same_bytes(a, b);
    assert_true(back.spec.private_block[1] && !back.spec.private_block[0]);
    assert_true(back.outer.momentum[PL_CLASS_PRIVATE] ==
                arm.outer.momentum[PL_CLASS_PRIVATE]);
}

PL_TEST(kinds_of_state_survive_encoding)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    make_arm(&arm);
    arm.outer.state = PL_STATE_LOCAL;
    arm.outer.residual = PL_STATE_I8;
    arm.outer.own = PL_STATE_BF16;
    assert_ok(travel(&arm, &back));
    assert_int_equal(back.outer.state, PL_STATE_LOCAL);
    assert_int_equal(back.outer.residual, PL_STATE_I8);
    assert_int_equal(back.outer.own, PL_STATE_BF16);
    pl_arm_clear(&back);
    arm.outer.own = PL_STATE_I8; /* only a residual can be in i8 */
    assert_int_equal(travel(&arm, &back), PL_ERR_PROTO);
}

/* Definitions of stores that an older release made may have the number 6. */
PL_TEST(arm_of_the_removed_method_is_refused)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    make_arm(&arm);
    arm.outer.method.method = (pl_method)6;
    assert_fails(travel(&arm, &back), PL_ERR_UNSUPPORTED,
                 "outer method 6, which was removed");
}

PL_TEST(arm_without_fragments_is_refused)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    make_arm(&arm);
    arm.outer.method.method = PL_METHOD_STREAMING;
    arm.outer.method.fragments = 0;
    assert_fails(travel(&arm, &back), PL_ERR_PROTO, "0 fragments");
}

PL_TEST(a_mean_of_those_that_send_survives_encoding)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    make_arm(&arm);
    /* outer.mean=present needs a codec that leaves values out, but bf16 sends all
     * values. */
    arm.outer.present = true;
    assert_int_equal(travel(&arm, &back), PL_ERR_CONFIG);
    assert_ok(pl_codec_options_default("topk", &arm.outer.codec));
    memset(arm.outer.momentum, 0, sizeof arm.outer.momentum);
    assert_ok(travel(&arm, &back));
    assert_true(back.outer.present);
}

/* Tests the encoding of an arm that continues another arm, and of an arm that scores
 * documents. */
PL_TEST(beginnings_survive_encoding)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    make_arm(&arm);
    pl_copy_text(arm.before, sizeof arm.before, "mix");
    pl_hash_of("blob", "states", 6, &arm.states);
    assert_ok(travel(&arm, &back));
    assert_string_equal(back.before, "mix");
    assert_true(pl_hash_equal(&back.states, &arm.states));
    assert_int_equal(back.n_scored, 0);
    pl_arm_clear(&back);
    arm.before[0] = '\0'; /* the arm does not say whose states these are */
    assert_int_equal(travel(&arm, &back), PL_ERR_PROTO);
    arm.states = (pl_hash){{0}};
    arm.n_scored = 25;
    /* An arm of co2 with three phases cannot score documents. */
    assert_fails(travel(&arm, &back), PL_ERR_PROTO, "25 documents");
    arm.inner.phases = 1;
    arm.outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    assert_ok(travel(&arm, &back));
    assert_int_equal(back.n_scored, 25);
    assert_int_equal(back.feature_windows, 0);
    assert_int_equal(pl_arm_scores_bytes(&back), 25 * 8);
    pl_arm_clear(&back);
    arm.feature_windows = 4;
    assert_ok(travel(&arm, &back));
    assert_int_equal(back.feature_windows, 4);
    assert_int_equal(pl_arm_scores_bytes(&back), 25 * 4 * arm.shape.width);
    pl_arm_clear(&back);
    arm.n_scored = 1 << 27; /* features of more than 1 GiB */
    assert_int_equal(travel(&arm, &back), PL_ERR_PROTO);
}

PL_TEST(split_survives_encoding_if_it_is_whole)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    make_arm(&arm);
    const int n = arm.spec.n_levels;
    assert_true(arm.spec.experts[0] > 1);
    for (int l = 0; l < n; l++)
        arm.descent.experts[l] = 1;
    assert_int_equal(travel(&arm, &back), PL_ERR_PROTO); /* `before` is missing */
    pl_copy_text(arm.before, sizeof arm.before, "mix");
    pl_hash_of("blob", "states", 6, &arm.states);
    assert_ok(travel(&arm, &back));
    assert_memory_equal(back.descent.experts, arm.descent.experts,
                        sizeof arm.descent.experts);
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    char name[PL_MODULE_NAME_MAX], wanted[PL_MODULE_NAME_MAX] = "mix/p";
    assert_ok(pl_topology_create(&back.shape, &back.spec, &t));
    pl_arm_before_name(&back, t, pl_topology_n_paths(t) - 1, 0, name);
    for (int l = 0; l < n; l++)
        strcat(wanted, "0"); /* the earlier arm had only one path */
    strcat(wanted, ".r0");
    assert_string_equal(name, wanted);
    pl_arm_clear(&back);
    const struct {
        int level, value;
    } wrong[] = {{0, 0}, {0, -1}, {0, arm.spec.experts[0] + 1}, {n, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int was = arm.descent.experts[wrong[i].level];
        arm.descent.experts[wrong[i].level] = wrong[i].value;
        assert_fails(travel(&arm, &back), PL_ERR_PROTO, "does not say for each");
        arm.descent.experts[wrong[i].level] = was;
    }
}

PL_TEST(only_names_of_chapters_are_chapters)
{
    static const char *const others[] = {"mix~0",    "mix~01", "mix~", "mix~1x",
                                         "mix~1000", "mi",     "base", "",
                                         "mix ~1",   "mix~-1"};
    char name[PL_ARM_NAME_MAX];
    for (int i = 0; i < PL_CHAPTERS_MAX; i++) {
        pl_chapter_name(i, name);
        assert_int_equal(pl_arm_chapter(name), i);
    }
    assert_int_equal(pl_arm_chapter("mix"), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(pl_arm_chapter(others[i]), -1);
}

PL_TEST(truncated_arm_is_refused_at_every_length)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    OWNED(pl_buf_destroy) pl_buf a = {0};
    make_arm(&arm);
    pl_arm_encode(&arm, &a);
    for (size_t len = 0; len < a.len; len++) {
        OWNED(free_memory) uint8_t *cut = pl_alloc(len + 1);
        memcpy(cut, a.data, len);
        assert_int_not_equal(pl_arm_decode(cut, len, &back), PL_OK);
    }
}

PL_TEST(arm_with_too_few_shards_is_refused)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    OWNED(pl_buf_destroy) pl_buf a = {0};
    make_arm(&arm);
    arm.n_shards = 3;
    pl_arm_encode(&arm, &a);
    assert_fails(pl_arm_decode(a.data, a.len, &back), PL_ERR_PROTO, "3 data shards");
}

PL_TEST(modules_are_classed_by_who_shares_them)
{
    OWNED(pl_arm_clear) pl_arm arm;
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    make_arm(&arm);
    arm.spec.embed_choice = PL_CHOICE_COMMON;
    arm.spec.head_choice = PL_CHOICE_COMMON;
    assert_ok(pl_topology_create(&arm.shape, &arm.spec, &t));
    assert_int_equal(pl_arm_class(t, pl_topology_find_module(t, "embed.E0")),
                     PL_CLASS_EMBED);
    assert_int_equal(pl_arm_class(t, pl_topology_find_module(t, "head.E0")),
                     PL_CLASS_HEAD);
    assert_int_equal(pl_arm_class(t, pl_topology_find_module(t, "L1.E1")),
                     PL_CLASS_LEVEL);
    assert_int_equal(pl_arm_class(t, pl_topology_find_module(t, "B1.E3")),
                     PL_CLASS_PRIVATE);
    pl_topology_destroy(&t);
    arm.spec.replicas = 2; /* with 2 replicas, private blocks are averaged, too */
    assert_ok(pl_topology_create(&arm.shape, &arm.spec, &t));
    assert_int_equal(pl_arm_class(t, pl_topology_find_module(t, "B1.E3")),
                     PL_CLASS_COMMON);
}

PL_TEST(an_impossible_inner_loop_is_refused)
{
    static const struct {
        int batch, micro_batch, decay, first_step, phases, muon_rows, threads;
        pl_status expected;
    } cases[] = {{4, 0, 0, 0, 3, 0, 0, PL_OK},
                 {4, 4, 30, 900, 3, 64, 2, PL_OK},
                 {4, 0, 0, 0, 3, 0, PL_TASK_THREADS_MAX, PL_OK},
                 {4, 5, 0, 0, 3, 0, 0, PL_ERR_PROTO},
                 {4, -1, 0, 0, 3, 0, 0, PL_ERR_PROTO},
                 {4, 0, 31, 0, 3, 0, 0, PL_ERR_PROTO},
                 {4, 0, -1, 0, 3, 0, 0, PL_ERR_PROTO},
                 {4, 0, 0, -1, 3, 0, 0, PL_ERR_PROTO},
                 {0, 0, 0, 0, 3, 0, 0, PL_ERR_PROTO},
                 {4, 0, 0, 0, -1, 0, 0, PL_ERR_PROTO},
                 {4, 0, 0, 0, 3, -1, 0, PL_ERR_PROTO},
                 {4, 0, 0, 0, 3, 0, -1, PL_ERR_PROTO},
                 {4, 0, 0, 0, 3, 0, PL_TASK_THREADS_MAX + 1, PL_ERR_PROTO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWNED(pl_arm_clear) pl_arm arm, back;
        make_arm(&arm);
        arm.inner.batch = cases[i].batch;
        arm.inner.micro_batch = cases[i].micro_batch;
        arm.inner.decay = cases[i].decay;
        arm.inner.first_step = cases[i].first_step;
        arm.inner.phases = cases[i].phases;
        arm.inner.muon_rows = cases[i].muon_rows;
        arm.inner.threads = cases[i].threads;
        assert_int_equal(travel(&arm, &back), cases[i].expected);
        if (cases[i].expected != PL_OK)
            assert_said("that no training can have");
        else
            assert_true(back.inner.first_step == arm.inner.first_step &&
                        back.inner.muon_rows == arm.inner.muon_rows &&
                        back.inner.threads == arm.inner.threads);
    }
}
