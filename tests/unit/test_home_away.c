/* folder: home; label: integration
 *
 * Tests how the last home of a stopped job is removed. No data that is needed may be
 * lost, even if the process that removes the home is killed at any point. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include "store/store.h"
#include "tests/support/kill_states.h"

enum { HOMES = 3, BYTES = 3000 };
static const char MOVED[] = "mix/L1.E1", DELETED[] = "tag/old";

static void put_refs(pl_txn *txn, int home, const char *table)
{
    char target[64];
    snprintf(target, sizeof target, "%d %s", home, table);
    assert_ok(pl_txn_put_ref(txn, PLACES_REF, target));
    assert_ok(pl_txn_put_ref(txn, PLACES_NEXT_REF, target));
    assert_ok(pl_txn_put_ref(txn, "sys/hub-epoch", home == 2 ? "9" : "5"));
}

static void put_audit(pl_txn *txn, pl_verdict verdict)
{
    pl_audit audit = {.phase = 3, .verdict = verdict, .n = 1};
    pl_buf text = {0};
    char name[PL_TEXT_MAX];
    pl_copy_text(audit.path, sizeof audit.path, "mix/p00.r0");
    pl_audit_name(&audit, name);
    pl_audit_write(&audit, &text);
    assert_ok(pl_txn_put_ref(txn, name, pl_buf_text(&text)));
    pl_buf_destroy(&text);
}

/* Makes a job in which a module moved from home 1 to home 3 and then to home 2. A tag
 * in home 3 was dropped. */
static void make_job(const char *folder, const char *table, pl_verdict verdict)
{
    static const char *const modules[HOMES] = {"mix/L1.E0", MOVED, NULL};
    static const char *const notes[HOMES] = {"2 1", "here 2", "1 2"};
    char path[PL_PATH_MAX];
    assert_ok(pl_remove_tree(folder));
    assert_ok(pl_store_make_parts(folder, HOMES));
    for (int i = 0; i < HOMES; i++) {
        pl_store *store = open_store(pl_store_part(folder, i, path), PL_STORE_CREATE);
        if (modules[i])
            commit_version(store, modules[i], 0, (uint64_t)i, BYTES);
        pl_txn *txn = begin(store);
        pl_hash arm = put_bytes(txn, 500, 64);
        assert_ok(pl_txn_put_object(txn, "arm/mix", &arm));
        put_refs(txn, i, table);
        assert_ok(pl_txn_put_ref(txn, "at/mix/L1.E1", notes[i]));
        if (i < 2)
            assert_ok(pl_txn_put_ref(txn, "at/tag/old", "2 1"));
        else {
            assert_ok(pl_txn_put_ref(txn, "at/tag/old", "here 1"));
            put_audit(txn, verdict);
            assert_ok(pl_txn_put_ref(txn, PL_FENCED_REFS "mallory", "- two said no"));
        }
        assert_ok(pl_txn_commit(&txn));
        pl_store_close(&store);
    }
}

static pl_status leave(const char *folder, int home)
{
    pl_writers *writers = NULL;
    PL_CHECK(pl_writers_open(folder, &writers));
    pl_status status = pl_homes_leave(writers, home);
    pl_writers_close(&writers);
    return status == PL_OK ? pl_store_remove_part(folder, home) : status;
}

static void assert_ref(pl_store *store, const char *name, const char *expected)
{
    pl_buf target = {0};
    pl_status status = pl_store_get_ref(store, name, &target);
    assert_int_equal(status, expected ? PL_OK : PL_ERR_NOT_FOUND);
    if (expected)
        assert_string_equal(pl_buf_text(&target), expected);
    pl_buf_destroy(&target);
}

static void assert_gone(const char *folder)
{
    char path[PL_PATH_MAX];
    pl_parts counts;
    pl_version head;
    assert_ok(pl_store_count_parts(folder, &counts));
    assert_int_equal(counts.n, HOMES - 1);
    assert_int_equal(counts.begun, HOMES);
    assert_false(pl_path_exists(pl_store_part(folder, HOMES - 1, path)));
    for (int i = 0; i < HOMES - 1; i++) {
        pl_store *store = open_store(pl_store_part(folder, i, path), PL_STORE_READ);
        assert_ref(store, PLACES_REF, i == 0 ? "0 5 1 1" : "1 5 1 1");
        assert_ref(store, PLACES_NEXT_REF, i == 0 ? "0 5 1 1" : "1 5 1 1");
        assert_ref(store, "at/mix/L1.E1", i == 0 ? "1 2" : "here 2");
        assert_ref(store, "at/tag/old", NULL);
        assert_ref(store, "sys/hub-epoch", i == 0 ? "9" : "5");
        assert_ref(store, PL_FENCED_REFS "mallory", i == 0 ? "- two said no" : NULL);
        pl_store_close(&store);
    }
    pl_store *store = open_store(folder, PL_STORE_READ);
    pl_buf target = {0};
    assert_int_equal(pl_store_part_of(store, MOVED), 1);
    assert_int_equal(pl_store_part_of(store, DELETED), -1);
    assert_ok(pl_store_head(store, MOVED, &head));
    pl_version_clear(&head);
    assert_ok(pl_store_get_ref(store, PL_AUDIT_REFS "mix/p00.r0/3", &target));
    pl_buf_destroy(&target);
    pl_store_close(&store);
}

