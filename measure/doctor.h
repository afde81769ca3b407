/* Looks for problems that would make a job slow or its data unsafe: on this machine, in
 * a run, or on the way to the hub of a job on another machine. */
#pragma once
#include "base/base.h"

typedef enum health { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL } health;

typedef struct doctor {
    /* Called for each finding. how: its health; what: name of the thing that was
     * checked; found: a sentence about that thing; remedy: what the user should do, ""
     * if there is nothing to do or if `found` already says what to do. */
    void (*tell)(void *context, health how, const char *what, const char *found,
                 const char *remedy);
    void *context;
    int n[3]; /* number of findings by health */
} doctor;

/* Checks this machine. Then, if `hub` is not NULL, checks the connection to this hub
 * with the key in the file `key`; otherwise checks the run in the folder `dir`. */
void doctor_examine(doctor *d, const char *dir, const char *hub, const char *key);
