/* Finds the versions of an arm's modules that a tag names: the versions that exist when
 * all paths have finished a phase, or the newest versions. */
#ifndef PL_HOME_PHASE_TAG_H
#define PL_HOME_PHASE_TAG_H
#include "outer/outer.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The number of versions of a module that all phases before `phase` have made
 * together. */
uint64_t pl_version_after(const pl_arm *arm, const pl_topology *t, int module,
                          int64_t phase);
/* Finds the phase that `at` means: a number; "head" for the newest versions (-1); or
 * NULL for the newest phase that all modules have finished (-1 if a rollback replaced
 * one of its versions). ERR_NOT_FOUND: the arm does not exist, or the phase is not
 * complete. */
PL_MUST_CHECK pl_status pl_tag_phase(pl_store *store, const char *arm, const char *at,
                                     int64_t *out);
/* Fills in the versions, the commit and the time of a tag. The caller must have set the
 * tag's arm and phase. Call pl_snapshot_clear afterwards, also after a failure. */
PL_MUST_CHECK pl_status pl_tag_fill(pl_store *store, pl_snapshot *tag);

#ifdef __cplusplus
}
#endif
#endif
