/* Copies a run's store without some documents of the training data. The copy has only
 * data that would be the same if the run had never had these documents. So it has no
 * result of a task that used one of them, or that depends on such a task.
 *
 * For each module, the copy ends with the newest version that does not depend on the
 * documents. Each path ends at the phase from which it is trained again
 * (history/affected.h). In every data shard the documents are blank. A job that opens
 * the copy trains the rest. Data that depend on the documents are never written to the
 * copy, so the copy's files contain no trace of the documents. */
#pragma once
#include "history/exposure.h"
#include "history/affected.h"

typedef struct pl_rewind_arm {
    pl_arm arm; /* the arm's definition with the shards of the copy */
    pl_topology *topology;
    pl_affected affected;
    bool drops; /* the copy lacks the arm; the job trains it again */
    /* the arm was trained on the documents, and its definition still names the shards
     * that had them; the copy has only blank shards */
    bool keeps;
    bool is_changed; /* whether any phase of a path changes */
    /* the first path without text when the documents are gone; -1: there is none */
    int emptied;
    /* phases, summed over paths: all, those that change, those trained again */
    int64_t n_phases, n_changed, n_again;
    /* seconds of inner steps: in all phases, and in those trained again */
    double seconds, again_s;
    /* device: the kind of device that trained the arm; "" if none is recorded.
     * other_device: a second kind if there were several, otherwise "". */
    char device[PL_TEXT_MAX], other_device[PL_TEXT_MAX];
} pl_rewind_arm;

typedef struct pl_rewind {
    /* the whole store, opened for reading by the caller, who owns it */
    pl_store *store;
    pl_doc_list docs;
    pl_rewind_arm *arms;
    int n_arms;
    /* Names of tags that are not copied, each after a blank. remade: tags that the job
     * makes again; the caller fills in this list. dropped: tags with versions that the
     * copy lacks; pl_rewind_write fills in this list. */
    pl_buf remade, dropped;
} pl_rewind;

/* Reads the arms of the store, and finds which phases change without the documents. The
 * plan keeps every arm. ERR_UNSUPPORTED: the result of an arm's training depended on
 * timing, or a module was rolled back. */
pl_status pl_rewind_plan(pl_store *store, const pl_doc_list *docs, pl_rewind *out);
/* Both functions change the plan for one arm. pl_rewind_keep: the copy keeps all data
 * of the arm, although the arm was trained on the documents. pl_rewind_drop: all phases
 * of the arm are trained again. */
void pl_rewind_keep(pl_rewind_arm *arm);
void pl_rewind_drop(pl_rewind_arm *arm);
/* Returns the plan for the arm of this name, or NULL. */
pl_rewind_arm *pl_rewind_find(const pl_rewind *rewind, const char *arm);
/* Copies the store in `from` into the folder `to`, which must not exist. */
pl_status pl_rewind_write(pl_rewind *rewind, const char *from, const char *to);
void pl_rewind_clear(pl_rewind *rewind);
