/* folder: outer; label: unit
 *
 * Tests for each outer method from which versions a phase starts, and in which round
 * its update is merged. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "tests/support/tiny_arm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PHASES = 12 };

/* An arm with the topology 2x2 and private block 1. Its slots are embed, L1, B1, L2 and
 * head. */
typedef struct fixture {
    pl_arm arm;
    pl_topology *t;
    /* The modules embed.E0, which all paths use, and B1.E0, which only the first path
     * uses. */
    int shared, alone;
} fixture;

static void choose(fixture *f, pl_method method)
{
    f->arm.outer.method = pl_method_defaults(method);
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        f->arm.outer.lr[c] = f->arm.outer.method.lr;
        f->arm.outer.momentum[c] = f->arm.outer.method.momentum;
    }
}

static int setup(void **state)
{
    fixture *f = pl_alloc(sizeof *f);
    pl_arm *a = &f->arm;
    pl_copy_text(a->name, sizeof a->name, "mix");
    a->shape = tiny_shape(4);
    a->spec = (pl_topology_spec){.n_levels = 2, .experts = {2, 2}, .replicas = 1};
    a->spec.private_block[1] = true;
    a->inner = (pl_inner){.batch = 2, .context = 16, .tau = 12, .phases = PHASES};
    a->outer.weighted = true;
    tiny_shards(a, 4);
    for (int p = 0; p < 4; p++)
        a->weights[p] = 1 + p;
    if (pl_topology_create(&a->shape, &a->spec, &f->t) != PL_OK)
        return -1;
    f->shared = pl_topology_find_module(f->t, "embed");
    f->alone = pl_topology_find_module(f->t, "B1.E0");
    *state = f;
    return f->shared < 0 || f->alone < 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pl_topology_destroy(&f->t);
    pl_arm_clear(&f->arm);
    pl_free(f);
    return 0;
}

static int64_t round_of(const fixture *f, int module, int64_t phase)
{
    return pl_round_of(&f->arm, f->t, module, phase);
}
static int base(const fixture *f, int module, int64_t round)
{
    return (int)pl_round_base(&f->arm, f->t, module, round);
}
static int needs(const fixture *f, int module, int64_t phase)
{
    return (int)pl_round_needs(&f->arm, f->t, module, phase);
}
static int takes(const fixture *f, int module, int64_t phase)
{
    return (int)pl_round_takes(&f->arm, f->t, module, phase);
}

static void phase_is_a_round_but_in_streaming(void **state)
{
    fixture *f = *state;
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        choose(f, (pl_method)method);
        for (int64_t phase = 0; method != PL_METHOD_STREAMING && phase < PHASES;
             phase++)
            for (int m = 0; m < pl_topology_n_modules(f->t); m++) {
                assert_int_equal(round_of(f, m, phase), phase);
                assert_int_equal(takes(f, m, phase), 0);
            }
    }
}

static void methods_without_delay_start_from_the_phase_before(void **state)
{
    fixture *f = *state;
    static const pl_method methods[] = {PL_METHOD_DILOCO, PL_METHOD_FEDAVG,
                                        PL_METHOD_HEAVY_BALL, PL_METHOD_ISO};
    for (size_t i = 0; i < 4; i++) {
        choose(f, methods[i]);
        for (int phase = 0; phase < PHASES; phase++) {
            assert_int_equal(base(f, f->shared, phase), phase);
            assert_int_equal(needs(f, f->shared, phase), phase);
        }
        assert_int_equal(pl_round_window(&f->arm, f->t, f->shared), 1);
    }
}

static void delayed_methods_start_so_many_versions_ago(void **state)
{
    fixture *f = *state;
    for (int delay = 0; delay < 4; delay++) {
        choose(f, PL_METHOD_CO2);
        f->arm.outer.method.delay = delay;
        for (int phase = 0; phase < PHASES; phase++) {
            int want = phase > delay ? phase - delay : 0;
            assert_int_equal(base(f, f->shared, phase), want);
            assert_int_equal(needs(f, f->shared, phase), want);
        }
        assert_int_equal(pl_round_window(&f->arm, f->t, f->shared), delay + 1);
    }
}

static void noloco_waits_for_no_version(void **state)
{
    fixture *f = *state;
    choose(f, PL_METHOD_NOLOCO);
    for (int phase = 0; phase < PHASES; phase++) {
        assert_int_equal(base(f, f->shared, phase), 0);
        assert_int_equal(needs(f, f->shared, phase), 0);
    }
    assert_int_equal(pl_round_window(&f->arm, f->t, f->shared), PHASES);
}

static void module_with_one_contributor_is_diloco(void **state)
{
    fixture *f = *state;
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        choose(f, (pl_method)method);
        assert_int_equal(pl_arm_contributors(f->t, f->alone), 1);
        assert_int_equal(pl_round_contributors(&f->arm, f->t, f->alone), 1);
        assert_int_equal(pl_round_window(&f->arm, f->t, f->alone), 1);
        for (int phase = 0; phase < PHASES; phase++) {
            assert_int_equal(base(f, f->alone, phase), phase);
            assert_int_equal(takes(f, f->alone, phase), 0);
            if (method != PL_METHOD_STREAMING)
                assert_int_equal(needs(f, f->alone, phase), phase);
        }
        if (method != PL_METHOD_STREAMING)
            assert_int_equal(pl_round_count(&f->arm, f->t, f->alone), PHASES);
    }
}

