/* Finds the versions of an arm's modules that a tag names: the versions that exist when
 * all paths have finished a phase, or the newest versions. */
#pragma once
#include "outer/outer.h"

/* Returns the module's version when all paths have finished `phase` phases. */
uint64_t pl_version_after(const pl_arm *arm, const pl_topology *t, int module,
                          int64_t phase);
/* Finds the phase that `at` means. A number is a phase; "head" means the newest
 * versions (*out becomes -1). NULL means the newest phase that all modules have
 * finished, or the newest versions if a rollback replaced a version of that phase or if
 * the arm trains with delayed-nesterov. ERR_NOT_FOUND: the arm does not exist, or the
 * phase is not complete. ERR_USAGE: `at` is not a phase, or the method's versions do
 * not belong to phases. */
pl_status pl_tag_phase(pl_store *store, const char *arm, const char *at, int64_t *out);
/* Finds after how many phases of the previous chapter an arm continues it
 * (pl_arm_continues). If a rollback has given these phases up, the arm continues the
 * last versions. */
pl_status pl_arm_start(pl_store *store, const pl_arm *arm, const char *before,
                       int64_t *out);
/* Returns the version of a module of the previous chapter with which a module of the
 * arm begins: the version after `start` phases, or if the module is frozen, the last
 * one. */
uint64_t pl_arm_beginning(const pl_arm *arm, int module, int64_t start,
                          const pl_arm *before, const pl_topology *from, int ancestor);
/* Fills in the versions, the commit and the time of a tag. The caller sets the tag's
 * arm and phase before the call (phase -1: the newest versions), and calls
 * pl_snapshot_clear afterwards, also after a failure. ERR_NOT_FOUND: garbage collection
 * removed a version's parameters. */
pl_status pl_tag_fill(pl_store *store, pl_snapshot *tag);
