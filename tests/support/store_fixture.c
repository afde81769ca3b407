/* Defines the functions of store_fixture.h. */
#include "tests/support/store_fixture.h"

int use_engine(const char *folder)
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
    uint8_t *bytes = make_bytes(seed, n);
    assert_ok(pl_txn_put_blob(txn, bytes, n, &hash));
    pl_free(bytes);
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
    uint8_t *expected = make_bytes(seed, n), *got = pl_alloc(n + 1);
    uint64_t bytes = 0;
    bool same = pl_store_blob_bytes(store, blob, &bytes) == PL_OK && bytes == n &&
                pl_store_read_blob(store, blob, 0, n, got) == PL_OK &&
                memcmp(expected, got, n) == 0;
    pl_free(expected);
    pl_free(got);
    return same;
}
