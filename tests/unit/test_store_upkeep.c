/* folder: store; label: fault */
#include "store/store_internal.h"
#include "tests/support/store_child.h"

/* Kills a process at random moments, again and again. The process commits versions,
 * codes old versions, collects older ones, and copies the store. All acknowledged
 * versions that were not collected must be right, and the audits of store and copy must
 * find no damage. */

enum {
    KILLS = 25,
    WHOLE_LIFE = 36, /* number of versions: enough for two collections and two copies */
    FLOATS = 15000,
    BYTES = FLOATS * 4,
    KEPT = 24,
    MAX_DELAY_MS = 150,
    READ_MS = 4000
};

/* Makes the parameters of version n. Each value grows steadily with n, plus a little
 * noise. */
static float *content(uint64_t n)
{
    float *x = pl_alloc(BYTES);
    for (size_t i = 0; i < FLOATS; i++)
        x[i] = 0.1f * (float)(pl_random_uniform(1, 0, i) - 0.5) +
               1e-4f * (float)n * (float)pl_random_uniform(2, 0, i) +
               1e-4f * (float)pl_random_uniform(3, n, i);
    return x;
}

static bool is_recent(void *context, const pl_version *v)
{
    return v->number + KEPT > *(const uint64_t *)context;
}

static pl_status commit_next(pl_store *store, uint64_t n, pl_hash *parent)
{
    pl_version v = {.module = "a/x", .number = n, .parent = *parent};
    pl_txn *txn = NULL;
    float *x = content(n);
    pl_status status = PL_OK;
    PL_TRY(pl_txn_begin(store, &txn));
    PL_TRY(pl_txn_put_blob(txn, x, BYTES, &v.params));
    PL_TRY(pl_txn_put_version(txn, &v, (pl_keep){0}));
    PL_TRY(pl_txn_commit(&txn));
    *parent = v.params;
done:
    pl_txn_abort(&txn);
    pl_free(x);
    return status;
}

static pl_status copy(const char *folder)
{
    char to[PL_PATH_MAX];
    OWNED(pl_store_close) pl_store *reader;
    pl_mirror_report report;
    snprintf(to, sizeof to, "%s.copy", folder);
    PL_CHECK(pl_store_open(folder, PL_STORE_READ, &reader));
    return pl_store_mirror(reader, to, false, &report);
}

static pl_status upkeep(pl_store *store, const char *folder, uint64_t n)
{
    bool more;
    pl_gc_report report;
    PL_CHECK(pl_store_recode(store, 4 * BYTES, &more));
    if (n % 16 == 15)
        PL_CHECK(pl_store_collect(store, is_recent, &n, true, &report));
    return n % 16 == 7 ? copy(folder) : PL_OK;
}

/* The child process. It reports the number of each acknowledged version. */
static int live(const char *folder)
{
    pl_store *store;
    OWNED(pl_version_clear) pl_version head = {.number = 0};
    uint64_t n = 0;
    if (pl_store_open(folder, PL_STORE_CREATE, &store) != PL_OK)
        return 1;
    if (pl_store_head(store, "a/x", &head) == PL_OK)
        n = head.number + 1;
    pl_hash parent = head.params;
    for (;; n++) {
        if (commit_next(store, n, &parent) != PL_OK)
            return 2;
        if (write(STDOUT_FILENO, &n, sizeof n) != sizeof n)
            return 3;
        if (upkeep(store, folder, n) != PL_OK) {
            fprintf(stderr, "%s\n", pl_last_error());
            return 4;
        }
    }
}

/* Starts and kills a child. Returns the highest number that it reported, or -1. */
static int64_t live_and_die(const char *folder, int64_t delay_ms)
{
    int64_t acked = -1;
    uint64_t number;
    store_child child = start_store_child(folder);
    await_store_child(&child);
    pl_sleep_ms(delay_ms);
    kill_store_child(&child);
    while (read_number(&child, &number))
        acked = (int64_t)number;
    close(child.fd);
    return acked;
}

/* Runs a child until it has reported WHOLE_LIFE versions, however long this takes. On a
 * slow disk, children with a time limit may never collect any data. But this child
 * does, because a child does the upkeep of a version before it reports the next one.
 * Returns the highest number that it reported. */
static int64_t live_whole(const char *folder)
{
    uint64_t number = 0;
    store_child child = start_store_child(folder);
    for (int i = 0; i < WHOLE_LIFE; i++)
        assert_true(read_number(&child, &number));
    kill_store_child(&child);
    while (read_number(&child, &number))
        continue;
    close(child.fd);
    return (int64_t)number;
}

