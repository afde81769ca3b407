/* Drops data that are no longer needed: merged updates, old momenta, and the data that
 * `store gc` collects.
 *
 * Records of versions are never deleted: they are the history. Only blobs that a record
 * names are dropped, and the record is then rewritten to say that they are gone. The
 * commit number in the record does not change. */
#include "store/store_internal.h"

typedef struct pending_row {
    row_key key;
    pl_hash update;
} pending_row;

/* With keep_updates the references to the update blobs are now those of the new
 * version. The rows are listed before any row is deleted, because the batch must not
 * change while a cursor reads through it. */
pl_status retire_pending(pl_txn *txn, const row_key *prefix, bool keep_updates)
{
    pending_row *rows = NULL;
    size_t n = 0;
    row_view row;
    pl_contribution c;
    pl_status status = PL_OK;
    kv_cursor *walk =
        kv_cursor_open(txn->store->db, txn->batch, KV_PENDING, key_slice(prefix));
    while (kv_cursor_next(walk)) {
        PL_TRY(row_open(KV_PENDING, walk->key, walk->value, &row));
        PL_TRY(contribution_decode(&row, &c));
        rows = pl_grow(rows, (n + 1) * sizeof *rows);
        rows[n++] = (pending_row){row.key, c.update};
    }
    PL_TRY(walk->status);
    kv_cursor_close(&walk);
    for (size_t i = 0; i < n; i++) {
        kv_delete(txn->batch, KV_PENDING, key_slice(&rows[i].key));
        if (!keep_updates)
            PL_TRY(blob_release(txn, &rows[i].update));
    }
done:
    kv_cursor_close(&walk);
    pl_free(rows);
    return status;
}

pl_status pl_txn_drop_pending(pl_txn *txn, const char *module)
{
    PL_CHECK(check_name("module", module));
    row_key prefix = key_of_versions(module);
    return txn_spoil(txn, retire_pending(txn, &prefix, false));
}

pl_status pl_txn_drop_update(pl_txn *txn, const char *module, const pl_contribution *c)
{
    PL_CHECK(check_name("module", module));
    row_key key = key_of_pending(module, c);
    return txn_spoil(txn, retire_pending(txn, &key, false));
}

static pl_status release_state(pl_txn *txn, pl_version *v)
{
    PL_CHECK(blob_release(txn, &v->momentum));
    PL_CHECK(blob_release(txn, &v->change));
    v->momentum = v->change = (pl_hash){{0}};
    return PL_OK;
}

static pl_status release_updates(pl_txn *txn, pl_version *v)
{
    for (int i = 0; i < v->n_contributions; i++)
        PL_CHECK(blob_release(txn, &v->contributions[i].update));
    v->has_updates = false;
    return PL_OK;
}

/* Momentum and change were needed only to make later versions. The versions' rows stay,
 * but no longer name these blobs. head->momentum_from is the first version that may
 * still have them, so older versions need not be read. */
pl_status retire_states(pl_txn *txn, const char *module, uint64_t late,
                        head_record *head)
{
    for (; head->momentum_from + late + 1 < head->number; head->momentum_from++) {
        pl_version old;
        bool found = false;
        PL_CHECK(
            version_read(txn_source(txn), module, head->momentum_from, &old, &found));
        pl_status status = PL_OK;
        if (found && !(pl_hash_none(&old.momentum) && pl_hash_none(&old.change))) {
            status = release_state(txn, &old);
            if (status == PL_OK)
                version_write(txn->batch, &old);
        }
        pl_version_clear(&old);
        PL_CHECK(status);
    }
    return PL_OK;
}

pl_status retire_updates(pl_txn *txn, const char *module, uint64_t number)
{
    pl_version old;
    bool found = false;
    pl_status status = PL_OK;
    PL_CHECK(version_read(txn_source(txn), module, number, &old, &found));
    if (found && old.has_updates) {
        PL_TRY(release_updates(txn, &old));
        version_write(txn->batch, &old);
    }
done:
    pl_version_clear(&old);
    return status;
}

pl_status pl_txn_drop_data(pl_txn *txn, const char *module, uint64_t number)
{
    pl_version v;
    head_record head;
    bool found = false;
    PL_CHECK(check_name("module", module));
    PL_CHECK(head_read(txn_source(txn), module, &head, &found));
    if (found && number >= head.number)
        return pl_fail(
            PL_ERR_ARG,
            "the data of %s@%llu cannot be dropped, because it is the newest version",
            module, (unsigned long long)number);
    PL_CHECK(version_read(txn_source(txn), module, number, &v, &found));
    if (!found)
        return pl_fail(PL_ERR_NOT_FOUND, "there is no version %llu of %s",
                       (unsigned long long)number, module);
    pl_status status = PL_OK;
    if (v.params_gone)
        goto done;
    PL_TRY(txn_spoil(txn, blob_release(txn, &v.params)));
    PL_TRY(txn_spoil(txn, release_state(txn, &v)));
    if (v.has_updates)
        PL_TRY(txn_spoil(txn, release_updates(txn, &v)));
    v.params_gone = true;
    version_write(txn->batch, &v);
done:
    pl_version_clear(&v);
    return status;
}

static pl_status require_row(const pl_txn *txn, kv_family family, const char *what,
                             const char *name)
{
    row_view row;
    row_key key = key_of_name(name);
    PL_CHECK(check_name(what, name));
    PL_CHECK(row_read(txn_source(txn), family, &key, &row));
    kv_unpin(&row.pin);
    if (row.found)
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND, "there is no %s %s in the store", what, name);
}

pl_status pl_txn_drop_ref(pl_txn *txn, const char *name)
{
    row_key key = key_of_name(name);
    PL_CHECK(require_row(txn, KV_REF, "ref", name));
    kv_delete(txn->batch, KV_REF, key_slice(&key));
    return PL_OK;
}

pl_status pl_txn_drop_object(pl_txn *txn, const char *name)
{
    pl_hash blob;
    row_key key = key_of_name(name);
    PL_CHECK(require_row(txn, KV_OBJECT, "object", name));
    PL_CHECK(txn_old_blob(txn, KV_OBJECT, name, &blob));
    kv_delete(txn->batch, KV_OBJECT, key_slice(&key));
    return txn_spoil(txn, blob_release(txn, &blob));
}
