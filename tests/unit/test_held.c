/* folder: outer; label: unit
 *
 * Tests the held-out text of paths: which phases score it, how the arm's definition
 * contains it, and how its scores are added. */
#include "outer/outer.h"
#include "tests/support/tiny_arm.h"

#include <math.h>

#include "tests/support/suite.h"

static void hold_text(pl_arm *arm)
{
    assert_true(arm->n_shards >= 2);
    pl_arm_hold(arm);
    arm->held_every = 3;
    arm->held_prefix = 8;
    pl_hash_of("held", "text", 4, &arm->held[0]);
    arm->held_bytes[0] = 100;
}

static void make_arm(pl_arm *arm, pl_topology **t)
{
    tiny_arm(arm, 2, 2, 1, 3);
    arm->spec = (pl_topology_spec){.n_levels = 1, .experts = {2}, .replicas = 2};
    arm->inner = (pl_inner){.batch = 2,
                            .context = 4,
                            .tau = 3,
                            .phases = 3,
                            .lr = 1e-3,
                            .lr_floor = 0.1,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .eps = 1e-8};
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name, "f32");
    for (int c = 0; c < PL_CLASS_COUNT; c++)
        arm->outer.lr[c] = 1;
    arm->outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    assert_ok(pl_codec_options_default("f32", &arm->outer.codec));
    arm->weights[0] = arm->weights[1] = 100;
    assert_ok(pl_topology_create(&arm->shape, &arm->spec, t));
}

PL_TEST(only_the_first_replica_scores_before_every_third_phase)
{
    OWNED(pl_arm_clear) pl_arm arm;
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    make_arm(&arm, &t);
    assert_false(pl_held_scores(&arm, 0, 0, 0));
    hold_text(&arm);
    for (int64_t phase = 0; phase < 7; phase++) {
        assert_int_equal(pl_held_scores(&arm, 0, 0, phase), phase % 3 == 0);
        assert_false(pl_held_scores(&arm, 0, 1, phase));
        /* Path 1 has no held-out text. */
        assert_false(pl_held_scores(&arm, 1, 0, phase));
    }
    assert_false(pl_held_scores(&arm, arm.n_shards, 0, 0));
}

PL_TEST(a_definition_keeps_its_held_out_text)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    OWNED(pl_buf_destroy) pl_buf with = {0}, without = {0};
    make_arm(&arm, &t);
    pl_arm_encode(&arm, &without);
    hold_text(&arm);
    pl_arm_encode(&arm, &with);
    assert_true(with.len > without.len);
    assert_ok(pl_arm_decode(with.data, with.len, &back));
    assert_int_equal(back.held_every, 3);
    assert_int_equal(back.held_prefix, 8);
    assert_true(pl_hash_equal(&back.held[0], &arm.held[0]));
    assert_int_equal(back.held_bytes[0], 100);
    assert_int_equal(back.held_bytes[1], 0);
    pl_arm_clear(&back);
    assert_ok(pl_arm_decode(without.data, without.len, &back));
    assert_int_equal(back.held_every, 0);
    assert_null(back.held);
}

/* A definition that was cut must be refused at every length: if it is cut between two
 * fields, its lists may be too short. A negative held_every must be refused too. */
PL_TEST(a_definition_without_the_text_of_a_path_is_refused)
{
    OWNED(pl_arm_clear) pl_arm arm, back;
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    make_arm(&arm, &t);
    hold_text(&arm);
    pl_arm_encode(&arm, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_not_equal(pl_arm_decode(bytes.data, len, &back), PL_OK);
        pl_arm_clear(&back);
    }
    arm.held_every = -1;
    pl_buf_clear(&bytes);
    pl_arm_encode(&arm, &bytes);
    assert_int_equal(pl_arm_decode(bytes.data, bytes.len, &back), PL_ERR_PROTO);
}

PL_TEST(bits_are_known_when_every_path_with_text_has_a_score)
{
    OWNED(pl_arm_clear) pl_arm arm;
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    pl_held_sum sum = {0};
    make_arm(&arm, &t);
    pl_held_add(&sum, &arm, 0, 50);
    assert_true(pl_held_bits(&sum) == 0); /* the arm has no held-out text */
    hold_text(&arm);
    pl_held_add(&sum, &arm, 0, 100 * log(2));
    pl_held_add(&sum, &arm, 1, 0);
    assert_true(fabs(pl_held_bits(&sum) - 1) < 1e-12);
    arm.held_bytes[1] = 100;
    pl_held_add(&sum, &arm, 1, 0);
    assert_true(pl_held_bits(&sum) == 0);
}
