/* Private to workers: which task is next, and who holds which lease. plan.c opens with
 * the rules, the states of a lease and the invariants. */
#ifndef PL_WORKERS_PLAN_H
#define PL_WORKERS_PLAN_H
#include "outer/outer.h"
#include "net/net.h"

/* Tasks that a worker holds at once: one fetched, one being trained, one being sent. */
enum { PLAN_HELD_MAX = 3 };

typedef struct plan_lease {
    bool active;
    /* taken up by a hub that restarted; granted_ms is then the time when it learned of
     * the lease */
    bool taken_up;
    uint64_t token;
    int64_t phase;
    /* before_ms: when the phase before this one was granted, if the lease was extended;
     * else 0 */
    int64_t deadline_ms, granted_ms, before_ms;
    int worker;       /* index of the worker that holds the lease */
    int step;         /* last reported inner step */
    int64_t step_ms;  /* when `step` was reported */
    int first_step;   /* the first inner step that was reported */
    int64_t first_ms; /* when first_step was reported; 0: not yet */
    double loss;
    int failures; /* number of failures of this task in this phase */
} plan_lease;

/* The leases of a finished phase. These leases are kept until a worker reports the
 * phase as done, because only then the hub knows which of the holders did it. */
typedef struct plan_ended {
    int64_t phase;
    plan_lease leases[2]; /* the path's lease and its backup; token 0: there was none */
    bool goes_on;         /* the first lease was extended to the next phase */
    /* the token under which the phase arrived; 0: the homes did not name one */
    uint64_t by;
} plan_ended;
/* A lease is at most one phase ahead of its path, so one report of a home ends at most
 * two phases. */
enum { PLAN_ENDED_MAX = 2 };

/* A worker's report that it has delivered a phase. The report counts when the homes
 * confirm it. */
typedef struct plan_said {
    int64_t phase;
    uint64_t token; /* 0: no report */
    int worker;
    double loss, seconds; /* loss and seconds of the phase's inner steps */
    int64_t said_ms;
    int64_t held_ms;  /* time since the grant of the lease */
    int64_t lease_ms; /* when the lease ends if the homes do not confirm the phase */
    int64_t until_ms; /* until this time the worker does not get the path again */
} plan_said;
/* Number of workers that failed at a path's task and are remembered. */
enum { PLAN_FAILED_MAX = 3 };
/* The most unconfirmed reports of one path: two by the lease's holder (for two phases),
 * one by the backup's holder, and one by an earlier holder. */
enum { PLAN_SAID_MAX = 4 };

/* What a home reports about a path. */
typedef struct plan_news {
    int64_t phase;
    uint64_t n_tokens;
    double loss, seconds;
    /* the token under which the last phase arrived; 0 if the home did not name it */
    uint64_t by;
    const char *worker;    /* the worker that made the path's state; "" or NULL: none */
    double gradient, held; /* as in pl_path_state */
    int64_t held_phase;
} plan_news;

typedef struct plan_path {
    char name[PL_MODULE_NAME_MAX];
    int64_t phase;
    uint64_t n_tokens;
    double loss, seconds;
    double gradient, held; /* as in pl_path_state */
    int64_t held_phase;
    int last_worker;            /* worker that had the path last; -1: none yet */
    char state_of[PL_TEXT_MAX]; /* the worker that made the path's state; "": none */
    /* the homes must drop that state; until then the path is not leased */
    bool drops_state;
    int64_t mates_phase; /* the phase for which `mates` was computed; -1: none yet */
    /* [n_slots] the mates that the path meets after its last phase (noloco) */
    int *mates;
    int64_t offered; /* number of phases whose updates a worker offers (noloco) */
    int offered_by;
    int64_t phase_ms; /* when the hub heard that `phase` phases are finished */
    plan_lease lease;
    /* A second lease of the same phase, with a higher token, for a worker that may be
     * faster. The first delivery ends both leases. */
    plan_lease backup;
    /* number of backups that failed in this phase */
    int backups_failed;
    /* the token of the last lease that was held for too long and so ended; it cannot be
     * renewed */
    uint64_t overdue_token;
    int failed_by[PLAN_FAILED_MAX], n_failed_by; /* workers that failed in this phase */
    int own_failures; /* failures of the job's own workers in this phase */
    plan_ended ended[PLAN_ENDED_MAX];
    /* n_said reports, in the order in which they came */
    plan_said said[PLAN_SAID_MAX];
    int n_said;
} plan_path;

