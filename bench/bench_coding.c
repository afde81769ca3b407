/* bench_coding: what codings make of the versions of a trained module.
 *
 *   bench_coding STORE MODULE [folder=/tmp]
 *
 *   raw        as commits write it
 *   zstd N     each chunk by itself at level N: what RocksDB's own compression does to
 *              values of this size (3 is its default)
 *   planes     the four bytes of floats apart, zstd's Huffman coder
 *   store      what pl_store_recode leaves: old versions between their neighbours
 *
 * Ratios are of raw fp32 bytes of distinct chunks; equal chunks are counted once. Rates
 * are of raw bytes, one thread. The store is copied, not changed. */
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    pl_store *from, *to;
    char folder[PL_PATH_MAX];
    const char *module;
    uint64_t n; /* versions */
    uint64_t bytes;
    uint8_t *data; /* of one version */
} bench;

/* ---- codings of single chunks ---- */
typedef pl_status (*code_fn)(const uint8_t *data, size_t len, pl_buf *out);

static pl_status zstd_1(const uint8_t *data, size_t len, pl_buf *out)
{
    return pl_zip(data, len, 1, out);
}

static pl_status zstd_3(const uint8_t *data, size_t len, pl_buf *out)
{
    return pl_zip(data, len, 3, out);
}

static pl_status planes(const uint8_t *data, size_t len, pl_buf *out)
{
    uint8_t *split = pl_alloc(len + 1);
    pl_planes_split(data, len / 4, 4, split);
    pl_status status = pl_zip_huffman(split, len / 4 * 4, out);
    pl_free(split);
    return status;
}

static pl_status read_version(bench *b, pl_store *store, uint64_t number)
{
    pl_version v;
    PL_RETURN_IF(pl_store_get_version(store, b->module, number, &v));
    pl_status status =
        pl_store_read_blob(store, &v.params, 0, (size_t)b->bytes, b->data);
    pl_version_clear(&v);
    return status;
}

static void print_row(const char *name, double ratio, double code, double decode)
{
    printf("%-10s  %7.1f %%", name, 100 * ratio);
    if (code > 0)
        printf("  %9.0f  %9.0f", code / 1e6, decode / 1e6);
    printf("\n");
}

static pl_status run_coding(bench *b, const char *name, code_fn code)
{
    pl_buf coded = {0}, again = {0};
    double coding = 0, decoding = 0;
    uint64_t stored = 0;
    pl_status status = PL_OK;
    for (uint64_t n = 0; n < b->n; n++) {
        PL_TRY(read_version(b, b->from, n));
        for (uint64_t at = 0; at < b->bytes; at += PL_CHUNK_BYTES) {
            size_t len = b->bytes - at < PL_CHUNK_BYTES ? (size_t)(b->bytes - at)
                                                        : PL_CHUNK_BYTES;
            double start = pl_now();
            pl_buf_clear(&coded);
            PL_TRY(code(b->data + at, len, &coded));
            coding += pl_now() - start;
            start = pl_now();
            pl_buf_clear(&again);
            PL_TRY(pl_unzip(coded.data, coded.len, code == planes ? len / 4 * 4 : len,
                            &again));
            decoding += pl_now() - start;
            stored += coded.len < len ? coded.len : len;
        }
    }
    double all = (double)b->n * (double)b->bytes;
    print_row(name, (double)stored / all, all / coding, all / decoding);
done:
    pl_buf_destroy(&coded);
    pl_buf_destroy(&again);
    return status;
}

/* ---- the store's own ---- */
static pl_status copy_version(bench *b, uint64_t number, pl_hash *parent)
{
    pl_version v = {.number = number, .parent = *parent};
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    pl_copy_text(v.module, sizeof v.module, b->module);
    PL_TRY(read_version(b, b->from, number));
    PL_TRY(pl_txn_begin(b->to, &txn));
    PL_TRY(pl_txn_put_blob(txn, b->data, b->bytes, &v.params));
    PL_TRY(pl_txn_put_version(txn, &v, (pl_keep){false, false, 0}));
    PL_TRY(pl_txn_commit(&txn));
    *parent = v.params;
done:
    pl_txn_abort(&txn);
    return status;
}

