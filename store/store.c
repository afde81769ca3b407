/* The reading functions of the store: they get one record by its name, or visit all
 * records in key order. */
#include "store/parts.h"
#include <string.h>
#include <sys/stat.h>
#include <dirent.h>

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
static pl_status missing(const char *kind, const char *name)
{
    return pl_fail(PL_ERR_NOT_FOUND, "there is no %s %s in the store", kind, name);
}

enum { VERSION_TRIES = 20 };

pl_status pl_store_get_version(pl_store *store, const char *module, uint64_t number,
                               pl_version *out)
{
    if (store->n_parts > 0)
        return parts_get_version(store, module, number, out);
    head_record head;
    bool found = false;
    PL_CHECK(version_read(store_source(store), module, number, out, &found));
    if (found)
        return PL_OK;
    PL_CHECK(head_read(store_source(store), module, &head, &found));
    if (!found)
        return missing("module", module);
    found = false;
    if (number <= head.number) {
        /* A follower may see a head before the version that was committed with it. In
         * this case the follower catches up and reads again. */
        for (int i = 0; !found && store->mode == PL_STORE_READ && i < VERSION_TRIES;
             i++) {
            pl_sleep_ms(i);
            PL_CHECK(kv_refresh(store->db));
            PL_CHECK(version_read(store_source(store), module, number, out, &found));
        }
    }
    if (found)
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND, "module %s has versions 0 to %llu, not %llu",
                   module, (unsigned long long)head.number, (unsigned long long)number);
}

pl_status pl_store_head(pl_store *store, const char *module, pl_version *out)
{
    if (store->n_parts > 0)
        return parts_head(store, module, out);
    head_record head;
    bool found = false;
    memset(out, 0, sizeof *out);
    PL_CHECK(head_read(store_source(store), module, &head, &found));
    if (!found)
        return missing("module", module);
    return pl_store_get_version(store, module, head.number, out);
}

pl_status pl_store_get_path(pl_store *store, const char *name, pl_path_state *out)
{
    if (store->n_parts > 0)
        return parts_get_path(store, name, out);
    row_view row;
    row_key key = key_of_name(name);
    memset(out, 0, sizeof *out);
    PL_CHECK(row_read(store_source(store), KV_PATH, &key, &row));
    return row.found ? path_decode(&row, out) : missing("path", name);
}

pl_status pl_store_get_object(pl_store *store, const char *name, pl_object *out)
{
    if (store->n_parts > 0)
        return parts_get_object(store, name, out);
    row_view row;
    row_key key = key_of_name(name);
    memset(out, 0, sizeof *out);
    PL_CHECK(row_read(store_source(store), KV_OBJECT, &key, &row));
    return row.found ? object_decode(&row, out) : missing("object", name);
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
    if (store->n_parts > 0)
        return parts_get_ref(store, name, target);
    row_view row;
    row_key key = key_of_name(name);
    pl_buf_clear(target);
    PL_CHECK(row_read(store_source(store), KV_REF, &key, &row));
    return row.found ? ref_decode(&row, NULL, target) : missing("ref", name);
}

/* ---- visiting records in key order ---- */
typedef struct row_walk {
    pl_store *store;
    void *context;
    union {
        pl_version_fn version;
        pl_path_fn path;
        pl_object_fn object;
        pl_pending_fn pending;
        pl_ref_fn ref;
    } fn;
} row_walk;

/* The type of a function that decodes a row, calls row_end, and then calls the caller's
 * callback. */
typedef pl_status (*visit_fn)(const row_walk *walk, row_view *row);

static pl_status each_row(const row_walk *walk, kv_family family, const row_key *prefix,
                          visit_fn visit)
{
    bool valid = false;
    kv_slice key, value;
    row_view row;
    pl_status status = PL_OK;
    kv_cursor *cursor =
        kv_cursor_open(walk->store->db, NULL, family, key_slice(prefix));
    for (;;) {
        PL_TRY(kv_cursor_next(cursor, &valid, &key, &value));
        if (!valid)
            break;
        PL_TRY(row_open(family, key, value, &row));
        PL_TRY(visit(walk, &row));
    }
done:
    kv_cursor_close(&cursor);
    return status;
}

static pl_status visit_version_row(const row_walk *walk, row_view *row)
{
    pl_version version;
    PL_CHECK(version_decode(row, &version));
    pl_status status = walk->fn.version(walk->context, &version);
    pl_version_clear(&version);
    return status;
}

pl_status pl_store_each_version(pl_store *s, const char *module, pl_version_fn fn,
                                void *ctx)
{
    if (s->n_parts > 0)
        return parts_each_version(s, module, fn, ctx);
    row_walk walk = {s, ctx, {.version = fn}};
    row_key prefix = key_of_versions(module);
    return each_row(&walk, KV_VERSION, &prefix, visit_version_row);
}

/* Visits the newest version of a module. The head's row contains only numbers, so the
 * version is read from its own row. If a follower does not see that row yet,
 * pl_store_get_version catches up with the writer. */
static pl_status visit_head_row(const row_walk *walk, row_view *row)
{
    head_record head;
    pl_version version;
    char module[PL_MODULE_NAME_MAX] = {0};
    if (row->key.len >= sizeof module)
        return row_damaged(row, "its key is too long");
    memcpy(module, row->key.bytes, row->key.len);
    PL_CHECK(head_decode(row, &head));
    PL_CHECK(pl_store_get_version(walk->store, module, head.number, &version));
    pl_status status = walk->fn.version(walk->context, &version);
    pl_version_clear(&version);
    return status;
}

