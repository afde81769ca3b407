/* Private to cli: pathloom store log --health. */
#ifndef PL_CLI_STORE_HEALTH_H
#define PL_CLI_STORE_HEALTH_H
#include "cli/store_call.h"

/* Prints one row per version from `last` down to 1. */
pl_status store_log_health(store_call *call, const char *module, uint64_t last);

#endif
