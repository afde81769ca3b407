/* Blobs. A blob is cut into chunks. Blobs and chunks are named by their hashes and
 * stored once, with a count of references to each.
 *
 *   name of a blob  = hash("blob", length as u64 LE, then the hashes of its chunks)
 *   name of a chunk = hash("chunk", the bytes of the chunk, at most 1 MiB)
 *
 * A chunk can be verified without the other chunks of its blob, so a part of a blob can
 * be read and checked. A transaction changes counts of references at once, but blobs
 * without references are deleted only just before the commit. So a transaction may drop
 * the last reference to a blob and add a new one later. */
#include "store/bulk.h"
#include "store/stores.h"
#include <string.h>

enum { SHORT_HASH = 13 };

static const char *short_hash(const pl_hash *hash, char text[PL_HASH_TEXT])
{
    pl_hash_format(hash, text);
    text[SHORT_HASH - 1] = 0;
    return text;
}

size_t chunk_bytes_at(uint64_t bytes, uint64_t offset)
{
    uint64_t rest = bytes - offset;
    return rest < PL_CHUNK_BYTES ? (size_t)rest : PL_CHUNK_BYTES;
}

void blob_name(const blob_record *blob, pl_hash *out)
{
    pl_hasher hasher;
    uint8_t length[8];
    pl_le_put(length, blob->bytes, sizeof length);
    pl_hasher_init(&hasher, "blob");
    pl_hasher_add(&hasher, length, sizeof length);
    if (blob->chunks.len)
        pl_hasher_add(&hasher, blob->chunks.data, blob->chunks.len);
    pl_hasher_end(&hasher, out);
}

enum {
    TOGETHER = 8, /* number of chunks that are hashed at once */
    GROUP_BYTES = TOGETHER * PL_CHUNK_BYTES,
    THREADS_MAX = 4
};

size_t blob_chunks(uint64_t bytes)
{
    return (size_t)((bytes + PL_CHUNK_BYTES - 1) / PL_CHUNK_BYTES);
}

/* Hashes up to TOGETHER chunks, starting at byte `at`; returns their number. */
static size_t hash_group(const uint8_t *data, uint64_t at, uint64_t bytes,
                         pl_hash hashes[TOGETHER])
{
    pl_piece pieces[TOGETHER];
    size_t n = 0;
    for (uint64_t end = at; n < TOGETHER && end < bytes; end += pieces[n++].len)
        pieces[n] = (pl_piece){data + end, chunk_bytes_at(bytes, end)};
    pl_hash_many("chunk", pieces, n, hashes);
    return n;
}

/* Appends the hashes of up to TOGETHER chunks, starting at byte `at`, to `out`. Returns
 * the number of bytes hashed. */
static uint64_t hash_chunks(const uint8_t *data, uint64_t at, uint64_t bytes,
                            pl_buf *out)
{
    pl_hash hashes[TOGETHER];
    size_t n = hash_group(data, at, bytes, hashes);
    pl_buf_append(out, hashes, n * sizeof *hashes);
    return bytes - at < GROUP_BYTES ? bytes - at : GROUP_BYTES;
}

typedef struct hash_work {
    const uint8_t *data;
    const blob_record *blob;
    pl_hash *out; /* [n_chunks] gets the hashes of all chunks */
} hash_work;

static pl_status hash_item(void *context, size_t item, int thread)
{
    const hash_work *w = context;
    (void)thread;
    (void)hash_group(w->data, item * GROUP_BYTES, w->blob->bytes,
                     w->out + item * TOGETHER);
    return PL_OK;
}

static int hash_threads(void)
{
    int n = pl_cpu_count();
    return n < THREADS_MAX ? n : THREADS_MAX;
}

/* Appends the hashes of the blob's chunks to its record and computes its name. Hashes a
 * large blob in several threads, if they can be started. */
static void identify(const uint8_t *data, blob_record *blob, pl_hash *out)
{
    const size_t n = blob_chunks(blob->bytes), n_groups = (n + TOGETHER - 1) / TOGETHER;
    const int n_threads = hash_threads();
    bool is_hashed = false;
    if (n_threads > 1 && n_groups > 1) {
        hash_work work = {data, blob, pl_alloc(n * sizeof *work.out)};
        is_hashed = pl_parallel(n_threads, n_groups, hash_item, &work) == PL_OK;
        if (is_hashed)
            pl_buf_append(&blob->chunks, work.out, n * sizeof *work.out);
        pl_free(work.out);
    }
    for (uint64_t at = 0; !is_hashed && at < blob->bytes;)
        at += hash_chunks(data, at, blob->bytes, &blob->chunks);
    blob_name(blob, out);
}

