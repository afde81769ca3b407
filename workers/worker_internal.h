/* Private to the worker: the worker's state, and the functions that fetch, train and
 * send tasks.
 *
 * A worker has at most three tasks at once: one is fetched, one trains, one is sent.
 * The trainer's thread computes, and the sender's thread sends results to the homes.
 * The worker's main thread fetches data, asks the hub for tasks and renews all leases.
 *
 * Files: worker.c (loop), worker_hub.c (the hub), worker_fetch.c, worker_mates.c,
 * worker_state.c (inputs), worker_task.c (a task), train.c (steps), sender.c (results),
 * peer.c (offers), cache.c, path_state.c. */
#pragma once
#include "workers/cache.h"
#include "workers/peer.h"
#include "workers/path_state.h"
#include "workers/train.h"
#include "workers/workers.h"

enum { WORKER_TASKS_MAX = 3 };

typedef struct worker_arm {
    pl_hash blob;
    pl_arm arm;
    pl_topology *topology;
    pl_contract *contracts; /* one per module */
} worker_arm;

typedef struct worker_shard {
    pl_hash blob;
    pl_tokens *tokens;
} worker_shard;

/* A sealed lease. Leases that were replaced stay until the task is freed, because the
 * sender may still read them. */
typedef struct worker_lease {
    pl_sealed_lease sealed;
    struct worker_lease *before;
} worker_lease;

/* A leased task and the work on it. Only one thread at a time works on a task. But the
 * main thread may renew the task's lease and set `packed` and `lost` at any time. */
typedef struct worker_task {
    /* A lease may be extended to the next phase before the earlier phase has arrived.
     * This task then takes the state from `after`, the task of that earlier phase.
     * NULL: the state comes from the home. After this task has begun, the pointer must
     * not be dereferenced, because `after` may be freed. */
    struct worker_task *after;
    bool begun; /* whether the task has all its data, so that training may start */
    /* whether the sender has packed the results, so that the task of the next phase may
     * copy them and begin */
    bool packed;
    char name[PL_MODULE_NAME_MAX];
    uint64_t token;
    /* The newest sealed lease from the hub; NULL for an audit, which sends nothing to
     * the homes. The main thread replaces it after a restart of the hub, so other
     * threads read it with worker_task_lease. */
    struct worker_lease *lease;
    int path, replica;
    int64_t phase;
    int64_t renewed_ms; /* time when the last RENEW was sent */
    /* whether the hub was told that the task has done an inner step, and that its
     * results are being sent */
    bool told_steps, told_sending;
    bool sends;       /* whether the sender has the task */
    uint64_t renewal; /* request number of that RENEW */
    /* nonzero if this worker has lost the task and must not finish it; see
     * worker_task_lost */
    int lost;
    double granted; /* time when the lease was granted, in seconds */
    /* number of seconds in which the trainer had this task but did no steps */
    double exposed_s;
    double waited_s; /* seconds of exposed_s that were spent waiting for data */
    /* number of seconds before this task in which the trainer had no task */
    double idle_s;
    const worker_arm *arm;
    const worker_shard *shard;
    const worker_shard *held; /* held-out text that the task scores, or NULL */
    pl_path_layout layout;
    size_t n_params; /* number of parameters of the path */
    /* [n_params] the versions to which updates are relative, slot after slot. When the
     * sender packs the task, the versions of modules without other contributors are
     * replaced by the next versions; if there are no such modules, `base` is freed. */
    float *base;
    /* the parameters with which training begins: either points to `base`, or has the
     * path's own parameters */
    float *start;
    /* [n_vectors, n_params] the path's state; NULL: all zeros. NULL as soon as training
     * begins: then job.state is the state. */
    float *state;
    pl_version_facts *bases; /* [n_slots] facts about the versions in `base` */
    struct task_peer {
        char task[PL_MODULE_NAME_MAX], address[PL_ADDRESS_MAX];
    } * peers; /* [n_peers] workers that offer the updates of mates */
    size_t n_peers;
    /* [n_met] updates of the previous round that mates gave to this worker */
    struct task_met {
        char task[PL_MODULE_NAME_MAX], module[PL_MODULE_NAME_MAX];
        int path, replica;
        pl_hash hash;
    } * met;
    size_t n_met;
    /* set by the sender: the homes accepted another worker's update instead */
    bool overruled;
    /* set by the sender: the update that a mate gave differs from the update that the
     * home accepted from the mate */
    bool deceived;
    /* the task is an audit: its results are only compared, and not sent to the homes */
    bool again;
    /* for an audit: blob hash of the newest uploaded state before the task (zeros:
     * there was none), and the number of phases since that state */
    pl_hash before;
    int64_t repeats;
    /* The task only makes a path's state again (worker_state.c). It has no lease. If
     * the state has the hash `wanted`, the sender saves it on this machine. */
    bool remakes;
    pl_hash wanted;
    /* what the home says about the path: its state, and who made it */
    pl_path_state known;
    /* the packed state with which the task begins, if this machine has it; owned */
    void *own_state;
    /* the last repeated phase, if the task begins after repeated phases; owned */
    struct worker_task *past;
    pl_hash *made; /* [n_made] hashes of the results: each update, then the state */
    size_t n_made;
    /* whether outer.deadline_s has passed; then the task may start even if updates of
     * mates are missing */
    bool late;
    /* [2, n_params] updates of mates, with which the task begins (noloco); NULL for all
     * other methods */
    float *other;
    bool *has_other; /* [n_slots] whether `other` has a vector for the slot */
    /* [n_slots] norm of the mean update that makes the predicted version of each
     * slot */
    double *predicted_norm;
    int64_t first_step; /* number of inner steps that the path has done before */
    int steps;          /* number of inner steps to do */
    /* [n_slots] for streaming: whether a merged version is mixed into the slot; NULL:
     * into no slot */
    bool *mixed;
    /* time since which the trainer waits for merged versions; 0: it does not wait */
    double waits_since;
    double homes_away_s; /* part of that time in which a home did not answer */
    bool merged; /* for streaming: whether the merged versions have been fetched */
    pl_work work_before; /* what the path did in all phases before this task */
    train_job job;
    /* set by the sender: blob hash of the packed state after the job */
    pl_hash state_hash;
    void *packed_state; /* may point to job.state */
    uint64_t packed_bytes;
    pl_status status; /* result of packing and sending, set by the sender */
    char error[1024];
} worker_task;

