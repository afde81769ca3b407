/* Merged modules: versions that were made from other versions, not by training.
 *
 * A merged module does not belong to an arm. Its name begins with the tag for which it
 * was made: "TAG.merged/L1.E0". The record of its version is the recipe, so the version
 * can be made again from its record:
 *
 * - `method` is for example "merge ties", `lr` the scale, `outer_momentum` the density.
 * - Each contribution is a source: its `worker` is for example "mix/L1.E0@3", its phase
 *   the version's number, its update the hash, its weight the weight, and its norm the
 *   distance from the base (without a base, the source's own norm).
 * - The base is a contribution whose codec is "base". */
#ifndef PL_HOME_MERGED_H
#define PL_HOME_MERGED_H
#include "home/names.h"
#include "outer/outer.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_recipe {
    pl_blend blend;
    /* base: the version that the method measures changes from, if it needs one */
    pl_module_at sources[PL_BLEND_SOURCES_MAX], base;
} pl_recipe;

/* The name of the merged module of a tag for `place`, such as "L1.E0". ERR_USAGE: the
 * name is too long. */
PL_MUST_CHECK pl_status pl_merged_name(const char *tag, const char *place,
                                       char out[PL_MODULE_NAME_MAX]);
bool pl_module_is_merged(const char *module); /* by its name */
/* Writes the tag for which a merged module was made; false if it is not merged. */
bool pl_merged_tag(const char *module, char out[PL_MODULE_NAME_MAX]);
bool pl_version_is_merged(const pl_version *version);
/* The method of a merged version; PL_BLEND_COUNT if it is not known. */
pl_blend_method pl_version_blend(const pl_version *version);
/* The source, or the base, for which a contribution to a merged version stands.
 * ERR_DAMAGED. */
PL_MUST_CHECK pl_status pl_merged_source_of(const pl_contribution *c,
                                            pl_module_at *out);
bool pl_contribution_is_base(const pl_contribution *c);

/* Makes the parameters and the version's record, except for number, parent and time.
 * Call pl_version_clear on *made and pl_free_aligned on *params afterwards, also after
 * a failure. ERR_USAGE: the sources have different shapes. ERR_NOT_FOUND: a source was
 * collected. */
PL_MUST_CHECK pl_status pl_merged_make(pl_store *store, const char *module,
                                       const pl_recipe *recipe, pl_version *made,
                                       float **params);
/* Commits the version as the next one of its module, unless the newest version already
 * has this recipe and these parameters. Sets made->number to the version's number. */
PL_MUST_CHECK pl_status pl_merged_keep(pl_store *store, pl_version *made,
                                       const float *params);
/* Computes the hash of the parameters that the version's recipe gives. ERR_NOT_FOUND: a
 * source no longer exists, or is a different version than the record says. */
PL_MUST_CHECK pl_status pl_merged_again(pl_store *store, const pl_version *made,
                                        pl_hash *out);

#ifdef __cplusplus
}
#endif
#endif
