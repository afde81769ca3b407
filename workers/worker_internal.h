/* Private to the worker: its state, and fetching, training and sending of tasks.
 *
 * At most three tasks are under way: one is fetched, one trains, one is sent. The
 * trainer's thread computes, the sender's thread talks to the homes, and the worker's
 * own thread fetches, asks the hub and keeps all leases alive. */
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

/* A lease and the work on it. A worker_task belongs to one thread at a time, except for
 * `lost`. */
typedef struct worker_task {
    /* A lease may be extended to the next phase before the earlier phase has arrived.
     * The state then comes from the task of that earlier phase, `after`; NULL: the
     * state comes from the home. Once this task has begun, the pointer is never
     * followed. */
    struct worker_task *after;
    bool begun;  /* the task is complete: training may start */
    bool packed; /* the task that continues from this one may begin */
    char name[PL_MODULE_NAME_MAX];
    uint64_t token;
    uint8_t lease[PL_LEASE_MAX]; /* the lease as the hub sealed it, for the homes */
    size_t lease_bytes;          /* 0 for an audit, which sends nothing to the homes */
    int path, replica;
    int64_t phase;
    int64_t renewed_ms; /* when the last RENEW was sent */
    uint64_t renewal;   /* the request of that RENEW */
    int lost;           /* the hub has taken the task away; see worker_task_lost */
    double granted;     /* when the lease was granted, in seconds */
    /* seconds in which the trainer did no steps although it had this task */
    double exposed_s;
    double waited_s; /* seconds of exposed_s that were spent waiting for data */
    /* seconds before that in which the trainer had no task */
    double idle_s;
    const worker_arm *arm;
    const worker_shard *shard;
    const worker_shard *held; /* held-out text that the task scores; or NULL */
    pl_path_layout layout;
    size_t n_params; /* number of parameters of the path */
    /* The versions that updates are relative to, slot after slot. Once the sender has
     * packed the task, modules without other contributors have their next version
     * here. */
    float *base;
    /* the parameters with which training begins: base itself, or the path's own
     * parameters */
    float *start;
    /* [n_vectors, n_params] the path's state; NULL: zeros; the job owns it while it
     * trains */
    float *state;
    pl_version_facts *bases; /* [n_slots] the records of the versions in base */
    struct task_peer {
        char task[PL_MODULE_NAME_MAX], address[PL_ADDRESS_MAX];
    } * peers; /* workers that offer the updates of mates */
    size_t n_peers;
    struct task_met { /* an update that a mate gave for the round before this phase */
        char task[PL_MODULE_NAME_MAX], module[PL_MODULE_NAME_MAX];
        int path, replica;
        pl_hash hash;
    } * met;
    size_t n_met;
    bool overruled; /* the homes accepted another worker's update; set by the sender */
    /* set by the sender: a mate's update differs from the one that its home accepted */
    bool deceived;
    bool again; /* an audit: results are only compared, nothing is sent to the homes */
    /* blob hash of the path's state before the audited task; zero: there was none */
    pl_hash before;
    pl_hash *made; /* [n_made] hashes of the results: each update, then the state */
    size_t n_made;
    uint64_t *seeds;       /* [n_seeds] seeds of the likeness, part after part */
    size_t n_seeds;        /* number of seeds; 0: no likeness is wanted */
    pl_likeness *likeness; /* [n_seeds] the likeness; the sender computes it */
    /* the deadline is over: the task may start although updates of mates are missing */
    bool late;
    /* [2, n_params] vectors that a slot needs to begin, in addition to its version: a
     * mate's update (noloco), or the mean of the previous round (eager) */
    float *other;
    bool *has_other;
    /* [n_slots] for each slot, the norm of the update that made the predicted version,
     * from the version in base */
    double *predicted_norm;
    int64_t first_step;
    int steps;
    bool *mixed; /* [n_slots] streaming: slots whose merged versions are mixed in */
    /* since when the trainer waits for merged versions; 0: it does not wait */
    double waits_since;
    bool merged; /* streaming: the merged versions have been fetched */
    uint64_t n_tokens_before;
    double seconds_before;
    train_job job;
    /* blob hash of the packed state that the job leaves; set by the sender */
    pl_hash state_hash;
    void *packed_state; /* may point to job.state itself */
    uint64_t packed_bytes;
    pl_status status; /* result of packing and sending, set by the sender */
    char error[1024];
} worker_task;

