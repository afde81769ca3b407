/* Private to the folder: copies a store in one step, or in two steps, so that several
 * parts can be copied together (mirror_set.c). */
#ifndef PL_STORE_MIRROR_H
#define PL_STORE_MIRROR_H
#include "store/store_internal.h"

typedef struct mirror_target {
    const char *folder;
    bool force;
    uint64_t epoch; /* the copy's epoch will be at least this number */
    /* Output: nothing was copied, because the folder has a store with a different
     * history, whose keys have different bytes. The caller can make the copy elsewhere,
     * with the value that `epoch` has now, and then replace that store with it. */
    bool beside;
} mirror_target;

/* Copies the chunks, which no record names yet, and writes into `left` what remains to
 * be done. The target shows its old state until that rest is done. If `left` is NULL,
 * the rest is done at once. The caller holds the target's lock. Errors as for
 * pl_store_mirror. */
PL_MUST_CHECK pl_status mirror_into(pl_store *from, mirror_target *to, pl_buf *left,
                                    pl_mirror_report *report);
/* Does what remains (`left`) in one commit. The function may be called again.
 * ERR_DAMAGED if `left` cannot be decoded. */
PL_MUST_CHECK pl_status mirror_finish(const char *folder, const pl_buf *left);

/* Returns ERR_BUSY while a copy into this folder is decided but not finished. If the
 * folder's name says that it is a part, copies into the folder above it count, too. */
PL_MUST_CHECK pl_status mirror_check(const char *folder);
/* Removes files and rows that an undecided copy left in a store. The store has commits
 * and is locked. */
PL_MUST_CHECK pl_status mirror_clear(const char *folder);

#endif
