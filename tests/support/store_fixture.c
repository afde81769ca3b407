/* Defines the functions of store_fixture.h. */
#include "tests/support/store_fixture.h"
#include <dirent.h>
#include <sys/stat.h>

/* If the environment variable PL_TEST_ENGINE names an engine, prepares `folder` for a
 * store that keeps its chunks in this engine, under the name of the folder. So the same
 * tests can run with every engine (tests/ceph.sh). */
static int use_engine(const char *folder)
{
    char url[PL_PATH_MAX];
    const char *wanted = getenv("PL_TEST_ENGINE");
    if (!wanted)
        return 0;
    int path = (int)strcspn(wanted, "?");
    snprintf(url, sizeof url, "%.*s%s%s", path, wanted, strrchr(folder, '/'),
             wanted + path);
    return pl_store_make_on(folder, url) == PL_OK ? 0 : -1;
}

int make_folder(void **state)
{
    const char *root = getenv("TMPDIR");
    char *path = pl_alloc(PL_PATH_MAX);
    pl_join(path, root ? root : "/tmp", "pl-store-XXXXXX");
    *state = path;
    return mkdtemp(path) ? use_engine(path) : -1;
}

static void copy_file(const char *from, const char *to)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    assert_ok(pl_read_file(from, &bytes));
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
    fclose(file);
}

bool same_file(const char *a, const char *b)
{
    OWNED(pl_buf_destroy) pl_buf in_a = {0}, in_b = {0};
    return pl_read_file(a, &in_a) == PL_OK && pl_read_file(b, &in_b) == PL_OK &&
           in_a.len == in_b.len &&
           (in_a.len == 0 || memcmp(in_a.data, in_b.data, in_a.len) == 0);
}

/* Makes the file a link to the same file in the folder `before`, if there is one. */
static bool link_same(const char *file, const char *before, const char *name,
                      const char *to)
{
    char other[PL_PATH_MAX];
    return before && strcmp(name, "HWM") != 0 && !pl_ends_with(name, ".log") &&
           pl_path_exists(pl_join(other, before, name)) && same_file(file, other) &&
           link(other, to) == 0;
}

void copy_folder(const char *from, const char *to, const char *before)
{
    assert_int_equal(mkdir(to, 0777), 0);
    DIR *entries = opendir(from);
    assert_non_null(entries);
    for (struct dirent *e; (e = readdir(entries));) {
        char source[PL_PATH_MAX], target[PL_PATH_MAX];
        pl_join(source, from, e->d_name);
        pl_join(target, to, e->d_name);
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (pl_path_is_folder(source)) {
            char inner[PL_PATH_MAX];
            copy_folder(source, target,
                        before ? pl_join(inner, before, e->d_name) : NULL);
        } else if (!link_same(source, before, e->d_name, target)) {
            copy_file(source, target);
        }
    }
    closedir(entries);
}

int drop_folder(void **state)
{
    pl_status status = pl_remove_tree(*state);
    pl_free(*state);
    return status == PL_OK ? 0 : -1;
}

uint8_t *make_bytes(uint64_t seed, size_t n)
{
    uint8_t *bytes = pl_alloc(n + 1);
    for (size_t at = 0; at < n; at += 16) {
        uint32_t block[4];
        pl_philox(seed, 7, at / 16, block);
        memcpy(bytes + at, block, n - at < 16 ? n - at : 16);
    }
    return bytes;
}

pl_hash put_bytes(pl_txn *txn, uint64_t seed, size_t n)
{
    pl_hash hash;
    OWNED(free_memory) uint8_t *bytes = make_bytes(seed, n);
    assert_ok(pl_txn_put_blob(txn, bytes, n, &hash));
    return hash;
}

pl_store *open_store(const char *folder, pl_store_mode mode)
{
    pl_store *store;
    assert_ok(pl_store_open(folder, mode, &store));
    return store;
}

pl_txn *begin(pl_store *store)
{
    pl_txn *txn;
    assert_ok(pl_txn_begin(store, &txn));
    return txn;
}

void commit_version(pl_store *store, const char *module, uint64_t number, uint64_t seed,
                    size_t n)
{
    pl_version v = {.number = number}, parent = {.number = 0};
    pl_txn *txn = begin(store);
    pl_copy_text(v.module, sizeof v.module, module);
    pl_copy_text(v.method, sizeof v.method, "test");
    v.params = put_bytes(txn, seed, n);
    if (number > 0) {
        assert_ok(pl_store_head(store, module, &parent));
        v.parent = parent.params;
        v.momentum = put_bytes(txn, seed + 1000, n);
    }
    pl_version_clear(&parent);
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
    assert_ok(pl_txn_commit(&txn));
}

bool blob_holds(pl_store *store, const pl_hash *blob, uint64_t seed, size_t n)
{
    OWNED(free_memory) uint8_t *expected = make_bytes(seed, n), *got = pl_alloc(n + 1);
    uint64_t bytes = 0;
    return pl_store_blob_bytes(store, blob, &bytes) == PL_OK && bytes == n &&
           pl_store_read_blob(store, blob, 0, n, got) == PL_OK &&
           memcmp(expected, got, n) == 0;
}

void commit_ref(pl_store *store, const char *name, const char *target)
{
    pl_txn *txn = begin(store);
    assert_ok(pl_txn_put_ref(txn, name, target));
    assert_ok(pl_txn_commit(&txn));
}

void assert_ref(pl_store *store, const char *name, const char *expected)
{
    OWNED(pl_buf_destroy) pl_buf target = {0};
    const pl_status status = pl_store_get_ref(store, name, &target);
    assert_int_equal(status, expected ? PL_OK : PL_ERR_NOT_FOUND);
    if (expected)
        assert_string_equal(pl_buf_text(&target), expected);
}

void put_object(pl_txn *txn, const char *name, const void *bytes, size_t n)
{
    pl_hash blob;
    assert_ok(pl_txn_put_blob(txn, bytes, n, &blob));
    assert_ok(pl_txn_put_object(txn, name, &blob));
}

static void print_problem(void *context, const char *sentence)
{
    (void)context;
    print_error("%s\n", sentence);
}

void assert_whole(pl_store *store)
{
    pl_audit_report report;
    assert_ok(pl_store_audit(store, true, print_problem, NULL, &report));
    assert_int_equal(report.n_problems, 0);
}
