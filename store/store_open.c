/* Opens one store: takes the lock, checks the format, recovers the database, and checks
 * that no commit was lost.
 *
 * A writer opens a store in these steps; each step relies on the steps before it:
 *
 * - it takes the lock, so that no other process changes the store during the checks;
 * - it checks the format, so that it does not misread the store;
 * - it reads the mark;
 * - it checks that the disk has the space that recovery needs;
 * - it opens RocksDB, which recovers the database from the log;
 * - it checks the chain of commits;
 * - it compares the newest commit with the mark;
 * - it raises the epoch, which is the first write.
 *
 * A reader takes no lock, does not check the chain and changes nothing. */
#include "store/bulk.h"
#include "store/mirror.h"
#include "store/rollback.h"
#include "store/store_format.h"
#include "store/stores.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHAIN_CHECK_ROWS = 65536,
    RECOVERY_SPARE_BYTES = 16 << 20,
    CATCH_UP_TRIES = 20,
    CATCH_UP_ROWS = 4096,
    OPEN_TRIES = 5
};

row_source store_source(const pl_store *store)
{
    return (row_source){.db = store->db, .store = store};
}

/* ---- numbers in the database ---- */
uint64_t store_key_number(const uint8_t *key, size_t len)
{
    uint64_t number = 0;
    for (size_t i = 0; i < len && i < 8; i++)
        number = number << 8 | key[i];
    return number;
}

/* Reads the sequence number, log hash and epoch of the newest visible commit. */
static pl_status load_state(pl_store *store)
{
    pl_buf last = {0};
    kv_pin pin = {0};
    pl_status status = PL_OK;
    store->sequence = store->epoch = 0;
    PL_TRY(kv_last_key(store->db, KV_LOG, &last));
    if (last.len) {
        PL_TRY(kv_get(store->db, KV_LOG, (kv_slice){last.data, last.len}, &pin));
        store->sequence = store_key_number(last.data, last.len);
        pl_hash_of("log", pin.data, pin.len, &store->log_hash);
    }
    PL_TRY(number_read(store_source(store), "epoch", &store->epoch));
done:
    kv_unpin(&pin);
    pl_buf_destroy(&last);
    return status;
}

pl_status store_check_link(const kv_cursor *at, uint64_t expected, pl_hash *previous,
                           log_record *out)
{
    row_view row;
    uint64_t number = store_key_number(at->key.data, at->key.len);
    if (number != expected)
        return pl_fail(PL_ERR_DAMAGED,
                       "commit %llu is missing: the next commit in the store's log is "
                       "%llu; restore the store from a copy",
                       (unsigned long long)expected, (unsigned long long)number);
    PL_CHECK(row_open(KV_LOG, at->key, at->value, &row));
    PL_CHECK(log_decode(&row, out));
    if (!pl_hash_none(previous) && !pl_hash_equal(previous, &out->previous))
        return pl_fail(PL_ERR_DAMAGED,
                       "commit %llu does not follow the one before it in the store's "
                       "log; restore the store from a copy",
                       (unsigned long long)number);
    pl_hash_of("log", at->value.data, at->value.len, previous);
    return PL_OK;
}

/* Checks that the store is not older than the mark. Only a writer also checks that the
 * log row of the commit in the mark has the mark's hash, because the commits that a
 * reader sees may be newer than the mark that it has read. Commits that were not
 * acknowledged may follow that row. */
static pl_status check_mark(const pl_store *store, const watermark *mark)
{
    if (store->sequence < mark->sequence || store->epoch < mark->epoch)
        return pl_fail(PL_ERR_DAMAGED,
                       "the store %s has lost commits: it ends at commit %llu (epoch "
                       "%llu), but commit %llu (epoch %llu) was acknowledged; restore "
                       "it from a copy, or delete its file HWM to accept the loss",
                       store->folder, (unsigned long long)store->sequence,
                       (unsigned long long)store->epoch,
                       (unsigned long long)mark->sequence,
                       (unsigned long long)mark->epoch);
    if (store->mode == PL_STORE_READ || mark->sequence == 0)
        return PL_OK;
    row_key key = key_of_number(mark->sequence);
    kv_pin pin;
    pl_hash hash = {{0}};
    PL_CHECK(kv_get(store->db, KV_LOG, key_slice(&key), &pin));
    if (pin.data)
        pl_hash_of("log", pin.data, pin.len, &hash);
    kv_unpin(&pin);
    if (pl_hash_equal(&hash, &mark->log))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "commit %llu of the store %s is not the one that was acknowledged; "
                   "restore it from a copy",
                   (unsigned long long)mark->sequence, store->folder);
}

