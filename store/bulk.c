/* Writes the chunks of a large blob to a table file instead of RocksDB's log, moves the
 * file into the database at the commit, and drops such files when their chunks are no
 * longer referenced (bulk.h). */
#include "store/bulk.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct bulk_file {
    char path[PL_PATH_MAX];
    kv_file *table; /* NULL after the file is durable */
    /* the bytes of the small blobs in the file; 0: the file has one large blob */
    uint64_t small_bytes;
    struct bulk_file *next;
};

/* The place at which a released chunk was stored. */
struct bulk_place {
    uint64_t pack;
    uint32_t number;
};

/* ---- when a store is opened ---- */
pl_status bulk_clean(pl_store *store)
{
    row_key first = key_of_pack(store->sequence + 1, 0);
    row_key last = key_of_pack(UINT64_MAX, UINT32_MAX);
    kv_cursor *walk = kv_cursor_open(store->db, NULL, KV_PACK, (kv_slice){"", 0});
    kv_cursor_seek(walk, key_slice(&first));
    const bool any = kv_cursor_next(walk);
    pl_status status = walk->status;
    kv_cursor_close(&walk);
    PL_CHECK(status);
    if (!any)
        return PL_OK;
    PL_CHECK(kv_drop_files(store->db, KV_PACK, key_slice(&first), key_slice(&last)));
    /* An interrupted copy left rows in table files that also have other rows, so these
     * files cannot be dropped. These rows are deleted one by one. */
    kv_batch *batch = kv_batch_create(store->db);
    walk = kv_cursor_open(store->db, NULL, KV_PACK, (kv_slice){"", 0});
    kv_cursor_seek(walk, key_slice(&first));
    while (kv_cursor_next(walk))
        kv_delete(batch, KV_PACK, walk->key);
    status = walk->status;
    if (status == PL_OK && kv_batch_count(batch) > 0)
        status = kv_commit(store->db, batch);
    kv_cursor_close(&walk);
    kv_batch_destroy(&batch);
    return status;
}

/* ---- while a transaction grows ---- */
pl_status bulk_finish(const pl_txn *txn)
{
    bulk_file *file = txn->files;
    return file && file->table ? kv_file_finish(&file->table, file->path) : PL_OK;
}

pl_status bulk_begin(pl_txn *txn, uint64_t new_bytes)
{
    enum { LARGE_BLOBS = 64 };
    char folder[PL_PATH_MAX], name[32];
    pl_store *store = txn->store;
    /* RocksDB refuses batches of 4 GiB and keeps a batch in memory several times, so a
     * batch that has so many bytes gets no further chunks. Small blobs then share
     * files, which get no further blob if they have as many bytes. */
    const uint64_t many_bytes = LARGE_BLOBS * store->bulk_bytes;
    const bool is_small = new_bytes < store->bulk_bytes;
    if (new_bytes == 0 || (is_small && kv_batch_bytes(txn->batch) < many_bytes))
        return PL_OK; /* the batch takes the chunks */
    PL_CHECK(
        store_check_space(store->folder, "the commit", new_bytes + STORE_SPARE_BYTES));
    const uint64_t open_bytes =
        txn->files && txn->files->table ? txn->files->small_bytes : 0;
    if (!is_small || open_bytes == 0 || open_bytes >= many_bytes) {
        PL_CHECK(bulk_finish(txn));
        pl_join(folder, store->folder, "INCOMING");
        if (store->n_bulk == 0)
            PL_CHECK(pl_make_folders(folder));
        bulk_file *file = pl_alloc(sizeof *file);
        snprintf(name, sizeof name, "%llu.sst", (unsigned long long)store->n_bulk++);
        pl_join(file->path, folder, name);
        pl_status status = kv_file_create(file->path, &file->table);
        if (status != PL_OK) {
            pl_free(file);
            return status;
        }
        file->next = txn->files;
        txn->files = file;
    }
    txn->files->small_bytes += is_small ? new_bytes : 0;
    txn->in_file = true;
    return PL_OK;
}

pl_status bulk_put(pl_txn *txn, const row_key *key, const void *data, size_t len)
{
    return kv_file_put(txn->files->table, txn->files->path, key_slice(key),
                       (kv_slice){data, len});
}

pl_status bulk_end(pl_txn *txn)
{
    if (!txn->in_file)
        return PL_OK;
    txn->in_file = false;
    return txn->files->small_bytes > 0 ? PL_OK : bulk_finish(txn);
}

/* ---- at the commit ---- */
size_t bulk_files(const pl_txn *txn)
{
    size_t n = 0;
    for (const bulk_file *f = txn->files; f; f = f->next)
        n++;
    return n;
}

pl_status bulk_take_in(pl_txn *txn)
{
    size_t n = bulk_files(txn);
    if (n == 0)
        return PL_OK;
    const char **paths = pl_alloc(n * sizeof *paths);
    n = 0;
    for (const bulk_file *f = txn->files; f; f = f->next)
        paths[n++] = f->path;
    pl_status status = kv_take_in(txn->store->db, KV_PACK, paths, n);
    pl_free(paths);
    return status;
}

void bulk_clear(pl_txn *txn)
{
    bulk_file *next;
    for (bulk_file *f = txn->files; f; f = next) {
        next = f->next;
        kv_file_drop(&f->table);
        unlink(f->path);
        pl_free(f);
    }
    txn->files = NULL;
    txn->in_file = false;
    pl_free(txn->gone);
    txn->gone = NULL;
}

/* ---- after the commit ---- */
void bulk_let_go(pl_txn *txn, const chunk_record *chunk)
{
    txn->gone =
        pl_grow_items(txn->gone, txn->n_gone, txn->n_gone + 1, sizeof *txn->gone);
    txn->gone[txn->n_gone++] = (bulk_place){chunk->pack, chunk->number};
}

