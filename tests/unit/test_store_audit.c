/* folder: store; label: fault */
#include "store/store_internal.h"
#include "tests/support/store_fixture.h"

enum { KIB = 1024, N_VERSIONS = 4, BYTES = 3000 * KIB };

typedef struct findings {
    char text[8192];
    int n;
} findings;

static void note(void *context, const char *sentence)
{
    findings *f = context;
    f->n++;
    snprintf(f->text + strlen(f->text), sizeof f->text - strlen(f->text), "%s\n",
             sentence);
}

/* Makes a store that has rows in every column family of the database. */
static void fill(const char *folder)
{
    pl_store *store = open_store(folder, PL_STORE_CREATE);
    for (uint64_t n = 0; n < N_VERSIONS; n++)
        commit_version(store, "a/x", n, n, BYTES);
    pl_txn *txn = begin(store);
    pl_contribution c = {.phase = N_VERSIONS - 1, .path = 2};
    pl_path_state path = {.name = "a/p0.r0", .phase = 3};
    pl_hash blob = put_bytes(txn, 99, 100);
    c.update = put_bytes(txn, 98, 100);
    path.moments = put_bytes(txn, 97, 100);
    assert_ok(pl_txn_put_pending(txn, "a/x", &c));
    assert_ok(pl_txn_put_path(txn, &path));
    assert_ok(pl_txn_put_object(txn, "thing", &blob));
    assert_ok(pl_txn_put_ref(txn, "name", "a/x@1"));
    assert_ok(pl_txn_commit(&txn));
    pl_store_close(&store);
}

static findings audit(const char *folder)
{
    findings f = {"", 0};
    pl_audit_report report;
    pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_audit(store, true, note, &f, &report));
    assert_int_equal(report.n_problems, (uint64_t)f.n);
    pl_store_close(&store);
    return f;
}

static void assert_names(const findings *f, const char *word)
{
    if (!strstr(f->text, word))
        print_error("no `%s` among %d:\n%s", word, f->n, f->text);
    assert_non_null(strstr(f->text, word));
}

/* ---- changes that are made directly in the database, without the store ---- */
static kv *open_kv(const char *folder)
{
    kv *db;
    char path[PL_PATH_MAX];
    assert_ok(kv_open(pl_join(path, folder, "db"), KV_WRITE, NULL, &db));
    return db;
}

static void change_row(const char *folder, kv_family family, row_key key,
                       const void *value, size_t len)
{
    kv *db = open_kv(folder);
    kv_batch *batch = kv_batch_create(db);
    if (value)
        kv_put(batch, family, key_slice(&key), (kv_slice){value, len});
    else
        kv_delete(batch, family, key_slice(&key));
    assert_ok(kv_commit(db, batch));
    kv_batch_destroy(&batch);
    kv_close(&db, false);
}

static void flip_row(const char *folder, kv_family family, row_key key, size_t at)
{
    kv *db = open_kv(folder);
    kv_pin pin;
    assert_ok(kv_get(db, family, key_slice(&key), &pin));
    assert_non_null(pin.data);
    uint8_t *value = pl_alloc(pin.len);
    size_t len = pin.len;
    memcpy(value, pin.data, len);
    value[at % len] ^= 0x10;
    kv_unpin(&pin);
    kv_close(&db, false);
    change_row(folder, family, key, value, len);
    pl_free(value);
}

static row_key first_key(const char *folder, kv_family family)
{
    kv *db = open_kv(folder);
    row_key out = {.len = 0};
    bool valid;
    kv_slice key, value;
    kv_cursor *cursor = kv_cursor_open(db, NULL, family, (kv_slice){"", 0});
    assert_ok(kv_cursor_next(cursor, &valid, &key, &value));
    assert_true(valid);
    memcpy(out.bytes, key.data, key.len);
    out.len = key.len;
    kv_cursor_close(&cursor);
    kv_close(&db, false);
    return out;
}

static pl_hash params_of(const char *folder, uint64_t number)
{
    pl_version v;
    pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_get_version(store, "a/x", number, &v));
    pl_hash params = v.params;
    pl_version_clear(&v);
    pl_store_close(&store);
    return params;
}

/* ---- tests ---- */
static void a_sound_store_has_no_findings(void **state)
{
    fill(*state);
    findings f = audit(*state);
    if (f.n)
        print_error("%s", f.text);
    assert_int_equal(f.n, 0);
}

static void a_flipped_bit_in_any_family_is_named(void **state)
{
    static const struct {
        kv_family family;
        const char *name;
    } places[] = {{KV_META, "meta/"},
                  {KV_LOG, "log/"},
                  {KV_VERSION, "version/a/x"},
                  {KV_HEAD, "head/a/x"},
                  {KV_PENDING, "pending/a/x"},
                  {KV_PATH, "path/a/p0.r0"},
                  {KV_OBJECT, "object/thing"},
                  {KV_REF, "ref/name"},
                  {KV_BLOB, "blob/"},
                  {KV_CHUNK, "chunk/"},
                  {KV_PACK, "its bytes do not match its hash"}};
    fill(*state);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        row_key key = first_key(*state, places[i].family);
        if (places[i].family == KV_META) /* not the first key, which is the epoch */
            key = key_of_name("store");
        flip_row(*state, places[i].family, key, 12);
        findings f = audit(*state);
        assert_names(&f, places[i].name);
        flip_row(*state, places[i].family, key, 12);
    }
    findings f = audit(*state);
    assert_int_equal(f.n, 0);
}

