/* How the workers of a job spent their time, by the totals of its hub. */
#ifndef PL_JOB_WORKER_TIMES_H
#define PL_JOB_WORKER_TIMES_H
#include "job/run.h"

/* The hub's totals until `at`: one object per worker. */
typedef struct worker_times {
    double at;
    pl_json *status; /* NULL: the hub did not answer; the caller destroys it */
} worker_times;
worker_times worker_times_now(pl_run *r);
/* Prints how the workers spent their time since then, and writes RUN/workers.json. */
PL_MUST_CHECK pl_status worker_times_report(pl_run *r, const worker_times *before);

#endif
