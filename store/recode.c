/* Compresses old versions. The newest versions stay uncompressed, so commits and the
 * reads of workers cost nothing more. Versions that are needed only as history are
 * compressed later.
 *
 * The old versions of a module are coded (compressed) in levels, like the marks of a
 * ruler. Every 16th version is coded alone. Any other version n is coded relative to
 * the versions n - d and n + d, where d is the largest power of two that divides n:
 *
 *   0 . . . . . . . 8 . . . . . . . 16      8 between 0 and 16
 *   0 . . . 4 . . . 8 . . . 12 . . . 16     4 between 0 and 8, ...
 *
 * So for half of all versions d is 1. To read a version, at most six versions must be
 * decoded. Version n is coded as soon as version n + d exists and version n is not one
 * of the newest RECENT versions, from which tasks start.
 *
 * Versions may share chunks: after a rollback a new version has the chunks of an old
 * one. If the bases of a chunk were chosen by version numbers alone, a chunk could
 * depend on itself through a cycle of bases. Therefore a chunk is coded only relative
 * to chunks that do not depend on it. Coded bytes are decoded and compared before the
 * raw bytes are released. */
#include "store/delta.h"
#include "store/store_internal.h"
#include <string.h>

/* Every ALONE-th version is coded alone. The newest RECENT versions stay uncompressed.
 * Chunks below BYTES_MIN bytes, and chunks that would become smaller by less than
 * 1/SPARED_MIN, stay uncompressed, too. */
enum { ALONE = 16, RECENT = 3, BYTES_MIN = 4096, SPARED_MIN = 16 };

typedef struct recoding {
    pl_txn *txn;
    uint64_t budget; /* number of bytes that may still be read */
} recoding;

/* Returns the distance d from a version to the two versions relative to which it is
 * coded; 0 for a version that is coded alone. */
static uint64_t reach_of(uint64_t number)
{
    return number % ALONE == 0 ? 0 : number & (~number + 1);
}

/* Computes the length of the longest chain of deltas that chunk `id` depends on. The
 * result is above CHUNK_DEPTH_MAX if such a chain contains the chunk `not_on`, or if a
 * chunk is missing. */
static pl_status delta_depth_of(const recoding *r, const pl_hash *id,
                                const pl_hash *not_on, int level, int *out)
{
    chunk_record chunk;
    *out = CHUNK_DEPTH_MAX + 1;
    if (pl_hash_equal(id, not_on) || level > CHUNK_DEPTH_MAX)
        return PL_OK;
    PL_CHECK(chunk_read(txn_source(r->txn), id, &chunk));
    if (!chunk.exists)
        return PL_OK;
    *out = 0;
    for (int i = 0; i < 2 && chunk.coding == CHUNK_DELTA; i++) {
        int below;
        PL_CHECK(delta_depth_of(r, &chunk.bases[i], not_on, level + 1, &below));
        *out = below + 1 > *out ? below + 1 : *out;
    }
    return PL_OK;
}

typedef struct chunk_work {
    pl_hash id;
    chunk_record record;
    pl_hash bases[2]; /* zero hashes if the chunk is coded without bases */
    chunk_view data, a, b;
    pl_buf coded, again;
} chunk_work;

/* Raises the height (records.h) of a chunk on which a new delta depends, and then the
 * heights of this chunk's bases. */
static pl_status raise(pl_txn *txn, const pl_hash *id, uint64_t height)
{
    chunk_record chunk;
    PL_CHECK(chunk_read(txn_source(txn), id, &chunk));
    if (!chunk.exists || chunk.height >= height)
        return PL_OK;
    chunk.height = height;
    chunk_write(txn->batch, id, &chunk);
    for (int i = 0; i < 2 && chunk.coding == CHUNK_DELTA; i++)
        PL_CHECK(raise(txn, &chunk.bases[i], height + 1));
    return PL_OK;
}

/* Writes a new pack row for the chunk: a pack key is written only once. */
static pl_status replace_chunk(pl_txn *txn, const chunk_work *w)
{
    chunk_record next = w->record;
    next.coding = pl_hash_none(&w->bases[0]) ? CHUNK_PLANES : CHUNK_DELTA;
    memcpy(next.bases, w->bases, sizeof next.bases);
    PL_CHECK(chunk_place(txn, &w->id, &next, w->coded.data, w->coded.len));
    chunk_displace(txn, &w->id, &w->record);
    chunk_write(txn->batch, &w->id, &next);
    for (int i = 0; i < 2 && next.coding == CHUNK_DELTA; i++) {
        const pl_hash *id = &w->bases[i];
        uint64_t height = next.height + 1;
        chunk_record base;
        PL_CHECK(chunk_read(txn_source(txn), id, &base));
        if (!base.exists)
            return pl_fail(PL_ERR_DAMAGED,
                           "a chunk from which another one is computed is missing; "
                           "check the store with `pathloom store fsck`");
        base.refs++;
        chunk_write(txn->batch, id, &base);
        PL_CHECK(raise(txn, id, height));
    }
    return PL_OK;
}

/* Codes a chunk relative to its bases, or without bases if it may not stand on them:
 * other chunks may already depend on this chunk, so the complete chain, through the
 * bases and through those chunks, must not be longer than CHUNK_DEPTH_MAX, and no base
 * may depend on this chunk. */
