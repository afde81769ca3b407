/* folder: store; label: unit */
#include "tests/support/store_fixture.h"

enum { MIB = 1 << 20 };

/* Hashes of two blobs that a different program has computed: BLAKE2b with person "blob"
 * over the length of the blob (u64) and the hashes of its chunks. */
static const char GOLDEN_EMPTY[] =
    "e36398419dc3f1fc7a772bf0599b0997072c4213c75d7fa89bbed3dd5a9daed1";
static const char GOLDEN_WORD[] =
    "33d92fb5fb00b1b25e160deadc7612739b98429534a3076f7d0c4bb43e5db3a5";

STORE_TEST(a_new_store_is_empty_and_counts_its_epochs)
{
    pl_store_stats stats;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    assert_int_equal(pl_store_epoch(store), 1);
    assert_int_equal(pl_store_sequence(store), 0);
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(
        stats.n_modules + stats.n_versions + stats.n_blobs + stats.n_chunks, 0);
    pl_store_close(&store);
    assert_null(store);
    store = open_store(*state, PL_STORE_WRITE);
    assert_int_equal(pl_store_epoch(store), 2);
}

static pl_hash commit_object(pl_store *store, const char *name, uint64_t seed, size_t n)
{
    pl_txn *txn = begin(store);
    const pl_hash hash = put_bytes(txn, seed, n);
    assert_ok(pl_txn_put_object(txn, name, &hash));
    assert_ok(pl_txn_commit(&txn));
    return hash;
}

STORE_TEST(a_blob_comes_back_whole_and_in_parts)
{
    static const size_t sizes[] = {0, 1, 1000, MIB - 1, MIB, MIB + 1, 3 * MIB + 77};
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[32];
        pl_hash alone;
        uint8_t *bytes = make_bytes(i, sizes[i]), part[100];
        snprintf(name, sizeof name, "test/%zu", i);
        const pl_hash hash = commit_object(store, name, i, sizes[i]);
        pl_blob_hash(bytes, sizes[i], &alone);
        assert_true(pl_hash_equal(&alone, &hash));
        assert_true(blob_holds(store, &hash, i, sizes[i]));
        if (sizes[i] > MIB) { /* reads bytes of two chunks */
            assert_ok(pl_store_read_blob(store, &hash, sizes[i] - 100, 100, part));
            assert_memory_equal(part, bytes + sizes[i] - 100, 100);
            assert_ok(pl_store_read_blob(store, &hash, MIB - 1, 2, part));
            assert_memory_equal(part, bytes + MIB - 1, 2);
        }
        assert_int_equal(pl_store_read_blob(store, &hash, sizes[i], 1, part),
                         PL_ERR_ARG);
        assert_int_equal(pl_store_read_blob(store, &hash, UINT64_MAX, 2, part),
                         PL_ERR_ARG);
        pl_free(bytes);
    }
}

STORE_TEST(several_blobs_are_read_at_once)
{
    enum { N = 5 };
    static const size_t sizes[N] = {MIB + 300000, 0, 3 * MIB, MIB + 5, 17};
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_hash hashes[N], none = {{1}};
    pl_blob_read reads[N + 1];
    for (size_t i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "test/%zu", i);
        hashes[i] = commit_object(store, name, i, sizes[i]);
        reads[i] = (pl_blob_read){&hashes[i], sizes[i], pl_alloc(sizes[i])};
    }
    reads[N] = (pl_blob_read){&none, 0, NULL};
    for (size_t n = 0; n <= N; n++)
        assert_ok(pl_store_read_blobs(store, reads, n));
    for (size_t i = 0; i < N; i++) {
        OWNED(free_memory) uint8_t *bytes = make_bytes(i, sizes[i]);
        if (sizes[i] > 0)
            assert_memory_equal(reads[i].out, bytes, sizes[i]);
    }
    assert_int_equal(pl_store_read_blobs(store, reads, N + 1), PL_ERR_NOT_FOUND);
    reads[N] = (pl_blob_read){&hashes[0], sizes[0] + 1, NULL};
    assert_int_equal(pl_store_read_blobs(store, reads, N + 1), PL_ERR_ARG);
    for (size_t i = 0; i < N; i++)
        pl_free(reads[i].out);
}

