/* bench_store: what a commit costs, by the bytes that it brings, with real syncs.
 *
 *   bench_store folder=/tmp repeats=40
 *
 * Each commit is what a home writes for one module: parameters and momentum of the
 * next version (the bytes of the row, half each); the momentum of two versions before
 * is deleted by it. `written` is what the process gave to the disk for each byte
 * stored, flushes and compactions included. The store lies in a new folder inside the
 * given one and is removed. */
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    char folder[PL_PATH_MAX];
    int64_t repeats;
    pl_store *store;
    uint8_t *data;
    double *seconds;
} bench;

static int by_value(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static uint64_t written_bytes(void)
{
    unsigned long long bytes = 0;
    char line[128];
    FILE *io = fopen("/proc/self/io", "r");
    while (io && fgets(line, sizeof line, io))
        if (sscanf(line, "write_bytes: %llu", &bytes) == 1)
            break;
    if (io)
        fclose(io);
    return bytes;
}

/* New bytes, as incompressible and as different as trained weights. */
static void refill(bench *b, size_t n, uint64_t seed)
{
    for (size_t at = 0; at + 16 <= n; at += 16) {
        uint32_t block[4];
        pl_philox(seed, 1, at / 16, block);
        memcpy(b->data + at, block, sizeof block);
    }
}

static pl_status commit(bench *b, size_t bytes, uint64_t number, pl_hash *parent)
{
    pl_version v = {.module = "bench/x", .number = number, .parent = *parent};
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    size_t half = bytes / 2;
    PL_TRY(pl_txn_begin(b->store, &txn));
    PL_TRY(pl_txn_put_blob(txn, b->data, half, &v.params));
    PL_TRY(pl_txn_put_blob(txn, b->data + half, half, &v.momentum));
    PL_TRY(pl_txn_put_version(txn, &v, (pl_keep){false, false, false}));
    PL_TRY(pl_txn_commit(&txn));
    *parent = v.params;
done:
    pl_txn_abort(&txn);
    return status;
}

static pl_status read_all(bench *b, size_t half, uint64_t count, double *seconds)
{
    double start = pl_now();
    for (uint64_t n = 0; n < count; n++) {
        pl_version v;
        PL_RETURN_IF(pl_store_get_version(b->store, "bench/x", n, &v));
        pl_status status = pl_store_read_blob(b->store, &v.params, 0, half, b->data);
        pl_version_clear(&v);
        PL_RETURN_IF(status);
    }
    *seconds = pl_now() - start;
    return PL_OK;
}

static pl_status reopen(bench *b, double *seconds)
{
    pl_store_close(&b->store);
    double start = pl_now();
    PL_RETURN_IF(pl_store_open(b->folder, PL_STORE_WRITE, &b->store));
    *seconds = pl_now() - start;
    return PL_OK;
}

static pl_status run_size(bench *b, size_t bytes)
{
    pl_hash parent = {{0}};
    double open_seconds = 0, read_seconds = 0, total = 0;
    size_t n = (size_t)b->repeats;
    PL_RETURN_IF(pl_remove_tree(b->folder));
    PL_RETURN_IF(pl_store_open(b->folder, PL_STORE_CREATE, &b->store));
    uint64_t before = written_bytes();
    for (size_t i = 0; i < n; i++) {
        refill(b, bytes, i);
        double start = pl_now();
        PL_RETURN_IF(commit(b, bytes, i, &parent));
        b->seconds[i] = pl_now() - start;
        total += b->seconds[i];
    }
    double amplification = (double)(written_bytes() - before) / (double)(n * bytes);
    PL_RETURN_IF(reopen(b, &open_seconds));
    PL_RETURN_IF(read_all(b, bytes / 2, n, &read_seconds));
    qsort(b->seconds, n, sizeof *b->seconds, by_value);
    printf("%9.2f MB  %8.2f  %8.2f  %8.2f  %7.0f  %7.2f  %9.0f  %8.0f\n",
           (double)bytes / 1e6, b->seconds[n / 2] * 1e3, b->seconds[n * 9 / 10] * 1e3,
           b->seconds[n - 1] * 1e3, (double)(n * bytes) / total / 1e6, amplification,
           (double)(n * bytes) / 2 / read_seconds / 1e6, open_seconds * 1e3);
    pl_store_close(&b->store);
    return PL_OK;
}

static pl_status run(bench *b)
{
    static const size_t sizes[] = {100000, 262144, 1000000, 4000000, 16000000};
    const size_t n_sizes = sizeof sizes / sizeof *sizes;
    pl_status status = PL_OK;
    void *data = NULL;
    PL_TRY(pl_try_alloc(sizes[n_sizes - 1], "the bytes to store", &data));
    b->data = data;
    b->seconds = pl_alloc((size_t)b->repeats * sizeof *b->seconds);
    printf("%12s  %8s  %8s  %8s  %7s  %7s  %9s  %8s\n", "a commit", "p50 ms", "p90 ms",
           "max ms", "MB/s", "written", "read MB/s", "open ms");
    for (size_t i = 0; i < n_sizes; i++)
        PL_TRY(run_size(b, sizes[i]));
done:
    pl_store_close(&b->store);
    pl_free(b->seconds);
    pl_free_aligned(data);
    if (pl_remove_tree(b->folder) != PL_OK)
        fprintf(stderr, "bench_store: %s\n", pl_last_error());
    return status;
}

int main(int argc, char **argv)
{
    bench b = {.repeats = 40};
    const char *parent = "/tmp";
    for (int i = 1; i < argc; i++)
        if (pl_starts_with(argv[i], "folder="))
            parent = argv[i] + 7;
        else if (!pl_starts_with(argv[i], "repeats=") ||
                 pl_parse_int(argv[i] + 8, &b.repeats) != PL_OK || b.repeats < 1) {
            fprintf(stderr, "bench_store [folder=DIR] [repeats=N]\n");
            return 64;
        }
    pl_join(b.folder, parent, "bench-store-XXXXXX");
    if (!mkdtemp(b.folder)) {
        fprintf(stderr, "bench_store: cannot make a folder in %s\n", parent);
        return pl_status_exit_code(PL_ERR_IO);
    }
    pl_status status = run(&b);
    if (status != PL_OK)
        fprintf(stderr, "bench_store: %s\n", pl_last_error());
    return pl_status_exit_code(status);
}
