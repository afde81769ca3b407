/* Signed URLs, with which workers read and write an engine without its keys
 * (docs/ENGINES.md). A worker writes an upload as objects of one chunk each:
 *
 *   upload/EPOCH.ID.NUMBER
 *
 * The home reads them when the worker has finished, and drops them. Objects that nobody
 * dropped are garbage for the next epoch (remote_sweep.c). */
#include "store/store_internal.h"
#include "store/stores.h"
#include <inttypes.h>
#include <string.h>

enum { URL_MAX = 4096 };

static pl_status no_signatures(const pl_store *store)
{
    return pl_fail(PL_ERR_UNSUPPORTED, "the store %s gives no signed URLs",
                   store->folder);
}

bool pl_store_signs(const pl_store *store)
{
    return store->engine && engine_signs(store->engine->service);
}

static void upload_name(const pl_store *store, uint64_t id, size_t number,
                        char out[ENGINE_NAME_MAX])
{
    snprintf(out, ENGINE_NAME_MAX, "upload/%" PRIx64 ".%" PRIx64 ".%zx", store->epoch,
             id, number);
}

pl_status pl_store_sign_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                             size_t most, pl_buf *urls)
{
    row_view row;
    blob_record record = {0};
    pl_store *holder;
    const row_key key = key_of_hash(blob);
    pl_status status = PL_OK;
    PL_CHECK(stores_find(store, KV_BLOB, &key, &row, &holder));
    if (!row.found || !pl_store_signs(holder))
        return no_signatures(store);
    PL_CHECK(blob_decode(&row, &record));
    const size_t n = blob_chunks(record.bytes);
    for (size_t i = (size_t)(offset / PL_CHUNK_BYTES);
         i < n && urls->len + URL_MAX <= most; i++) {
        chunk_record chunk;
        char name[ENGINE_NAME_MAX];
        bool found = false;
        const pl_hash id = blob_chunk(&record, i);
        PL_TRY(chunk_read(store_source(holder), &id, &chunk, &found));
        if (!found || chunk.coding != CHUNK_RAW)
            PL_TRY(no_signatures(store));
        remote_chunk_name(&id, &chunk, name);
        PL_TRY(engine_sign(holder->engine->service, name, 0, urls));
        pl_buf_append(urls, "\n", 1);
    }
done:
    pl_buf_destroy(&record.chunks);
    return status;
}

pl_status pl_store_sign_upload(pl_store *store, uint64_t id, uint64_t bytes,
                               uint64_t offset, size_t most, pl_buf *urls)
{
    char name[ENGINE_NAME_MAX];
    if (!pl_store_signs(store))
        return no_signatures(store);
    for (size_t i = (size_t)(offset / PL_CHUNK_BYTES);
         i < blob_chunks(bytes) && urls->len + URL_MAX <= most; i++) {
        const size_t len = chunk_bytes_at(bytes, (uint64_t)i * PL_CHUNK_BYTES);
        upload_name(store, id, i, name);
        PL_CHECK(engine_sign(store->engine->service, name, len, urls));
        pl_buf_append(urls, "\n", 1);
    }
    return PL_OK;
}

typedef struct pull {
    const pl_store *store;
    uint64_t id, bytes;
    uint8_t *out;
} pull;

static pl_status pull_chunk(void *context, size_t i, int thread)
{
    const pull *p = context;
    char name[ENGINE_NAME_MAX];
    pl_buf got = {0};
    const size_t len = chunk_bytes_at(p->bytes, (uint64_t)i * PL_CHUNK_BYTES);
    (void)thread;
    upload_name(p->store, p->id, i, name);
    pl_status status = engine_get(p->store->engine->service, name, &got);
    if (status == PL_OK && got.len != len)
        status = pl_fail(PL_ERR_DAMAGED, "%s has %zu bytes instead of %zu", name,
                         got.len, len);
    if (status == PL_OK)
        memcpy(p->out + i * PL_CHUNK_BYTES, got.data, len);
    pl_buf_destroy(&got);
    return status;
}

pl_status pl_store_pull_upload(pl_store *store, uint64_t id, uint64_t bytes,
                               uint8_t *out)
{
    pull p = {store, id, bytes, out};
    return pl_parallel(ENGINE_THREADS, blob_chunks(bytes), pull_chunk, &p);
}

void pl_store_drop_upload(pl_store *store, uint64_t id, uint64_t bytes)
{
    const size_t n = blob_chunks(bytes);
    remote_work work = {.drops = pl_alloc((n + 1) * sizeof *work.drops), .n_drops = n};
    for (size_t i = 0; i < n; i++)
        upload_name(store, id, i, work.drops[i].name);
    remote_doom(store->engine, &work);
    pl_free(work.drops);
}
