/* Large blobs. The chunks of a large blob do not go through RocksDB's log, but into a
 * table file, which is written while the transaction grows. So a commit may have more
 * bytes than a batch or the memory. The file is taken into the database just before the
 * commit's batch, which names its chunks. A file goes through three states:
 *
 *   INCOMING/N.sst   the file is being written; if the process is killed, the next
 *                    opening deletes the file
 *   taken in         the chunks are in the database; their keys are (number of the
 *                    coming commit, number of the chunk). No record names the keys yet
 *   committed        the batch that names the keys was written, as for small blobs
 *
 * If the process ends before the batch is committed, the keys in the file have a higher
 * number than the newest commit, so the next opening recognises the chunks as
 * unfinished and deletes them. A file holds the chunks of one large blob, so usually
 * all chunks of a file become garbage together. Such a file is dropped without
 * compaction. (Only if a batch is large already, small blobs share files, too.) */
#pragma once
#include "store/store_internal.h"

/* Removes files of an earlier process, before a writer's first commit. */
pl_status bulk_clean(pl_store *store);

/* Announces chunks of one blob, together `new_bytes` long. The chunks of a small blob
 * go into the batch unless the batch is large already; all others go into a
 * file: a large blob into its own, small ones into one that they share. */
pl_status bulk_begin(pl_txn *txn, uint64_t new_bytes);
/* Puts a chunk into the file; only while txn->in_file is set. */
pl_status bulk_put(pl_txn *txn, const row_key *key, const void *data, size_t len);
pl_status bulk_end(pl_txn *txn);
/* Makes the file durable that is still open for small blobs, if there is one. */
pl_status bulk_finish(const pl_txn *txn);

size_t bulk_files(const pl_txn *txn); /* number of files of this transaction */
pl_status bulk_take_in(pl_txn *txn);
/* bulk_let_go records a chunk that this commit releases. bulk_drop is called after the
 * commit, and drops the files that contain only released chunks: in the background,
 * unless txn->tidies is set. */
void bulk_let_go(pl_txn *txn, const chunk_record *chunk);
void bulk_drop(pl_txn *txn);
/* waits until the background work of bulk_drop has ended */
void bulk_settle(pl_store *store);
/* removes files that did not become part of the database */
void bulk_clear(pl_txn *txn);
