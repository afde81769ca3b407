/* Private to the worker: its state, and fetching and sending of one task. */
#ifndef PL_WORKERS_WORKER_PARTS_H
#define PL_WORKERS_WORKER_PARTS_H
#include "workers/cache.h"
#include "workers/train.h"
#include "workers/workers.h"

typedef struct worker_arm {
    pl_hash blob;
    pl_arm arm;
    pl_topology *topology;
} worker_arm;

typedef struct worker_shard {
    pl_hash blob;
    pl_tokens *tokens;
} worker_shard;

/* The lease being worked on. */
typedef struct worker_task {
    bool active; /* RENEW is sent while this is true */
    bool lost;   /* the hub gave it to another */
    char name[PL_MODULE_NAME_MAX];
    uint64_t token;
    int path, replica;
    int64_t phase;
    int64_t renewed_ms; /* last RENEW sent */
    double started;
    worker_arm *arm;
    worker_shard *shard;
    float *start;         /* parameters, slot after slot */
    pl_hash *bases;       /* hash of each slot's module */
    const float *moments; /* in the cache, or NULL */
    float *moments_copy;  /* owned */
    uint64_t n_tokens_before;
    double seconds_before;
    train_job job;
} worker_task;

typedef struct worker {
    const pl_worker_options *options;
    char device[96];
    pl_socket *hub;
    pl_client *homes;
    trainer *inner; /* the thread that computes */
    cache *blobs;
    worker_arm **arms;
    int n_arms;
    worker_shard **shards;
    int n_shards;
    int ttl_ms;
    worker_task task;
} worker;

/* worker_fetch.c: everything the task depends on, by hash */
pl_status worker_fetch(worker *w, const pl_hash *arm_blob);
void worker_task_clear(worker *w);
void worker_forget(worker *w);

/* worker_send.c: one update a module, then the path's state */
pl_status worker_send(worker *w);

/* worker.c: called while waiting: keeps the lease; ERR_STALE when it is lost */
pl_status worker_idle(void *context);

#endif
