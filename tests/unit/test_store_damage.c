/* folder: store; label: fault */
#include "store/rows.h"
#include "tests/support/store_fixture.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { KIB = 1024, MIB = 1024 * KIB, N_VERSIONS = 4 };

/* ---- helper functions ---- */
static const char *in_store(const void *folder, const char *name)
{
    static char path[PL_PATH_MAX];
    return pl_join(path, folder, name);
}

static void fill(const char *folder, size_t bytes)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_CREATE);
    for (uint64_t n = 0; n < N_VERSIONS; n++)
        commit_version(store, "a/x", n, n, bytes);
}

static pl_status try_open(const char *folder, pl_store_mode mode)
{
    OWNED(pl_store_close) pl_store *store;
    return pl_store_open(folder, mode, &store);
}

/* Flips the bits of `mask` in one byte of a file. A negative offset counts from the end
 * of the file. */
static void flip(const char *path, long offset, uint8_t mask)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    off_t at = offset < 0 ? lseek(fd, 0, SEEK_END) + offset : offset;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= mask;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Finds the file of db/ that has this ending and the highest name. */
static bool newest_file(const char *folder, const char *ending, char out[PL_PATH_MAX])
{
    char database[PL_PATH_MAX], name[PL_PATH_MAX] = "";
    DIR *entries = opendir(pl_join(database, folder, "db"));
    for (struct dirent *e; (e = readdir(entries));)
        if (pl_ends_with(e->d_name, ending) && strcmp(e->d_name, name) > 0)
            pl_copy_text(name, sizeof name, e->d_name);
    closedir(entries);
    pl_join(out, database, name);
    return *name;
}

static off_t file_size(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

/* Changes one byte of a stored value directly in the database, without the store. */
static void flip_row(const char *folder, kv_family family, row_key key, size_t at)
{
    kv *db;
    kv_pin pin;
    assert_ok(kv_open(in_store(folder, "db"), KV_WRITE, NULL, &db));
    assert_ok(kv_get(db, family, key_slice(&key), &pin));
    assert_non_null(pin.data);
    OWNED(free_memory) uint8_t *value = pl_alloc(pin.len);
    memcpy(value, pin.data, pin.len);
    value[at] ^= 0x10;
    OWNED(kv_batch_destroy) kv_batch *batch = kv_batch_create(db);
    kv_put(batch, family, key_slice(&key), (kv_slice){value, pin.len});
    assert_ok(kv_commit(db, batch));
    kv_unpin(&pin);
    kv_close(&db, false);
}

/* ---- rows ---- */
STORE_TEST(a_damaged_record_is_reported_by_name)
{
    pl_version v;
    fill(*state, 100);
    flip_row(*state, KV_VERSION, key_of_version("a/x", 2), 20);
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_WRITE);
    assert_fails(pl_store_get_version(store, "a/x", 2, &v), PL_ERR_DAMAGED,
                 "version/a/x:0000000000000002");
    assert_ok(pl_store_get_version(store, "a/x", 1, &v));
    pl_version_clear(&v);
    pl_store_close(&store);
    flip_row(*state, KV_HEAD, key_of_name("a/x"), 0);
    store = open_store(*state, PL_STORE_READ);
    assert_fails(pl_store_head(store, "a/x", &v), PL_ERR_DAMAGED, "head/a/x");
}

STORE_TEST(a_damaged_chunk_is_reported_by_name)
{
    char text[PL_HASH_TEXT];
    OWNED(free_memory) uint8_t *out = pl_alloc(3 * MIB);
    OWNED(pl_version_clear) pl_version v;
    fill(*state, 3 * MIB);
    /* This damages the second MiB of version 0. */
    flip_row(*state, KV_PACK, key_of_pack(1, 1), 12345);
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_WRITE);
    assert_ok(pl_store_get_version(store, "a/x", 0, &v));
    assert_ok(pl_store_read_blob(store, &v.params, 0, MIB, out));
    assert_ok(pl_store_read_blob(store, &v.params, 2 * MIB, MIB, out));
    assert_int_equal(pl_store_read_blob(store, &v.params, MIB - 1, 2, out),
                     PL_ERR_DAMAGED);
    pl_hash_format(&v.params, text);
    text[12] = 0;
    assert_said(text);
    assert_said("chunk 2 of 3");
    const pl_blob_read reads[] = {{&v.params, MIB, out}, {&v.params, 2 * MIB, out}};
    assert_fails(pl_store_read_blobs(store, reads, 2), PL_ERR_DAMAGED, "chunk 2 of 3");
}