static pl_status open_places(pl_store *store)
{
    PL_CHECK(remote_open(store->folder, store->mode != PL_STORE_READ, &store->engine));
    store->places = store->engine ? &remote_places : &pack_places;
    store->bulk_bytes = store->places->bulk_bytes;
    return PL_OK;
}

/* ---- writers ---- */
/* Gets the sum of all rows after the newest commit. The first commit, and one after a
 * release that did not sum rows, begin with the rows that are there. */
static pl_status load_sum(pl_store *store)
{
    row_view row;
    log_record newest = {0};
    row_key key = key_of_number(store->sequence);
    PL_CHECK(row_read(store_source(store), KV_LOG, &key, &row));
    if (row.found)
        PL_CHECK(log_decode(&row, &newest));
    if (pl_hash_none(&newest.rows))
        return row_sum_all(store->db, &store->rows);
    PL_CHECK(sum_read(store_source(store), &store->rows));
    const pl_hash hash = row_sum_hash(&store->rows);
    if (pl_hash_equal(&hash, &newest.rows))
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "the sum of rows in the store %s is not that of its newest commit, "
                   "%llu; restore it from a copy",
                   store->folder, (unsigned long long)store->sequence);
}

/* Raises the epoch. The new epoch is durable before the first commit of this
 * opening. The first opening also writes a random id that distinguishes this store from
 * all other stores. */
static pl_status raise_epoch(pl_store *store)
{
    watermark next = {store->sequence, store->epoch + 1, store->log_hash};
    kv_batch *batch = kv_batch_create(store->db);
    row_key birth = key_of_name("store");
    pl_buf fields = {0};
    if (store->epoch == 0) {
        const uint64_t id[2] = {pl_random_fresh(), pl_random_fresh()};
        pl_put_bytes(&fields, 1, id, sizeof id);
        pl_put_u64(&fields, 2, (uint64_t)pl_wall_ms());
        row_write(batch, KV_META, &birth, &fields);
    }
    number_write(batch, "epoch", next.epoch);
    pl_status status = store_write(store, batch, &next);
    kv_batch_destroy(&batch);
    PL_CHECK(status);
    PL_CHECK(watermark_open(store->folder, &next, &store->mark));
    return watermark_set(&store->mark, &next);
}

/* Reads the newest commit, and checks the chain of commits and the mark.
 *
 * RocksDB's recovery may drop the end of one of its write-ahead logs and go on with the
 * next log. The chain of commits shows such a gap. Only the newest rows of the chain
 * can still be in a write-ahead log; older rows are in table files. So only the newest
 * rows are checked. */
static pl_status check_store_state(pl_store *store, bool marked, const watermark *mark)
{
    pl_hash previous = {{0}};
    log_record entry;
    PL_CHECK(load_state(store));
    const uint64_t first =
        store->sequence > CHAIN_CHECK_ROWS ? store->sequence - CHAIN_CHECK_ROWS + 1 : 1;
    const row_key start = key_of_number(first);
    kv_cursor *walk = kv_cursor_open(store->db, NULL, KV_LOG, (kv_slice){"", 0});
    pl_status status = PL_OK;
    kv_cursor_seek(walk, key_slice(&start));
    for (uint64_t expected = first;
         status == PL_OK && expected <= store->sequence && kv_cursor_next(walk);
         expected++)
        status = store_check_link(walk, expected, &previous, &entry);
    if (status == PL_OK)
        status = walk->status;
    kv_cursor_close(&walk);
    PL_CHECK(status);
    return marked ? check_mark(store, mark) : PL_OK;
}

/* After a power cut the log may have its full length, while bytes of the last records
 * in it are missing. RocksDB cannot distinguish this from damage to synced commits. The
 * mark makes the distinction possible, because it is flushed after every commit and
 * before the acknowledgement. So if all damage lies after the commit in the mark, the
 * damaged end of the log is cut off. Any other damage is an error. Until that is
 * proved, the log is only read, so a database that has lost commits stays unchanged. */
