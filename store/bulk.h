/* Large blobs: their chunks go past the log, into a table file of RocksDB's that is
 * written while the transaction grows and is taken into the database just before the
 * commit's batch names what is in it.
 *
 *   INCOMING/N.sst      being written; a file that is left over belongs to nothing
 *   taken in            under keys (commit to be, number) that no record names yet
 *   the batch           the decision, as for small blobs
 *
 * A process that ends before the batch leaves keys above the newest commit, which is
 * how the next opening knows them. One file holds the chunks of one blob, so that most
 * files die whole: then they are dropped, and nothing is compacted. */
#ifndef PL_STORE_BULK_H
#define PL_STORE_BULK_H
#include "store/store_internal.h"

/* A writer, before its first commit: removes what an earlier process left. */
PL_MUST_CHECK pl_status bulk_clean(pl_store *store);

/* The chunks of a blob follow, `new_bytes` of them; small ones go into the batch. */
PL_MUST_CHECK pl_status bulk_begin(pl_txn *txn, uint64_t new_bytes);
bool bulk_takes(const pl_txn *txn); /* between begin and end of a large one */
PL_MUST_CHECK pl_status bulk_put(pl_txn *txn, const row_key *key, const void *data,
                                 size_t len);
/* The blob is complete: its file becomes durable. */
PL_MUST_CHECK pl_status bulk_end(pl_txn *txn);

size_t bulk_files(const pl_txn *txn); /* how many this transaction has */
/* And part of the database. */
PL_MUST_CHECK pl_status bulk_take_in(pl_txn *txn);
/* A chunk that this commit lets go of; and after it: drops the files that died,
 * meanwhile. */
void bulk_let_go(pl_txn *txn, const chunk_record *chunk);
void bulk_drop(pl_txn *txn);
void bulk_settle(pl_store *store); /* waits until they are dropped */
void bulk_clear(pl_txn *txn);      /* files that were not taken in go */

#endif
