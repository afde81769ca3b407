/* folder: outer; label: unit
 *
 * Tests for each outer method from which versions a phase starts, and in which round
 * its update is merged. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "tests/support/tiny_arm.h"

#include <math.h>

#include "tests/support/suite.h"

enum { PHASES = 12 };

/* An arm with the topology 2x2 and private block 1. Its slots are embed, L1, B1, L2 and
 * head. */
typedef struct fixture {
    pl_arm arm;
    pl_topology *t;
    int shared; /* the module embed.E0, which all paths use */
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
    tiny_arm(a, 4, 2, 2, PHASES);
    a->spec.private_block[1] = true;
    a->outer.weighted = true;
    for (int p = 0; p < 4; p++)
        a->weights[p] = 1 + p;
    if (pl_topology_create(&a->shape, &a->spec, &f->t) != PL_OK)
        return -1;
    f->shared = pl_topology_find_module(f->t, "embed");
    *state = f;
    return f->shared < 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) fixture *f = *state;
    pl_topology_destroy(&f->t);
    pl_arm_clear(&f->arm);
    return 0;
}

static pl_contract contract(const fixture *f, int module)
{
    return pl_contract_of(&f->arm, f->t, module);
}

static pl_codec_round codec_of(const fixture *f, int module, int path, int64_t round,
                               double norm)
{
    const pl_contract c = contract(f, module);
    return pl_round_codec(&c, path, round, norm);
}

static pl_status mate_of(const fixture *f, int module, int index, int64_t phase,
                         int *mate)
{
    const pl_contract c = contract(f, module);
    return pl_round_mate(&c, index, phase, mate);
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, fixture *f, setup, teardown)

FIXTURE_TEST(contributors_of_a_round_encode_alike)
{
    double total = 0;
    choose(f, PL_METHOD_DILOCO);
    pl_codec_round first = codec_of(f, f->shared, 0, 3, 1.5);
    pl_codec_round later = codec_of(f, f->shared, 0, 4, 1.5);
    assert_true(first.seed != later.seed);
    for (int path = 0; path < 4; path++) {
        pl_codec_round r = codec_of(f, f->shared, path, 3, 1.5);
        assert_true(r.seed == first.seed && r.n_contributors == 4);
        assert_int_equal(r.scale_exponent, first.scale_exponent);
        total += (double)r.weight;
    }
    assert_true(total > 1 - 1e-6 && total < 1 + 1e-6);
}

FIXTURE_TEST(mates_are_mutual)
{
    int mate = -1, back = -1;
    choose(f, PL_METHOD_NOLOCO);
    for (int m = 0; m < pl_topology_n_modules(f->t); m++)
        for (int64_t phase = 0; phase < PHASES; phase++)
            for (int i = 0; i < 4; i++) {
                if (!pl_topology_path_has(f->t, i, m))
                    continue;
                assert_ok(mate_of(f, m, i, phase, &mate));
                assert_ok(mate_of(f, m, mate, phase, &back));
                assert_int_equal(back, i);
                assert_true(pl_topology_path_has(f->t, mate, m));
                assert_int_equal(mate == i, pl_arm_contributors(f->t, m) == 1);
            }
}

FIXTURE_TEST(others_meet_nobody)
{
    int mate = -1;
    choose(f, PL_METHOD_CO2);
    assert_ok(mate_of(f, f->shared, 2, 5, &mate));
    assert_int_equal(mate, 2);
}

FIXTURE_TEST(vectors_of_a_path_are_what_its_method_keeps)
{
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
        assert_ok(pl_codec_options_default("f32", &f->arm.outer.codec));
        f->arm.outer.feedback = true; /* f32 rounds nothing, so there is no residual */
        assert_int_equal(pl_path_layout_of(&f->arm).n_vectors, want[i].n_vectors);
        assert_ok(pl_codec_options_default("i4", &f->arm.outer.codec));
        assert_int_equal(pl_path_layout_of(&f->arm).n_vectors, want[i].n_vectors + 1);
        f->arm.outer.feedback = false;
        assert_int_equal(pl_path_layout_of(&f->arm).residual, -1);
    }
}

