/* RocksDB 7.8 through its C interface.
 *
 * Two rules of RocksDB shape this file. First, the handles of all column families must
 * be destroyed before the database is closed: RocksDB checks this with an assertion,
 * and Debian's build has assertions enabled. Second, an error is a text that must be
 * freed with RocksDB's own function. */
#include "store/kv.h"
#include "store/kv_make.h"
#include "store/row_sum.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PACK_BUFFER_BYTES = 32 << 20,
    RECORD_BUFFER_BYTES = 8 << 20,
    /* Size of the blocks of RocksDB's write buffers for chunks. The allocator returns
     * blocks of this size to the system when they are freed, and keeps smaller ones
     * (KEPT_BLOCK in base/mem.c). With smaller blocks, freed buffers left gaps that the
     * next buffers did not fill, so a home's memory grew for a hundred phases. */
    ARENA_BLOCK_BYTES = 5 << 20,
    /* Size of the blocks of the write buffers for records. Each of the eleven families
     * of records has a buffer, and most buffers are almost empty. Blocks of 5 MiB were
     * often placed in heap memory that had been used before, so each block occupied 5
     * MiB of real memory. */
    RECORD_BLOCK_BYTES = 256 << 10,
    RECORD_CACHE_BYTES = 4 << 20,
    WAL_BYTES = 128 << 20,
    LEVEL_BASE_BYTES = 512 << 20,
    /* number of times that a follower tries to read the log before it gives up */
    FOLLOW_TRIES = 10,
    OPERATION_PUT = 1,
    OPERATION_DELETE = 2
};

static const char DESCRIPTORS[] = "/proc/self/fd/";

/* Options for which the C interface has no setter. */
static const char STRICT[] = "track_and_verify_wals_in_manifest=true;paranoid_file_"
                             "checks=true;memtable_protection_bytes_per_key=8;force_"
                             "consistency_checks=true;max_bgerror_resume_count=0";

static const struct {
    const char *name;
    uint8_t id;
} FAMILIES[KV_FAMILY_COUNT] = {{"default", 0},
#define KV_FAMILY_ROW(name, text, id) {text, id},
                               KV_FAMILY_TABLE(KV_FAMILY_ROW)
#undef KV_FAMILY_ROW
};

struct kv {
    rocksdb_t *db;
    kv_mode mode;
    bool failed; /* a write failed */
    rocksdb_options_t *options, *record_options, *pack_options;
    rocksdb_column_family_handle_t *families[KV_FAMILY_COUNT];
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
    char path[PL_PATH_MAX];
    int folder; /* reader: descriptor of the database's folder; -1 if none */
    /* The path that RocksDB uses. A reader's begins at `folder`: the folder may be
     * renamed and another may take its place (mirror_set.c), and RocksDB would read
     * files of both. It checks with an assertion that the other is not older. */
    char place[PL_PATH_MAX];
    struct kv *next; /* next in the list of abandoned databases */
};

/* Databases that are never closed, because closing one after a failed write would abort
 * the process. The list keeps them reachable for leak checkers. */
static _Atomic(kv *) abandoned;

struct kv_batch {
    kv *db;
    rocksdb_writebatch_wi_t *writes;
    pl_hasher digest;
    bool keeps;
    pl_buf kept;  /* the operations of the batch, in the form that is hashed */
    row_sum *sum; /* the sum of rows after the operations, or NULL */
    pl_status sum_status;
};

typedef struct row_walk {
    kv_cursor at; /* first, so that a pointer to it is one to the cursor */
    rocksdb_iterator_t *rows;
    const kv *db;
    pl_buf prefix;
    /* whether the iterator is at a row that the cursor has not returned yet */
    bool ready;
} row_walk;

const char *kv_family_name(kv_family family)
{
    return FAMILIES[family].name;
}

uint8_t kv_family_id(kv_family family)
{
    return FAMILIES[family].id;
}

/* Finds the limit that an error names, and what to do about it. If the limit is that of
 * open files, a process that opens this database has its files open, and about as many
 * as a process without a database. */
