/* The interface to RocksDB; no other file calls RocksDB. It offers column families of
 * byte strings, atomic synced batches, ordered iteration, and a follower, which reads
 * while a writer writes.
 *
 * The functions do not know what the bytes mean. These settings differ from RocksDB's
 * defaults:
 *
 * - When the database is opened, any damage of the write-ahead log is an error, except
 *   an incomplete entry at its end. (RocksDB's default mode silently drops synced
 *   commits. A caller may use that mode, KV_MEND, only after it has proved that nothing
 *   is lost.) The manifest lists the closed log files, and the output of every flush
 *   and compaction is read back.
 * - The pack family has chunks of up to 1 MiB under rising keys. So its files never
 *   overlap, and compaction moves files instead of rewriting them. A chunk that is
 *   deleted soon after it was written never reaches a file, because the single deletion
 *   removes it from the write buffer.
 * - BlobDB is not used: in RocksDB 7.8 a follower that reads blob values crashes.
 *
 * Several threads may read at once; all other functions need one thread. */
#pragma once
#include "base/base.h"

/* X(NAME, name of the column family, its number in checksums and digests) */
#define KV_FAMILY_TABLE(X)                                                             \
    X(META, "meta", 1)                                                                 \
    X(LOG, "log", 2)                                                                   \
    X(VERSION, "version", 3)                                                           \
    X(HEAD, "head", 4)                                                                 \
    X(PENDING, "pending", 5)                                                           \
    X(PATH, "path", 6)                                                                 \
    X(OBJECT, "object", 7)                                                             \
    X(REF, "ref", 8)                                                                   \
    X(BLOB, "blob", 9)                                                                 \
    X(CHUNK, "chunk", 10)                                                              \
    X(PACK, "pack", 11)

typedef enum kv_family {
    KV_DEFAULT, /* required by RocksDB; empty */
#define KV_FAMILY_ENUM(name, text, id) KV_##name,
    KV_FAMILY_TABLE(KV_FAMILY_ENUM)
#undef KV_FAMILY_ENUM
        KV_FAMILY_COUNT
} kv_family;

const char *kv_family_name(kv_family family);
uint8_t kv_family_id(kv_family family);

typedef struct kv_slice {
    const void *data;
    size_t len;
} kv_slice;
int kv_order(kv_slice a, kv_slice b);

typedef enum kv_mode {
    KV_MAKE,  /* read and write; creates the database if there is none */
    KV_WRITE, /* read and write */
    /* read while a writer writes; `scratch`: a private folder for RocksDB's own log */
    KV_FOLLOW,
    /* read the commits before the first damage of the log; change nothing */
    KV_LOOK,
    KV_MEND /* read and write; drop the part of the log after its first damage */
} kv_mode;

typedef struct kv kv;

/* Opens a database. ERR_BUSY if a writer has the database open; ERR_DAMAGED if
 * RocksDB's recovery finds damage. */
pl_status kv_open(const char *path, kv_mode mode, const char *scratch, kv **out);

/* Closes the database. With `abandon` RocksDB's objects stay allocated; use this after
 * a failed write, when closing RocksDB would abort the process with an assertion. */
void kv_close(kv **db, bool abandon);
/* The descriptor of the folder that a reader reads (KV_FOLLOW, KV_LOOK), also after the
 * folder was renamed; -1 if there is none, or if db is NULL. While it is open, no other
 * folder can get its inode number. */
int kv_folder(const kv *db);
/* Updates a follower (KV_FOLLOW) to the writer's newest commit; else does nothing. */
pl_status kv_refresh(kv *db);

/* A value that is not copied; `data` is NULL if there is no such key. Call kv_unpin
 * after every kv_get that returned OK. */
typedef struct kv_pin {
    const uint8_t *data;
    size_t len;
    /* RocksDB's pinned slice; if `copied` is true, memory that RocksDB allocated */
    void *handle;
    bool copied;
} kv_pin;
pl_status kv_get(kv *db, kv_family family, kv_slice key, kv_pin *out);
void kv_unpin(kv_pin *pin); /* does nothing with an empty pin */

/* ---- iteration over the keys that start with `prefix`, in rising order ---- */
typedef struct kv_cursor {
    bool valid;          /* whether the cursor is at a row */
    kv_slice key, value; /* this row, until the next step */
    pl_status status;    /* the error of the last step, after which `valid` is false */
} kv_cursor;
typedef struct kv_batch kv_batch;

/* With `batch`, the cursor shows the database as it would be after the batch. */
kv_cursor *kv_cursor_open(kv *db, kv_batch *batch, kv_family family, kv_slice prefix);
void kv_cursor_close(kv_cursor **walk); /* accepts NULL */
/* Steps to the first or next row. Returns `valid`: false after the last row, and after
 * an error, so look at `status` after the last step. */
bool kv_cursor_next(kv_cursor *walk);
/* Makes the first step go to the lowest key that is not below `key`. */
void kv_cursor_seek(kv_cursor *walk, kv_slice key);
/* Gets the highest key of the family; `out` is empty if the family has no rows. */
pl_status kv_last_key(kv *db, kv_family family, pl_buf *out);

/* ---- writing ---- */
kv_batch *kv_batch_create(kv *db);
void kv_batch_destroy(kv_batch **batch); /* accepts NULL */
/* From this call on, the batch also keeps its operations as bytes, in the form that is
 * hashed (without operations on the pack family). Another machine can repeat them. */
void kv_batch_keep(kv_batch *batch);
kv_slice kv_batch_kept(const kv_batch *batch);
/* From this call on, each operation also changes the sum of rows (row_sum.h; borrowed).
 * kv_batch_summed returns whether all rows that were replaced could be read. */
struct row_sum;
void kv_batch_sum(kv_batch *batch, struct row_sum *sum);
pl_status kv_batch_summed(const kv_batch *batch);
void kv_put(kv_batch *batch, kv_family family, kv_slice key, kv_slice value);
void kv_delete(kv_batch *batch, kv_family family, kv_slice key);
/* Gets a value from the database as it would be after the batch. */
pl_status kv_batch_get(kv_batch *batch, kv_family family, kv_slice key, kv_pin *out);
uint64_t kv_batch_bytes(const kv_batch *batch);
size_t kv_batch_count(const kv_batch *batch);
/* Computes the hash "commit" of the operations so far (PROTOCOL 4.6). */
void kv_batch_digest(kv_batch *batch, pl_hash *out);

/* Writes the batch atomically and syncs it to the disk. After a failure the database
 * must not be written to again. */
pl_status kv_commit(kv *db, kv_batch *batch);

/* ---- table files that are made outside of the database ---- */
typedef struct kv_file kv_file;
pl_status kv_file_create(const char *path, kv_file **out);
pl_status kv_file_put(kv_file *file, const char *path, kv_slice key, kv_slice value);
pl_status kv_file_finish(kv_file **file, const char *path);
/* Closes the file without completing or deleting it; accepts NULL. */
void kv_file_drop(kv_file **file);
/* Moves finished files into the family of the database, atomically and durably. No key
 * may be in two of the files, or both in a file and in the family. After a failure the
 * database must not be written to again. */
pl_status kv_take_in(kv *db, kv_family family, const char *const *paths, size_t n);
/* Drops the table files, with all rows, whose keys lie between `first` and `last`. */
pl_status kv_drop_files(kv *db, kv_family family, kv_slice first, kv_slice last);

/* Frees the disk space of deleted rows; rewrites the complete family. */
pl_status kv_compact(kv *db, kv_family family);
