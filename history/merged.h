/* Merged modules: versions that were made from other versions, not by training.
 *
 * A merged module does not belong to an arm. Its name begins with the name of the tag
 * for which it was made: "TAG.merged/L1.E0". The record of its version has the recipe,
 * so the version can be computed again from the record:
 *
 * - `method` is for example "merge ties", `lr` the scale, `outer_momentum` the density.
 * - Each contribution is a source. Its `worker` names the source's version, for example
 *   "mix/L1.E0@3", and its `phase` is the number of that version. Its `update` is the
 *   hash of the source's parameters, its `weight` the source's weight in the merge, and
 *   its `norm` the distance from the base. Without a base, `norm` is the norm of the
 *   source's parameters.
 * - The base is a contribution whose codec is "base". */
#pragma once
#include "history/names.h"
#include "outer/outer.h"

typedef struct pl_recipe {
    pl_blend blend;
    /* base: the version from which some methods measure changes */
    pl_module_at sources[PL_BLEND_SOURCES_MAX], base;
} pl_recipe;

/* Writes the name of a tag's merged module for `place`, such as "L1.E0". ERR_USAGE. */
pl_status pl_merged_name(const char *tag, const char *place,
                         char out[PL_MODULE_NAME_MAX]);
bool pl_module_is_merged(const char *module); /* decides by the module's name */
/* Writes the name of the tag of a merged module; false: it is not merged. */
bool pl_merged_tag(const char *module, char out[PL_MODULE_NAME_MAX]);
bool pl_version_is_merged(const pl_version *version);
/* Whether relays added updates: then several contributions name the same sum. */
bool pl_version_has_sums(const pl_version *version);
pl_blend_method pl_version_blend(const pl_version *version);
/* Finds the source, or the base, that a contribution to a merged version names.
 * ERR_DAMAGED: the contribution does not name a version. */
pl_status pl_merged_source_of(const pl_contribution *c, pl_module_at *out);
bool pl_contribution_is_base(const pl_contribution *c);

/* Reads the n parameters of a version. The caller frees *out with pl_free, also
 * after a failure. `what` names them if memory is short. ERR_NOT_FOUND: garbage
 * collection removed them. */
pl_status pl_version_params(pl_store *store, const pl_version *v, const char *what,
                            size_t *n, float **out);

/* Computes the parameters of a merged version, and fills in its record except for
 * number, parent and time. The caller must call pl_version_clear on *made and
 * pl_free on *params, even after a failure. ERR_USAGE: the sources have
 * different shapes. ERR_NOT_FOUND: garbage collection removed a source. */
pl_status pl_merged_make(pl_store *store, const char *module, const pl_recipe *recipe,
                         pl_version *made, float **params);
/* Commits the version as the module's next version, unless the newest version already
 * has this recipe and these parameters. Sets made->number to the version's number. */
pl_status pl_merged_keep(pl_store *store, pl_version *made, const float *params);
/* Computes a merged version again from its recipe, and returns the hash of the
 * parameters. ERR_NOT_FOUND: a source no longer exists, or is a different version than
 * the record says. */
pl_status pl_merged_again(pl_store *store, const pl_version *made, pl_hash *out);