/* ---- the rules of rounds, one by one ---- */
/* The functions plain_* say each rule for itself, by arm, topology, module, path and
 * phase. */
typedef struct traits {
    bool gossips; /* contributors take steps in pairs; a home only stores updates */
    bool streams; /* fragments of the model are merged at different times */
    bool arrives; /* each update is merged by itself when it arrives */
    bool delays;  /* an update is used `delay` phases after it was made */
} traits;

static traits traits_of(pl_method method)
{
    return (traits){method == PL_METHOD_NOLOCO, method == PL_METHOD_STREAMING,
                    method == PL_METHOD_DELAYED_NESTEROV, method == PL_METHOD_CO2};
}

static traits plain_traits(const fixture *f, int module)
{
    return traits_of(pl_arm_contributors(f->t, module) == 1
                         ? PL_METHOD_DILOCO
                         : f->arm.outer.method.method);
}

static bool plain_streams(const fixture *f)
{
    return traits_of(f->arm.outer.method.method).streams;
}

static int plain_fragment(const fixture *f, int module)
{
    return pl_topology_module_slot(f->t, module) % f->arm.outer.method.fragments;
}

static int plain_delay(const fixture *f, int module)
{
    return plain_traits(f, module).delays ? f->arm.outer.method.delay : 0;
}

static int64_t plain_of(const fixture *f, int module, int64_t phase)
{
    const pl_method_settings *m = &f->arm.outer.method;
    if (f->arm.n_scored > 0 || pl_arm_is_frozen(&f->arm, module))
        return -1;
    if (!plain_streams(f))
        return phase;
    return phase % m->fragments == plain_fragment(f, module) ? phase / m->fragments
                                                             : -1;
}

static uint64_t plain_base(const fixture *f, int module, int64_t round)
{
    int delay = plain_delay(f, module);
    if (plain_traits(f, module).gossips)
        return 0;
    return round > delay ? (uint64_t)(round - delay) : 0;
}

static uint64_t plain_before(const fixture *f, int module, int64_t phase)
{
    int64_t fragments = f->arm.outer.method.fragments,
            first = plain_fragment(f, module);
    return phase > first ? (uint64_t)((phase - 1 - first) / fragments + 1) : 0;
}

static uint64_t plain_needs(const fixture *f, int module, int64_t phase)
{
    const traits of = plain_traits(f, module);
    const pl_method_settings *m = &f->arm.outer.method;
    bool alone = pl_arm_contributors(f->t, module) == 1;
    if (pl_arm_is_frozen(&f->arm, module))
        return 0;
    bool waits_first = m->overlap == 0 || (alone && m->fragments == 1);
    if (plain_streams(f))
        return plain_before(f, module, waits_first ? phase : phase - 1);
    if (of.gossips || of.arrives)
        return 0;
    return plain_base(f, module, phase);
}

static uint64_t plain_takes(const fixture *f, int module, int64_t phase)
{
    if (!plain_streams(f) || phase < 1 || pl_arm_contributors(f->t, module) == 1 ||
        plain_of(f, module, phase - 1) < 0)
        return 0;
    return (uint64_t)plain_of(f, module, phase - 1) + 1;
}

static uint64_t plain_count(const fixture *f, int module)
{
    uint64_t phases = (uint64_t)f->arm.inner.phases;
    if (f->arm.n_scored > 0 || pl_arm_is_frozen(&f->arm, module))
        return 0;
    if (plain_streams(f))
        return plain_before(f, module, f->arm.inner.phases);
    if (plain_traits(f, module).arrives)
        return phases * (uint64_t)pl_arm_contributors(f->t, module);
    return phases;
}

static int plain_window(const fixture *f, int module)
{
    const traits of = plain_traits(f, module);
    if (of.gossips)
        return f->arm.inner.phases;
    if (of.arrives)
        return 2 * pl_arm_contributors(f->t, module);
    return plain_delay(f, module) + 1;
}

