/* folder: store; label: fault */
#include "store/store_internal.h"
#include "tests/support/store_child.h"

/* Kills a process that commits one version after another into one store, many times and
 * at random moments. The process reports each acknowledged version through a pipe. */

enum {
    KILLS = 60,
    SMALL = 20000,
    LARGE = 3 << 20,
    MAX_DELAY_MS = 120,
    READ_MS = 3000,
    SLOW_MS = 30000
};

static size_t version_bytes(uint64_t n)
{
    return n % 16 == 0 ? LARGE : SMALL;
}

/* Makes one commit with rows of every kind: version, momentum, pending update, path,
 * object and ref. */
static pl_status commit_next(pl_store *store, uint64_t n, const pl_hash *parent,
                             pl_hash *params)
{
    pl_version v = {.module = "a/x", .number = n, .parent = *parent};
    pl_path_state path = {.name = "a/p0", .phase = (int64_t)n};
    pl_contribution c = {.phase = (int64_t)n};
    size_t bytes = version_bytes(n);
    uint8_t *data = make_bytes(n, bytes + SMALL);
    char target[32];
    pl_txn *txn = NULL;
    pl_status status;
    snprintf(target, sizeof target, "a/x@%llu", (unsigned long long)n);
    PL_TRY(pl_txn_begin(store, &txn));
    PL_TRY(pl_txn_put_blob(txn, data, bytes, &v.params));
    PL_TRY(pl_txn_put_blob(txn, data + 1, bytes, &path.moments));
    PL_TRY(pl_txn_put_blob(txn, data + 2, SMALL, &c.update));
    if (n > 0)
        v.momentum = path.moments;
    PL_TRY(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
    PL_TRY(pl_txn_put_pending(txn, "a/x", &c));
    PL_TRY(pl_txn_put_path(txn, &path));
    PL_TRY(pl_txn_put_object(txn, "newest", &v.params));
    PL_TRY(pl_txn_put_ref(txn, "newest", target));
    *params = v.params;
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    pl_free(data);
    return status;
}

/* The child process. It reports UINT64_MAX when it is ready, and then the number of
 * each acknowledged version. */
static int commit_for_ever(const char *folder)
{
    pl_store *store;
    pl_version head = {.number = 0};
    uint64_t n = 0, ready = UINT64_MAX;
    if (pl_store_open(folder, PL_STORE_CREATE, &store) != PL_OK)
        return 1;
    if (!store->engine)            /* an engine has no files */
        store->bulk_bytes = LARGE; /* so every 16th version has its own files */
    pl_status status = pl_store_head(store, "a/x", &head);
    if (status == PL_OK)
        n = head.number + 1;
    else if (status != PL_ERR_NOT_FOUND)
        return 2;
    pl_hash params = head.params;
    if (write(STDOUT_FILENO, &ready, sizeof ready) != sizeof ready)
        return 3;
    for (;; n++) {
        pl_hash parent = params;
        if (commit_next(store, n, &parent, &params) != PL_OK) {
            print_error("%s\n", pl_last_error());
            return 4;
        }
        if (write(STDOUT_FILENO, &n, sizeof n) != sizeof n)
            return 5;
    }
}

typedef struct life_story {
    bool ready;    /* the store was open before the kill */
    int64_t acked; /* the highest acknowledged number, or -1 */
    int n_acked;
} life_story;

/* Starts a child. Kills it `delay_ms` after it is ready, or, if `early` is set, after
 * its start. */
static life_story live_and_die(const char *folder, int64_t delay_ms, bool early)
{
    uint64_t number;
    life_story life = {.acked = -1};
    store_child child = start_store_child(folder);
    if (!early)
        await_store_child(&child);
    pl_sleep_ms(delay_ms);
    kill_store_child(&child);
    while (read_number(&child, &number)) {
        if (number == UINT64_MAX) {
            life.ready = true;
            continue;
        }
        life.acked = (int64_t)number;
        life.n_acked++;
    }
    close(child.fd);
    return life;
}

static void check_version(pl_store *store, uint64_t n)
{
    OWNED(pl_version_clear) pl_version v;
    OWNED(free_memory) uint8_t *got = pl_alloc(version_bytes(n));
    OWNED(free_memory) uint8_t *expected = make_bytes(n, version_bytes(n) + SMALL);
    assert_ok(pl_store_get_version(store, "a/x", n, &v));
    assert_ok(pl_store_read_blob(store, &v.params, 0, version_bytes(n), got));
    assert_memory_equal(got, expected, version_bytes(n));
}

/* Checks that all acknowledged versions are there, and at most one more version.
 * Version, path, object and ref must be those of the same commit. */
static int64_t check_after_death(const char *folder, int64_t acked)
{
    pl_version head;
    pl_path_state path;
    pl_object object;
    OWNED(pl_buf_destroy) pl_buf target = {0};
    char expected[32];
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_CREATE);
    int64_t newest = -1;
    if (pl_store_head(store, "a/x", &head) == PL_OK)
        newest = (int64_t)head.number;
    assert_true(newest >= acked && newest <= acked + 1);
    assert_int_equal(pl_store_sequence(store), newest + 1);
    if (newest >= 0) {
        snprintf(expected, sizeof expected, "a/x@%lld", (long long)newest);
        assert_ok(pl_store_get_ref(store, "newest", &target));
        assert_string_equal(pl_buf_text(&target), expected);
        assert_ok(pl_store_get_path(store, "a/p0", &path));
        assert_int_equal(path.phase, newest);
        assert_ok(pl_store_get_object(store, "newest", &object));
        assert_true(pl_hash_equal(&object.blob, &head.params));
        check_version(store, (uint64_t)newest);
        if (newest > 0)
            check_version(store, (uint64_t)newest - 1);
        pl_version_clear(&head);
    }
    return newest;
}

