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
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_CREATE);
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
}

static findings audit(const char *folder)
{
    findings f = {"", 0};
    pl_audit_report report;
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_audit(store, true, note, &f, &report));
    assert_int_equal(report.n_problems, (uint64_t)f.n);
    return f;
}

static void assert_names(const findings *f, const char *word)
{
    if (!strstr(f->text, word))
        fail_msg("no `%s` among %d:\n%s", word, f->n, f->text);
}

static void assert_no_findings(const char *folder)
{
    const findings f = audit(folder);
    if (f.n)
        fail_msg("%s", f.text);
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
    OWNED(kv_batch_destroy) kv_batch *batch = kv_batch_create(db);
    if (value)
        kv_put(batch, family, key_slice(&key), (kv_slice){value, len});
    else
        kv_delete(batch, family, key_slice(&key));
    assert_ok(kv_commit(db, batch));
    kv_close(&db, false);
}

static void flip_row(const char *folder, kv_family family, row_key key, size_t at)
{
    kv *db = open_kv(folder);
    kv_pin pin;
    assert_ok(kv_get(db, family, key_slice(&key), &pin));
    assert_non_null(pin.data);
    OWNED(free_memory) uint8_t *value = pl_alloc(pin.len);
    size_t len = pin.len;
    memcpy(value, pin.data, len);
    value[at % len] ^= 0x10;
    kv_unpin(&pin);
    kv_close(&db, false);
    change_row(folder, family, key, value, len);
}

static row_key first_key(const char *folder, kv_family family)
{
    kv *db = open_kv(folder);
    row_key out = {.len = 0};
    kv_cursor *cursor = kv_cursor_open(db, NULL, family, (kv_slice){"", 0});
    assert_true(kv_cursor_next(cursor));
    memcpy(out.bytes, cursor->key.data, cursor->key.len);
    out.len = cursor->key.len;
    kv_cursor_close(&cursor);
    kv_close(&db, false);
    return out;
}

static pl_hash params_of(const char *folder, uint64_t number)
{
    OWNED(pl_version_clear) pl_version v;
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_get_version(store, "a/x", number, &v));
    return v.params;
}

/* ---- tests ---- */
STORE_TEST(a_sound_store_has_no_findings)
{
    fill(*state);
    assert_no_findings(*state);
}

STORE_TEST(a_flipped_bit_in_any_family_is_named)
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
    assert_no_findings(*state);
}

STORE_TEST(missing_rows_are_named)
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

STORE_TEST(rows_that_belong_to_nothing_are_named)
{
    fill(*state);
    change_row(*state, KV_PACK, key_of_pack(1, 77), "stray", 5);
    findings f = audit(*state);
    assert_names(&f, "chunk 77 of pack 1");
    assert_int_equal(f.n, 1);
}

STORE_TEST(tags_of_what_is_not_there_are_named)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_snapshot_item items[] = {{"a/x", 1, {{1}}}, {"a/y", 0, {{2}}}};
    pl_snapshot tag = {.arm = "a", .phase = -1, .n_items = 2, .items = items};
    fill(*state);
    pl_snapshot_encode(&tag, &bytes);
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    pl_txn *txn = begin(store);
    put_object(txn, "tag/t", bytes.data, bytes.len);
    assert_ok(pl_txn_commit(&txn));
    pl_store_close(&store);
    findings f = audit(*state);
    assert_names(&f, "tag t names a/x@1, which has different parameters");
    assert_names(&f, "tag t names a/y@0, which is missing");
    assert_int_equal(f.n, 2);
}

/* ---- rows that were changed without a commit ---- */
/* The changes below write rows as the store would, with right checksums and counts of
 * references, but directly into the database. */
typedef void (*change_fn)(kv_batch *batch, pl_version *v, const pl_version *other);

static void change_refs(kv *db, kv_batch *batch, const pl_hash *id, uint64_t by)
{
    blob_record blob;
    assert_ok(blob_read((row_source){.db = db}, id, &blob));
    assert_true(blob.exists);
    blob.refs += by;
    blob_write(batch, id, &blob);
    pl_buf_destroy(&blob.chunks);
}

static void edit_rows(const char *folder, change_fn change)
{
    OWNED(pl_version_clear) pl_version v, other;
    bool found;
    kv *db = open_kv(folder);
    OWNED(kv_batch_destroy) kv_batch *batch = kv_batch_create(db);
    assert_ok(version_read((row_source){.db = db}, "a/x", 3, &v, &found));
    assert_ok(version_read((row_source){.db = db}, "a/x", 2, &other, &found));
    const pl_hash momentum = v.momentum;
    change(batch, &v, &other);
    if (!pl_hash_equal(&momentum, &v.momentum)) {
        change_refs(db, batch, &momentum, UINT64_MAX);
        change_refs(db, batch, &v.momentum, 1);
    }
    assert_ok(kv_commit(db, batch));
    kv_close(&db, false);
}

