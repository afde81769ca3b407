/* Opens a store's engine; writes and reads its objects but the head (remote_head.c). */
#include "store/engine/remote.h"
#include "store/store_format.h"
#include "store/store_internal.h"
#include <inttypes.h>
#include <string.h>

/* ---- the file ENGINE ---- */
/* Reads the address of the engine from the file ENGINE in `folder`; `out` is "" if the
 * chunks are in the database. */
static pl_status remote_url(const char *folder, char out[ENGINE_URL_MAX])
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    bool in_engine = false;
    out[0] = '\0';
    PL_CHECK(store_format_check(folder, &in_engine));
    if (!in_engine)
        return PL_OK;
    pl_status status = pl_read_file(pl_join(path, folder, "ENGINE"), &text);
    if (status == PL_OK) {
        const char *line = pl_buf_text(&text);
        size_t len = strcspn(line, "\n");
        if (len == 0 || len >= ENGINE_URL_MAX)
            status = pl_fail(PL_ERR_DAMAGED,
                             "the file %s does not name a storage engine; restore it "
                             "from a backup of the store",
                             path);
        else
            snprintf(out, ENGINE_URL_MAX, "%.*s", (int)len, line);
    }
    pl_buf_destroy(&text);
    return status;
}

pl_status remote_write_place(const char *folder, const char *url)
{
    char path[PL_PATH_MAX], line[ENGINE_URL_MAX + 2];
    int len = snprintf(line, sizeof line, "%s\n", url);
    return pl_replace_file(pl_join(path, folder, "ENGINE"), line, (size_t)len);
}

/* The namespace of a part is named after its folder. ENGINE is written before FORMAT,
 * because a FORMAT that says that there is an engine needs the file ENGINE. */
pl_status pl_store_make_on(const char *folder, const char *wanted)
{
    char path[PL_PATH_MAX], place[ENGINE_URL_MAX] = "", there[ENGINE_URL_MAX];
    engine_url url;
    int n = 0;
    PL_CHECK(pl_make_folders(folder)); /* also makes the folders above `folder` */
    if (strcmp(wanted, "rocksdb") != 0) {
        const char *name = strrchr(folder, '/');
        PL_CHECK(engine_url_parse(wanted, &url));
        PL_CHECK(pl_store_parts(pl_path_above(path, folder), &n));
        if (n > 0 && name)
            PL_CHECK(engine_url_part(wanted, name + 1, place));
        else
            pl_copy_text(place, sizeof place, wanted);
    }
    if (!pl_path_exists(pl_join(path, folder, "FORMAT"))) {
        if (!*place)
            return PL_OK;
        PL_CHECK(remote_write_place(folder, place));
        return store_format_write(folder, true);
    }
    PL_CHECK(remote_url(folder, there));
    if (strcmp(there, place) == 0)
        return PL_OK;
    return pl_fail(
        PL_ERR_EXISTS,
        "the chunks of the store %s are in %s, not in %s: the place cannot be changed "
        "after a store was made (its file ENGINE has the address)",
        folder, *there ? there : "rocksdb", *place ? place : "rocksdb");
}

pl_status pl_store_check_engine(const char *place, int64_t *patience_ms)
{
    engine_url url = {.patience_ms = 0};
    if (strcmp(place, "rocksdb") != 0)
        PL_CHECK(engine_url_parse(place, &url));
    if (patience_ms)
        *patience_ms = url.patience_ms;
    return PL_OK;
}

pl_status remote_open(const char *folder, bool to_write, remote_end **out)
{
    char url[ENGINE_URL_MAX];
    *out = NULL;
    PL_CHECK(remote_url(folder, url));
    if (!*url)
        return PL_OK;
    remote_end *r = pl_alloc(sizeof *r);
    pl_status status = engine_open(url, to_write, &r->service);
    if (status == PL_OK)
        *out = r;
    else
        pl_free(r);
    return status;
}

/* at the end; `store gc` finds the others */
enum { UPLOADS_AT_END = 4096 };

/* Drops up to `most` objects that were doomed before `since_ms`. */
static void drop_since(remote_end *r, remote_doomed *d, int64_t since_ms, size_t most)
{
    size_t n = 0;
    while (n < d->n && n < most && d->since_ms[n] <= since_ms)
        n++;
    if (n == 0)
        return;
    (void)engine_drop_all(r->service, d->names, n);
    d->n -= n;
    memmove(d->names, d->names + n, d->n * sizeof *d->names);
    memmove(d->since_ms, d->since_ms + n, d->n * sizeof *d->since_ms);
}

void remote_close(remote_end **handle, bool abandon)
{
    remote_end *r = *handle;
    *handle = NULL;
    if (!r)
        return;
    if (!abandon) {
        drop_since(r, &r->doomed, INT64_MAX, SIZE_MAX);
        drop_since(r, &r->uploads, INT64_MAX, UPLOADS_AT_END);
    }
    engine_close(&r->service);
    pl_buf_destroy(&r->bytes);
    pl_free_all(r->doomed.names, r->doomed.since_ms, r->uploads.names,
                r->uploads.since_ms, r);
}

/* ---- names ---- */
void remote_chunk_name(const pl_hash *id, const chunk_record *chunk,
                       char out[ENGINE_NAME_MAX])
{
    char text[PL_HASH_TEXT];
    pl_hash_format(id, text);
    snprintf(out, ENGINE_NAME_MAX, "chunk/%s.%" PRIx64 ".%" PRIx64 ".%" PRIx32, text,
             chunk->epoch, chunk->pack, chunk->number);
}