typedef struct sender sender;

typedef struct worker {
    const pl_worker_options *options;
    /* The low 32 bits are the process id, for people. The others are random: in a
     * container every process has the same id, and the hub must notice a restart. */
    uint64_t process;
    char device[PL_DEVICE_MAX];
    pl_socket *hub;
    int64_t heard_ms;    /* time when the last message from the hub arrived */
    int64_t listened_ms; /* time when this worker looked for such messages */
    pl_absence hub_away, home_away[PL_HOMES_MAX];
    bool welcome;
    /* whether the hub names homes with different addresses, or more or fewer */
    bool moved;
    bool finished; /* whether the hub has said that the job is finished */
    char homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    int n_homes, ttl_ms;
    pl_client *homes; /* the client with which the worker's main thread fetches data */
    trainer *inner;
    sender *out;
    peer *offers;
    /* address at which other workers can ask this worker; "": it offers no updates */
    char offers_at[PL_ADDRESS_MAX];
    /* the key pair that workers use to ask each other, if the job is encrypted */
    pl_keypair mates;
    bool has_mates;
    /* set after another worker gave a false update: from then on this worker asks only
     * the homes for updates */
    bool shuns_peers;
    cache *blobs;
    cache *moments; /* moments that never leave this worker (train.state=local) */
    worker_arm **arms;
    int n_arms;
    worker_shard **shards;
    int n_shards;
    worker_task *fetching, *next, *training, *sending[WORKER_TASKS_MAX];
    int n_sending;
    uint64_t question; /* request number of the open TASK_REQ; 0: there is none */
    int64_t asked_ms, ask_after_ms;
    int64_t told_ms; /* time when the hub's reason for giving no task was logged */
    /* whether merged versions for the running task are being fetched */
    bool merging;
    worker_task *remaking; /* the repeated phase that the worker waits for, or NULL */
    pl_status broken;  /* failure of other work during a fetch; it ends the worker */
    double fetch_s;    /* seconds that the last fetch took */
    double free_since; /* time since which the trainer has had no job */
} worker;

/* Whether the failure passes and says nothing about the task. Whether this machine is
 * at fault that did not reach a home, the hub decides (pl_is_unreached). */
static inline bool worker_is_passing(pl_status why)
{
    return why == PL_ERR_BUSY || why == PL_ERR_NET || why == PL_ERR_TIMEOUT ||
           why == PL_ERR_CANCELLED;
}

/* Reads options->stop atomically, because a signal handler on any thread may set it. */
static inline bool worker_is_told_to_stop(const pl_worker_options *options)
{
    return options->stop && __atomic_load_n(options->stop, __ATOMIC_RELAXED);
}

/* Reads `lost`. The main thread may set it while another thread works on the task. */
static inline bool worker_task_lost(const worker_task *task)
{
    return __atomic_load_n(&task->lost, __ATOMIC_RELAXED) != 0;
}
static inline pl_status worker_check_lease(const worker_task *task)
{
    return !worker_task_lost(task)
               ? PL_OK
               : pl_fail(PL_ERR_STALE, "the lease of %s was given to another worker",
                         task->name);
}
static inline void worker_task_lose(worker_task *task)
{
    __atomic_store_n(&task->lost, 1, __ATOMIC_RELAXED);
}

/* Returns the newest lease of the task, or NULL. */
static inline const pl_sealed_lease *worker_task_lease(const worker_task *task)
{
    const worker_lease *newest = __atomic_load_n(&task->lease, __ATOMIC_ACQUIRE);
    return newest ? &newest->sealed : NULL;
}

/* worker.c: does the worker's other work while a fetch waits. If a failure of that work
 * must end the worker, w->broken is its status. */
pl_status worker_go_on(void *context);

/* worker.c: gives a complete task to the trainer, which must be idle. */
void worker_start(worker *w, worker_task *task);

