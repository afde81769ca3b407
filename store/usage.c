/* Adds up the stored bytes of chunks per use (pl_store_use), and enforces the quota
 * (pl_store_set_quota). A chunk counts for its first use in the order of pl_use. The
 * functions read records and tags, but no other blobs. */
#include "store/stores.h"
#include "store/tally.h"

typedef struct usage {
    tally blobs[PL_USES], chunks[PL_USES];
    char (*modules)[PL_MODULE_NAME_MAX];
    size_t n_modules;
} usage;

static pl_status use_head(void *context, const pl_version *v)
{
    usage *u = context;
    tally_add(&u->blobs[PL_USE_HEADS], &v->params);
    u->modules = pl_grow(u->modules, (u->n_modules + 1) * sizeof *u->modules);
    pl_copy_text(u->modules[u->n_modules++], PL_MODULE_NAME_MAX, v->module);
    return PL_OK;
}

static pl_status use_tag(void *context, const pl_snapshot *tag)
{
    usage *u = context;
    for (size_t i = 0; i < tag->n_items; i++)
        tally_add(&u->blobs[PL_USE_TAGS], &tag->items[i].params);
    return PL_OK;
}

static pl_status use_path(void *context, const pl_path_state *p)
{
    usage *u = context;
    tally_add(&u->blobs[PL_USE_PATHS], &p->moments);
    return PL_OK;
}

static pl_status use_object(void *context, const pl_object *o)
{
    usage *u = context;
    tally_add(&u->blobs[PL_USE_OBJECTS], &o->blob);
    return PL_OK;
}

static pl_status use_pending(void *context, const char *module,
                             const pl_contribution *c)
{
    usage *u = context;
    (void)module;
    tally_add(&u->blobs[PL_USE_PENDING], &c->update);
    return PL_OK;
}

static pl_status use_version(void *context, const pl_version *v)
{
    usage *u = context;
    tally_add(&u->blobs[PL_USE_MOMENTUM], &v->momentum);
    tally_add(&u->blobs[PL_USE_CHANGES], &v->change);
    if (!v->params_gone)
        tally_add(&u->blobs[PL_USE_HISTORY], &v->params);
    for (int i = 0; i < v->n_contributions && v->has_updates; i++)
        tally_add(&u->blobs[PL_USE_UPDATES], &v->contributions[i].update);
    return PL_OK;
}

static bool used_before(const tally uses[PL_USES], int use, const pl_hash *name)
{
    for (int before = 0; before < use; before++)
        if (tally_count(&uses[before], name) > 0)
            return true;
    return false;
}

pl_status pl_store_use(pl_store *store, pl_store_usage *out)
{
    usage u = {0};
    pl_store_stats all;
    row_view row;
    pl_hash name;
    uint64_t times;
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    PL_TRY(pl_store_count(store, &all));
    PL_TRY(pl_store_each_head(store, "", use_head, &u));
    PL_TRY(pl_store_each_tag(store, use_tag, &u));
    PL_TRY(pl_store_each_path(store, "", use_path, &u));
    PL_TRY(pl_store_each_object(store, "", use_object, &u));
    PL_TRY(pl_store_each_pending(store, "", use_pending, &u));
    for (size_t i = 0; i < u.n_modules; i++)
        PL_TRY(pl_store_each_version(store, u.modules[i], use_version, &u));
    /* lists the chunks of each use, without blobs of tags that are garbage already */
    for (int use = 0; use < PL_USES; use++) {
        tally_sort(&u.blobs[use]);
        for (size_t i = 0; tally_next(&u.blobs[use], &i, &name, &times);) {
            blob_record blob;
            const row_key key = key_of_hash(&name);
            if (used_before(u.blobs, use, &name))
                continue;
            PL_TRY(stores_find(store, KV_BLOB, &key, &row, NULL));
            if (!row.found)
                continue;
            PL_TRY(blob_decode(&row, &blob));
            out->n[use]++;
            for (size_t c = 0; c < blob.chunks.len / PL_HASH_BYTES; c++) {
                const pl_hash chunk = blob_chunk(&blob, c);
                tally_add(&u.chunks[use], &chunk);
            }
            pl_buf_destroy(&blob.chunks);
        }
        tally_sort(&u.chunks[use]);
    }
    out->bytes[PL_USE_OTHER] = all.stored_bytes;
    for (int use = 0; use < PL_USE_OTHER; use++) {
        for (size_t i = 0; tally_next(&u.chunks[use], &i, &name, &times);) {
            chunk_record chunk = {0};
            const row_key key = key_of_hash(&name);
            if (used_before(u.chunks, use, &name))
                continue;
            PL_TRY(stores_find(store, KV_CHUNK, &key, &row, NULL));
            if (!row.found)
                continue;
            PL_TRY(chunk_decode(&row, &chunk));
            out->bytes[use] += chunk.stored;
        }
        out->bytes[PL_USE_OTHER] -= out->bytes[use];
    }
done:
    for (int use = 0; use < PL_USES; use++) {
        tally_destroy(&u.blobs[use]);
        tally_destroy(&u.chunks[use]);
    }
    pl_free(u.modules);
    return status;
}

/* ---- names of uses, and the quota ---- */
const char *pl_use_name(pl_use use)
{
    static const char *const names[PL_USES] = {
        "heads",    "tags",    "paths",   "objects", "pending",
        "momentum", "history", "changes", "updates", "other"};
    return names[use];
}

pl_status pl_store_set_quota(pl_store *store, uint64_t bytes)
{
    pl_store_stats stats = {0};
    if (bytes > 0)
        PL_CHECK(pl_store_count(store, &stats));
    store->quota = bytes;
    store->stored = stats.stored_bytes;
    return PL_OK;
}

uint64_t pl_store_stored_bytes(const pl_store *store)
{
    return store->stored;
}

static bool passes_quota(const pl_txn *txn)
{
    const pl_store *s = txn->store;
    return s->quota > 0 && txn->grown > 0 &&
           s->stored + (uint64_t)txn->grown > s->quota;
}

pl_status pl_txn_passes_quota(pl_txn *txn, bool *passes)
{
    *passes = false;
    if (!passes_quota(txn))
        return PL_OK;
    PL_CHECK(blob_sweep(txn));
    *passes = passes_quota(txn);
    return PL_OK;
}

/* The bytes per use in the error are those after the last commit. */
pl_status store_check_quota(const pl_txn *txn)
{
    char text[16], more[16], quota[16], spare[16];
    pl_store_usage used;
    pl_buf uses = {0};
    if (!passes_quota(txn))
        return PL_OK;
    pl_store *store = txn->store;
    pl_status status = pl_store_use(store, &used);
    for (int use = 0; status == PL_OK && use < PL_USES; use++)
        if (used.bytes[use] > 0)
            pl_buf_printf(&uses, "%s%s %s", uses.len > 0 ? ", " : " (",
                          pl_use_name((pl_use)use),
                          pl_human_bytes((double)used.bytes[use], text));
    if (status == PL_OK)
        status =
            pl_fail(PL_ERR_NOSPACE,
                    "the store %s has %s%s%s, of which %s can be deleted; even then a "
                    "commit that adds %s would exceed store.quota, %s; set a larger "
                    "store.quota, or delete tags, and start again",
                    store->folder, pl_human_bytes((double)store->stored, text),
                    pl_buf_text(&uses), uses.len > 0 ? ")" : "",
                    pl_human_bytes((double)txn->thinned, spare),
                    pl_human_bytes((double)txn->grown + (double)txn->thinned, more),
                    pl_human_bytes((double)store->quota, quota));
    pl_buf_destroy(&uses);
    return status;
}