static bool find_limit(const char *error, const char *path, char out[PL_REMEDY_MAX])
{
    enum { OTHER_FILES = 64 };
    static const int causes[] = {ENOSPC, EDQUOT, EFBIG, ENFILE, EMFILE};
    size_t i = 0, n = sizeof causes / sizeof *causes;
    while (i < n && !strstr(error, strerror(causes[i])))
        i++;
    if (i == n)
        return false;
    uint64_t n_files = OTHER_FILES;
    DIR *entries = opendir(path);
    while (entries && readdir(entries))
        n_files++;
    if (entries)
        closedir(entries);
    return pl_file_remedy(causes[i], path, n_files, out)[0] != '\0';
}

/* Turns a RocksDB error into a status, and frees `error`; NULL: PL_OK. The cause must
 * be found in the text of the error, because RocksDB's C interface has no error codes.
 */
static pl_status judge_error(const char *verb, const char *path, char *error)
{
    char limit[PL_REMEDY_MAX], text[PL_PATH_MAX + 512];
    pl_status status = PL_ERR_IO;
    const char *remedy = "look at the disk and the system's log", *cause = text;
    if (!error)
        return PL_OK;
    /* an error that names a reader's descriptor gets the database's path */
    const char *at = strstr(error, DESCRIPTORS), *after = at;
    if (at)
        after += strlen(DESCRIPTORS) + strspn(at + strlen(DESCRIPTORS), "0123456789");
    snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - error) : 0, error,
             at ? path : "", at ? after : error);
    /* The first two causes are looked for only when a database is opened. Later, the
     * same errors mean that files on the disk have changed. */
    bool opens = strcmp(verb, "open") == 0;
    if (opens &&
        (strstr(error, "Permission denied") || strstr(error, "not permitted"))) {
        status = PL_ERR_NOPERM;
        cause = "this user may not use its files";
        remedy = "run the command as the user that owns the store";
    } else if (opens && strstr(error, "Read-only file system")) {
        status = PL_ERR_NOPERM;
        cause = "it lies on a read-only file system";
        remedy = "mount the file system for writing, or change a copy of the store";
    } else if (find_limit(error, path, limit)) {
        if (strstr(error, "Too many open files"))
            status = PL_ERR_FILES;
        else if (!strstr(error, "File too large"))
            status = PL_ERR_NOSPACE;
        remedy = limit + strlen("; ");
    } else if (strstr(error, "lock hold by") || strstr(error, "/LOCK")) {
        status = PL_ERR_BUSY;
        remedy = "stop the process that has the store open";
    } else if (pl_starts_with(error, "Corruption")) {
        status = PL_ERR_DAMAGED;
        remedy = "restore it from a copy; do not delete files by hand";
    }
    (void)pl_fail(status, "cannot %s %s: %s; %s", verb, path, cause, remedy);
    rocksdb_free(error);
    return status;
}

