/* Private to the worker: its state, and fetching, training and sending of tasks.
 *
 * Three tasks are under way at most: one fetched, one that trains, one that is sent.
 * The trainer's thread computes, the sender's thread talks to the homes, and the
 * worker's own thread fetches, asks the hub and keeps all leases alive. */
#ifndef PL_WORKERS_WORKER_INTERNAL_H
#define PL_WORKERS_WORKER_INTERNAL_H
#include "workers/cache.h"
#include "workers/local.h"
#include "workers/peer.h"
#include "workers/path_state.h"
#include "workers/train.h"
#include "workers/workers.h"
#include "net/net.h"

enum { WORKER_TASKS_MAX = 3 };

typedef struct worker_arm {
    pl_hash blob;
    pl_arm arm;
    pl_topology *topology;
} worker_arm;

typedef struct worker_shard {
    pl_hash blob;
    pl_tokens *tokens;
} worker_shard;

/* A lease being worked on. It belongs to one thread at a time, but for `lost`. */
typedef struct worker_task {
    /* A lease may go on into the next phase before the one before has arrived: then
     * the state comes from there. NULL: from the home. Only compared once begun. */
    struct worker_task *after;
    bool begun;  /* may be trained */
    bool packed; /* what comes after it may begin */
    char name[PL_MODULE_NAME_MAX];
    uint64_t token;
    uint8_t lease[PL_LEASE_MAX]; /* sealed by the hub, for the homes */
    size_t lease_bytes;          /* 0 of an audit, which sends them nothing */
    int path, replica;
    int64_t phase;
    int64_t renewed_ms; /* last RENEW sent */
    uint64_t renewal;   /* its request */
    int lost;           /* the hub gave it to another; see worker_task_lost */
    double granted;     /* when the lease came */
    double exposed_s;   /* the trainer stood still although there was this task */
    double waited_s;    /* of that: for data */
    double idle_s;      /* and before that, because there was no task */
    const worker_arm *arm;
    const worker_shard *shard;
    pl_path_layout layout;
    size_t n_params; /* of the path */
    float *base;     /* versions that updates are relative to, slot after slot; once the
                        sender has packed the task, next versions that nobody else
                        contributes to */
    float *start;    /* where training begins: base itself, or the path's own */
    float *state;    /* [n_vectors, n_params]; NULL: zeros; the job's once it trains */
    pl_version_facts *bases; /* of each slot */
    struct task_peer {
        char task[PL_MODULE_NAME_MAX], address[PL_ADDRESS_MAX];
    } * peers; /* who offers what mates have trained */
    size_t n_peers;
    struct task_met { /* an update that a mate gave, of the round before this phase */
        char task[PL_MODULE_NAME_MAX], module[PL_MODULE_NAME_MAX];
        int path, replica;
        pl_hash hash;
    } * met;
    size_t n_met;
    bool overruled; /* the homes count another worker's update; by the sender */
    bool deceived;  /* one of them is not what its home took; by the sender */
    bool again;     /* an audit: only compared, nothing is sent to the homes */
    pl_hash before; /* and its path's state then; none: it had none */
    pl_hash *made;  /* [n_made] what came out: each update, then the state */
    size_t n_made;
    uint64_t *seeds;       /* [n_seeds] of its likeness, part after part */
    size_t n_seeds;        /* 0: nobody wants it */
    pl_likeness *likeness; /* [n_seeds]; by the sender */
    bool late;             /* mates that are not there need not be waited for */
    float *other; /* [2, n_params] what else a slot's beginning needs: a mate's update,
                     a mean */
    bool *has_other;
    double *predicted_norm; /* [n_slots] of next versions in `base` */
    int64_t first_step;
    int steps;
    bool *mixed; /* [n_slots] streaming: slots that merged versions come in for */
    double waits_since; /* for them; 0: does not yet */
    bool merged;        /* streaming: what the trainer waits for has been fetched */
    uint64_t n_tokens_before;
    double seconds_before;
    train_job job;
    pl_hash state_hash; /* of what the job leaves, packed; by the sender */
    void *packed_state; /* may be job.state itself */
    uint64_t packed_bytes;
    pl_status status; /* of sending */
    char error[1024];
} worker_task;

