/* Bytes of one chunk, as they lie in a pack (PROTOCOL 4.10):
 *
 *   raw     as they are
 *   planes  floats taken apart into their four bytes, zstd over all
 *   delta   the difference to what two other chunks predict
 *
 * A chunk's name is the hash of its raw bytes, whatever it lies as, and is checked at
 * every reading. */
#ifndef PL_STORE_CHUNK_H
#define PL_STORE_CHUNK_H
#include "store/records.h"

typedef enum chunk_coding { CHUNK_RAW, CHUNK_PLANES, CHUNK_DELTA } chunk_coding;

/* Deltas stand on deltas at most so often; deeper ones are damage. */
enum { CHUNK_DEPTH_MAX = 6 };

/* What was read; `data` is valid until chunk_close. */
typedef struct chunk_view {
    const uint8_t *data;
    size_t len;
    kv_pin pin;     /* from the database: the row itself, not copied */
    pl_buf fetched; /* from an engine */
    pl_buf decoded; /* of a coded one */
} chunk_view;

/* ERR_DAMAGED says how, without the chunk's name. */
PL_MUST_CHECK pl_status chunk_open(row_source from, const pl_hash *id, size_t expected,
                                   chunk_view *out);
/* The same without the check of its hash, for somebody who has the whole's checked. */
PL_MUST_CHECK pl_status chunk_lend(row_source from, const pl_hash *id, size_t expected,
                                   chunk_view *out);
/* n chunks, their hashes checked side by side; if any fails none is open. */
PL_MUST_CHECK pl_status chunk_open_all(row_source from, const pl_hash *ids,
                                       const size_t *expected, size_t n,
                                       chunk_view *out);
/* With its record at hand. */
PL_MUST_CHECK pl_status chunk_load(row_source from, const pl_hash *id,
                                   const chunk_record *chunk, chunk_view *out);
void chunk_close(chunk_view *view); /* accepts an empty one */

/* In a transaction: gives the chunk a place of its own in this commit's pack and writes
 * the bytes there; or lets go of the place that the record names. Its row is the
 * caller's to write. */
PL_MUST_CHECK pl_status chunk_place(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                                    const void *data, size_t len);
void chunk_displace(pl_txn *txn, const pl_hash *id, const chunk_record *chunk);

#endif