/* ---- open and close ---- */
static pl_status make_options(kv *db, kv_mode mode)
{
    char *error = NULL;
    rocksdb_options_t *plain = rocksdb_options_create();
    db->options = rocksdb_options_create();
    rocksdb_get_options_from_string(plain, STRICT, db->options, &error);
    rocksdb_options_destroy(plain);
    PL_CHECK(judge_error("set the options of", db->path, error));
    /* The options of the whole database. A follower uses the same options as the
     * writer, because both must agree about the column families. */
    rocksdb_options_t *o = db->options;
    rocksdb_options_set_create_if_missing(o, mode == KV_MAKE);
    rocksdb_options_set_create_missing_column_families(o, mode == KV_MAKE);
    rocksdb_options_set_wal_recovery_mode(
        o, mode == KV_LOOK || mode == KV_MEND
               ? rocksdb_point_in_time_recovery
               : rocksdb_tolerate_corrupted_tail_records_recovery);
    rocksdb_options_set_paranoid_checks(o, 1);
    rocksdb_options_set_atomic_flush(o, 1);
    rocksdb_options_set_recycle_log_file_num(o, 0);
    rocksdb_options_set_max_total_wal_size(o, WAL_BYTES);
    rocksdb_options_set_max_background_jobs(o, 2);
    /* keep all files open, because the writer may delete files that a follower reads */
    rocksdb_options_set_max_open_files(o, -1);
    /* By default RocksDB starts 15 threads per column family to open its files. A store
     * has few files, so starting the threads took most of the time to open it. */
    rocksdb_options_set_max_file_opening_threads(o, 1);
    rocksdb_options_set_info_log_level(o, 3); /* only errors */
    rocksdb_options_set_keep_log_file_num(o, 2);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_options_set_stats_persist_period_sec(o, 0);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    rocksdb_options_set_max_bytes_for_level_base(o, LEVEL_BASE_BYTES);
    rocksdb_options_set_arena_block_size(o, ARENA_BLOCK_BYTES);
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(RECORD_CACHE_BYTES);
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_block_cache(table, cache);
    /* the options hold their own reference to the cache */
    rocksdb_cache_destroy(cache);
    db->record_options = rocksdb_options_create_copy(db->options);
    rocksdb_options_set_write_buffer_size(db->record_options, RECORD_BUFFER_BYTES);
    rocksdb_options_set_arena_block_size(db->record_options, RECORD_BLOCK_BYTES);
    rocksdb_options_set_block_based_table_factory(db->record_options, table);
    rocksdb_block_based_options_destroy(table);
    db->pack_options = rocksdb_options_create_copy(db->options);
    rocksdb_options_set_write_buffer_size(db->pack_options, PACK_BUFFER_BYTES);
    /* No block cache for chunks: a chunk is read only once, or is in the system's page
     * cache. So a block cache would only use memory. */
    table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_no_block_cache(table, 1);
    rocksdb_options_set_block_based_table_factory(db->pack_options, table);
    rocksdb_block_based_options_destroy(table);
    db->read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(db->read, 1);
    db->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(db->write, 1);
    return PL_OK;
}

/* The files of the write-ahead log at one moment. Newer files have greater numbers. */
typedef struct log_files {
    uint64_t newest;
    int n;
} log_files;

/* Counts the log files numbered up to `most`, and finds the newest. */
static log_files list_logs(const kv *db, uint64_t most)
{
    log_files logs = {0, 0};
    DIR *entries = opendir(db->place);
    for (struct dirent *e; entries && (e = readdir(entries));) {
        char *end;
        uint64_t number = strtoull(e->d_name, &end, 10);
        if (end == e->d_name || strcmp(end, ".log") != 0 || number > most)
            continue;
        logs.n++;
        logs.newest = number > logs.newest ? number : logs.newest;
    }
    if (entries)
        closedir(entries);
    return logs;
}

/* Whether the writer has deleted a file of the log since the list `before`. */
static bool lost_log(const kv *db, log_files before)
{
    return list_logs(db, before.newest).n < before.n;
}

