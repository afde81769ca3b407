/* Copies the versions that another store lacks into that store.
 *
 * A transfer copies versions of modules (parameters, records, momenta), definitions of
 * arms, routers, and tags. It does not copy states of paths, pending updates or data
 * shards. It copies kept updates only if `updates` is set. The target must have the
 * same history as the source. ERR_STALE: the source does not have the target's newest
 * version of a module.
 *
 * Each version is one commit, so a repeated call continues an interrupted transfer.
 * After a failure the caller must end the open transaction: pl_txn_abort(&t.txn). */
#pragma once
#include "store/store.h"

typedef struct pl_transfer {
    pl_store *from, *to;
    pl_txn *txn;
    bool updates;                          /* whether to copy kept updates, too */
    uint64_t n_modules, n_versions, bytes; /* copied so far */
} pl_transfer;

/* pl_transfer_module copies the versions of one module up to `number`,
 * pl_transfer_modules all versions of all modules. */
pl_status pl_transfer_module(pl_transfer *t, const char *module, uint64_t number);
pl_status pl_transfer_modules(pl_transfer *t);
/* Copies a blob into the open transaction t->txn, unless the target has the blob. */
pl_status pl_transfer_blob(pl_transfer *t, const pl_hash *blob);
/* Copies the definition, the router and the tags of an arm; "": of all arms. */
pl_status pl_transfer_objects(pl_transfer *t, const char *arm);
