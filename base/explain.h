/* The table of statuses, exit codes and events of a log, with their meaning. */
#pragma once
#include "base/status.h"
#include <stddef.h>
PL_C_BEGIN

typedef struct pl_explanation {
    const char *code; /* "ERR_BUSY", "130", or the name of an event: "lease.expired" */
    const char *meaning;         /* whole sentences */
    const char *causes, *remedy; /* each "" if there is nothing to say */
} pl_explanation;

extern const pl_explanation pl_explanations[];
extern const size_t pl_n_explanations;

PL_C_END