pl_status kv_open(const char *path, kv_mode mode, const char *scratch, kv **out)
{
    const char *names[KV_FAMILY_COUNT];
    const rocksdb_options_t *options[KV_FAMILY_COUNT];
    char *error = NULL, current[PL_PATH_MAX];
    pl_status status;
    *out = NULL;
    pl_keep_blocks();
    kv *db = pl_alloc(sizeof *db);
    db->mode = mode;
    db->folder = -1;
    pl_copy_text(db->path, sizeof db->path, path);
    pl_copy_text(db->place, sizeof db->place, path);
    if (mode == KV_FOLLOW || mode == KV_LOOK) {
        char held[64];
        db->folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        snprintf(held, sizeof held, "%s%d", DESCRIPTORS, db->folder);
        if (pl_path_is_folder(held)) /* false where /proc is not mounted */
            pl_copy_text(db->place, sizeof db->place, held);
    }
    PL_TRY(make_options(db, mode));
    const log_files before = list_logs(db, UINT64_MAX);
    /* All families are opened at once, because they are created together and never
     * dropped. */
    for (int f = 0; f < KV_FAMILY_COUNT; f++) {
        names[f] = FAMILIES[f].name;
        options[f] = f == KV_PACK ? db->pack_options : db->record_options;
    }
    /* Families that are missing, because making the database was interrupted, are
     * created when it is opened. */
    if (mode == KV_MAKE && !pl_path_exists(pl_join(current, db->path, "CURRENT")))
        PL_TRY(judge_error("open", db->path,
                           kv_make(db->path, names + 1, KV_FAMILY_COUNT - 1)));
    if (mode == KV_FOLLOW)
        db->db = rocksdb_open_as_secondary_column_families(
            db->options, db->place, scratch, KV_FAMILY_COUNT, names, options,
            db->families, &error);
    else if (mode == KV_LOOK)
        db->db = rocksdb_open_for_read_only_column_families(
            db->options, db->place, KV_FAMILY_COUNT, names, options, db->families, 0,
            &error);
    else
        db->db = rocksdb_open_column_families(db->options, db->path, KV_FAMILY_COUNT,
                                              names, options, db->families, &error);
    PL_TRY(judge_error("open", db->path, error));
    if (mode == KV_FOLLOW && lost_log(db, before))
        PL_TRY(kv_refresh(db));
    *out = db;
    return PL_OK;
done:
    kv_close(&db, false);
    return status;
}

void kv_close(kv **handle, bool abandon)
{
    kv *db = *handle;
    *handle = NULL;
    if (!db)
        return;
    if (db->db && (abandon || db->failed)) {
        db->next = atomic_load(&abandoned);
        while (!atomic_compare_exchange_weak(&abandoned, &db->next, db))
            ;
        return;
    }
    if (db->db) {
        for (int f = 0; f < KV_FAMILY_COUNT; f++)
            rocksdb_column_family_handle_destroy(db->families[f]);
        rocksdb_close(db->db);
    }
    rocksdb_readoptions_destroy(db->read); /* these accept NULL */
    rocksdb_writeoptions_destroy(db->write);
    rocksdb_options_destroy(db->options);
    rocksdb_options_destroy(db->record_options);
    rocksdb_options_destroy(db->pack_options);
    if (db->folder >= 0)
        close(db->folder);
    pl_free(db);
}

int kv_folder(const kv *db)
{
    return db ? db->folder : -1;
}

/* A follower reads the manifest, which names the table files, and then the write-ahead
 * log. Between these two steps the writer may write the oldest log file into a table
 * file and delete that log file. Then the follower has neither file, and shows a state
 * in which commits are missing. So the follower repeats both steps until no log file
 * was deleted in between. */
pl_status kv_refresh(kv *db)
{
    char *error = NULL;
    if (db->mode != KV_FOLLOW)
        return PL_OK;
    for (int i = 0; i < FOLLOW_TRIES; i++) {
        const log_files before = list_logs(db, UINT64_MAX);
        rocksdb_try_catch_up_with_primary(db->db, &error);
        PL_CHECK(judge_error("follow the writer of", db->path, error));
        if (!lost_log(db, before))
            return PL_OK;
    }
    return pl_fail(PL_ERR_BUSY,
                   "the writer of %s changed its files during each of %d attempts to "
                   "read them; try again",
                   db->path, FOLLOW_TRIES);
}

/* ---- reading ---- */
pl_status kv_get(kv *db, kv_family family, kv_slice key, kv_pin *out)
{
    char *error = NULL;
    *out = (kv_pin){0};
    rocksdb_pinnableslice_t *slice = rocksdb_get_pinned_cf(
        db->db, db->read, db->families[family], key.data, key.len, &error);
    PL_CHECK(judge_error("read", db->path, error));
    if (!slice)
        return PL_OK;
    out->handle = slice;
    out->data = (const uint8_t *)rocksdb_pinnableslice_value(slice, &out->len);
    return PL_OK;
}

void kv_unpin(kv_pin *pin)
{
    if (pin->handle && pin->copied)
        rocksdb_free(pin->handle);
    else if (pin->handle)
        rocksdb_pinnableslice_destroy(pin->handle);
    *pin = (kv_pin){0};
}

