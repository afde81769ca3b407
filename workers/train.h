/* Private to workers: the inner loop of one task, and the thread that runs it. */
#ifndef PL_WORKERS_TRAIN_H
#define PL_WORKERS_TRAIN_H
#include "corpus/corpus.h"
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include <stdatomic.h>

/* One task with everything it depends on; the result is a pure function of it. */
typedef struct train_job {
    /* input: borrowed from the worker until the result is taken */
    const pl_arm *arm;
    const pl_topology *topology;
    const pl_tokens *shard;
    int path, replica;
    int64_t first_step; /* of the path's life: where its data and schedule are */
    int steps;          /* to do */
    const float *start; /* parameters, [path_params] */
    int n_vectors;      /* of the state; m and v are the first */
    int mix_step;       /* after so many steps merged parameters come in; -1: never */
    double mix;         /* local = mix local + (1 - mix) merged */
    const bool *mixed;  /* [n_slots] which slots that concerns */
    /* input and output */
    float *state; /* [n_vectors, path_params], owned: m and v from before the steps,
                     then from after them; NULL: zeros before */
    /* output */
    pl_status status;
    char error[1024];
    float *params;     /* after the steps, [path_params]; owned */
    double loss;       /* mean over the phase's tokens */
    double seconds;    /* of inner steps */
    double overhead_s; /* and around them: loading, saving */
    double waited_s;   /* of overhead: for what came while it trained */
    uint64_t first_sample, n_samples, n_tokens;
} train_job;

typedef struct trainer trainer;

/* Starts a thread that owns a backend and a model. `recompute`: as the model's option.
 * `device` (96 bytes) gets the backend's description. */
pl_status trainer_create(const pl_backend_options *backend, bool recompute,
                         trainer **out, char device[96]);
void trainer_destroy(trainer **t); /* stops a running job */
void trainer_start(trainer *t, train_job *job);
train_job *trainer_take(trainer *t); /* a finished job, or NULL */
int trainer_fd(const trainer *t);    /* readable when a job is finished */
/* What mix_step waits for: parameters of the path, borrowed until the job is taken. */
void trainer_give_merged(trainer *t, const float *merged);
void trainer_cancel(trainer *t); /* the job ends early with ERR_CANCELLED */
/* What the running job has reached. */
void trainer_progress(const trainer *t, int *step, double *loss,
                      double *tokens_per_second);
void train_job_clear(train_job *job);

#endif
