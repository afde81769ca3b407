/* Private to workers: the inner loop of one task, and the thread that runs it. */
#ifndef PL_WORKERS_TRAIN_H
#define PL_WORKERS_TRAIN_H
#include "corpus/corpus.h"
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include <stdatomic.h>

/* One task with everything that it depends on. The result depends on nothing else. */
typedef struct train_job {
    /* input: borrowed from the worker until the result is taken */
    const pl_arm *arm;
    const pl_topology *topology;
    const pl_tokens *shard;
    int path, replica;
    /* number of steps of the path before this task; it gives the position in the data
     * and in the schedule */
    int64_t first_step;
    int steps;          /* number of steps to do */
    const float *start; /* parameters at the start, [path_params] */
    int n_vectors;      /* number of vectors in the state; the first two are m and v */
    int mix_step; /* the step after which merged parameters are mixed in; -1: never */
    double mix;   /* local = mix local + (1 - mix) merged */
    const bool *mixed; /* [n_slots] slots in which merged parameters are mixed in */
    /* held-out text to score with `start` before the steps (outer/held.h); or NULL */
    const pl_tokens *held;
    /* input and output */
    /* The path's state, [n_vectors, path_params]; owned. The steps start with its first
     * two vectors, m and v, and replace them with the new ones. NULL on entry: all
     * zeros. In an arm that scores documents instead of training (arm->n_scored > 0),
     * it is on return the score of each document instead: [n_scored] f64, nats. */
    float *state;
    /* output */
    pl_status status;
    char error[1024];
    float *params;     /* parameters after the steps, [path_params]; owned */
    double loss;       /* mean loss over the phase's tokens */
    double seconds;    /* seconds spent in inner steps */
    double overhead_s; /* seconds before and after the steps: loading, saving */
    double waited_s;   /* the part of overhead_s spent waiting for merged parameters */
    double gradient;   /* mean norm of the gradient over the steps, before clipping */
    double held_nats;  /* nats of the held-out text; 0: not scored, or not finite */
    uint64_t first_sample, n_samples, n_tokens;
} train_job;

typedef struct trainer trainer;

/* Starts a thread that owns a backend and a model. `recompute` is the model's option of
 * that name. `device` (96 bytes) gets the backend's description. */
pl_status trainer_create(const pl_backend_options *backend, bool recompute,
                         trainer **out, char device[96]);
void trainer_destroy(trainer **t); /* stops a running job first */
void trainer_start(trainer *t, train_job *job);
train_job *trainer_take(trainer *t); /* a finished job, or NULL */
int trainer_fd(const trainer *t);    /* readable when a job is finished */
/* Gives the parameters of the path that mix_step waits for; borrowed until the job is
 * taken. */
void trainer_give_merged(trainer *t, const float *merged);
void trainer_cancel(trainer *t); /* the job ends early with ERR_CANCELLED */
/* Tells the step and loss that the running job has reached, and its speed. */
void trainer_progress(const trainer *t, int *step, double *loss,
                      double *tokens_per_second);
void train_job_clear(train_job *job);

#endif
