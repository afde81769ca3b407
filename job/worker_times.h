/* Computes how the workers of a job spent their time, from the totals of the job's
 * hub. */
#pragma once
#include "job/run.h"

/* The hub's totals up to the time `at`: one object per worker. */
typedef struct worker_times {
    double at;
    pl_json *status; /* NULL: the hub did not answer; the caller destroys it */
} worker_times;
worker_times worker_times_now(pl_run *r);
/* Prints how the workers spent their time since `before`, and writes
 * RUN/workers.json. */
pl_status worker_times_report(pl_run *r, const worker_times *before);
