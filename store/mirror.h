/* Private to the folder: copies a store in one step, or in two, so that several parts
 * can be copied as one (mirror_set.c). */
#ifndef PL_STORE_MIRROR_H
#define PL_STORE_MIRROR_H
#include "store/store_internal.h"

typedef struct mirror_target {
    const char *folder;
    bool force;
    uint64_t epoch; /* the copy's epoch will not be lower than this */
    /* out: nothing was done, because the folder has a store whose history differs, with
     * other bytes under the source's keys. With the value that `epoch` has now, the
     * copy can be made elsewhere and then take the place of that store. */
    bool beside;
} mirror_target;

/* Brings the chunks, which no record names yet, and writes into `left` all that remains
 * to do; the target is unchanged until then. If `left` is NULL, the rest is done at
 * once. The caller holds the target's lock. Errors as for pl_store_mirror. */
PL_MUST_CHECK pl_status mirror_into(pl_store *from, mirror_target *to, pl_buf *left,
                                    pl_mirror_report *report);
/* Does the rest in one commit. It may be called again. ERR_DAMAGED. */
PL_MUST_CHECK pl_status mirror_finish(const char *folder, const pl_buf *left);

/* ERR_BUSY while a copy into this folder, or into the folder whose part it is by its
 * name, has been decided and is not finished. */
PL_MUST_CHECK pl_status mirror_check(const char *folder);
/* Removes from a store what an undecided copy left inside it. The store has commits and
 * is locked. */
PL_MUST_CHECK pl_status mirror_clear(const char *folder);

#endif
