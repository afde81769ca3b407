/* folder: store; label: unit */
#include "store/bulk.h"
#include "tests/support/store_child.h"
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Tests chunks of large blobs, which are written to files and not to the database's log
 * (store/bulk.h). What the store promises for other chunks must hold for these, too. */

/* FOLLOW_MS: how long a reader follows a writer; SLOW_MS: how much longer it may take
 * on a busy machine */
enum {
    PART = 100000,
    SMALL = 120000,
    BLOB = 2 << 20,
    FOLLOW_MS = 1000,
    SLOW_MS = 30000,
    PAUSE_MS = 20
};

static pl_store *open_bulk(const char *folder, pl_store_mode mode)
{
    pl_store *store = open_store(folder, mode);
    store->bulk_bytes = PART;
    return store;
}

/* Counts the files with chunks in a folder of the store: the table files that are
 * larger than PART or still empty. */
static int count_files(const char *folder, const char *inside)
{
    char path[PL_PATH_MAX], file[PL_PATH_MAX];
    struct stat info;
    int n = 0;
    DIR *entries = opendir(pl_join(path, folder, inside));
    for (struct dirent *e; entries && (e = readdir(entries));)
        n += pl_ends_with(e->d_name, ".sst") &&
             stat(pl_join(file, path, e->d_name), &info) == 0 &&
             (info.st_size == 0 || info.st_size > PART);
    if (entries)
        closedir(entries);
    return n;
}

static void assert_version(pl_store *store, uint64_t number, uint64_t seed, size_t n)
{
    OWNED(pl_version_clear) pl_version v;
    assert_ok(pl_store_get_version(store, "a/x", number, &v));
    assert_true(blob_holds(store, &v.params, seed, n));
}

STORE_TEST(large_blobs_lie_in_files_and_small_ones_in_the_log)
{
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, PART - 1);
    assert_int_equal(count_files(*state, "db"), 0);
    commit_version(store, "a/x", 1, 2, BLOB); /* has parameters and momentum */
    assert_int_equal(count_files(*state, "db"), 2);
    assert_int_equal(count_files(*state, "INCOMING"), 0);
    assert_version(store, 1, 2, BLOB);
    pl_store_close(&store);
    store = open_bulk(*state, PL_STORE_WRITE);
    assert_version(store, 0, 1, PART - 1);
    assert_version(store, 1, 2, BLOB);
    assert_whole(store);
}

STORE_TEST(a_file_goes_with_the_blob_that_it_holds)
{
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < 5; n++)
        commit_version(store, "a/x", n, n, BLOB);
    bulk_settle(store);
    /* One file for each version's parameters, and two for the two newest momenta. */
    assert_int_equal(count_files(*state, "db"), 5 + 2);
    for (uint64_t n = 0; n < 5; n++)
        assert_version(store, n, n, BLOB);
    assert_whole(store);
}

STORE_TEST(what_is_there_already_is_not_written_again)
{
    pl_hash first, again;
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, BLOB);
    pl_txn *txn = begin(store);
    first = put_bytes(txn, 1, BLOB);
    again = put_bytes(txn, 1, BLOB);
    assert_true(pl_hash_equal(&first, &again));
    assert_ok(pl_txn_put_object(txn, "a/o", &first));
    assert_int_equal(count_files(*state, "INCOMING"), 0);
    assert_ok(pl_txn_commit(&txn));
    assert_int_equal(count_files(*state, "db"), 1);
    assert_whole(store);
}

STORE_TEST(a_transaction_that_ends_leaves_no_file)
{
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    pl_txn *txn = begin(store);
    put_bytes(txn, 1, BLOB);
    assert_int_equal(count_files(*state, "INCOMING"), 1);
    pl_txn_abort(&txn);
    assert_int_equal(count_files(*state, "INCOMING"), 0);
    txn = begin(store);
    put_bytes(txn, 1, BLOB); /* no record names these bytes */
    assert_ok(pl_txn_commit(&txn));
    bulk_settle(store);
    assert_int_equal(count_files(*state, "db"), 0);
    commit_version(store, "a/x", 0, 1, BLOB);
    assert_version(store, 0, 1, BLOB);
    assert_whole(store);
}

