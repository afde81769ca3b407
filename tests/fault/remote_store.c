/* folder: store
 * Tests stores whose parameters are in an engine. Their processes are killed between
 * two writes. The stores are rebuilt from the engine, opened by two homes, and cleaned
 * of garbage. PL_TEST_ENGINE names the engine (tests/fault/engine_s3.sh,
 * tests/ceph.sh).
 *
 *   remote_store            runs all tests
 *   remote_store FOLDER     commits four versions there, and notes each in
 *                           FOLDER.acked */
#include "tests/support/store_fixture.h"

enum { BYTES = 1500000, COMMITS = 4, MANY = 2000, LARGE = 70 << 20 };

static const char *engine_of(const char *folder, char out[PL_PATH_MAX])
{
    const char *wanted = getenv("PL_TEST_ENGINE");
    int path = (int)strcspn(wanted, "?");
    snprintf(out, PL_PATH_MAX, "%.*s%s%s", path, wanted, strrchr(folder, '/'),
             wanted + path);
    return out;
}

static int64_t newest(pl_store *store)
{
    pl_version head;
    pl_status status = pl_store_head(store, "a/x", &head);
    assert_true(status == PL_OK || status == PL_ERR_NOT_FOUND);
    int64_t number = status == PL_OK ? (int64_t)head.number : -1;
    if (status == PL_OK)
        pl_version_clear(&head);
    return number;
}

static void tell(void *context, const char *sentence)
{
    (void)context;
    print_error("%s\n", sentence);
}

static void is_whole(const char *folder, int64_t at_least)
{
    pl_audit_report report;
    pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_audit(store, true, tell, NULL, &report));
    assert_int_equal(report.n_problems, 0);
    int64_t n = newest(store);
    assert_true(n >= at_least && n <= at_least + 1);
    for (int64_t i = 0; i <= n; i++) {
        pl_version v;
        assert_ok(pl_store_get_version(store, "a/x", (uint64_t)i, &v));
        assert_true(blob_holds(store, &v.params, (uint64_t)i, BYTES));
        pl_version_clear(&v);
    }
    pl_store_close(&store);
}

/* Checks that the data in the engine alone is enough to rebuild the store. Only if
 * at_least is negative (no commit was acknowledged), the engine may have no store. */
static void can_be_rebuilt(const char *folder, int64_t at_least)
{
    char url[PL_PATH_MAX], again[PL_PATH_MAX];
    pl_rebuild_report report;
    snprintf(again, sizeof again, "%s.again", folder);
    pl_status status = pl_store_rebuild(engine_of(folder, url), again, &report);
    if (status == PL_ERR_NOT_FOUND && at_least < 0)
        return;
    assert_ok(status);
    is_whole(again, at_least);
    assert_int_equal(pl_store_rebuild(url, again, &report), PL_ERR_EXISTS);
    assert_said("is a store already");
    assert_ok(pl_remove_tree(again));
}

/* ---- the process that is killed ---- */
static void path_of_acked(const char *folder, char out[PL_PATH_MAX])
{
    snprintf(out, PL_PATH_MAX, "%s.acked", folder);
}

static void note(const char *folder, int64_t number)
{
    char path[PL_PATH_MAX], text[32];
    path_of_acked(folder, path);
    snprintf(text, sizeof text, "%lld", (long long)number);
    assert_ok(pl_replace_file(path, text, strlen(text)));
}

/* Notes the newest commit that the opened store shows: this commit must stay, even if
 * it was never acknowledged. Then commits COMMITS more versions. */
static int commit_some(const char *folder)
{
    pl_store *store = open_store(folder, PL_STORE_WRITE);
    int64_t n = newest(store);
    note(folder, n);
    for (int64_t i = n + 1; i <= n + COMMITS; i++) {
        commit_version(store, "a/x", (uint64_t)i, (uint64_t)i, BYTES);
        note(folder, i);
    }
    pl_store_close(&store);
    return 0;
}

static int64_t acked(const char *folder)
{
    char path[PL_PATH_MAX];
    int64_t n = -1;
    pl_buf text = {0};
    path_of_acked(folder, path);
    if (pl_path_exists(path)) {
        assert_ok(pl_read_file(path, &text));
        assert_ok(pl_parse_int(pl_buf_text(&text), &n));
    }
    pl_buf_destroy(&text);
    return n;
}

