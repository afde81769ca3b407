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

/* measure_models returns the models that are measured if the user names none.
 * measure_model_by_name finds any model by its name, also a model that needs a GPU. If
 * there is no such model, the sentence of ERR_USAGE has the most similar name
 * (measure_models.c). */
const measured_model *measure_models(int *n);
pl_status measure_model_by_name(const char *name, measured_model *out);

/* The number of processes that train, the number of threads of each process, and the
 * result: the sum of their rates. */
typedef struct measure_crew {
    int processes, threads;
    double tokens_per_s;
} measure_crew;

/* Trains `model` in crew->processes processes at once, each bound to different
 * processors, and adds up the rates of their best steps (measure_crew.c). */
pl_status measure_crew_run(const measure_options *o, const measured_model *model,
                           measure_crew *crew);

#endif