kv_cursor *kv_cursor_open(kv *db, kv_batch *batch, kv_family family, kv_slice prefix)
{
    row_walk *walk = pl_alloc(sizeof *walk);
    walk->db = db;
    walk->rows = rocksdb_create_iterator_cf(db->db, db->read, db->families[family]);
    if (batch)
        walk->rows = rocksdb_writebatch_wi_create_iterator_with_base_cf(
            batch->writes, walk->rows, db->families[family]);
    /* makes the pointer of the prefix valid even if the prefix is empty */
    pl_buf_reserve(&walk->prefix, prefix.len + 1);
    pl_buf_append(&walk->prefix, prefix.data, prefix.len);
    kv_cursor_seek(&walk->at, prefix);
    return &walk->at;
}

void kv_cursor_close(kv_cursor **handle)
{
    row_walk *walk = (row_walk *)*handle;
    *handle = NULL;
    if (!walk)
        return;
    rocksdb_iter_destroy(walk->rows);
    pl_buf_destroy(&walk->prefix);
    pl_free(walk);
}

void kv_cursor_seek(kv_cursor *at, kv_slice key)
{
    row_walk *walk = (row_walk *)at;
    rocksdb_iter_seek(walk->rows, key.data, key.len);
    walk->ready = true;
}

bool kv_cursor_next(kv_cursor *at)
{
    row_walk *walk = (row_walk *)at;
    char *error = NULL;
    if (!walk->ready)
        rocksdb_iter_next(walk->rows);
    walk->ready = false;
    at->status = PL_OK;
    at->valid = rocksdb_iter_valid(walk->rows);
    if (!at->valid) {
        rocksdb_iter_get_error(walk->rows, &error);
        at->status = judge_error("read", walk->db->path, error);
        return false;
    }
    at->key.data = rocksdb_iter_key(walk->rows, &at->key.len);
    at->value.data = rocksdb_iter_value(walk->rows, &at->value.len);
    at->valid = at->key.len >= walk->prefix.len &&
                memcmp(at->key.data, walk->prefix.data, walk->prefix.len) == 0;
    return at->valid;
}

pl_status kv_last_key(kv *db, kv_family family, pl_buf *out)
{
    char *error = NULL;
    size_t len;
    pl_buf_clear(out);
    rocksdb_iterator_t *rows =
        rocksdb_create_iterator_cf(db->db, db->read, db->families[family]);
    rocksdb_iter_seek_to_last(rows);
    if (rocksdb_iter_valid(rows)) {
        const char *key = rocksdb_iter_key(rows, &len);
        pl_buf_append(out, key, len);
    } else {
        rocksdb_iter_get_error(rows, &error);
    }
    rocksdb_iter_destroy(rows);
    return judge_error("read", db->path, error);
}

/* ---- writing ---- */
kv_batch *kv_batch_create(kv *db)
{
    kv_batch *batch = pl_alloc(sizeof *batch);
    batch->db = db;
    batch->writes = rocksdb_writebatch_wi_create(0, 1);
    pl_hasher_init(&batch->digest, "commit");
    return batch;
}

void kv_batch_destroy(kv_batch **handle)
{
    kv_batch *batch = *handle;
    *handle = NULL;
    if (!batch)
        return;
    rocksdb_writebatch_wi_destroy(batch->writes);
    pl_buf_destroy(&batch->kept);
    pl_free(batch);
}

void kv_batch_keep(kv_batch *batch)
{
    batch->keeps = true;
}

void kv_batch_sum(kv_batch *batch, row_sum *sum)
{
    batch->sum = sum;
}

pl_status kv_batch_summed(const kv_batch *batch)
{
    return batch->sum_status == PL_OK
               ? PL_OK
               : pl_fail(batch->sum_status,
                         "a row of %s that a commit replaces cannot "
                         "be read; look at the disk and the system's log",
                         batch->db->path);
}