void remote_log_name(uint64_t sequence, const pl_hash *log, char out[ENGINE_NAME_MAX])
{
    char text[PL_HASH_TEXT];
    pl_hash_format(log, text);
    snprintf(out, ENGINE_NAME_MAX, "log/%016" PRIx64 ".%s", sequence, text);
}

void remote_base_name(const remote_head *head, uint64_t part, char out[ENGINE_NAME_MAX])
{
    snprintf(out, ENGINE_NAME_MAX, "base/%" PRIx64 ".%" PRIx64 ".%" PRIx64,
             head->base_epoch, head->base_sequence, part);
}

/* ---- chunks ---- */
static void free_object_data(remote_work *work, engine_object *put)
{
    work->staged_bytes -= put->data ? put->len : 0;
    pl_free((void *)(uintptr_t)put->data);
    put->data = NULL;
}

size_t remote_work_left(const remote_work *work, engine_object **out)
{
    size_t n = 0;
    *out = pl_alloc((work->puts.n + 1) * sizeof **out);
    for (size_t i = work->n_written; i < work->puts.n; i++)
        if (work->puts.at[i].data)
            (*out)[n++] = work->puts.at[i];
    return n;
}

/* Adds a chunk to the objects that the transaction will write. If these objects have
 * many bytes, they are written now, so that a transaction with large blobs needs little
 * memory. */
static pl_status put_object(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                            const void *data, size_t len)
{
    enum { STAGED_BYTES = 64 << 20 };
    remote_work *work = &txn->work;
    chunk->epoch = txn->store->epoch;
    engine_object *put = engine_objects_add(&work->puts), *left;
    void *copy = pl_alloc(len + 1);
    memcpy(copy, data, len);
    put->data = copy;
    put->len = len;
    work->staged_bytes += len;
    remote_chunk_name(id, chunk, put->name);
    if (work->staged_bytes < STAGED_BYTES)
        return PL_OK;
    const size_t n = remote_work_left(work, &left);
    pl_status status = engine_put_all(txn->store->engine->service, left, n);
    pl_free(left);
    for (size_t i = work->n_written; status == PL_OK && i < work->puts.n; i++)
        free_object_data(work, &work->puts.at[i]);
    work->n_written = status == PL_OK ? work->puts.n : work->n_written;
    return status;
}

/* Takes a chunk out again if this transaction has staged it but not yet written it;
 * otherwise adds the chunk to the objects that will be dropped after the commit. */
static void drop_object(pl_txn *txn, const pl_hash *id, const chunk_record *chunk)
{
    remote_work *work = &txn->work;
    if (chunk->pack == txn->sequence && chunk->number >= work->n_written &&
        chunk->number < work->puts.n)
        free_object_data(work, &work->puts.at[chunk->number]);
    else
        remote_chunk_name(id, chunk, engine_objects_add(&work->drops)->name);
}

void remote_work_clear(remote_work *work)
{
    for (size_t i = 0; i < work->puts.n; i++)
        free_object_data(work, &work->puts.at[i]);
    pl_free_all(work->puts.at, work->drops.at);
    *work = (remote_work){0};
}

void remote_doom(remote_doomed *d, const engine_objects *objects)
{
    const size_t all = d->n + objects->n;
    d->names = pl_grow_items(d->names, d->n, all, sizeof *d->names);
    d->since_ms = pl_grow_items(d->since_ms, d->n, all, sizeof *d->since_ms);
    for (size_t i = 0; i < objects->n; i++, d->n++) {
        d->names[d->n] = objects->at[i];
        d->since_ms[d->n] = pl_now_ms();
    }
}

void remote_drop_doomed(remote_end *r)
{
    const int64_t now = pl_now_ms();
    /* few per commit, so that none takes long, and enough for the list not to grow */
    const size_t most = 256 + r->uploads.n / 8;
    drop_since(r, &r->doomed, now - REMOTE_LINGER_MS, SIZE_MAX);
    drop_since(r, &r->uploads, now - ENGINE_SIGNED_S * 1000, most);
}

static pl_status get_object(const row_source *from, const pl_hash *id,
                            const chunk_record *chunk, chunk_view *out)
{
    char name[ENGINE_NAME_MAX];
    const remote_work *work = from->work;
    engine *service = from->store->engine->service;
    remote_chunk_name(id, chunk, name);
    /* an object that this transaction has staged but not yet written to the engine */
    const engine_object *staged =
        work && chunk->number < work->puts.n ? &work->puts.at[chunk->number] : NULL;
    pl_status status = PL_OK;
    if (staged && staged->data && strcmp(staged->name, name) == 0)
        pl_buf_append(&out->fetched, staged->data, staged->len);
    else
        status = engine_get(service, name, &out->fetched);
    out->data = out->fetched.data;
    out->len = out->fetched.len;
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(PL_ERR_DAMAGED, "its bytes are missing from %s",
                       engine_place(service));
    PL_CHECK(status);
    if (out->len != chunk->stored)
        return pl_fail(PL_ERR_DAMAGED, "%s has %zu bytes of this chunk instead of %llu",
                       engine_place(service), out->len,
                       (unsigned long long)chunk->stored);
    return PL_OK;
}

/* The chunks of a store with an engine are never written to table files. */
const chunk_places remote_places = {.get = get_object,
                                    .put = put_object,
                                    .drop = drop_object,
                                    .family = KV_CHUNK,
                                    .n_requests = ENGINE_THREADS,
                                    .bulk_bytes = UINT64_MAX >> 8};