static void swap_rounds(kv_batch *batch, pl_version *v, const pl_version *other)
{
    v->contributions[0].work.first_sample = other->contributions[0].work.first_sample;
    version_write(batch, v);
}

static void change_weight(kv_batch *batch, pl_version *v, const pl_version *other)
{
    (void)other;
    v->contributions[0].weight = 100;
    version_write(batch, v);
}

static void invent_rollback(kv_batch *batch, pl_version *v, const pl_version *other)
{
    (void)other;
    v->n_contributions = 0;
    pl_copy_text(v->method, sizeof v->method, "rollback to 1");
    version_write(batch, v);
}

static void change_path(kv_batch *batch, pl_version *v, const pl_version *other)
{
    row_view row;
    pl_path_state path;
    const row_key key = key_of_name("a/p0.r0");
    (void)v;
    (void)other;
    assert_ok(row_read((row_source){.batch = batch}, KV_PATH, &key, &row));
    assert_ok(path_decode(&row, &path));
    path.phase--;
    path_write(batch, &path);
}

static void change_momentum(kv_batch *batch, pl_version *v, const pl_version *other)
{
    v->momentum = other->momentum;
    version_write(batch, v);
}

static void delete_refs(kv_batch *batch, pl_version *v, const pl_version *other)
{
    const row_key fenced = key_of_name("fenced/w1"), row = key_of_name("audit/a/p0/1");
    (void)v;
    (void)other;
    kv_delete(batch, KV_REF, key_slice(&fenced));
    kv_delete(batch, KV_REF, key_slice(&row));
}

static void add_ref(kv_batch *batch, pl_version *v, const pl_version *other)
{
    (void)v;
    (void)other;
    ref_write(batch, "fenced/w2", "invented");
}

/* Also gives the two newest versions a contribution each, and makes two refs. */
static void fill_for_changes(const char *folder)
{
    fill(folder);
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_WRITE);
    pl_txn *txn = begin(store);
    for (uint64_t n = N_VERSIONS - 2; n < N_VERSIONS; n++) {
        pl_version v;
        bool found;
        pl_contribution c = {.phase = (int64_t)n - 1, .work.first_sample = 6 * n};
        assert_ok(version_read(txn_source(txn), "a/x", n, &v, &found));
        v.contributions = &c;
        v.n_contributions = 1;
        version_write(txn->batch, &v);
    }
    assert_ok(pl_txn_put_ref(txn, "fenced/w1", "7:3"));
    assert_ok(pl_txn_put_ref(txn, "audit/a/p0/1", "agreed"));
    assert_ok(pl_txn_commit(&txn));
}

#define OF_FAMILY(family, rows, left)                                                  \
    "column family " family " has " rows " rows, and its commits left " left           \
    ": a row was "
#define A_VERSION_CHANGED OF_FAMILY("version", "4", "4") "changed"
#define A_PATH_CHANGED    OF_FAMILY("path", "1", "1") "changed"

STORE_TEST(a_row_that_was_changed_without_a_commit_is_found)
{
    static const struct {
        change_fn change;
        const char *word;
    } changes[] = {{swap_rounds, A_VERSION_CHANGED},
                   {change_weight, A_VERSION_CHANGED},
                   {invent_rollback, A_VERSION_CHANGED},
                   {change_path, A_PATH_CHANGED},
                   {change_momentum, A_VERSION_CHANGED},
                   {delete_refs, OF_FAMILY("ref", "1", "3") "deleted"},
                   {add_ref, OF_FAMILY("ref", "4", "3") "added"}};
    char sound[PL_PATH_MAX], copy[PL_PATH_MAX];
    fill_for_changes(pl_join(sound, *state, "sound"));
    pl_join(copy, *state, "copy");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        copy_folder(sound, copy, NULL);
        edit_rows(copy, changes[i].change);
        findings f = audit(copy);
        assert_names(&f, changes[i].word);
        /* a later commit, which replaces rows, does not hide the change */
        pl_store *store = open_store(copy, PL_STORE_WRITE);
        pl_txn *txn = begin(store);
        assert_ok(pl_txn_put_path(txn, &(pl_path_state){.name = "a/p0.r0"}));
        assert_ok(pl_txn_put_ref(txn, "fenced/w1", "8:1"));
        assert_ok(pl_txn_commit(&txn));
        commit_version(store, "a/x", N_VERSIONS, 5, BYTES);
        pl_store_close(&store);
        f = audit(copy);
        assert_names(&f, "without a commit");
        assert_ok(pl_remove_tree(copy));
    }
}

/* Writes the log as if a release without sums of rows had made the commits from
 * `first` on. */