PL_TEST(the_name_of_a_blob_is_a_pure_function_of_its_bytes)
{
    char text[PL_HASH_TEXT];
    pl_hash hash;
    pl_blob_hash("", 0, &hash);
    pl_hash_format(&hash, text);
    assert_string_equal(text, GOLDEN_EMPTY);
    pl_blob_hash("pathloom", 8, &hash);
    pl_hash_format(&hash, text);
    assert_string_equal(text, GOLDEN_WORD);
}

static pl_contribution contribution(int64_t path, int64_t replica, int64_t phase)
{
    pl_contribution c = {.path = path, .replica = replica, .phase = phase};
    pl_copy_text(c.worker, sizeof c.worker, "worker-2");
    pl_copy_text(c.device, sizeof c.device, "cpu avx512");
    pl_copy_text(c.codec, sizeof c.codec, "bf16");
    c.work.first_sample = 640;
    c.work.n_samples = 64;
    c.work.n_tokens = 8128;
    c.work.loss = 5.25 + (double)path;
    c.norm = 0.125;
    c.weight = 2.5;
    c.work.seconds = 1.75;
    c.token = 77;
    c.update_bytes = 4096;
    return c;
}

static void assert_same_contribution(const pl_contribution *a, const pl_contribution *b)
{
    assert_string_equal(a->worker, b->worker);
    assert_string_equal(a->device, b->device);
    assert_string_equal(a->codec, b->codec);
    assert_true(a->path == b->path && a->replica == b->replica && a->phase == b->phase);
    assert_memory_equal(&a->work, &b->work, sizeof a->work);
    assert_true(a->token == b->token && a->update_bytes == b->update_bytes);
    assert_true(a->norm == b->norm && a->weight == b->weight);
    assert_true(pl_hash_equal(&a->update, &b->update));
}

STORE_TEST(a_version_comes_back_field_by_field)
{
    pl_contribution list[2] = {contribution(0, 0, 0), contribution(3, 1, 0)};
    OWNED(pl_version_clear) pl_version got = {.number = 0}, first = {.number = 0};
    pl_version v = {.module = "mix/L1.E0",
                    .method = "nesterov",
                    .number = 1,
                    .lr = 0.7,
                    .outer_momentum = 0.9,
                    .n_params = 1250,
                    .params_norm = 12.5,
                    .update_norm = 0.5,
                    .wall_ms = 1700000000123,
                    .n_contributions = 2,
                    .contributions = list};
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    commit_version(store, "mix/L1.E0", 0, 1, 5000);
    assert_ok(pl_store_head(store, "mix/L1.E0", &first));
    assert_true(pl_hash_none(&first.momentum) && pl_hash_none(&first.parent));
    pl_txn *txn = begin(store);
    v.params = put_bytes(txn, 2, 5000);
    v.momentum = put_bytes(txn, 3, 5000);
    v.change = put_bytes(txn, 4, 600);
    v.parent = first.params;
    memset(v.config.bytes, 7, sizeof v.config.bytes);
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_get_version(store, "mix/L1.E0", 1, &got));
    assert_string_equal(got.module, v.module);
    assert_string_equal(got.method, v.method);
    assert_true(pl_hash_equal(&got.params, &v.params));
    assert_true(pl_hash_equal(&got.momentum, &v.momentum));
    assert_true(pl_hash_equal(&got.change, &v.change));
    assert_true(pl_hash_equal(&got.parent, &v.parent));
    assert_true(pl_hash_equal(&got.config, &v.config));
    assert_true(got.number == 1 && got.n_params == 1250 && got.wall_ms == v.wall_ms);
    assert_true(got.lr == 0.7 && got.outer_momentum == 0.9);
    assert_true(got.params_norm == 12.5 && got.update_norm == 0.5);
    assert_int_equal(got.sequence, 2);
    assert_int_equal(got.n_contributions, 2);
    assert_same_contribution(&got.contributions[0], &list[0]);
    assert_same_contribution(&got.contributions[1], &list[1]);
}

