/* Transactions: all operations are gathered in one batch and written at once.
 *
 * Each operation makes its checks before it writes. So an operation that is refused
 * (ERR_STALE, ERR_EXISTS, ERR_NOT_FOUND, ERR_ARG) does not change the transaction. An
 * operation that fails while it writes (a damaged row, a disk error) spoils the
 * transaction, which can then only be aborted.
 *
 * Reads inside a transaction include the operations of its batch. So a record can name
 * a blob that was put in the same transaction, and an update can be merged in the
 * transaction that accepts it. */
#include "store/bulk.h"

row_source txn_source(const pl_txn *txn)
{
    return (row_source){txn->store->db, txn->batch, txn->store, &txn->work};
}

pl_status pl_txn_begin(pl_store *store, pl_txn **out)
{
    *out = NULL;
    if (store->mode == PL_STORE_READ)
        return pl_fail(PL_ERR_ARG,
                       "the store %s was opened for reading, so it cannot be changed",
                       store->folder);
    if (store->refusal != PL_OK)
        return pl_fail(store->refusal,
                       "the store %s accepts no more writes, because a write failed "
                       "before (%s); restart this process",
                       store->folder, store->refusal_text);
    if (store->in_txn)
        return pl_fail(PL_ERR_ARG, "a transaction on %s is open already",
                       store->folder);
    pl_txn *txn = pl_alloc(sizeof *txn);
    txn->store = store;
    txn->batch = kv_batch_create(store->db);
    txn->rows = store->rows;
    kv_batch_sum(txn->batch, &txn->rows);
    if (store->engine)
        kv_batch_keep(txn->batch); /* for remote_bring */
    txn->sequence = store->sequence + 1;
    store->in_txn = true;
    *out = txn;
    return PL_OK;
}

void pl_txn_abort(pl_txn **handle)
{
    pl_txn *txn = *handle;
    *handle = NULL;
    if (!txn)
        return;
    txn->store->in_txn = false;
    kv_batch_destroy(&txn->batch);
    bulk_clear(txn);
    remote_work_clear(&txn->work);
    pl_free_all(txn->loose, txn);
}

pl_status txn_spoil(pl_txn *txn, pl_status status)
{
    if (status != PL_OK)
        txn->spoiled = status;
    return status;
}

/* ---- the commit ---- */
pl_status store_check_space(const char *folder, const char *purpose,
                            uint64_t need_bytes)
{
    char need[16], there[16];
    uint64_t there_bytes = pl_disk_free_bytes(folder);
    if (there_bytes >= need_bytes)
        return PL_OK;
    return pl_fail(
        PL_ERR_NOSPACE,
        "%s needs %s of free space in %s, but only %s are free; free some disk space: "
        "first delete or move other files, then `pathloom store gc --delete` frees "
        "data of the store",
        purpose, pl_human_bytes((double)need_bytes, need), folder,
        pl_human_bytes((double)there_bytes, there));
}

static pl_status note_refusal(pl_store *store, pl_status status)
{
    store->refusal = status;
    pl_copy_text(store->refusal_text, sizeof store->refusal_text, pl_last_error());
    return status;
}

/* The order of these writes matters: the batch is durable before the mark names it, and
 * the mark is durable before the function returns. The mark may be behind the batch,
 * but never ahead of it. */
pl_status store_write(pl_store *store, kv_batch *batch, const watermark *after)
{
    pl_status status = kv_commit(store->db, batch);
    if (status == PL_OK && store->mark.fd >= 0)
        status = watermark_set(&store->mark, after);
    if (status != PL_OK)
        return note_refusal(store, status);
    store->sequence = after->sequence;
    store->epoch = after->epoch;
    store->log_hash = after->log;
    return PL_OK;
}

/* Nothing changes in the database before bulk_take_in. So if the commit fails before
 * that (no space, a spoiled transaction), the store still accepts writes. */
