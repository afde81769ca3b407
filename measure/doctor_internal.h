/* Private to measure: the checks of `pathloom doctor`. */
#pragma once
#include "job/job.h"
#include "measure/doctor.h"

/* Counts a finding and passes it to d->tell; `format` makes the sentence `found`. The
 * remedy is left out if `how` is HEALTH_OK. */
void doctor_say(doctor *d, health how, const char *what, const char *remedy,
                const char *format, ...) PL_PRINTF(5, 6);

void doctor_machine(doctor *d);
void doctor_disk(doctor *d, const char *folder);
/* doctor_gpu.c: checks whether there is a GPU. If r is not NULL, also checks how much
 * of the GPU's memory a worker of this run needs, and, if `running` is false, whether
 * all workers fit. (While a job runs, its workers already use the memory, so the free
 * memory says nothing about this.) */
void doctor_gpu(doctor *d, const pl_run *r, bool running);
/* doctor_job.c: checks keys, ports and addresses of a run, and the connection to a hub
 * on another machine. */
void doctor_run(doctor *d, const char *dir);
void doctor_hub(doctor *d, const char *hub, const char *key);
