/* Which phases and versions of an arm change if documents are taken out of its samples,
 * and from where it must be trained again. A pure function of the arm, of the phases
 * that draw the documents, and of what the store has kept.
 *
 *   - A phase changes if it draws a document, if the path's phase before changed, or if
 *     a path that shares a module with it changed in the phase before.
 *   - Version r + 1 of a module changes if the phase r of one of its contributors
 *     changes. So the module goes back to its newest version that does not change.
 *   - The other contributors of that round keep their updates (store.keep_updates);
 *     without them they train the phase again.
 *   - A path begins again with a state that was kept (store.keep_states). Without it,
 *     the path repeats earlier phases to make its state again: the home finds their
 *     updates to be duplicates.
 *   - A version is continued with its momentum (store.keep_momentum); without it, the
 *     module goes back to an older version.
 *
 * If paths carry parameters of their own (noloco, eager, streaming), the arm is trained
 * again from its beginning. */
#ifndef PL_OUTER_AFFECTED_H
#define PL_OUTER_AFFECTED_H
#include "outer/arm.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_kept {
    PL_KEPT_STATE,   /* the state of task `index` after `number` phases */
    PL_KEPT_VERSION, /* the parameters of version `number` of module `index` */
    PL_KEPT_STEP,    /* what the outer step after version `number` needs besides them */
    PL_KEPT_UPDATES, /* the updates that made version `number` */
} pl_kept;
/* Version 0, the state before the first phase and that after the last one count as
 * kept; they are not asked for. */
typedef bool (*pl_kept_fn)(void *context, pl_kept what, int index, int64_t number);

typedef struct pl_affected {
    /* [tasks] index path * R + replica: the first phase whose result changes, and the
     * phase with which training begins again; the arm's number of phases if there is
     * none */
    int64_t *changes, *begins;
    int64_t *stays; /* [modules] the newest version that stays */
} pl_affected;

/* draws [tasks]: the first phase that draws a document; the arm's number of phases: the
 * task draws none. */
void pl_affected_find(const pl_arm *arm, const pl_topology *topology,
                      const int64_t *draws, pl_kept_fn kept, void *context,
                      pl_affected *out);
void pl_affected_clear(pl_affected *affected);

#ifdef __cplusplus
}
#endif
#endif