/* Returns whether the process was killed. If it does not reach the fail point, it ends
 * by itself. */
static bool live_until(const char *folder, const char *point)
{
    const int code = run_self(point, "remote_store", folder, NULL);
    assert_true(code == 0 || code > 128);
    return code > 128;
}

static int drop_all(void **state)
{
    char path[PL_PATH_MAX];
    path_of_acked(*state, path);
    (void)unlink(path);
    return drop_folder(state);
}

#define ON_A_FOLDER(name) PL_TEST_WITH(name, make_folder, drop_all)

ON_A_FOLDER(a_kill_between_any_two_writes_loses_nothing)
{
    static const char *const points[] = {
        "engine.put.before", "engine.put.after",   "engine.swap.before",
        "engine.swap.after", "engine.drop.before", "kv.commit.before",
        "kv.commit.after",   "mark.flush.after",   "engine.get.before"};
    int n_kills = 0, n_deaths = getenv("PL_TEST_SHORT") ? 2 : 5;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        for (int nth = 1; nth <= n_deaths; nth++) {
            char text[64];
            snprintf(text, sizeof text, "%s:kill:%d", points[i], nth);
            n_kills += live_until(*state, text);
            is_whole(*state, acked(*state));
            can_be_rebuilt(*state, acked(*state));
        }
    assert_true(n_kills >= 7 * n_deaths);
    print_message("%d kills, the newest version is %lld\n", n_kills,
                  (long long)acked(*state));
}

/* ---- garbage ---- */
static bool keep_all(void *context, const pl_version *version)
{
    (void)context;
    (void)version;
    return true;
}

ON_A_FOLDER(gc_finds_what_a_killed_home_left)
{
    pl_gc_report seen, done, after;
    assert_true(live_until(*state, "kv.commit.before:kill:3"));
    pl_store *store = open_store(*state, PL_STORE_READ);
    assert_ok(pl_store_collect(store, keep_all, NULL, false, &seen));
    pl_store_close(&store);
    assert_true(seen.n_garbage >= 3); /* chunks, and the rows of the commit */
    store = open_store(*state, PL_STORE_WRITE);
    assert_ok(pl_store_collect(store, keep_all, NULL, true, &done));
    assert_true(done.n_garbage >= 3 && done.garbage_bytes > BYTES);
    assert_ok(pl_store_collect(store, keep_all, NULL, true, &after));
    assert_int_equal(after.n_garbage, 0);
    pl_store_close(&store);
    is_whole(*state, acked(*state));
}

/* The chunks of a large transaction are written before its commit, so that they need
 * little memory. Without the commit they are garbage. */
ON_A_FOLDER(a_large_transaction_does_not_wait_in_memory)
{
    pl_gc_report seen, done;
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    commit_version(store, "a/x", 0, 0, BYTES);
    pl_txn *txn = begin(store);
    put_bytes(txn, 9, LARGE);
    pl_txn_abort(&txn);
    pl_store_close(&store);
    store = open_store(*state, PL_STORE_READ);
    assert_ok(pl_store_collect(store, keep_all, NULL, false, &seen));
    pl_store_close(&store);
    assert_true(seen.garbage_bytes > LARGE / 2 && seen.garbage_bytes < LARGE);
    store = open_store(*state, PL_STORE_WRITE);
    txn = begin(store);
    put_bytes(txn, 8, LARGE); /* is written and then dropped: no record names it */
    pl_hash id = put_bytes(txn, 9, LARGE);
    assert_true(blob_holds(store, &id, 9, LARGE) == false);
    assert_ok(pl_txn_put_object(txn, "a/large", &id));
    assert_ok(pl_txn_commit(&txn));
    assert_true(blob_holds(store, &id, 9, LARGE));
    assert_ok(pl_store_collect(store, keep_all, NULL, true, &done));
    assert_int_equal(done.n_garbage, seen.n_garbage);
    pl_store_close(&store);
    is_whole(*state, 0);
    can_be_rebuilt(*state, 0);
}