typedef struct sender sender;

typedef struct worker {
    const pl_worker_options *options;
    char device[96];
    pl_socket *hub;
    int64_t heard_ms; /* when the last message from the hub arrived */
    bool welcome;
    bool finished; /* the hub says that the job is finished */
    char homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    int n_homes, ttl_ms;
    pl_places places; /* weights of the homes; if its n is 0, all are equal */
    pl_client *homes; /* the client of the worker's own thread, for fetching */
    trainer *inner;
    sender *out;
    peer *offers;
    /* where other workers can ask this one; "": it offers nothing to them */
    char offers_at[PL_ADDRESS_MAX];
    /* the key pair with which workers ask each other, if the job is encrypted */
    pl_keypair mates;
    bool has_mates;
    /* a peer has lied, so from now on updates come from the homes only */
    bool shuns_peers;
    cache *blobs;
    cache *moments; /* moments that never leave this worker (train.state=local) */
    worker_arm **arms;
    int n_arms;
    worker_shard **shards;
    int n_shards;
    worker_task *fetching, *next, *training, *sending[WORKER_TASKS_MAX];
    int n_sending;
    uint64_t question; /* the request of the open TASK_REQ; 0: none */
    int64_t asked_ms, ask_after_ms;
    bool merging;      /* merged versions for the running task are being fetched */
    pl_status broken;  /* a failure of other work during a fetch; it ends the worker */
    double fetch_s;    /* seconds that the last fetch took */
    double free_since; /* since when the trainer has had no job */
} worker;

/* The only field that two threads access. */
static inline bool worker_task_lost(const worker_task *task)
{
    return __atomic_load_n(&task->lost, __ATOMIC_RELAXED) != 0;
}
static inline void worker_task_lose(worker_task *task)
{
    __atomic_store_n(&task->lost, 1, __ATOMIC_RELAXED);
}

/* worker.c: does all other work while a fetch waits. On return `broken` tells whether
 * the worker must end. */
pl_status worker_go_on(void *context);

/* worker_fetch.c: everything the task depends on, by hash */
pl_status worker_fetch(worker *w, worker_task *task, const pl_hash *arm_blob);
/* Streaming: fetches the merged versions for a task that trains, if they exist. */
pl_status worker_fetch_merged(worker *w, worker_task *task);
/* The cache key of a path's moments that never leave this worker (train.state local).
 */
void worker_local_key(const worker_task *task, int64_t phase, pl_hash *key);
/* Completes a task that was fetched while the one before trained. The function reads no
 * file and no socket. */
pl_status worker_begin_after(worker_task *task, const worker_task *before);
local_slot worker_slot(const worker_task *task, int slot, float *state);
/* Frees the parameters with which training began, when the updates are made. */
void worker_drop_start(worker_task *task);
void worker_task_free(worker_task **task);
void worker_forget(worker *w);

/* worker_hub.c: the connection to the hub */
pl_status worker_say_hello(worker *w);
pl_status worker_read_welcome(worker *w, pl_message *answer);
pl_status worker_ask_task(worker *w);
pl_status worker_keep_leases(worker *w);
pl_status worker_tell_offer(worker *w, const worker_task *task);
pl_status worker_tell_done(worker *w, const worker_task *task);
/* If `why` is PL_OK, giving the task back does not count as a failure. */
pl_status worker_tell_release(worker *w, const worker_task *task, pl_status why,
                              const char *reason);
/* Tells the hub that this worker holds nothing and asks for nothing. */
pl_status worker_say_bye(worker *w);
worker_task *worker_task_of_renewal(worker *w, uint64_t request);

/* sender.c: sends one update per module, then the path's state. Tasks come back in the
 * order in which they went in, with `status` and `error`. */
pl_status sender_create(const worker *w, sender **out);
/* Returns when all pushed tasks are finished; those marked as lost are not sent. */
void sender_destroy(sender *s);
void sender_push(sender *s, worker_task *task);
worker_task *sender_take(sender *s); /* NULL if no task is ready */
int sender_fd(const sender *s);
/* Returns a task whose state and predictions are complete, long before it is sent; the
 * sender still reads it. Call this before sender_take. */
worker_task *sender_take_packed(sender *s);
int sender_packed_fd(const sender *s);

#endif
