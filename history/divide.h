/* Copies the store of a stopped job into a new store for another number of homes.
 *
 * Every module, path and object goes, with all its records and blobs, to the home that
 * the hash of its name chooses (net/placement.h). Records that every home has go to all
 * homes. The old store is only read, and the copy is a new store: no one uses it before
 * the caller puts it in the old one's place. */
#pragma once
#include "net/net.h"

typedef struct pl_divide_report {
    uint64_t n_names, n_rows, bytes; /* bytes of the blobs that were copied */
} pl_divide_report;

/* `to` must not exist. `n` is the number of homes; for 1 the copy is a store in one
 * piece. No process may write to `from`, and no rollback may be unfinished in it. Also
 * reads stores in which an earlier release has moved names between homes
 * (pl_store_check_placement). */
pl_status pl_store_divide(const char *from, const char *to, int n,
                          pl_divide_report *report);