static pl_status mend_log(pl_store *store, const char *database, const watermark *mark)
{
    char damage[sizeof store->mended];
    pl_copy_text(damage, sizeof damage, pl_last_error());
    pl_status status = kv_open(database, KV_LOOK, NULL, &store->db);
    if (status == PL_OK)
        status = check_store_state(store, true, mark);
    if (status == PL_OK && mark->epoch == 0 && store->sequence > 0)
        status = pl_fail(PL_ERR_DAMAGED, "the store %s has lost its file HWM",
                         store->folder);
    kv_close(&store->db, false);
    if (status != PL_OK) {
        char loss[512];
        pl_copy_text(loss, sizeof loss, pl_last_error());
        return pl_fail(PL_ERR_DAMAGED, "%s (%s)", loss, damage);
    }
    PL_CHECK(kv_open(database, KV_MEND, NULL, &store->db));
    pl_copy_text(store->mended, sizeof store->mended, damage);
    return PL_OK;
}

pl_status store_open_target(const char *folder, kv **out)
{
    char database[PL_PATH_MAX];
    pl_store target = {.mode = PL_STORE_WRITE};
    pl_copy_text(target.folder, sizeof target.folder, folder);
    pl_join(database, folder, "db");
    pl_status status = kv_open(database, KV_MAKE, NULL, &target.db);
    if (status == PL_ERR_DAMAGED) {
        watermark mark = {0};
        bool marked = false;
        PL_CHECK(watermark_load(folder, &mark, &marked));
        status = mend_log(&target, database, &mark);
    }
    *out = target.db;
    return status;
}

/* Removes files of a writer that ended, and of a copy that was not decided. */
static pl_status drop_leftovers(const pl_store *store, bool has_commits)
{
    static const char *const names[] = {"INCOMING", "new", "LEFT"};
    char path[PL_PATH_MAX];
    for (int i = 0; i < (has_commits ? 3 : 1); i++)
        PL_CHECK(pl_remove_tree(pl_join(path, store->folder, names[i])));
    return PL_OK;
}

/* Opens the database for writing. If there is a mark, the store has had commits; a
 * missing database is then damage, and no new database is made. */
static pl_status open_writer(pl_store *store)
{
    char path[PL_PATH_MAX], database[PL_PATH_MAX];
    watermark mark;
    bool marked = false, in_engine = false;
    if (store->mode == PL_STORE_CREATE)
        PL_CHECK(pl_make_folders(store->folder));
    if (!pl_path_is_folder(store->folder))
        return pl_fail(PL_ERR_NOT_FOUND, "there is no store at %s", store->folder);
    pl_status status = pl_lock_folder(store->folder, &store->lock);
    if (status != PL_OK)
        return pl_fail_in(status, "the store cannot be opened");
    /* A copy may have been decided before this process had the lock. */
    PL_CHECK(mirror_check(store->folder));
    /* In a new store the file FORMAT is written first, before anything else. */
    status = store_format_check(store->folder, &in_engine);
    if (status == PL_ERR_NOT_FOUND && store->mode == PL_STORE_CREATE)
        status = store_format_write(store->folder, false);
    PL_CHECK(status);
    PL_CHECK(watermark_load(store->folder, &mark, &marked));
    pl_join(database, store->folder, "db");
    /* Recovery writes the content of the log into table files, and RocksDB would abort
     * the process on a full disk. */
    uint64_t log_bytes = 0;
    struct stat log;
    DIR *entries = opendir(database);
    for (struct dirent *e; entries && (e = readdir(entries));)
        if (pl_ends_with(e->d_name, ".log") &&
            stat(pl_join(path, database, e->d_name), &log) == 0)
            log_bytes += (uint64_t)log.st_size;
    if (entries)
        closedir(entries);
    const uint64_t needed = 2 * log_bytes + RECOVERY_SPARE_BYTES;
    /* leftovers may be all that fills the disk */
    if (marked && store_check_space(store->folder, "opening", needed) != PL_OK)
        PL_CHECK(drop_leftovers(store, mark.sequence > 0));
    PL_CHECK(store_check_space(store->folder, "opening", needed));
    status = kv_open(database, marked ? KV_WRITE : KV_MAKE, NULL, &store->db);
    if (status == PL_ERR_DAMAGED && marked)
        status = mend_log(store, database, &mark);
    PL_CHECK(status);
    PL_CHECK(check_store_state(store, marked, &mark));
    PL_CHECK(load_sum(store));
    PL_CHECK(drop_leftovers(store, store->sequence > 0));
    PL_CHECK(bulk_clean(store));
    PL_CHECK(mirror_clean(store));
    PL_CHECK(open_places(store));
    PL_CHECK(remote_check(store));
    PL_CHECK(raise_epoch(store));
    PL_CHECK(remote_claim(store));
    return rollback_resume(store);
}

