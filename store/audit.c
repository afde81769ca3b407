/* Checks a whole store.
 *
 * The families of rows are checked one after another. Each pass uses the names that the
 * earlier passes gathered, so the order is: records, which name blobs; then blobs,
 * which name chunks; then chunks, which name places in packs (a pack and the number of
 * a chunk in it). A wrong row is reported, and the check continues with the next row. A
 * family's check ends early, with a report, only if RocksDB cannot read on. */
#include "store/stores.h"
#include "store/tally.h"
#include <stdarg.h>

typedef struct audit {
    pl_store *store;
    int part; /* check_owner: number of the part */
    bool bytes;
    pl_problem_fn fn;
    void *context;
    pl_audit_report *report;
    tally blobs;  /* blobs that records name; one entry per reference */
    tally chunks; /* chunks that blobs and other chunks name */
    /* places in packs that chunks name; each place is stored in the form of a hash */
    tally packs;
    /* the version that was checked before this one; the versions of a module are
     * visited one after the other */
    char module[PL_MODULE_NAME_MAX];
    uint64_t number, sequence;
    pl_hash params;
    pl_hash rows;
    /* the log rows from this commit on have such a hash; 0: the newest has none */
    uint64_t summed;
} audit;

static void report_problem(audit *a, const char *sentence)
{
    char text[1024];
    snprintf(text, sizeof text, "%s%s", a->store->label, sentence);
    a->report->n_problems++;
    if (a->fn)
        a->fn(a->context, text);
}

static void PL_PRINTF(2, 3) problem(audit *a, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    report_problem(a, text);
}

/* ---- visiting all rows of a family ---- */
static bool check_end(audit *a, kv_family family, const kv_cursor *walk)
{
    if (walk->status != PL_OK)
        problem(a, "column family %s cannot be read to its end: %s",
                kv_family_name(family), pl_last_error());
    return walk->status == PL_OK;
}

/* Checks a row and releases it. A failure is reported, and the next row is visited. */
typedef pl_status (*check_fn)(audit *a, row_view *row);

static void walk(audit *a, kv_family family, check_fn check)
{
    kv_cursor *walk = kv_cursor_open(a->store->db, NULL, family, (kv_slice){"", 0});
    while (kv_cursor_next(walk)) {
        row_view row;
        a->report->n_rows++;
        pl_status status = row_open(family, walk->key, walk->value, &row);
        if (status == PL_OK)
            status = check(a, &row);
        if (status != PL_OK)
            report_problem(a, pl_last_error());
    }
    check_end(a, family, walk);
    kv_cursor_close(&walk);
}

static bool key_is(const row_view *row, row_key expected)
{
    return row->key.len == expected.len &&
           memcmp(row->key.bytes, expected.bytes, expected.len) == 0;
}

/* ---- versions and heads ---- */
static pl_status audit_version(audit *a, row_view *row)
{
    pl_version v;
    PL_CHECK(version_decode(row, &v));
    a->report->n_versions++;
    if (!key_is(row, key_of_version(v.module, v.number)))
        problem(a,
                "the record of %s@%llu is stored under the key of a different version",
                v.module, (unsigned long long)v.number);
    /* A module's versions are visited in rising order; each must continue the last. */
    bool same = strcmp(a->module, v.module) == 0;
    uint64_t expected = same ? a->number + 1 : 0;
    if (v.number != expected)
        problem(a, "%s has no version %llu: the next version that exists is %llu",
                v.module, (unsigned long long)expected, (unsigned long long)v.number);
    else if (same && !pl_hash_equal(&v.parent, &a->params))
        problem(a, "%s@%llu names a parent that is not version %llu", v.module,
                (unsigned long long)v.number, (unsigned long long)a->number);
    if (v.sequence > a->store->sequence || (same && v.sequence < a->sequence))
        problem(a,
                "%s@%llu names commit %llu, but that commit does not exist or is older "
                "than the commit of the version before it",
                v.module, (unsigned long long)v.number, (unsigned long long)v.sequence);
    pl_copy_text(a->module, sizeof a->module, v.module);
    a->number = v.number;
    a->sequence = v.sequence;
    a->params = v.params;
    tally_add_version(&a->blobs, &v);
    pl_version_clear(&v);
    return PL_OK;
}

