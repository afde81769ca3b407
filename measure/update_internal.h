/* Private to measure: an update with which codecs are measured. */
#pragma once
#include "job/job.h"
#include "codec/codec.h"
#include "outer/outer.h"

typedef struct measure_update {
    pl_topology *topology;
    size_t n; /* number of parameters of a path */
    /* [n] the parameters at the start of a phase minus those at its end */
    float *values;
    char source[160]; /* says in words where the update comes from */
} measure_update;

/* Reads the update of path 0 of a run's mixture: the update that the path sent in the
 * last merged phase, if the store still has it, otherwise the difference between the
 * last two versions. ERR_NOT_FOUND if nothing was merged yet. */
pl_status measure_update_read(const char *folder, measure_update *out);
/* Trains `laptop` on random text for 60 steps; the update: of the last 20. */
pl_status measure_update_train(measure_update *out);
void measure_update_free(measure_update *update);
