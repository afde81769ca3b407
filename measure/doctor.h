/* Looks for problems that would make a job slow or its data unsafe: on this machine, in
 * a run, or on the way to the hub of a job on another machine. */
#ifndef PL_MEASURE_DOCTOR_H
#define PL_MEASURE_DOCTOR_H
#include "base/base.h"

typedef enum health { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL } health;

typedef struct doctor {
    /* gets each finding: its health, the thing that was checked, the sentence about it,
     * and the remedy ("" if no remedy is needed) */
    void (*tell)(void *context, health how, const char *what, const char *found,
                 const char *remedy);
    void *context;
    int n[3]; /* number of findings by health */
} doctor;

/* Checks this machine. Then checks the connection to `hub` with the key in the file
 * `key`; if `hub` is NULL, checks the run in `dir` instead. */
void doctor_examine(doctor *d, const char *dir, const char *hub, const char *key);

#endif
