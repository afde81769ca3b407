/* Private to workers: the inner loop of one task, and the thread that runs it. */
#ifndef PL_WORKERS_TRAIN_H
#define PL_WORKERS_TRAIN_H
#include "corpus/corpus.h"
#include "outer/outer.h"
#include <stdatomic.h>

/* One task with everything it depends on; the result is a pure function of it. */
typedef struct train_job {
    /* input: borrowed from the worker until the result is taken */
    const pl_arm *arm;
    const pl_topology *topology;
    const pl_tokens *shard;
    int path, replica;
    int64_t phase;
    const float *start;   /* parameters at the phase's start, [path_params] */
    const float *moments; /* m then v; NULL at phase 0 */
    /* output */
    pl_status status;
    char error[1024];
    float *params;      /* after tau steps, [path_params]; owned */
    float *moments_out; /* m then v; owned */
    double loss;        /* mean over the phase's tokens */
    double seconds;     /* of inner steps */
    double overhead_s;  /* and around them: loading, saving */
    uint64_t first_sample, n_samples, n_tokens;
} train_job;

typedef struct trainer trainer;

/* Starts a thread that owns a backend and a model. `device` (96 bytes) gets the
 * backend's description. */
pl_status trainer_create(const pl_backend_options *backend, trainer **out,
                         char device[96]);
void trainer_destroy(trainer **t); /* stops a running job */
void trainer_start(trainer *t, train_job *job);
train_job *trainer_take(trainer *t); /* a finished job, or NULL */
int trainer_fd(const trainer *t);    /* readable when a job is finished */
void trainer_cancel(trainer *t);     /* the job ends early with ERR_CANCELLED */
/* What the running job has reached. */
void trainer_progress(const trainer *t, int *step, double *loss,
                      double *tokens_per_second);
void train_job_clear(train_job *job);

#endif