ON_A_FOLDER(a_restore_that_was_ended_is_begun_anew)
{
    char url[PL_PATH_MAX], again[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_rebuild_report report;
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    commit_version(store, "a/x", 0, 0, BYTES);
    pl_store_close(&store);
    snprintf(again, sizeof again, "%s.again", (const char *)*state);
    assert_ok(pl_store_rebuild(engine_of(*state, url), again, &report));
    assert_ok(pl_remove_tree(pl_join(path, again, "FORMAT")));
    assert_int_equal(pl_store_rebuild(url, again, &report), PL_ERR_EXISTS);
    assert_said("holds other files");
    assert_ok(pl_replace_file(pl_join(path, again, "RESTORING"), "", 0));
    assert_ok(pl_store_rebuild(url, again, &report));
    assert_false(pl_path_exists(path));
    is_whole(again, 0);
    assert_ok(pl_remove_tree(again));
}

/* ---- two homes ---- */
ON_A_FOLDER(of_two_homes_the_newer_alone_commits)
{
    char url[PL_PATH_MAX], again[PL_PATH_MAX];
    pl_rebuild_report report;
    pl_version v = {.module = "a/y", .method = "test"};
    pl_store *old = open_store(*state, PL_STORE_WRITE), *other = NULL;
    commit_version(old, "a/x", 0, 0, BYTES);
    snprintf(again, sizeof again, "%s.again", (const char *)*state);
    assert_ok(pl_store_rebuild(engine_of(*state, url), again, &report));
    assert_int_equal(report.sequence, 1);
    other = open_store(again, PL_STORE_WRITE);
    pl_txn *txn = begin(old);
    v.params = put_bytes(txn, 7, 1000);
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, 0}));
    assert_fails(pl_txn_commit(&txn), PL_ERR_STALE, "was opened by another home");
    assert_int_equal(pl_txn_begin(old, &txn), PL_ERR_STALE);
    pl_store_close(&old);
    commit_version(other, "a/x", 1, 1, BYTES);
    pl_store_close(&other);
    is_whole(again, 1);
    assert_ok(pl_remove_tree(again));
}

ON_A_FOLDER(a_folder_without_its_head_is_refused)
{
    char path[PL_PATH_MAX], other[PL_PATH_MAX], line[PL_PATH_MAX];
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    commit_version(store, "a/x", 0, 0, 1000);
    pl_store_close(&store);
    snprintf(other, sizeof other, "%s.elsewhere", (const char *)*state);
    engine_of(other, line);
    assert_ok(pl_replace_file(pl_join(path, *state, "ENGINE"), line, strlen(line)));
    assert_int_equal(pl_store_open(*state, PL_STORE_WRITE, &store), PL_ERR_DAMAGED);
    assert_said("check the address");
}

/* ---- bases ---- */
/* The records are so large that the log becomes longer than the base several times. So
 * the store must write new bases (store/rebase.h). */
ON_A_FOLDER(a_long_log_becomes_a_base)
{
    char url[PL_PATH_MAX], again[PL_PATH_MAX];
    pl_rebuild_report report;
    pl_hash parent = {{0}};
    pl_contribution *c = pl_alloc(MANY * sizeof *c);
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    for (int i = 0; i < MANY; i++)
        snprintf(c[i].worker, sizeof c[i].worker, "a worker of many letters %d", i);
    for (uint64_t n = 0; n < 60; n++) {
        pl_txn *txn = begin(store);
        pl_version v = {.module = "a/x",
                        .number = n,
                        .method = "test",
                        .parent = parent,
                        .n_contributions = MANY,
                        .contributions = c};
        v.params = put_bytes(txn, n, 100);
        assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, 0}));
        assert_ok(pl_txn_commit(&txn));
        parent = v.params;
    }
    pl_store_close(&store);
    pl_free(c);
    snprintf(again, sizeof again, "%s.again", (const char *)*state);
    assert_ok(pl_store_rebuild(engine_of(*state, url), again, &report));
    assert_int_equal(report.sequence, 60);
    assert_true(report.n_commits < 45);
    print_message("60 commits: a base and %llu of them\n",
                  (unsigned long long)report.n_commits);
    store = open_store(again, PL_STORE_READ);
    assert_int_equal(newest(store), 59);
    pl_store_close(&store);
    assert_ok(pl_remove_tree(again));
}

PL_CHILD(argc, argv)
{
    return commit_some(argv[1]);
}
