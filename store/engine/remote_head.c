/* The head of a store in an engine. The head determines which process may write, and
 * from which objects the store can be rebuilt.
 *
 * The head is changed only by compare-and-swap, to a higher epoch or to the next commit
 * of the same epoch. Each opening writes a new random number, `holder`, into the head,
 * so two homes never write the same bytes. Therefore, if the answer to a swap is lost,
 * the bytes of the head show whether this home's swap succeeded. */
#include "store/rebase.h"
#include <string.h>
#include <unistd.h>

enum { HEAD_FORMAT = 1, HEAD_FORMAT_TAG = 1 };
static const pl_field head_fields[] = {
    PL_FIELD(remote_head, 2, store),         PL_FIELD(remote_head, 3, holder),
    PL_FIELD(remote_head, 4, epoch),         PL_FIELD(remote_head, 5, sequence),
    PL_FIELD(remote_head, 6, log),           PL_FIELD(remote_head, 7, base_epoch),
    PL_FIELD(remote_head, 8, base_sequence), PL_FIELD(remote_head, 9, base_parts),
    PL_FIELD(remote_head, 10, base),         PL_FIELD(remote_head, 11, base_bytes),
    PL_FIELD(remote_head, 12, log_bytes),    PL_FIELD(remote_head, 13, wall_ms),
    PL_FIELD(remote_head, 14, host),         PL_FIELDS_END};

pl_status remote_read_head(remote_end *r, bool *found)
{
    pl_reader fields;
    pl_hash sum;
    pl_status status = engine_get(r->service, "head", &r->bytes);
    *found = status == PL_OK;
    if (status != PL_OK)
        pl_buf_clear(&r->bytes);
    if (status == PL_ERR_NOT_FOUND)
        return PL_OK;
    PL_TRY(status);
    memset(&r->head, 0, sizeof r->head);
    if (r->bytes.len < PL_HASH_BYTES)
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "the object head is cut off"));
    const size_t len = r->bytes.len - PL_HASH_BYTES;
    pl_hash_of("head", r->bytes.data, len, &sum);
    if (memcmp(sum.bytes, r->bytes.data + len, PL_HASH_BYTES) != 0)
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "the object head does not match its checksum"));
    pl_reader_open(&fields, "the head", r->bytes.data, len);
    if (pl_get_u64(&fields, HEAD_FORMAT_TAG, 0) > HEAD_FORMAT)
        PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                       "the object head was written by a newer release; use that "
                       "release"));
    pl_get_fields(&fields, head_fields, &r->head);
    if (pl_reader_status(&fields) != PL_OK || r->head.base_sequence > r->head.sequence)
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "the object head cannot be read"));
done:
    return status == PL_OK ? PL_OK : pl_fail_in(status, "%s", engine_place(r->service));
}

static pl_status own_id(const pl_store *store, uint8_t out[16], bool *known)
{
    row_view row;
    row_key key = key_of_name("store");
    size_t len = 0;
    PL_CHECK(row_read(store_source(store), KV_META, &key, &row));
    *known = row.found;
    if (!row.found)
        return PL_OK;
    const uint8_t *id = pl_get_bytes(&row.fields, 1, 0, &len);
    if (len == 16)
        memcpy(out, id, len);
    return row_end(&row);
}

static pl_status fenced(const pl_store *store)
{
    const remote_end *r = store->engine;
    return pl_fail(
        PL_ERR_STALE,
        "%s was opened by another home, on host %s: its epoch is %llu now, but this "
        "home has epoch %llu; only one home may write to it, so this home ends",
        engine_place(r->service), r->head.host, (unsigned long long)r->head.epoch,
        (unsigned long long)store->epoch);
}

pl_status remote_check(pl_store *store)
{
    bool found = false, known = false;
    uint8_t id[16] = {0};
    remote_end *r = store->engine;
    if (!r)
        return PL_OK;
    PL_CHECK(remote_read_head(r, &found));
    if (!found && store->sequence > 0)
        return pl_fail(
            PL_ERR_DAMAGED,
            "%s has no objects of the store %s, which has %llu commits: check the "
            "address in the store's file ENGINE, and whether the objects were deleted",
            engine_place(r->service), store->folder,
            (unsigned long long)store->sequence);
    if (!found)
        return PL_OK;
    PL_CHECK(own_id(store, id, &known));
    if (!known || memcmp(id, r->head.store, sizeof id) != 0)
        return pl_fail(
            PL_ERR_EXISTS,
            "%s has a different store, last written by %s (commit %llu): give this "
            "store its own namespace in store.engine. To get the different store into "
            "this folder, move the folder away, then run `pathloom store restore "
            "ENGINE --store %s`",
            engine_place(r->service), r->head.host,
            (unsigned long long)r->head.sequence, store->folder);
    if (r->head.epoch > store->epoch)
        return fenced(store);
    if (r->head.sequence > store->sequence)
        return pl_fail(PL_ERR_DAMAGED,
                       "the store %s ends at commit %llu, but commit %llu was "
                       "acknowledged and is in %s; move the folder away, then run "
                       "`pathloom store restore ENGINE --store %s`",
                       store->folder, (unsigned long long)store->sequence,
                       (unsigned long long)r->head.sequence, engine_place(r->service),
                       store->folder);
    if (r->head.sequence == 0)
        return PL_OK;
    /* The commit that the head names must be the one that this store has. */
    kv_pin pin;
    pl_hash log;
    row_key key = key_of_number(r->head.sequence);
    PL_CHECK(kv_get(store->db, KV_LOG, key_slice(&key), &pin));
    pl_hash_of("log", pin.data, pin.len, &log);
    const bool same = pin.data && pl_hash_equal(&log, &r->head.log);
    kv_unpin(&pin);
    if (same)
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "commit %llu of %s differs from the one that %s has; move the "
                   "folder away, then run `pathloom store restore ENGINE --store %s`",
                   (unsigned long long)r->head.sequence, store->folder,
                   engine_place(r->service), store->folder);
}