STORE_TEST(a_version_out_of_order_is_stale)
{
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_version v = {.number = 3, .module = "a/x"};
    pl_txn *txn = begin(store);
    v.params = put_bytes(txn, 1, 10);
    assert_int_equal(pl_txn_put_version(txn, &v, (pl_keep){0}), PL_ERR_STALE);
    v.number = 0;
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){0}));
    assert_fails(pl_txn_put_version(txn, &v, (pl_keep){0}), PL_ERR_STALE,
                 "is 0, so the next one must be");
    v.number = 2;
    assert_int_equal(pl_txn_put_version(txn, &v, (pl_keep){0}), PL_ERR_STALE);
    v.number = 1;
    assert_fails(pl_txn_put_version(txn, &v, (pl_keep){0}), PL_ERR_ARG, "parent");
    v.parent = v.params;
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){0}));
    assert_ok(pl_txn_commit(&txn)); /* the refused steps have changed nothing */
    assert_fails(pl_store_get_version(store, "a/x", 2, &v), PL_ERR_NOT_FOUND, "0 to 1");
    assert_fails(pl_store_get_version(store, "a/y", 0, &v), PL_ERR_NOT_FOUND,
                 "no module a/y");
}

STORE_TEST(a_record_cannot_name_a_blob_that_is_not_there)
{
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_version v = {.module = "a/x"};
    pl_contribution c = contribution(0, 0, 0);
    pl_path_state p = {.name = "a/p00.r0"};
    pl_txn *txn = begin(store);
    pl_blob_hash("absent", 6, &v.params);
    c.update = p.moments = v.params;
    assert_int_equal(pl_txn_put_version(txn, &v, (pl_keep){0}), PL_ERR_NOT_FOUND);
    assert_int_equal(pl_txn_put_pending(txn, "a/x", &c), PL_ERR_NOT_FOUND);
    assert_int_equal(pl_txn_put_path(txn, &p), PL_ERR_NOT_FOUND);
    assert_fails(pl_txn_put_object(txn, "o", &v.params), PL_ERR_NOT_FOUND,
                 "store the blob first");
    assert_ok(pl_txn_commit(&txn));
    assert_int_equal(pl_store_sequence(store), 0); /* nothing was committed */
}

static pl_status count_rows(void *context, const char *module, const pl_contribution *c)
{
    (void)module;
    (void)c;
    ++*(int *)context;
    return PL_OK;
}

STORE_TEST(an_aborted_transaction_leaves_nothing)
{
    pl_store_stats stats;
    int n_pending = 0;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_version v = {.module = "a/x"};
    pl_contribution c = contribution(0, 0, 0);
    pl_txn *txn = begin(store);
    v.params = c.update = put_bytes(txn, 1, 3 * MIB);
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){0}));
    assert_ok(pl_txn_put_pending(txn, "a/x", &c));
    assert_ok(pl_txn_put_object(txn, "o", &c.update));
    assert_ok(pl_txn_put_ref(txn, "r", "x"));
    assert_false(pl_store_has_blob(store, &c.update));
    pl_txn *second;
    assert_int_equal(pl_txn_begin(store, &second), PL_ERR_ARG);
    pl_txn_abort(&txn);
    pl_txn_abort(&txn);
    assert_false(pl_store_has_blob(store, &c.update));
    assert_ok(pl_store_each_pending(store, "", count_rows, &n_pending));
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(n_pending, 0);
    assert_int_equal(
        stats.n_modules + stats.n_versions + stats.n_blobs + stats.n_chunks, 0);
    assert_int_equal(pl_store_sequence(store), 0);
}

STORE_TEST(a_blob_that_no_record_names_is_not_kept)
{
    pl_store_stats stats;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_txn *txn = begin(store);
    put_bytes(txn, 1, 2 * MIB);
    assert_ok(pl_txn_put_ref(txn, "r", "x"));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_blobs + stats.n_chunks, 0);
}