static int by_pack_place(const void *a, const void *b)
{
    const bulk_place *x = a, *y = b;
    if (x->pack != y->pack)
        return x->pack < y->pack ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static size_t end_of_run(const pl_txn *txn, size_t i)
{
    size_t end = i + 1;
    while (end < txn->n_gone && txn->gone[end].pack == txn->gone[i].pack &&
           txn->gone[end].number == txn->gone[end - 1].number + 1)
        end++;
    return end;
}

static pl_status drop_from_to(kv *db, uint64_t pack, uint32_t from, uint32_t to)
{
    row_key first = key_of_pack(pack, from), last = key_of_pack(pack, to);
    return kv_drop_files(db, KV_PACK, key_slice(&first), key_slice(&last));
}

static bool next_of_pack(kv_cursor *walk, uint32_t *number)
{
    /* sizes of the two numbers in a key of the pack family (key_of_pack) */
    enum { PACK_BYTES = 8, NUMBER_BYTES = 4 };
    if (!kv_cursor_next(walk) || walk->key.len != PACK_BYTES + NUMBER_BYTES)
        return false;
    *number = (uint32_t)store_key_number((const uint8_t *)walk->key.data + PACK_BYTES,
                                         NUMBER_BYTES);
    return true;
}

/* Drops the files of a pack whose keys all lie between two chunks that still exist. The
 * function reads all keys of the pack. */
static pl_status drop_gaps(const pl_txn *txn, uint64_t pack)
{
    pl_status status = PL_OK;
    kv *db = txn->store->db;
    uint32_t from = 0, number = 0;
    pl_buf seen = {0}; /* the numbers of the chunks that exist, in rising order */
    kv_batch *batch = NULL;
    kv_cursor *again = NULL;
    row_key prefix = key_of_number(pack);
    kv_cursor *walk = kv_cursor_open(db, NULL, KV_PACK, key_slice(&prefix));
    while (next_of_pack(walk, &number)) {
        if (number > from)
            PL_TRY(drop_from_to(db, pack, from, number - 1));
        pl_buf_append(&seen, &number, sizeof number);
        from = number + 1;
    }
    PL_TRY(walk->status);
    PL_TRY(drop_from_to(db, pack, from, UINT32_MAX));
    /* Rows in one file may have been deleted by entries in another file. If that other
     * file was dropped, the rows reappear, and are deleted again. */
    batch = kv_batch_create(db);
    again = kv_cursor_open(db, NULL, KV_PACK, key_slice(&prefix));
    const size_t n = seen.len / sizeof number;
    const uint32_t *numbers = (const void *)seen.data;
    for (size_t i = 0; next_of_pack(again, &number);) {
        while (i < n && numbers[i] < number)
            i++;
        if (i == n || numbers[i] != number)
            kv_delete(batch, KV_PACK, again->key);
    }
    PL_TRY(again->status);
    if (kv_batch_count(batch) > 0)
        status = kv_commit(db, batch);
done:
    kv_cursor_close(&again);
    kv_batch_destroy(&batch);
    kv_cursor_close(&walk);
    pl_buf_destroy(&seen);
    return status;
}

/* Ranges of released chunks, and the thread that drops the files that have only such
 * chunks. A separate thread is used because the system may need a long time to free the
 * space of a large file. */
struct bulk_dropping {
    kv *db;
    pl_thread *thread;
    size_t n;
    struct drop_range {
        uint64_t pack;
        uint32_t from, to;
    } ranges[];
};

static void drop_ranges(void *context)
{
    bulk_dropping *d = context;
    for (size_t i = 0; i < d->n; i++)
        if (drop_from_to(d->db, d->ranges[i].pack, d->ranges[i].from,
                         d->ranges[i].to) != PL_OK)
            return;
}

void bulk_settle(pl_store *store)
{
    if (store->dropping)
        pl_thread_join(&store->dropping->thread);
    pl_free(store->dropping);
    store->dropping = NULL;
}

/* Drops each file whose keys all lie within a range of released chunks: such a file
 * contains no chunk that is still needed. If a file cannot be dropped now, its space is
 * freed when the family is compacted, because its rows are deleted anyway. */
void bulk_drop(pl_txn *txn)
{
    if (txn->n_gone == 0)
        return;
    qsort(txn->gone, txn->n_gone, sizeof *txn->gone, by_pack_place);
    if (!txn->tidies) {
        pl_store *store = txn->store;
        bulk_settle(store);
        bulk_dropping *d = pl_alloc(sizeof *d + txn->n_gone * sizeof *d->ranges);
        d->db = store->db;
        for (size_t i = 0, end; i < txn->n_gone; i = end) {
            end = end_of_run(txn, i);
            if (end - i >= store->bulk_bytes / PL_CHUNK_BYTES)
                d->ranges[d->n++] = (struct drop_range){
                    txn->gone[i].pack, txn->gone[i].number, txn->gone[end - 1].number};
        }
        store->dropping = d;
        if (d->n == 0 || pl_thread_start("drop", drop_ranges, d, &d->thread) != PL_OK)
            /* if the thread did not start, compaction frees the space later */
            bulk_settle(store);
        return;
    }
    bulk_settle(txn->store);
    for (size_t i = 0, end; i < txn->n_gone; i = end) {
        end = end_of_run(txn, i);
        if ((i == 0 || txn->gone[i - 1].pack != txn->gone[i].pack) &&
            drop_gaps(txn, txn->gone[i].pack) != PL_OK)
            return;
    }
}
