/* folder: history; label: unit
 *
 * Tests what a store's contributions tell about the samples that each path was trained
 * on. A phase that is missing, is recorded twice, or has wrong samples must be
 * reported. */
#include "history/history.h"
#include "tests/support/scratch.h"
#include "tests/support/store_fixture.h"
#include "tests/support/tiny_arm.h"

enum { PATHS = 2, PHASE = 6 }; /* a phase has PHASE samples: tau 3, batch 2 */

typedef struct world {
    pl_store *store;
    pl_arm arm;
    pl_topology *topology;
    pl_coverage paths[PATHS];
} world;

static int setup(void **state)
{
    world *w = pl_alloc(sizeof *w);
    assert_int_equal(make_scratch(NULL), 0);
    tiny_arm(&w->arm, 2, PATHS, 1, 3);
    w->arm.spec = (pl_topology_spec){.n_levels = 1, .experts = {2}, .replicas = 1};
    w->arm.inner = (pl_inner){.batch = 2, .tau = 3, .phases = 3};
    w->arm.outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    w->arm.weights[0] = w->arm.weights[1] = 100;
    *state = w;
    assert_ok(pl_topology_create(&w->arm.shape, &w->arm.spec, &w->topology));
    w->store = open_store(scratch, PL_STORE_CREATE);
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) world *w = *state;
    pl_store_close(&w->store);
    pl_topology_destroy(&w->topology);
    pl_arm_clear(&w->arm);
    return remove_scratch(NULL);
}

static pl_contribution contribution(int path, int64_t phase)
{
    return (pl_contribution){.path = path,
                             .phase = phase,
                             .work.first_sample = (uint64_t)phase * PHASE,
                             .work.n_samples = PHASE};
}

static void put_version(world *w, int module, uint64_t number,
                        const pl_contribution *list, int n)
{
    pl_version v = {.number = number, .n_contributions = n}, head;
    pl_txn *txn = begin(w->store);
    pl_arm_module_name(&w->arm, w->topology, module, v.module);
    if (number > 0) {
        assert_ok(pl_store_head(w->store, v.module, &head));
        v.parent = head.params;
        pl_version_clear(&head);
    }
    v.contributions = (pl_contribution *)(uintptr_t)list;
    assert_ok(pl_txn_put_blob(txn, &number, sizeof number, &v.params));
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, 0}));
    assert_ok(pl_txn_commit(&txn));
}

static void put_path(world *w, int path, int64_t phases)
{
    pl_path_state state = {.phase = phases,
                           .work.n_samples = (uint64_t)phases * PHASE,
                           .work.n_tokens = (uint64_t)phases * 50};
    pl_txn *txn = begin(w->store);
    pl_arm_path_name(&w->arm, w->topology, path, 0, state.name);
    assert_ok(pl_txn_put_path(txn, &state));
    assert_ok(pl_txn_commit(&txn));
}

/* Exchanges the samples of both rounds. */
static void swapped(pl_contribution *list, int *n)
{
    list[*n - 1].work.first_sample = PHASE - list[*n - 1].work.first_sample;
}

/* Makes two rounds of all modules with contributions of both paths. `change` may alter
 * the contributions of path 1 to module 0 in round 1; `swapped` is called for both. */
static void fill(world *w, void (*change)(pl_contribution *list, int *n))
{
    for (int m = 0; m < pl_topology_n_modules(w->topology); m++) {
        put_version(w, m, 0, NULL, 0);
        for (int64_t round = 0; round < 2; round++) {
            pl_contribution list[PATHS + 1];
            int n = 0;
            for (int p = 0; p < PATHS; p++)
                if (pl_topology_path_has(w->topology, p, m))
                    list[n++] = contribution(p, round);
            if (change && m == 0 && (round == 1 || change == swapped))
                change(list, &n);
            put_version(w, m, (uint64_t)round + 1, list, n);
        }
    }
    put_path(w, 0, 2);
    put_path(w, 1, 2);
    assert_ok(pl_coverage_of(w->store, &w->arm, w->topology, w->paths));
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, world *w, setup, teardown)

FIXTURE_TEST(whole_record_has_nothing_to_tell)
{
    fill(w, NULL);
    for (int p = 0; p < PATHS; p++) {
        const pl_coverage *c = &w->paths[p];
        assert_int_equal(c->phases, 2);
        assert_int_equal(c->samples, 2 * PHASE);
        assert_true(c->passes == 1.0);
        assert_int_equal(c->n_checked, 2 * pl_topology_n_slots(w->topology));
        assert_int_equal(c->n_lost + c->n_repeated + c->n_wrong, 0);
        assert_string_equal(c->example, "");
    }
}

static void drop(pl_contribution *list, int *n)
{
    (void)list;
    *n = 1;
}

static void twice(pl_contribution *list, int *n)
{
    list[(*n)++] = contribution(1, 0);
}

static void shifted(pl_contribution *list, int *n)
{
    list[*n - 1].work.first_sample++;
}

static void fewer(pl_contribution *list, int *n)
{
    list[*n - 1].work.n_samples = 2;
}

static const struct {
    const char *says;
    void (*change)(pl_contribution *list, int *n);
    uint64_t lost, repeated, wrong, skipped; /* of path 1 */
    const char *example;
} changes[] = {
    {"a missing phase is lost", drop, 1, 0, 0, 0, "phase 1 of mix/p1.r0 is missing in"},
    {"a phase that stands twice is repeated", twice, 0, 1, 0, 0, ""},
    {"other samples are wrong and their phase is lost", shifted, 1, 0, 1, 0, ""},
    {"samples of a different round are wrong", swapped, 2, 0, 2, 0,
     "phase 1 of mix/p1.r0 has wrong"},
    {"samples that were left out are counted", fewer, 0, 0, 0, PHASE - 2, ""}};

