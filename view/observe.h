/* The events of all processes of a run, merged by time. */
#ifndef PL_VIEW_OBSERVE_H
#define PL_VIEW_OBSERVE_H
#include "view/page_log.h"

/* Says which events are shown. A field that is NULL excludes no event. */
typedef struct observe_wish {
    const char *run; /* the run's folder; NULL: only the files in `logs` */
    /* logs of processes on other machines */
    const char *const *logs;
    int n_logs;
    const char *event;  /* the event's name begins with this */
    const char *path;   /* "p01", "mix/p01" or "mix/p01.r0" */
    const char *module; /* "L1.E0" or "mix/L1.E0" */
    /* the worker that wrote the event, or that the event names */
    const char *worker;
} observe_wish;

typedef struct observe_out {
    void (*event)(void *context, const page_event *event, const char *file);
    /* Gets a remark about the logs: a clock differs from the hub's clock, times go
     * back, or lines are not events. */
    void (*remark)(void *context, const char *sentence);
    void *context;
} observe_out;

/* Gives the events in the order of their times. The lines of one file keep their order,
 * even if the clock was set back. Also reads rotated logs (NAME.log.1, NAME.log-DATE).
 * ERR_NOT_FOUND: there are no logs. */
PL_MUST_CHECK pl_status observe_logs(const observe_wish *wish, const observe_out *out);

#endif
