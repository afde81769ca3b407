/* Making one store equal to another, row by row: backup and restore.
 *
 * Bytes of chunks go first, in many commits; nothing in the target names them yet, so a
 * process that is killed leaves the target as it was, but for bytes that the next call
 * finds there. Everything else goes in one last batch, with what has to go: the target
 * is the old state or the new one. Chunks lie under keys that are written once, so
 * where the target is an earlier state of the source a key that is there needs no look.
 *
 * A source whose chunks lie in an engine has no pack rows; the target gets those that
 * the source's chunk records would have. */
#include "store/store_format.h"
#include "store/parts.h"
#include "store/tally.h"
#include <string.h>
#include <unistd.h>

enum { BATCH_BYTES = 32 << 20 };

typedef struct mirror {
    pl_store *from;
    kv *to;
    kv_batch *batch;
    bool same_line; /* the target is an earlier state of the source */
    bool marked;    /* the target says that chunks are being brought */
    tally places;   /* of a source with an engine: what its chunk records name */
    uint64_t to_sequence, to_epoch;
    pl_mirror_report *report;
} mirror;

/* ---- walking two families side by side ---- */
typedef struct side {
    kv_cursor *cursor;
    kv_slice key, value;
    bool valid;
} side;

static pl_status step(side *s)
{
    return kv_cursor_next(s->cursor, &s->valid, &s->key, &s->value);
}

/* -1: only the source has the key, 1: only the target, 0: both. */
static int compare(const side *from, const side *to)
{
    if (!from->valid || !to->valid)
        return from->valid ? -1 : 1;
    size_t n = from->key.len < to->key.len ? from->key.len : to->key.len;
    int order = memcmp(from->key.data, to->key.data, n);
    if (order == 0 && from->key.len != to->key.len)
        order = from->key.len < to->key.len ? -1 : 1;
    return order;
}

static bool same_value(const side *from, const side *to)
{
    return from->value.len == to->value.len &&
           memcmp(from->value.data, to->value.data, from->value.len) == 0;
}

typedef pl_status (*row_fn)(mirror *m, kv_family family, const side *from,
                            const side *to, int order);

static pl_status each_pair(mirror *m, kv_family family, row_fn fn)
{
    pl_status status = PL_OK;
    kv_slice all = {"", 0};
    side from = {.cursor = kv_cursor_open(m->from->db, NULL, family, all)};
    side to = {.cursor = kv_cursor_open(m->to, NULL, family, all)};
    PL_TRY(step(&from));
    PL_TRY(step(&to));
    while (from.valid || to.valid) {
        int order = compare(&from, &to);
        PL_TRY(fn(m, family, &from, &to, order));
        if (order <= 0)
            PL_TRY(step(&from));
        if (order >= 0)
            PL_TRY(step(&to));
    }
done:
    kv_cursor_close(&from.cursor);
    kv_cursor_close(&to.cursor);
    return status;
}

/* ---- chunks, first ---- */
static pl_status flush_batch(mirror *m)
{
    pl_status status = kv_commit(m->to, m->batch);
    kv_batch_destroy(&m->batch);
    m->batch = kv_batch_create(m->to);
    return status;
}

/* Until the last batch drops it again, this row explains chunks that nothing names. */
static void mark_begin(mirror *m)
{
    pl_buf fields = {0};
    row_key key = key_of_name(STORE_MIRROR_ROW);
    if (m->marked)
        return;
    m->marked = true;
    pl_put_u64(&fields, 1, m->from->sequence);
    row_write(m->batch, KV_META, &key, &fields);
}

/* A cursor sees the state of its opening, so commits meanwhile do not disturb it. */
static pl_status bring_chunk(mirror *m, kv_family family, const side *from,
                             const side *to, int order)
{
    if (order > 0 || (order == 0 && (m->same_line || same_value(from, to))))
        return PL_OK;
    mark_begin(m);
    if (order == 0)
        kv_delete(m->batch, family, to->key);
    kv_put(m->batch, family, from->key, from->value);
    m->report->n_chunks++;
    m->report->bytes += from->value.len;
    return kv_batch_bytes(m->batch) > BATCH_BYTES ? flush_batch(m) : PL_OK;
}

/* ---- chunks of an engine ---- */
static pl_hash place_at(kv_slice key)
{
    pl_hash place = {{0}};
    memcpy(place.bytes, key.data, key.len < sizeof place ? key.len : sizeof place);
    return place;
}

static pl_status has_pack(const mirror *m, kv_slice key, bool *out)
{
    kv_pin pin;
    PL_RETURN_IF(kv_get(m->to, KV_PACK, key, &pin));
    *out = pin.data != NULL;
    kv_unpin(&pin);
    return PL_OK;
}

