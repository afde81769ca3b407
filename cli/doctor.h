/* Private to cli: what `pathloom doctor` looks at, and its words about it. */
#ifndef PL_CLI_DOCTOR_H
#define PL_CLI_DOCTOR_H
#include "cli/cli.h"

typedef enum health { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL } health;

typedef struct doctor {
    bool json;
    int n[3]; /* findings by health */
} doctor;

/* One line: how it is, what was looked at, what was found, and the remedy ("" if none
 * is needed). */
void doctor_say(doctor *d, health how, const char *what, const char *remedy,
                const char *format, ...) PL_PRINTF(5, 6);

/* doctor_machine.c */
void doctor_machine(doctor *d);
void doctor_disk(doctor *d, const char *folder);
/* doctor_gpu.c: a GPU, and what a worker of the run, or of none, takes of it;
 * whether all fit is asked where none of them is there yet. */
void doctor_gpu(doctor *d, const pl_run *r, bool running);
/* doctor_job.c: keys, ports and addresses of a run; the way to a hub elsewhere. */
void doctor_run(doctor *d, const char *dir);
void doctor_hub(doctor *d, const char *hub, const char *key);

#endif
