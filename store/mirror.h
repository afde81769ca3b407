/* Private to this folder. Copies a store in one step or in two. Two steps are needed to
 * copy several parts together (mirror_set.c). */
#pragma once
#include "store/store_internal.h"

typedef struct mirror_target {
    const char *folder;
    bool force;
    uint64_t epoch; /* the copy's epoch will be at least this number */
    /* Output. True: nothing was copied, because the folder has a store with a different
     * history, in which the same keys have different bytes. The caller can make a copy
     * in another folder, with the present value of `epoch`, and then replace the store
     * by this copy. */
    bool beside;
} mirror_target;

/* Copies the chunks, and writes into `left` the operations that remain to be done. No
 * record of the target names the new chunks yet, so the target shows its old state
 * until mirror_finish has carried out these operations. If `left` is NULL, this
 * function carries them out itself. The caller must have locked the target. The errors
 * are those of pl_store_mirror. */
pl_status mirror_into(pl_store *from, mirror_target *to, pl_buf *left,
                      pl_mirror_report *report);
/* Carries out the operations in `left` in one commit. After an interruption, call the
 * function again. ERR_DAMAGED if `left` cannot be decoded. */
pl_status mirror_finish(const char *folder, const pl_buf *left);

/* Called when a store is opened for writing: deletes the chunks that a copy into it has
 * left there before it was interrupted. */
pl_status mirror_clean(pl_store *store);

/* Returns ERR_BUSY while a copy into this folder is decided but not finished. For the
 * folder of a part (home-N), a copy into the folder above it counts, too. */
pl_status mirror_check(const char *folder);