/* Its hash is checked when the copy is. */
static pl_status fetch_chunk(mirror *m, const pl_hash *id, const chunk_record *chunk,
                             kv_slice key, bool there)
{
    pl_buf bytes = {0};
    row_source from = store_source(m->from);
    pl_status status = remote_fetch(&from, id, chunk, &bytes);
    if (status == PL_OK) {
        mark_begin(m);
        if (there)
            kv_delete(m->batch, KV_PACK, key);
        kv_put(m->batch, KV_PACK, key, (kv_slice){bytes.data, bytes.len});
        m->report->n_chunks++;
        m->report->bytes += bytes.len;
    }
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status bring_remote(mirror *m, kv_family family, const side *from,
                              const side *to, int order)
{
    row_view row;
    chunk_record chunk;
    pl_hash id;
    bool there = false;
    (void)to;
    if (order > 0 || from->key.len != sizeof id.bytes)
        return PL_OK;
    memcpy(id.bytes, from->key.data, sizeof id.bytes);
    PL_RETURN_IF(row_open(family, from->key, from->value, &row));
    PL_RETURN_IF(chunk_decode(&row, &chunk));
    row_key key = key_of_pack(chunk.pack, chunk.number);
    pl_hash place = place_at(key_slice(&key));
    tally_add(&m->places, &place);
    PL_RETURN_IF(has_pack(m, key_slice(&key), &there));
    if (there && m->same_line)
        return PL_OK;
    PL_RETURN_IF(fetch_chunk(m, &id, &chunk, key_slice(&key), there));
    return kv_batch_bytes(m->batch) > BATCH_BYTES ? flush_batch(m) : PL_OK;
}

static pl_status bring_chunks(mirror *m)
{
    if (!m->from->remote)
        return each_pair(m, KV_PACK, bring_chunk);
    PL_RETURN_IF(each_pair(m, KV_CHUNK, bring_remote));
    tally_sort(&m->places);
    return PL_OK;
}

/* ---- everything else, at once ---- */
static pl_status drop_chunk(mirror *m, kv_family family, const side *from,
                            const side *to, int order)
{
    (void)from;
    if (order <= 0)
        return PL_OK;
    pl_hash place = place_at(to->key);
    if (!m->from->remote || tally_count(&m->places, &place) == 0)
        kv_delete(m->batch, family, to->key);
    return PL_OK;
}

/* Epochs of a target that went further are not given out a second time. */
static bool is_higher_epoch(const mirror *m, kv_family family, const side *to)
{
    return family == KV_META && to->key.len == strlen("epoch") &&
           memcmp(to->key.data, "epoch", to->key.len) == 0 &&
           m->to_epoch > m->from->epoch;
}

static bool is_mark(kv_family family, const side *row)
{
    return family == KV_META && row->key.len == strlen(STORE_MIRROR_ROW) &&
           memcmp(row->key.data, STORE_MIRROR_ROW, row->key.len) == 0;
}

/* A source that is a broken off copy itself does not pass that on. */
static pl_status bring_record(mirror *m, kv_family family, const side *from,
                              const side *to, int order)
{
    if (order == 0 && (same_value(from, to) || is_higher_epoch(m, family, to)))
        return PL_OK;
    if (order < 0 && is_mark(family, from))
        return PL_OK;
    m->report->n_records += !is_mark(family, order > 0 ? to : from);
    if (order > 0)
        kv_delete(m->batch, family, to->key);
    else
        kv_put(m->batch, family, from->key, from->value);
    return PL_OK;
}

/* A mark that is ahead of what the last batch leaves would say that commits were lost;
 * none at all is made anew. */
static pl_status bring_records(mirror *m, const char *folder)
{
    char path[PL_PATH_MAX];
    for (int f = KV_META; f < KV_PACK; f++)
        PL_RETURN_IF(each_pair(m, (kv_family)f, bring_record));
    PL_RETURN_IF(each_pair(m, KV_PACK, drop_chunk));
    pl_join(path, folder, "HWM");
    if (m->to_sequence > m->from->sequence || !m->same_line)
        PL_RETURN_IF(pl_remove_tree(path));
    return flush_batch(m);
}

static pl_status set_mark(const mirror *m, const char *folder)
{
    char path[PL_PATH_MAX];
    watermark_file file;
    watermark mark = {m->from->sequence, m->from->epoch, m->from->log_hash};
    if (m->to_epoch > mark.epoch)
        mark.epoch = m->to_epoch;
    PL_RETURN_IF(watermark_open(pl_join(path, folder, "HWM"), &mark, &file));
    pl_status status = watermark_set(&file, &mark);
    watermark_close(&file);
    return status;
}

/* ---- the target ---- */
static pl_status read_value(kv *db, kv_family family, row_key key, pl_buf *out)
{
    kv_pin pin;
    pl_buf_clear(out);
    PL_RETURN_IF(kv_get(db, family, key_slice(&key), &pin));
    if (pin.data)
        pl_buf_append(out, pin.data, pin.len);
    kv_unpin(&pin);
    return PL_OK;
}

static bool same_row(const mirror *m, kv_family family, row_key key)
{
    pl_buf a = {0}, b = {0};
    bool same = read_value(m->from->db, family, key, &a) == PL_OK &&
                read_value(m->to, family, key, &b) == PL_OK && a.len > 0 &&
                a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    pl_buf_destroy(&a);
    pl_buf_destroy(&b);
    return same;
}

/* What the target is: empty, an earlier state of the source, or something else. */
static pl_status compare_target(mirror *m, const char *folder, bool force)
{
    pl_buf last = {0};
    row_view row;
    row_key epoch = key_of_name("epoch"), birth = key_of_name("store");
    pl_status status = PL_OK;
    PL_TRY(kv_last_key(m->to, KV_LOG, &last));
    if (last.len > 0)
        m->to_sequence = store_key_number(last.data, last.len);
    PL_TRY(row_read((row_source){.db = m->to}, KV_META, &epoch, &row));
    if (row.found) {
        m->to_epoch = pl_get_u64(&row.fields, 1, 0);
        PL_TRY(row_end(&row));
    }
    m->same_line =
        m->to_sequence == 0 || same_row(m, KV_LOG, key_of_number(m->to_sequence));
    bool same_store = m->to_epoch == 0 || same_row(m, KV_META, birth);
    if (!force && !(same_store && m->same_line))
        status = pl_fail(PL_ERR_EXISTS,
                         "%s holds %s; name an empty folder, or say --force to replace "
                         "it",
                         folder,
                         same_store ? "a later or another state of this store"
                                    : "another store");
done:
    pl_buf_destroy(&last);
    return status;
}

/* Its format becomes that of the source before anything else is written; a copy's
 * chunks are its own. */
static pl_status set_format(const pl_store *from, const char *folder)
{
    if (from->remote)
        return PL_OK;
    char path[PL_PATH_MAX], target[PL_PATH_MAX];
    pl_buf text = {0};
    pl_status status = pl_read_file(pl_join(path, from->folder, "FORMAT"), &text);
    if (status == PL_OK)
        status =
            pl_replace_file(pl_join(target, folder, "FORMAT"), text.data, text.len);
    pl_buf_destroy(&text);
    return status;
}

static pl_status open_target(mirror *m, const char *folder, bool force)
{
    char path[PL_PATH_MAX];
    uint64_t incompat = 0;
    pl_status status = store_format_check(folder, true, &incompat);
    if (status == PL_ERR_NOT_FOUND)
        status = store_format_write(folder, 0);
    PL_RETURN_IF(status);
    if (incompat & FORMAT_ENGINE)
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "the chunks of %s lie in an engine, which nothing is copied into; "
            "restore to a folder of its own, then use it or push from it",
            folder);
    PL_RETURN_IF(kv_open(pl_join(path, folder, "db"), KV_MAKE, NULL, &m->to));
    PL_RETURN_IF(compare_target(m, folder, force));
    return set_format(m->from, folder);
}

pl_status pl_store_mirror(pl_store *from, const char *folder, bool force,
                          pl_mirror_report *out)
{
    PL_RETURN_IF(parts_refuse(from, "copying"));
    int lock = -1;
    mirror m = {.from = from, .report = out};
    pl_status status = PL_OK;
    *out = (pl_mirror_report){0};
    if (from->mode != PL_STORE_READ)
        return pl_fail(PL_ERR_ARG, "a store is copied by a reader");
    PL_RETURN_IF(pl_make_folders(folder));
    PL_RETURN_IF(pl_lock_folder(folder, &lock));
    PL_TRY(open_target(&m, folder, force));
    m.batch = kv_batch_create(m.to);
    PL_TRY(bring_chunks(&m));
    PL_TRY(flush_batch(&m));
    PL_TRY(bring_records(&m, folder));
    PL_TRY(set_mark(&m, folder));
done:
    kv_batch_destroy(&m.batch);
    kv_close(&m.to, false);
    tally_destroy(&m.places);
    pl_unlock_folder(&lock);
    return status;
}