static int plain_contributors(const fixture *f, int module)
{
    return plain_traits(f, module).arrives ? 1 : pl_arm_contributors(f->t, module);
}

static int plain_quorum(const fixture *f, int module)
{
    const traits of = plain_traits(f, module);
    int all = plain_contributors(f, module);
    bool rounds = !of.gossips && !of.streams && !of.arrives && !of.delays;
    int least = (int)ceil(f->arm.outer.quorum * all - 1e-9);
    if (!rounds || plain_streams(f) || !(f->arm.outer.quorum > 0) || least >= all)
        return all;
    return least > 1 ? least : 1;
}

/* The version that a worker fetches before a phase; -2: none. */
static int64_t plain_start(const fixture *f, int module, int64_t phase)
{
    int64_t round = plain_of(f, module, phase);
    if (plain_traits(f, module).arrives)
        return PL_NEWEST;
    if (phase == 0 || pl_arm_is_frozen(&f->arm, module))
        return 0;
    if (round < 0)
        return -2;
    uint64_t number = plain_base(f, module, round);
    if (plain_takes(f, module, phase) == number && number > 0)
        return -2;
    return (int64_t)number;
}

static double plain_share(const fixture *f, int module, int path)
{
    double total = 0;
    for (int i = 0; i < pl_topology_module_n_paths(f->t, module); i++)
        total += f->arm.weights[pl_topology_module_path(f->t, module, i)];
    if (!f->arm.outer.weighted || total <= 0)
        return 1.0 / pl_arm_contributors(f->t, module);
    return f->arm.weights[path] / (total * pl_topology_n_replicas(f->t));
}

static pl_codec_round plain_codec(const fixture *f, int module, int path, int64_t round,
                                  double norm)
{
    int slot = pl_topology_module_slot(f->t, module);
    int contributors = plain_contributors(f, module);
    double all = pl_arm_contributors(f->t, module);
    uint64_t stream = pl_stream(f->arm.name, (uint64_t)module, f->arm.seed);
    bool arrives = contributors < all;
    return (pl_codec_round){
        .seed = pl_stream("sketch", arrives ? 0 : (uint64_t)round, stream),
        .scale_exponent =
            pl_codec_exponent(norm, pl_topology_slot(f->t, slot)->n_params),
        .n_contributors = contributors,
        .weight = (float)(plain_share(f, module, path) * (arrives ? all : 1))};
}

static int plain_lateness(const fixture *f, int module)
{
    return plain_traits(f, module).gossips ? 2 : 0;
}

static bool plain_predicts(const fixture *f, int module)
{
    return f->arm.n_scored == 0 && !pl_arm_is_frozen(&f->arm, module) &&
           pl_arm_contributors(f->t, module) == 1 && !plain_streams(f) &&
           f->arm.outer.momentum[PL_CLASS_PRIVATE] == 0;
}

/* The version from which on garbage collection keeps versions. */
static uint64_t plain_oldest(const fixture *f, int module, uint64_t head,
                             uint64_t needed)
{
    const traits all = traits_of(f->arm.outer.method.method);
    uint64_t window = (uint64_t)pl_arm_contributors(f->t, module) *
                      (uint64_t)(f->arm.outer.staleness + 2);
    uint64_t base = plain_base(f, module, (int64_t)head);
    if (all.arrives && needed != UINT64_MAX)
        needed = head > window ? head - window : 0;
    if (all.delays && head < plain_count(f, module) && base < needed)
        needed = base;
    return needed;
}

/* Fails unless a number of the contract is what the plain rule says; `phase` is -1 for
 * numbers that do not depend on it. */
static void same(const fixture *f, const pl_contract *c, int64_t phase,
                 const char *what, double got, double want)
{
    if (got != want)
        fail_msg("%s: %s of %s in phase %lld is %.17g, but the rule says %.17g",
                 pl_method_name(f->arm.outer.method.method), what, c->name,
                 (long long)phase, got, want);
}

