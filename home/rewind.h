/* A copy of a run's store from which documents were taken: it has what the run would
 * have had without them, and ends where the first of them would have mattered.
 *
 * Modules end at their newest version that does not depend on the documents, and paths
 * at the phase with which they begin again (outer/affected.h). In every data shard the
 * documents are blank. A job that opens the copy trains the rest. Superseded data is
 * never written, so nothing of it is left in the copy's files. */
#ifndef PL_HOME_REWIND_H
#define PL_HOME_REWIND_H
#include "outer/outer.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_rewind_arm {
    pl_arm arm; /* its shards are those of the copy */
    pl_topology *topology;
    pl_affected affected;
    bool drops;      /* the copy lacks the arm; the job makes it anew */
    bool is_changed; /* a phase of a path changes */
    int emptied;     /* a path that has no text without the documents; -1: none */
    /* phases of all paths; those whose result changes; those that are trained again */
    int64_t n_phases, n_changed, n_again;
    double seconds, again_s; /* inner steps of all phases, and of those trained again */
    /* the kind of device that trained the arm; empty: none is recorded; a second kind,
     * if there were several */
    char device[PL_TEXT_MAX], other_device[PL_TEXT_MAX];
} pl_rewind_arm;

typedef struct pl_rewind {
    pl_store *store; /* the whole store, opened for reading; borrowed */
    pl_doc_list docs;
    pl_rewind_arm *arms;
    int n_arms;
    /* names of tags, each after a blank: those that the job makes anew, so the copy
     * lacks them; those that the copy lacks because their versions are superseded */
    pl_buf remade, dropped;
} pl_rewind;

/* Reads the arms of the store, and finds what changes without the documents. No arm is
 * dropped yet. ERR_UNSUPPORTED: what an arm's training gave depended on timing. */
PL_MUST_CHECK pl_status pl_rewind_plan(pl_store *store, const pl_doc_list *docs,
                                       pl_rewind *out);
/* Decides otherwise about an arm: it keeps all that it has, although it was trained on
 * the documents; or all its phases are trained again. */
void pl_rewind_keep(pl_rewind_arm *arm);
void pl_rewind_drop(pl_rewind_arm *arm);
/* The arm of this name, or NULL. */
pl_rewind_arm *pl_rewind_find(const pl_rewind *rewind, const char *arm);
/* Copies the store in `from` into the folder `to`, which must not exist. */
PL_MUST_CHECK pl_status pl_rewind_write(pl_rewind *rewind, const char *from,
                                        const char *to);
void pl_rewind_clear(pl_rewind *rewind);

#ifdef __cplusplus
}
#endif
#endif
