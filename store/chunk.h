/* The bytes of one chunk, in the forms that a pack may hold (PROTOCOL 4.10):
 *
 *   raw     unchanged
 *   planes  the four bytes of each float in four planes, compressed by zstd
 *   delta   the difference to what two other chunks predict
 *
 * The name of a chunk is the hash of its raw bytes in every form, and is checked at
 * every read. */
#ifndef PL_STORE_CHUNK_H
#define PL_STORE_CHUNK_H
#include "store/records.h"

typedef enum chunk_coding { CHUNK_RAW, CHUNK_PLANES, CHUNK_DELTA } chunk_coding;

/* The longest chain of deltas on deltas; a longer one is damage. */
enum { CHUNK_DEPTH_MAX = 6 };

/* A chunk that was read; `data` is valid until chunk_close. */
typedef struct chunk_view {
    const uint8_t *data;
    size_t len;
    kv_pin pin;     /* in the database: the row itself, not a copy */
    pl_buf fetched; /* bytes that came from an engine */
    pl_buf decoded; /* the raw bytes of a coded chunk */
} chunk_view;

/* The sentence of ERR_DAMAGED says what is wrong, without the chunk's name. */
PL_MUST_CHECK pl_status chunk_open(row_source from, const pl_hash *id, size_t expected,
                                   chunk_view *out);
/* The same without checking the hash, for a caller that has the whole blob checked. */
PL_MUST_CHECK pl_status chunk_lend(row_source from, const pl_hash *id, size_t expected,
                                   chunk_view *out);
/* Opens n chunks and checks their hashes side by side. If any of them fails, none is
 * open. */
PL_MUST_CHECK pl_status chunk_open_all(row_source from, const pl_hash *ids,
                                       const size_t *expected, size_t n,
                                       chunk_view *out);
/* The same for a caller that already has the chunk's record. */
PL_MUST_CHECK pl_status chunk_load(row_source from, const pl_hash *id,
                                   const chunk_record *chunk, chunk_view *out);
void chunk_close(chunk_view *view); /* accepts an empty one */

/* In a transaction. chunk_place gives the chunk a place in this commit's pack and
 * writes the bytes there; the other function releases the place that the record names.
 * The caller writes the chunk's row. */
PL_MUST_CHECK pl_status chunk_place(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                                    const void *data, size_t len);
void chunk_displace(pl_txn *txn, const pl_hash *id, const chunk_record *chunk);

#endif
