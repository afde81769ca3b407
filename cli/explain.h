/* Private to cli: the table of statuses and events with their meaning. */
#ifndef PL_CLI_EXPLAIN_H
#define PL_CLI_EXPLAIN_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct explanation {
    const char *code; /* "ERR_BUSY", "130", or the name of an event: "lease.expired" */
    const char *meaning;         /* whole sentences */
    const char *causes, *remedy; /* "" if nothing needs to be done */
} explanation;

extern const explanation explanations[];
extern const size_t n_explanations;

#ifdef __cplusplus
}
#endif
#endif
