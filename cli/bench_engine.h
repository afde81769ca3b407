/* Private to cli: functions that `pathloom bench step`, `bench ops` and `bench
 * generate` share. */
#ifndef PL_CLI_BENCH_ENGINE_H
#define PL_CLI_BENCH_ENGINE_H
#include "cli/bench.h"

typedef struct bench_model {
    const char *name;
    pl_shape shape;
    int batch, rounds; /* of training; rounds: measurements */
    int decode_rounds; /* the same of generation */
} bench_model;

/* The models that are measured if none is named; and any model by its name, also one
 * that needs a GPU. ERR_USAGE with the nearest name if there is no such model
 * (bench_models.c). */
const bench_model *bench_models(int *n);
pl_status bench_model_by_name(const char *name, bench_model *out);

/* The number of processes and of their threads, and the rate of all together. */
typedef struct bench_crew {
    int processes, threads;
    double tokens_per_s;
} bench_crew;

/* Trains `model` in crew->processes processes at once, each bound to processors of its
 * own, and adds up their best steps (bench_crew.c). */
pl_status bench_crew_run(const bench_engine_options *o, const bench_model *model,
                         bench_crew *crew);

#endif