static pl_status recode_chunk(recoding *r, const pl_hash *id, const pl_hash bases[2])
{
    bool may = !pl_hash_none(&bases[0]);
    chunk_work w = {.id = *id};
    const row_source from = txn_source(r->txn);
    pl_status status = PL_OK;
    PL_CHECK(chunk_read(from, id, &w.record));
    if (!w.record.exists || w.record.coding != CHUNK_RAW || w.record.bytes < BYTES_MIN)
        return PL_OK;
    r->budget -= w.record.bytes < r->budget ? w.record.bytes : r->budget;
    for (int i = 0; i < 2 && !pl_hash_none(&bases[0]); i++) {
        int depth;
        PL_CHECK(delta_depth_of(r, &bases[i], id, 0, &depth));
        may = may && (uint64_t)depth + 1 + w.record.height <= CHUNK_DEPTH_MAX;
    }
    PL_TRY(chunk_load(from, id, &w.record, &w.data));
    const size_t len = w.data.len;
    if (may) {
        memcpy(w.bases, bases, sizeof w.bases);
        PL_TRY(chunk_open(from, &bases[0], len, &w.a));
        PL_TRY(chunk_open(from, &bases[1], len, &w.b));
    }
    PL_TRY(delta_encode(w.data.data, w.a.data, w.b.data, len, &w.coded));
    PL_TRY(delta_decode(w.coded.data, w.coded.len, w.a.data, w.b.data, len, &w.again));
    if (memcmp(w.again.data, w.data.data, len) != 0)
        PL_TRY(pl_fail(PL_ERR_INTERNAL,
                       "a coded chunk does not decode to its original bytes"));
    if (w.coded.len <= len - len / SPARED_MIN)
        PL_TRY(txn_spoil(r->txn, replace_chunk(r->txn, &w)));
done:
    chunk_close(&w.data);
    chunk_close(&w.a);
    chunk_close(&w.b);
    pl_buf_destroy(&w.coded);
    pl_buf_destroy(&w.again);
    return status;
}

/* Reads the record of the blob with a version's parameters. If the blob no longer
 * exists, `out` has no chunks. */
static pl_status params_of(const recoding *r, const char *module, uint64_t number,
                           blob_record *out)
{
    pl_version v;
    bool found = false;
    *out = (blob_record){0};
    PL_CHECK(version_read(txn_source(r->txn), module, number, &v, &found));
    bool there = found && !v.params_gone;
    pl_hash params = v.params;
    pl_version_clear(&v);
    return there ? blob_read(txn_source(r->txn), &params, out) : PL_OK;
}

/* Codes the chunks of a version. *whole is false if the budget was used up before. */
static pl_status recode_version(recoding *r, const char *module, uint64_t number,
                                bool *whole)
{
    blob_record self = {0}, neighbours[2] = {{0}, {0}};
    uint64_t reach = reach_of(number);
    pl_status status = PL_OK;
    PL_TRY(params_of(r, module, number, &self));
    if (reach > 0) {
        PL_TRY(params_of(r, module, number - reach, &neighbours[0]));
        PL_TRY(params_of(r, module, number + reach, &neighbours[1]));
    }
    *whole = true;
    for (size_t i = 0; i < self.chunks.len / PL_HASH_BYTES; i++) {
        pl_hash id = blob_chunk(&self, i), bases[2] = {{{0}}, {{0}}};
        *whole = r->budget > 0;
        if (!*whole)
            break;
        for (int k = 0; k < 2; k++)
            if (neighbours[k].bytes == self.bytes && self.bytes > 0)
                bases[k] = blob_chunk(&neighbours[k], i);
        for (int k = 0; k < 2; k++)
            if (pl_hash_none(&bases[k]))
                bases[k] = bases[1 - k];
        PL_TRY(recode_chunk(r, &id, bases));
    }
    /* A pack is tidied once per version, not once per call: that reads all of it. */
    r->txn->tidies = r->txn->tidies || *whole;
done:
    pl_buf_destroy(&self.chunks);
    pl_buf_destroy(&neighbours[0].chunks);
    pl_buf_destroy(&neighbours[1].chunks);
    return status;
}

pl_status pl_store_recode(pl_store *store, uint64_t budget_bytes, bool *more)
{
    /* When a version becomes the newest one, up to three older versions become due for
     * coding. They are older by these distances. */
    static const uint64_t distances[] = {RECENT, 4, 8};
    recoding r = {.budget = budget_bytes};
    kv_cursor *heads = NULL;
    pl_status status = PL_OK;
    *more = false;
    if (store->recoded_at == store->sequence)
        return PL_OK;
    PL_TRY(pl_txn_begin(store, &r.txn));
    /* Codes versions of all modules until the budget is used up: for each version that
     * became the newest one since the last call, the versions that became due with it.
     * The cursor reads the database without the batch, which grows during the loop. */
    heads = kv_cursor_open(store->db, NULL, KV_HEAD, (kv_slice){"", 0});
    while (r.budget > 0 && kv_cursor_next(heads)) {
        row_view row;
        head_record head;
        char module[PL_MODULE_NAME_MAX] = {0};
        bool whole = true;
        PL_TRY(row_open(KV_HEAD, heads->key, heads->value, &row));
        PL_TRY(head_decode(&row, &head));
        if (head.recoded > head.number || heads->key.len >= sizeof module)
            continue;
        *more = true;
        memcpy(module, heads->key.data, heads->key.len);
        for (; head.recoded <= head.number && whole; head.recoded += whole)
            for (int k = 0; k < 3 && whole; k++) {
                if (head.recoded < distances[k])
                    continue;
                const uint64_t number = head.recoded - distances[k];
                const uint64_t reach = reach_of(number);
                if (k == 0 ? reach <= RECENT : reach == distances[k])
                    PL_TRY(recode_version(&r, module, number, &whole));
            }
        head_write(r.txn->batch, module, &head);
    }
    PL_TRY(heads->status);
    kv_cursor_close(&heads);
    if (*more)
        PL_TRY(pl_txn_commit(&r.txn));
    else
        store->recoded_at = store->sequence;
done:
    kv_cursor_close(&heads);
    pl_txn_abort(&r.txn);
    return status;
}