pl_status pl_txn_commit(pl_txn **handle)
{
    pl_txn *txn = *handle;
    pl_store *store = txn->store;
    watermark after = {.sequence = txn->sequence, .epoch = store->epoch};
    pl_status status = PL_OK;
    if (txn->spoiled != PL_OK)
        PL_TRY(pl_fail(
            txn->spoiled,
            "the transaction cannot be committed, because one of its steps failed"));
    PL_TRY(blob_sweep(txn));
    if (kv_batch_count(txn->batch) == 0)
        goto done;
    PL_TRY(bulk_finish(txn));
    PL_TRY(store_check_quota(txn));
    /* A commit that frees data may use space that other commits must leave. */
    PL_TRY(store_check_space(
        store->folder, "the commit",
        2 * kv_batch_bytes(txn->batch) +
            (txn->grown < 0 ? STORE_FREEING_BYTES : STORE_SPARE_BYTES)));
    PL_TRY(kv_batch_summed(txn->batch));
    sum_write(txn->batch, &txn->rows);
    /* the batch's last operation is the log row */
    log_record entry = {.previous = store->log_hash,
                        .epoch = store->epoch,
                        .wall_ms = pl_wall_ms(),
                        .n_files = bulk_files(txn),
                        .rows = row_sum_hash(&txn->rows)};
    kv_batch_digest(txn->batch, &entry.digest);
    log_write(txn->batch, txn->sequence, &entry, &after.log);
    PL_TRY(remote_bring(txn, &after.log));
    status = bulk_take_in(txn);
    if (status != PL_OK)
        PL_TRY(note_refusal(store, status));
    PL_TRY(store_write(store, txn->batch, &after));
    store->rows = txn->rows;
    store->stored += store->quota > 0 ? (uint64_t)txn->grown : 0;
    bulk_drop(txn);
    status = remote_advance(txn);
    if (status != PL_OK)
        (void)note_refusal(store, status);
done:
    pl_txn_abort(handle);
    return status;
}

/* ---- versions ---- */
static pl_status append_version(pl_txn *txn, const pl_version *v, pl_keep keep,
                                head_record head)
{
    /* a shallow copy: the list of contributions still belongs to the caller */
    pl_version stored = *v;
    uint64_t late = (uint64_t)keep.late;
    bool holds_updates = keep.updates || late > 0;
    stored.sequence = txn->sequence;
    stored.has_updates = holds_updates;
    head.number = v->number;
    version_write(txn->batch, &stored);
    if (!v->params_gone)
        PL_CHECK(blob_hold(txn, &v->params));
    PL_CHECK(blob_hold(txn, &v->momentum));
    PL_CHECK(blob_hold(txn, &v->change));
    if (v->number > 0) {
        const row_key merged = key_of_version(v->module, v->number - 1);
        PL_CHECK(retire_pending(txn, &merged, holds_updates));
    }
    if (v->number > late && late > 0 && !keep.updates)
        PL_CHECK(retire_updates(txn, v->module, v->number - late));
    if (!keep.momentum)
        PL_CHECK(retire_states(txn, v->module, late, &head));
    head_write(txn->batch, v->module, &head);
    return PL_OK;
}

pl_status pl_txn_put_version(pl_txn *txn, const pl_version *v, pl_keep keep)
{
    head_record head;
    bool exists = false;
    PL_CHECK(check_name("module", v->module));
    if (v->n_contributions < 0)
        return pl_fail(PL_ERR_ARG, "a version cannot have %d contributions",
                       v->n_contributions);
    PL_CHECK(head_read(txn_source(txn), v->module, &head, &exists));
    uint64_t next = exists ? head.number + 1 : 0;
    if (v->number != next) {
        if (!exists)
            return pl_fail(
                PL_ERR_STALE,
                "module %s has no versions yet, so the next one must be 0, not %llu",
                v->module, (unsigned long long)v->number);
        return pl_fail(PL_ERR_STALE,
                       "the newest version of module %s is %llu, so the next one must "
                       "be %llu, not %llu",
                       v->module, (unsigned long long)head.number,
                       (unsigned long long)next, (unsigned long long)v->number);
    }
    /* The version must have been computed from the newest version in the store. The
     * number does not prove this: v->parent must be the hash of its parameters. */
    pl_version parent = {0};
    bool found = false;
    if (exists)
        PL_CHECK(
            version_read(txn_source(txn), v->module, v->number - 1, &parent, &found));
    const pl_hash params = parent.params;
    pl_version_clear(&parent);
    if (exists && !found)
        return pl_fail(
            PL_ERR_DAMAGED,
            "version %llu is the newest version of %s, but its record is missing",
            (unsigned long long)v->number - 1, v->module);
    if (!pl_hash_equal(&v->parent, &params))
        return pl_fail(
            PL_ERR_ARG, "version %llu of %s names a parent that is not version %lld",
            (unsigned long long)v->number, v->module, (long long)v->number - 1);
    if (!v->params_gone)
        PL_CHECK(blob_check(txn, &v->params, "the parameters", v->module));
    if (!pl_hash_none(&v->momentum))
        PL_CHECK(blob_check(txn, &v->momentum, "the momentum", v->module));
    if (!pl_hash_none(&v->change))
        PL_CHECK(blob_check(txn, &v->change, "the change", v->module));
    return txn_spoil(txn, append_version(txn, v, keep, head));
}

