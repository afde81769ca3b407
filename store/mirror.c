/* Makes one store equal to another, row by row, for backup and restore.
 *
 * The bytes of chunks are copied first, in many commits. No record of the target names
 * these bytes yet. So if the process is killed, the target still shows its old state,
 * and the next call finds the bytes that were copied already. One last batch writes all
 * other rows and deletes old ones. So the target has either its old state or the new
 * one.
 *
 * The key of a chunk is written only once. So if the target is an earlier or later
 * state of the source, the chunks of commits that both stores have need no comparison.
 * A target with a different history has different bytes under the same keys, and is
 * replaced by a complete copy (mirror_set.c).
 *
 * A source whose chunks lie in an engine has no pack rows. The target gets the pack
 * rows that correspond to the source's chunk records. */
#include "store/mirror.h"
#include "store/rebase.h"
#include "store/store_format.h"
#include "store/tally.h"
#include <string.h>

enum { BATCH_BYTES = 32 << 20, SPARE_BYTES = 16 << 20 };

typedef struct mirror {
    pl_store *from;
    const char *folder; /* of the target */
    kv *to;
    kv_batch *batch;
    /* the target is empty, or an earlier or the same state of the source */
    bool same_line;
    bool later;      /* the target is a later state of the source */
    uint64_t common; /* the newest commit that source and target both have */
    /* whether the row STORE_MIRROR_ROW is in the target */
    bool marked;
    /* the places in packs that the source's chunk records name; used only if the source
     * has an engine */
    tally places;
    /* gets the content of the last batch; NULL if the copy is made in one step */
    pl_buf *left;
    uint64_t to_sequence, to_epoch;
    pl_mirror_report *report;
} mirror;

/* The tags of the fields in the file LEFT, which lists the operations that remain to be
 * done for a copy (mirror_set.c). */
enum { LEFT_SEQUENCE = 1, LEFT_EPOCH, LEFT_LOG, LEFT_NEW_MARK, LEFT_ROWS, LEFT_CHUNK };

/* ---- walking two families side by side ---- */
/* `order`: below 0: only the source has the key; above 0: the target; 0: both. */
typedef pl_status (*row_fn)(mirror *m, kv_family family, const kv_cursor *from,
                            const kv_cursor *to, int order);

static pl_status each_pair(mirror *m, kv_family family, row_fn fn)
{
    pl_status status = PL_OK;
    kv_slice all = {"", 0};
    kv_cursor *from = kv_cursor_open(m->from->db, NULL, family, all);
    kv_cursor *to = kv_cursor_open(m->to, NULL, family, all);
    int order = 0;
    for (;;) {
        if (order <= 0 && !kv_cursor_next(from))
            PL_TRY(from->status);
        if (order >= 0 && !kv_cursor_next(to))
            PL_TRY(to->status);
        if (!from->valid && !to->valid)
            break;
        order = !to->valid ? -1 : !from->valid ? 1 : kv_order(from->key, to->key);
        PL_TRY(fn(m, family, from, to, order));
    }
done:
    kv_cursor_close(&from);
    kv_cursor_close(&to);
    return status;
}

/* ---- chunks: they are copied first ---- */
/* On a full disk RocksDB would abort the process. */
static pl_status check_space(const mirror *m)
{
    const uint64_t bytes = kv_batch_bytes(m->batch);
    return store_check_space(m->folder, "the copy", 2 * bytes + SPARE_BYTES);
}

/* Puts a chunk into the batch; `replaces`: in place of different bytes under the key.
 * Before the first chunk, the function puts the row STORE_MIRROR_ROW. While this row
 * exists, chunks that no record names are not damage. The last batch deletes the
 * row. */
static pl_status put_chunk(mirror *m, kv_slice key, kv_slice value, bool replaces)
{
    if (!m->marked)
        number_write(m->batch, STORE_MIRROR_ROW, m->from->sequence);
    m->marked = true;
    if (replaces)
        kv_delete(m->batch, KV_PACK, key);
    kv_put(m->batch, KV_PACK, key, value);
    m->report->n_chunks++;
    m->report->bytes += value.len;
    if (kv_batch_bytes(m->batch) <= BATCH_BYTES)
        return PL_OK;
    PL_CHECK(check_space(m));
    return rebase_flush(m->to, &m->batch);
}

/* Returns whether the target's pack rows of this commit need no comparison. Rows of
 * commits that source and target both have are equal. If the target is a later state,
 * its rows above the source's newest commit must not be deleted; rows of the source
 * with such numbers are not needed, because they were left by a process that ended
 * before its commit. */
