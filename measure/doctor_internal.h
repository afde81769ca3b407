/* Private to measure: the checks of `pathloom doctor`. */
#ifndef PL_MEASURE_DOCTOR_INTERNAL_H
#define PL_MEASURE_DOCTOR_INTERNAL_H
#include "job/job.h"
#include "measure/doctor.h"

/* Counts a finding and tells it to the user. The format makes the sentence about it. */
void doctor_say(doctor *d, health how, const char *what, const char *remedy,
                const char *format, ...) PL_PRINTF(5, 6);

/* doctor_machine.c */
void doctor_machine(doctor *d);
void doctor_disk(doctor *d, const char *folder);
/* doctor_gpu.c: checks whether there is a GPU, and how much of its memory a worker of
 * the run `r` needs. Whether all workers fit is checked only while no job is
 * running. */
void doctor_gpu(doctor *d, const pl_run *r, bool running);
/* doctor_job.c: checks keys, ports and addresses of a run, and the connection to a hub
 * on another machine. */
void doctor_run(doctor *d, const char *dir);
void doctor_hub(doctor *d, const char *hub, const char *key);

#endif