static bool has_version(audit *a, const char *module, uint64_t number, bool *gone)
{
    pl_version v = {0};
    bool found = false;
    pl_status status = version_read(store_source(a->store), module, number, &v, &found);
    *gone = v.params_gone;
    pl_version_clear(&v);
    return status == PL_OK && found;
}

static pl_status check_head(audit *a, row_view *row)
{
    head_record head;
    bool gone = false, more = false;
    char module[PL_MODULE_NAME_MAX] = {0};
    if (row->key.len >= sizeof module)
        return row_damaged(row, "its key is too long");
    memcpy(module, row->key.bytes, row->key.len);
    PL_CHECK(head_decode(row, &head));
    if (!has_version(a, module, head.number, &gone))
        problem(a,
                "%s@%llu is the newest version, but its record is missing or cannot be "
                "read",
                module, (unsigned long long)head.number);
    else if (gone)
        problem(a,
                "%s@%llu is the newest version, but garbage collection has dropped its "
                "parameters",
                module, (unsigned long long)head.number);
    if (has_version(a, module, head.number + 1, &more))
        problem(a, "%s has a version that is newer than its head, version %llu", module,
                (unsigned long long)head.number);
    return PL_OK;
}

/* ---- pending contributions, paths, objects, refs ---- */
static pl_status audit_pending(audit *a, row_view *row)
{
    pl_contribution c;
    head_record head;
    bool found = false;
    char module[PL_MODULE_NAME_MAX] = {0};
    size_t len = strnlen((const char *)row->key.bytes, row->key.len);
    if (len == row->key.len || len >= sizeof module)
        return row_damaged(row, "its key names no module");
    memcpy(module, row->key.bytes, len);
    PL_CHECK(contribution_decode(row, &c));
    tally_add(&a->blobs, &c.update);
    if (!key_is(row, key_of_pending(module, &c)))
        problem(a,
                "a pending update of %s is stored under the key of a different update",
                module);
    PL_CHECK(head_read(store_source(a->store), module, &head, &found));
    if (!found)
        problem(a, "an update is pending for module %s, which does not exist", module);
    else if ((uint64_t)c.phase < head.number)
        problem(a,
                "an update of path %lld is still pending for round %lld of %s, "
                "although the round was merged",
                (long long)c.path, (long long)c.phase, module);
    return PL_OK;
}

static pl_status check_path(audit *a, row_view *row)
{
    pl_path_state path;
    PL_CHECK(path_decode(row, &path));
    tally_add(&a->blobs, &path.moments);
    if (!key_is(row, key_of_name(path.name)))
        problem(a, "the state of path %s is stored under the key of a different path",
                path.name);
    return PL_OK;
}

static pl_status check_object(audit *a, row_view *row)
{
    pl_object object;
    blob_record blob;
    PL_CHECK(object_decode(row, &object));
    tally_add(&a->blobs, &object.blob);
    if (!key_is(row, key_of_name(object.name)))
        problem(a, "object %s is stored under the key of a different object",
                object.name);
    PL_CHECK(blob_read(store_source(a->store), &object.blob, &blob));
    if (blob.exists && blob.bytes != object.bytes)
        problem(a, "object %s says that it has %llu bytes, but its blob has %llu",
                object.name, (unsigned long long)object.bytes,
                (unsigned long long)blob.bytes);
    pl_buf_destroy(&blob.chunks);
    return PL_OK;
}

static pl_status check_ref(audit *a, row_view *row)
{
    char name[PL_MODULE_NAME_MAX];
    pl_buf target = {0};
    pl_status status = ref_decode(row, name, &target);
    if (status == PL_OK && !key_is(row, key_of_name(name)))
        problem(a, "ref %s is stored under the key of a different ref", name);
    pl_buf_destroy(&target);
    return status;
}

static pl_status check_tag(void *context, const pl_snapshot *tag)
{
    audit *a = context;
    for (size_t i = 0; i < tag->n_items; i++) {
        const pl_snapshot_item *item = &tag->items[i];
        pl_version v;
        memset(&v, 0, sizeof v);
        bool found = pl_store_get_version(a->store->whole, item->module, item->number,
                                          &v) == PL_OK;
        if (!found || v.params_gone || !pl_hash_equal(&v.params, &item->params))
            problem(a, "tag %s names %s@%llu, which %s", tag->name, item->module,
                    (unsigned long long)item->number,
                    !found          ? "is missing or cannot be read"
                    : v.params_gone ? "has lost its parameters by garbage collection"
                                    : "has different parameters than the tag says");
        pl_version_clear(&v);
    }
    return PL_OK;
}

