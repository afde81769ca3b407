/* Reads and writes records. A row that does not exist is not an error here: *found, or
 * the record's `exists`, is false and the output is zero, so that the caller can name
 * what is missing. */
#pragma once
#include "store/row_sum.h"
#include "store/rows.h"

typedef struct head_record {
    uint64_t number; /* number of the newest version */
    /* versions below this number have neither momentum nor change */
    uint64_t momentum_from;
    /* newest versions below this number are recoded (recode.c) */
    uint64_t recoded;
} head_record;

typedef struct blob_record {
    uint64_t bytes, refs; /* refs: how many times records name the blob */
    pl_buf chunks;        /* hashes of its chunks in order, PL_HASH_BYTES each */
    bool exists;          /* set by blob_read */
} blob_record;

/* The record of a chunk; chunk.h describes how the bytes are stored. Commit number
 * `pack` wrote the bytes, as chunk `number` of its pack. `refs` is the number of times
 * that the chunk occurs in blobs, plus the number of times that it is a base of another
 * chunk. */
typedef struct chunk_record {
    uint64_t pack, bytes, refs;
    uint32_t number;
    uint64_t stored;  /* number of bytes of the chunk in the pack */
    uint64_t coding;  /* a chunk_coding (chunk.h) */
    pl_hash bases[2]; /* bases of a delta; both may be the same chunk */
    /* upper bound for the longest chain of deltas that depends on this chunk */
    uint64_t height;
    /* in an engine: the epoch of the opening that wrote the chunk (remote.h) */
    uint64_t epoch;
    bool exists; /* set by chunk_read */
} chunk_record;

typedef struct log_record {
    /* the hash of the previous commit's log row (zero in the first commit), and the
     * hash of this commit's operations */
    pl_hash previous, digest;
    uint64_t epoch;
    int64_t wall_ms;
    uint64_t n_files; /* number of table files that the commit added to the database */
    /* hash of the sum of all rows after the commit (row_sum.h); zero if the commit was
     * made by a release that did not write it */
    pl_hash rows;
} log_record;

/* If a _decode function fails, `out` owns no memory. */
pl_status version_decode(row_view *row, pl_version *out);
pl_status contribution_decode(row_view *row, pl_contribution *out);
pl_status path_decode(row_view *row, pl_path_state *out);
pl_status object_decode(row_view *row, pl_object *out);
pl_status head_decode(row_view *row, head_record *out);
pl_status blob_decode(row_view *row, blob_record *out);
pl_status chunk_decode(row_view *row, chunk_record *out);
pl_status log_decode(row_view *row, log_record *out);
/* Appends the ref's target to `target`, with a terminating NUL that `len` does not
 * count. `name` has PL_MODULE_NAME_MAX bytes or is NULL. */
pl_status ref_decode(row_view *row, char *name, pl_buf *target);

pl_status version_read(row_source from, const char *module, uint64_t number,
                       pl_version *out, bool *found);
pl_status head_read(row_source from, const char *module, head_record *out, bool *found);
pl_status blob_read(row_source from, const pl_hash *id, blob_record *out);
pl_status chunk_read(row_source from, const pl_hash *id, chunk_record *out);

void version_write(kv_batch *batch, const pl_version *version);
void pending_write(kv_batch *batch, const char *module, const pl_contribution *c);
void path_write(kv_batch *batch, const pl_path_state *path);
void object_write(kv_batch *batch, const pl_object *object);
void ref_write(kv_batch *batch, const char *name, const char *target);
void head_write(kv_batch *batch, const char *module, const head_record *head);
void blob_write(kv_batch *batch, const pl_hash *id, const blob_record *blob);
void chunk_write(kv_batch *batch, const pl_hash *id, const chunk_record *chunk);
/* A number in a row of the meta family; reading gives 0 if there is no such row. */
pl_status number_read(row_source from, const char *name, uint64_t *out);
void number_write(kv_batch *batch, const char *name, uint64_t number);
/* The sum of all rows. A reader compares its hash with the newest log row. */
pl_status sum_read(row_source from, row_sum *out);
void sum_write(kv_batch *batch, const row_sum *sum);
/* Writes the log row of commit `sequence`; *hash gets the row's hash. */
void log_write(kv_batch *batch, uint64_t sequence, const log_record *entry,
               pl_hash *hash);