static void audit(const char *folder)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_WRITE);
    assert_whole(store);
}

typedef struct looks {
    pl_store *store;
    int n_right, n_gone;
    int n_lost; /* number of versions that were not found; `lost` is the last one */
    uint64_t lost;
} looks;

static pl_status look(void *context, const pl_version *v)
{
    looks *l = context;
    OWNED(free_memory) float *got = pl_alloc(BYTES), *expected = content(v->number);
    if (v->params_gone)
        l->n_gone++;
    else {
        pl_status status = pl_store_read_blob(l->store, &v->params, 0, BYTES, got);
        if (status == PL_ERR_NOT_FOUND) {
            l->n_lost++;
            l->lost = v->number;
        } else {
            assert_ok(status);
            assert_memory_equal(got, expected, BYTES);
            l->n_right++;
        }
    }
    return PL_OK;
}

STORE_TEST(a_store_that_is_tended_survives_being_killed)
{
    char to[PL_PATH_MAX], mark[PL_PATH_MAX];
    looks l = {0};
    int64_t acked = -1;
    OWNED(pl_version_clear) pl_version head;
    pl_store_stats stats;
    snprintf(to, sizeof to, "%s.copy", (const char *)*state);
    pl_join(mark, to, "HWM");
    for (uint64_t i = 0; i < KILLS; i++) {
        int64_t said =
            live_and_die(*state, (int64_t)(pl_random_u32(7, 0, i) % MAX_DELAY_MS));
        acked = said > acked ? said : acked;
        audit(*state);
        if (pl_path_exists(mark)) /* at least one copy was completed */
            audit(to);
    }
    acked = live_whole(*state);
    audit(*state);
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    assert_ok(pl_store_head(store, "a/x", &head));
    assert_true((int64_t)head.number >= acked);
    l.store = store;
    assert_ok(pl_store_each_version(store, "a/x", look, &l));
    assert_ok(pl_store_count(store, &stats));
    pl_store_close(&store);
    print_message("%d kills: %lld versions, %d of them collected, all others right; "
                  "chunks take %.0f %% of their uncoded size\n",
                  KILLS, (long long)acked + 1, l.n_gone,
                  100 * (double)stats.stored_bytes / (double)stats.chunk_bytes);
    assert_true(l.n_gone > 0 && stats.stored_bytes < stats.chunk_bytes);
    assert_ok(pl_remove_tree(to));
}

/* ---- readers during the upkeep ---- */
static void look_at_all(pl_store *store, looks *l)
{
    pl_version head;
    if (pl_store_head(store, "a/x", &head) == PL_ERR_NOT_FOUND)
        return;
    pl_version_clear(&head);
    l->store = store;
    l->n_lost = 0;
    assert_ok(pl_store_each_version(store, "a/x", look, l));
    if (l->n_lost == 0)
        return;
    /* A version in the list may be collected before it is read. */
    OWNED(pl_version_clear) pl_version now;
    assert_ok(pl_store_refresh(store));
    assert_ok(pl_store_get_version(store, "a/x", l->lost, &now));
    assert_true(now.params_gone);
}

STORE_TEST(readers_beside_it_see_every_version_whole)
{
    char to[PL_PATH_MAX];
    looks l = {0};
    int n_looks = 0, n_opens = 0;
    snprintf(to, sizeof to, "%s.copy", (const char *)*state);
    assert_true(live_and_die(*state, 400) >= 0);
    store_child child = start_store_child(*state);
    pl_store *store = NULL;
    for (int64_t end_ms = pl_now_ms() + READ_MS; pl_now_ms() < end_ms; n_looks++) {
        if (n_looks % 8 == 0) {
            pl_store_close(&store);
            store = open_store(*state, PL_STORE_READ);
            n_opens++;
        }
        assert_ok(pl_store_refresh(store));
        look_at_all(store, &l);
    }
    uint64_t sequence = pl_store_sequence(store);
    pl_store_close(&store);
    kill_store_child(&child);
    close(child.fd);
    print_message("%d looks, %d openings, %d versions right, up to commit %llu\n",
                  n_looks, n_opens, l.n_right, (unsigned long long)sequence);
    assert_true(l.n_right > 0);
    assert_ok(pl_remove_tree(to));
}

PL_CHILD(argc, argv)
{
    return live(argv[1]);
}