static pl_status check_meta(audit *a, row_view *row)
{
    (void)a;
    bool is_number =
        key_is(row, key_of_name("epoch")) || key_is(row, key_of_name(STORE_MIRROR_ROW));
    size_t len;
    if (is_number)
        (void)pl_get_u64(&row->fields, 1, 0);
    else
        (void)pl_get_bytes(&row->fields, 1, 0, &len);
    return row_end(row);
}

/* ---- blobs ---- */
static pl_status get_id(const row_view *row, pl_hash *id)
{
    if (row->key.len != sizeof id->bytes)
        return row_damaged(row, "its key is not a hash");
    memcpy(id->bytes, row->key.bytes, sizeof id->bytes);
    return PL_OK;
}

/* Compares a count of references with how many names were gathered. */
static void check_refs(audit *a, const char *kind, const tally *names,
                       const pl_hash *id, uint64_t refs)
{
    char text[PL_HASH_TEXT];
    const uint64_t named = tally_count(names, id);
    if (refs != named)
        problem(a, "%s %s has the reference count %llu, but it is named %llu times",
                kind, pl_hash_format(id, text), (unsigned long long)refs,
                (unsigned long long)named);
}

static pl_status check_blob(audit *a, row_view *row)
{
    blob_record blob;
    pl_hash id, name;
    PL_CHECK(get_id(row, &id));
    PL_CHECK(blob_decode(row, &blob));
    a->report->n_blobs++;
    blob_name(&blob, &name);
    if (!pl_hash_equal(&id, &name))
        problem(
            a, "a blob is stored under a wrong hash: %s",
            ((void)row_damaged(row, "its key does not match the hashes of its chunks"),
             pl_last_error()));
    check_refs(a, "blob", &a->blobs, &id, blob.refs);
    for (size_t i = 0; i < blob.chunks.len / PL_HASH_BYTES; i++) {
        pl_hash chunk = blob_chunk(&blob, i);
        tally_add(&a->chunks, &chunk);
    }
    pl_buf_destroy(&blob.chunks);
    return PL_OK;
}

/* Reports each blob, chunk or place that is named but does not exist. */
static void check_presence(audit *a, const tally *names, kv_family family,
                           const char *kind)
{
    pl_hash name;
    uint64_t count;
    for (size_t i = 0; tally_next(names, &i, &name, &count);) {
        row_view row;
        char text[PL_HASH_TEXT];
        row_key key = key_of_hash(&name);
        if (row_read(store_source(a->store), family, &key, &row) != PL_OK)
            continue; /* an unreadable row is reported when its own family is checked */
        kv_unpin(&row.pin);
        if (row.found)
            continue;
        problem(a, "%s %s is named %llu times but does not exist", kind,
                pl_hash_format(&name, text), (unsigned long long)count);
    }
}

/* ---- chunks and packs ---- */
static pl_hash pack_place_of(uint64_t pack, uint32_t number)
{
    /* the first byte is 1, so that the place is never the zero hash */
    pl_hash place = {{1}};
    row_key key = key_of_pack(pack, number);
    memcpy(place.bytes + 1, key.bytes, key.len);
    return place;
}

/* Gathers the bases that chunks name (chunk_record.bases). This is a separate pass over
 * the chunks, because a chunk's count of references can be checked only when all bases
 * are known. */
static pl_status note_bases(audit *a, row_view *row)
{
    chunk_record chunk;
    a->report->n_rows--; /* check_chunk's pass counts the row */
    if (chunk_decode(row, &chunk) != PL_OK)
        return PL_OK;
    for (int i = 0; i < 2; i++)
        tally_add(&a->chunks, &chunk.bases[i]);
    return PL_OK;
}

