/* What a store tells about its audits: how many had which verdict, and whether the
 * published secrets draw exactly the tasks that were audited (outer/audit_row.h). */
#pragma once
#include "outer/outer.h"

pl_status pl_audits_count(pl_store *store, int64_t counts[PL_VERDICT_COUNT]);

/* The draws of all processes of the homes. */
typedef struct pl_draws {
    pl_draw *items;
    size_t n, n_secret; /* n_secret: draws whose secrets were not published */
} pl_draws;

/* The caller frees out->items. */
pl_status pl_draws_read(pl_store *store, pl_draws *out);
/* Returns whether the task may have been audited, or not, as `has_row` says. With
 * several processes it is not known which one drew the task. */
bool pl_draws_explain(const pl_draws *draws, const pl_arm *arm, int path, int replica,
                      int64_t phase, bool has_row);
