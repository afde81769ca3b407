/* Private to the folder: copying a store in one step or in two, so that several parts
 * can be copied as one (mirror_set.c). */
#ifndef PL_STORE_MIRROR_H
#define PL_STORE_MIRROR_H
#include "store/store_internal.h"

typedef struct mirror_target {
    const char *folder;
    bool force;
    uint64_t epoch; /* the copy gets no lower one */
    bool beside;    /* out: nothing was done here, for the folder holds a line that has
                       other bytes under the source's keys: with `epoch` as it is now
                       the copy can be made elsewhere, and take its place */
} mirror_target;

/* The chunks are brought, which nothing names yet, and `left` gets all that is left to
 * do: the target is what it was. Or, if `left` is NULL, that is done at once. The
 * caller has the target's lock. As pl_store_mirror otherwise. */
PL_MUST_CHECK pl_status mirror_into(pl_store *from, mirror_target *to, pl_buf *left,
                                    pl_mirror_report *report);
/* Does it, in one commit; again is fine. ERR_DAMAGED. */
PL_MUST_CHECK pl_status mirror_finish(const char *folder, const pl_buf *left);

/* ERR_BUSY while a copy into this folder, or into the one whose part it is by its name,
 * is decided and not made. */
PL_MUST_CHECK pl_status mirror_check(const char *folder);
/* Of a store that has commits, and is locked: what a copy that was not decided made
 * inside it goes. */
PL_MUST_CHECK pl_status mirror_clear(const char *folder);

#endif