static pl_status check_chunk(audit *a, row_view *row)
{
    chunk_record chunk;
    pl_hash id;
    PL_CHECK(get_id(row, &id));
    PL_CHECK(chunk_decode(row, &chunk));
    a->report->n_chunks++;
    check_refs(a, "chunk", &a->chunks, &id, chunk.refs);
    pl_hash place = pack_place_of(chunk.pack, chunk.number);
    tally_add(&a->packs, &place);
    if (!a->bytes)
        return PL_OK;
    chunk_view view;
    char text[PL_HASH_TEXT];
    pl_hash_format(&id, text);
    if (chunk_load(store_source(a->store), &id, &chunk, &view) == PL_OK) {
        a->report->bytes += view.len;
        chunk_close(&view);
    } else
        problem(a, "chunk %s is damaged: %s", text, pl_last_error());
    return PL_OK;
}

/* Rows of packs are plain bytes without an envelope. */
static void check_packs(audit *a)
{
    kv_cursor *walk = kv_cursor_open(a->store->db, NULL, KV_PACK, (kv_slice){"", 0});
    while (kv_cursor_next(walk)) {
        const uint8_t *bytes = walk->key.data;
        uint64_t pack = store_key_number(bytes, walk->key.len);
        uint32_t number =
            (uint32_t)(walk->key.len == 12 ? store_key_number(bytes + 8, 4) : 0);
        pl_hash place = pack_place_of(pack, number);
        a->report->n_rows++;
        if (pack > a->store->sequence)
            /* a row above the newest commit belongs to a commit that is being made or
             * was never finished (bulk.h) */
            continue;
        if (tally_count(&a->packs, &place) != 1)
            problem(a,
                    "chunk %u of pack %llu is named by no chunk record or by several; "
                    "exactly one must name it",
                    (unsigned)number, (unsigned long long)pack);
    }
    (void)check_end(a, KV_PACK, walk);
    kv_cursor_close(&walk);
}

/* ---- the chain of commits ---- */
static void check_log(audit *a, const watermark *mark)
{
    pl_hash previous = {{0}};
    uint64_t number = 0;
    kv_cursor *walk = kv_cursor_open(a->store->db, NULL, KV_LOG, (kv_slice){"", 0});
    while (kv_cursor_next(walk)) {
        log_record entry = {0};
        a->report->n_rows++;
        if (store_check_link(walk, number + 1, &previous, &entry) != PL_OK) {
            report_problem(a, pl_last_error());
            pl_hash_of("log", walk->value.data, walk->value.len, &previous);
        }
        number = store_key_number(walk->key.data, walk->key.len);
        a->rows = entry.rows;
        /* an older release makes commits without a sum; the next sum begins anew */
        if (pl_hash_none(&entry.rows))
            a->summed = 0;
        else if (a->summed == 0)
            a->summed = number;
        if (number == mark->sequence && !pl_hash_equal(&previous, &mark->log))
            problem(
                a,
                "commit %llu is not the commit that was acknowledged under this number",
                (unsigned long long)number);
    }
    if (check_end(a, KV_LOG, walk) && number < mark->sequence)
        problem(a, "the log ends at commit %llu, but commit %llu was acknowledged",
                (unsigned long long)number, (unsigned long long)mark->sequence);
    kv_cursor_close(&walk);
}

/* Compares all rows with the sum of rows of the newest commit. What cannot be read is
 * reported when its family is checked. */
static void check_sum(audit *a)
{
    row_sum now, then;
    if (pl_hash_none(&a->rows) || row_sum_all(a->store->db, &now) != PL_OK ||
        sum_read(store_source(a->store), &then) != PL_OK)
        return;
    const pl_hash hash = row_sum_hash(&then);
    if (!pl_hash_equal(&hash, &a->rows)) {
        problem(a, "the sum of rows is not the one that the newest commit names");
        return;
    }
    bool is_named = memcmp(&now, &then, sizeof now) == 0;
    for (int f = 0; f < KV_PACK - KV_VERSION; f++) {
        const uint64_t is = now.families[f].n_rows, was = then.families[f].n_rows;
        if (now.families[f].sum == then.families[f].sum && is == was)
            continue;
        is_named = true;
        problem(a,
                "column family %s has %llu rows, and its commits left %llu: a row was "
                "%s without a commit",
                kv_family_name((kv_family)(KV_VERSION + f)), (unsigned long long)is,
                (unsigned long long)was,
                is < was   ? "deleted"
                : is > was ? "added"
                           : "changed");
    }
    if (!is_named)
        problem(a, "rows were changed without a commit");
}