/* A commit must store all its blobs, also if they are more than are written at the same
 * time. */
STORE_TEST(a_commit_of_many_large_blobs_has_them_all)
{
    enum { MANY = 20 };
    pl_hash ids[MANY];
    char name[32];
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    pl_txn *txn = begin(store);
    for (int i = 0; i < MANY; i++) {
        ids[i] = put_bytes(txn, 100 + (uint64_t)i, BLOB);
        snprintf(name, sizeof name, "a/%d", i);
        assert_ok(pl_txn_put_object(txn, name, &ids[i]));
    }
    assert_ok(pl_txn_commit(&txn));
    assert_int_equal(count_files(*state, "INCOMING"), 0);
    assert_int_equal(count_files(*state, "db"), MANY);
    for (int i = 0; i < MANY; i++)
        assert_true(blob_holds(store, &ids[i], 100 + (uint64_t)i, BLOB));
    assert_whole(store);
}

/* RocksDB refuses a batch of 4 GiB, and a batch is in memory. */
STORE_TEST(small_blobs_of_a_large_commit_lie_in_files)
{
    enum { FULL = 64, BEYOND = 5, ALL = FULL + BEYOND + 1 };
    pl_hash ids[ALL], large[2];
    char name[32];
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    pl_txn *txn = begin(store);
    for (int i = 0; i < ALL; i++) {
        ids[i] = put_bytes(txn, 100 + (uint64_t)i, PART - 1);
        snprintf(name, sizeof name, "a/%d", i);
        assert_ok(pl_txn_put_object(txn, name, &ids[i]));
    }
    assert_int_equal(bulk_files(txn), 1);
    /* the file ends before that of a large blob, because keys must rise */
    large[0] = put_bytes(txn, 7, 2 * PART);
    assert_ok(pl_txn_put_object(txn, "large", &large[0]));
    large[1] = put_bytes(txn, 8, PART - 1);
    assert_ok(pl_txn_put_object(txn, "small", &large[1]));
    assert_int_equal(bulk_files(txn), 3);
    assert_ok(pl_txn_commit(&txn));
    assert_int_equal(count_files(*state, "INCOMING"), 0);
    assert_int_equal(count_files(*state, "db"), 3);
    assert_true(blob_holds(store, &large[0], 7, 2 * PART));
    assert_true(blob_holds(store, &large[1], 8, PART - 1));
    for (int i = 0; i < ALL; i++)
        assert_true(blob_holds(store, &ids[i], 100 + (uint64_t)i, PART - 1));
    assert_whole(store);
    /* a blob that goes takes none with it that shares its file */
    txn = begin(store);
    for (int i = FULL; i < ALL; i += 2) {
        snprintf(name, sizeof name, "a/%d", i);
        assert_ok(pl_txn_drop_object(txn, name));
    }
    assert_ok(pl_txn_commit(&txn));
    for (int i = 0; i < ALL; i++)
        if (i < FULL || i % 2 == 1)
            assert_true(blob_holds(store, &ids[i], 100 + (uint64_t)i, PART - 1));
    assert_whole(store);
}

enum { GROUPS = (17 << 20) + 5 }; /* bytes: 2 groups of 8 MiB and a part */

static void check_object(pl_store *store, const char *name, const uint8_t *data,
                         size_t n)
{
    pl_hash id, wanted;
    pl_txn *txn = begin(store);
    OWNED(free_memory) uint8_t *back = pl_alloc(n);
    assert_ok(pl_txn_put_blob(txn, data, n, &id));
    pl_blob_hash(data, n, &wanted);
    assert_true(pl_hash_equal(&id, &wanted));
    assert_ok(pl_txn_put_object(txn, name, &id));
    assert_ok(pl_txn_commit(&txn));
    assert_ok(pl_store_read_blob(store, &id, 0, n, back));
    assert_memory_equal(back, data, n);
    assert_ok(pl_store_read_blob(store, &id, 3, n - 7, back));
    assert_memory_equal(back, data + 3, n - 7);
}