static void compare_numbers(const fixture *f, const pl_contract *c, int m)
{
    const traits of = plain_traits(f, m);
    const pl_outer *o = &f->arm.outer;
    const bool keeps_change =
        o->down.codec[PL_ROLE_MLP] > PL_CODEC_F32 && pl_arm_contributors(f->t, m) > 1;
    same(f, c, -1, "n_holders", c->n_holders, pl_arm_contributors(f->t, m));
    same(f, c, -1, "n_contributors", c->n_contributors, plain_contributors(f, m));
    same(f, c, -1, "quorum", c->quorum, plain_quorum(f, m));
    same(f, c, -1, "window", c->window, plain_window(f, m));
    same(f, c, -1, "n_rounds", (double)c->n_rounds, (double)plain_count(f, m));
    same(f, c, -1, "n_vectors", c->n_vectors, of.gossips && o->own_consensus ? 2 : 1);
    same(f, c, -1, "predicts", c->predicts, plain_predicts(f, m));
    same(f, c, -1, "by_arrival", c->by_arrival, of.arrives);
    same(f, c, -1, "keep_late", c->keep_late, plain_lateness(f, m));
    same(f, c, -1, "keeps_first", c->keeps_first, traits_of(o->method.method).gossips);
    same(f, c, -1, "homomorphic", c->homomorphic, pl_codec_is_homomorphic(&o->codec));
    same(f, c, -1, "keeps_change", c->keeps_change, keeps_change);
    for (int i = 0; i < pl_topology_module_n_paths(f->t, m); i++) {
        const int path = pl_topology_module_path(f->t, m, i);
        same(f, c, -1, "share", pl_round_share(c, path), plain_share(f, m, path));
        for (int64_t round = 0; round < 3; round++) {
            pl_codec_round got = pl_round_codec(c, path, round, 1.5),
                           want = plain_codec(f, m, path, round, 1.5);
            assert_true(got.seed == want.seed && got.weight == want.weight);
            assert_int_equal(got.scale_exponent, want.scale_exponent);
            assert_int_equal(got.n_contributors, want.n_contributors);
        }
    }
}

static void compare_phases(const fixture *f, const pl_contract *c, int m)
{
    const int64_t last = f->arm.inner.phases - 1;
    for (int64_t phase = 0; phase <= last; phase++) {
        const int64_t round = plain_of(f, m, phase);
        const double needs = (double)plain_needs(f, m, phase),
                     takes = (double)plain_takes(f, m, phase),
                     start = (double)plain_start(f, m, phase);
        same(f, c, phase, "round", (double)pl_round_of(c, phase), (double)round);
        same(f, c, phase, "needs", (double)pl_round_needs(c, phase), needs);
        same(f, c, phase, "takes", (double)pl_round_takes(c, phase), takes);
        same(f, c, phase, "start", (double)pl_round_start(c, phase), start);
        for (int64_t r = -1; r <= PHASES; r++) {
            assert_int_equal(pl_round_has(c, r, phase), c->by_arrival || r == round);
            if (!c->by_arrival)
                same(f, c, r, "base", (double)pl_round_base(c, r),
                     (double)plain_base(f, m, r));
            for (uint64_t base = 0; base <= PHASES; base += 3)
                assert_int_equal(pl_round_accepts(c, r, base, 6),
                                 base <= 6 &&
                                     (c->by_arrival || base == plain_base(f, m, r)));
        }
        for (uint64_t head = 0; head <= PHASES; head++) {
            const uint64_t need = pl_round_needs(c, phase);
            const uint64_t needed = phase == last ? UINT64_MAX
                                    : need < head ? need
                                                  : head;
            /* the newest version is always kept */
            const uint64_t got = pl_round_oldest(c, head, needed),
                           want = plain_oldest(f, m, head, needed);
            same(f, c, phase, "oldest", (double)(got < head ? got : head),
                 (double)(want < head ? want : head));
        }
    }
}

static void compare_modules(const fixture *f)
{
    OWNED(free_memory) pl_contract *all = pl_contracts_create(&f->arm, f->t);
    for (int m = 0; m < pl_topology_n_modules(f->t); m++) {
        char name[96];
        pl_arm_module_name(&f->arm, f->t, m, name);
        assert_string_equal(all[m].name, name);
        compare_numbers(f, &all[m], m);
        compare_phases(f, &all[m], m);
    }
}

