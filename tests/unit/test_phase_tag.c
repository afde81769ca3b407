/* folder: home; label: unit
 *
 * Tests after which phase of the previous chapter an arm begins (pl_arm_start): also
 * while a home merges the last round, and after rollbacks. */
#include "history/history.h"
#include "tests/support/home_fixture.h"
#include "tests/support/store_fixture.h"

enum { TAU = 4, PHASES = 6, FULL = 3 };

/* Makes a store with the arm mix. Each module has `made` versions after version 0, and
 * then as many copies of version `source` as are missing. The first module lacks the
 * last `late` versions. */
static void make_store(const char *folder, uint64_t made, uint64_t source, int late)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_CREATE);
    OWNED(pl_topology_destroy) pl_topology *t = NULL;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(pl_arm_clear) pl_arm arm;
    define_grid(&arm, "f32");
    arm.inner.tau = TAU;
    arm.inner.phases = PHASES;
    assert_ok(pl_topology_create(&arm.shape, &arm.spec, &t));
    pl_txn *txn = begin(store);
    pl_arm_encode(&arm, &bytes);
    put_object(txn, "arm/mix", bytes.data, bytes.len);
    for (int m = 0; m < pl_topology_n_modules(t); m++) {
        pl_hash parent = {{0}};
        for (uint64_t n = 0; n + (m == 0 ? (uint64_t)late : 0) <= PHASES; n++) {
            pl_version v = {.number = n, .parent = parent};
            pl_arm_module_name(&arm, t, m, v.module);
            parent = v.params = put_bytes(txn, n <= made ? n : source, 100);
            if (n > made)
                snprintf(v.method, sizeof v.method, "rollback to %d", (int)source);
            assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
        }
    }
    assert_ok(pl_txn_commit(&txn));
}

/* Returns the phase of mix after which an arm begins whose learning rates are those
 * after `phases` phases of mix. */
static int begins_after(const char *folder, int phases)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    const pl_arm next = {.name = "mix~1", .inner.first_step = phases * TAU};
    int64_t start = -1;
    assert_ok(pl_arm_start(store, &next, "mix", &start));
    return (int)start;
}

STORE_TEST(a_chapter_need_not_wait_for_the_last_merge_of_the_one_before)
{
    make_store(*state, PHASES, 0, 1);
    assert_int_equal(begins_after(*state, PHASES), PHASES);
    assert_int_equal(begins_after(*state, FULL), FULL);
}

STORE_TEST(after_a_rollback_past_that_phase_a_longer_run_continues_the_last_versions)
{
    make_store(*state, PHASES - 1, FULL - 1, 0);
    assert_int_equal(begins_after(*state, FULL), PHASES);
}

STORE_TEST(a_rollback_to_a_later_phase_changes_nothing_for_a_longer_run)
{
    make_store(*state, PHASES - 1, FULL + 1, 0);
    assert_int_equal(begins_after(*state, FULL), FULL);
}