int kv_order(kv_slice a, kv_slice b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int order = memcmp(a.data, b.data, n);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

kv_slice kv_batch_kept(const kv_batch *batch)
{
    return (kv_slice){batch->kept.data, batch->kept.len};
}

/* Adds an operation to the bytes that are hashed. Operations on the pack family are
 * left out, because the records of chunks and blobs contain the chunks' hashes. */
static void digest_operation(kv_batch *batch, uint8_t kind, kv_family family,
                             kv_slice key, kv_slice value)
{
    uint8_t head[10] = {kind, FAMILIES[family].id};
    if (family == KV_PACK)
        return;
    pl_le_put(head + 2, key.len, 4);
    pl_le_put(head + 6, value.len, 4);
    pl_hasher_add(&batch->digest, head, sizeof head);
    pl_hasher_add(&batch->digest, key.data, key.len);
    pl_hasher_add(&batch->digest, value.data, value.len);
    if (!batch->keeps)
        return;
    pl_buf_append(&batch->kept, head, sizeof head);
    pl_buf_append(&batch->kept, key.data, key.len);
    pl_buf_append(&batch->kept, value.data, value.len);
}

/* Replaces the row's present value in the sum by `value`; NULL: removes it. */
static void sum_operation(kv_batch *batch, kv_family family, kv_slice key,
                          const kv_slice *value)
{
    kv_pin old;
    if (!batch->sum || batch->sum_status != PL_OK || !row_sum_covers(family))
        return;
    batch->sum_status = kv_batch_get(batch, family, key, &old);
    if (batch->sum_status != PL_OK)
        return;
    if (old.data)
        row_sum_change(batch->sum, family, key, (kv_slice){old.data, old.len}, false);
    kv_unpin(&old);
    if (value)
        row_sum_change(batch->sum, family, key, *value, true);
}

void kv_put(kv_batch *batch, kv_family family, kv_slice key, kv_slice value)
{
    sum_operation(batch, family, key, &value);
    digest_operation(batch, OPERATION_PUT, family, key, value);
    rocksdb_writebatch_wi_put_cf(batch->writes, batch->db->families[family], key.data,
                                 key.len, value.data, value.len);
}

/* Deletes a row. In the pack family RocksDB's single deletion is used: row and deletion
 * both disappear at the first flush or compaction that sees both. Single deletion
 * requires that a key is written at most once, which is true for pack keys. */
void kv_delete(kv_batch *batch, kv_family family, kv_slice key)
{
    rocksdb_column_family_handle_t *handle = batch->db->families[family];
    sum_operation(batch, family, key, NULL);
    digest_operation(batch, OPERATION_DELETE, family, key, (kv_slice){"", 0});
    if (family == KV_PACK)
        rocksdb_writebatch_wi_singledelete_cf(batch->writes, handle, key.data, key.len);
    else
        rocksdb_writebatch_wi_delete_cf(batch->writes, handle, key.data, key.len);
}

pl_status kv_batch_get(kv_batch *batch, kv_family family, kv_slice key, kv_pin *out)
{
    char *error = NULL;
    kv *db = batch->db;
    *out = (kv_pin){.copied = true};
    out->handle = rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        batch->writes, db->db, db->read, db->families[family], key.data, key.len,
        &out->len, &error);
    PL_CHECK(judge_error("read", db->path, error));
    out->data = out->handle;
    return PL_OK;
}

uint64_t kv_batch_bytes(const kv_batch *batch)
{
    size_t bytes;
    rocksdb_writebatch_wi_data(batch->writes, &bytes);
    return bytes;
}

size_t kv_batch_count(const kv_batch *batch)
{
    return (size_t)rocksdb_writebatch_wi_count(batch->writes);
}

void kv_batch_digest(kv_batch *batch, pl_hash *out)
{
    pl_hasher_end(&batch->digest, out);
}

pl_status kv_commit(kv *db, kv_batch *batch)
{
    char *error = NULL;
    PL_CHECK(pl_failpoint("kv.commit.before"));
    rocksdb_write_writebatch_wi(db->db, db->write, batch->writes, &error);
    db->failed = db->failed || error;
    PL_CHECK(judge_error("write", db->path, error));
    return pl_failpoint("kv.commit.after");
}