/* worker_state.c: asks the home for the task's path. If no home has the state with
 * which the task begins, finds it on this machine, or makes it again by repeating
 * phases. */
pl_status worker_find_state(worker *w, worker_task *task);
/* Takes back a repeated phase from the trainer or the sender. */
void worker_end_remake(worker *w, worker_task *one);
/* Saves the state that the task left in a file of the cache folder, unless every state
 * is uploaded. A failure is only logged. Call it before the state is submitted, because
 * another worker of this machine may then continue at once. */
void worker_save_state(const char *folder, const worker_task *task);
/* Removes the path's files if the task was the last one of the path. */
void worker_drop_states(const char *folder, const worker_task *task);

/* worker_state.c: fetches the state with which the task begins, or takes the one that
 * this machine has. A task without a state has NULL in task->state. */
pl_status worker_fetch_state(worker *w, worker_task *task);
/* worker_state.c: computes the cache key of a path's moments that never leave this
 * worker (train.state=local). */
void worker_local_key(const worker_task *task, int64_t phase, pl_hash *key);

/* worker_fetch.c: fetches the arm's definition (its hash is arm_blob), then what
 * worker_fetch_inputs fetches. */
pl_status worker_fetch(worker *w, worker_task *task, const pl_hash *arm_blob);
/* Fetches the versions and the state of a task whose arm, data and path are known. */
pl_status worker_fetch_inputs(worker *w, worker_task *task);
/* For streaming: fetches the merged versions for a task that trains, if they exist. */
pl_status worker_fetch_merged(worker *w, worker_task *task);
/* Gets a blob of `want` bytes from the cache, which then no longer has it, or from the
 * home. The caller owns the blob. */
pl_status worker_fetch_blob(worker *w, const char *name, const pl_hash *blob,
                            uint64_t want, void **out);
/* worker_mates.c: fetches to task->other the updates of the mates that the path meets
 * now, if any. */
pl_status worker_fetch_mates(worker *w, worker_task *task);

/* worker_task.c */
const pl_contract *worker_contract(const worker_task *task, int slot);
pl_holder worker_slot(const worker_task *task, int slot, float *state);
/* Whether the task takes versions that its previous task has computed. It does not if
 * that task was a repeated phase: then the homes have these versions, and they differ
 * from the computed ones if the worker that first did the phase has a different kind of
 * device or was wrong. */
bool worker_takes_predictions(const worker_task *task);
/* Whether the path has lost its own parameters (the hub had its state dropped), so that
 * it begins this phase with the newest versions. */
bool worker_restarts(const worker_task *task);
/* Sets the parameters with which training begins. The task must have all its data. */
pl_status worker_begin(worker_task *task);
/* Completes a task that was fetched while the previous task trained. */
pl_status worker_begin_after(worker_task *task, const worker_task *before);
/* Frees the parameters with which training began. Call this after the updates are
 * made. */
void worker_drop_start(worker_task *task);
/* Takes the lease of a task from a message of the hub. Does nothing if the message has
 * no lease. */
pl_status worker_take_lease(worker_task *task, pl_bytes lease, const uint8_t *key);
void worker_task_free(worker_task **task);
void worker_forget(worker *w);

/* worker_hub.c: the connection to the hub */
pl_status worker_say_hello(worker *w);
pl_status worker_read_welcome(worker *w, pl_message *answer);
pl_status worker_ask_task(worker *w);
pl_status worker_keep_leases(worker *w);
pl_status worker_tell_offer(worker *w, const worker_task *task);
pl_status worker_tell_done(worker *w, const worker_task *task);
/* Gives the task back. The hub is told of a failure only if `why` is one that does not
 * pass, or if no home was reached, because this machine may be the cause. */
pl_status worker_tell_release(worker *w, const worker_task *task, pl_status why,
                              const char *reason);
/* Tells the hub that this worker leaves: it holds no tasks and does not ask for one. */
pl_status worker_say_bye(worker *w);
/* Returns the task whose last RENEW had this request number; if `renewal` is 0, the
 * task with this token and phase. NULL: the worker holds no such task. */
worker_task *worker_held_task(worker *w, uint64_t renewal, uint64_t token,
                              int64_t phase);

/* sender.c: sends one update per module, then the path's state. Tasks come back in the
 * order in which they were pushed, with `status` and `error`. */
pl_status sender_create(const worker *w, sender **out);
/* Waits until all pushed tasks are finished, then frees the sender. Tasks that are
 * marked as lost are not sent. */
void sender_destroy(sender *s);
void sender_push(sender *s, worker_task *task);
worker_task *sender_take(sender *s); /* returns NULL if no task is ready */
int sender_fd(const sender *s);
/* What the sender has measured of its links to the homes. */
void sender_link(const sender *s, pl_link *out);
/* Returns the next task that has been packed (its state and predicted versions are
 * complete), or NULL. The sender still reads the task, because it sends the task after
 * packing. After sender_take, call this function until it returns NULL, and only then
 * free the task that sender_take returned: its pointer may still be in this queue. */
worker_task *sender_take_packed(sender *s);
int sender_packed_fd(const sender *s);
