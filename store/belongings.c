/* Lists the rows of a name (of a module, a path or an object), and moves them into
 * another store.
 *
 * A row is moved unchanged, with its envelope. There is one exception: a version's row
 * contains the number of the commit that wrote the row, and the other store writes its
 * own number there. The digest of a row leaves this number out, so equal rows in two
 * stores have equal digests. */
#include "store/store_internal.h"
#include <string.h>

static kv_slice slice_of(const uint8_t *data, size_t len)
{
    return (kv_slice){data, len};
}

/* ---- blobs that a row names ---- */
typedef struct row_blobs {
    pl_hash *list;
    size_t n;
} row_blobs;

static void add_blob(row_blobs *blobs, const pl_hash *blob)
{
    if (pl_hash_none(blob))
        return;
    blobs->list = pl_grow(blobs->list, (blobs->n + 1) * sizeof *blobs->list);
    blobs->list[blobs->n++] = *blob;
}

/* Lists the blobs that a version names. A blob that the version names twice is listed
 * twice. */
static void version_blobs(const pl_version *v, row_blobs *out)
{
    if (!v->params_gone)
        add_blob(out, &v->params);
    add_blob(out, &v->momentum);
    add_blob(out, &v->change);
    for (int i = 0; v->has_updates && i < v->n_contributions; i++)
        add_blob(out, &v->contributions[i].update);
}

static pl_status blobs_of(row_view *view, row_blobs *out)
{
    pl_version v;
    pl_contribution c;
    pl_path_state path;
    pl_object object;
    switch ((int)view->family) {
    case KV_VERSION:
        PL_CHECK(version_decode(view, &v));
        version_blobs(&v, out);
        pl_version_clear(&v);
        return PL_OK;
    case KV_PENDING:
        PL_CHECK(contribution_decode(view, &c));
        add_blob(out, &c.update);
        return PL_OK;
    case KV_PATH:
        PL_CHECK(path_decode(view, &path));
        add_blob(out, &path.moments);
        return PL_OK;
    case KV_OBJECT:
        PL_CHECK(object_decode(view, &object));
        add_blob(out, &object.blob);
        return PL_OK;
    default:
        return row_end(view);
    }
}

pl_status pl_row_each_blob(const pl_row *row, pl_blob_fn fn, void *context)
{
    row_view view;
    row_blobs blobs = {0};
    pl_status status =
        row_open((kv_family)row->family, slice_of(row->key, row->key_len),
                 slice_of(row->value, row->value_len), &view);
    if (status == PL_OK)
        status = blobs_of(&view, &blobs);
    for (size_t i = 0; status == PL_OK && i < blobs.n; i++)
        status = fn(context, &blobs.list[i]);
    pl_free(blobs.list);
    return status;
}

/* ---- listing the rows of a name ---- */
typedef struct row_walk {
    const char *refs;
    pl_row_fn fn;
    void *context;
} row_walk;

static pl_status hash_row(pl_row *row)
{
    pl_buf text = {0};
    row_view view;
    pl_version v;
    uint8_t family = (uint8_t)row->family;
    pl_status status = PL_OK;
    pl_buf_append(&text, &family, 1);
    pl_buf_append(&text, row->key, row->key_len);
    if (row->family == KV_VERSION) {
        PL_TRY(row_open(KV_VERSION, slice_of(row->key, row->key_len),
                        slice_of(row->value, row->value_len), &view));
        PL_TRY(version_decode(&view, &v));
        v.sequence = 0;
        version_fields(&v, &text);
        pl_version_clear(&v);
    } else
        pl_buf_append(&text, row->value, row->value_len);
    pl_hash_of("row", text.data, text.len, &row->digest);
done:
    pl_buf_destroy(&text);
    return status;
}

static pl_status walk_family(pl_store *store, kv_family family, kv_slice prefix,
                             bool whole, const row_walk *walk)
{
    bool valid = false;
    kv_slice key, value;
    pl_status status = PL_OK;
    kv_cursor *cursor = kv_cursor_open(store->db, NULL, family, prefix);
    for (;;) {
        PL_TRY(kv_cursor_next(cursor, &valid, &key, &value));
        if (!valid)
            break;
        if (whole && key.len != prefix.len)
            continue; /* this row belongs to a longer name that begins with the name */
        pl_row row = {.family = (int)family,
                      .key = key.data,
                      .key_len = key.len,
                      .value = value.data,
                      .value_len = value.len};
        PL_TRY(hash_row(&row));
        PL_TRY(walk->fn(walk->context, &row));
    }
done:
    kv_cursor_close(&cursor);
    return status;
}