STORE_TEST(a_gap_in_the_log_is_refused)
{
    kv *db;
    fill(*state, 100);
    assert_ok(kv_open(in_store(*state, "db"), KV_WRITE, NULL, &db));
    OWNED(kv_batch_destroy) kv_batch *batch = kv_batch_create(db);
    row_key key = key_of_number(2);
    kv_delete(batch, KV_LOG, key_slice(&key));
    assert_ok(kv_commit(db, batch));
    kv_close(&db, false);
    assert_fails(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED,
                 "commit 2 is missing");
}

STORE_TEST(a_changed_log_row_breaks_the_chain)
{
    fill(*state, 100);
    flip_row(*state, KV_LOG, key_of_number(3), 30);
    assert_fails(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED, "log/");
}

/* ---- damaged files ---- */
STORE_TEST(lost_commits_are_refused_with_both_numbers)
{
    char log[PL_PATH_MAX];
    fill(*state, 20000);
    assert_true(newest_file(*state, ".log", log));
    off_t full = file_size(log);
    /* If an acknowledged commit is missing, there must always be an error. */
    for (int i = 1; i <= 12; i++) {
        off_t cut = full - 1 - full * (i - 1) / 13;
        assert_int_equal(truncate(log, cut), 0);
        assert_int_equal(try_open(*state, PL_STORE_READ), PL_ERR_DAMAGED);
        if (i > 1)
            continue;
        assert_said("commit 3");
        assert_said("commit 4");
    }
    assert_fails(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED, "lost commits");
}

STORE_TEST(a_deleted_log_file_is_refused)
{
    char log[PL_PATH_MAX];
    fill(*state, 20000);
    assert_true(newest_file(*state, ".log", log));
    assert_int_equal(unlink(log), 0);
    assert_int_equal(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED);
}

STORE_TEST(a_mark_ahead_of_the_database_is_refused)
{
    fill(*state, 100);
    OWNED(pl_buf_destroy) pl_buf old = {0}, new = {0};
    assert_ok(pl_read_file(in_store(*state, "HWM"), &old));
    pl_store *store = open_store(*state, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS, 50, 100);
    pl_store_close(&store);
    assert_ok(pl_read_file(in_store(*state, "HWM"), &new));
    /* A crash after the commit of the database and before the write of HWM leaves an
     * older mark, which is accepted. */
    assert_ok(pl_replace_file(in_store(*state, "HWM"), old.data, old.len));
    assert_ok(try_open(*state, PL_STORE_WRITE));
    /* A missing database is refused. So is a new one, which does not have the commits
     * that HWM acknowledges. */
    assert_ok(pl_remove_tree(in_store(*state, "db")));
    assert_ok(pl_replace_file(in_store(*state, "HWM"), new.data, new.len));
    assert_int_equal(try_open(*state, PL_STORE_CREATE), PL_ERR_IO);
    assert_int_equal(try_open(*state, PL_STORE_READ), PL_ERR_IO);
    assert_ok(pl_remove_tree(in_store(*state, "HWM")));
    assert_ok(try_open(*state, PL_STORE_WRITE));
    assert_ok(pl_replace_file(in_store(*state, "HWM"), new.data, new.len));
    assert_fails(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED, "ends at commit 0");
    assert_said("commit 5");
}

STORE_TEST(one_torn_slot_of_the_mark_is_forgiven_two_are_not)
{
    fill(*state, 100);
    flip(in_store(*state, "HWM"), 9, 0xff);
    assert_ok(try_open(*state, PL_STORE_WRITE));
    flip(in_store(*state, "HWM"), 10, 0xff);
    flip(in_store(*state, "HWM"), 4096 + 10, 0xff);
    assert_int_equal(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED);
    assert_fails(try_open(*state, PL_STORE_READ), PL_ERR_DAMAGED, "HWM");
    assert_int_equal(truncate(in_store(*state, "HWM"), 4096), 0);
    assert_int_equal(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED);
}

