/* Bases: all records of a store as objects, so that the log of commits in an engine can
 * be short. */
#ifndef PL_STORE_REBASE_H
#define PL_STORE_REBASE_H
#include "store/store_internal.h"

/* Whether the commits since the base have more bytes than the base itself. */
bool rebase_is_due(const remote_head *head);
/* Writes all rows as they are now and records that in `head`. No reader sees the base
 * before the head moves. */
PL_MUST_CHECK pl_status rebase_write(pl_store *store, remote_head *head);
/* Drops the base of `old` and the commits up to that of the present head's base. */
void rebase_drop(pl_store *store, const remote_head *old);

/* ---- rows as bytes: what a commit did, or a base (PROTOCOL 4.6, 4.12) ---- */
typedef struct row_operation {
    bool puts; /* false: it deletes */
    kv_family family;
    kv_slice key, value;
} row_operation;
/* Takes one operation from the front of `rest`; ERR_DAMAGED. */
PL_MUST_CHECK pl_status rebase_next(kv_slice *rest, row_operation *out);

#endif