pl_status pl_store_each_row(pl_store *store, const char *name, const char *refs,
                            pl_row_fn fn, void *context)
{
    row_walk walk = {refs, fn, context};
    PL_CHECK(check_name("module, path or object", name));
    row_key module = key_of_versions(name), own = key_of_name(name),
            below = key_of_name(refs);
    PL_CHECK(walk_family(store, KV_VERSION, key_slice(&module), false, &walk));
    PL_CHECK(walk_family(store, KV_PENDING, key_slice(&module), false, &walk));
    PL_CHECK(walk_family(store, KV_PATH, key_slice(&own), true, &walk));
    PL_CHECK(walk_family(store, KV_OBJECT, key_slice(&own), true, &walk));
    return walk_family(store, KV_REF, key_slice(&below), false, &walk);
}

static bool has_name_row(pl_store *store, kv_family family, const char *name)
{
    row_view row;
    row_key key = key_of_name(name);
    if (row_read(store_source(store), family, &key, &row) != PL_OK)
        return true; /* a name with a damaged row counts as present */
    kv_unpin(&row.pin);
    return row.found;
}

bool pl_store_has_name(pl_store *store, const char *name)
{
    return has_name_row(store, KV_HEAD, name) || has_name_row(store, KV_PATH, name) ||
           has_name_row(store, KV_OBJECT, name);
}

/* ---- writing rows that come from another store ---- */
static pl_status hold_all(pl_txn *txn, const row_blobs *blobs)
{
    for (size_t i = 0; i < blobs->n; i++)
        PL_CHECK(blob_hold(txn, &blobs->list[i]));
    return PL_OK;
}

static pl_status release_all(pl_txn *txn, const row_blobs *blobs)
{
    for (size_t i = 0; i < blobs->n; i++)
        PL_CHECK(blob_release(txn, &blobs->list[i]));
    return PL_OK;
}

/* Lists the blobs that the existing row with this key names. */
static pl_status old_blobs(const pl_txn *txn, kv_family family, const row_key *key,
                           row_blobs *out)
{
    row_view row;
    PL_CHECK(row_read(txn_source(txn), family, key, &row));
    return row.found ? blobs_of(&row, out) : PL_OK;
}

/* Writes a version. The record of a new version names this commit; the record of a
 * version that exists already keeps naming the commit that made it. */
static pl_status write_version(pl_txn *txn, pl_version *v)
{
    pl_version old;
    head_record head;
    bool there = false, exists = false;
    PL_CHECK(version_read(txn_source(txn), v->module, v->number, &old, &there));
    v->sequence = there ? old.sequence : txn->sequence;
    pl_version_clear(&old);
    PL_CHECK(head_read(txn_source(txn), v->module, &head, &exists));
    if (!there && v->number != (exists ? head.number + 1 : 0))
        return pl_fail(PL_ERR_STALE,
                       "version %llu of %s was sent, but version %lld is the newest "
                       "here; send versions in order",
                       (unsigned long long)v->number, v->module,
                       exists ? (long long)head.number : -1LL);
    version_write(txn->batch, v);
    if (there)
        return PL_OK;
    head.number = v->number;
    head_write(txn->batch, v->module, &head);
    return PL_OK;
}

static pl_status write_brought_row(pl_txn *txn, const char *name, const pl_row *row,
                                   row_view *view)
{
    pl_version v;
    if (row->family != KV_VERSION) {
        kv_put(txn->batch, (kv_family)row->family, key_slice(&view->key),
               slice_of(row->value, row->value_len));
        return PL_OK;
    }
    PL_CHECK(version_decode(view, &v));
    row_key key = key_of_version(v.module, v.number);
    bool in_place =
        key.len == row->key_len && memcmp(key.bytes, row->key, key.len) == 0;
    pl_status status =
        in_place && strcmp(v.module, name) == 0
            ? write_version(txn, &v)
            : pl_fail(PL_ERR_DATA,
                      "a version of %s was sent as a row of %s, or under a wrong key",
                      v.module, name);
    pl_version_clear(&v);
    return status;
}

