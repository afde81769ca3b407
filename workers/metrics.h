/* Writes the status of a job in the text format of Prometheus (0.0.4). */
#pragma once
#include "base/base.h"

/* Appends the text; `status` is the JSON of a STATUS_IS (docs/PROTOCOL.md 2.2). */
void pl_metrics_write(const pl_json *status, pl_buf *out);