/* Compares under every method, with the settings that change its rounds. */
static void compare_methods(fixture *f)
{
    for (int method = 0; method < PL_METHOD_COUNT; method++)
        for (int variant = 0; pl_method_name((pl_method)method) && variant < 12;
             variant++) {
            pl_outer *o = &f->arm.outer;
            choose(f, (pl_method)method);
            o->method.fragments = method == PL_METHOD_STREAMING ? 1 + variant % 3 : 1;
            o->method.overlap = variant / 3 % 2;
            o->method.delay = traits_of((pl_method)method).delays
                                  ? variant % 4
                                  : o->method.delay * (1 + variant % 3);
            o->own_consensus = variant % 2;
            o->weighted = variant / 2 % 2;
            o->staleness = variant % 4;
            o->quorum = variant % 3 * 0.3;
            o->momentum[PL_CLASS_PRIVATE] = variant / 6 * 0.5;
            assert_ok(
                pl_codec_options_default(variant % 4 ? "f32" : "sketch16", &o->codec));
            assert_ok(pl_codec_options_default(variant % 5 ? "f32" : "i8", &o->down));
            compare_modules(f);
        }
}

FIXTURE_TEST(contract_has_the_rules_of_every_method_and_topology)
{
    static const struct {
        int experts[2], replicas;
        bool private_block;
    } shapes[] = {{{2, 2}, 1, true},  {{2, 2}, 2, false}, {{1, 1}, 3, true},
                  {{1, 1}, 1, false}, {{4, 1}, 1, false}, {{3, 2}, 2, true}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        pl_topology_spec *spec = &f->arm.spec;
        memcpy(spec->experts, shapes[i].experts, sizeof shapes[i].experts);
        spec->replicas = shapes[i].replicas;
        spec->private_block[1] = shapes[i].private_block;
        pl_topology_destroy(&f->t);
        pl_free(f->arm.shards);
        pl_free(f->arm.weights);
        tiny_shards(&f->arm, spec->experts[0] * spec->experts[1]);
        for (int p = 0; p < f->arm.n_shards; p++)
            f->arm.weights[p] = 1 + p;
        assert_ok(pl_topology_create(&f->arm.shape, spec, &f->t));
        compare_methods(f);
        int frozen[] = {0, 2};
        f->arm.frozen = frozen;
        f->arm.n_frozen = pl_topology_n_modules(f->t) > 3 ? 2 : 1;
        compare_methods(f);
        f->arm.frozen = NULL;
        f->arm.n_frozen = 0;
    }
    choose(f, PL_METHOD_DILOCO);
    f->arm.n_scored = 7;
    f->arm.inner.phases = 1;
    compare_modules(f);
    assert_int_equal(pl_path_state_bytes(&f->arm, 1000), 7 * sizeof(double));
}

FIXTURE_TEST(states_are_uploaded_every_so_many_phases_and_at_the_end)
{
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

FIXTURE_TEST(only_phases_that_can_be_repeated_may_keep_their_states)
{
    pl_outer *outer = &f->arm.outer;
    outer->state_every = 4;
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        const traits of = traits_of((pl_method)method);
        const char *name = pl_method_name((pl_method)method);
        if (!name)
            continue; /* the number of a method that was removed */
        choose(f, (pl_method)method);
        bool repeats = !of.gossips && !of.arrives;
        assert_int_equal(pl_state_every_check(outer), repeats ? PL_OK : PL_ERR_CONFIG);
        if (!repeats)
            assert_said(name);
    }
    choose(f, PL_METHOD_DILOCO);
    outer->state = PL_STATE_LOCAL;
    assert_int_equal(pl_state_every_check(outer), PL_ERR_CONFIG);
    outer->state_every = 1;
    assert_ok(pl_state_every_check(outer));
    outer->state_every = -1;
    assert_int_equal(pl_state_every_check(outer), PL_ERR_CONFIG);
}