STORE_TEST(a_blob_that_is_put_while_it_is_hashed_is_the_same)
{
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    OWNED(free_memory) uint8_t *data = pl_alloc(GROUPS);
    /* All chunks are equal, except the last one. */
    check_object(store, "a/zeros", data, GROUPS);
    assert_int_equal(count_files(*state, "db"), 1);
    for (size_t i = 0; i < GROUPS; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    check_object(store, "a/new", data, GROUPS);
    assert_int_equal(count_files(*state, "db"), 2);
    check_object(store, "a/again", data, GROUPS);
    data[0] ^= 1; /* one chunk in the first group is new */
    check_object(store, "a/one", data, GROUPS);
    for (size_t at = 0; at < 8 << 20; at += 1 << 20)
        data[at] ^= 3; /* all chunks in the first group change */
    check_object(store, "a/group", data, GROUPS);
    assert_whole(store);
    pl_store_close(&store);
    store = open_bulk(*state, PL_STORE_WRITE);
    assert_whole(store);
}

/* If a file of chunks cannot be written, only its commit must fail. Here the file
 * reaches the limit for the size of files (RLIMIT_FSIZE) while it is written. */
STORE_TEST(a_file_that_cannot_be_written_fails_its_commit_alone)
{
    pl_hash id;
    struct rlimit whole, part;
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    OWNED(free_memory) uint8_t *data = pl_alloc(GROUPS);
    memset(data, 7, GROUPS);
    for (size_t i = 0; i < GROUPS; i += 1000)
        pl_le_put(data + i, i, 4);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &whole);
    part = (struct rlimit){9 << 20, whole.rlim_max};
    setrlimit(RLIMIT_FSIZE, &part);
    pl_txn *txn = begin(store);
    pl_status status = pl_txn_put_blob(txn, data, GROUPS, &id);
    if (status == PL_OK)
        status = pl_txn_put_object(txn, "a/o", &id);
    if (status == PL_OK)
        status = pl_txn_commit(&txn);
    pl_txn_abort(&txn);
    setrlimit(RLIMIT_FSIZE, &whole);
    assert_fails(status, PL_ERR_IO, "File too large");
    assert_int_equal(count_files(*state, "INCOMING"), 0);
    check_object(store, "a/o", data, GROUPS);
    assert_whole(store);
}

/* Commits a version whose parameters differ from those of other versions, but can be
 * coded in much less space relative to them. */
static void commit_smooth(pl_store *store, uint64_t number)
{
    pl_version v = {.module = "a/x", .number = number}, parent;
    OWNED(free_memory) uint32_t *words = pl_alloc(BLOB);
    pl_txn *txn = begin(store);
    for (size_t i = 0; i < BLOB / sizeof *words; i++)
        words[i] = 0x3f800000 + (uint32_t)(i / 256 + number);
    assert_ok(pl_txn_put_blob(txn, words, BLOB, &v.params));
    if (number > 0) {
        assert_ok(pl_store_head(store, "a/x", &parent));
        v.parent = parent.params;
        pl_version_clear(&parent);
    }
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
    assert_ok(pl_txn_commit(&txn));
}

STORE_TEST(a_file_goes_when_its_last_chunk_was_coded)
{
    bool more = true;
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < 8; n++)
        commit_smooth(store, n);
    assert_int_equal(count_files(*state, "db"), 8);
    for (int i = 0; more && i < 100; i++) /* each call codes one chunk */
        assert_ok(pl_store_recode(store, 1, &more));
    /* Versions 0 to 3 are coded (store/recode.c), so their files are dropped. */
    assert_int_equal(count_files(*state, "db"), 4);
    assert_whole(store);
}

/* The child process. It commits for at most a minute, but the test kills it earlier. It
 * pauses between commits, because on a disk that flushes nothing commits could be
 * faster than the reader. */
