/* The production backend without a GPU; see modules/backend.h. */
#ifndef PL_MODULES_CPU_CPU_H
#define PL_MODULES_CPU_CPU_H
#include "modules/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Called by pl_backend_open, which has checked that n_threads >= 1. */
PL_MUST_CHECK pl_status cpu_backend_create(const pl_backend_options *options,
                                           pl_backend **out);
void cpu_backend_destroy(pl_backend **backend);

#ifdef __cplusplus
}
#endif
#endif