void pl_blob_hash(const void *data, uint64_t bytes, pl_hash *out)
{
    blob_record blob = {.bytes = bytes};
    identify(data, &blob, out);
    pl_buf_destroy(&blob.chunks);
}

void pl_blob_hash_some(pl_blob_hashing *h, const void *data, uint64_t there)
{
    while (there - h->hashed >= GROUP_BYTES)
        h->hashed += hash_chunks(data, h->hashed, h->hashed + GROUP_BYTES, &h->chunks);
}

void pl_blob_hash_end(pl_blob_hashing *h, const void *data, uint64_t bytes,
                      pl_hash *out)
{
    while (h->hashed < bytes)
        h->hashed += hash_chunks(data, h->hashed, bytes, &h->chunks);
    blob_record blob = {.bytes = bytes, .chunks = h->chunks};
    blob_name(&blob, out);
    pl_buf_destroy(&blob.chunks);
    *h = (pl_blob_hashing){.hashed = 0};
}

pl_hash blob_chunk(const blob_record *blob, size_t i)
{
    pl_hash hash;
    memcpy(hash.bytes, blob->chunks.data + i * PL_HASH_BYTES, PL_HASH_BYTES);
    return hash;
}

/* ---- reading ---- */
static pl_status missing_blob(const pl_hash *id)
{
    char text[PL_HASH_TEXT];
    return pl_fail(PL_ERR_NOT_FOUND, "there is no blob %s in the store",
                   short_hash(id, text));
}

static pl_status find_blob(const pl_store *store, const pl_hash *id, blob_record *out,
                           pl_store **holder)
{
    row_view row;
    const row_key key = key_of_hash(id);
    PL_CHECK(stores_find(store, KV_BLOB, &key, &row, holder));
    return row.found ? blob_decode(&row, out) : missing_blob(id);
}

pl_status pl_store_blob_bytes(pl_store *store, const pl_hash *blob, uint64_t *bytes)
{
    blob_record record;
    *bytes = 0;
    PL_CHECK(find_blob(store, blob, &record, NULL));
    *bytes = record.bytes;
    pl_buf_destroy(&record.chunks);
    return PL_OK;
}

/* A blob whose row is damaged counts as missing, so that the blob is sent again. */
bool pl_store_has_blob(pl_store *store, const pl_hash *blob)
{
    row_view row;
    blob_record record;
    const row_key key = key_of_hash(blob);
    if (stores_find(store, KV_BLOB, &key, &row, NULL) != PL_OK || !row.found ||
        blob_decode(&row, &record) != PL_OK)
        return false;
    pl_buf_destroy(&record.chunks);
    return true;
}

enum { READ_TRIES = 20 };

typedef struct blob_range {
    pl_store *store;
    const pl_hash *id;
    blob_record blob;
    uint64_t offset;
    size_t len;
    uint8_t *out;
} blob_range;

typedef struct wanted_chunk {
    const blob_range *range;
    size_t index; /* number of the chunk in its blob */
} wanted_chunk;

static void copy_part(const wanted_chunk *w, const chunk_view *chunk)
{
    const blob_range *r = w->range;
    uint64_t start = (uint64_t)w->index * PL_CHUNK_BYTES;
    uint64_t from = start > r->offset ? start : r->offset;
    uint64_t to = start + PL_CHUNK_BYTES;
    if (to > r->offset + r->len)
        to = r->offset + r->len;
    memcpy(r->out + (from - r->offset), chunk->data + (from - start),
           (size_t)(to - from));
}

/* Reads a chunk. While the writer moves a chunk, a follower may see the chunk's row
 * from one commit and its bytes from another. So a chunk that is checked counts as
 * damaged only if READ_TRIES further reads fail, too. */
