/* Rebuilds a store's folder from the objects in its engine: the base, and the commits
 * since the base.
 *
 * The chain of commits is read twice. The first time it is read from the head back to
 * the base, because each commit names only the commit before it; the second time it is
 * read forward, to write the commits. Every object is checked against a hash: the head
 * has the hash of the base, and a commit is checked against its name and against the
 * digest in its log row. FORMAT is written last, because a folder without FORMAT is not
 * a store. */
#include "store/rebase.h"
#include "store/store_format.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

typedef struct rebuild {
    const remote_end *from;
    kv *db;
    kv_batch *batch;
    /* log hashes of the commits after the base, up to the commit in the engine's head:
     * [head.sequence - head.base_sequence] */
    pl_hash *log;
    pl_buf bytes;
    pl_rebuild_report *report;
} rebuild;

enum { BATCH_BYTES = 16 << 20 };

static pl_status take_rows(rebuild *r)
{
    const kv_slice rows = {r->bytes.data, r->bytes.len};
    PL_CHECK(rebase_apply(rows, r->batch, &r->report->n_records));
    return kv_batch_bytes(r->batch) > BATCH_BYTES ? rebase_flush(r->db, &r->batch)
                                                  : PL_OK;
}

/* Reads an object of the engine into r->bytes. */
static pl_status fetch(rebuild *r, const char *name)
{
    const pl_status status = engine_get(r->from->service, name, &r->bytes);
    if (status == PL_OK)
        return PL_OK;
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(PL_ERR_DAMAGED,
                       "%s lacks the object %.60s, which its head needs",
                       engine_place(r->from->service), name);
    return pl_fail_in(status, "%.60s", name);
}

/* Reads a commit into r->bytes, and checks it. Its last operation is its log row. */
static pl_status fetch_commit(rebuild *r, uint64_t sequence, const pl_hash *log,
                              pl_hash *previous)
{
    char name[ENGINE_NAME_MAX];
    row_operation last = {0};
    row_view row;
    log_record entry;
    pl_hash got;
    size_t before = 0;
    pl_status status = PL_OK;
    remote_log_name(sequence, log, name);
    PL_CHECK(fetch(r, name));
    kv_slice rows = {r->bytes.data, r->bytes.len};
    while (rows.len > 0) {
        before = r->bytes.len - rows.len;
        PL_TRY(rebase_next(&rows, &last));
    }
    if (!last.puts || last.family != KV_LOG)
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "it does not end with its log row"));
    pl_hash_of("log", last.value.data, last.value.len, &got);
    if (!pl_hash_equal(&got, log) ||
        store_key_number(last.key.data, last.key.len) != sequence)
        PL_TRY(pl_fail(PL_ERR_DAMAGED,
                       "its number or its hash is not the one in its name"));
    PL_TRY(row_open(KV_LOG, last.key, last.value, &row));
    PL_TRY(log_decode(&row, &entry));
    pl_hash_of("commit", r->bytes.data, before, &got);
    if (!pl_hash_equal(&got, &entry.digest))
        PL_TRY(
            pl_fail(PL_ERR_DAMAGED, "its rows do not match the digest in its log row"));
    *previous = entry.previous;
done:
    return status == PL_OK ? PL_OK : pl_fail_in(status, "%.60s", name);
}

