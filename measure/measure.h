/* The public header of measure: measures and checks this machine for commands.
 *
 * - measure_SUBJECT.c: the measurements of `pathloom bench`. Each prints a table or,
 *   with `json`, one JSON object on one line.
 * - train_dial: chooses the keys of a run by the measured speed
 * - doctor: looks for problems that would make a job slow or its data unsafe */
#pragma once
#include "job/job.h"
#include "measure/doctor.h"
#include "measure/train_dial.h"

/* Measures the codecs of updates: speed per core, bytes per parameter, error. The
 * updates come from the run in `folder`. If `folder` is NULL, a small model is trained
 * to get updates. */
pl_status measure_codec(bool json, const char *folder);
/* Measures outer steps: parameters per second, bytes moved per parameter. */
pl_status measure_outer(bool json);

/* The options of `pathloom bench store`, `wire`, `home`, `hub` and `router`. */
typedef struct measure_disk {
    const char *folder, *engine; /* engine: a URL, as in store.engine, or NULL */
    int64_t repeats, bytes;      /* bytes: size of a commit; 0: several sizes */
} measure_disk;
typedef struct measure_transfers {
    int64_t bytes; /* size of a transfer */
    int rounds;
    bool messages; /* measure only messages, without homes */
} measure_transfers;
typedef struct measure_load {
    int64_t workers, bytes; /* bytes: size of the object of each worker */
    int rounds;
} measure_load;
typedef struct measure_fleet {
    int workers, seconds, task_s;
    const char *levels; /* as topology.levels; NULL: no path shares a module */
} measure_fleet;
typedef struct measure_documents {
    const char *folder;
    int64_t documents;
    int paths, columns, memory_mib; /* memory_mib: limit for a fit; 0: no limit */
} measure_documents;
/* Measure a store; transfers between a worker and a home; a home with many workers; a
 * hub with simulated workers; the routing of synthetic documents. */
pl_status measure_store(const measure_disk *o);
pl_status measure_wire(const measure_transfers *o);
pl_status measure_home(const measure_load *o);
pl_status measure_hub(const measure_fleet *o);
pl_status measure_router(const measure_documents *o);

/* Options of measure_engine.c (a training step) and measure_generate.c. */
typedef struct measure_options {
    /* ops: also measure the operations of a step; json: print JSON instead of a table;
     * cpu_clock: measure the processor time of one thread */
    bool ops, json, cpu_clock;
    bool muon;                   /* measure with train.optimizer=muon */
    int muon_rows;               /* train.muon_rows */
    const char *model;           /* a name from measure_models.c, or NULL */
    const char *const *settings; /* model.KEY=VALUE pairs: a shape given by the user */
    int n_settings;
    int threads;   /* number of threads per process */
    int processes; /* number of processes that train at once; 0: only this process */
    const char *backend, *precision, *clock; /* the texts that the user gave */
    /* Only for processes that train at once. Above 0: each process trains for this many
     * seconds, and its mean step counts. 0: its best of a few steps counts. */
    double seconds;
} measure_options;
pl_status measure_engine(const measure_options *o);
/* Measures how many tokens of a prompt a path reads per second, and how many tokens it
 * writes per second. If o->precision is NULL, measures all precisions. */
pl_status measure_generate(const measure_options *o);

/* the workers of a job that train at once, and the threads of each */
typedef struct measured_workers {
    int workers, threads, n_gpus;
} measured_workers;
/* Computes the tokens per second of one worker while all these workers train
 * (measure_crew.c). On CPUs, as many processes train the model of this configuration
 * for `seconds` seconds, and the result is their mean rate. On GPUs one process trains
 * alone, and its rate is divided by the number of workers per GPU. */
pl_status measure_workers(const config *c, const measured_workers *of, double seconds,
                          double *tokens_per_s);