/* ---- table files ---- */
struct kv_file {
    rocksdb_options_t *options;
    rocksdb_envoptions_t *environment;
    rocksdb_sstfilewriter_t *writer;
};

pl_status kv_file_create(const char *path, kv_file **out)
{
    char *error = NULL;
    kv_file *file = *out = pl_alloc(sizeof *file);
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_no_block_cache(table, 1);
    file->options = rocksdb_options_create();
    rocksdb_options_set_compression(file->options, rocksdb_no_compression);
    rocksdb_options_set_block_based_table_factory(file->options, table);
    rocksdb_block_based_options_destroy(table);
    file->environment = rocksdb_envoptions_create();
    file->writer = rocksdb_sstfilewriter_create(file->environment, file->options);
    rocksdb_sstfilewriter_open(file->writer, path, &error);
    if (!error)
        return PL_OK;
    kv_file_drop(out);
    return judge_error("write", path, error);
}

pl_status kv_file_put(kv_file *file, const char *path, kv_slice key, kv_slice value)
{
    char *error = NULL;
    rocksdb_sstfilewriter_put(file->writer, key.data, key.len, value.data, value.len,
                              &error);
    return judge_error("write", path, error);
}

pl_status kv_file_finish(kv_file **file, const char *path)
{
    char *error = NULL;
    PL_CHECK(pl_failpoint("kv.file.before"));
    rocksdb_sstfilewriter_finish((*file)->writer, &error);
    kv_file_drop(file);
    PL_CHECK(judge_error("write", path, error));
    return pl_failpoint("kv.file.after");
}

void kv_file_drop(kv_file **handle)
{
    kv_file *file = *handle;
    *handle = NULL;
    if (!file)
        return;
    rocksdb_sstfilewriter_destroy(file->writer);
    rocksdb_envoptions_destroy(file->environment);
    rocksdb_options_destroy(file->options);
    pl_free(file);
}

pl_status kv_take_in(kv *db, kv_family family, const char *const *paths, size_t n)
{
    char *error = NULL;
    PL_CHECK(pl_failpoint("kv.take_in.before"));
    rocksdb_ingestexternalfileoptions_t *options =
        rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
    rocksdb_ingest_external_file_cf(db->db, db->families[family], paths, n, options,
                                    &error);
    rocksdb_ingestexternalfileoptions_destroy(options);
    PL_CHECK(judge_error("write", db->path, error));
    return pl_failpoint("kv.take_in.after");
}

pl_status kv_drop_files(kv *db, kv_family family, kv_slice first, kv_slice last)
{
    char *error = NULL;
    rocksdb_delete_file_in_range_cf(db->db, db->families[family], first.data, first.len,
                                    last.data, last.len, &error);
    return judge_error("write", db->path, error);
}

/* The write buffer is flushed first, so that rows that were deleted while in the buffer
 * never reach a file. */
pl_status kv_compact(kv *db, kv_family family)
{
    char *error = NULL;
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(flush, 1);
    rocksdb_flush_cf(db->db, flush, db->families[family], &error);
    rocksdb_flushoptions_destroy(flush);
    PL_CHECK(judge_error("write", db->path, error));
    /* a text like "...; # entries=9; # deletions=3; ..." */
    char *tables = rocksdb_property_value_cf(db->db, db->families[family],
                                             "rocksdb.aggregated-table-properties");
    const char *deletions = tables ? strstr(tables, "# deletions=") : NULL;
    const bool is_clean = deletions && atoll(strchr(deletions, '=') + 1) == 0;
    rocksdb_free(tables);
    if (is_clean)
        return PL_OK;
    rocksdb_compact_range_cf(db->db, db->families[family], NULL, 0, NULL, 0);
    uint64_t n_errors = 0;
    rocksdb_property_int(db->db, "rocksdb.background-errors", &n_errors);
    return n_errors == 0
               ? PL_OK
               : pl_fail(PL_ERR_IO,
                         "the table files of %s could not be written anew, so their "
                         "space is not free yet; look for free space on its disk, and "
                         "give the command again",
                         db->path);
}