static void a_drained_home_goes_and_leaves_what_others_need(void **state)
{
    pl_parts counts;
    char path[PL_PATH_MAX];
    make_job(*state, "4 1 1 0", PL_VERDICT_AGREED);
    assert_ok(leave(*state, 2));
    assert_gone(*state);
    /* The home can be added again; then the store has three parts again. */
    assert_ok(pl_store_grow_parts(*state, HOMES));
    assert_ok(pl_store_count_parts(*state, &counts));
    assert_int_equal(counts.n, HOMES);
    pl_store *store = open_store(pl_store_part(*state, HOMES - 1, path), PL_STORE_READ);
    pl_store_close(&store);
    store = open_store(*state, PL_STORE_READ);
    assert_int_equal(pl_store_n_parts(store), HOMES);
    pl_store_close(&store);
}

static void what_a_home_still_has_keeps_it(void **state)
{
    char path[PL_PATH_MAX];
    make_job(*state, "4 1 1 0", PL_VERDICT_OPEN);
    assert_int_equal(leave(*state, 2), PL_ERR_BUSY);
    assert_says("home 3 still has the open audit mix/p00.r0/3");
    make_job(*state, "4 1 1 1", PL_VERDICT_AGREED);
    assert_int_equal(leave(*state, 2), PL_ERR_BUSY);
    assert_says("home 3 is not drained");
    make_job(*state, "4 1 1 0", PL_VERDICT_AGREED);
    pl_store *store = open_store(pl_store_part(*state, 2, path), PL_STORE_WRITE);
    commit_version(store, "mix/L9.E0", 0, 9, BYTES);
    pl_store_close(&store);
    assert_int_equal(leave(*state, 2), PL_ERR_BUSY);
    assert_says("home 3 still owns 1 names, for example mix/L9.E0");
    assert_int_equal(leave(*state, 1), PL_ERR_USAGE);
    assert_says("only the last one, home 3");
    assert_ok(pl_remove_tree(*state));
    assert_ok(pl_store_make_parts(*state, 2));
    for (int i = 0; i < 2; i++) {
        store = open_store(pl_store_part(*state, i, path), PL_STORE_CREATE);
        pl_store_close(&store);
    }
    assert_int_equal(leave(*state, 1), PL_ERR_UNSUPPORTED);
    assert_says("needs at least two homes");
}

static void whoever_dies_can_be_followed_by_another(void **state)
{
    static const char *const points[] = {"kv.commit.before",   "kv.commit.after",
                                         "fs.rename.after",    "store.remove.before",
                                         "store.remove.after", NULL};
    char folder[PL_PATH_MAX], states[PL_PATH_MAX], path[PL_PATH_MAX];
    int n_less = 0;
    pl_join(folder, *state, "job");
    pl_join(states, *state, "states");
    make_job(folder, "4 1 1 0", PL_VERDICT_AGREED);
    const int n_states =
        make_kill_states(points, "leave", folder, NULL, folder, states);
    for (int n = 1; n <= n_states; n++) {
        pl_parts counts;
        pl_version head;
        take_kill_state(states, n, folder);
        assert_ok(pl_store_count_parts(folder, &counts));
        n_less += counts.n == HOMES - 1;
        pl_store *store = open_store(folder, PL_STORE_READ);
        assert_int_equal(pl_store_part_of(store, MOVED), 1);
        assert_ok(pl_store_head(store, MOVED, &head));
        pl_version_clear(&head);
        pl_store_close(&store);
        if (counts.n == HOMES)
            assert_ok(leave(folder, 2));
        else
            assert_ok(pl_store_remove_part(folder, HOMES - 1));
        assert_false(pl_path_exists(pl_store_part(folder, HOMES - 1, path)));
        store = open_store(pl_store_part(folder, 0, path), PL_STORE_READ);
        assert_ref(store, "at/mix/L1.E1", "1 2");
        assert_ref(store, "sys/hub-epoch", "9");
        pl_store_close(&store);
    }
    print_message("%d states; in %d of them the home was gone\n", n_states, n_less);
    assert_true(n_states > 13 && n_less > 0);
}

#define away_test(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], "leave") == 0)
        return leave(argv[1], 2) == PL_OK ? 0 : 1;
    static const struct CMUnitTest tests[] = {
        away_test(a_drained_home_goes_and_leaves_what_others_need),
        away_test(what_a_home_still_has_keeps_it),
        away_test(whoever_dies_can_be_followed_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