/* Returns whether a row with this key belongs to the name. */
static bool is_key_of(const char *name, const char *refs, int family,
                      const uint8_t *key, size_t len)
{
    bool many = family == KV_VERSION || family == KV_PENDING;
    row_key own = many               ? key_of_versions(name)
                  : family == KV_REF ? key_of_name(refs)
                                     : key_of_name(name);
    bool part = many || family == KV_REF;
    if (!many && family != KV_REF && family != KV_PATH && family != KV_OBJECT)
        return false;
    return (part ? len > own.len : len == own.len) &&
           memcmp(key, own.bytes, own.len) == 0;
}

static pl_status check_key(const char *name, const char *refs, int family,
                           const uint8_t *key, size_t len)
{
    PL_CHECK(check_name("module, path or object", name));
    if (len <= ROW_KEY_MAX && is_key_of(name, refs, family, key, len))
        return PL_OK;
    return pl_fail(
        PL_ERR_DATA,
        "a row of column family %d was sent, but its key does not belong to %s", family,
        name);
}

pl_status pl_txn_put_row(pl_txn *txn, const char *name, const char *refs,
                         const pl_row *row)
{
    row_view view, again;
    row_blobs fresh = {0}, old = {0};
    kv_slice key = slice_of(row->key, row->key_len),
             value = slice_of(row->value, row->value_len);
    pl_status status = PL_OK;
    PL_CHECK(check_key(name, refs, row->family, row->key, row->key_len));
    PL_TRY(row_open((kv_family)row->family, key, value, &view));
    PL_TRY(row_open((kv_family)row->family, key, value, &again));
    PL_TRY(blobs_of(&view, &fresh));
    for (size_t i = 0; i < fresh.n; i++)
        PL_TRY(blob_check(txn, &fresh.list[i], "a blob of a moved row", name));
    PL_TRY(old_blobs(txn, (kv_family)row->family, &again.key, &old));
    PL_TRY(write_brought_row(txn, name, row, &again));
    PL_TRY(txn_spoil(txn, hold_all(txn, &fresh)));
    PL_TRY(txn_spoil(txn, release_all(txn, &old)));
done:
    pl_free(fresh.list);
    pl_free(old.list);
    return status;
}

/* ---- dropping rows that another store has now ---- */
static pl_status drop_key(pl_txn *txn, kv_family family, const row_key *key)
{
    row_blobs old = {0};
    pl_status status = old_blobs(txn, family, key, &old);
    if (status == PL_OK) {
        kv_delete(txn->batch, family, key_slice(key));
        status = release_all(txn, &old);
    }
    pl_free(old.list);
    return status;
}

static row_key key_of_bytes(const uint8_t *bytes, size_t len)
{
    row_key key = {.len = len};
    memcpy(key.bytes, bytes, len);
    return key;
}

pl_status pl_txn_drop_row(pl_txn *txn, const char *name, const char *refs,
                          const pl_row *row)
{
    PL_CHECK(check_key(name, refs, row->family, row->key, row->key_len));
    if (row->family == KV_VERSION)
        return pl_fail(
            PL_ERR_DATA,
            "a single version of %s cannot be removed; remove all rows of the name",
            name);
    row_key key = key_of_bytes(row->key, row->key_len);
    return txn_spoil(txn, drop_key(txn, (kv_family)row->family, &key));
}

/* All keys are gathered before the first row is deleted, because the batch must not
 * change while a cursor reads through it. */
typedef struct gathered {
    kv_family family;
    row_key key;
} gathered;

typedef struct gathering {
    gathered *rows;
    size_t n;
} gathering;

static pl_status gather_row(void *context, const pl_row *row)
{
    gathering *g = context;
    g->rows = pl_grow(g->rows, (g->n + 1) * sizeof *g->rows);
    g->rows[g->n++] =
        (gathered){(kv_family)row->family, key_of_bytes(row->key, row->key_len)};
    return PL_OK;
}

pl_status pl_txn_drop_name(pl_txn *txn, const char *name, const char *refs)
{
    gathering all = {0};
    row_key head = key_of_name(name);
    pl_status status = pl_store_each_row(txn->store, name, refs, gather_row, &all);
    for (size_t i = 0; status == PL_OK && i < all.n; i++)
        status = txn_spoil(txn, drop_key(txn, all.rows[i].family, &all.rows[i].key));
    if (status == PL_OK && has_name_row(txn->store, KV_HEAD, name))
        kv_delete(txn->batch, KV_HEAD, key_slice(&head));
    pl_free(all.rows);
    return status;
}