static void set_format(const char *folder, const char *text)
{
    assert_ok(pl_replace_file(in_store(folder, "FORMAT"), text, strlen(text)));
}

STORE_TEST(another_format_is_refused)
{
    static const char *const others[] = {
        "pathloom store 2\nchunks rocksdb\n", "pathloom store 10\n",
        "pathloom store\nmajor 1\ncompat 0x0\nro_compat 0x0\nincompat 0x1\n"};
    static const char *const damaged[] = {"", "pathloom store 1\n",
                                          "pathloom store 1\nchunks rocksdb\nx",
                                          "pathloom store 1\nchunks elsewhere\n"};
    fill(*state, 100);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        set_format(*state, others[i]);
        assert_int_equal(try_open(*state, PL_STORE_WRITE), PL_ERR_UNSUPPORTED);
        assert_fails(try_open(*state, PL_STORE_READ), PL_ERR_UNSUPPORTED,
                     "but this release reads only the format `pathloom store 1`");
    }
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        set_format(*state, damaged[i]);
        assert_int_equal(try_open(*state, PL_STORE_WRITE), PL_ERR_DAMAGED);
    }
    set_format(*state, "pathloom store 1\nchunks rocksdb\n");
    assert_ok(try_open(*state, PL_STORE_WRITE));
}

/* Makes `bad` a copy of the store. The copy shares the files that no test damages,
 * which saves most of the time. own_file must be called before another file is changed.
 */
static void copy_store(const char *good, const char *bad)
{
    assert_ok(pl_remove_tree(bad));
    copy_folder(good, bad, good);
}

static void own_file(const char *path)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    assert_ok(pl_read_file(path, &bytes));
    assert_int_equal(unlink(path), 0);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
    fclose(file);
}

/* Checks that every version is complete or is refused. Returns true if all are
 * complete. */
static bool all_versions_are_right(pl_store *store, size_t bytes)
{
    bool whole = true;
    OWNED(free_memory) uint8_t *got = pl_alloc(bytes);
    for (uint64_t n = 0; n <= N_VERSIONS; n++) {
        pl_version v;
        if (pl_store_get_version(store, "a/x", n, &v) != PL_OK) {
            assert_true(strlen(pl_last_error()) > 0);
            whole = false;
            continue;
        }
        if (pl_store_read_blob(store, &v.params, 0, bytes, got) == PL_OK) {
            OWNED(free_memory) uint8_t *expected = make_bytes(n, bytes);
            assert_memory_equal(got, expected, bytes);
        } else
            whole = false;
        pl_version_clear(&v);
    }
    return whole;
}

/* Makes a copy of the store, flips one bit of one file (i determines both), and opens
 * the copy. Returns "empty" if the file is empty, "refused" if the store cannot be
 * opened, "named" if a version cannot be read, and otherwise "harmless". */
static const char *flip_and_look(const char *good, const char *bad, uint64_t i)
{
    char files[64][PL_PATH_MAX];
    int n_files = 0;
    copy_store(good, bad);
    char database[PL_PATH_MAX];
    DIR *entries = opendir(pl_join(database, bad, "db"));
    for (struct dirent *e; (e = readdir(entries)) && n_files < 63;)
        if (!pl_starts_with(e->d_name, "LO") && !pl_starts_with(e->d_name, "OPT") &&
            e->d_name[0] != '.')
            pl_join(files[n_files++], database, e->d_name);
    closedir(entries);
    pl_join(files[n_files++], bad, "HWM");
    const char *path = files[pl_random_u32(5, 0, i) % (uint32_t)n_files];
    off_t size = file_size(path);
    if (size == 0)
        return "empty";
    own_file(path);
    flip(path, (long)(pl_random_u32(5, 1, i) % (uint64_t)size),
         (uint8_t)(1u << (pl_random_u32(5, 2, i) % 8)));
    pl_store *store;
    if (pl_store_open(bad, PL_STORE_WRITE, &store) != PL_OK)
        return "refused";
    const char *verdict = all_versions_are_right(store, 30000) ? "harmless" : "named";
    pl_store_close(&store);
    return verdict;
}

