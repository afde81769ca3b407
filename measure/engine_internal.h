/* Private to measure: functions that `pathloom bench step`, `bench ops` and `bench
 * generate` share. */
#ifndef PL_MEASURE_ENGINE_INTERNAL_H
#define PL_MEASURE_ENGINE_INTERNAL_H
#include "measure/measure.h"

typedef struct measured_model {
    const char *name;
    pl_shape shape;
    /* batch: sequences per training step; rounds: measurements of training */
    int batch, rounds;
    int decode_rounds; /* measurements of generation */
} measured_model;

/* measure_models gives the models that are measured if none is named.
 * measure_model_by_name finds any model by its name, also one that needs a GPU;
 * ERR_USAGE names the nearest name if there is no such model (measure_models.c). */
const measured_model *measure_models(int *n);
pl_status measure_model_by_name(const char *name, measured_model *out);

/* How many processes train, with how many threads each; and the result, the sum of
 * their rates. */
typedef struct measure_crew {
    int processes, threads;
    double tokens_per_s;
} measure_crew;

/* Trains `model` in crew->processes processes at once, each bound to its own
 * processors, and adds up the rates of their best steps (measure_crew.c). */
pl_status measure_crew_run(const measure_options *o, const measured_model *model,
                           measure_crew *crew);

#endif
