/* Large blobs. Their chunks do not go through RocksDB's log, but into a table file that
 * is written while the transaction grows. The file is taken into the database just
 * before the commit's batch names its contents.
 *
 *   INCOMING/N.sst      being written; a file that is left over belongs to nothing
 *   taken in            under keys (coming commit, number) that no record names yet
 *   the batch           the decision, as for small blobs
 *
 * If the process ends before the batch, keys above the newest commit are left, and by
 * that the next opening recognises them. A file holds the chunks of one blob, so most
 * files become garbage as a whole: then they are dropped without compaction. */
#ifndef PL_STORE_BULK_H
#define PL_STORE_BULK_H
#include "store/store_internal.h"

/* For a writer, before its first commit: removes the files that an earlier process
 * left. */
PL_MUST_CHECK pl_status bulk_clean(pl_store *store);

/* `new_bytes` of chunks of one blob follow. Few bytes go into the batch, many into a
 * file. */
PL_MUST_CHECK pl_status bulk_begin(pl_txn *txn, uint64_t new_bytes);
bool bulk_takes(const pl_txn *txn); /* true between begin and end of a large blob */
PL_MUST_CHECK pl_status bulk_put(pl_txn *txn, const row_key *key, const void *data,
                                 size_t len);
/* The blob is complete: its file becomes durable. */
PL_MUST_CHECK pl_status bulk_end(pl_txn *txn);

size_t bulk_files(const pl_txn *txn); /* how many files this transaction has */
/* The files become part of the database. */
PL_MUST_CHECK pl_status bulk_take_in(pl_txn *txn);
/* bulk_let_go notes a chunk that this commit releases. Called after the commit, the
 * second function drops the files that hold only released chunks, in the background. */
void bulk_let_go(pl_txn *txn, const chunk_record *chunk);
void bulk_drop(pl_txn *txn);
void bulk_settle(pl_store *store); /* waits until those files are dropped */
void bulk_clear(pl_txn *txn);      /* removes files that were not taken in */

#endif