STORE_TEST(a_flipped_bit_in_any_file_never_gives_wrong_data)
{
    char good[PL_PATH_MAX], bad[PL_PATH_MAX];
    int refused = 0, named = 0, harmless = 0;
    pl_join(good, *state, "good");
    pl_join(bad, *state, "bad");
    fill(good, 30000);
    /* Opening the store again turns its log into table files. */
    pl_store *store = open_store(good, PL_STORE_WRITE);
    commit_version(store, "a/x", N_VERSIONS, N_VERSIONS, 30000);
    pl_store_close(&store);
    for (uint64_t i = 0; i < 50; i++) {
        const char *verdict = flip_and_look(good, bad, i);
        refused += !strcmp(verdict, "refused");
        named += !strcmp(verdict, "named");
        harmless += !strcmp(verdict, "harmless");
    }
    print_message("50 flips: %d refused at open, %d named on reading, %d harmless\n",
                  refused, named, harmless);
    assert_true(refused > 5 && named > 0);
}

/* ---- damage of the log's last record ---- */
typedef struct tail {
    char good[PL_PATH_MAX], bad[PL_PATH_MAX], log[PL_PATH_MAX];
    off_t start, end; /* offsets in the log at which the last commit begins and ends */
    pl_buf before;    /* the file HWM before that commit */
} tail;

/* Makes a store whose last commit is one small record. Keeps a copy of HWM as it was
 * before this commit. */
static void make_tail(const char *folder, tail *t)
{
    char path[PL_PATH_MAX];
    memset(t, 0, sizeof *t);
    pl_join(t->good, folder, "good");
    pl_join(t->bad, folder, "bad");
    fill(t->good, 100);
    pl_store *store = open_store(t->good, PL_STORE_WRITE);
    commit_ref(store, "first", "a/x@1");
    assert_ok(pl_read_file(pl_join(path, t->good, "HWM"), &t->before));
    assert_true(newest_file(t->good, ".log", t->log));
    t->start = file_size(t->log);
    commit_ref(store, "last", "a/x@2");
    t->end = file_size(t->log);
    pl_store_close(&store);
    assert_true(t->end > t->start + 100);
}

/* Makes a copy of the store, and returns the path of its log. If `unsaid`, the copy's
 * HWM does not acknowledge the last commit. */
static const char *copy_tail(const tail *t, bool unsaid)
{
    static char log[PL_PATH_MAX];
    char path[PL_PATH_MAX];
    copy_store(t->good, t->bad);
    if (unsaid)
        assert_ok(pl_replace_file(pl_join(path, t->bad, "HWM"), t->before.data,
                                  t->before.len));
    pl_join(path, t->bad, "db");
    own_file(pl_join(log, path, strrchr(t->log, '/') + 1));
    return log;
}

/* Returns the next offset to damage after `at`: each byte of the record's header
 * (checksum, length, type), then every 67th byte, and the last one. Only the checksum
 * protects the bytes after the header, so it does not matter which of them change. */
static off_t next_offset(const tail *t, off_t at)
{
    enum { HEADER = 7, STEP = 67 };
    const off_t last = t->end - 1, next = at + (at < t->start + HEADER ? 1 : STEP);
    return at < last && next > last ? last : next;
}

static bool has_ref(pl_store *store, const char *name)
{
    OWNED(pl_buf_destroy) pl_buf target = {0};
    return pl_store_get_ref(store, name, &target) == PL_OK;
}

/* After a power cut, a commit that was not acknowledged is missing or complete. If the
 * commit was acknowledged and is missing, the store must be refused. */