static void missing_rows_are_named(void **state)
{
    char text[PL_HASH_TEXT];
    fill(*state);
    pl_hash params = params_of(*state, 2);
    change_row(*state, KV_BLOB, key_of_hash(&params), NULL, 0);
    findings f = audit(*state);
    pl_hash_format(&params, text);
    assert_names(&f, text);
    assert_names(&f, "is named 1 times but does not exist");
    assert_names(&f, "but it is named 0 times"); /* the references to its chunks */
    change_row(*state, KV_VERSION, key_of_version("a/x", 1), NULL, 0);
    change_row(*state, KV_PACK, key_of_pack(1, 1), NULL, 0);
    change_row(*state, KV_LOG, key_of_number(2), NULL, 0);
    f = audit(*state);
    assert_names(&f, "a/x has no version 1");
    assert_names(&f, "missing from pack 1");
    assert_names(&f, "commit 2 is missing");
}

static void rows_that_belong_to_nothing_are_named(void **state)
{
    fill(*state);
    change_row(*state, KV_PACK, key_of_pack(1, 77), "stray", 5);
    findings f = audit(*state);
    assert_names(&f, "chunk 77 of pack 1");
    assert_int_equal(f.n, 1);
}

static void tags_of_what_is_not_there_are_named(void **state)
{
    pl_buf bytes = {0};
    pl_hash blob;
    pl_snapshot_item items[] = {{"a/x", 1, {{1}}}, {"a/y", 0, {{2}}}};
    pl_snapshot tag = {.arm = "a", .phase = -1, .n_items = 2, .items = items};
    fill(*state);
    pl_snapshot_encode(&tag, &bytes);
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    pl_txn *txn = begin(store);
    assert_ok(pl_txn_put_blob(txn, bytes.data, bytes.len, &blob));
    assert_ok(pl_txn_put_object(txn, "tag/t", &blob));
    assert_ok(pl_txn_commit(&txn));
    pl_store_close(&store);
    pl_buf_destroy(&bytes);
    findings f = audit(*state);
    assert_names(&f, "tag t names a/x@1, which has different parameters");
    assert_names(&f, "tag t names a/y@0, which is missing");
    assert_int_equal(f.n, 2);
}

/* ---- dropped data, and copies ---- */
static void dropped_data_leaves_records_and_counts_that_agree(void **state)
{
    pl_version v;
    fill(*state);
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    pl_txn *txn = begin(store);
    assert_ok(pl_txn_drop_data(txn, "a/x", 1));
    assert_ok(pl_txn_drop_data(txn, "a/x", 1));
    assert_int_equal(pl_txn_drop_data(txn, "a/x", N_VERSIONS - 1), PL_ERR_ARG);
    assert_int_equal(pl_txn_drop_data(txn, "a/x", 9), PL_ERR_ARG);
    assert_ok(pl_txn_drop_pending(txn, "a/x"));
    assert_ok(pl_txn_drop_object(txn, "thing"));
    assert_int_equal(pl_txn_drop_object(txn, "thing"), PL_ERR_NOT_FOUND);
    assert_ok(pl_txn_drop_ref(txn, "name"));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_get_version(store, "a/x", 1, &v));
    assert_true(v.params_gone);
    assert_false(pl_store_has_blob(store, &v.params));
    pl_version_clear(&v);
    pl_store_close(&store);
    findings f = audit(*state);
    assert_int_equal(f.n, 0);
}

static void mirror_to(const char *from, const char *to, bool force, pl_status wanted,
                      pl_mirror_report *report)
{
    pl_store *store = open_store(from, PL_STORE_READ);
    pl_status status = pl_store_mirror(store, to, force, report);
    if (status != wanted)
        print_error("%s\n", pl_last_error());
    assert_int_equal(status, wanted);
    pl_store_close(&store);
}

static void a_mirror_brings_only_what_is_new_and_replaces_nothing_unasked(void **state)
{
    char from[PL_PATH_MAX], to[PL_PATH_MAX];
    pl_mirror_report report;
    fill(pl_join(from, *state, "from"));
    pl_join(to, *state, "to");
    mirror_to(from, to, false, PL_OK, &report);
    assert_true(report.bytes > BYTES);
    mirror_to(from, to, false, PL_OK, &report);
    assert_int_equal(report.n_chunks + report.n_records, 0);
    pl_store *store = open_store(from, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS, 50, BYTES);
    pl_store_close(&store);
    mirror_to(from, to, false, PL_OK, &report);
    assert_in_range(report.bytes, BYTES, 2 * BYTES + 100);
    findings f = audit(to);
    assert_int_equal(f.n, 0);
    /* After a commit of its own, the copy is not an earlier state of the source. */
    store = open_store(to, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS + 1, 60, BYTES);
    pl_store_close(&store);
    mirror_to(from, to, false, PL_ERR_EXISTS, &report);
    store = open_store(from, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS + 1, 61, BYTES);
    commit_version(store, "a/x", N_VERSIONS + 2, 62, BYTES);
    pl_store_close(&store);
    mirror_to(from, to, false, PL_ERR_EXISTS, &report);
    mirror_to(from, to, true, PL_OK, &report);
    f = audit(to);
    assert_int_equal(f.n, 0);
    store = open_store(to, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS + 3, 63, BYTES);
    pl_store_close(&store);
}

#define store_test(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_sound_store_has_no_findings),
        store_test(a_flipped_bit_in_any_family_is_named),
        store_test(missing_rows_are_named),
        store_test(rows_that_belong_to_nothing_are_named),
        store_test(tags_of_what_is_not_there_are_named),
        store_test(dropped_data_leaves_records_and_counts_that_agree),
        store_test(a_mirror_brings_only_what_is_new_and_replaces_nothing_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