PL_TEST(a_record_that_was_changed_is_reported_for_its_path)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        void *state;
        assert_int_equal(setup(&state), 0);
        world *w = state;
        fill(w, changes[i].change);
        print_message("%s\n", changes[i].says);
        const pl_coverage *c = &w->paths[1];
        assert_int_equal(c->n_lost, changes[i].lost);
        assert_int_equal(c->n_repeated, changes[i].repeated);
        assert_int_equal(c->n_wrong, changes[i].wrong);
        assert_int_equal(c->skipped, changes[i].skipped);
        assert_non_null(strstr(c->example, changes[i].example));
        c = &w->paths[0];
        assert_int_equal(c->n_lost + c->n_repeated + c->n_wrong, 0);
        assert_int_equal(c->skipped, 0);
        assert_int_equal(teardown(&state), 0);
    }
}

FIXTURE_TEST(merged_phases_that_the_path_has_not_reached_are_ahead)
{
    fill(w, NULL);
    put_path(w, 1, 1); /* its updates of phase 1 may be in before its state */
    assert_ok(pl_coverage_of(w->store, &w->arm, w->topology, w->paths));
    assert_int_equal(w->paths[1].n_ahead, 0);
    put_path(w, 1, 0);
    assert_ok(pl_coverage_of(w->store, &w->arm, w->topology, w->paths));
    assert_int_equal(w->paths[1].n_ahead, pl_topology_n_slots(w->topology));
    assert_int_equal(w->paths[0].n_ahead, 0);
}

static void put_pending(world *w, int module, const pl_contribution *c)
{
    char name[PL_MODULE_NAME_MAX];
    pl_txn *txn = begin(w->store);
    pl_arm_module_name(&w->arm, w->topology, module, name);
    assert_ok(pl_txn_put_pending(txn, name, c));
    assert_ok(pl_txn_commit(&txn));
}

/* A path may have sent updates of a phase before the state of the path arrives. Such a
 * phase is neither repeated nor lost. */
FIXTURE_TEST(pending_and_unfinished_phases_are_no_error)
{
    pl_contribution c = contribution(0, 2);
    fill(w, NULL);
    put_pending(w, 0, &c);
    assert_ok(pl_coverage_of(w->store, &w->arm, w->topology, w->paths));
    assert_int_equal(w->paths[0].n_repeated + w->paths[0].n_lost, 0);
    put_path(w, 0, 3); /* the other modules of the path lack its third phase */
    assert_ok(pl_coverage_of(w->store, &w->arm, w->topology, w->paths));
    assert_int_equal(w->paths[0].n_lost, pl_topology_n_slots(w->topology) - 1);
}

static void put_dropped(world *w, int64_t phase, const char *token)
{
    char path[PL_MODULE_NAME_MAX], ref[2 * PL_MODULE_NAME_MAX];
    pl_arm_path_name(&w->arm, w->topology, 0, 0, path);
    snprintf(ref, sizeof ref, PL_DROPPED_REFS "%s/%lld/%s", path, (long long)phase,
             token);
    commit_ref(w->store, ref, "-");
}

/* If one home alone is restored from an older backup, it has such an update again. It
 * lacks the update that the path sent afterwards. */
FIXTURE_TEST(update_that_an_audit_dropped_does_not_count)
{
    pl_contribution c = contribution(0, 2);
    const int n_slots = pl_topology_n_slots(w->topology);
    c.token = 50;
    fill(w, NULL);
    for (int slot = 0; slot < n_slots; slot++)
        put_pending(w, pl_topology_module_of_path(w->topology, slot, 0), &c);
    put_path(w, 0, 3);
    static const struct {
        int64_t phase;
        const char *token;
        bool counts;
    } drops[] = {{2, "49", true}, {3, "99", true}, {1, "50", false}};
    for (size_t i = 0; i < sizeof drops / sizeof *drops; i++) {
        put_dropped(w, drops[i].phase, drops[i].token);
        assert_ok(pl_coverage_of(w->store, &w->arm, w->topology, w->paths));
        assert_int_equal(w->paths[0].n_lost, drops[i].counts ? 0 : n_slots);
    }
    put_dropped(w, 2, "many");
    assert_int_equal(pl_coverage_of(w->store, &w->arm, w->topology, w->paths),
                     PL_ERR_DAMAGED);
}

/* Version 3 has no contributions, like a version that a rollback wrote. The phase
 * without contributions counts as given up, not as lost. */
FIXTURE_TEST(rounds_that_a_rollback_replaced_are_given_up_not_lost)
{
    fill(w, NULL);
    for (int m = 0; m < pl_topology_n_modules(w->topology); m++)
        put_version(w, m, 3, NULL, 0);
    put_path(w, 0, 3);
    put_path(w, 1, 3);
    assert_ok(pl_coverage_of(w->store, &w->arm, w->topology, w->paths));
    for (int p = 0; p < PATHS; p++) {
        assert_int_equal(w->paths[p].n_given_up, pl_topology_n_slots(w->topology));
        assert_int_equal(w->paths[p].n_lost + w->paths[p].n_repeated, 0);
        assert_int_equal(w->paths[p].n_checked, 2 * pl_topology_n_slots(w->topology));
    }
}