static bool is_sure(const mirror *m, uint64_t pack)
{
    return pack <= m->common || (m->later && pack > m->from->sequence);
}

/* Copies a chunk. The cursors show the database as it was when they were opened, so the
 * commits made here do not disturb them. */
static pl_status bring_chunk(mirror *m, kv_family family, const kv_cursor *from,
                             const kv_cursor *to, int order)
{
    (void)family;
    if (order > 0 || (order == 0 && (is_sure(m, store_key_number(to->key.data, 8)) ||
                                     kv_order(from->value, to->value) == 0)))
        return PL_OK;
    return put_chunk(m, from->key, from->value, order == 0);
}

/* ---- chunks of a source with an engine ---- */
static pl_hash place_at(kv_slice key)
{
    pl_hash place = {{0}};
    memcpy(place.bytes, key.data, key.len < sizeof place ? key.len : sizeof place);
    return place;
}

/* Copies a chunk from the source's engine, as the pack row that its record names. */
static pl_status bring_remote(mirror *m, kv_family family, const kv_cursor *from,
                              const kv_cursor *to, int order)
{
    row_view row;
    chunk_record chunk;
    pl_hash id;
    kv_pin old;
    chunk_view bytes = {.data = NULL};
    const row_source source = store_source(m->from);
    (void)to;
    if (order > 0 || from->key.len != sizeof id.bytes)
        return PL_OK;
    memcpy(id.bytes, from->key.data, sizeof id.bytes);
    PL_CHECK(row_open(family, from->key, from->value, &row));
    PL_CHECK(chunk_decode(&row, &chunk));
    row_key key = key_of_pack(chunk.pack, chunk.number);
    pl_hash place = place_at(key_slice(&key));
    tally_add(&m->places, &place);
    PL_CHECK(kv_get(m->to, KV_PACK, key_slice(&key), &old));
    const bool there = old.data != NULL;
    kv_unpin(&old);
    if (there && is_sure(m, chunk.pack))
        return PL_OK;
    pl_status status = m->from->places->get(&source, &id, &chunk, &bytes);
    if (status == PL_OK)
        status =
            put_chunk(m, key_slice(&key), (kv_slice){bytes.data, bytes.len}, there);
    chunk_close(&bytes);
    return status;
}

/* ---- all other rows, in one batch ---- */
static pl_status drop_extra_chunk(mirror *m, kv_family family, const kv_cursor *from,
                                  const kv_cursor *to, int order)
{
    (void)from;
    if (order <= 0)
        return PL_OK;
    pl_hash place = place_at(to->key);
    if (tally_count(&m->places, &place) > 0)
        return PL_OK;
    kv_delete(m->batch, family, to->key);
    if (m->left)
        pl_put_bytes(m->left, LEFT_CHUNK, to->key.data, to->key.len);
    return PL_OK;
}

static bool is_meta_row(kv_family family, const kv_cursor *row, const char *name)
{
    return family == KV_META && row->key.len == strlen(name) &&
           memcmp(row->key.data, name, row->key.len) == 0;
}

/* Copies or deletes one row. The row STORE_MIRROR_ROW of a source that is itself an
 * unfinished copy is not copied. */
static pl_status bring_record(mirror *m, kv_family family, const kv_cursor *from,
                              const kv_cursor *to, int order)
{
    /* a later state's epoch is higher and must stay: none may be used twice */
    const bool stays =
        order == 0 && m->to_epoch > m->from->epoch && is_meta_row(family, to, "epoch");
    const bool is_mark = is_meta_row(family, order > 0 ? to : from, STORE_MIRROR_ROW);
    if (stays || (order == 0 && kv_order(from->value, to->value) == 0) ||
        (order < 0 && is_mark))
        return PL_OK;
    m->report->n_records += !is_mark;
    if (order > 0)
        kv_delete(m->batch, family, to->key);
    else
        kv_put(m->batch, family, from->key, from->value);
    return PL_OK;
}

/* Commits the last batch and sets the mark. The batch of a target that is a later state
 * removes its newest commits. A mark that names one of them would be reported as lost
 * commits, so the mark is first set to a commit that both states have (`is_later`),
 * with the target's own epoch if that is lower. */
static pl_status commit_last(kv *to, kv_batch *batch, const char *folder,
                             const watermark *mark, bool is_later)
{
    watermark_file file;
    watermark first = *mark;
    uint64_t epoch;
    PL_CHECK(number_read((row_source){.db = to}, "epoch", &epoch));
    first.epoch = epoch < first.epoch ? epoch : first.epoch;
    if (is_later)
        PL_CHECK(watermark_make(folder, &first));
    PL_CHECK(kv_commit(to, batch));
    PL_CHECK(watermark_open(folder, mark, &file));
    pl_status status = watermark_set(&file, mark);
    watermark_close(&file);
    return status;
}