static pl_status read_all(bench *b, uint64_t first, uint64_t end, double *rate)
{
    double start = pl_now();
    for (uint64_t n = first; n < end; n++)
        PL_RETURN_IF(read_version(b, b->to, n));
    *rate = (double)(end - first) * (double)b->bytes / (pl_now() - start);
    return PL_OK;
}

static pl_status run_store(bench *b)
{
    pl_hash parent = {{0}};
    pl_store_stats raw, coded;
    double old_rate, new_rate, start;
    bool more = true;
    for (uint64_t n = 0; n < b->n; n++)
        PL_RETURN_IF(copy_version(b, n, &parent));
    PL_RETURN_IF(pl_store_count(b->to, &raw));
    start = pl_now();
    while (more)
        PL_RETURN_IF(pl_store_recode(b->to, 64 << 20, &more));
    double rate = (double)raw.chunk_bytes / (pl_now() - start);
    PL_RETURN_IF(pl_store_count(b->to, &coded));
    uint64_t old_end = b->n > 4 ? b->n - 3 : 1;
    PL_RETURN_IF(read_all(b, 0, old_end, &old_rate));
    PL_RETURN_IF(read_all(b, old_end, b->n, &new_rate));
    print_row("store", (double)coded.stored_bytes / (double)coded.chunk_bytes, rate,
              old_rate);
    printf("\nof the store: coding with commits and checks, reading with hashes; the 3 "
           "newest,\nwhich lie raw, at %.0f MB/s. Equal chunks: %.1f %% of all.\n",
           new_rate / 1e6,
           100 - 100 * (double)raw.chunk_bytes / (double)raw.blob_bytes);
    return PL_OK;
}

static pl_status run(bench *b)
{
    pl_version head;
    PL_RETURN_IF(pl_store_head(b->from, b->module, &head));
    b->n = head.number + 1;
    pl_status status = pl_store_blob_bytes(b->from, &head.params, &b->bytes);
    pl_version_clear(&head);
    PL_RETURN_IF(status);
    PL_RETURN_IF(pl_try_alloc((size_t)b->bytes, "a version", (void **)&b->data));
    printf("%s: %llu versions of %llu bytes\n\n%-10s  %9s  %9s  %9s\n", b->module,
           (unsigned long long)b->n, (unsigned long long)b->bytes, "coding", "of raw",
           "code MB/s", "read MB/s");
    print_row("raw", 1, 0, 0);
    PL_RETURN_IF(run_coding(b, "zstd 1", zstd_1));
    PL_RETURN_IF(run_coding(b, "zstd 3", zstd_3));
    PL_RETURN_IF(run_coding(b, "planes", planes));
    return run_store(b);
}

int main(int argc, char **argv)
{
    bench b = {.module = argc > 2 ? argv[2] : ""};
    const char *parent =
        argc > 3 && pl_starts_with(argv[3], "folder=") ? argv[3] + 7 : "/tmp";
    if (argc < 3) {
        fprintf(stderr, "bench_coding STORE MODULE [folder=DIR]\n");
        return 64;
    }
    pl_join(b.folder, parent, "bench-coding-XXXXXX");
    if (!mkdtemp(b.folder)) {
        fprintf(stderr, "bench_coding: cannot make a folder in %s\n", parent);
        return pl_status_exit_code(PL_ERR_IO);
    }
    pl_status status = pl_store_open(argv[1], PL_STORE_READ, &b.from);
    if (status == PL_OK)
        status = pl_store_open(b.folder, PL_STORE_CREATE, &b.to);
    if (status == PL_OK)
        status = run(&b);
    if (status != PL_OK)
        fprintf(stderr, "bench_coding: %s\n", pl_last_error());
    pl_store_close(&b.to);
    pl_store_close(&b.from);
    pl_free_aligned(b.data);
    if (pl_remove_tree(b.folder) != PL_OK)
        fprintf(stderr, "bench_coding: %s\n", pl_last_error());
    return pl_status_exit_code(status);
}
