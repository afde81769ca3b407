/* A base is a copy of all records of a store, written as objects of its engine. With a
 * base, the engine needs to keep only the log of later commits. */
#pragma once
#include "store/store_internal.h"

/* Writes all rows as they are now, and writes the name, size and hash of this new base
 * into `head`. Readers do not see the new base before the head is moved. */
pl_status rebase_write(pl_store *store, remote_head *head);
/* Deletes the base that `old` names, and the engine's log of the commits from this base
 * up to the base that the store's present head names. */
void rebase_drop(pl_store *store, const remote_head *old);

/* ---- rows as bytes: operations of a commit or of a base (PROTOCOL 4.6, 4.12) ---- */
typedef struct row_operation {
    bool puts; /* true: the operation writes a row; false: it deletes a row */
    kv_family family;
    kv_slice key, value;
} row_operation;
/* Reads the first operation of `rest`, and moves `rest` past it. ERR_DAMAGED if the
 * bytes cannot be decoded. */
pl_status rebase_next(kv_slice *rest, row_operation *out);
/* Adds the operations to the batch, and the number of rows that they write to *n_puts.
 */
pl_status rebase_apply(kv_slice operations, kv_batch *batch, uint64_t *n_puts);
pl_status rebase_flush(kv *db, kv_batch **batch); /* commits it; begins a new one */
