/* The bytes of one chunk, in the forms that a pack may hold (PROTOCOL 4.10):
 *
 *   raw     unchanged
 *   planes  the four bytes of each float in four planes, compressed by zstd
 *   delta   the difference from a prediction, which is computed from two other chunks
 *
 * A chunk's name is always the hash of its raw bytes, which chunk_open checks. */
#pragma once
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

/* Where the bytes of a store's chunks are: in pack rows of the database (chunk.c), or
 * in the objects of an engine (engine/remote.c). All other code that reads or
 * writes chunks works through this table, except copies of whole stores (mirror.c). */
typedef struct chunk_places {
    /* Gets the bytes as they are stored. After a failure the caller closes `out`. */
    pl_status (*get)(const row_source *from, const pl_hash *id,
                     const chunk_record *chunk, chunk_view *out);
    /* put stores bytes under the place in the chunk's record, and may complete the
     * record; drop releases that place. Both take effect at the commit. */
    pl_status (*put)(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                     const void *data, size_t len);
    void (*drop)(pl_txn *txn, const pl_hash *id, const chunk_record *chunk);
    kv_family family; /* the rows of this family tell which chunks are stored */
    /* how many chunks to request at once; above 1 if a request waits for an answer */
    int n_requests;
    /* chunks of a blob with this many new bytes get a separate table file (bulk.h) */
    uint64_t bulk_bytes;
} chunk_places;
extern const chunk_places pack_places, remote_places;

/* Opens a chunk of `expected` bytes and checks its hash. The text of ERR_DAMAGED says
 * what is wrong but does not name the chunk; the caller adds the name. */
pl_status chunk_open(row_source from, const pl_hash *id, size_t expected,
                     chunk_view *out);
/* Opens a chunk without checking its hash; the receiver checks the whole blob. */
pl_status chunk_lend(row_source from, const pl_hash *id, size_t expected,
                     chunk_view *out);
/* Opens n chunks and hashes them together. If one fails, all are closed; open them one
 * by one to know which. */
bool chunk_open_all(row_source from, const pl_hash *ids, const size_t *expected,
                    size_t n, chunk_view *out);
/* Like chunk_open, for a caller that already has the chunk's record. */
pl_status chunk_load(row_source from, const pl_hash *id, const chunk_record *chunk,
                     chunk_view *out);
void chunk_close(chunk_view *view); /* does nothing with an empty view */

/* Both functions work inside a transaction, and the caller writes the chunk's row.
 * chunk_place assigns the chunk a place in this commit's pack and writes the bytes
 * there. chunk_displace releases the place that the chunk's record names. */
pl_status chunk_place(pl_txn *txn, const pl_hash *id, chunk_record *chunk,
                      const void *data, size_t len);
void chunk_displace(pl_txn *txn, const pl_hash *id, const chunk_record *chunk);