STORE_TEST(a_log_cut_in_the_last_commit_loses_nothing_acknowledged)
{
    tail t;
    int n = 0;
    make_tail(*state, &t);
    for (off_t cut = t.start; cut < t.end; cut = next_offset(&t, cut), n++) {
        assert_int_equal(truncate(copy_tail(&t, true), cut), 0);
        pl_store *store = open_store(t.bad, PL_STORE_WRITE);
        assert_true(has_ref(store, "first"));
        assert_false(has_ref(store, "last"));
        assert_int_equal(pl_store_sequence(store), N_VERSIONS + 1);
        pl_store_close(&store);
        assert_int_equal(truncate(copy_tail(&t, false), cut), 0);
        assert_fails(try_open(t.bad, PL_STORE_WRITE), PL_ERR_DAMAGED, "lost commits");
    }
    print_message("%d cuts\n", n);
    assert_true(n > 15);
    pl_buf_destroy(&t.before);
}

STORE_TEST(a_flip_in_the_last_commit_is_refused)
{
    tail t;
    make_tail(*state, &t);
    for (off_t at = t.start; at < t.end; at = next_offset(&t, at)) {
        flip(copy_tail(&t, false), (long)at, (uint8_t)(1u << at % 8));
        assert_int_equal(try_open(t.bad, PL_STORE_WRITE), PL_ERR_DAMAGED);
        assert_true(strstr(pl_last_error(), t.bad) ||
                    strstr(pl_last_error(), "commit"));
    }
    pl_buf_destroy(&t.before);
}

/* Makes the log longer and fills it with zeros, as if only its length had been
 * written. */
static void end_with_zeros(const char *log, off_t cut, off_t length)
{
    assert_int_equal(truncate(log, cut), 0);
    assert_int_equal(truncate(log, length), 0);
}

/* Readers and then a writer must find all commits except the last one. A second writer
 * must find nothing to repair. */
static void assert_mended(const char *folder)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_true(has_ref(store, "first") && !has_ref(store, "last"));
    pl_store *writer = open_store(folder, PL_STORE_WRITE);
    assert_non_null(pl_store_mended(writer));
    assert_non_null(strstr(pl_store_mended(writer), "db"));
    assert_int_equal(pl_store_sequence(writer), N_VERSIONS + 1);
    assert_true(has_ref(writer, "first") && !has_ref(writer, "last"));
    commit_ref(writer, "next", "a/x@3");
    assert_ok(pl_store_refresh(store)); /* the reader follows again */
    assert_true(has_ref(store, "next"));
    pl_store_close(&writer);
    pl_store_close(&store);
    store = open_store(folder, PL_STORE_WRITE);
    assert_null(pl_store_mended(store));
    assert_true(has_ref(store, "next"));
}

static pl_status copy_into(const char *from, const char *to)
{
    pl_mirror_report report;
    OWNED(pl_store_close) pl_store *store = open_store(from, PL_STORE_READ);
    return pl_store_mirror(store, to, false, &report);
}

/* After a power cut during a backup, the next one goes on, also in the first backup,
 * which has no HWM yet. */
STORE_TEST(a_copy_goes_on_although_the_end_of_its_log_is_damaged)
{
    tail t;
    char path[PL_PATH_MAX];
    kv *db = NULL;
    make_tail(*state, &t);
    end_with_zeros(copy_tail(&t, true), t.start + 8, t.end);
    assert_ok(copy_into(t.good, t.bad));
    pl_store *copy = open_store(t.bad, PL_STORE_READ);
    assert_true(has_ref(copy, "last"));
    pl_store_close(&copy);
    end_with_zeros(copy_tail(&t, false), t.start + 8, t.end);
    assert_fails(copy_into(t.good, t.bad), PL_ERR_DAMAGED, "lost commits");
    end_with_zeros(copy_tail(&t, true), t.start + 8, t.end);
    assert_int_equal(remove(pl_join(path, t.bad, "HWM")), 0);
    assert_fails(copy_into(t.good, t.bad), PL_ERR_DAMAGED, "lost its file HWM");
    /* only chunks are there */
    assert_ok(pl_remove_tree(pl_join(path, t.bad, "db")));
    assert_ok(kv_open(path, KV_MAKE, NULL, &db));
    kv_batch *batch = kv_batch_create(db);
    kv_put(batch, KV_PACK, (kv_slice){"12345678", 8}, (kv_slice){"a chunk", 7});
    assert_ok(kv_commit(db, batch));
    kv_batch_destroy(&batch);
    kv_close(&db, false);
    assert_true(newest_file(t.bad, ".log", path));
    const off_t end = file_size(path);
    end_with_zeros(path, end - 4, end);
    assert_ok(copy_into(t.good, t.bad));
    pl_buf_destroy(&t.before);
}

