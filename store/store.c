/* The reading functions of the store: they get one record by its name, or visit all
 * records in key order. They read one store or several (stores.h). */
#include "store/stores.h"
#include <string.h>

const char *pl_store_mended(const pl_store *store)
{
    return store->mended[0] ? store->mended : NULL;
}

uint64_t pl_store_epoch(const pl_store *store)
{
    return store->epoch;
}

uint64_t pl_store_sequence(const pl_store *store)
{
    return store->sequence;
}

/* ---- getting one record by its name ---- */
enum { VERSION_TRIES = 20 };

/* Finds the row of a thing by its name; the error names the thing. */
static pl_status find_named(const pl_store *store, kv_family family, const char *kind,
                            const char *name, row_view *row, pl_store **holder)
{
    const row_key key = key_of_name(name);
    PL_CHECK(stores_find(store, family, &key, row, holder));
    return row->found ? PL_OK
                      : pl_fail(PL_ERR_NOT_FOUND, "there is no %s %s in the store",
                                kind, name);
}

pl_status pl_store_get_version(pl_store *store, const char *module, uint64_t number,
                               pl_version *out)
{
    row_view row;
    pl_store *holder;
    head_record head;
    bool found = false;
    const row_key key = key_of_version(module, number);
    memset(out, 0, sizeof *out);
    PL_CHECK(stores_find(store, KV_VERSION, &key, &row, &holder));
    if (row.found)
        return version_decode(&row, out);
    PL_CHECK(find_named(store, KV_HEAD, "module", module, &row, &holder));
    PL_CHECK(head_decode(&row, &head));
    /* A follower may see a head before the version that was committed with it. In this
     * case the follower catches up and reads again. */
    for (int i = 0; number <= head.number && !found && holder->mode == PL_STORE_READ &&
                    i < VERSION_TRIES;
         i++) {
        pl_sleep_ms(i);
        PL_CHECK(kv_refresh(holder->db));
        PL_CHECK(version_read(store_source(holder), module, number, out, &found));
    }
    if (found)
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND, "module %s has versions 0 to %llu, not %llu",
                   module, (unsigned long long)head.number, (unsigned long long)number);
}

pl_status pl_store_head(pl_store *store, const char *module, pl_version *out)
{
    row_view row;
    pl_store *holder;
    head_record head;
    memset(out, 0, sizeof *out);
    PL_CHECK(find_named(store, KV_HEAD, "module", module, &row, &holder));
    PL_CHECK(head_decode(&row, &head));
    return pl_store_get_version(holder, module, head.number, out);
}

pl_status pl_store_get_path(pl_store *store, const char *name, pl_path_state *out)
{
    row_view row;
    memset(out, 0, sizeof *out);
    PL_CHECK(find_named(store, KV_PATH, "path", name, &row, NULL));
    return path_decode(&row, out);
}

pl_status pl_store_get_object(pl_store *store, const char *name, pl_object *out)
{
    row_view row;
    memset(out, 0, sizeof *out);
    PL_CHECK(find_named(store, KV_OBJECT, "object", name, &row, NULL));
    return object_decode(&row, out);
}

pl_status pl_store_read_object(pl_store *store, const char *name, pl_buf *out)
{
    pl_object object;
    PL_CHECK(pl_store_get_object(store, name, &object));
    pl_buf_reserve(out, (size_t)object.bytes);
    PL_CHECK(pl_store_read_blob(store, &object.blob, 0, (size_t)object.bytes,
                                out->data + out->len));
    out->len += (size_t)object.bytes;
    return PL_OK;
}

pl_status pl_store_get_ref(pl_store *store, const char *name, pl_buf *target)
{
    row_view row;
    pl_buf_clear(target);
    PL_CHECK(find_named(store, KV_REF, "ref", name, &row, NULL));
    return ref_decode(&row, NULL, target);
}

/* ---- visiting records in key order ---- */
typedef struct row_walk {
    void *context;
    union {
        pl_version_fn version; /* of heads, too */
        pl_path_fn path;
        pl_object_fn object;
        pl_pending_fn pending;
        pl_ref_fn ref;
    } fn;
} row_walk;

/* Decodes a row and visits its record. Rows of heads and of pending contributions have
 * the module's name only in their keys, where a zero byte ends it if more follows. The
 * row of a head contains only numbers, so the version is read from its own row. If a
 * follower does not see that row yet, pl_store_get_version catches up with the writer.
 */