static void fragments_are_sent_in_turn_and_taken_up_next(void **state)
{
    fixture *f = *state;
    choose(f, PL_METHOD_STREAMING);
    for (int fragments = 1; fragments <= 3; fragments++) {
        f->arm.outer.method.fragments = fragments;
        for (int m = 0; m < pl_topology_n_modules(f->t); m++) {
            int sent = 0, own = pl_topology_module_slot(f->t, m) % fragments;
            bool company = pl_arm_contributors(f->t, m) > 1;
            for (int phase = 0; phase < PHASES; phase++) {
                bool follows = phase > 0 && (phase - 1) % fragments == own;
                assert_int_equal(takes(f, m, phase), company && follows ? sent : 0);
                bool sends = phase % fragments == own;
                assert_int_equal(round_of(f, m, phase), sends ? sent : -1);
                sent += sends;
            }
            assert_int_equal(pl_round_count(&f->arm, f->t, m), sent);
            assert_int_equal(sent, PHASES / fragments);
        }
    }
}

/* Shows which versions a phase of streaming waits for. With an overlap, it begins
 * without the updates that the previous phase sent. Without an overlap it needs them.
 * No phase waits for more than was sent. */
static void overlap_is_what_a_phase_does_not_wait_for(void **state)
{
    fixture *f = *state;
    choose(f, PL_METHOD_STREAMING);
    for (int fragments = 1; fragments <= 3; fragments++)
        for (int overlap = 0; overlap < 2; overlap++) {
            f->arm.outer.method.fragments = fragments;
            f->arm.outer.method.overlap = overlap;
            for (int m = 0; m < pl_topology_n_modules(f->t); m++) {
                int sent = 0, before = 0;
                bool late = overlap > 0 &&
                            !(fragments == 1 && pl_arm_contributors(f->t, m) == 1);
                for (int phase = 0; phase < PHASES; phase++) {
                    assert_int_equal(needs(f, m, phase), late ? before : sent);
                    before = sent;
                    sent += round_of(f, m, phase) >= 0;
                }
            }
        }
}

static void delayed_nesterov_counts_arrivals(void **state)
{
    fixture *f = *state;
    choose(f, PL_METHOD_DELAYED_NESTEROV);
    assert_int_equal(pl_round_contributors(&f->arm, f->t, f->shared), 1);
    assert_int_equal(pl_round_count(&f->arm, f->t, f->shared), 4 * PHASES);
    assert_int_equal(needs(f, f->shared, 7), 0);
    assert_true(pl_round_window(&f->arm, f->t, f->shared) >= 4);
}

static void contributors_of_a_round_encode_alike(void **state)
{
    fixture *f = *state;
    double total = 0;
    choose(f, PL_METHOD_DILOCO);
    pl_codec_round first = pl_round_codec(&f->arm, f->t, f->shared, 0, 3, 1.5);
    pl_codec_round later = pl_round_codec(&f->arm, f->t, f->shared, 0, 4, 1.5);
    assert_true(first.seed != later.seed);
    for (int path = 0; path < 4; path++) {
        pl_codec_round r = pl_round_codec(&f->arm, f->t, f->shared, path, 3, 1.5);
        assert_true(r.seed == first.seed && r.n_contributors == 4);
        assert_int_equal(r.scale_exponent, first.scale_exponent);
        total += (double)r.weight;
    }
    assert_true(total > 1 - 1e-6 && total < 1 + 1e-6);
}

/* Shows that with delayed-nesterov an update is encoded without the number of its
 * round. Each update that arrives is a round of its own, so its sender cannot know the
 * number. */
static void arrival_encodes_alone(void **state)
{
    fixture *f = *state;
    double total = 0;
    choose(f, PL_METHOD_DELAYED_NESTEROV);
    pl_codec_round now = pl_round_codec(&f->arm, f->t, f->shared, 0, 3, 1.5);
    for (int path = 0; path < 4; path++) {
        pl_codec_round r = pl_round_codec(&f->arm, f->t, f->shared, path, 9, 1.5);
        assert_true(r.seed == now.seed && r.n_contributors == 1);
        total += (double)r.weight;
    }
    assert_true(total > 4 - 1e-5 && total < 4 + 1e-5);
}

static void mates_are_mutual(void **state)
{
    fixture *f = *state;
    int mate = -1, back = -1;
    choose(f, PL_METHOD_NOLOCO);
    for (int m = 0; m < pl_topology_n_modules(f->t); m++)
        for (int64_t phase = 0; phase < PHASES; phase++)
            for (int i = 0; i < 4; i++) {
                if (!pl_topology_path_has(f->t, i, m))
                    continue;
                assert_int_equal(pl_round_mate(&f->arm, f->t, m, i, phase, &mate),
                                 PL_OK);
                assert_int_equal(pl_round_mate(&f->arm, f->t, m, mate, phase, &back),
                                 PL_OK);
                assert_int_equal(back, i);
                assert_true(pl_topology_path_has(f->t, mate, m));
                assert_int_equal(mate == i, pl_arm_contributors(f->t, m) == 1);
            }
}