STORE_TEST(equal_tensors_are_stored_once)
{
    pl_store_stats stats;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, 2 * MIB);
    commit_version(store, "a/y", 0, 1, 2 * MIB);
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_versions, 2);
    assert_int_equal(stats.n_blobs, 1);
    assert_int_equal(stats.chunk_bytes, 2 * MIB);
    /* This blob has the first MiB of the known blob, so only one chunk is added. */
    OWNED(free_memory) uint8_t *bytes = make_bytes(1, 2 * MIB);
    bytes[2 * MIB - 1] ^= 1;
    pl_hash hash;
    pl_txn *txn = begin(store);
    assert_ok(pl_txn_put_blob(txn, bytes, 2 * MIB, &hash));
    assert_ok(pl_txn_put_object(txn, "o", &hash));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_blobs, 2);
    assert_int_equal(stats.n_chunks, 3);
    assert_int_equal(stats.blob_bytes, 4 * MIB);
    assert_int_equal(stats.chunk_bytes, 3 * MIB);
}

STORE_TEST(one_transaction_may_put_and_name_the_same_blob_often)
{
    pl_store_stats stats;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    /* one blob has five equal chunks */
    OWNED(free_memory) uint8_t *zeros = pl_alloc(5 * MIB);
    pl_hash a, b;
    pl_txn *txn = begin(store);
    assert_ok(pl_txn_put_blob(txn, zeros, 5 * MIB, &a));
    assert_ok(pl_txn_put_blob(txn, zeros, 5 * MIB, &b));
    assert_true(pl_hash_equal(&a, &b));
    assert_ok(pl_txn_put_object(txn, "o1", &a));
    assert_ok(pl_txn_put_object(txn, "o2", &b));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_blobs, 1);
    assert_int_equal(stats.n_chunks, 1);
    /* A blob that loses all its names and gets one back in the same transaction stays.
     * A blob without a name at the end of a transaction is deleted. */
    txn = begin(store);
    b = put_bytes(txn, 9, 100);
    assert_ok(pl_txn_put_object(txn, "o1", &b));
    assert_ok(pl_txn_put_object(txn, "o2", &b));
    assert_ok(pl_txn_put_object(txn, "o2", &a));
    assert_ok(pl_txn_commit(&txn));
    assert_true(pl_store_has_blob(store, &a));
    txn = begin(store);
    assert_ok(pl_txn_put_object(txn, "o2", &b));
    assert_ok(pl_txn_commit(&txn));
    assert_false(pl_store_has_blob(store, &a));
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_chunks, 1);
    assert_int_equal(stats.chunk_bytes, 100);
}

/* Commits a phase as a home does: first two updates, then the merge. */
static void run_phase(pl_store *store, uint64_t phase, pl_keep keep)
{
    pl_version v = {.module = "a/x", .number = phase + 1};
    OWNED(pl_version_clear) pl_version head;
    pl_txn *txn;
    assert_ok(pl_store_head(store, "a/x", &head));
    for (int64_t path = 0; path < 2; path++) {
        pl_contribution c = contribution(path, 0, (int64_t)phase);
        txn = begin(store);
        c.update = put_bytes(txn, 100 + 10 * phase + (uint64_t)path, 2000);
        assert_ok(pl_txn_put_pending(txn, "a/x", &c));
        assert_ok(pl_txn_commit(&txn));
    }
    txn = begin(store);
    v.params = put_bytes(txn, 200 + phase, 4000);
    v.momentum = put_bytes(txn, 300 + phase, 4000);
    v.change = put_bytes(txn, 400 + phase, 500);
    v.parent = head.params;
    assert_ok(pl_txn_put_version(txn, &v, keep));
    assert_ok(pl_txn_commit(&txn));
}

STORE_TEST(merged_updates_old_momentum_and_changes_are_deleted)
{
    pl_store_stats stats;
    pl_version v;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, 4000);
    for (uint64_t phase = 0; phase < 4; phase++)
        run_phase(store, phase, (pl_keep){false, false, false});
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_versions, 5);
    /* These are the parameters of all versions, and the momenta and changes of versions
     * 3 and 4. */
    assert_int_equal(stats.n_blobs, 5 + 2 + 2);
    assert_int_equal(stats.chunk_bytes, 7 * 4000 + 2 * 500);
    for (uint64_t n = 0; n < 5; n++) {
        assert_ok(pl_store_get_version(store, "a/x", n, &v));
        assert_int_equal(pl_hash_none(&v.momentum), n < 3);
        assert_int_equal(pl_hash_none(&v.change), n < 3);
        assert_true(pl_store_has_blob(store, &v.params));
        pl_version_clear(&v);
    }
}