static pl_status visit_row(void *context, pl_store *holder, row_view *row)
{
    const row_walk *walk = context;
    char name[PL_MODULE_NAME_MAX] = {0};
    const uint8_t *end = memchr(row->key.bytes, 0, row->key.len);
    const size_t len = end ? (size_t)(end - row->key.bytes) : 0;
    head_record head;
    pl_version version;
    pl_path_state path;
    pl_object object;
    pl_contribution c;
    pl_buf target = {0};
    pl_status status = PL_OK;
    switch ((int)row->family) {
    case KV_HEAD:
        if (row->key.len >= sizeof name)
            return row_damaged(row, "its key is too long");
        memcpy(name, row->key.bytes, row->key.len);
        PL_CHECK(head_decode(row, &head));
        PL_CHECK(pl_store_get_version(holder, name, head.number, &version));
        status = walk->fn.version(walk->context, &version);
        pl_version_clear(&version);
        return status;
    case KV_VERSION:
        PL_CHECK(version_decode(row, &version));
        status = walk->fn.version(walk->context, &version);
        pl_version_clear(&version);
        return status;
    case KV_PATH:
        PL_CHECK(path_decode(row, &path));
        return walk->fn.path(walk->context, &path);
    case KV_OBJECT:
        PL_CHECK(object_decode(row, &object));
        return walk->fn.object(walk->context, &object);
    case KV_PENDING:
        if (len == 0 || len >= sizeof name)
            return row_damaged(row, "its key names no module");
        memcpy(name, row->key.bytes, len);
        PL_CHECK(contribution_decode(row, &c));
        return walk->fn.pending(walk->context, name, &c);
    default:
        status = ref_decode(row, name, &target);
        if (status == PL_OK)
            status = walk->fn.ref(walk->context, name, pl_buf_text(&target));
        pl_buf_destroy(&target);
        return status;
    }
}

static pl_status each_row(pl_store *s, kv_family family, const char *prefix,
                          row_walk walk)
{
    const row_key start =
        family == KV_VERSION ? key_of_versions(prefix) : key_of_name(prefix);
    return stores_each(s, family, &start, visit_row, &walk);
}

pl_status pl_store_each_version(pl_store *s, const char *module, pl_version_fn fn,
                                void *ctx)
{
    return each_row(s, KV_VERSION, module, (row_walk){ctx, {.version = fn}});
}

pl_status pl_store_each_head(pl_store *s, const char *prefix, pl_version_fn fn,
                             void *ctx)
{
    return each_row(s, KV_HEAD, prefix, (row_walk){ctx, {.version = fn}});
}

pl_status pl_store_each_path(pl_store *s, const char *prefix, pl_path_fn fn, void *ctx)
{
    return each_row(s, KV_PATH, prefix, (row_walk){ctx, {.path = fn}});
}

pl_status pl_store_each_object(pl_store *s, const char *prefix, pl_object_fn fn,
                               void *ctx)
{
    return each_row(s, KV_OBJECT, prefix, (row_walk){ctx, {.object = fn}});
}

pl_status pl_store_each_pending(pl_store *s, const char *prefix, pl_pending_fn fn,
                                void *ctx)
{
    return each_row(s, KV_PENDING, prefix, (row_walk){ctx, {.pending = fn}});
}

pl_status pl_store_each_ref(pl_store *s, const char *prefix, pl_ref_fn fn, void *ctx)
{
    return each_row(s, KV_REF, prefix, (row_walk){ctx, {.ref = fn}});
}

/* ---- counting ---- */
static pl_status count_row(void *context, pl_store *holder, row_view *row)
{
    pl_store_stats *stats = context;
    blob_record blob;
    chunk_record chunk;
    (void)holder;
    switch ((int)row->family) {
    case KV_BLOB:
        PL_CHECK(blob_decode(row, &blob));
        stats->n_blobs++;
        stats->blob_bytes += blob.bytes;
        pl_buf_destroy(&blob.chunks);
        return PL_OK;
    case KV_CHUNK:
        PL_CHECK(chunk_decode(row, &chunk));
        stats->n_chunks++;
        stats->chunk_bytes += chunk.bytes;
        stats->stored_bytes += chunk.stored;
        return PL_OK;
    default:
        *(row->family == KV_HEAD ? &stats->n_modules : &stats->n_versions) += 1;
        return row_end(row);
    }
}

/* Each store is counted by itself, because several may have the same blob. */
pl_status pl_store_count(pl_store *store, pl_store_stats *out)
{
    static const kv_family counted[] = {KV_HEAD, KV_VERSION, KV_BLOB, KV_CHUNK};
    const row_key all = key_of_name("");
    *out = (pl_store_stats){0};
    for (int i = 0; i < store->n_stores; i++) {
        char database[PL_PATH_MAX];
        pl_store *one = store->stores[i];
        for (size_t f = 0; f < sizeof counted / sizeof *counted; f++)
            PL_CHECK(stores_each(one, counted[f], &all, count_row, out));
        out->disk_bytes += pl_folder_bytes(one->folder) +
                           pl_folder_bytes(pl_join(database, one->folder, "db"));
    }
    return PL_OK;
}

pl_status pl_store_compact(pl_store *store)
{
    return kv_compact(store->db, KV_PACK);
}

/* ---- visiting names of modules, paths and objects ---- */
typedef struct name_walk {
    pl_name_fn fn;
    void *context;
} name_walk;

static pl_status visit_head_name(void *context, const pl_version *v)
{
    const name_walk *walk = context;
    return walk->fn(walk->context, v->module);
}

static pl_status visit_path_name(void *context, const pl_path_state *p)
{
    const name_walk *walk = context;
    return walk->fn(walk->context, p->name);
}

static pl_status visit_object_name(void *context, const pl_object *o)
{
    const name_walk *walk = context;
    return walk->fn(walk->context, o->name);
}

pl_status pl_store_each_name(pl_store *store, pl_name_fn fn, void *context)
{
    name_walk walk = {fn, context};
    PL_CHECK(pl_store_each_head(store, "", visit_head_name, &walk));
    PL_CHECK(pl_store_each_path(store, "", visit_path_name, &walk));
    return pl_store_each_object(store, "", visit_object_name, &walk);
}
