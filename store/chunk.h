/* The bytes of one chunk, in the forms that a pack may hold (PROTOCOL 4.10):
 *
 *   raw     unchanged
 *   planes  the four bytes of each float in four planes, compressed by zstd
 *   delta   the difference from a prediction, which is computed from two other chunks
 *
 * In every form the name of a chunk is the hash of its raw bytes. chunk_open checks
 * this hash. */
#ifndef PL_STORE_CHUNK_H
#define PL_STORE_CHUNK_H
#include "store/records.h"

typedef enum chunk_coding { CHUNK_RAW, CHUNK_PLANES, CHUNK_DELTA } chunk_coding;

/* The longest allowed chain of deltas: each chunk in such a chain is a delta from the
 * next chunk. A longer chain counts as damage. */
enum { CHUNK_DEPTH_MAX = 6 };

/* A chunk that was read; `data` is valid until chunk_close. */
typedef struct chunk_view {
    const uint8_t *data;
    size_t len;
    kv_pin pin;     /* the row itself, not a copy, if the chunk is in the database */
    pl_buf fetched; /* bytes that came from an engine */
    pl_buf decoded; /* the raw bytes of a coded chunk */
} chunk_view;

/* Opens a chunk of `expected` bytes and checks its hash. The text of ERR_DAMAGED says
 * what is wrong but does not name the chunk; the caller adds the name. */
PL_MUST_CHECK pl_status chunk_open(row_source from, const pl_hash *id, size_t expected,
                                   chunk_view *out);
/* Opens a chunk without checking its hash, for a receiver that checks the hash of the
 * whole blob. */
PL_MUST_CHECK pl_status chunk_lend(row_source from, const pl_hash *id, size_t expected,
                                   chunk_view *out);
/* Opens n chunks and computes their hashes together. If one chunk fails, all n are
 * closed. */
PL_MUST_CHECK pl_status chunk_open_all(row_source from, const pl_hash *ids,
                                       const size_t *expected, size_t n,
                                       chunk_view *out);
/* Like chunk_open, for a caller that already has the chunk's record. */
PL_MUST_CHECK pl_status chunk_load(row_source from, const pl_hash *id,
                                   const chunk_record *chunk, chunk_view *out);
void chunk_close(chunk_view *view); /* does nothing with an empty view */

/* Both functions work inside a transaction, and the caller writes the chunk's row.
 * chunk_place assigns the chunk a place in this commit's pack and writes the bytes
 * there. chunk_displace releases the place that the chunk's record names. */
PL_MUST_CHECK pl_status chunk_place(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                                    const void *data, size_t len);
void chunk_displace(pl_txn *txn, const pl_hash *id, const chunk_record *chunk);

#endif
