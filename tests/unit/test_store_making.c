/* folder: store; label: fault */
#include "store/kv.h"
#include "store/kv_make.h"
#include "tests/support/store_child.h"

/* A process that makes a store is killed between any two of its steps. The next process
 * must complete the store, so that no user has to delete files. */

static const char *const points[] = {
    "fs.write.before",  "fs.write.after",   "fs.fsync.after",  "fs.rename.after",
    "fs.folder.after",  "kv.commit.before", "kv.commit.after", "mark.write.before",
    "mark.write.after", "mark.flush.after"};

STORE_TEST(a_store_that_was_made_in_part_is_made)
{
    char folder[PL_PATH_MAX], name[32];
    pl_store_stats stats;
    for (size_t p = 0; p < sizeof points / sizeof *points; p++)
        for (int passage = 1; passage <= 2; passage++) {
            snprintf(name, sizeof name, "s%zu-%d", p, passage);
            pl_join(folder, *state, name);
            assert_ok(pl_make_folders(folder));
            (void)die_at(points[p], passage, "make", folder, NULL);
            OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_CREATE);
            commit_version(store, "a/x", 0, 1, 100);
            assert_ok(pl_store_count(store, &stats));
            assert_int_equal(stats.n_versions, 1);
            pl_store_close(&store);
            store = open_store(folder, PL_STORE_READ);
        }
}

/* kv_make creates a database with families, and may be killed after any of them. */
STORE_TEST(a_database_that_was_made_in_part_is_made)
{
#define NAME(name, text, id) text,
    static const char *const names[] = {KV_FAMILY_TABLE(NAME)};
#undef NAME
    const kv_slice key = {"key", 3}, value = {"value", 5};
    char path[PL_PATH_MAX], name[32];
    kv_pin pin;
    kv *db;
    for (int n = 0; n < KV_FAMILY_COUNT; n += 2) {
        snprintf(name, sizeof name, "db%d", n);
        pl_join(path, *state, name);
        assert_null(kv_make(path, names, n));
        assert_ok(kv_open(path, KV_MAKE, NULL, &db));
        OWNED(kv_batch_destroy) kv_batch *batch = kv_batch_create(db);
        for (int f = KV_META; f < KV_FAMILY_COUNT; f++)
            kv_put(batch, (kv_family)f, key, value);
        assert_ok(kv_commit(db, batch));
        kv_close(&db, false);
        assert_ok(kv_open(path, KV_WRITE, NULL, &db));
        for (int f = KV_META; f < KV_FAMILY_COUNT; f++) {
            assert_ok(kv_get(db, (kv_family)f, key, &pin));
            assert_int_equal(pin.len, value.len);
            kv_unpin(&pin);
        }
        kv_close(&db, false);
    }
}

STORE_TEST(leftovers_of_others_are_not_taken_for_its_own)
{
    char path[PL_PATH_MAX];
    pl_store *store;
    assert_ok(pl_replace_file(pl_join(path, *state, "notes.tmp-1"), "x", 1));
    assert_int_equal(pl_store_open(*state, PL_STORE_CREATE, &store), PL_ERR_EXISTS);
    assert_true(pl_path_exists(path));
}

PL_CHILD(argc, argv)
{
    pl_store *store;
    const pl_status status = pl_store_open(argv[1], PL_STORE_CREATE, &store);
    pl_store_close(&store);
    return status == PL_OK ? 0 : 1;
}