static pl_status read_wanted_chunk(const wanted_chunk *w, bool checked)
{
    chunk_view chunk;
    char text[PL_HASH_TEXT];
    const blob_range *r = w->range;
    const row_source from = store_source(r->store);
    const pl_hash id = blob_chunk(&r->blob, w->index);
    const size_t bytes =
        chunk_bytes_at(r->blob.bytes, (uint64_t)w->index * PL_CHUNK_BYTES);
    const int n_tries = checked && r->store->mode == PL_STORE_READ ? READ_TRIES : 0;
    pl_status status = checked ? chunk_open(from, &id, bytes, &chunk)
                               : chunk_lend(from, &id, bytes, &chunk);
    for (int i = 0; status == PL_ERR_DAMAGED && i < n_tries; i++) {
        pl_sleep_ms(i);
        status = kv_refresh(r->store->db);
        if (status != PL_OK)
            break;
        status = chunk_open(from, &id, bytes, &chunk);
    }
    if (status != PL_OK)
        return pl_fail_in(status, "blob %s, chunk %zu of %zu", short_hash(r->id, text),
                          w->index + 1, r->blob.chunks.len / PL_HASH_BYTES);
    copy_part(w, &chunk);
    chunk_close(&chunk);
    return PL_OK;
}

/* The chunks of ranges in one store, which are read in groups. */
typedef struct group_read {
    const wanted_chunk *wanted;
    size_t n, n_groups;
} group_read;

/* Reads a group of chunks and checks their hashes together, or else singly, to find the
 * damaged one. */
static pl_status read_group(void *context, size_t item, int thread)
{
    const group_read *g = context;
    const size_t first = item * g->n / g->n_groups,
                 end = (item + 1) * g->n / g->n_groups;
    const wanted_chunk *wanted = g->wanted + first;
    const size_t n = end - first;
    bool good = false;
    (void)thread;
    if (n > 1) {
        const row_source from = store_source(wanted->range->store);
        chunk_view *chunks = pl_alloc(n * sizeof *chunks);
        pl_hash *ids = pl_alloc(n * sizeof *ids);
        size_t *bytes = pl_alloc(n * sizeof *bytes);
        for (size_t i = 0; i < n; i++) {
            const blob_record *blob = &wanted[i].range->blob;
            ids[i] = blob_chunk(blob, wanted[i].index);
            bytes[i] =
                chunk_bytes_at(blob->bytes, (uint64_t)wanted[i].index * PL_CHUNK_BYTES);
        }
        good = chunk_open_all(from, ids, bytes, n, chunks);
        for (size_t i = 0; good && i < n; i++) {
            copy_part(&wanted[i], &chunks[i]);
            chunk_close(&chunks[i]);
        }
        pl_free_all(chunks, ids, bytes);
    }
    for (size_t i = 0; !good && i < n; i++)
        PL_CHECK(read_wanted_chunk(&wanted[i], true));
    return PL_OK;
}

/* Reads all chunks of the ranges. Several chunks are requested from an engine at once,
 * because each request takes a round trip. Chunks from an engine are always checked. */
static pl_status read_ranges(const blob_range *ranges, size_t n_ranges, bool checked)
{
    size_t n = 0;
    uint64_t bytes = 0;
    wanted_chunk *wanted = NULL;
    pl_status status = PL_OK;
    for (size_t i = 0; i < n_ranges; i++) {
        const blob_range *r = &ranges[i];
        bytes += r->len;
        for (uint64_t c = r->offset / PL_CHUNK_BYTES;
             r->len > 0 && c * PL_CHUNK_BYTES < r->offset + r->len; c++) {
            wanted = pl_grow_items(wanted, n, n + 1, sizeof *wanted);
            wanted[n++] = (wanted_chunk){r, (size_t)c};
        }
    }
    group_read g = {wanted, n, n};
    const int n_requests = n > 0 ? ranges->store->places->n_requests : 1;
    if (n_requests > 1)
        status = pl_parallel(n_requests, n, read_group, &g);
    else if (checked && n > 0) {
        /* Gives each thread about equally many chunks, but at least two chunks per
         * group, so that their hashes are computed together. */
        const size_t n_threads = (size_t)hash_threads();
        const size_t pairs = n / 2 > 0 ? n / 2 : 1;
        size_t groups = (size_t)((bytes + GROUP_BYTES - 1) / GROUP_BYTES);
        groups = (groups + n_threads - 1) / n_threads * n_threads;
        g.n_groups = groups < pairs ? groups : pairs;
        status = pl_parallel((int)n_threads, g.n_groups, read_group, &g);
    } else
        for (size_t i = 0; status == PL_OK && i < n; i++)
            status = read_wanted_chunk(&wanted[i], false);
    pl_free(wanted);
    return status;
}