/* Writes the present epoch, sequence and hash of this store into `next`. */
static void renew_remote_head(const pl_store *store, remote_head *next)
{
    /* each commit counts as at least one byte, because its size may not be known */
    next->log_bytes += store->sequence - next->sequence;
    next->epoch = store->epoch;
    next->sequence = store->sequence;
    next->log = store->log_hash;
    next->wall_ms = pl_wall_ms();
    if (gethostname(next->host, sizeof next->host - 1) != 0)
        pl_copy_text(next->host, sizeof next->host, "an unknown host");
    next->host[sizeof next->host - 1] = '\0';
}

/* Writes the next head. If another process has written the head meanwhile, reads that
 * head, so that the error can name its holder. */
static pl_status move_head(pl_store *store, const remote_head *next)
{
    bool found = false;
    remote_end *r = store->engine;
    pl_buf bytes = {0};
    pl_hash sum;
    pl_put_u64(&bytes, HEAD_FORMAT_TAG, HEAD_FORMAT);
    pl_put_fields(&bytes, head_fields, next);
    pl_hash_of("head", bytes.data, bytes.len, &sum);
    pl_buf_append(&bytes, sum.bytes, sizeof sum.bytes);
    pl_status status = engine_swap(r->service, "head", &r->bytes, &bytes);
    if (status == PL_OK) {
        pl_buf old = r->bytes;
        r->head = *next;
        r->bytes = bytes;
        bytes = old;
    } else if (status == PL_ERR_STALE && remote_read_head(r, &found) == PL_OK) {
        status = fenced(store);
    }
    pl_buf_destroy(&bytes);
    return status;
}

pl_status remote_claim(pl_store *store)
{
    remote_end *r = store->engine;
    if (!r)
        return PL_OK;
    remote_head next = r->head;
    bool known = false, first = r->bytes.len == 0;
    PL_CHECK(own_id(store, next.store, &known));
    const uint64_t holder[2] = {pl_random_fresh(), pl_random_fresh()};
    memcpy(next.holder, holder, sizeof next.holder);
    renew_remote_head(store, &next);
    if (first)
        PL_CHECK(rebase_write(store, &next));
    return move_head(store, &next);
}

pl_status remote_bring(pl_txn *txn, const pl_hash *log)
{
    if (!txn->store->engine)
        return PL_OK;
    kv_slice rows = kv_batch_kept(txn->batch);
    engine_object *objects;
    size_t n = remote_work_left(&txn->work, &objects);
    remote_log_name(txn->sequence, log, objects[n].name);
    objects[n].data = rows.data;
    objects[n++].len = rows.len;
    pl_status status = PL_OK;
    if (rows.len > ENGINE_OBJECT_MAX)
        status = pl_fail(PL_ERR_UNSUPPORTED,
                         "the records of one commit have %zu bytes, but an object of "
                         "an engine can have at most %d",
                         rows.len, ENGINE_OBJECT_MAX);
    if (status == PL_OK)
        status = engine_put_all(txn->store->engine->service, objects, n);
    pl_free(objects);
    return status;
}

pl_status remote_advance(pl_txn *txn)
{
    enum { LOG_BYTES_MIN = 4 << 20 };
    pl_store *store = txn->store;
    remote_end *r = store->engine;
    if (!r)
        return PL_OK;
    remote_head next = r->head, old = r->head;
    renew_remote_head(store, &next);
    next.log_bytes += kv_batch_kept(txn->batch).len;
    const bool due = next.log_bytes > LOG_BYTES_MIN && next.log_bytes > next.base_bytes;
    if (due)
        PL_CHECK(rebase_write(store, &next));
    PL_CHECK(move_head(store, &next));
    remote_doom(&r->doomed, &txn->work.drops);
    remote_drop_doomed(r);
    if (due)
        rebase_drop(store, &old);
    return PL_OK;
}