/* ---- opening the target and comparing it with the source ---- */
static bool same_row(kv *from, kv *to, kv_family family, row_key key)
{
    kv_pin a = {0}, b = {0};
    bool same = kv_get(from, family, key_slice(&key), &a) == PL_OK &&
                kv_get(to, family, key_slice(&key), &b) == PL_OK && a.len > 0 &&
                a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    kv_unpin(&a);
    kv_unpin(&b);
    return same;
}

bool pl_store_same_birth(const pl_store *a, const pl_store *b)
{
    return same_row(a->stores[0]->db, b->stores[0]->db, KV_META, key_of_name("store"));
}

/* Opens the target, and finds out whether it is empty, another state of the source, or
 * neither. */
static pl_status open_target(mirror *m, mirror_target *to)
{
    const char *folder = to->folder;
    const row_key birth = key_of_name("store");
    bool in_engine = false;
    pl_buf last = {0};
    pl_status status = store_format_check(folder, &in_engine);
    if (status == PL_ERR_NOT_FOUND)
        status = store_format_write(folder, false);
    PL_CHECK(status);
    if (in_engine)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the chunks of %s are in a storage engine, into which no copy "
                       "can be made; restore to a new folder, and use that folder or "
                       "copy from it with `pathloom store push`",
                       folder);
    PL_CHECK(store_check_space(folder, "the copy", SPARE_BYTES));
    PL_CHECK(store_open_target(folder, &m->to));
    PL_TRY(kv_last_key(m->to, KV_LOG, &last));
    if (last.len > 0)
        m->to_sequence = store_key_number(last.data, last.len);
    PL_TRY(number_read((row_source){.db = m->to}, "epoch", &m->to_epoch));
    m->same_line = m->to_sequence == 0 ||
                   same_row(m->from->db, m->to, KV_LOG, key_of_number(m->to_sequence));
    bool same_store = m->to_epoch == 0 || same_row(m->from->db, m->to, KV_META, birth);
    m->later = !m->same_line && same_store && m->from->sequence > 0 &&
               same_row(m->from->db, m->to, KV_LOG, key_of_number(m->from->sequence));
    m->common = m->same_line ? m->to_sequence : m->later ? m->from->sequence : 0;
    to->beside = !m->same_line && !m->later;
    if (!to->force && !(same_store && m->same_line))
        status = pl_fail(
            PL_ERR_EXISTS,
            "%s contains %s; name an empty folder, or give --force to replace it",
            folder,
            same_store ? "a later or different state of this store"
                       : "a different store");
    m->to_epoch = m->to_epoch > to->epoch ? m->to_epoch : to->epoch;
    to->epoch = m->to_epoch;
done:
    pl_buf_destroy(&last);
    return status;
}

pl_status mirror_into(pl_store *from, mirror_target *to, pl_buf *left,
                      pl_mirror_report *report)
{
    mirror m = {.from = from, .folder = to->folder, .report = report, .left = left};
    pl_status status = PL_OK;
    *report = (pl_mirror_report){0};
    to->beside = false;
    if (left)
        pl_buf_clear(left);
    if (from->mode != PL_STORE_READ)
        return pl_fail(PL_ERR_ARG,
                       "a store can be copied only if it is opened for reading");
    PL_CHECK(pl_make_folders(to->folder));
    PL_TRY(open_target(&m, to));
    if (to->beside)
        goto done;
    m.batch = kv_batch_create(m.to);
    const kv_family family = from->places->family;
    PL_TRY(each_pair(&m, family, family == KV_PACK ? bring_chunk : bring_remote));
    tally_sort(&m.places);
    PL_TRY(check_space(&m));
    PL_TRY(rebase_flush(m.to, &m.batch));
    /* all other rows, in one batch: it is committed, or written into `left` */
    if (left)
        kv_batch_keep(m.batch);
    for (int f = KV_META; f < KV_PACK; f++)
        PL_TRY(each_pair(&m, (kv_family)f, bring_record));
    watermark mark = {from->sequence, from->epoch, from->log_hash};
    if (m.to_epoch > mark.epoch) {
        /* a copy elsewhere also needs this row: an epoch must not decrease */
        mark.epoch = m.to_epoch;
        number_write(m.batch, "epoch", mark.epoch);
    }
    if (left) {
        kv_slice rows = kv_batch_kept(m.batch);
        pl_put_u64(left, LEFT_SEQUENCE, mark.sequence);
        pl_put_u64(left, LEFT_EPOCH, mark.epoch);
        pl_put_hash(left, LEFT_LOG, &mark.log);
        pl_put_u64(left, LEFT_NEW_MARK, m.later);
        pl_put_bytes(left, LEFT_ROWS, rows.data, rows.len);
    }
    PL_TRY(each_pair(&m, KV_PACK, drop_extra_chunk));
    PL_TRY(check_space(&m));
    if (!left)
        status = commit_last(m.to, m.batch, to->folder, &mark, m.later);
done:
    kv_batch_destroy(&m.batch);
    kv_close(&m.to, false);
    tally_destroy(&m.places);
    return status;
}