/* Finds the range's blob and its store; checks that the range lies in the blob. */
static pl_status find_range(blob_range *r)
{
    char text[PL_HASH_TEXT];
    PL_CHECK(find_blob(r->store, r->id, &r->blob, &r->store));
    if (r->offset <= r->blob.bytes && r->len <= r->blob.bytes - r->offset)
        return PL_OK;
    return pl_fail(
        PL_ERR_ARG,
        "blob %s has %llu bytes, but %zu bytes from offset %llu on were requested",
        short_hash(r->id, text), (unsigned long long)r->blob.bytes, r->len,
        (unsigned long long)r->offset);
}

static pl_status read_once(blob_range range, bool checked)
{
    pl_status status = find_range(&range);
    if (status == PL_OK)
        status = read_ranges(&range, 1, checked);
    pl_buf_destroy(&range.blob.chunks);
    return status;
}

/* A follower may still list a blob that the writer has deleted as garbage, or whose
 * objects were dropped from the engine. So if reading fails, the follower catches up
 * with the writer and reads once more. If the blob no longer exists then, the error is
 * ERR_NOT_FOUND and not ERR_DAMAGED. */
static pl_status read_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                           size_t len, void *out, bool checked)
{
    const blob_range range = {
        .store = store, .id = blob, .offset = offset, .len = len, .out = out};
    pl_status status = read_once(range, checked);
    if ((status != PL_ERR_DAMAGED && status != PL_ERR_NOT_FOUND) ||
        store->mode != PL_STORE_READ)
        return status;
    /* changes no field of a pl_store, because several threads may read at once */
    for (int i = 0; i < store->n_stores; i++)
        PL_CHECK(kv_refresh(store->stores[i]->db));
    return read_once(range, checked);
}

pl_status pl_store_read_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                             size_t len, void *out)
{
    return read_blob(store, blob, offset, len, out, true);
}

pl_status pl_store_copy_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                             size_t len, void *out)
{
    return read_blob(store, blob, offset, len, out, false);
}

/* A follower reads the blobs one by one, because it may have to read one again. */
pl_status pl_store_read_blobs(pl_store *store, const pl_blob_read *reads, size_t n)
{
    pl_status status = PL_OK;
    for (size_t i = 0; store->mode == PL_STORE_READ && i < n; i++)
        PL_CHECK(
            pl_store_read_blob(store, reads[i].blob, 0, reads[i].bytes, reads[i].out));
    if (store->mode == PL_STORE_READ)
        return PL_OK;
    blob_range *ranges = pl_alloc(n * sizeof *ranges);
    for (size_t i = 0; i < n; i++) {
        ranges[i] = (blob_range){.store = store,
                                 .id = reads[i].blob,
                                 .len = reads[i].bytes,
                                 .out = reads[i].out};
        PL_TRY(find_range(&ranges[i]));
    }
    status = read_ranges(ranges, n, true);
done:
    for (size_t i = 0; i < n; i++)
        pl_buf_destroy(&ranges[i].blob.chunks);
    pl_free(ranges);
    return status;
}

/* ---- putting chunks inside a transaction ---- */
static void note_loose(pl_txn *txn, const pl_hash *id)
{
    txn->loose = pl_grow_items(txn->loose, txn->n_loose, txn->n_loose + 1, sizeof *id);
    txn->loose[txn->n_loose++] = *id;
}

/* Counts the bytes of the chunks of this blob that the store does not have yet. Chunks
 * whose hashes are not in the blob's record yet are left out. Equal chunks that follow
 * each other count once. */
static pl_status count_new(const pl_txn *txn, const blob_record *blob, uint64_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < blob->chunks.len / PL_HASH_BYTES; i++) {
        chunk_record chunk;
        pl_hash id = blob_chunk(blob, i);
        const pl_hash before = i > 0 ? blob_chunk(blob, i - 1) : (pl_hash){{0}};
        if (i > 0 && pl_hash_equal(&id, &before))
            continue;
        PL_CHECK(chunk_read(txn_source(txn), &id, &chunk));
        *bytes += chunk.exists
                      ? 0
                      : chunk_bytes_at(blob->bytes, (uint64_t)i * PL_CHUNK_BYTES);
    }
    return PL_OK;
}

