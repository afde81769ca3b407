/* The public header of measure: measures and checks this machine for commands.
 *
 * - measure_SUBJECT.c: the measurements of `pathloom bench`. Each prints a table or,
 *   with `json`, one JSON object on one line.
 * - train_dial: chooses the keys of a run by the measured speed
 * - doctor: looks for problems that would make a job slow or its data unsafe */
#ifndef PL_MEASURE_MEASURE_H
#define PL_MEASURE_MEASURE_H
#include "job/job.h"
#include "measure/doctor.h"
#include "measure/train_dial.h"

/* Measures the codecs of updates: speed per core, bytes per parameter, error. The
 * updates come from the run in `folder`. If `folder` is NULL, a small model is trained
 * to get updates. */
pl_status measure_codec(bool json, const char *folder);
/* Measures the outer methods: parameters per second, bytes touched per parameter. */
pl_status measure_outer(bool json);

/* Options of the measurements of a training step and of generation (measure_engine.c,
 * measure_generate.c). */
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
    /* with `processes`: number of seconds for which steps are measured, and the mean
     * step counts; 0: a few steps are measured, and the best step counts */
    double seconds;
} measure_options;
pl_status measure_engine(const measure_options *o);
/* Measures reading a prompt and writing tokens. If o->precision is NULL, all precisions
 * are measured. */
pl_status measure_generate(const measure_options *o);

/* Measures the tokens per second of one worker of a job while all workers train the
 * model of this configuration for `seconds` seconds (measure_crew.c). On GPUs one
 * worker trains alone, and its rate is divided by the number of workers per GPU. */
PL_MUST_CHECK pl_status measure_workers(const config *c, int workers, int n_gpus,
                                        double seconds, double *tokens_per_s);

#endif