/* ---- the second step of a copy in two steps ---- */
pl_status mirror_finish(const char *folder, const pl_buf *left)
{
    pl_reader r;
    kv *to = NULL;
    kv_batch *batch = NULL;
    size_t len = 0;
    pl_status status = PL_OK;
    pl_reader_open(&r, "the file LEFT of a copy", left->data, left->len);
    watermark mark = {pl_get_u64(&r, LEFT_SEQUENCE, 0), pl_get_u64(&r, LEFT_EPOCH, 0),
                      pl_get_hash(&r, LEFT_LOG, 0)};
    bool is_new = pl_get_u64(&r, LEFT_NEW_MARK, 0) != 0;
    PL_TRY(pl_reader_status(&r));
    PL_TRY(store_open_target(folder, &to));
    batch = kv_batch_create(to);
    const uint8_t *bytes = pl_get_bytes(&r, LEFT_ROWS, 0, &len);
    uint64_t n_puts = 0;
    PL_TRY(pl_reader_status(&r));
    PL_TRY(rebase_apply((kv_slice){bytes, len}, batch, &n_puts));
    const size_t n = pl_field_count(&r, LEFT_CHUNK);
    for (size_t i = 0; i < n; i++) {
        bytes = pl_get_bytes(&r, LEFT_CHUNK, i, &len);
        kv_delete(batch, KV_PACK, (kv_slice){bytes, len});
    }
    PL_TRY(pl_reader_status(&r));
    status = commit_last(to, batch, folder, &mark, is_new);
done:
    kv_batch_destroy(&batch);
    kv_close(&to, false);
    return status;
}

/* ---- after a copy that was interrupted ---- */
/* Adds the places of all chunks that the store's records name. */
static pl_status note_places(const pl_store *store, tally *places)
{
    kv_cursor *walk = kv_cursor_open(store->db, NULL, KV_CHUNK, (kv_slice){"", 0});
    pl_status status = PL_OK;
    while (status == PL_OK && kv_cursor_next(walk)) {
        row_view row;
        chunk_record chunk;
        PL_TRY(row_open(KV_CHUNK, walk->key, walk->value, &row));
        PL_TRY(chunk_decode(&row, &chunk));
        const row_key key = key_of_pack(chunk.pack, chunk.number);
        const pl_hash place = place_at(key_slice(&key));
        tally_add(places, &place);
    }
    status = walk->status;
done:
    kv_cursor_close(&walk);
    tally_sort(places);
    return status;
}

pl_status mirror_clean(pl_store *store)
{
    uint64_t begun = 0;
    tally places = {0};
    kv_batch *batch = NULL;
    kv_cursor *walk = NULL;
    pl_status status = PL_OK;
    PL_CHECK(number_read(store_source(store), STORE_MIRROR_ROW, &begun));
    if (begun == 0)
        return PL_OK;
    PL_TRY(note_places(store, &places));
    batch = kv_batch_create(store->db);
    walk = kv_cursor_open(store->db, NULL, KV_PACK, (kv_slice){"", 0});
    while (kv_cursor_next(walk)) {
        const pl_hash place = place_at(walk->key);
        if (tally_count(&places, &place) > 0)
            continue;
        kv_delete(batch, KV_PACK, walk->key);
        if (kv_batch_bytes(batch) > BATCH_BYTES)
            PL_TRY(rebase_flush(store->db, &batch));
    }
    PL_TRY(walk->status);
    const row_key row = key_of_name(STORE_MIRROR_ROW);
    kv_delete(batch, KV_META, key_slice(&row));
    status = kv_commit(store->db, batch);
done:
    kv_cursor_close(&walk);
    kv_batch_destroy(&batch);
    tally_destroy(&places);
    return status;
}