STORE_TEST(kept_updates_and_momentum_stay)
{
    pl_store_stats stats;
    OWNED(pl_version_clear) pl_version v;
    int n_pending = 0;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, 4000);
    for (uint64_t phase = 0; phase < 3; phase++)
        run_phase(store, phase, (pl_keep){true, true, false});
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_blobs, 4 + 3 + 3 + 6);
    assert_ok(pl_store_each_pending(store, "", count_rows, &n_pending));
    assert_int_equal(n_pending, 0);
    run_phase(store, 3, (pl_keep){false, false, false});
    assert_ok(pl_store_get_version(store, "a/x", 1, &v));
    assert_true(pl_hash_none(&v.momentum));
    pl_version_clear(&v);
    assert_ok(pl_store_get_version(store, "a/x", 3, &v));
    assert_false(pl_hash_none(&v.momentum));
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_blobs, 5 + 2 + 2 + 6);
}

STORE_TEST(a_merge_takes_updates_of_its_own_transaction)
{
    pl_store_stats stats;
    int n_pending = 0;
    pl_version v = {.module = "a/x", .number = 1};
    pl_contribution c = contribution(0, 0, 0), later = contribution(0, 0, 1);
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, 400);
    pl_txn *txn = begin(store);
    c.update = put_bytes(txn, 5, 300);
    later.update = put_bytes(txn, 6, 300);
    assert_ok(pl_txn_put_pending(txn, "a/x", &c));
    assert_int_equal(pl_txn_put_pending(txn, "a/x", &c), PL_ERR_EXISTS);
    assert_ok(pl_txn_put_pending(txn, "a/x", &later));
    v.params = put_bytes(txn, 7, 400);
    OWNED(pl_version_clear) pl_version head;
    assert_ok(pl_store_head(store, "a/x", &head));
    v.parent = head.params;
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){0}));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_each_pending(store, "", count_rows, &n_pending));
    assert_int_equal(n_pending, 1); /* the update of phase 1 */
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_blobs, 3);
}

static pl_status write_order(void *context, const char *module,
                             const pl_contribution *c)
{
    pl_buf_printf(context, "%s.%d.%d.%d ", module, (int)c->phase, (int)c->path,
                  (int)c->replica);
    return PL_OK;
}

STORE_TEST(pending_comes_in_the_order_of_sums)
{
    static const int64_t keys[][3] = {{300, 0, 0}, {2, 1, 0}, {2, 0, 1}, {2, 0, 0}};
    OWNED(pl_buf_destroy) pl_buf order = {0};
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_txn *txn = begin(store);
    for (size_t i = 0; i < 4; i++) {
        pl_contribution c = contribution(keys[i][0], keys[i][1], keys[i][2]);
        c.update = put_bytes(txn, i, 10);
        assert_ok(pl_txn_put_pending(txn, "a/x", &c));
        assert_ok(pl_txn_put_pending(txn, "a/x1", &c));
    }
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_each_pending(store, "a/x", write_order, &order));
    assert_string_equal(pl_buf_text(&order),
                        "a/x.0.2.0 a/x.0.2.1 a/x.0.300.0 a/x.1.2.0 "
                        "a/x1.0.2.0 a/x1.0.2.1 a/x1.0.300.0 a/x1.1.2.0 ");
}

STORE_TEST(a_path_state_replaces_the_one_before)
{
    pl_path_state got, p = {.name = "mix/p01.r0", .phase = 1, .worker = "worker-1"};
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_hash first = {{0}};
    for (int64_t phase = 1; phase <= 3; phase++) {
        pl_txn *txn = begin(store);
        p.phase = phase;
        p.work.n_samples = 100 * (uint64_t)phase;
        p.work.n_tokens = 5;
        p.work.loss = 3.5;
        p.work.seconds = 0.25;
        p.moments = put_bytes(txn, (uint64_t)phase, MIB + 5);
        if (phase == 1)
            first = p.moments;
        assert_ok(pl_txn_put_path(txn, &p));
        assert_ok(pl_txn_commit(&txn));
    }
    assert_ok(pl_store_get_path(store, "mix/p01.r0", &got));
    assert_memory_equal(&got, &p, sizeof got);
    assert_true(blob_holds(store, &p.moments, 3, MIB + 5));
    assert_false(pl_store_has_blob(store, &first));
    assert_fails(pl_store_get_path(store, "mix/p02.r0", &got), PL_ERR_NOT_FOUND,
                 "mix/p02.r0");
}