/* Puts the chunks from `first` to the last with a hash in the blob's record. */
static pl_status put_chunks(pl_txn *txn, const uint8_t *data, const blob_record *blob,
                            size_t first)
{
    for (size_t i = first; i < blob->chunks.len / PL_HASH_BYTES; i++) {
        const uint64_t at = (uint64_t)i * PL_CHUNK_BYTES;
        const size_t len = chunk_bytes_at(blob->bytes, at);
        const pl_hash id = blob_chunk(blob, i);
        chunk_record chunk;
        PL_CHECK(chunk_read(txn_source(txn), &id, &chunk));
        if (!chunk.exists) {
            chunk = (chunk_record){.bytes = len};
            PL_CHECK(chunk_place(txn, &id, &chunk, data + at, len));
        }
        chunk.refs++;
        chunk_write(txn->batch, &id, &chunk);
    }
    return PL_OK;
}

/* ---- large blobs: one group of chunks is put while the next one is hashed ---- */
typedef struct blob_flow {
    pl_txn *txn;
    const uint8_t *data;
    blob_record *blob;
    pl_hash next[TOGETHER];
    size_t n_next;
} blob_flow;

static pl_status flow_item(void *context, size_t item, int thread)
{
    enum { PUT, HASH };
    blob_flow *f = context;
    size_t known = f->blob->chunks.len / PL_HASH_BYTES;
    (void)thread;
    if (item == PUT)
        return put_chunks(f->txn, f->data, f->blob, known - TOGETHER);
    f->n_next =
        hash_group(f->data, (uint64_t)known * PL_CHUNK_BYTES, f->blob->bytes, f->next);
    return PL_OK;
}

static pl_status put_flowing(pl_txn *txn, const uint8_t *data, blob_record *blob,
                             pl_hash *out)
{
    char text[PL_HASH_TEXT];
    blob_record old;
    PL_CHECK(bulk_begin(txn, blob->bytes));
    /* Puts a group of chunks while the next group is hashed. The hashes of the first
     * group are known at the start. */
    blob_flow f = {.txn = txn, .data = data, .blob = blob};
    size_t known = TOGETHER, n = blob_chunks(blob->bytes);
    for (; known < n; known += f.n_next) {
        PL_CHECK(pl_parallel(2, 2, flow_item, &f));
        pl_buf_append(&blob->chunks, f.next, f.n_next * sizeof *f.next);
    }
    PL_CHECK(put_chunks(txn, data, blob, known - f.n_next));
    PL_CHECK(bulk_end(txn));
    blob_name(blob, out);
    PL_CHECK(blob_read(txn_source(txn), out, &old));
    pl_buf_destroy(&old.chunks);
    if (old.exists)
        return pl_fail(PL_ERR_DAMAGED,
                       "blob %s is in the store, but the rows of its first chunks are "
                       "not; check the store with `pathloom store fsck`",
                       short_hash(out, text));
    blob_write(txn->batch, out, blob);
    note_loose(txn, out);
    return PL_OK;
}

/* ---- putting and dropping blobs ---- */
/* A new blob has no references yet: if no record of the transaction names it, it is
 * deleted just before the commit. */
pl_status pl_txn_put_blob(pl_txn *txn, const void *data, uint64_t bytes, pl_hash *out)
{
    uint64_t new_bytes = 0;
    blob_record blob = {.bytes = bytes}, old = {0};
    pl_status status = PL_OK;
    /* A blob that gets a table file is hashed and put at the same time if the store has
     * no chunk of its first group: then the blob is probably new. (Only the hash of the
     * complete blob shows whether it really is new.) If the blob might not fit on the
     * disk, its new bytes are counted first. */
    if (bytes >= txn->store->bulk_bytes && bytes >= 2 * GROUP_BYTES) {
        hash_chunks(data, 0, bytes, &blob.chunks);
        PL_TRY(count_new(txn, &blob, &new_bytes));
        if (new_bytes == GROUP_BYTES &&
            store_check_space(txn->store->folder, "the commit",
                              bytes + STORE_SPARE_BYTES) == PL_OK) {
            PL_TRY(txn_spoil(txn, put_flowing(txn, data, &blob, out)));
            goto done;
        }
        pl_buf_clear(&blob.chunks);
    }
    identify(data, &blob, out);
    PL_TRY(blob_read(txn_source(txn), out, &old));
    if (old.exists)
        goto done;
    PL_TRY(txn_spoil(txn, count_new(txn, &blob, &new_bytes)));
    PL_TRY(txn_spoil(txn, bulk_begin(txn, new_bytes)));
    PL_TRY(txn_spoil(txn, put_chunks(txn, data, &blob, 0)));
    PL_TRY(txn_spoil(txn, bulk_end(txn)));
    blob_write(txn->batch, out, &blob);
    note_loose(txn, out);
done:
    pl_buf_destroy(&old.chunks);
    pl_buf_destroy(&blob.chunks);
    return status;
}