/* ---- the check of a whole store ---- */
static pl_status audit_store(audit *a)
{
    pl_store *store = a->store;
    watermark mark;
    bool marked = false;
    /* the mark is read before the refresh, so it is never ahead of the store */
    PL_CHECK(watermark_load(store->folder, &mark, &marked));
    PL_CHECK(pl_store_refresh(store));
    if (pl_store_look_as_writer(store) != PL_OK)
        report_problem(a, pl_last_error());
    check_log(a, &mark);
    check_sum(a);
    walk(a, KV_META, check_meta);
    walk(a, KV_VERSION, audit_version);
    walk(a, KV_HEAD, check_head);
    walk(a, KV_PENDING, audit_pending);
    walk(a, KV_PATH, check_path);
    walk(a, KV_OBJECT, check_object);
    walk(a, KV_REF, check_ref);
    if (pl_store_each_tag(a->store, check_tag, a) != PL_OK)
        report_problem(a, pl_last_error());
    tally_sort(&a->blobs);
    walk(a, KV_BLOB, check_blob);
    check_presence(a, &a->blobs, KV_BLOB, "blob");
    walk(a, KV_CHUNK, note_bases);
    tally_sort(&a->chunks);
    walk(a, KV_CHUNK, check_chunk);
    check_presence(a, &a->chunks, KV_CHUNK, "chunk");
    tally_sort(&a->packs);
    /* A damaged row of a copy was reported when the meta family was checked. */
    row_view copy;
    const row_key begun = key_of_name(STORE_MIRROR_ROW);
    const bool is_read = row_read(store_source(store), KV_META, &begun, &copy) == PL_OK;
    if (is_read)
        kv_unpin(&copy.pin);
    if (a->bytes && !(is_read && copy.found))
        check_packs(a);
    tally_destroy(&a->blobs);
    tally_destroy(&a->chunks);
    tally_destroy(&a->packs);
    return PL_OK;
}

/* Reports a module that an earlier part has, too. A row that cannot be read is left to
 * the audit of its own store. */
static pl_status check_owner(void *context, pl_store *holder, row_view *row)
{
    audit *a = context;
    (void)holder;
    for (int i = a->part - 1; i >= 0; i--) {
        row_view other;
        if (row_read(store_source(a->store->stores[i]), KV_HEAD, &row->key, &other) !=
            PL_OK)
            continue;
        kv_unpin(&other.pin);
        if (!other.found)
            continue;
        problem(a, "module %.*s is in home-%d and in home-%d", (int)row->key.len,
                (const char *)row->key.bytes, i + 1, a->part + 1);
        break;
    }
    return PL_OK;
}

pl_status pl_store_audit(pl_store *store, bool bytes, pl_problem_fn fn, void *context,
                         pl_audit_report *out)
{
    const row_key all = key_of_name("");
    audit a = {
        .store = store, .bytes = bytes, .fn = fn, .context = context, .report = out};
    bool covered = true;
    pl_hash logs[PL_PARTS_MAX];
    *out = (pl_audit_report){0};
    for (a.part = 1; a.part < store->n_stores; a.part++) {
        pl_status status =
            stores_each(store->stores[a.part], KV_HEAD, &all, check_owner, &a);
        if (status != PL_OK && status != PL_ERR_DAMAGED)
            return status;
    }
    for (int i = 0; i < store->n_stores; i++) {
        audit one = a;
        one.store = store->stores[i];
        PL_CHECK(audit_store(&one));
        const bool is_empty = one.store->sequence == 0;
        covered = covered && (is_empty || !pl_hash_none(&one.rows));
        const uint64_t from = is_empty ? 1 : one.summed;
        out->covered_from = from > out->covered_from ? from : out->covered_from;
        logs[i] = one.store->log_hash;
    }
    out->covered_from = covered ? out->covered_from : 0;
    out->log_hash = logs[0];
    if (store->n_stores > 1)
        pl_hash_of("parts", logs, (size_t)store->n_stores * sizeof *logs,
                   &out->log_hash);
    return PL_OK;
}
