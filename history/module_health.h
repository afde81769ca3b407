/* Computes how well the outer steps of a module worked (outer/health.h). */
#pragma once
#include "outer/outer.h"

/* Computes the health of versions 0 to `last`. *out has last + 1 entries. The caller
 * frees *out with pl_free, also after a failure. */
pl_status pl_module_health(pl_store *store, const char *module, uint64_t last,
                           pl_health **out);