/* ---- readers ---- */
/* While the writer changes files, a follower may see the families of a commit at
 * different times. So the follower reads until it shows commit `sequence` and epoch
 * `epoch`, which it has shown before or which the mark names. A follower reads the list
 * of files first and the log afterwards, so the log may have a new commit whose table
 * files are not in the list. Therefore the follower reads again until no new commit has
 * added table files. (It does not wait until there is no new commit at all, because a
 * busy writer makes new commits all the time.) */
static pl_status follow(pl_store *store, uint64_t sequence, uint64_t epoch)
{
    uint64_t known = sequence;
    PL_CHECK(load_state(store));
    for (int i = 0; i < CATCH_UP_TRIES; i++) {
        const bool behind = store->sequence < sequence || store->epoch < epoch;
        /* whether a commit after `known` may have added table files (bulk.h) */
        bool files = store->sequence > known + CATCH_UP_ROWS;
        for (uint64_t c = known + 1; c <= store->sequence && !files; c++) {
            row_view row;
            log_record entry = {0};
            row_key key = key_of_number(c);
            PL_CHECK(row_read(store_source(store), KV_LOG, &key, &row));
            if (row.found)
                PL_CHECK(log_decode(&row, &entry));
            files = !row.found || entry.n_files > 0;
        }
        if (!behind && !files)
            break;
        if (behind)
            pl_sleep_ms(i);
        else
            known = store->sequence;
        PL_CHECK(kv_refresh(store->db));
        PL_CHECK(load_state(store));
    }
    return PL_OK;
}

/* Returns whether a copy with a different history has replaced the store, or is
 * replacing it now (mirror_set.c). */
static bool is_replaced(const pl_store *store, int database)
{
    char path[PL_PATH_MAX];
    struct stat held, now;
    bool there = stat(pl_join(path, store->folder, "db"), &now) == 0;
    if (database < 0 || !there)
        return (database >= 0) != there;
    return fstat(database, &held) != 0 || held.st_dev != now.st_dev ||
           held.st_ino != now.st_ino;
}

static void use_database(pl_store *store, kv *fresh, bool frozen)
{
    kv_close(&store->db, false);
    store->db = fresh;
    store->frozen = frozen;
}

pl_status store_look_as_writer(pl_store *store)
{
    char database[PL_PATH_MAX];
    kv *fresh = NULL;
    if (store->mode != PL_STORE_READ || store->frozen)
        return PL_OK;
    PL_CHECK(kv_open(pl_join(database, store->folder, "db"), KV_LOOK, NULL, &fresh));
    use_database(store, fresh, true);
    return load_state(store);
}

/* Opens the database for reading, and shows the newest commit.
 *
 * While no writer runs, the reader opens the database from exactly the files that a
 * writer would use (`frozen`). It refuses a damaged file. It does not see further
 * commits, so a refresh opens the database again. A power cut may have damaged the end
 * of the log; then such a reader shows the commits before the damage. They include the
 * commit in the mark, which is checked, so no acknowledged commit is missing.
 *
 * While a writer runs, the reader follows it. A follower does not need all files: if a
 * table file is damaged, it shows the state before this file was written. */