typedef struct plan_arm {
    pl_arm arm;
    pl_hash blob;
    pl_topology *topology;
    uint64_t *versions; /* [M]; UINT64_MAX: the module does not exist yet */
    plan_path *paths;   /* [n_tasks] the replicas of each path, path after path */
    int n_tasks;
    /* tables of names without the arm's name; owned */
    pl_name_table *path_names, *module_names;
} plan_arm;

typedef struct plan {
    plan_arm *arms;
    int n_arms;
    uint64_t epoch;   /* epoch of the hub, the high half of tokens */
    uint32_t counter; /* low half of tokens */
    uint64_t n_granted, n_expired, n_failed;
    /* n_backups of n_granted were backups; n_backups_won of these delivered first */
    uint64_t n_backups, n_backups_won;
} plan;

typedef struct plan_task {
    int arm, index; /* index = path * R + replica */
} plan_task;

void plan_clear(plan *p);
plan_arm *plan_find_arm(plan *p, const char *name);
/* Takes ownership of the arm's contents. An arm that exists already is ignored. */
pl_status plan_add_arm(plan *p, pl_arm *arm, const pl_hash *blob);
void plan_set_version(plan *p, const char *module, uint64_t version);
bool plan_find_task(plan *p, const char *name, plan_task *out);
/* NULL if there is no such path */
plan_path *plan_find_path(plan *p, const char *name);
/* Takes in what a home reports. Reports may come in any order, twice, or not at all: a
 * report older than the newest one changes nothing. */
void plan_hear(plan_path *path, const plan_news *news, int64_t now_ms);

/* A worker offers this phase's updates to others. Without effect if the worker does not
 * have the lease of that phase. When it leaves, plan_withdraw ends its offers. */
void plan_offer(plan_path *path, int64_t phase, uint64_t token, int worker);
void plan_withdraw(plan *p, int worker);

/* The mates that a path meets before `phase`, as an index for each slot: the path's own
 * index if it has no mate, -1 if the mate is not known. Computed once per phase. */
const int *plan_mates(const plan_arm *arm, int index, int64_t phase);
/* Whether the path has waited for its mates as long as the arm's deadline allows, since
 * the homes reported its phase before `phase`. Then `phase` may begin without the mates
 * that are missing (noloco). An offer does not begin this time, because it may be
 * false. */
bool plan_is_late(const plan_arm *arm, int index, int64_t phase, int64_t now_ms);
bool plan_ready(const plan_arm *arm, int index, int64_t now_ms);
/* Chooses the best ready task for this worker: first by the longest chain of remaining
 * phases, then the path that this worker had last, then a path that no worker has had.
 * Returns false if no task is ready. */
bool plan_choose(const plan *p, int worker, int64_t now_ms, plan_task *out);
/* Whether plan_choose withholds a free task from this worker only: the worker reported
 * the task as done, but the homes do not know it. */
bool plan_leaves_out(const plan *p, int worker, int64_t now_ms);
/* Tokens can be guessed. Therefore the functions below accept a token only from the
 * worker that has its lease; a message from any other worker has no effect. */

/* Whether the holder of a lease may begin the next phase before this one has arrived:
 * yes, if the next phase needs nothing that depends on the arrival. */
bool plan_continues(plan *p, plan_task task, int64_t phase, uint64_t token, int worker,
                    int64_t now_ms);
