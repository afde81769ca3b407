/* folder: store; label: unit; alone */
#include "store/kv.h"
#include "tests/support/store_fixture.h"
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>

/* A follower reads first the manifest of a database, then its log. Tests what it sees
 * if, between these two readings, the writer makes a table file from the log and
 * deletes the log. Between the readings, RocksDB lists the folder of the database with
 * the function opendir. This program has its own opendir, which lets the writer work at
 * that moment. */

enum {
    ROW_BYTES = 1 << 20, /* so large that eight commits fill a write buffer */
    PAUSE_MS = 1,
    COMMITS_MAX = 5000
};

static kv *writer;
static char database[PL_PATH_MAX];
static uint64_t newest; /* number of the newest row */
/* How many of the next calls of opendir replace the log, or the database if `other` is
 * not empty. */
static int n_replacements;
static char other[PL_PATH_MAX];

static DIR *list(const char *path)
{
    DIR *(*next)(const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return next(path);
}

/* Returns the number of the oldest file of the log that is not empty. (RocksDB keeps
 * the empty file of the process that has made the database.) */
static uint64_t oldest_log(void)
{
    uint64_t oldest = UINT64_MAX;
    char path[PL_PATH_MAX];
    struct stat file;
    DIR *entries = list(database);
    for (struct dirent *e; (e = readdir(entries));)
        if (pl_ends_with(e->d_name, ".log") && strtoull(e->d_name, NULL, 10) < oldest &&
            stat(pl_join(path, database, e->d_name), &file) == 0 && file.st_size > 0)
            oldest = strtoull(e->d_name, NULL, 10);
    closedir(entries);
    return oldest;
}

static void commit_row(void)
{
    uint8_t key[8], *bytes = pl_alloc(ROW_BYTES);
    OWNED(kv_batch_destroy) kv_batch *batch = kv_batch_create(writer);
    newest++;
    for (int i = 0; i < 8; i++)
        key[i] = (uint8_t)(newest >> (56 - 8 * i));
    kv_put(batch, KV_LOG, (kv_slice){key, sizeof key}, (kv_slice){bytes, ROW_BYTES});
    assert_ok(kv_commit(writer, batch));
    pl_free(bytes);
}

/* Commits rows until the oldest file of the log is deleted. */
static void replace_log(void)
{
    uint64_t before = oldest_log();
    for (int i = 0; i < COMMITS_MAX && oldest_log() == before; i++) {
        commit_row();
        pl_sleep_ms(PAUSE_MS);
    }
    assert_true(oldest_log() > before);
}

static bool is_database(const char *path)
{
    struct stat given, own;
    return stat(path, &given) == 0 && stat(database, &own) == 0 &&
           given.st_dev == own.st_dev && given.st_ino == own.st_ino;
}

DIR *opendir(const char *path)
{
    if (n_replacements > 0 && is_database(path)) {
        n_replacements--;
        if (other[0]) { /* the database at `other` takes the place of the first */
            assert_ok(pl_exchange_folders(database, other));
            other[0] = '\0';
        } else {
            replace_log();
        }
    }
    return list(path);
}

static void assert_all_rows(kv *follower)
{
    uint64_t n = 0;
    kv_cursor *cursor = kv_cursor_open(follower, NULL, KV_LOG, (kv_slice){"", 0});
    for (; kv_cursor_next(cursor); n++)
        assert_int_equal(((const uint8_t *)cursor->key.data)[7], (n + 1) & 255);
    assert_ok(cursor->status);
    kv_cursor_close(&cursor);
    assert_int_equal(n, newest);
}

STORE_TEST(a_follower_misses_no_commit_while_the_log_is_replaced)
{
    char scratch[PL_PATH_MAX];
    kv *follower = NULL;
    pl_join(database, *state, "db");
    pl_join(scratch, *state, "scratch");
    assert_ok(kv_open(database, KV_MAKE, NULL, &writer));
    commit_row();
    for (int n = 1; n <= 2; n++) {
        n_replacements = n;
        assert_ok(kv_open(database, KV_FOLLOW, scratch, &follower));
        assert_int_equal(n_replacements, 0);
        assert_all_rows(follower);
        n_replacements = n;
        assert_ok(kv_refresh(follower));
        assert_int_equal(n_replacements, 0);
        assert_all_rows(follower);
        kv_close(&follower, false);
    }
    kv_close(&writer, false);
}

STORE_TEST(a_follower_that_never_reads_in_peace_says_so)
{
    char scratch[PL_PATH_MAX];
    kv *follower = NULL;
    pl_join(database, *state, "db");
    pl_join(scratch, *state, "scratch");
    newest = 0;
    assert_ok(kv_open(database, KV_MAKE, NULL, &writer));
    commit_row();
    assert_ok(kv_open(database, KV_FOLLOW, scratch, &follower));
    n_replacements = 1000;
    assert_fails(kv_refresh(follower), PL_ERR_BUSY, "try again");
    n_replacements = 0;
    assert_ok(kv_refresh(follower));
    assert_all_rows(follower);
    kv_close(&follower, false);
    kv_close(&writer, false);
}

/* A copy replaces the database's folder (mirror_set.c), by one whose rows are older. */
STORE_TEST(a_follower_stays_with_its_folder)
{
    char scratch[PL_PATH_MAX];
    kv *follower = NULL;
    pl_join(scratch, *state, "scratch");
    newest = 0;
    assert_ok(kv_open(pl_join(database, *state, "second"), KV_MAKE, NULL, &writer));
    kv_close(&writer, false);
    assert_ok(kv_open(pl_join(database, *state, "db"), KV_MAKE, NULL, &writer));
    /* so few that the writer, which knows its folder by the path, writes no table file
     */
    for (int i = 0; i < 5; i++)
        commit_row();
    pl_join(other, *state, "second");
    n_replacements = 1;
    assert_ok(kv_open(database, KV_FOLLOW, scratch, &follower));
    assert_int_equal(n_replacements, 0);
    assert_all_rows(follower);
    assert_ok(kv_refresh(follower));
    assert_all_rows(follower);
    kv_close(&follower, false);
    kv_close(&writer, false);
}
