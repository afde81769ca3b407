/* Private to workers: the inner steps of a task, and the thread that computes them. */
#pragma once
#include "corpus/corpus.h"
#include "outer/outer.h"
#include "net/net.h"
#include <stdatomic.h>

/* One task with everything on which its result depends. */
typedef struct train_job {
    /* Input, borrowed from the worker until trainer_take returns the job. */
    const pl_arm *arm;
    const pl_topology *topology;
    const pl_tokens *shard;
    int path, replica;
    /* number of steps that the path has done before this task; it determines the
     * position in the data and in the learning rate schedule */
    int64_t first_step;
    int steps;          /* number of steps to do */
    const float *start; /* [path_params] parameters at the start */
    int n_vectors;      /* number of vectors in the state; the first two are m and v */
    int mix_step; /* number of steps before merged parameters are mixed in; -1: never */
    double mix;   /* mixing in: local = mix * local + (1 - mix) * merged */
    const bool *mixed; /* [n_slots] whether the slot's merged parameters are mixed in */
    /* held-out text to score with `start` before the steps (outer/held.h); or NULL */
    const pl_tokens *held;
    /* input and output */
    /* The path's state [n_vectors, path_params]; owned. The steps change only the first
     * two vectors, the moments m and v. NULL on entry means all zeros. If the arm
     * scores documents instead of training (arm->n_scored > 0), `state` is NULL on
     * entry; on return it has the score of each document: [n_scored] f64, in nats. With
     * arm->feature_windows it has the features instead: [n_scored, width] f32. */
    float *state;
    /* output */
    pl_status status;
    char error[1024];
    float *params;     /* [path_params] parameters after the steps; owned */
    double overhead_s; /* seconds of the job outside inner steps */
    double waited_s;   /* the part of overhead_s spent waiting for merged parameters */
    /* work.held is 0 if the held-out text was not scored, or its score is out of
     * range; work.memory_bytes is left 0 */
    pl_work work;
} train_job;

typedef struct trainer trainer;

/* Starts a thread that owns a backend and a model. `recompute`: as in
 * pl_worker_options. `device` gets the text of pl_backend_kind. */
pl_status trainer_create(const pl_backend_options *backend, bool recompute,
                         trainer **out, char device[PL_DEVICE_MAX]);
void trainer_destroy(trainer **t); /* first cancels a running job */
void trainer_start(trainer *t, train_job *job);
train_job *trainer_take(trainer *t); /* returns a finished job, or NULL */
/* a file descriptor that is readable when a job is finished */
int trainer_fd(const trainer *t);
/* Gives the running job the merged parameters [path_params]; the job waits for them
 * after mix_step steps. They are borrowed until trainer_take returns the job. */
void trainer_give_merged(trainer *t, const float *merged);
void trainer_cancel(trainer *t); /* the job ends early with ERR_CANCELLED */
/* Returns the step and the loss that the running job has reached, and its speed. */
void trainer_progress(const trainer *t, int *step, double *loss,
                      double *tokens_per_second);
