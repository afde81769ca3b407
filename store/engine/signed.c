/* Signed URLs, with which workers read and write an engine without its keys
 * (docs/ENGINES.md). A worker writes an upload as objects of one chunk each:
 *
 *   upload/EPOCH.ID.NUMBER
 *
 * The home reads them in order while the worker writes further ones. A commit drops
 * them when no URL is valid any more: until then an object that exists makes its URL
 * useless for a second writing. A home that ends drops them, too; what is left, and
 * what is written afterwards, is garbage under the next epoch (remote_sweep.c). */
#include "store/stores.h"
#include <inttypes.h>
#include <string.h>

bool pl_store_signs(const pl_store *store)
{
    return store->engine && engine_signs(store->engine->service);
}

pl_status pl_store_sign_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                             pl_buf *urls)
{
    row_view row;
    blob_record record = {0};
    pl_store *holder;
    const row_key key = key_of_hash(blob);
    pl_status status = PL_OK;
    PL_CHECK(stores_find(store, KV_BLOB, &key, &row, &holder));
    if (!row.found || !pl_store_signs(holder))
        return PL_ERR_UNSUPPORTED;
    PL_CHECK(blob_decode(&row, &record));
    const size_t first = (size_t)(offset / PL_CHUNK_BYTES);
    for (size_t i = first;
         i < blob_chunks(record.bytes) && i < first + PL_SIGNED_CHUNKS; i++) {
        chunk_record chunk;
        char name[ENGINE_NAME_MAX];
        const pl_hash id = blob_chunk(&record, i);
        PL_TRY(chunk_read(store_source(holder), &id, &chunk));
        status = chunk.exists && chunk.coding == CHUNK_RAW ? PL_OK : PL_ERR_UNSUPPORTED;
        if (status != PL_OK)
            goto done;
        remote_chunk_name(&id, &chunk, name);
        PL_TRY(engine_sign(holder->engine->service, name, 0, urls));
        pl_buf_append(urls, "\n", 1);
    }
done:
    pl_buf_destroy(&record.chunks);
    return status;
}

static void upload_name(const pl_store *store, uint64_t id, size_t number,
                        char out[ENGINE_NAME_MAX])
{
    snprintf(out, ENGINE_NAME_MAX, "upload/%" PRIx64 ".%" PRIx64 ".%zx", store->epoch,
             id, number);
}

pl_status pl_store_sign_upload(pl_store *store, uint64_t id, uint64_t bytes,
                               uint64_t offset, pl_buf *urls)
{
    char name[ENGINE_NAME_MAX];
    for (size_t n = 0; n < PL_SIGNED_CHUNKS && offset < bytes; n++) {
        const size_t len = chunk_bytes_at(bytes, offset);
        upload_name(store, id, (size_t)(offset / PL_CHUNK_BYTES), name);
        PL_CHECK(engine_sign(store->engine->service, name, len, urls));
        pl_buf_append(urls, "\n", 1);
        offset += len;
    }
    return PL_OK;
}

typedef struct pull {
    const pl_store *store;
    uint64_t id, bytes, from;
    uint8_t *out; /* the first byte of the blob */
} pull;

static pl_status pull_chunk(void *context, size_t i, int thread)
{
    const pull *p = context;
    char name[ENGINE_NAME_MAX];
    pl_buf got = {0};
    const uint64_t at = p->from + i * (uint64_t)PL_CHUNK_BYTES;
    const size_t len = chunk_bytes_at(p->bytes, at);
    (void)thread;
    upload_name(p->store, p->id, (size_t)(at / PL_CHUNK_BYTES), name);
    pl_status status = engine_get(p->store->engine->service, name, &got);
    if (status == PL_OK && got.len != len)
        status = pl_fail(PL_ERR_DAMAGED, "%s has %zu bytes instead of %zu", name,
                         got.len, len);
    if (status == PL_OK)
        memcpy(p->out + at, got.data, len);
    pl_buf_destroy(&got);
    return status;
}

pl_status pl_store_pull_upload(pl_store *store, uint64_t id, uint64_t bytes,
                               uint64_t from, uint64_t to, uint8_t *out)
{
    pull p = {store, id, bytes, from, out};
    PL_CHECK(pl_failpoint("upload.pull.before"));
    return pl_parallel(ENGINE_THREADS, blob_chunks(to - from), pull_chunk, &p);
}

void pl_store_drop_upload(pl_store *store, uint64_t id, uint64_t bytes)
{
    engine_objects objects = {0};
    for (size_t i = 0; i < blob_chunks(bytes); i++)
        upload_name(store, id, i, engine_objects_add(&objects)->name);
    remote_doom(&store->engine->uploads, &objects);
    pl_free(objects.at);
}
