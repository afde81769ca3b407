/* Merges modules: finds the sources that words name, makes a version from the versions
 * of all sources for each module of the first source, and fills in the tag that names
 * the results. */
#ifndef PL_HOME_MERGE_PLAN_H
#define PL_HOME_MERGE_PLAN_H
#include "home/merged.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_merge_source {
    const char *word;
    pl_module_set set;
    /* true for a module or a path: modules correspond by their order; false for an arm
     * or a tag: modules correspond by their names */
    bool ordered;
} pl_merge_source;

typedef struct pl_merge_plan {
    /* the caller fills in the following fields */
    const char *tag_name, *note; /* note: NULL for none */
    pl_blend blend;
    pl_merge_source sources[PL_BLEND_SOURCES_MAX], base; /* their words */
    pl_writers *writers;
    pl_store *view; /* a reader that `writers` owns: it shows what they write */
    /* decides which home gets a name that no home has yet; if its n is 0, the store is
     * in one piece */
    pl_places places;
    /* called for each version that was made and committed */
    void (*made)(void *context, const pl_version *version);
    void *context;
    pl_snapshot tag; /* the tag that pl_merge_plan_run fills in */
    int n_merged;    /* number of its modules that were merged */
} pl_merge_plan;

/* Finds what the words of the sources and of the base name. */
PL_MUST_CHECK pl_status pl_merge_plan_find(pl_merge_plan *plan);
/* Makes the versions, first without storing them, and commits them. */
PL_MUST_CHECK pl_status pl_merge_plan_run(pl_merge_plan *plan);
void pl_merge_plan_clear(pl_merge_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
