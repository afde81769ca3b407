/* The events of all processes of a run, merged by time. */
#pragma once
#include "view/page_log.h"

/* Says which logs are read and which of their events are shown. An event must meet all
 * conditions; a condition that is NULL excludes no event. */
typedef struct observe_wish {
    const char *run; /* the run's folder; NULL: only the files in `logs` */
    /* address of the hub of a job on another machine, whose log is read, and file with
     * the key for the connection; or NULL */
    const char *hub, *key;
    /* [n_logs] further files, such as logs of processes on other machines */
    const char *const *logs;
    int n_logs;
    const char *event; /* the event's name begins with this text */
    const char *path; /* the event is about this path: "p01", "mix/p01", "mix/p01.r0" */
    const char *module; /* the event is about this module: "L1.E0" or "mix/L1.E0" */
    /* this worker wrote the event, or the event names it */
    const char *worker;
} observe_wish;

typedef struct observe_out {
    void (*event)(void *context, const page_event *event, const char *file);
    /* Gets a remark about the logs: a worker's clock differs from the hub's, the times
     * in a file go back, or lines of a file are not events. */
    void (*remark)(void *context, const char *sentence);
    void *context;
} observe_out;

/* Calls `event` for each shown event, in the order of their times. The lines of one
 * file keep their order, even if the clock was set back. Also reads rotated logs
 * (NAME.log.1, NAME.log-DATE). ERR_NOT_FOUND: there are no logs. */
pl_status observe_logs(const observe_wish *wish, const observe_out *out);
