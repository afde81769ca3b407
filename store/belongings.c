/* Lists the rows of a name (of a module, a path or an object), and copies them into
 * another store.
 *
 * A row is copied unchanged, with its envelope. There is one exception: a version's row
 * contains the number of the commit that wrote the row, and the other store writes its
 * own number there. */
#include "store/store_internal.h"
#include "store/tally.h"

/* Lists the blobs that a row names. A blob that the row names twice is listed twice. */
static pl_status blobs_of(row_view *view, tally *out)
{
    pl_version v;
    pl_contribution c;
    pl_path_state path;
    pl_object object;
    switch ((int)view->family) {
    case KV_VERSION:
        PL_CHECK(version_decode(view, &v));
        tally_add_version(out, &v);
        pl_version_clear(&v);
        return PL_OK;
    case KV_PENDING:
        PL_CHECK(contribution_decode(view, &c));
        tally_add(out, &c.update);
        return PL_OK;
    case KV_PATH:
        PL_CHECK(path_decode(view, &path));
        tally_add(out, &path.moments);
        return PL_OK;
    case KV_OBJECT:
        PL_CHECK(object_decode(view, &object));
        tally_add(out, &object.blob);
        return PL_OK;
    default:
        return row_end(view);
    }
}

pl_status pl_row_each_blob(const pl_row *row, pl_blob_fn fn, void *context)
{
    row_view view;
    tally blobs = {0};
    pl_status status =
        row_open((kv_family)row->family, (kv_slice){row->key, row->key_len},
                 (kv_slice){row->value, row->value_len}, &view);
    if (status == PL_OK)
        status = blobs_of(&view, &blobs);
    for (size_t i = 0; status == PL_OK && i < blobs.n; i++)
        status = fn(context, &blobs.names[i]);
    tally_destroy(&blobs);
    return status;
}

static pl_status walk_family(pl_store *store, kv_family family, kv_slice prefix,
                             bool whole, pl_row_fn fn, void *context)
{
    pl_status status = PL_OK;
    kv_cursor *at = kv_cursor_open(store->db, NULL, family, prefix);
    while (kv_cursor_next(at)) {
        if (whole && at->key.len != prefix.len)
            continue; /* this row belongs to a longer name that begins with the name */
        pl_row row = {.family = (int)family,
                      .key = at->key.data,
                      .key_len = at->key.len,
                      .value = at->value.data,
                      .value_len = at->value.len};
        PL_TRY(fn(context, &row));
    }
    status = at->status;
done:
    kv_cursor_close(&at);
    return status;
}

pl_status pl_store_each_row(pl_store *store, const char *name, const char *refs,
                            pl_row_fn fn, void *context)
{
    PL_CHECK(check_name("module, path or object", name));
    row_key module = key_of_versions(name), own = key_of_name(name),
            below = key_of_name(refs);
    PL_CHECK(walk_family(store, KV_VERSION, key_slice(&module), false, fn, context));
    PL_CHECK(walk_family(store, KV_PENDING, key_slice(&module), false, fn, context));
    PL_CHECK(walk_family(store, KV_PATH, key_slice(&own), true, fn, context));
    PL_CHECK(walk_family(store, KV_OBJECT, key_slice(&own), true, fn, context));
    return walk_family(store, KV_REF, key_slice(&below), false, fn, context);
}

bool pl_store_has_name(pl_store *store, const char *name)
{
    static const kv_family families[] = {KV_HEAD, KV_PATH, KV_OBJECT};
    const row_key key = key_of_name(name);
    bool found = false;
    for (int i = 0; i < 3 && !found; i++) {
        row_view row;
        if (row_read(store_source(store), families[i], &key, &row) != PL_OK)
            return true; /* a name with a damaged row counts as present */
        kv_unpin(&row.pin);
        found = row.found;
    }
    return found;
}

pl_status pl_txn_put_row(pl_txn *txn, const char *name, const pl_row *row)
{
    row_view view;
    tally blobs = {0};
    pl_version v = {0};
    head_record head;
    bool exists = false;
    const kv_family family = (kv_family)row->family;
    const kv_slice key = {row->key, row->key_len}, value = {row->value, row->value_len};
    pl_status status = PL_OK;
    PL_TRY(row_open(family, key, value, &view));
    PL_TRY(blobs_of(&view, &blobs));
    for (size_t i = 0; i < blobs.n; i++)
        PL_TRY(blob_check(txn, &blobs.names[i], "a blob of a copied row", name));
    if (family == KV_VERSION) {
        PL_TRY(row_open(family, key, value, &view));
        PL_TRY(version_decode(&view, &v));
        PL_TRY(head_read(txn_source(txn), v.module, &head, &exists));
        if (v.number != (exists ? head.number + 1 : 0))
            PL_TRY(pl_fail(PL_ERR_STALE,
                           "version %llu of %s cannot be copied, because version %lld "
                           "is the newest one in the new store",
                           (unsigned long long)v.number, v.module,
                           exists ? (long long)head.number : -1LL));
        v.sequence = txn->sequence;
        version_write(txn->batch, &v);
        head.number = v.number;
        head_write(txn->batch, v.module, &head);
    } else
        kv_put(txn->batch, family, key, value);
    for (size_t i = 0; i < blobs.n; i++)
        PL_TRY(txn_spoil(txn, blob_hold(txn, &blobs.names[i])));
done:
    pl_version_clear(&v);
    tally_destroy(&blobs);
    return status;
}