/* Checks that every version has its parameters. The only other blobs must be two
 * momenta (the newest one is also the moments of the path) and one pending update. */
static void check_all(const char *folder, int64_t newest)
{
    pl_store_stats stats;
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_WRITE);
    for (int64_t n = 0; n <= newest; n++)
        check_version(store, (uint64_t)n);
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_versions, newest + 1);
    assert_int_equal(stats.n_blobs, newest + 1 + 2 + 1);
}

/* Returns the longest time that a child may live. On a slow disk no child may live long
 * enough for a commit. So this time doubles after every 15 children, up to 8 times,
 * until a child has made a commit. */
static int64_t longest_life_ms(uint64_t lives, int n_busy)
{
    const uint64_t idle = n_busy > 0 ? 0 : lives / 15;
    return (int64_t)MAX_DELAY_MS << (idle < 8 ? idle : 8);
}

STORE_TEST(no_acknowledged_commit_is_lost_by_killing)
{
    int64_t newest = -1, acked = -1;
    int n_early = 0, n_busy = 0, n_unsaid = 0, n_commits = 0;
    for (uint64_t i = 0; i < KILLS || (n_busy == 0 && i < 4 * KILLS); i++) {
        bool early = i % 4 == 3;
        int64_t delay = pl_random_u32(11, 0, i) % longest_life_ms(i, n_busy);
        life_story life = live_and_die(*state, delay, early);
        acked = life.acked > newest ? life.acked : newest;
        newest = check_after_death(*state, acked);
        n_early += !life.ready;
        n_busy += life.n_acked > 0;
        n_unsaid += newest > acked;
        n_commits += life.n_acked;
    }
    check_all(*state, newest);
    print_message(
        "%d kills: %d while opening, %d after commits, %d with one commit made "
        "but not yet reported; %d acknowledged commits, none lost\n",
        KILLS, n_early, n_busy, n_unsaid, n_commits);
    assert_true(n_busy > 0 && n_early < KILLS);
}

/* Checks that a reader sees exactly one commit: version, path, object and ref have the
 * same number, and all their bytes are there. Returns this number, or -1 if there is no
 * commit yet. */
static int64_t look_at_one_commit(pl_store *store)
{
    pl_version head;
    pl_path_state path;
    pl_object object;
    uint64_t bytes;
    pl_status status = pl_store_head(store, "a/x", &head);
    if (status == PL_ERR_NOT_FOUND)
        return -1;
    assert_ok(status);
    int64_t number = (int64_t)head.number;
    assert_int_equal(pl_store_sequence(store), number + 1);
    assert_ok(pl_store_get_path(store, "a/p0", &path));
    assert_int_equal(path.phase, number);
    assert_ok(pl_store_get_object(store, "newest", &object));
    assert_true(pl_hash_equal(&object.blob, &head.params));
    assert_ok(pl_store_blob_bytes(store, &path.moments, &bytes));
    OWNED(free_memory) uint8_t *moments = pl_alloc(bytes);
    assert_ok(pl_store_read_blob(store, &path.moments, 0, bytes, moments));
    check_version(store, head.number);
    check_version(store, head.number / 2);
    pl_version_clear(&head);
    return number;
}

STORE_TEST(a_reader_beside_a_busy_writer_sees_whole_commits)
{
    int n_looks = 0, n_opens = 0;
    int64_t number = -1, last = -1, first = -1;
    uint64_t word;
    store_child writer = start_store_child(*state);
    assert_true(read_number(&writer, &word));
    int64_t end_ms = pl_now_ms() + READ_MS;
    pl_store *store = NULL;
    while (pl_now_ms() < end_ms ||
           ((last <= first || n_opens < 2) && pl_now_ms() < end_ms + SLOW_MS)) {
        if (n_looks++ % 20 == 0) {
            pl_store_close(&store);
            store = open_store(*state, PL_STORE_READ);
            n_opens++;
        }
        assert_ok(pl_store_refresh(store));
        number = look_at_one_commit(store);
        assert_true(number >= last);
        last = number;
        if (first < 0)
            first = number;
    }
    pl_store_close(&store);
    kill_store_child(&writer); /* the writer still runs */
    close(writer.fd);
    print_message("%d looks, %d openings, commits %lld to %lld\n", n_looks, n_opens,
                  (long long)first, (long long)last);
    assert_true(last > first && n_opens > 1);
}

PL_CHILD(argc, argv)
{
    return commit_for_ever(argv[1]);
}
