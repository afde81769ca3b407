/* Private to job: functions that the stages of `train` share. */
#pragma once
#include "job/routing.h"

pl_status stages_arm_exists(pl_run *r, const char *name, bool *exists);
/* Writes the name of a path's object, "KIND/ARM/p01". Returns `out`. */
char *stages_path_object(const char *kind, const pl_arm *arm, const pl_topology *t,
                         int path, char out[PL_MODULE_NAME_MAX]);
/* Appends an object's bytes to `out`. ERR_NOT_FOUND: there is no such object. */
pl_status stages_read_object(const pl_run *r, const char *name, pl_buf *out);
/* Stores an object, and frees `bytes`. */
pl_status stages_put_object(const pl_run *r, const char *name, pl_buf *bytes);
/* Stores an object's bytes under a second name. ERR_NOT_FOUND: there is no `from`. */
pl_status stages_copy_object(pl_run *r, const char *from, const char *to,
                             pl_hash *blob);
/* Reads the definition of an arm as it was stored. ERR_NOT_FOUND. */
pl_status stages_read_arm(pl_run *r, const char *name, pl_arm *arm);
/* Whether the paths score this training document for router.em. */
bool stages_scores(const pl_run *r, uint32_t document);
/* Reads the parameters of a version into `out` [slot->n_params], and their hash into
 * *params. Waits for the version, because homes merge the last round only some time
 * after the round's updates have arrived. ERR_NOT_FOUND: the version does not appear,
 * or garbage collection has deleted its parameters. */
pl_status stages_read_version(pl_run *r, const char *module, uint64_t number,
                              const pl_slot *slot, float *out, pl_hash *params);
pl_status stages_path_params(const pl_run *r, float **out);
/* Reads the base model's final parameters from the homes. */
pl_status stages_base_params(pl_run *r, float *params);
/* Stores the shard of each path, and sets hashes and weights in the arm. */
pl_status stages_put_shards(pl_run *r, pl_arm *arm, const routing *g);
/* Stores the definition of an arm. Everything that the definition names must be stored
 * before. */
pl_status stages_put_arm(pl_run *r, const pl_arm *arm);

/* Reads the state of a path (ARM/p01.r0), which must have this number of bytes. */
pl_status stages_read_state(pl_run *r, const char *path, uint64_t bytes, pl_buf *out);
/* Stores version 0 of every module, with the parameters `params` of a path of a dense
 * arm, and then the arm's definition. So the hub sees either the complete arm or no
 * arm. */
pl_status stages_publish_arm(pl_run *r, const pl_arm *arm, const pl_topology *t,
                             const float *params);

/* Stores a shard with these documents, and sets its hash and weight in the arm. */
pl_status stages_put_shard(pl_run *r, pl_arm *arm, const pl_topology *t, int path,
                           const uint32_t *docs, size_t n);

/* select.c: the first function stores the held-out documents of each path
 * (train.holdout) as objects "holdout/ARM/pNN". The second copies these objects from
 * another arm. The third tags the best version of each path when the arm has ended. */
pl_status select_put_holdouts(pl_run *r, const pl_arm *arm, const routing *g);
pl_status select_copy_holdouts(pl_run *r, const pl_arm *before, const pl_topology *from,
                               const pl_arm *arm, const pl_topology *t);
pl_status stage_select(pl_run *r, const char *arm);

/* curve_text.c: stores the held-out text of the paths of an arm, if eval.curves asks
 * for curves, and names it in the arm. `router`: NULL if the arm has one path.
 * curve_text_copy copies the held-out text of the previous arm, which has the same
 * paths under the same or different names. */
pl_status curve_text_put(pl_run *r, pl_arm *arm, const pl_topology *t,
                         const pl_prefix_lm *router);
pl_status curve_text_copy(pl_run *r, const pl_arm *from, const pl_topology *before,
                          pl_arm *to, const pl_topology *t);

/* chapters.c: makes chapter `number` (1, 2, ...) of the mixture when the chapter before
 * has ended. Meanwhile the arms `arms` are trained, and their progress is shown. */
pl_status stage_chapter(pl_run *r, int number, const config_chapter *what,
                        const char *const *arms, int n_arms);

/* feature_tasks.c: lets the workers compute the features of the training documents for
 * g->chapter, if there are enough documents for more than one task, and copies them to
 * g->features. *done tells whether it did. */
pl_status stages_feature_tasks(pl_run *r, const float *params, routing *g, bool *done);
