/* Private to measure: what `bench step`, `bench ops` and `bench generate` share. */
#pragma once
#include "measure/measure.h"
#include "measure/probe.h"

typedef struct measured_model {
    const char *name;
    pl_shape shape;
    /* batch: sequences per training step; rounds: that measure training */
    int batch, rounds;
    int decode_rounds; /* number of rounds that measure generation */
} measured_model;

/* measure_models returns the *n models that are measured if the user names no model.
 * measure_model_by_name finds any model by its name, also a model that needs a GPU.
 * ERR_USAGE names the most similar one (measure_models.c). */
const measured_model *measure_models(int *n);
pl_status measure_model_by_name(const char *name, measured_model *out);

/* Returns the options with which a model's training is measured. */
pl_probe_options measure_probe_options(const measure_options *o,
                                       const measured_model *model);
/* Prints a JSON object with backend, threads and this list under `name`, unless the
 * list is NULL or `status` is an error. Takes the list; returns `status`. */
pl_status measure_say_list(const measure_options *o, const char *name, pl_json *list,
                           pl_status status);

/* A crew: processes that train at the same time, each with `threads` threads.
 * tokens_per_s is the result: the sum of their rates. */
typedef struct measure_crew {
    int processes, threads;
    double tokens_per_s;
} measure_crew;

/* Trains `model` in crew->processes processes at once, and adds up their rates
 * (measure_crew.c). If o->seconds is 0, each process is bound to its own processors,
 * and its best step counts. Otherwise they are not bound, and the mean counts. */
pl_status measure_crew_run(const measure_options *o, const measured_model *model,
                           measure_crew *crew);