static pl_status join_object(void *context, const pl_object *object)
{
    pl_buf_printf(context, "%s=%d ", object->name, (int)object->bytes);
    return PL_OK;
}

static pl_status join_ref(void *context, const char *name, const char *target)
{
    pl_buf_printf(context, "%s=%s ", name, target);
    return PL_OK;
}

static pl_status join_head(void *context, const pl_version *version)
{
    pl_buf_printf(context, "%s@%d ", version->module, (int)version->number);
    return PL_OK;
}

static pl_status join_path(void *context, const pl_path_state *path)
{
    pl_buf_printf(context, "%s ", path->name);
    return PL_ERR_CANCELLED;
}

STORE_TEST(objects_refs_and_heads_are_listed_by_prefix)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_path_state path = {.name = "b/p0"};
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    commit_version(store, "b/x", 0, 1, 10);
    commit_version(store, "a/x", 0, 2, 10);
    commit_version(store, "b/x", 1, 3, 10);
    pl_txn *txn = begin(store);
    pl_hash small = put_bytes(txn, 4, 12), empty = put_bytes(txn, 5, 0);
    assert_ok(pl_txn_put_object(txn, "arm/b", &small));
    assert_ok(pl_txn_put_object(txn, "arm/a", &empty));
    assert_ok(pl_txn_put_object(txn, "router/a", &small));
    assert_ok(pl_txn_put_ref(txn, "best", "a/x@0"));
    assert_ok(pl_txn_put_ref(txn, "best", "b/x@1 a/x@0"));
    assert_ok(pl_txn_put_ref(txn, "last", ""));
    assert_ok(pl_txn_put_path(txn, &path));
    pl_copy_text(path.name, sizeof path.name, "b/p1");
    assert_ok(pl_txn_put_path(txn, &path));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_each_object(store, "arm/", join_object, &text));
    assert_ok(pl_store_each_ref(store, "", join_ref, &text));
    assert_ok(pl_store_each_head(store, "", join_head, &text));
    assert_ok(pl_store_each_version(store, "b/x", join_head, &text));
    assert_int_equal(pl_store_each_path(store, "", join_path, &text), PL_ERR_CANCELLED);
    assert_string_equal(pl_buf_text(&text), "arm/a=0 arm/b=12 best=b/x@1 a/x@0 last= "
                                            "a/x@0 b/x@1 b/x@0 b/x@1 b/p0 ");
    assert_ok(pl_store_get_ref(store, "best", &text));
    assert_string_equal(pl_buf_text(&text), "b/x@1 a/x@0");
    assert_int_equal(pl_store_get_ref(store, "worst", &text), PL_ERR_NOT_FOUND);
}