STORE_TEST(a_tail_that_nobody_was_told_of_is_cut_off_whatever_it_holds)
{
    tail t;
    int n = 0;
    make_tail(*state, &t);
    for (off_t at = t.start + 8; at < t.end; at += 101, n++) {
        end_with_zeros(copy_tail(&t, true), at, t.end);
        assert_mended(t.bad);
        flip(copy_tail(&t, true), (long)at, (uint8_t)(1u << at % 8));
        assert_mended(t.bad);
    }
    print_message("%d tails of zeros and %d flips mended\n", n, n);
    assert_true(n > 5);
    pl_buf_destroy(&t.before);
}

STORE_TEST(the_same_tail_is_refused_if_it_was_acknowledged)
{
    tail t;
    OWNED(pl_buf_destroy) pl_buf before = {0}, after = {0};
    make_tail(*state, &t);
    for (off_t at = t.start; at < t.end; at = next_offset(&t, at)) {
        const char *log = copy_tail(&t, false);
        end_with_zeros(log, at, t.end + 4096);
        assert_ok(pl_read_file(log, &before));
        assert_fails(try_open(t.bad, PL_STORE_WRITE), PL_ERR_DAMAGED, "lost commits");
        if (at % 3 > 0)
            continue;
        assert_int_equal(try_open(t.bad, PL_STORE_READ), PL_ERR_DAMAGED);
        if (at > t.start + 7) { /* a header of zeros counts as the end of the log */
            assert_ok(pl_read_file(log, &after));
            assert_same_bytes(before, after);
        }
    }
    pl_buf_destroy(&t.before);
}

/* ---- writes that fail; each test opens the store in a child process, because a store
 * that has failed cannot be used further ---- */
/* Commits until a file would exceed the limit of 2 MiB for files. Then the store must
 * refuse writes, must continue to read, and must close without a crash. */
static int child_of_a_failing_disk(const char *folder)
{
    pl_store *store;
    pl_txn *txn;
    pl_version v;
    struct rlimit limit = {2 * MIB, 2 * MIB};
    signal(SIGXFSZ, SIG_IGN);
    if (pl_store_open(folder, PL_STORE_CREATE, &store) != PL_OK ||
        setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    pl_status status = PL_OK;
    for (uint64_t n = 0; status == PL_OK && n < 20; n++) {
        v = (pl_version){.module = "a/x", .number = 0};
        snprintf(v.module, sizeof v.module, "a/x%d", (int)n);
        OWNED(free_memory) uint8_t *bytes = make_bytes(n, MIB);
        if (pl_txn_begin(store, &txn) != PL_OK ||
            pl_txn_put_blob(txn, bytes, MIB, &v.params) != PL_OK ||
            pl_txn_put_version(txn, &v, (pl_keep){0}) != PL_OK)
            return 2;
        status = pl_txn_commit(&txn);
    }
    if (status != PL_ERR_IO || pl_txn_begin(store, &txn) != PL_ERR_IO ||
        !strstr(pl_last_error(), "restart"))
        return 3;
    if (pl_store_head(store, "a/x0", &v) != PL_OK ||
        !blob_holds(store, &v.params, 0, MIB))
        return 4;
    pl_version_clear(&v);
    pl_store_close(&store);
    return 0;
}

STORE_TEST(after_a_failed_write_only_reading_goes_on)
{
    OWNED(pl_version_clear) pl_version v;
    assert_int_equal(run_self(NULL, "test_store_damage", "failing", *state), 0);
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_WRITE);
    assert_ok(pl_store_head(store, "a/x0", &v));
    assert_true(blob_holds(store, &v.params, 0, MIB));
    assert_true(pl_store_sequence(store) >= 1);
    commit_version(store, "a/y", 0, 1, 100);
}