static int commit_on(const char *folder)
{
    int64_t end = pl_now_ms() + 60000;
    OWNED(pl_store_close) pl_store *store = open_bulk(folder, PL_STORE_WRITE);
    for (uint64_t n = 1; pl_now_ms() < end; n++) {
        commit_version(store, "a/x", n, n, SMALL);
        pl_sleep_ms(PAUSE_MS);
    }
    return 0;
}

/* A file may be removed between the reader's refresh and its read. So the reader tries
 * LOOKS times, which is enough on a busy machine. SIGHT is the mode of the reader
 * during the read; only with PL_STORE_READ may the read refresh the store itself. This
 * is needed under a sanitizer, because there the file is always removed before the
 * read. More than SEEN_MIN new commits must be seen. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LOOKS = 2, SIGHT = PL_STORE_READ, SEEN_MIN = 0 };
#else
enum { LOOKS = 50, SIGHT = PL_STORE_WRITE, SEEN_MIN = 2 };
#endif

/* Refreshes the reader, and reads the newest version and its bytes. Returns whether all
 * bytes were found. With SIGHT = PL_STORE_WRITE the read cannot hide a missing file by
 * a second refresh. */
static bool see_newest(pl_store *reader, uint64_t *number)
{
    bool whole = false;
    for (int i = 0; i < LOOKS && !whole; i++) {
        OWNED(pl_version_clear) pl_version head;
        assert_ok(pl_store_refresh(reader));
        reader->mode = (pl_store_mode)SIGHT;
        assert_ok(pl_store_head(reader, "a/x", &head));
        whole = blob_holds(reader, &head.params, head.number, SMALL);
        reader->mode = PL_STORE_READ;
        *number = head.number;
    }
    return whole;
}

STORE_TEST(a_follower_reads_them)
{
    pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    uint64_t newest = 0, number = 0;
    int n_seen = 0;
    commit_version(store, "a/x", 0, 0, SMALL);
    pl_store_close(&store);
    OWNED(pl_store_close) pl_store *reader = open_store(*state, PL_STORE_READ);
    store_child child = start_store_child(*state);
    const int64_t end = pl_now_ms() + FOLLOW_MS;
    while (pl_now_ms() < end || (n_seen <= SEEN_MIN && pl_now_ms() < end + SLOW_MS)) {
        assert_true(see_newest(reader, &number));
        n_seen += number > newest;
        newest = number;
    }
    kill_store_child(&child);
    print_message("%llu commits, %d seen as the newest\n", (unsigned long long)newest,
                  n_seen);
    assert_true(n_seen > SEEN_MIN);
}

/* ---- a process that ends after it has written files of chunks, but before it commits
 * the batch that names the chunks ---- */
static int die_before_the_batch(const char *folder)
{
    pl_store *store = open_bulk(folder, PL_STORE_WRITE);
    commit_version(store, "a/x", 1, 2, BLOB);
    return 0;
}

static void commit_until(const char *folder, const char *point, int passage)
{
    assert_int_equal(die_at(point, passage, "die", folder, NULL), SIGKILL);
}

/* The first commit of a process only raises the epoch, so the second one is killed. */
static void commit_and_die(const char *folder)
{
    commit_until(folder, "kv.commit.before", 2);
}

STORE_TEST(files_that_nothing_names_go_at_the_next_opening)
{
    OWNED(pl_store_close) pl_store *store = open_bulk(*state, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, BLOB);
    pl_store_close(&store);
    commit_and_die(*state);
    assert_int_equal(count_files(*state, "db"), 3);
    /* A reader finds no damage, even before a writer has deleted the two files. */
    store = open_store(*state, PL_STORE_READ);
    assert_whole(store);
    pl_store_close(&store);
    store = open_bulk(*state, PL_STORE_WRITE);
    assert_int_equal(pl_store_sequence(store), 1);
    assert_int_equal(count_files(*state, "db"), 1);
    assert_whole(store);
    /* These chunks get the keys that the deleted chunks had. */
    commit_version(store, "a/x", 1, 3, BLOB);
    pl_store_close(&store);
    store = open_bulk(*state, PL_STORE_WRITE);
    assert_version(store, 0, 1, BLOB);
    assert_version(store, 1, 3, BLOB);
    assert_whole(store);
}