pl_status blob_check(const pl_txn *txn, const pl_hash *id, const char *use,
                     const char *name)
{
    char text[PL_HASH_TEXT];
    blob_record blob;
    PL_CHECK(blob_read(txn_source(txn), id, &blob));
    pl_buf_destroy(&blob.chunks);
    if (!blob.exists)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "blob %s (%s of %s) is neither in the store nor in the "
                       "transaction; store the blob first",
                       short_hash(id, text), use, name);
    return PL_OK;
}

static pl_status add_refs(pl_txn *txn, const pl_hash *id, int change)
{
    char text[PL_HASH_TEXT];
    blob_record blob;
    if (pl_hash_none(id))
        return PL_OK;
    PL_CHECK(blob_read(txn_source(txn), id, &blob));
    if (!blob.exists)
        return missing_blob(id);
    pl_status status = PL_OK;
    if (change < 0 && blob.refs == 0)
        status = pl_fail(PL_ERR_DAMAGED,
                         "blob %s has the reference count 0, although a record names "
                         "it; check the store with `pathloom store fsck`",
                         short_hash(id, text));
    else
        blob.refs = change < 0 ? blob.refs - 1 : blob.refs + 1;
    if (status == PL_OK)
        blob_write(txn->batch, id, &blob);
    if (status == PL_OK && blob.refs == 0)
        note_loose(txn, id);
    pl_buf_destroy(&blob.chunks);
    return status;
}

pl_status blob_hold(pl_txn *txn, const pl_hash *id)
{
    return add_refs(txn, id, +1);
}

pl_status blob_release(pl_txn *txn, const pl_hash *id)
{
    return add_refs(txn, id, -1);
}

/* Drops one reference to a chunk. A chunk has one reference for each time that it
 * occurs in a blob (a blob of zeros contains the same chunk many times), and one for
 * each time that it is a base. When a chunk is deleted, the references to its own bases
 * are dropped. */
static pl_status drop_chunk(pl_txn *txn, const pl_hash *id)
{
    char text[PL_HASH_TEXT];
    chunk_record chunk;
    PL_CHECK(chunk_read(txn_source(txn), id, &chunk));
    if (!chunk.exists || chunk.refs == 0)
        return pl_fail(
            PL_ERR_DAMAGED,
            "chunk %s is missing or has the reference count 0, although a blob or a "
            "chunk names it; check the store with `pathloom store fsck`",
            short_hash(id, text));
    if (--chunk.refs) {
        chunk_write(txn->batch, id, &chunk);
        return PL_OK;
    }
    row_key row = key_of_hash(id);
    kv_delete(txn->batch, KV_CHUNK, key_slice(&row));
    chunk_displace(txn, id, &chunk);
    for (int i = 0; i < 2 && !pl_hash_none(&chunk.bases[i]); i++)
        PL_CHECK(drop_chunk(txn, &chunk.bases[i]));
    return PL_OK;
}

/* A blob may be in the list `loose` twice, or may have got a new reference. */
pl_status blob_sweep(pl_txn *txn)
{
    for (size_t i = 0; i < txn->n_loose; i++) {
        const row_key row = key_of_hash(&txn->loose[i]);
        blob_record blob;
        pl_status status = PL_OK;
        PL_CHECK(blob_read(txn_source(txn), &txn->loose[i], &blob));
        const bool is_unused = blob.exists && blob.refs == 0;
        const size_t n = is_unused ? blob.chunks.len / PL_HASH_BYTES : 0;
        for (size_t c = 0; status == PL_OK && c < n; c++) {
            const pl_hash chunk = blob_chunk(&blob, c);
            status = drop_chunk(txn, &chunk);
        }
        if (is_unused)
            kv_delete(txn->batch, KV_BLOB, key_slice(&row));
        pl_buf_destroy(&blob.chunks);
        PL_CHECK(status);
    }
    return PL_OK;
}
