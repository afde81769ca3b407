/* folder: history; label: unit
 *
 * Tests the rule of garbage collection and store.quota (pl_keep_rule). It must keep the
 * versions from which a task or an open audit may still start. */
#include "home/home.h"
#include "history/history.h"
#include "outer/outer.h"
#include "tests/support/tiny_arm.h"

#include "tests/support/scratch.h"

enum { PATHS = 2, PHASES = 12, DONE = 8 }; /* both paths have finished DONE phases */

typedef struct world {
    pl_store *store;
    pl_arm arm;
    pl_topology *topology;
    pl_txn *txn;
} world;

static void put_versions(world *w, int module)
{
    pl_hash parent = {{0}};
    for (uint64_t number = 0; number <= DONE; number++) {
        const uint64_t bytes[2] = {number, (uint64_t)module};
        pl_version v = {.number = number, .parent = parent};
        pl_arm_module_name(&w->arm, w->topology, module, v.module);
        assert_ok(pl_txn_put_blob(w->txn, bytes, sizeof bytes, &v.params));
        parent = v.params;
        assert_ok(pl_txn_put_version(w->txn, &v, (pl_keep){false, false, 0}));
    }
}

static void put_arm(world *w)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_hash blob;
    pl_arm_encode(&w->arm, &bytes);
    assert_ok(pl_txn_put_blob(w->txn, bytes.data, bytes.len, &blob));
    assert_ok(pl_txn_put_object(w->txn, "arm/mix", &blob));
}

static int setup(void **state)
{
    world *w = pl_alloc(sizeof *w);
    assert_int_equal(make_scratch(NULL), 0);
    tiny_arm(&w->arm, 2, PATHS, 1, PHASES);
    w->arm.spec = (pl_topology_spec){.n_levels = 1, .experts = {2}, .replicas = 1};
    assert_ok(tiny_diloco(&w->arm, 3, "f32"));
    w->arm.weights[0] = w->arm.weights[1] = 100;
    *state = w;
    assert_ok(pl_topology_create(&w->arm.shape, &w->arm.spec, &w->topology));
    assert_ok(pl_store_open(scratch, PL_STORE_CREATE, &w->store));
    assert_ok(pl_txn_begin(w->store, &w->txn));
    put_arm(w);
    for (int m = 0; m < pl_topology_n_modules(w->topology); m++)
        put_versions(w, m);
    for (int path = 0; path < PATHS; path++) {
        pl_path_state at = {.phase = DONE};
        pl_arm_path_name(&w->arm, w->topology, path, 0, at.name);
        assert_ok(pl_txn_put_path(w->txn, &at));
    }
    assert_ok(pl_txn_commit(&w->txn));
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

/* Returns the oldest version of the module, apart from version 0, that the rule with
 * this `keep` keeps. Version 0 and all later versions must be kept, too. */
static uint64_t oldest_kept(world *w, const char *module, int64_t keep)
{
    pl_keep_rule rule = {.store = w->store, .keep = keep};
    pl_version v = {.number = 0};
    pl_copy_text(v.module, sizeof v.module, module);
    const pl_status status = pl_roots_create(w->store, &rule.roots);
    if (status != PL_OK)
        print_error("%s\n", pl_last_error());
    assert_ok(status);
    assert_true(pl_keep_rule_stays(&rule, &v));
    do
        v.number++;
    while (v.number < DONE && !pl_keep_rule_stays(&rule, &v));
    const uint64_t oldest = v.number;
    for (; v.number <= DONE; v.number++)
        assert_true(pl_keep_rule_stays(&rule, &v));
    pl_roots_destroy(&rule.roots);
    return oldest;
}

static void put_audit(world *w, const char *path, int64_t phase, int64_t repeats,
                      pl_verdict verdict)
{
    char name[PL_TEXT_MAX];
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_audit a = {.phase = phase, .repeats = repeats, .verdict = verdict, .n = 1};
    pl_copy_text(a.path, sizeof a.path, path);
    pl_copy_text(a.results[0].worker, sizeof a.results[0].worker, "w");
    pl_audit_name(&a, name);
    pl_audit_write(&a, &text);
    assert_ok(pl_txn_begin(w->store, &w->txn));
    assert_ok(pl_txn_put_ref(w->txn, name, pl_buf_text(&text)));
    assert_ok(pl_txn_commit(&w->txn));
}

#define FIXTURE_TEST(name) PL_TEST_WITH(name, setup, teardown)

FIXTURE_TEST(versions_of_the_next_and_the_last_phase_are_kept)
{
    assert_int_equal(oldest_kept(*state, "mix/L1.E0", 1), DONE - 1);
    assert_int_equal(oldest_kept(*state, "mix/embed.E0", 1), DONE - 1);
    assert_int_equal(oldest_kept(*state, "mix/L1.E0", 5), DONE - 4);
}

FIXTURE_TEST(task_of_an_open_audit_keeps_its_versions)
{
    put_audit(*state, "mix/p0.r0", 4, 0, PL_VERDICT_OPEN);
    assert_int_equal(oldest_kept(*state, "mix/L1.E0", 1), 3);
    assert_int_equal(oldest_kept(*state, "mix/embed.E0", 1), 3);
    /* The path p0 does not use L1.E1. */
    assert_int_equal(oldest_kept(*state, "mix/L1.E1", 1), DONE - 1);
    put_audit(*state, "mix/p0.r0", 4, 0, PL_VERDICT_AGREED);
    assert_int_equal(oldest_kept(*state, "mix/L1.E0", 1), DONE - 1);
    /* An audit whose worker must first repeat phases 2 and 3. */
    put_audit(*state, "mix/p0.r0", 4, 2, PL_VERDICT_OPEN);
    assert_int_equal(oldest_kept(*state, "mix/L1.E0", 1), 1);
}

FIXTURE_TEST(phases_since_the_newest_uploaded_state_keep_their_versions)
{
    world *w = *state;
    pl_path_state at = {.phase = DONE, .repeats = 3};
    pl_hash_of("blob", "made", 4, &at.made);
    pl_arm_path_name(&w->arm, w->topology, 0, 0, at.name);
    assert_ok(pl_txn_begin(w->store, &w->txn));
    assert_ok(pl_txn_put_path(w->txn, &at));
    assert_ok(pl_txn_commit(&w->txn));
    assert_int_equal(oldest_kept(w, "mix/L1.E0", 1), DONE - 4);
    assert_int_equal(oldest_kept(w, "mix/embed.E0", 1), DONE - 4);
    assert_int_equal(oldest_kept(w, "mix/L1.E1", 1), DONE - 1);
}
