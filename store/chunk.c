/* Reads and writes chunks in every form, raw or coded, and keeps the bytes of chunks in
 * the pack rows of the database (pack_places). */
#include "store/bulk.h"
#include "store/delta.h"

#include <string.h>

static pl_status get_pack_row(const row_source *from, const pl_hash *id,
                              const chunk_record *chunk, chunk_view *out)
{
    row_key key = key_of_pack(chunk->pack, chunk->number);
    (void)id;
    PL_CHECK(from->batch
                 ? kv_batch_get(from->batch, KV_PACK, key_slice(&key), &out->pin)
                 : kv_get(from->db, KV_PACK, key_slice(&key), &out->pin));
    out->data = out->pin.data;
    out->len = out->pin.len;
    if (out->data && out->len == chunk->stored)
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "its bytes are missing from pack %llu, or have the wrong length "
                   "there; restore the store from a copy",
                   (unsigned long long)chunk->pack);
}

/* The bytes are copied only once, directly into the batch or into a table file. */
static pl_status put_pack_row(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                              const void *data, size_t len)
{
    row_key key = key_of_pack(chunk->pack, chunk->number);
    (void)id;
    if (txn->in_file)
        return bulk_put(txn, &key, data, len);
    kv_put(txn->batch, KV_PACK, key_slice(&key), (kv_slice){data, len});
    return PL_OK;
}

static void drop_pack_row(pl_txn *txn, const pl_hash *id, const chunk_record *chunk)
{
    row_key key = key_of_pack(chunk->pack, chunk->number);
    (void)id;
    kv_delete(txn->batch, KV_PACK, key_slice(&key));
    bulk_let_go(txn, chunk);
}

/* docs/results/store.md has the measurement for bulk_bytes */
const chunk_places pack_places = {.get = get_pack_row,
                                  .put = put_pack_row,
                                  .drop = drop_pack_row,
                                  .family = KV_PACK,
                                  .n_requests = 1,
                                  .bulk_bytes = 4 << 20};

/* Reads a chunk without checking its hash. This is enough for a base: if the base is
 * damaged, the chunk decoded with it fails the check of its hash. */
static pl_status load_at(row_source from, const pl_hash *id, const chunk_record *chunk,
                         int depth, chunk_view *out)
{
    chunk_view bases[2] = {{.data = NULL}, {.data = NULL}};
    pl_status status = PL_OK;
    *out = (chunk_view){.data = NULL};
    PL_TRY(from.store->places->get(&from, id, chunk, out));
    for (int i = 0; i < 2 && chunk->coding == CHUNK_DELTA; i++) {
        chunk_record base;
        PL_TRY(chunk_read(from, &chunk->bases[i], &base));
        if (!base.exists || base.bytes != chunk->bytes || depth >= CHUNK_DEPTH_MAX)
            PL_TRY(pl_fail(
                PL_ERR_DAMAGED,
                "a chunk from which it is computed is missing or has a different size, "
                "or the chain of such chunks is too long; restore the store from a "
                "copy"));
        PL_TRY(load_at(from, &chunk->bases[i], &base, depth + 1, &bases[i]));
    }
    if (chunk->coding != CHUNK_RAW) {
        PL_TRY(delta_decode(out->data, out->len, bases[0].data, bases[1].data,
                            (size_t)chunk->bytes, &out->decoded));
        out->data = out->decoded.data;
        out->len = out->decoded.len;
    }
done:
    chunk_close(&bases[0]);
    chunk_close(&bases[1]);
    if (status != PL_OK)
        chunk_close(out);
    return status;
}

pl_status chunk_load(row_source from, const pl_hash *id, const chunk_record *chunk,
                     chunk_view *out)
{
    pl_hash got;
    PL_CHECK(load_at(from, id, chunk, 0, out));
    pl_hash_of("chunk", out->data, out->len, &got);
    if (out->len == chunk->bytes && pl_hash_equal(&got, id))
        return PL_OK;
    chunk_close(out);
    return pl_fail(PL_ERR_DAMAGED,
                   "its bytes do not match its hash; restore the store from a copy");
}

static pl_status find_chunk(row_source from, const pl_hash *id, size_t expected,
                            chunk_record *out)
{
    PL_CHECK(chunk_read(from, id, out));
    if (!out->exists)
        return pl_fail(PL_ERR_DAMAGED,
                       "its record is missing; restore the store from a copy");
    if (out->bytes != expected)
        return pl_fail(
            PL_ERR_DAMAGED,
            "it has %llu bytes instead of %zu; restore the store from a copy",
            (unsigned long long)out->bytes, expected);
    return PL_OK;
}

pl_status chunk_open(row_source from, const pl_hash *id, size_t expected,
                     chunk_view *out)
{
    chunk_record chunk;
    *out = (chunk_view){.data = NULL};
    PL_CHECK(find_chunk(from, id, expected, &chunk));
    return chunk_load(from, id, &chunk, out);
}

pl_status chunk_lend(row_source from, const pl_hash *id, size_t expected,
                     chunk_view *out)
{
    chunk_record chunk;
    *out = (chunk_view){.data = NULL};
    PL_CHECK(find_chunk(from, id, expected, &chunk));
    PL_CHECK(load_at(from, id, &chunk, 0, out));
    if (out->len == expected)
        return PL_OK;
    chunk_close(out);
    return pl_fail(PL_ERR_DAMAGED,
                   "its bytes have the wrong length; restore the store from a copy");
}

bool chunk_open_all(row_source from, const pl_hash *ids, const size_t *expected,
                    size_t n, chunk_view *out)
{
    bool good = true;
    pl_piece *pieces = pl_alloc(n * sizeof *pieces);
    pl_hash *got = pl_alloc(n * sizeof *got);
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; good && i < n; i++) {
        good = chunk_lend(from, &ids[i], expected[i], &out[i]) == PL_OK;
        pieces[i] = (pl_piece){out[i].data, out[i].len};
    }
    if (good)
        pl_hash_many("chunk", pieces, n, got);
    for (size_t i = 0; good && i < n; i++)
        good = pl_hash_equal(&got[i], &ids[i]);
    for (size_t i = 0; !good && i < n; i++)
        chunk_close(&out[i]);
    pl_free_all(pieces, got);
    return good;
}

void chunk_close(chunk_view *view)
{
    kv_unpin(&view->pin);
    pl_buf_destroy(&view->decoded);
    pl_buf_destroy(&view->fetched);
    *view = (chunk_view){.data = NULL};
}

pl_status chunk_place(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                      const void *data, size_t len)
{
    chunk->pack = txn->sequence;
    chunk->number = txn->n_chunks++;
    chunk->stored = len;
    chunk->epoch = 0;
    txn->grown += (int64_t)len;
    return txn->store->places->put(txn, id, chunk, data, len);
}

void chunk_displace(pl_txn *txn, const pl_hash *id, const chunk_record *chunk)
{
    txn->grown -= (int64_t)chunk->stored;
    txn->store->places->drop(txn, id, chunk);
}