static pl_status take_all(rebuild *r, const char *folder)
{
    char path[PL_PATH_MAX], name[ENGINE_NAME_MAX];
    pl_hasher sum;
    pl_hash got;
    const remote_head *head = &r->from->head;
    const uint64_t n = head->sequence - head->base_sequence;
    pl_hash log = head->log;
    /* each commit has at least one byte, so this limits the memory */
    if (n > head->log_bytes)
        return pl_fail(PL_ERR_DAMAGED,
                       "the head is damaged: it counts %llu commits in %llu bytes",
                       (unsigned long long)n, (unsigned long long)head->log_bytes);
    r->log = pl_alloc((size_t)(n + 1) * sizeof *r->log);
    for (uint64_t i = n; i > 0; i--) {
        r->log[i - 1] = log;
        PL_CHECK(fetch_commit(r, head->base_sequence + i, &log, &log));
    }
    PL_CHECK(kv_open(pl_join(path, folder, "db"), KV_MAKE, NULL, &r->db));
    r->batch = kv_batch_create(r->db);
    pl_hasher_init(&sum, "base");
    for (uint64_t i = 0; i < head->base_parts; i++) {
        remote_base_name(head, i, name);
        PL_CHECK(fetch(r, name));
        pl_hasher_add(&sum, r->bytes.data, r->bytes.len);
        PL_CHECK(take_rows(r));
    }
    pl_hasher_end(&sum, &got);
    if (!pl_hash_equal(&got, &head->base))
        return pl_fail(PL_ERR_DAMAGED,
                       "the base in %s does not match the hash that the head names",
                       engine_place(r->from->service));
    for (uint64_t i = 0; i < n; i++) {
        PL_CHECK(fetch_commit(r, head->base_sequence + 1 + i, &r->log[i], &log));
        PL_CHECK(take_rows(r));
        r->report->n_commits++;
    }
    number_write(r->batch, "epoch", head->epoch);
    return rebase_flush(r->db, &r->batch);
}

static pl_status mark_done(const char *folder)
{
    char mark[PL_PATH_MAX];
    PL_CHECK(pl_remove_tree(pl_join(mark, folder, "RESTORING")));
    return pl_sync_folder(folder);
}

pl_status pl_store_rebuild(const char *place, const char *folder,
                           pl_rebuild_report *out)
{
    char path[PL_PATH_MAX], restoring[PL_PATH_MAX];
    remote_end from = {0};
    rebuild r = {.from = &from, .report = out};
    watermark_file file;
    bool found = false;
    int lock = -1;
    pl_status status = PL_OK;
    *out = (pl_rebuild_report){0};
    PL_TRY(engine_open(place, false, &from.service));
    PL_TRY(remote_read_head(&from, &found));
    if (!found)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "there is no store in %s",
                       engine_place(from.service)));
    PL_TRY(pl_make_folders(folder));
    PL_TRY(pl_lock_folder(folder, &lock));
    if (pl_path_exists(pl_join(path, folder, "FORMAT"))) {
        /* an earlier call made the store but was killed before it removed RESTORING */
        PL_TRY(mark_done(folder));
        PL_TRY(
            pl_fail(PL_ERR_EXISTS,
                    "%s is a store already; move it away, then run this command again",
                    folder));
    }
    /* While the file RESTORING exists, everything in the folder was written by a
     * rebuild and may be replaced. */
    if (pl_path_exists(pl_join(restoring, folder, "RESTORING"))) {
        PL_TRY(pl_remove_tree(pl_join(path, folder, "HWM")));
        PL_TRY(pl_remove_tree(pl_join(path, folder, "db")));
    } else {
        PL_TRY(store_format_refuse_others(folder));
        const int fd = open(restoring, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            PL_TRY(
                pl_fail(PL_ERR_IO, "cannot make %s: %s", restoring, strerror(errno)));
        close(fd);
        PL_TRY(pl_sync_folder(folder));
    }
    PL_TRY(take_all(&r, folder));
    kv_batch_destroy(&r.batch);
    kv_close(&r.db, false);
    const watermark mark = {from.head.sequence, from.head.epoch, from.head.log};
    PL_TRY(watermark_open(folder, &mark, &file));
    status = watermark_set(&file, &mark);
    watermark_close(&file);
    PL_TRY(status);
    PL_TRY(remote_write_place(folder, place));
    PL_TRY(store_format_finish(folder, true));
    PL_TRY(mark_done(folder));
    out->sequence = from.head.sequence;
done:
    kv_batch_destroy(&r.batch);
    kv_close(&r.db, false);
    pl_unlock_folder(&lock);
    pl_free(r.log);
    pl_buf_destroy(&r.bytes);
    pl_buf_destroy(&from.bytes);
    engine_close(&from.service);
    return status;
}