static void forget_sums(const char *folder, uint64_t first)
{
    watermark mark;
    bool found = false;
    pl_hash previous = {{0}};
    const row_key sum = key_of_name("rows");
    assert_ok(watermark_load(folder, &mark, &found));
    kv *db = open_kv(folder);
    OWNED(kv_batch_destroy) kv_batch *batch = kv_batch_create(db);
    if (first == 1)
        kv_delete(batch, KV_META, key_slice(&sum));
    for (uint64_t i = 1; i <= mark.sequence; i++) {
        row_view row;
        log_record entry;
        row_key key = key_of_number(i);
        assert_ok(row_read((row_source){.db = db}, KV_LOG, &key, &row));
        assert_ok(log_decode(&row, &entry));
        entry.previous = previous;
        if (i >= first)
            entry.rows = (pl_hash){{0}};
        log_write(batch, i, &entry, &previous);
    }
    assert_ok(kv_commit(db, batch));
    kv_close(&db, false);
    mark.log = previous;
    assert_ok(watermark_make(folder, &mark));
}

static uint64_t covered_from(const char *folder)
{
    findings f = {"", 0};
    pl_audit_report report;
    pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_audit(store, true, note, &f, &report));
    pl_store_close(&store);
    assert_string_equal(f.text, "");
    return report.covered_from;
}

STORE_TEST(a_store_of_an_older_release_is_covered_from_its_next_commit)
{
    fill(*state);
    assert_int_equal(covered_from(*state), 1);
    forget_sums(*state, 1);
    assert_int_equal(covered_from(*state), 0);
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    const uint64_t before = pl_store_sequence(store);
    assert_int_equal(covered_from(*state), 0);
    commit_version(store, "a/x", N_VERSIONS, 5, BYTES);
    commit_version(store, "a/x", N_VERSIONS + 1, 6, BYTES);
    pl_store_close(&store);
    assert_int_equal(covered_from(*state), before + 1);
    edit_rows(*state, change_path);
    findings f = audit(*state);
    assert_names(&f, A_PATH_CHANGED);
}

STORE_TEST(a_commit_of_an_older_release_begins_the_cover_anew)
{
    fill(*state);
    pl_store *store = open_store(*state, PL_STORE_READ);
    const uint64_t newest = pl_store_sequence(store);
    pl_store_close(&store);
    forget_sums(*state, newest);
    assert_int_equal(covered_from(*state), 0);
    store = open_store(*state, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS, 5, BYTES);
    pl_store_close(&store);
    assert_int_equal(covered_from(*state), newest + 1);
    edit_rows(*state, change_path);
    findings f = audit(*state);
    assert_names(&f, A_PATH_CHANGED);
}

STORE_TEST(a_sum_that_is_not_that_of_the_newest_commit_is_found)
{
    pl_store *store = NULL;
    const row_key sum = key_of_name("rows");
    fill(*state);
    change_row(*state, KV_META, sum, NULL, 0);
    findings f = audit(*state);
    assert_names(&f, "the sum of rows is not the one that the newest commit names");
    assert_int_equal(f.n, 1);
    assert_fails(pl_store_open(*state, PL_STORE_WRITE, &store), PL_ERR_DAMAGED,
                 "the sum of rows in the store");
}

/* ---- dropped data, and copies ---- */
STORE_TEST(dropped_data_leaves_records_and_counts_that_agree)
{
    OWNED(pl_version_clear) pl_version v;
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
    pl_store_close(&store);
    assert_no_findings(*state);
}

static void mirror_to(const char *from, const char *to, bool force, pl_status wanted,
                      pl_mirror_report *report)
{
    OWNED(pl_store_close) pl_store *store = open_store(from, PL_STORE_READ);
    const pl_status status = pl_store_mirror(store, to, force, report);
    if (status != wanted)
        fail_msg("%s", pl_last_error());
}

STORE_TEST(a_mirror_brings_only_what_is_new_and_replaces_nothing_unasked)
{
    char from[PL_PATH_MAX], to[PL_PATH_MAX];
    pl_mirror_report report;
    fill(pl_join(from, *state, "from"));
    pl_join(to, *state, "to");
    mirror_to(from, to, false, PL_OK, &report);
    assert_true(report.bytes > BYTES);
    mirror_to(from, to, false, PL_OK, &report);
    assert_int_equal(report.n_chunks + report.n_records, 0);
    OWNED(pl_store_close) pl_store *store = open_store(from, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS, 50, BYTES);
    pl_store_close(&store);
    mirror_to(from, to, false, PL_OK, &report);
    assert_in_range(report.bytes, BYTES, 2 * BYTES + 100);
    assert_no_findings(to);
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
    assert_no_findings(to);
    store = open_store(to, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS + 3, 63, BYTES);
}
