/* Private to cli: the checks of `pathloom doctor`, and how it prints findings. */
#ifndef PL_CLI_DOCTOR_H
#define PL_CLI_DOCTOR_H
#include "cli/cli.h"

typedef enum health { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL } health;

typedef struct doctor {
    bool json;
    int n[3]; /* number of findings by health */
} doctor;

/* Prints one line: the health, what was checked, what was found, and the remedy ("" if
 * none is needed). */
void doctor_say(doctor *d, health how, const char *what, const char *remedy,
                const char *format, ...) PL_PRINTF(5, 6);

/* doctor_machine.c */
void doctor_machine(doctor *d);
void doctor_disk(doctor *d, const char *folder);
/* doctor_gpu.c: a GPU, and how much a worker of the run (or of no run) takes of it.
 * Whether all workers fit is checked only if none of them runs yet. */
void doctor_gpu(doctor *d, const pl_run *r, bool running);
/* doctor_job.c: keys, ports and addresses of a run, and the way to a hub on another
 * machine. */
void doctor_run(doctor *d, const char *dir);
void doctor_hub(doctor *d, const char *hub, const char *key);

#endif
