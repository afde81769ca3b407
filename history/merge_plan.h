/* Merges modules: finds the sources that the user's words name, makes one version from
 * the versions of all sources for each module of the first source, and fills in the tag
 * that names the new versions. */
#pragma once
#include "history/merged.h"

typedef struct pl_merge_source {
    const char *word;
    pl_module_set set;
    /* True: the source is a module or a path, and its i-th module corresponds to the
     * i-th module of the first source. False: the source is an arm or a tag, and
     * modules with the same name correspond. */
    bool ordered;
} pl_merge_source;

typedef struct pl_merge_plan {
    /* the caller fills in the following fields */
    const char *tag_name, *note; /* note: may be NULL */
    pl_blend blend;
    /* the caller sets `word` in each */
    pl_merge_source sources[PL_BLEND_SOURCES_MAX], base;
    pl_writers *writers;
    /* the reader that `writers` owns (pl_writers_view) */
    pl_store *view;
    /* called for each version that was made and committed */
    void (*made)(void *context, const pl_version *version);
    void *context;
    pl_snapshot tag; /* the tag that pl_merge_plan_run fills in */
    int n_merged;    /* number of modules that were merged */
} pl_merge_plan;

/* Finds the modules that the words of the sources and of the base name. Makes all
 * versions once without storing them, so that an error is found before anything is
 * written. Then makes them again and commits them. */
pl_status pl_merge_plan_run(pl_merge_plan *plan);
void pl_merge_plan_clear(pl_merge_plan *plan);
