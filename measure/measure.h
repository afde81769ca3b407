/* The door of measure: what commands find out about this machine.
 *
 * - measure_SUBJECT.c: the measurements of `pathloom bench`. Each prints a table or,
 *   with `json`, one JSON object on one line.
 * - train_dial: the keys of a run from the measured speed
 * - doctor: problems that would make a job slow or its data unsafe */
#ifndef PL_MEASURE_MEASURE_H
#define PL_MEASURE_MEASURE_H
#include "job/job.h"
#include "measure/doctor.h"
#include "measure/train_dial.h"

/* Measures the codecs of updates: speed per core, bytes per parameter, error. The
 * updates come from the run in `folder`; if it is NULL, a small model is trained for
 * them. */
pl_status measure_codec(bool json, const char *folder);
/* Measures the outer methods: parameters per second, bytes touched per parameter. */
pl_status measure_outer(bool json);

/* Measures a training step, or with `ops` its operations (measure_engine.c). */
typedef struct measure_options {
    bool ops, json, cpu_clock;
    bool muon;                   /* measure with train.optimizer=muon */
    int muon_rows;               /* train.muon_rows */
    const char *model;           /* a name from measure_models.c, or NULL */
    const char *const *settings; /* model.KEY=VALUE pairs: a shape given by the user */
    int n_settings;
    int threads;
    int processes; /* 0: only this process, with a table of where its time goes */
    const char *backend, *precision, *clock;
    /* with `processes`: for how many seconds steps are measured, of which the mean
     * counts; 0: a few steps, of which the best counts */
    double seconds;
} measure_options;
pl_status measure_engine(const measure_options *o);
/* Measures reading a prompt and writing tokens. precision NULL: all precisions. */
pl_status measure_generate(const measure_options *o);

/* Measures the tokens per second of one of a job's workers while all of them train the
 * model of this configuration for the given number of seconds (measure_crew.c). On GPUs
 * one worker trains alone, and its rate is divided by the workers of a GPU. */
PL_MUST_CHECK pl_status measure_workers(const config *c, int workers, int n_gpus,
                                        double seconds, double *tokens_per_s);

#endif