/* Whether `task`, from plan_choose, should be done before the next phase of `held`. */
bool plan_is_better(const plan *p, plan_task task, plan_task held, int worker);
/* Moves the lease into its next phase, under the same token. */
void plan_extend(plan *p, plan_task task, int64_t now_ms, int ttl_ms);
/* Moves the lease back, while the previous phase is still on its way. */
void plan_shorten(plan_path *path, uint64_t token, int worker);
/* Grants a lease. Returns true if the task had another holder; then the homes must be
 * told to refuse that holder's token (hub_fence). */
bool plan_grant(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms);
/* Renews a lease that this worker has under `token`. After a restart of the hub, a free
 * task is instead leased again under its earlier token, at most PLAN_HELD_MAX per
 * worker. `phase` is the path's phase, or the next one if the lease was extended. */
bool plan_renew(plan *p, plan_path *path, int64_t phase, uint64_t token, int worker,
                int64_t now_ms, int ttl_ms);
/* Whether the lease is this worker's, under this token. Token 0 is no lease. */
bool plan_is_lease_of(const plan_lease *lease, uint64_t token, int worker);
/* Returns the lease of this path that the worker has under the token, active or not; or
 * NULL. */
plan_lease *plan_lease_of(plan_path *path, uint64_t token, int worker);
/* Whether two workers may do the same task of this arm at once: the task must be a pure
 * function of the homes' data, so that both deliver the same bytes. */
bool plan_may_back_up(const plan_arm *arm);
void plan_grant_backup(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms);
/* plan_done.c */
/* Notes that all phases before `phase` are over; `by`: see plan_news. */
void plan_note_ended(plan_path *path, int64_t phase, uint64_t by);
/* A worker reports that it has delivered a phase. Returns the lease that the worker has
 * or had for that phase; if it had none, ignores the report and returns NULL. If the
 * homes do not confirm the phase, the lease ends after ttl_ms, whatever its holder says
 * meanwhile. */
const plan_lease *plan_say_done(plan_path *path, const plan_said *said, int64_t now_ms,
                                int ttl_ms);
/* Call this when the path has begun a new phase. If the lease's holder reported this
 * phase as done before the homes reported its beginning, the deadline of the lease
 * becomes that of the report (lease_ms), unless it is later already. */
void plan_await_next(plan_path *path);
bool plan_is_said(const plan_path *path, uint64_t token, int64_t phase);
/* Whether the lease's holder reported the path's phase as done at or before `until_ms`,
 * and the homes have not confirmed it. */
bool plan_is_unconfirmed(const plan_path *path, const plan_lease *lease,
                         int64_t until_ms);
/* Whether the worker reported the path's phase as done and the homes have not confirmed
 * it, so that other workers should get the task. */
bool plan_has_said(const plan_path *path, int worker, int64_t now_ms);
/* Returns true, once per phase, when both a worker and the homes have reported the
 * phase as done. *by is the worker's report. *other is the second worker, which must be
 * stopped, or -1. If two workers reported the phase, the homes' token decides; without
 * a token, the first report counts. */
bool plan_settle(plan *p, plan_path *path, plan_said *by, int *other, uint64_t *lost);
/* The following functions are in plan.c. */
/* Ends a lease. A backup, if there is one, takes its place. */
void plan_release(plan *p, plan_path *path, uint64_t token, int worker, bool failed);
/* Ends leases past their deadline; returns how many. `lost`, unless NULL, is called
 * with the worker of each. */
int plan_expire(plan *p, int64_t now_ms, void (*lost)(void *context, int worker),
                void *context);
void plan_release_worker(plan *p, int worker);
/* Returns the number of the worker's leases, without backups. */
int plan_n_held(const plan *p, int worker);
/* The path's state is bad: ends all leases of its phase and resets its failures. The
 * homes must be told. */
void plan_drop_state(plan *p, plan_path *path);
/* Forgets the worker, unless something in the plan still refers to it; then returns
 * false. */
bool plan_forget_worker(plan *p, int worker);
bool plan_arm_finished(const plan_arm *arm);

#endif