static pl_status show_newest(pl_store *store)
{
    char path[PL_PATH_MAX];
    watermark mark;
    bool marked = false;
    PL_CHECK(watermark_load(store->folder, &mark, &marked));
    if (!marked)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "the store %s is still being made, or has lost its file HWM; "
                       "try again. If HWM is lost, run a command that writes to the "
                       "store, such as `pathloom store tag`; it makes the file again",
                       store->folder);
    /* The mark was read before the database, so the database must contain the commit in
     * the mark. A database that was opened while the writer changed files may never
     * show that commit, so it is opened again. */
    const char *database = pl_join(path, store->folder, "db");
    for (int i = 0; i < OPEN_TRIES; i++) {
        kv *fresh = NULL;
        bool frozen = !pl_store_has_writer(store->folder);
        pl_status status =
            kv_open(database, frozen ? KV_LOOK : KV_FOLLOW, store->own.path, &fresh);
        if (status != PL_OK && frozen && pl_store_has_writer(store->folder)) {
            /* a writer has begun meanwhile, and may have deleted files */
            frozen = false;
            status = kv_open(database, KV_FOLLOW, store->own.path, &fresh);
        } else if (status == PL_ERR_DAMAGED && !frozen) {
            frozen = true;
            status = kv_open(database, KV_LOOK, NULL, &fresh);
        }
        /* after an error, the database that was open before stays open */
        PL_CHECK(status);
        use_database(store, fresh, frozen);
        PL_CHECK(follow(store, mark.sequence, mark.epoch));
        if (check_mark(store, &mark) == PL_OK)
            return PL_OK;
    }
    return check_mark(store, &mark);
}

/* Opens or refreshes a reader while a copy may replace the store. The reader sees
 * either the old store or the copy, and never the mark of one with the database of the
 * other. This works because a copy is decided before its first rename, renames the
 * complete database folder at once, and counts as decided until its last rename. */
static pl_status look_whole(pl_store *store, pl_status (*look)(pl_store *))
{
    char path[PL_PATH_MAX];
    pl_status status = PL_OK;
    pl_join(path, store->folder, "db");
    for (int i = 0; i < OPEN_TRIES; i++) {
        /* While the folder is open, no other folder can get its inode number. */
        int database = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        status = mirror_check(store->folder);
        pl_status seen = status == PL_OK ? look(store) : status;
        if (status == PL_OK)
            status = mirror_check(store->folder);
        bool same = !is_replaced(store, database);
        if (database >= 0)
            close(database);
        PL_CHECK(status);
        if (same)
            return seen;
    }
    return pl_fail(PL_ERR_BUSY, "%s is being replaced by a copy; try again",
                   store->folder);
}

static pl_status look_first(pl_store *store)
{
    bool in_engine;
    PL_CHECK(store_format_check(store->folder, &in_engine));
    if (!store->own.path[0])
        PL_CHECK(scratch_make(&store->own));
    return show_newest(store);
}

pl_status store_open(pl_store *store)
{
    if (store->mode != PL_STORE_READ)
        return open_writer(store);
    PL_CHECK(look_whole(store, look_first));
    return open_places(store);
}

static pl_status refresh_reader(pl_store *store)
{
    watermark mark;
    bool marked = false;
    PL_CHECK(stores_check_number(store));
    if (is_replaced(store, kv_folder(store->db)))
        return show_newest(store);
    if (store->frozen) {
        /* The mark may be one commit behind while a writer runs. */
        const bool is_newest = !pl_store_has_writer(store->folder) &&
                               watermark_load(store->folder, &mark, &marked) == PL_OK &&
                               marked && mark.sequence == store->sequence &&
                               mark.epoch == store->epoch;
        return is_newest ? PL_OK : show_newest(store);
    }
    uint64_t sequence = store->sequence, epoch = store->epoch;
    PL_CHECK(kv_refresh(store->db));
    return follow(store, sequence, epoch);
}

pl_status store_refresh(pl_store *store)
{
    return look_whole(store, refresh_reader);
}

pl_status pl_store_check_access(const char *folder)
{
    if (access(folder, X_OK) == 0 || errno != EACCES)
        return PL_OK;
    return pl_fail(PL_ERR_NOPERM,
                   "this user may not look into the store %s; run the command as the "
                   "user that owns the store",
                   folder);
}

/* Closes a store. After a failed write, RocksDB and the lock are kept until the process
 * ends, because RocksDB may still be writing. */
void store_close(pl_store *store)
{
    bool abandon = store->refusal != PL_OK;
    bulk_settle(store);
    kv_close(&store->db, abandon);
    remote_close(&store->engine, abandon);
    watermark_close(&store->mark);
    if (!abandon)
        pl_unlock_folder(&store->lock);
    scratch_drop(&store->own);
    pl_free(store);
}
