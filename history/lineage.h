/* Finds the versions from which a version was made: its parent, the version to which a
 * rollback returned, the last version of the previous chapter or arm, or the sources of
 * a merge. */
#pragma once
#include "history/merged.h"

typedef enum pl_lineage_kind {
    PL_LINEAGE_FIRST, /* a version 0 that continues no version of this store */
    PL_LINEAGE_ROUND, /* made by an outer step */
    PL_LINEAGE_BACK,  /* made by a rollback */
    PL_LINEAGE_BEGIN, /* version 0 of an arm that continues another arm */
    PL_LINEAGE_MERGE  /* made by `pathloom store merge` */
} pl_lineage_kind;

enum { PL_LINEAGE_SOURCES = PL_BLEND_SOURCES_MAX + 1 }; /* + 1: the base of a merge */
typedef struct pl_lineage {
    pl_lineage_kind kind;
    int n;
    pl_module_at sources[PL_LINEAGE_SOURCES];
} pl_lineage;

/* Finds the sources of a version, without those that a damaged record misnames. */
pl_status pl_lineage_of(pl_store *store, const pl_version *version, pl_lineage *out);
