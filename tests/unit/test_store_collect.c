/* folder: store; label: fault */
#include "tests/support/store_child.h"

/* Tests that garbage collection drops exactly the data that need not be kept, and that
 * it can be repeated if its process was killed. */

enum { N_VERSIONS = 40, BYTES = 3000 };

static bool is_kept(void *context, const pl_version *v)
{
    (void)context;
    return v->number % 7 == 3; /* keeps these versions, as a tag would do */
}

static void make_history(const char *folder)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_CREATE);
    for (uint64_t n = 0; n < N_VERSIONS; n++)
        commit_version(store, "a/x", n, n, BYTES);
}

static bool can_be_read(pl_store *store, uint64_t number)
{
    OWNED(pl_version_clear) pl_version v;
    /* The record of a version stays, even if its parameters were dropped. */
    assert_ok(pl_store_get_version(store, "a/x", number, &v));
    const bool there = pl_store_has_blob(store, &v.params);
    assert_true(!there || blob_holds(store, &v.params, number, BYTES));
    return there;
}

static void check_what_is_left(const char *folder)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_WRITE);
    for (uint64_t n = 0; n < N_VERSIONS; n++)
        assert_int_equal(can_be_read(store, n), n % 7 == 3 || n == N_VERSIONS - 1);
}

static pl_status collect(const char *folder, pl_gc_report *report)
{
    OWNED(pl_store_close) pl_store *store = NULL;
    pl_status status = pl_store_open(folder, PL_STORE_WRITE, &store);
    if (status == PL_OK)
        status = pl_store_collect(store, is_kept, NULL, true, report);
    return status;
}

STORE_TEST(what_must_stay_stays_and_the_rest_goes)
{
    pl_gc_report report;
    make_history(*state);
    assert_ok(collect(*state, &report));
    /* These are versions 3, 10, 17, 24, 31, 38, and the newest one. */
    assert_int_equal(report.n_kept, 7);
    assert_int_equal(report.n_versions, N_VERSIONS - 7);
    check_what_is_left(*state);
    assert_ok(collect(*state, &report));
    assert_int_equal(report.n_versions, 0);
    assert_int_equal(report.n_gone, N_VERSIONS - 7);
}

STORE_TEST(a_collection_that_is_killed_is_done_again)
{
    static const char *const points[] = {"kv.commit.before", "kv.commit.after",
                                         "mark.write.after", "mark.flush.after"};
    pl_gc_report report;
    make_history(*state);
    for (size_t p = 0; p < sizeof points / sizeof *points; p++)
        /* The first passage is the commit that raises the epoch. */
        (void)die_at(points[p], 2, "collect", *state, NULL);
    assert_ok(collect(*state, &report));
    check_what_is_left(*state);
}

static uint64_t counted(pl_store *store)
{
    pl_store_stats stats;
    assert_ok(pl_store_count(store, &stats));
    return stats.stored_bytes;
}

/* A commit above the quota must be refused, unless it also collects old versions. Each
 * version adds BYTES of parameters and BYTES of momentum. It drops the momentum of the
 * version before the previous one. */
