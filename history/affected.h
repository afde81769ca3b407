/* Finds which phases and versions of an arm change if some documents are removed from
 * the training data, and from which phase each path must be trained again. The result
 * depends only on the arm, on the phases whose samples contain the documents, and on
 * the data that the store has kept.
 *
 *   - A phase of a path changes if its samples contain one of the documents, if the
 *     path's previous phase changed, or if in the previous phase another path changed
 *     that shares a module with this path.
 *   - Version r + 1 of a module changes if phase r of one of its contributors changes.
 *     So the module goes back to its newest version that does not change.
 *   - If the store has kept the updates of round r (store.keep_updates), the other
 *     contributors need not train phase r again.
 *   - A path begins again from a state that the store has kept (store.keep_states).
 *     Without such a state, the path repeats earlier phases to make its state again,
 *     and the home ignores the updates of these phases as duplicates.
 *   - The training of a module continues from a version only if the store has kept the
 *     momentum of that version (store.keep_momentum). Without it, the module goes back
 *     to an older version.
 *
 * If paths have their own parameters in addition to the versions (noloco, streaming),
 * the arm is trained again from the beginning. */
#pragma once
#include "outer/outer.h"

typedef enum pl_kept {
    PL_KEPT_STATE,   /* the state of task `index` after `number` phases */
    PL_KEPT_VERSION, /* the parameters of version `number` of module `index` */
    /* what the outer step after version `number` needs besides parameters */
    PL_KEPT_STEP,
    PL_KEPT_UPDATES, /* the updates that made version `number` */
} pl_kept;
/* Returns whether the store has kept this item. The function is not called with
 * `number` 0 (version 0, the state before the first phase) or for the state after the
 * last phase, because these always count as kept. */
typedef bool (*pl_kept_fn)(void *context, pl_kept what, int index, int64_t number);

typedef struct pl_affected {
    /* [tasks] with the index path * R + replica. `changes` is the first phase whose
     * result changes, and `begins` is the phase with which the task's training begins
     * again. Both are the arm's number of phases if nothing changes. */
    int64_t *changes, *begins;
    int64_t *stays; /* [modules] number of the newest version that does not change */
} pl_affected;

/* Fills *out; free it with pl_affected_clear. draws [tasks]: the first phase of each
 * task whose samples contain one of the documents, or the arm's number of phases. */
void pl_affected_find(const pl_arm *arm, const pl_topology *topology,
                      const int64_t *draws, pl_kept_fn kept, void *context,
                      pl_affected *out);
void pl_affected_clear(pl_affected *affected);