STORE_TEST(names_are_checked)
{
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    char longest[PL_MODULE_NAME_MAX + 10];
    memset(longest, 'x', sizeof longest);
    pl_txn *txn = begin(store);
    longest[PL_MODULE_NAME_MAX] = 0;
    const char *const bad[] = {"", "a b", "a\n", "\xc3\xa4", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (pl_txn_put_ref(txn, bad[i], "t") != PL_ERR_ARG)
            fail_msg("'%s' is not refused", bad[i]);
    longest[PL_MODULE_NAME_MAX - 1] = 0;
    assert_ok(pl_txn_put_ref(txn, longest, "t"));
    pl_txn_abort(&txn);
}

STORE_TEST(a_second_writer_is_refused_also_without_the_lock_file)
{
    char lock[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_store *second, *store = open_store(*state, PL_STORE_CREATE);
    assert_int_equal(pl_store_open(*state, PL_STORE_WRITE, &second), PL_ERR_BUSY);
    assert_null(second);
    assert_int_equal(unlink(pl_join(lock, pl_join(path, *state, "db"), "LOCK")), 0);
    assert_fails(pl_store_open(*state, PL_STORE_CREATE, &second), PL_ERR_BUSY,
                 (const char *)*state);
    pl_store_close(&store);
}

STORE_TEST(a_reader_follows_the_writer)
{
    pl_version v;
    uint8_t byte;
    pl_store *writer = open_store(*state, PL_STORE_CREATE);
    commit_version(writer, "a/x", 0, 0, 3 * MIB);
    OWNED(pl_store_close) pl_store *reader = open_store(*state, PL_STORE_READ);
    pl_txn *txn;
    assert_int_equal(pl_txn_begin(reader, &txn), PL_ERR_ARG);
    /* The writer commits 20 versions of 3 MiB, each with a momentum of 3 MiB. */
    for (uint64_t n = 1; n <= 20; n++) {
        commit_version(writer, "a/x", n, n, 3 * MIB);
        assert_ok(pl_store_head(reader, "a/x", &v));
        /* Before a refresh the reader sees no new version. */
        assert_int_equal(v.number, n - 1);
        assert_ok(pl_store_read_blob(reader, &v.params, 2 * MIB, 1, &byte));
        if (n > 1)
            assert_ok(pl_store_read_blob(reader, &v.momentum, 2 * MIB, 1, &byte));
        pl_version_clear(&v);
        assert_ok(pl_store_refresh(reader));
        assert_int_equal(pl_store_sequence(reader), n + 1);
        assert_ok(pl_store_head(reader, "a/x", &v));
        assert_int_equal(v.number, n);
        assert_true(blob_holds(reader, &v.params, n, 3 * MIB));
        pl_version_clear(&v);
    }
    assert_int_equal(pl_store_epoch(reader), 1);
    pl_store_close(&writer);
    /* Now no writer has the store open. */
    OWNED(pl_store_close) pl_store *late = open_store(*state, PL_STORE_READ);
    assert_int_equal(pl_store_sequence(late), 21);
}

STORE_TEST(everything_is_there_after_reopening)
{
    pl_version v;
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < 12; n++)
        commit_version(store, "a/x", n, n, 4 * MIB + n);
    pl_store_close(&store);
    store = open_store(*state, PL_STORE_WRITE);
    assert_int_equal(pl_store_sequence(store), 12);
    for (uint64_t n = 0; n < 12; n++) {
        assert_ok(pl_store_get_version(store, "a/x", n, &v));
        assert_true(blob_holds(store, &v.params, n, 4 * MIB + n));
        assert_int_equal(v.sequence, n + 1);
        pl_version_clear(&v);
    }
}

STORE_TEST(deleted_chunks_give_their_space_back)
{
    pl_store_stats stats;
    pl_path_state path = {.name = "a/p0"};
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (uint64_t i = 0; i < 60; i++) {
        pl_txn *txn = begin(store);
        path.moments = put_bytes(txn, i, 6 * MIB);
        assert_ok(pl_txn_put_path(txn, &path));
        assert_ok(pl_txn_commit(&txn));
    }
    pl_store_close(&store);
    store = open_store(*state, PL_STORE_WRITE);
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.chunk_bytes, 6 * MIB);
    assert_true(stats.disk_bytes < 220 * (uint64_t)MIB); /* 360 MiB were written */
}

STORE_TEST(a_missing_store_and_a_foreign_folder_are_refused)
{
    char file[PL_PATH_MAX], none[PL_PATH_MAX];
    pl_store *store;
    pl_join(none, *state, "none");
    assert_int_equal(pl_store_open(none, PL_STORE_WRITE, &store), PL_ERR_NOT_FOUND);
    assert_fails(pl_store_open(none, PL_STORE_READ, &store), PL_ERR_NOT_FOUND, none);
    assert_int_equal(pl_store_open(*state, PL_STORE_READ, &store), PL_ERR_NOT_FOUND);
    assert_ok(pl_replace_file(pl_join(file, *state, "letter.txt"), "hi", 2));
    assert_int_equal(pl_store_open(*state, PL_STORE_CREATE, &store), PL_ERR_EXISTS);
}