typedef struct sender sender;

typedef struct worker {
    const pl_worker_options *options;
    char device[96];
    pl_socket *hub;
    int64_t heard_ms; /* from the hub */
    bool welcome;
    char homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    int n_homes, ttl_ms;
    pl_places places; /* n 0: all homes weigh alike */
    pl_client *homes; /* of this thread: fetches */
    trainer *inner;
    sender *out;
    peer *offers;
    char offers_at[PL_ADDRESS_MAX]; /* "": nowhere */
    pl_keypair mates; /* with which workers ask each other, if they have: */
    bool has_mates;
    bool shuns_peers; /* one of them lied: updates come from the homes from now on */
    cache *blobs;
    cache *moments; /* that do not travel (train.state=local): nobody else has them */
    worker_arm **arms;
    int n_arms;
    worker_shard **shards;
    int n_shards;
    worker_task *fetching, *next, *training, *sending[WORKER_TASKS_MAX];
    int n_sending;
    uint64_t question; /* the open TASK_REQ; 0: none */
    int64_t asked_ms, ask_after_ms;
    bool merging;      /* versions for the running task are being fetched */
    pl_status broken;  /* why the worker ends, found while it fetched */
    double fetch_s;    /* what the last fetch took */
    double free_since; /* the trainer has no job since then */
} worker;

/* The one field that two threads look at. */
static inline bool worker_task_lost(const worker_task *task)
{
    return __atomic_load_n(&task->lost, __ATOMIC_RELAXED) != 0;
}
static inline void worker_task_lose(worker_task *task)
{
    __atomic_store_n(&task->lost, 1, __ATOMIC_RELAXED);
}

/* worker.c: what goes on while a fetch waits; `broken` tells if it must end. */
pl_status worker_go_on(void *context);

/* worker_fetch.c: everything the task depends on, by hash */
pl_status worker_fetch(worker *w, worker_task *task, const pl_hash *arm_blob);
/* Streaming: versions that came while the task trains, if they are there. */
pl_status worker_fetch_merged(worker *w, worker_task *task);
/* Where this worker keeps a path's moments that do not travel (train.state local). */
void worker_local_key(const worker_task *task, int64_t phase, pl_hash *key);
/* A task that was fetched while the one before trained: pure, but for hashing. */
pl_status worker_begin_after(worker_task *task, const worker_task *before);
local_slot worker_slot(const worker_task *task, int slot, float *state);
void worker_drop_start(worker_task *task); /* when its updates are made */
void worker_task_free(worker_task **task);
void worker_forget(worker *w);

/* worker_hub.c: the line to the hub */
pl_status worker_say_hello(worker *w);
pl_status worker_read_welcome(worker *w, const pl_message *answer);
pl_status worker_ask_task(worker *w);
pl_status worker_keep_leases(worker *w);
pl_status worker_tell_offer(worker *w, const worker_task *task);
pl_status worker_tell_done(worker *w, const worker_task *task);
/* `why` PL_OK: given back, not failed. */
pl_status worker_tell_release(worker *w, const worker_task *task, pl_status why,
                              const char *reason);
/* Nothing is held any more, and nothing asked for. */
pl_status worker_say_bye(worker *w);
worker_task *worker_task_of_renewal(worker *w, uint64_t request);

/* sender.c: one update a module, then the path's state. Tasks go in and come back in
 * the same order, with `status` and `error`. */
pl_status sender_create(const worker *w, sender **out);
/* Ends what is under way first: mark those tasks lost to make that short. */
void sender_destroy(sender *s);
void sender_push(sender *s, worker_task *task);
worker_task *sender_take(sender *s); /* or NULL */
int sender_fd(const sender *s);
/* A task whose state and predictions are complete, long before it is sent; the sender
 * goes on reading it. Take these before sender_take's. */
worker_task *sender_take_packed(sender *s);
int sender_packed_fd(const sender *s);

#endif