pl_status pl_store_each_head(pl_store *s, const char *prefix, pl_version_fn fn,
                             void *ctx)
{
    if (s->n_parts > 0)
        return parts_each_head(s, prefix, fn, ctx);
    row_walk walk = {s, ctx, {.version = fn}};
    row_key start = key_of_name(prefix);
    return each_row(&walk, KV_HEAD, &start, visit_head_row);
}

static pl_status visit_path(const row_walk *walk, row_view *row)
{
    pl_path_state path;
    PL_CHECK(path_decode(row, &path));
    return walk->fn.path(walk->context, &path);
}

pl_status pl_store_each_path(pl_store *s, const char *prefix, pl_path_fn fn, void *ctx)
{
    if (s->n_parts > 0)
        return parts_each_path(s, prefix, fn, ctx);
    row_walk walk = {s, ctx, {.path = fn}};
    row_key start = key_of_name(prefix);
    return each_row(&walk, KV_PATH, &start, visit_path);
}

static pl_status visit_object_row(const row_walk *walk, row_view *row)
{
    pl_object object;
    PL_CHECK(object_decode(row, &object));
    return walk->fn.object(walk->context, &object);
}

pl_status pl_store_each_object(pl_store *s, const char *prefix, pl_object_fn fn,
                               void *ctx)
{
    if (s->n_parts > 0)
        return parts_each_object(s, prefix, fn, ctx);
    row_walk walk = {s, ctx, {.object = fn}};
    row_key start = key_of_name(prefix);
    return each_row(&walk, KV_OBJECT, &start, visit_object_row);
}

/* Visits a pending contribution. Its key begins with the module's name, which ends at
 * the zero byte. */
static pl_status visit_pending(const row_walk *walk, row_view *row)
{
    pl_contribution c;
    char module[PL_MODULE_NAME_MAX] = {0};
    const uint8_t *end = memchr(row->key.bytes, 0, row->key.len);
    size_t len = end ? (size_t)(end - row->key.bytes) : 0;
    if (len == 0 || len >= sizeof module)
        return row_damaged(row, "its key names no module");
    memcpy(module, row->key.bytes, len);
    PL_CHECK(contribution_decode(row, &c));
    return walk->fn.pending(walk->context, module, &c);
}

pl_status pl_store_each_pending(pl_store *s, const char *prefix, pl_pending_fn fn,
                                void *ctx)
{
    if (s->n_parts > 0)
        return parts_each_pending(s, prefix, fn, ctx);
    row_walk walk = {s, ctx, {.pending = fn}};
    row_key start = key_of_name(prefix);
    return each_row(&walk, KV_PENDING, &start, visit_pending);
}

static pl_status visit_ref(const row_walk *walk, row_view *row)
{
    char name[PL_MODULE_NAME_MAX];
    pl_buf target = {0};
    pl_status status = ref_decode(row, name, &target);
    if (status == PL_OK)
        status = walk->fn.ref(walk->context, name, pl_buf_text(&target));
    pl_buf_destroy(&target);
    return status;
}

pl_status pl_store_each_ref(pl_store *s, const char *prefix, pl_ref_fn fn, void *ctx)
{
    if (s->n_parts > 0)
        return parts_each_ref(s, prefix, fn, ctx);
    row_walk walk = {s, ctx, {.ref = fn}};
    row_key start = key_of_name(prefix);
    return each_row(&walk, KV_REF, &start, visit_ref);
}

/* ---- counting ---- */
static pl_status count_head(const row_walk *walk, row_view *row)
{
    pl_store_stats *stats = walk->context;
    stats->n_modules++;
    return row_end(row);
}

static pl_status count_version(const row_walk *walk, row_view *row)
{
    pl_store_stats *stats = walk->context;
    stats->n_versions++;
    return row_end(row);
}

static pl_status count_blob_row(const row_walk *walk, row_view *row)
{
    pl_store_stats *stats = walk->context;
    blob_record blob;
    PL_CHECK(blob_decode(row, &blob));
    stats->n_blobs++;
    stats->blob_bytes += blob.bytes;
    pl_buf_destroy(&blob.chunks);
    return PL_OK;
}

static pl_status count_chunk(const row_walk *walk, row_view *row)
{
    pl_store_stats *stats = walk->context;
    chunk_record chunk;
    PL_CHECK(chunk_decode(row, &chunk));
    stats->n_chunks++;
    stats->chunk_bytes += chunk.bytes;
    stats->stored_bytes += chunk.stored;
    return PL_OK;
}

/* Counts the records and the bytes of blobs and chunks. The function reads the records
 * of heads, versions, blobs and chunks, but no bytes of blobs. A damaged row is an
 * error. */
pl_status pl_store_count(pl_store *store, pl_store_stats *out)
{
    if (store->n_parts > 0)
        return parts_count_all(store, out);
    char database[PL_PATH_MAX];
    *out = (pl_store_stats){0};
    row_walk walk = {store, out, {0}};
    row_key all = key_of_name("");
    PL_CHECK(each_row(&walk, KV_HEAD, &all, count_head));
    PL_CHECK(each_row(&walk, KV_VERSION, &all, count_version));
    PL_CHECK(each_row(&walk, KV_BLOB, &all, count_blob_row));
    PL_CHECK(each_row(&walk, KV_CHUNK, &all, count_chunk));
    out->disk_bytes = pl_folder_bytes(store->folder) +
                      pl_folder_bytes(pl_join(database, store->folder, "db"));
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