/* A commit that is killed between writes of its files must leave nothing. Here a
 * version has two files (parameters and momentum), and one batch names the chunks of
 * both. */
STORE_TEST(a_commit_that_is_killed_between_its_files_leaves_nothing)
{
    static const struct {
        const char *point;
        int passages;
    } table[] = {{"kv.file.before", 2},
                 {"kv.file.after", 2},
                 {"kv.take_in.before", 1},
                 {"kv.take_in.after", 1}};
    char folder[PL_PATH_MAX];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int passage = 1; passage <= table[i].passages; passage++) {
            pl_store *store =
                open_bulk(pl_join(folder, *state, "killed"), PL_STORE_CREATE);
            commit_version(store, "a/x", 0, 1, BLOB);
            pl_store_close(&store);
            commit_until(folder, table[i].point, passage);
            store = open_bulk(folder, PL_STORE_WRITE);
            assert_int_equal(pl_store_sequence(store), 1);
            assert_int_equal(count_files(folder, "INCOMING"), 0);
            assert_int_equal(count_files(folder, "db"), 1);
            assert_whole(store);
            commit_version(store, "a/x", 1, 3, BLOB);
            pl_store_close(&store);
            store = open_bulk(folder, PL_STORE_WRITE);
            assert_version(store, 0, 1, BLOB);
            assert_version(store, 1, 3, BLOB);
            assert_whole(store);
            pl_store_close(&store);
            assert_ok(pl_remove_tree(folder));
        }
}

static void copy_to(const char *folder, const char *target)
{
    pl_mirror_report report;
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_mirror(store, target, false, &report));
    pl_store_close(&store);
    store = open_store(target, PL_STORE_READ);
    assert_whole(store);
}

/* A copy may have chunks that no record names, under keys that the source later uses
 * for different chunks. The next copy must replace these chunks. */
STORE_TEST(a_copy_is_right_again_after_bytes_that_nothing_names)
{
    char folder[PL_PATH_MAX], target[PL_PATH_MAX];
    pl_join(folder, *state, "one");
    pl_join(target, *state, "copy");
    OWNED(pl_store_close) pl_store *store = open_bulk(folder, PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, BLOB);
    pl_store_close(&store);
    commit_and_die(folder);
    copy_to(folder, target);
    store = open_bulk(folder, PL_STORE_WRITE);
    commit_version(store, "a/x", 1, 3, BLOB);
    pl_store_close(&store);
    copy_to(folder, target);
    store = open_store(target, PL_STORE_READ);
    assert_version(store, 1, 3, BLOB);
}

static void touch(const char *folder, const char *name)
{
    char path[PL_PATH_MAX];
    assert_ok(pl_replace_file(pl_join(path, folder, name), "x", 1));
}

STORE_TEST(a_part_of_a_copy_that_is_not_whole_is_not_opened)
{
    char part[PL_PATH_MAX], path[PL_PATH_MAX];
    OWNED(pl_store_close)
    pl_store *store = open_bulk(pl_join(part, *state, "home-2"), PL_STORE_CREATE);
    commit_version(store, "a/x", 0, 1, PART);
    pl_store_close(&store);
    touch(part, "LEFT");
    touch(*state, "COPY");
    assert_int_equal(pl_store_open(part, PL_STORE_WRITE, &store), PL_ERR_BUSY);
    assert_int_equal(rename(part, pl_join(path, *state, "elsewhere")), 0);
    /* Now the part is a link. The file COPY is in the folder that contains the link. */
    assert_int_equal(symlink("elsewhere", part), 0);
    assert_int_equal(pl_store_open(part, PL_STORE_WRITE, &store), PL_ERR_BUSY);
    unlink(pl_join(path, *state, "COPY"));
    store = open_bulk(part, PL_STORE_WRITE);
    assert_version(store, 0, 1, PART);
}

PL_CHILD(argc, argv)
{
    return strcmp(argv[0], "die") == 0 ? die_before_the_batch(argv[1])
                                       : commit_on(argv[1]);
}