/* Puts n blobs of 3 MiB, which are so small that they are written to the log. */
static pl_status put_several(pl_txn *txn, const uint8_t *bytes, int n)
{
    char name[16];
    pl_hash hash;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "o%d", i);
        PL_CHECK(pl_txn_put_blob(txn, bytes + (size_t)i * 3 * MIB, 3 * MIB, &hash));
        PL_CHECK(pl_txn_put_object(txn, name, &hash));
    }
    return PL_OK;
}

static pl_status begin_again(pl_store *store, pl_txn **txn)
{
    pl_txn_abort(txn);
    return pl_txn_begin(store, txn);
}

/* Commits a blob of 12 MiB. Then commits a blob that has 8 MiB of new bytes and twice
 * the bytes of the first blob. */
static pl_status put_again_behind_new(pl_store *store)
{
    enum { NEW_BYTES = 8 * MIB, OLD_BYTES = 12 * MIB };
    pl_txn *txn = NULL;
    pl_hash hash;
    pl_status status = PL_OK;
    uint8_t *bytes = make_bytes(2, NEW_BYTES + 2 * OLD_BYTES);
    uint8_t *old = bytes + NEW_BYTES;
    memcpy(old + OLD_BYTES, old, OLD_BYTES);
    PL_TRY(pl_txn_begin(store, &txn));
    PL_TRY(pl_txn_put_blob(txn, old, OLD_BYTES, &hash));
    PL_TRY(pl_txn_put_object(txn, "old", &hash));
    PL_TRY(pl_txn_commit(&txn));
    PL_TRY(pl_txn_begin(store, &txn));
    PL_TRY(pl_txn_put_blob(txn, bytes, NEW_BYTES + 2 * OLD_BYTES, &hash));
    PL_TRY(pl_txn_put_object(txn, "new", &hash));
    PL_TRY(pl_txn_commit(&txn));
done:
    if (status != PL_OK)
        print_error("%s\n", pl_last_error());
    pl_txn_abort(&txn);
    pl_free(bytes);
    return status;
}

static int child_of_a_small_disk(const char *folder)
{
    pl_store *store;
    pl_txn *txn;
    pl_hash hash;
    if (mount("none", folder, "tmpfs", 0, "size=130m") != 0)
        return 77;
    char path[PL_PATH_MAX];
    pl_join(path, folder, "store");
    int code = 0;
    uint8_t *bytes = make_bytes(1, 50 * MIB);
    if (pl_store_open(path, PL_STORE_CREATE, &store) != PL_OK)
        code = 1;
    else if (pl_txn_begin(store, &txn) != PL_OK ||
             pl_txn_put_blob(txn, bytes, 50 * MIB, &hash) != PL_ERR_NOSPACE ||
             !strstr(pl_last_error(), "needs 114"))
        code = 2; /* the blob needs a file of its size, and the reserve */
    else if (begin_again(store, &txn) != PL_OK || put_several(txn, bytes, 8) != PL_OK ||
             pl_txn_commit(&txn) != PL_ERR_NOSPACE ||
             !strstr(pl_last_error(), "needs 112"))
        code = 3; /* the commit needs twice its size in the log */
    else if (pl_txn_begin(store, &txn) != PL_OK ||
             pl_txn_put_blob(txn, bytes, MIB, &hash) != PL_OK ||
             pl_txn_put_object(txn, "o", &hash) != PL_OK ||
             pl_txn_commit(&txn) != PL_OK)
        code = 4; /* a smaller commit is still possible */
    else if (put_again_behind_new(store) != PL_OK)
        code = 5; /* a larger blob with few new bytes is still possible */
    pl_store_close(&store);
    umount(folder);
    return code;
}

/* A commit that would not fit on the disk is refused before it starts. */
STORE_TEST(a_full_disk_is_noticed_before_the_commit)
{
    int code = run_self(NULL, "test_store_damage", "small", *state);
    if (code == 77) {
        print_message("skipped: mounting a tmpfs needs root\n");
        skip();
    }
    assert_int_equal(code, 0);
}

PL_CHILD(argc, argv)
{
    /* a store that has failed does not free its memory */
    _exit(strcmp(argv[1], "small") == 0 ? child_of_a_small_disk(argv[2])
                                        : child_of_a_failing_disk(argv[2]));
}