STORE_TEST(a_quota_refuses_a_commit_and_a_collection_makes_room)
{
    enum { QUOTA = 20 * BYTES };
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_txn *txn = NULL;
    bool passes = false;
    uint64_t n = 0, number = 0;
    /* With this quota no version can be committed. */
    assert_ok(pl_store_set_quota(store, BYTES - 1));
    txn = begin(store);
    pl_hash first = put_bytes(txn, 7777, BYTES);
    assert_ok(pl_txn_put_object(txn, "object", &first));
    assert_fails(pl_txn_commit(&txn), PL_ERR_NOSPACE, "has 0 B, of which 0 B");
    assert_ok(pl_store_set_quota(store, QUOTA));
    for (; pl_store_stored_bytes(store) + 2 * BYTES <= QUOTA; number++) {
        commit_version(store, "a/x", number, number, BYTES);
        assert_int_equal(pl_store_stored_bytes(store), counted(store));
    }
    assert_in_range(number, 15, 20);
    txn = begin(store);
    pl_hash blob = put_bytes(txn, 7777, 3 * BYTES), loose = put_bytes(txn, 8888, 9);
    assert_ok(pl_txn_put_object(txn, "object", &blob));
    /* `loose` needs no room, because no record names it. */
    assert_false(pl_hash_none(&loose));
    assert_ok(pl_txn_passes_quota(txn, &passes));
    assert_true(passes);
    assert_fails(pl_txn_commit(&txn), PL_ERR_NOSPACE, "heads 2.9 KiB");
    assert_said("store.quota, 58.6 KiB");
    assert_int_equal(pl_store_stored_bytes(store), counted(store));

    txn = begin(store); /* now the same, with a collection in the same commit */
    blob = put_bytes(txn, 7777, 3 * BYTES);
    assert_ok(pl_txn_put_object(txn, "object", &blob));
    assert_ok(pl_txn_collect(txn, is_kept, NULL, &n));
    assert_int_equal(n, number - 1 - 2); /* versions 3 and 10 and the newest one stay */
    assert_ok(pl_txn_passes_quota(txn, &passes));
    assert_false(passes);
    assert_ok(pl_txn_commit(&txn));
    assert_int_equal(pl_store_stored_bytes(store), counted(store));
    pl_store_close(&store);

    /* A store above its quota can still commit a transaction that makes it smaller. */
    store = open_store(*state, PL_STORE_WRITE);
    assert_ok(pl_store_set_quota(store, BYTES));
    txn = begin(store);
    assert_ok(pl_txn_drop_object(txn, "object"));
    assert_ok(pl_txn_put_ref(txn, "a", "ref"));
    assert_ok(pl_txn_commit(&txn));
    assert_int_equal(pl_store_stored_bytes(store), counted(store));
}

/* In an engine the rows of a commit are one object of at most 8 MiB. */
STORE_TEST(a_collection_in_a_commit_leaves_the_rest_to_the_next_ones)
{
    enum { MANY = 600, PARTS = 64, SMALL = 300 };
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    OWNED(free_memory)
    pl_contribution *parts = pl_alloc(PARTS * sizeof *parts);
    for (int i = 0; i < PARTS; i++) {
        snprintf(parts[i].worker, sizeof parts[i].worker, "worker-%d", i);
        pl_copy_text(parts[i].device, sizeof parts[i].device, "a device with a name");
        pl_copy_text(parts[i].codec, sizeof parts[i].codec, "f32");
    }
    pl_hash parent = {{0}};
    for (uint64_t n = 0; n < MANY; n++) {
        pl_version v = {.number = n, .parent = parent};
        pl_txn *txn = begin(store);
        pl_copy_text(v.module, sizeof v.module, "a/x");
        pl_copy_text(v.method, sizeof v.method, "test");
        v.params = parent = put_bytes(txn, n, SMALL);
        v.contributions = parts;
        v.n_contributions = n > 0 ? PARTS : 0;
        assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
        assert_ok(pl_txn_commit(&txn));
    }
    assert_ok(pl_store_set_quota(store, counted(store)));
    uint64_t sum = 0, n = 1, times = 0;
    for (; n > 0; times++) {
        pl_txn *txn = begin(store);
        pl_hash blob = put_bytes(txn, 10000 + times, 3 * SMALL);
        assert_ok(pl_txn_put_object(txn, "object", &blob));
        assert_ok(pl_txn_collect(txn, is_kept, NULL, &n));
        assert_ok(pl_txn_commit(&txn));
        sum += n;
    }
    assert_true(times > 2);
    assert_int_equal(sum, MANY - 86 - 1); /* is_kept, and the newest one */
}

PL_CHILD(argc, argv)
{
    pl_gc_report report;
    return pl_status_exit_code(collect(argv[1], &report));
}