static void others_meet_nobody(void **state)
{
    fixture *f = *state;
    int mate = -1;
    choose(f, PL_METHOD_CO2);
    assert_int_equal(pl_round_mate(&f->arm, f->t, f->shared, 2, 5, &mate), PL_OK);
    assert_int_equal(mate, 2);
}

static void vectors_of_a_path_are_what_its_method_keeps(void **state)
{
    fixture *f = *state;
    static const struct {
        pl_method method;
        int n_vectors; /* number of vectors if there is no residual */
    } want[] = {{PL_METHOD_DILOCO, 2},
                {PL_METHOD_FEDAVG, 2},
                {PL_METHOD_CO2, 2},
                {PL_METHOD_NOLOCO, 5},
                {PL_METHOD_STREAMING, 3}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        choose(f, want[i].method);
        assert_int_equal(pl_codec_options_default("f32", &f->arm.outer.codec), PL_OK);
        f->arm.outer.feedback = true; /* f32 rounds nothing, so there is no residual */
        assert_int_equal(pl_path_layout_of(&f->arm).n_vectors, want[i].n_vectors);
        assert_int_equal(pl_codec_options_default("i4", &f->arm.outer.codec), PL_OK);
        assert_int_equal(pl_path_layout_of(&f->arm).n_vectors, want[i].n_vectors + 1);
        f->arm.outer.feedback = false;
        assert_int_equal(pl_path_layout_of(&f->arm).residual, -1);
    }
}

static void an_arm_that_scores_makes_no_versions(void **state)
{
    fixture *f = *state;
    const int modules[] = {f->shared, f->alone};
    choose(f, PL_METHOD_DILOCO);
    f->arm.inner.phases = 1;
    f->arm.n_scored = 7;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(round_of(f, modules[i], 0), -1);
        assert_int_equal(needs(f, modules[i], 0), 0);
        assert_int_equal(pl_round_count(&f->arm, f->t, modules[i]), 0);
        assert_false(pl_round_predicts(&f->arm, f->t, modules[i]));
    }
    assert_int_equal(pl_path_state_bytes(&f->arm, 1000), 7 * sizeof(double));
}

static void states_are_uploaded_every_so_many_phases_and_at_the_end(void **state)
{
    fixture *f = *state;
    for (int64_t phase = 1; phase <= PHASES; phase++)
        for (int every = 0; every < 2; every++) {
            f->arm.outer.state_every = every;
            assert_true(pl_phase_uploads(&f->arm, phase));
        }
    f->arm.outer.state_every = 5;
    for (int64_t phase = 1; phase <= PHASES; phase++)
        assert_int_equal(pl_phase_uploads(&f->arm, phase),
                         phase == 5 || phase == 10 || phase == PHASES);
}

static void only_phases_that_can_be_repeated_may_keep_their_states(void **state)
{
    fixture *f = *state;
    pl_outer *outer = &f->arm.outer;
    outer->state_every = 4;
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        const pl_method_traits *of = pl_traits((pl_method)method);
        if (!of->name)
            continue; /* the number of a method that was removed */
        choose(f, (pl_method)method);
        bool repeats = !of->gossips && !of->arrives;
        assert_int_equal(pl_state_every_check(outer), repeats ? PL_OK : PL_ERR_CONFIG);
        if (!repeats)
            assert_non_null(strstr(pl_last_error(), of->name));
    }
    choose(f, PL_METHOD_DILOCO);
    outer->state = PL_STATE_LOCAL;
    assert_int_equal(pl_state_every_check(outer), PL_ERR_CONFIG);
    outer->state_every = 1;
    assert_int_equal(pl_state_every_check(outer), PL_OK);
    outer->state_every = -1;
    assert_int_equal(pl_state_every_check(outer), PL_ERR_CONFIG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(phase_is_a_round_but_in_streaming),
        TEST(methods_without_delay_start_from_the_phase_before),
        TEST(delayed_methods_start_so_many_versions_ago),
        TEST(noloco_waits_for_no_version),
        TEST(module_with_one_contributor_is_diloco),
        TEST(fragments_are_sent_in_turn_and_taken_up_next),
        TEST(overlap_is_what_a_phase_does_not_wait_for),
        TEST(delayed_nesterov_counts_arrivals),
        TEST(contributors_of_a_round_encode_alike),
        TEST(arrival_encodes_alone),
        TEST(mates_are_mutual),
        TEST(others_meet_nobody),
        TEST(an_arm_that_scores_makes_no_versions),
        TEST(vectors_of_a_path_are_what_its_method_keeps),
        TEST(states_are_uploaded_every_so_many_phases_and_at_the_end),
        TEST(only_phases_that_can_be_repeated_may_keep_their_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
