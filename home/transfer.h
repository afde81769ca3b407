/* Copies to another store the versions that it lacks.
 *
 * Copied are the versions of each module with their records, momenta if there are any,
 * definitions of arms, routers, and tags. Not copied are states of paths, pending and
 * kept updates, and data shards. The target must have the same history: its newest
 * version of a module must be one of the source's, else ERR_STALE.
 *
 * Each version is a commit of its own, so a copy that was ended half-way goes on when
 * it is made again. After a failure the caller ends what was begun:
 * pl_txn_abort(&t.txn). */
#ifndef PL_HOME_TRANSFER_H
#define PL_HOME_TRANSFER_H
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_transfer {
    pl_store *from, *to;
    pl_txn *txn;
    uint64_t n_modules, n_versions, bytes; /* what was copied so far */
} pl_transfer;

/* The versions of a module up to this one; and all versions of all modules. */
PL_MUST_CHECK pl_status pl_transfer_module(pl_transfer *t, const char *module,
                                           uint64_t number);
PL_MUST_CHECK pl_status pl_transfer_modules(pl_transfer *t);
/* The definition, the router and the tags of an arm; "" for those of all arms. */
PL_MUST_CHECK pl_status pl_transfer_objects(pl_transfer *t, const char *arm);

#ifdef __cplusplus
}
#endif
#endif
