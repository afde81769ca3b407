/* pathloom bench store: measures the time of a commit for different numbers of bytes,
 * with real syncs to the disk.
 *
 * Each commit writes the data that a home writes for one module: parameters and
 * momentum of the next version (each has half of the bytes that the row names). A
 * commit also deletes the momentum of the version before the previous one. `written` is
 * the number of bytes that the process wrote to disk per byte stored, including flushes
 * and compactions. Each commit is compared with writing the same bytes to a file and
 * flushing it (`of plain`), and each read with reading as many bytes from a file in the
 * page cache (`of cache`); both are medians of ratios. `1st` is the time of the first
 * read after all commits. The store is made in a new folder inside the given one and
 * removed afterwards. With an engine, chunks are stored there and not deleted. */
#include "measure/measure.h"
#include "measure/home_process.h"
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

typedef struct bench {
    char folder[PL_PATH_MAX], plain[PL_PATH_MAX + 8];
    const char *engine;
    int64_t repeats, bytes; /* bytes of a commit; 0: all sizes */
    pl_store *store;
    uint8_t *data;
    /* [repeats] each. seconds: time of a commit; share: speed of a commit / speed of a
     * plain write; read_share: speed of a read / speed of a plain read; first: time of
     * the first read of a version */
    double *seconds, *share, *read_share, *first;
} bench;

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

static pl_status commit_bench_version(bench *b, size_t bytes, uint64_t number,
                                      pl_hash *parent)
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

/* Measures the disk and the page cache alone: returns the seconds to write and flush a
 * new file, or to read the file again. */
static double plain_seconds(const bench *b, size_t bytes, bool reads)
{
    int file = open(b->plain, reads ? O_RDONLY : O_CREAT | O_TRUNC | O_WRONLY, 0600);
    double start = pl_now();
    ssize_t n = reads ? pread(file, b->data, bytes, 0) : write(file, b->data, bytes);
    bool good = n == (ssize_t)bytes && (reads || fsync(file) == 0);
    double seconds = pl_now() - start;
    close(file);
    return good ? seconds : 0;
}

static pl_status time_one_read(bench *b, size_t half, uint64_t number, double *seconds)
{
    pl_version v;
    double start = pl_now();
    PL_CHECK(pl_store_get_version(b->store, "bench/x", number, &v));
    pl_status status = pl_store_read_blob(b->store, &v.params, 0, half, b->data);
    *seconds = pl_now() - start;
    pl_version_clear(&v);
    return status;
}

static pl_status run_size(bench *b, size_t bytes)
{
    pl_hash parent = {{0}};
    double read_seconds = 0, total = 0;
    size_t n = (size_t)b->repeats;
    PL_CHECK(pl_remove_tree(b->folder));
    /* a place in the engine per size: files there belong to another store */
    char place[PL_PATH_MAX];
    int path = (int)strcspn(b->engine, "?");
    snprintf(place, sizeof place, "%.*s/%lld.%zu%s", path, b->engine,
             (long long)pl_wall_ms(), bytes, b->engine + path);
    PL_CHECK(pl_store_make_on(b->folder, *b->engine ? place : "rocksdb"));
    PL_CHECK(pl_store_open(b->folder, PL_STORE_CREATE, &b->store));
    uint64_t stored = 0;
    for (size_t i = 0; i < n; i++) {
        /* new bytes for each commit, like trained weights */
        measure_fill(b->data, bytes, i, 1);
        uint64_t before = written_bytes();
        double start = pl_now();
        PL_CHECK(commit_bench_version(b, bytes, i, &parent));
        b->seconds[i] = pl_now() - start;
        total += b->seconds[i];
        stored += written_bytes() - before;
        pl_sleep_ms(30); /* the store's thread may still be deleting old files */
        b->share[i] = plain_seconds(b, bytes, false) / b->seconds[i];
    }
    double amplification = (double)stored / (double)(n * bytes);
    pl_store_close(&b->store);
    const double reopened = pl_now();
    PL_CHECK(pl_store_open(b->folder, PL_STORE_WRITE, &b->store));
    const double open_seconds = pl_now() - reopened;
    for (uint64_t i = 0; i < n; i++) {
        double store = 0;
        /* reading once brings the file into the page cache */
        PL_CHECK(time_one_read(b, bytes / 2, i, &b->first[i]));
        PL_CHECK(time_one_read(b, bytes / 2, i, &store));
        b->read_share[i] = plain_seconds(b, bytes / 2, true) / store;
        read_seconds += store;
    }
    measure_sort(b->seconds, n);
    measure_sort(b->share, n);
    measure_sort(b->first, n);
    measure_sort(b->read_share, n);
    say("%9.2f MB  %8.2f  %8.2f  %8.2f  %7.0f  %6.0f %%  %7.2f  %9.0f  %9.0f  "
        "%6.0f %%  %7.0f",
        (double)bytes / 1e6, b->seconds[n / 2] * 1e3, b->seconds[n * 9 / 10] * 1e3,
        b->seconds[n - 1] * 1e3, (double)(n * bytes) / total / 1e6,
        1e2 * b->share[n / 2], amplification, (double)bytes / 2 / b->first[n / 2] / 1e6,
        (double)(n * bytes) / 2 / read_seconds / 1e6, 1e2 * b->read_share[n / 2],
        open_seconds * 1e3);
    pl_store_close(&b->store);
    return PL_OK;
}

pl_status measure_store(const measure_disk *o)
{
    static const size_t sizes[] = {100000,  262144,   1000000,
                                   4000000, 16000000, 64 << 20};
    const size_t n_sizes = sizeof sizes / sizeof *sizes;
    pl_status status = PL_OK;
    bench b = {
        .repeats = o->repeats, .bytes = o->bytes, .engine = o->engine ? o->engine : ""};
    const size_t most = b.bytes > 0 ? (size_t)b.bytes : sizes[n_sizes - 1];
    pl_join(b.folder, o->folder, "bench-store-XXXXXX");
    if (!mkdtemp(b.folder))
        return pl_fail(PL_ERR_IO,
                       "cannot make a folder in %s; name another by --folder",
                       o->folder);
    snprintf(b.plain, sizeof b.plain, "%s.plain", b.folder);
    PL_TRY(pl_try_alloc(most, "the bytes to store", (void **)&b.data));
    b.seconds = pl_alloc(4 * (size_t)b.repeats * sizeof *b.seconds);
    b.share = b.seconds + b.repeats;
    b.read_share = b.share + b.repeats;
    b.first = b.read_share + b.repeats;
    say("%12s  %8s  %8s  %8s  %7s  %8s  %7s  %9s  %9s  %8s  %7s", "a commit", "p50 ms",
        "p90 ms", "max ms", "MB/s", "of plain", "written", "1st MB/s", "read MB/s",
        "of cache", "open ms");
    for (size_t i = 0; i < n_sizes && b.bytes == 0; i++)
        PL_TRY(run_size(&b, sizes[i]));
    if (b.bytes > 0)
        PL_TRY(run_size(&b, (size_t)b.bytes));
done:
    pl_store_close(&b.store);
    pl_free_all(b.seconds, b.data);
    unlink(b.plain);
    if (status == PL_OK)
        return pl_remove_tree(b.folder);
    if (pl_remove_tree(b.folder) != PL_OK)
        say("%s stays", b.folder);
    return status;
}