/* ---- pending contributions, paths, objects, refs ---- */
pl_status pl_txn_put_pending(pl_txn *txn, const char *module, const pl_contribution *c)
{
    row_view row;
    PL_CHECK(check_name("module", module));
    if (c->path < 0 || c->replica < 0 || c->phase < 0)
        return pl_fail(PL_ERR_ARG,
                       "path %lld, replica %lld and phase %lld of an update of %s must "
                       "not be negative",
                       (long long)c->path, (long long)c->replica, (long long)c->phase,
                       module);
    row_key key = key_of_pending(module, c);
    PL_CHECK(row_read(txn_source(txn), KV_PENDING, &key, &row));
    kv_unpin(&row.pin);
    if (row.found)
        return pl_fail(
            PL_ERR_EXISTS,
            "path %lld, replica %lld has already contributed to phase %lld of %s",
            (long long)c->path, (long long)c->replica, (long long)c->phase, module);
    if (!pl_hash_none(&c->update))
        PL_CHECK(blob_check(txn, &c->update, "an update", module));
    pending_write(txn->batch, module, c);
    return txn_spoil(txn, blob_hold(txn, &c->update));
}

pl_status txn_old_blob(const pl_txn *txn, kv_family family, const char *name,
                       pl_hash *out)
{
    row_view row;
    row_key key = key_of_name(name);
    *out = (pl_hash){{0}};
    PL_CHECK(row_read(txn_source(txn), family, &key, &row));
    if (!row.found)
        return PL_OK;
    if (family == KV_PATH) {
        pl_path_state path;
        PL_CHECK(path_decode(&row, &path));
        *out = path.moments;
        return PL_OK;
    }
    pl_object object;
    PL_CHECK(object_decode(&row, &object));
    *out = object.blob;
    return PL_OK;
}

/* Adds a reference to the new blob before it drops the reference to the old blob,
 * because both may be the same blob. */
static pl_status exchange_blob(pl_txn *txn, const pl_hash *old, const pl_hash *new_one)
{
    PL_CHECK(blob_hold(txn, new_one));
    return blob_release(txn, old);
}

pl_status pl_txn_put_path(pl_txn *txn, const pl_path_state *path)
{
    pl_hash old;
    PL_CHECK(check_name("path", path->name));
    if (!pl_hash_none(&path->moments))
        PL_CHECK(blob_check(txn, &path->moments, "the moments", path->name));
    PL_CHECK(txn_old_blob(txn, KV_PATH, path->name, &old));
    path_write(txn->batch, path);
    return txn_spoil(txn, exchange_blob(txn, &old, &path->moments));
}

pl_status pl_txn_put_object(pl_txn *txn, const char *name, const pl_hash *blob)
{
    pl_hash old;
    blob_record record;
    pl_object object = {.blob = *blob};
    PL_CHECK(check_name("object", name));
    PL_CHECK(blob_check(txn, blob, "the content", name));
    PL_CHECK(blob_read(txn_source(txn), blob, &record));
    object.bytes = record.bytes;
    pl_buf_destroy(&record.chunks);
    PL_CHECK(txn_old_blob(txn, KV_OBJECT, name, &old));
    pl_copy_text(object.name, sizeof object.name, name);
    object_write(txn->batch, &object);
    return txn_spoil(txn, exchange_blob(txn, &old, blob));
}

pl_status pl_txn_put_ref(pl_txn *txn, const char *name, const char *target)
{
    PL_CHECK(check_name("ref", name));
    ref_write(txn->batch, name, target);
    return PL_OK;
}
