/* folder: history; label: unit
 *
 * Tests which phases and versions change if documents are forgotten, and with which
 * phase the training of each path must begin again. The second answer depends on what
 * the store has kept. */
#include "history/history.h"
#include "tests/support/tiny_arm.h"
#include "tests/support/suite.h"

enum { PHASES = 6, PATHS = 4 };

/* 2x2 paths. Path p uses L1.E(p / 2) and L2.E(p % 2); all paths share embed and
 * head. */
typedef struct fixture {
    pl_arm arm;
    pl_topology *t;
    int64_t draws[PATHS];
    pl_affected a;
    bool lacks[PL_KEPT_UPDATES + 1]; /* kinds of data that the store has not kept */
    /* The store lacks this version of every module; 0: it has all versions. */
    int64_t gone;
} fixture;

static bool kept(void *context, pl_kept what, int index, int64_t number)
{
    const fixture *f = context;
    (void)index;
    assert_true(number > 0 && number <= PHASES);
    return !f->lacks[what] && !(what == PL_KEPT_VERSION && number == f->gone);
}

static int setup(void **state)
{
    fixture *f = pl_alloc(sizeof *f);
    pl_arm *a = &f->arm;
    tiny_arm(a, 4, 2, 2, PHASES);
    a->outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    for (int p = 0; p < PATHS; p++)
        f->draws[p] = PHASES;
    *state = f;
    return pl_topology_create(&a->shape, &a->spec, &f->t) == PL_OK ? 0 : -1;
}

static int teardown(void **state)
{
    OWNED(free_memory) fixture *f = *state;
    pl_affected_clear(&f->a);
    pl_topology_destroy(&f->t);
    pl_arm_clear(&f->arm);
    return 0;
}

static void find(fixture *f)
{
    pl_affected_clear(&f->a);
    pl_affected_find(&f->arm, f->t, f->draws, kept, f, &f->a);
}

static void assert_phases(const int64_t *got, int64_t p0, int64_t p1, int64_t p2,
                          int64_t p3)
{
    const int64_t want[PATHS] = {p0, p1, p2, p3};
    for (int p = 0; p < PATHS; p++)
        assert_int_equal(got[p], want[p]);
}

static int64_t stays(const fixture *f, const char *module)
{
    return f->a.stays[pl_topology_find_module(f->t, module)];
}

#define AFFECTED(name) PL_TEST_ON(name, fixture *f, setup, teardown)

AFFECTED(without_a_draw_everything_stays)
{
    f->lacks[PL_KEPT_STATE] = f->lacks[PL_KEPT_STEP] = true;
    find(f);
    assert_phases(f->a.changes, PHASES, PHASES, PHASES, PHASES);
    assert_phases(f->a.begins, PHASES, PHASES, PHASES, PHASES);
    assert_int_equal(stays(f, "embed"), PHASES);
}

AFFECTED(a_change_reaches_the_others_one_phase_later)
{
    f->draws[0] = 3;
    find(f);
    assert_phases(f->a.changes, 3, 4, 4, 4);
    assert_phases(f->a.begins, 3, 4, 4, 4);
    assert_int_equal(stays(f, "embed"), 3);
    assert_int_equal(stays(f, "L1.E0"), 3);
    assert_int_equal(stays(f, "L1.E1"), 4); /* paths 2 and 3 do not draw the document */
}

AFFECTED(a_draw_of_the_last_phase_reaches_no_other_path)
{
    f->draws[3] = PHASES - 1;
    find(f);
    assert_phases(f->a.changes, PHASES, PHASES, PHASES, PHASES - 1);
    assert_int_equal(stays(f, "L1.E0"), PHASES);
    assert_int_equal(stays(f, "L1.E1"), PHASES - 1);
}

AFFECTED(paths_without_a_common_module_are_left_alone)
{
    pl_topology_destroy(&f->t);
    f->arm.spec = (pl_topology_spec){.n_levels = 1, .experts = {PATHS}, .replicas = 1};
    f->arm.spec.embed_choice = f->arm.spec.head_choice = PL_CHOICE_PRIVATE;
    assert_ok(pl_topology_create(&f->arm.shape, &f->arm.spec, &f->t));
    f->draws[1] = 0;
    find(f);
    assert_phases(f->a.changes, PHASES, 0, PHASES, PHASES);
    assert_int_equal(stays(f, "L1.E1"), 0);
    assert_int_equal(stays(f, "L1.E2"), PHASES);
}

AFFECTED(without_states_phases_are_repeated_but_versions_stay)
{
    f->draws[0] = 3;
    f->lacks[PL_KEPT_STATE] = true;
    find(f);
    assert_phases(f->a.changes, 3, 4, 4, 4);
    assert_phases(f->a.begins, 0, 0, 0, 0);
    assert_int_equal(stays(f, "embed"), 3);
}

AFFECTED(without_updates_all_contributors_repeat_the_round)
{
    f->draws[0] = 3;
    f->lacks[PL_KEPT_UPDATES] = true;
    find(f);
    assert_phases(f->a.begins, 3, 3, 3, 3);
    assert_int_equal(stays(f, "L1.E1"), 3);
}

AFFECTED(without_momentum_modules_go_back_to_the_first_version)
{
    f->draws[0] = 3;
    f->lacks[PL_KEPT_STEP] = f->lacks[PL_KEPT_UPDATES] = true;
    find(f);
    assert_phases(f->a.begins, 0, 0, 0, 0);
    assert_int_equal(stays(f, "embed"), 0);
}

AFFECTED(a_phase_that_lacks_its_version_is_made_again)
{
    f->draws[0] = 3;
    /* Without the states of paths, training begins again at phase 0. */
    f->lacks[PL_KEPT_STATE] = true;
    f->gone = 2; /* the repeated phase 2 begins with this version */
    find(f);
    assert_phases(f->a.begins, 0, 0, 0, 0);
    assert_int_equal(stays(f, "embed"), 0);
    f->lacks[PL_KEPT_STATE] = false; /* phase 3 starts with a state and version 3 */
    find(f);
    assert_phases(f->a.begins, 3, 4, 4, 4);
}

AFFECTED(paths_with_own_parameters_begin_anew)
{
    f->arm.outer.method = pl_method_defaults(PL_METHOD_NOLOCO);
    f->draws[2] = 5;
    find(f);
    assert_phases(f->a.begins, 0, 0, 0, 0);
    assert_int_equal(stays(f, "L1.E0"), 0);
}
