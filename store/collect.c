/* Garbage collection: drops the data of old versions and keeps their records.
 *
 * The caller decides which versions keep their data. This file counts the bytes that
 * would be freed, and drops the data in commits of a bounded size. The store is
 * consistent after each commit. If the process is killed between two commits, the next
 * call drops the rest. */
#include "store/stores.h"
#include "store/tally.h"

enum { BATCH_VERSIONS = 32 };
/* In an engine a commit's rows are one object, of at most ENGINE_OBJECT_MAX bytes. */
static const uint64_t batch_bytes = 2 << 20;

typedef struct victim {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
} victim;

typedef struct collection {
    pl_store *store;
    pl_keep_fn keep;
    void *context;
    pl_gc_report *report;
    victim *victims;
    size_t n;
    /* number of the newest version of the module that is being visited */
    uint64_t head;
    tally released; /* blobs, once per reference that would be dropped */
    tally loose;    /* chunks, once per reference that would be dropped */
} collection;

static pl_status choose_victim(void *context, const pl_version *v)
{
    collection *c = context;
    if (v->params_gone)
        c->report->n_gone++;
    else if (v->number >= c->head || c->keep(c->context, v))
        c->report->n_kept++;
    else {
        c->victims = pl_grow(c->victims, (c->n + 1) * sizeof *c->victims);
        pl_copy_text(c->victims[c->n].module, PL_MODULE_NAME_MAX, v->module);
        c->victims[c->n++].number = v->number;
        tally_add_version(&c->released, v);
    }
    return PL_OK;
}

static pl_status choose_module_victims(void *context, const pl_version *head)
{
    collection *c = context;
    c->head = head->number;
    return pl_store_each_version(c->store, head->module, choose_victim, c);
}

static void add_all(tally *to, const tally *from)
{
    for (size_t i = 0; i < from->n; i++)
        tally_add(to, &from->names[i]);
}

/* Counts the chunks that would be dropped because all references to them would be
 * dropped, and the bases that would be dropped with them. A base is dropped only after
 * every chunk that depends on this base. So each turn of the loop goes one level of
 * bases further, until it finds no further bases. */
static pl_status count_with_bases(collection *c)
{
    tally bases = {0};
    pl_status status = PL_OK;
    size_t n_before;
    do {
        tally all = {0}, next = {0};
        pl_hash id;
        uint64_t released;
        add_all(&all, &c->loose);
        add_all(&all, &bases);
        tally_sort(&all);
        c->report->n_chunks = c->report->bytes = 0;
        for (size_t i = 0; status == PL_OK && tally_next(&all, &i, &id, &released);) {
            chunk_record chunk;
            status = chunk_read(store_source(c->store), &id, &chunk);
            if (status != PL_OK || !chunk.exists || chunk.refs > released)
                continue;
            c->report->n_chunks++;
            c->report->bytes += chunk.stored;
            tally_add(&next, &chunk.bases[0]);
            tally_add(&next, &chunk.bases[1]);
        }
        n_before = bases.n;
        tally_destroy(&all);
        tally_destroy(&bases);
        bases = next;
    } while (status == PL_OK && bases.n > n_before);
    tally_destroy(&bases);
    return status;
}

pl_status pl_txn_collect(pl_txn *txn, pl_keep_fn keep, void *context, uint64_t *n)
{
    pl_gc_report report = {0};
    collection c = {
        .store = txn->store, .keep = keep, .context = context, .report = &report};
    bool passes = true;
    pl_status status = PL_OK;
    *n = 0;
    PL_TRY(blob_sweep(txn));
    const int64_t grown = txn->grown;
    PL_TRY(pl_store_each_head(c.store, "", choose_module_victims, &c));
    for (uint64_t most = batch_bytes; passes && most <= 3 * batch_bytes;
         most += batch_bytes) {
        for (; *n < c.n && kv_batch_bytes(txn->batch) < most; ++*n)
            PL_TRY(pl_txn_drop_data(txn, c.victims[*n].module, c.victims[*n].number));
        PL_TRY(pl_txn_passes_quota(txn, &passes));
    }
    PL_TRY(blob_sweep(txn));
    txn->thinned += grown - txn->grown;
done:
    pl_free(c.victims);
    tally_destroy(&c.released);
    return status;
}

pl_status pl_store_collect(pl_store *store, pl_keep_fn keep, void *context, bool run,
                           pl_gc_report *out)
{
    if (store->n_stores > 1)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "collecting works on the store of one home, but %s has the "
                       "stores of %d homes; give --store %s/home-N",
                       store->folder, store->n_stores, store->folder);
    collection c = {.store = store, .keep = keep, .context = context, .report = out};
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    *out = (pl_gc_report){0};
    PL_TRY(pl_store_each_head(store, "", choose_module_victims, &c));
    out->n_versions = c.n;
    /* counts the bytes that would be freed */
    pl_hash id;
    uint64_t released;
    tally_sort(&c.released);
    for (size_t i = 0; tally_next(&c.released, &i, &id, &released);) {
        blob_record blob;
        PL_TRY(blob_read(store_source(store), &id, &blob));
        const bool is_freed = blob.exists && blob.refs <= released;
        const size_t n = is_freed ? blob.chunks.len / PL_HASH_BYTES : 0;
        out->n_blobs += is_freed;
        for (size_t k = 0; k < n; k++) {
            pl_hash chunk = blob_chunk(&blob, k);
            tally_add(&c.loose, &chunk);
        }
        pl_buf_destroy(&blob.chunks);
    }
    PL_TRY(count_with_bases(&c));
    for (size_t i = 0; run && i < c.n;) {
        PL_TRY(pl_txn_begin(store, &txn));
        const size_t end = i + BATCH_VERSIONS;
        for (; i < c.n && i < end && kv_batch_bytes(txn->batch) < batch_bytes; i++)
            PL_TRY(pl_txn_drop_data(txn, c.victims[i].module, c.victims[i].number));
        PL_TRY(pl_txn_commit(&txn));
    }
    if (run) /* also the rows that an earlier call has dropped, before it ended */
        PL_TRY(pl_store_compact(store));
    PL_TRY(remote_sweep(store, run, out));
done:
    pl_txn_abort(&txn);
    pl_free(c.victims);
    tally_destroy(&c.released);
    tally_destroy(&c.loose);
    return status;
}
