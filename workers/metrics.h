/* Writes the status of a job in the text format of Prometheus (0.0.4). */
#ifndef PL_WORKERS_METRICS_H
#define PL_WORKERS_METRICS_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Appends the text; `status` is the JSON of a STATUS_IS (docs/PROTOCOL.md 2.2). */
void pl_metrics_write(const pl_json *status, pl_buf *out);

#ifdef __cplusplus
}
#endif
#endif
