/* Merged modules: versions that were made of other versions, not by training.
 *
 * A merged module stands beside the arms, under the name of the tag it was made for:
 * "TAG.merged/L1.E0". The record of its version is the recipe: `method` is "merge
 * ties", `lr` the scale, `outer_momentum` the density, and each contribution is a
 * source: worker "mix/L1.E0@3", phase its number, update its hash, weight, and norm its
 * distance from the base (without a base its own norm). The base is a contribution
 * whose codec is "base". So the version can be made again from its record. */
#ifndef PL_HOME_MERGED_H
#define PL_HOME_MERGED_H
#include "outer/outer.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_merged_source {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
} pl_merged_source;
typedef struct pl_recipe {
    pl_blend blend;
    pl_merged_source sources[PL_BLEND_SOURCES_MAX], base; /* base: if it needs one */
} pl_recipe;

/* The module of a tag that stands at `place` ("L1.E0"). ERR_USAGE: the name is too
 * long.
 */
PL_MUST_CHECK pl_status pl_merged_name(const char *tag, const char *place,
                                       char out[PL_MODULE_NAME_MAX]);
bool pl_module_is_merged(const char *module); /* by its name */
bool pl_version_is_merged(const pl_version *version);
bool pl_contribution_is_base(const pl_contribution *c);

/* Makes the parameters and the version's record, but for number, parent and time. Clear
 * *made and free *params (pl_free_aligned), also after a failure. ERR_USAGE: the
 * sources have different shapes. ERR_NOT_FOUND: a source was collected. */
PL_MUST_CHECK pl_status pl_merged_make(pl_store *store, const char *module,
                                       const pl_recipe *recipe, pl_version *made,
                                       float **params);
/* Commits it as the next version of its module, unless the newest has the same recipe
 * and parameters. Sets made->number. */
PL_MUST_CHECK pl_status pl_merged_keep(pl_store *store, pl_version *made,
                                       const float *params);
/* The hash of the parameters that the version's recipe gives. ERR_NOT_FOUND: a source
 * is no longer there, or is another version than the record says. */
PL_MUST_CHECK pl_status pl_merged_again(pl_store *store, const pl_version *made,
                                        pl_hash *out);

#ifdef __cplusplus
}
#endif
#endif
