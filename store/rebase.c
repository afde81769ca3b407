/* Writes and reads bases. A base is written when the commits since the last base have
 * more bytes than that base. So all bases that were ever written have together about as
 * many bytes as all commits, or fewer. */
#include "store/rebase.h"

enum { PART_BYTES = 4 << 20, OPERATION_HEAD = 10 };

pl_status rebase_next(kv_slice *rest, row_operation *out)
{
    const uint8_t *at = rest->data;
    *out = (row_operation){0};
    int family = KV_META;
    while (rest->len >= OPERATION_HEAD && family < KV_PACK &&
           kv_family_id((kv_family)family) != at[1])
        family++;
    if (rest->len < OPERATION_HEAD || at[0] < 1 || at[0] > 2 || family == KV_PACK)
        return pl_fail(PL_ERR_DAMAGED, "a row operation cannot be read");
    size_t key = (size_t)pl_le_get(at + 2, 4), value = (size_t)pl_le_get(at + 6, 4);
    size_t len = rest->len - OPERATION_HEAD;
    if (key > len || value > len - key)
        return pl_fail(PL_ERR_DAMAGED, "a row operation is cut off");
    out->puts = at[0] == 1;
    out->family = (kv_family)family;
    out->key = (kv_slice){at + OPERATION_HEAD, key};
    out->value = (kv_slice){at + OPERATION_HEAD + key, value};
    *rest = (kv_slice){at + OPERATION_HEAD + key + value, len - key - value};
    return PL_OK;
}

pl_status rebase_apply(kv_slice operations, kv_batch *batch, uint64_t *n_puts)
{
    row_operation one;
    while (operations.len > 0) {
        PL_CHECK(rebase_next(&operations, &one));
        if (one.puts)
            kv_put(batch, one.family, one.key, one.value);
        else
            kv_delete(batch, one.family, one.key);
        *n_puts += one.puts;
    }
    return PL_OK;
}

pl_status rebase_flush(kv *db, kv_batch **batch)
{
    pl_status status = kv_commit(db, *batch);
    kv_batch_destroy(batch);
    *batch = kv_batch_create(db);
    return status;
}

typedef struct base_writer {
    pl_store *store;
    remote_head *head;
    pl_buf part;
    pl_hasher sum;
} base_writer;

static pl_status end_part(base_writer *w)
{
    char name[ENGINE_NAME_MAX];
    remote_base_name(w->head, w->head->base_parts, name);
    pl_hasher_add(&w->sum, w->part.data, w->part.len);
    w->head->base_bytes += w->part.len;
    w->head->base_parts++;
    pl_status status =
        engine_put(w->store->engine->service, name, w->part.data, w->part.len);
    pl_buf_clear(&w->part);
    return status;
}

pl_status rebase_write(pl_store *store, remote_head *head)
{
    base_writer w = {.store = store, .head = head};
    kv_cursor *walk = NULL;
    pl_status status = PL_OK;
    head->base_epoch = store->epoch;
    head->base_sequence = store->sequence;
    head->base_parts = head->base_bytes = head->log_bytes = 0;
    pl_hasher_init(&w.sum, "base");
    for (int f = KV_META; f < KV_PACK; f++) {
        walk = kv_cursor_open(store->db, NULL, (kv_family)f, (kv_slice){"", 0});
        while (kv_cursor_next(walk)) {
            uint8_t operation[OPERATION_HEAD] = {1, kv_family_id((kv_family)f)};
            pl_le_put(operation + 2, walk->key.len, 4);
            pl_le_put(operation + 6, walk->value.len, 4);
            pl_buf_append(&w.part, operation, sizeof operation);
            pl_buf_append(&w.part, walk->key.data, walk->key.len);
            pl_buf_append(&w.part, walk->value.data, walk->value.len);
            if (w.part.len >= PART_BYTES)
                PL_TRY(end_part(&w));
        }
        PL_TRY(walk->status);
        kv_cursor_close(&walk);
    }
    if (w.part.len > 0)
        PL_TRY(end_part(&w));
    pl_hasher_end(&w.sum, &head->base);
done:
    kv_cursor_close(&walk);
    pl_buf_destroy(&w.part);
    return status;
}

/* An object that cannot be dropped is garbage for `store gc`. */
void rebase_drop(pl_store *store, const remote_head *old)
{
    engine_objects list = {0};
    uint64_t from = old->base_sequence + 1;
    uint64_t to = store->engine->head.base_sequence;
    row_key start = key_of_number(from);
    kv_cursor *walk = kv_cursor_open(store->db, NULL, KV_LOG, (kv_slice){"", 0});
    kv_cursor_seek(walk, key_slice(&start));
    while (kv_cursor_next(walk)) {
        pl_hash log;
        uint64_t number = store_key_number(walk->key.data, walk->key.len);
        if (number > to)
            break;
        pl_hash_of("log", walk->value.data, walk->value.len, &log);
        remote_log_name(number, &log, engine_objects_add(&list)->name);
    }
    kv_cursor_close(&walk);
    for (uint64_t i = 0; i < old->base_parts; i++)
        remote_base_name(old, i, engine_objects_add(&list)->name);
    (void)engine_drop_all(store->engine->service, list.at, list.n);
    pl_free(list.at);
}
