/* Private to workers: the plan, which decides which task is next and records which
 * worker has which lease. The comment at the top of plan.c has the rules, the states of
 * a lease and the invariants. */
#pragma once
#include "outer/outer.h"
#include "net/net.h"

/* Largest number of tasks that a worker holds at once: one is fetched, one trains, one
 * is sent. */
enum { PLAN_HELD_MAX = 3 };
/* A lease lives at least so long until its first renewal, which may wait for the hash
 * of a large shard, or in the queue of a slow link. */
enum { PLAN_FIRST_MS = 5000 };

/* What the holder of a lease does. A later value says more about the worker. */
typedef enum plan_stage { PLAN_FETCHES, PLAN_SENDS, PLAN_TRAINS } plan_stage;

typedef struct plan_lease {
    bool active;
    /* whether the hub learned of the lease from a renewal after a restart; granted_ms
     * is then the time of that renewal */
    bool taken_up;
    bool is_new; /* the holder did not make the state from which the phase begins */
    uint64_t token;
    int64_t phase;
    /* deadline_ms: time when the lease ends unless it is renewed; granted_ms: time when
     * the lease was granted for its phase; before_ms: if the lease was extended, the
     * granted_ms of the previous phase, otherwise 0; renewed_ms: time of the newest
     * grant, extension or renewal */
    int64_t deadline_ms, granted_ms, before_ms, renewed_ms;
    int64_t left_ms; /* how long the path was left to the holder before the grant */
    int worker;      /* index of the worker that holds the lease */
    int step;        /* last reported inner step */
    int64_t step_ms; /* time when `step` was reported */
    /* the last reported step and bytes, added up, and time when this sum last changed
     */
    uint64_t moved;
    int64_t moved_ms;
    int first_step; /* the first inner step that was reported */
    /* time when first_step was reported; 0: no step was reported yet */
    int64_t first_ms;
    /* bytes that the holder had fetched by then since the grant, as it has reported; 0:
     * not known */
    uint64_t fetched;
    plan_stage stage; /* as the holder has reported */
    double loss;
    int failures; /* number of failures of this task in this phase */
    /* number of phases that the holder had to repeat before the phase (plan_repeats) */
    int64_t repeats;
    int64_t before_tasks; /* plan_granted_ms of the phase before, if it was extended */
    double before_once_s; /* hub_once_s of the phase before, if it was extended */
} plan_lease;

/* Returns the time when the lease was granted for a phase, its own or the one before.
 * *n_tasks is the number of phases that the holder has to train from then on: more than
 * one if it repeats phases first; 0 if the hub does not know. */
int64_t plan_granted_ms(const plan_lease *lease, int64_t phase, int64_t *n_tasks);

/* A worker's report that it has delivered a phase. The report counts when the homes
 * confirm it. */
typedef struct plan_said {
    int64_t phase;
    uint64_t token; /* 0: no report */
    int worker;
    int64_t said_ms;
    /* time when the lease ends if the homes do not confirm the phase */
    int64_t lease_ms;
    int64_t until_ms; /* until this time the worker does not get the path again */
} plan_said;
/* The plan remembers at most this many workers that failed at a path's task. */
enum { PLAN_FAILED_MAX = 3 };
/* Largest number of unconfirmed reports about one path: two from the holder of the
 * lease (for two phases), one from the holder of the backup, and one from an earlier
 * holder. */
enum { PLAN_SAID_MAX = 4 };

/* A finished phase of which the hub knows the worker (plan_settle). */
typedef struct plan_settled {
    int64_t phase;
    double loss, seconds; /* of the phase, as the home has them */
    plan_lease done;      /* the lease of the worker that did it */
    /* the lease of a second worker, which must be stopped; lost.worker is -1 if there
     * is none */
    plan_lease lost;
    int64_t held_ms; /* from the grant of `done` for the phase until now */
} plan_settled;

/* What a home reports about a path. */
typedef struct plan_news {
    int64_t phase;
    pl_work work; /* this, repeats and held_phase: as in pl_path_state */
    /* the worker that delivered the last phase and so made the path's state, and its
     * key; "" or NULL if there is no state */
    const char *worker;
    pl_pubkey key;
    int by;     /* index of that worker; -1 if the hub does not know it */
    int keeper; /* as `by` if it is connected, so that it still has the state; or -1 */
    int64_t repeats, held_phase;
    bool in_audit; /* the last phase counts only after its audit */
} plan_news;

typedef struct plan_path {
    char name[PL_MODULE_NAME_MAX];
    int64_t phase;
    /* Whether the last of these phases counts only after its audit. Until then the path
     * is not leased. If the audit drops the phase's results, `phase` falls by one. */
    bool in_audit;
    int n_undecided;  /* number of the path's audits that were undecided */
    int64_t event_ms; /* time of the newest event about the path; hub_homes.c */
    pl_work work;     /* this and held_phase: as in pl_path_state */
    int64_t held_phase;
    /* the last worker that had the path; -1: no worker had it yet */
    int last_worker;
    /* The worker that made the path's state, and its key; "" if there is no state.
     * Later the name may belong to a worker with a different key. */
    char state_of[PL_TEXT_MAX];
    pl_pubkey state_key;
    /* The number of phases that a worker must repeat before the path's phase, unless it
     * is the keeper: the connected worker that made the path's state. -1: there is no
     * such worker. */
    int64_t repeats;
    int keeper;
    /* whether the homes must still drop the path's state; the path is not leased before
     * that */
    bool drops_state;
    /* the phase for which `mates` was computed; -1: not computed yet */
    int64_t mates_phase;
    /* [n_slots] the mates that the path meets after its last phase (noloco) */
    int *mates;
    int64_t offered; /* 1 + newest phase whose updates a worker offers (noloco) */
    int offered_by;
    int64_t phase_ms; /* time when the hub learned that `phase` phases are finished */
    /* hub_pace.c: time until which the task may be kept from a slow worker, because
     * others will do it; 0: it was not ready yet */
    int64_t waits_until_ms;
    uint64_t granted; /* the highest token of any lease of the path */
    /* whether a lease ended and the homes must be told which leases are valid */
    bool is_untold;
    /* time when, in this phase, a worker without the path's state was first kept from
     * the ready task for its keeper (waits_for_keeper, is_left_to_keeper); 0: none was.
     * A keeper that gives the task back does not begin a new wait. */
    int64_t kept_ms;
    plan_lease lease;
    /* A second lease of the same phase, with a higher token, for a worker that may be
     * faster. The first delivery of the phase ends both leases. */
    plan_lease backup;
    /* numbers of backups that failed in this phase, and of leases that were taken away
     * because they were late */
    int backups_failed, n_taken;
    int failed_by[PLAN_FAILED_MAX], n_failed_by; /* workers that failed in this phase */
    /* number of failures in this phase of workers with the job's own keys */
    int own_failures;
    /* n_said reports, in the order in which they arrived */
    plan_said said[PLAN_SAID_MAX];
    size_t n_said;
} plan_path;

enum { PLAN_TAKEN_MAX = 20 }; /* largest plan_path.n_taken */

/* The plan remembers the times of this many delivered tasks of an arm. */
enum { PLAN_TIMES_MAX = 64 };

typedef struct plan_arm {
    pl_arm arm;
    pl_hash blob;
    pl_topology *topology;
    pl_contract *contracts; /* [n_modules] */
    /* how many phases a path may be ahead of the slowest; INT64_MAX: any */
    int64_t phases_ahead;
    /* The homes that have not told of this arm yet, a bit each. A home without it could
     * not give a worker the arm's definition. */
    uint32_t lacking;
    bool is_audited; /* whether tasks may be drawn for audits (pl_audit_may) */
    /* [n_modules] newest version of each module; UINT64_MAX: it has no version yet */
    uint64_t *versions;
    int64_t *made_ms; /* [n_modules] time when the hub learned of that version */
    plan_path *paths; /* [n_tasks] the replicas of each path, path after path */
    int n_tasks;
    /* tables of names (without the arm's name); owned */
    pl_name_table *path_names, *module_names;
    /* What hub_look_at_fleet (hub_pace.c) has found: whether a worker was measured;
     * median seconds that a worker needs for a task and for the inner steps in it (0:
     * not known); numbers of ready tasks, of leased ones, and of paths with phases to
     * do; most steps that a ready path has left; time when the workers will have
     * finished the ready tasks (INT64_MAX: not known); and the earliest waits_until_ms
     * of a ready path. */
    bool is_measured;
    double typical_s, typical_inner_s;
    double own_s; /* median seconds of the job's own workers for a task; 0: not known */
    double said_s; /* as the homes' times of inner steps suggest; 0: not known */
    /* The seconds from grant to confirmation of the last n_times delivered tasks, in a
     * ring, and their median (hub_usual_s). */
    double times_s[PLAN_TIMES_MAX], median_s;
    int64_t n_times;
    int64_t n_ready, n_leased, n_open, steps_left, horizon_ms, waits_until_ms;
} plan_arm;

typedef struct plan_task {
    int arm, index; /* index = path * number of replicas + replica */
} plan_task;

typedef struct plan {
    plan_arm *arms;
    int n_arms;
    uint64_t epoch;   /* number of this start of the hub: the high half of tokens */
    uint32_t counter; /* the low half of the newest token */
    bool audits;      /* whether tasks of arms that are added are drawn for audits */
    uint64_t n_granted, n_expired, n_failed;
    /* n_granted counts all leases; n_backups counts the backups, and n_backups_won the
     * backups that delivered first */
    uint64_t n_backups, n_backups_won;
    /* Asked by plan_choose: whether a worker may have a ready task (hub_fits_new).
     * NULL: every task fits. */
    bool (*fits)(void *context, int worker, plan_task task, int64_t now_ms);
    void *context;
} plan;

/* A walk over all tasks: for (plan_walk at = {.plan = p}; plan_next(&at);) */
typedef struct plan_walk {
    const plan *plan;
    plan_task task;
    plan_arm *arm;
    plan_path *path;
} plan_walk;
static inline bool plan_next(plan_walk *at)
{
    at->task.index += at->path != NULL;
    while (at->task.arm < at->plan->n_arms &&
           at->task.index >= at->plan->arms[at->task.arm].n_tasks)
        at->task = (plan_task){at->task.arm + 1, 0};
    if (at->task.arm >= at->plan->n_arms)
        return false;
    at->arm = &at->plan->arms[at->task.arm];
    at->path = &at->arm->paths[at->task.index];
    return true;
}

void plan_clear(plan *p);
plan_arm *plan_find_arm(plan *p, const char *name);
/* Adds an arm and takes ownership of its contents. Ignores an arm that the plan already
 * has. */
pl_status plan_add_arm(plan *p, pl_arm *arm, const pl_hash *blob);
void plan_set_version(plan *p, const char *module, uint64_t version, int64_t now_ms);
bool plan_find_task(plan *p, const char *name, plan_task *out);
/* Applies a home's report about a path. Reports may arrive in any order, twice, or not
 * at all: a report that is older than the newest one changes nothing. But reports about
 * a phase that an audit may drop must arrive in order. */
void plan_hear(plan_path *path, const plan_news *news, int64_t now_ms);
/* Returns how many phases of the path are finished and count. */
int64_t plan_n_confirmed(const plan_path *path);

/* Notes that a worker offers this phase's updates to other workers. Has no effect if
 * the worker does not have the lease of that phase. plan_withdraw ends all offers of a
 * worker that leaves. */
void plan_offer(plan_path *path, int64_t phase, uint64_t token, int worker);
void plan_withdraw(plan *p, int worker);

/* Returns for each slot the index of the mate that the path meets before `phase`: the
 * path's own index if it has no mate, -1 if the mate is not known. The array belongs to
 * the path and is valid until the next call with another phase. */
const int *plan_mates(const plan_arm *arm, int index, int64_t phase);
/* Whether the path has waited for its mates as long as the arm's outer.deadline_s. Then
 * `phase` may begin without the missing mates (noloco). The waiting time begins with
 * the homes' report that the path has finished the phase before `phase`. It does not
 * begin with an offer, because an offer may be false. */
bool plan_is_late(const plan_arm *arm, int index, int64_t phase, int64_t now_ms);
bool plan_ready(const plan_arm *arm, int index, int64_t now_ms);
/* Chooses the best ready task for this worker. Tasks that score documents are best,
 * then tasks whose paths have the most inner steps left. Among equal tasks, a path that
 * this worker had last is best, then a path that no worker has had. Returns false if no
 * task is ready for this worker, or none that fits it (plan.fits). */
bool plan_choose(const plan *p, int worker, int64_t now_ms, plan_task *out);
/* Returns the number of phases that this worker would have to repeat before it can
 * begin the path's phase, because only the keeper has the path's state. */
int64_t plan_repeats(const plan_path *path, int worker);
/* Whether plan_choose withholds some task from this worker, but not from other workers:
 * this worker has reported the task as done, and the homes have not confirmed it; or
 * the task waits for its keeper. */
bool plan_leaves_out(const plan *p, int worker, int64_t now_ms);
/* Tokens can be guessed. Therefore the functions below accept a token only from the
 * worker that has the lease with this token. A message from any other worker has no
 * effect. */

/* Whether the holder of a lease may begin the next phase before the results of this
 * phase have arrived at the homes. It may if the next phase needs nothing that depends
 * on their arrival. */
bool plan_continues(plan *p, plan_task task, int64_t phase, uint64_t token, int worker,
                    int64_t now_ms);
/* Whether the worker should do `task`, the result of plan_choose, before the next phase
 * of `held`. */
bool plan_is_better(const plan *p, plan_task task, plan_task held, int worker);
/* Moves the lease to its next phase, under the same token. */
void plan_extend(plan *p, plan_task task, int64_t now_ms, int ttl_ms);
/* Moves the lease back to the previous phase, whose results have not arrived yet. */
void plan_shorten(plan_path *path, uint64_t token, int worker);
/* Grants a lease. Before its worker learns of it, the hub must tell the homes which
 * leases are valid now (hub_fence). The same holds for plan_grant_backup. */
void plan_grant(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms);
/* Renews a lease that this worker has under `token`. If the hub restarted and does not
 * know the lease, the lease is accepted again under the same token, but only if the
 * task is free and the worker has fewer than PLAN_HELD_MAX leases, or if the task has
 * only a lease that was accepted in this way and has a lower token. Then the homes must
 * be told (is_untold). `phase` is the path's phase, or the next phase if the lease was
 * extended. */
bool plan_renew(plan *p, plan_path *path, int64_t phase, uint64_t token, int worker,
                int64_t now_ms, int ttl_ms);
/* Returns the path's lease, or else its active backup, if the worker has it under this
 * token; otherwise NULL. The lease need not be active. */
plan_lease *plan_lease_of(plan_path *path, uint64_t token, int worker);
/* Gives the task to a second worker, too. Both must deliver the same bytes, so the
 * arm's phases must be functions of the homes' data (pl_phase_repeats). */
void plan_grant_backup(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms);
/* Writes the tokens under which the homes may accept results of the path, and returns
 * their number. A lease that expired stays valid until the task has another holder. */
size_t plan_valid_tokens(const plan_path *path, uint64_t out[2]);
/* plan_done.c */
/* Returns a token that no lease had before. It becomes the highest one of the path,
 * unless `path` is NULL. */
uint64_t plan_next_token(plan *p, plan_path *path);
/* Notes a worker's report that it has delivered a phase. Returns false, and ignores the
 * report, if the worker has no lease for that phase. If the homes do not confirm the
 * phase within ttl_ms, the lease ends, even if the holder renews it. */
bool plan_say_done(plan_path *path, const plan_said *said, int64_t now_ms, int ttl_ms);
/* Call this when the path has begun a new phase. Reports about earlier ones are
 * forgotten. The holder of the lease may have reported this phase as done before the
 * homes reported that it began. Then the deadline of the lease becomes lease_ms of that
 * report, unless the deadline is already later. */
void plan_await_next(plan_path *path);
bool plan_is_said(const plan_path *path, uint64_t token, int64_t phase);
/* Whether the holder of the lease reported the path's phase as done at or before
 * `until_ms`, and the homes have not confirmed the phase. */
bool plan_is_unconfirmed(const plan_path *path, const plan_lease *lease,
                         int64_t until_ms);
/* Whether the worker recently (plan_said.until_ms) reported the path's phase as done
 * and the homes have not confirmed it. Then other workers should get the task. */
bool plan_has_said(const plan_path *path, int worker, int64_t now_ms);
/* Call this before plan_hear. Returns true if the report ends a phase and names the
 * worker that did it, which has a lease of it. If two workers had leases of the phase,
 * the other one may have to be stopped. */
bool plan_settle(plan *p, plan_path *path, const plan_news *news, int64_t now_ms,
                 plan_settled *out);
/* The following functions are in plan.c. */
/* Ends a lease. If the path has a backup, the backup becomes the path's lease. */
void plan_release(plan *p, plan_path *path, uint64_t token, int worker, bool failed);
/* Ends leases and backups whose deadline is over, and returns their number. Calls
 * `lost`, unless it is NULL, with worker and token of each lease that is no backup. */
int plan_expire(plan *p, int64_t now_ms,
                void (*lost)(void *context, int worker, uint64_t token), void *context);
/* Ends the leases and backups of a worker that is gone. A lease whose task the worker
 * has reported as done stays until the homes confirm the task or the lease expires. */
void plan_release_worker(plan *p, int worker);
/* Moves the grants of all leases, and the times of versions, forward by the time in
 * which no results could be confirmed, so that no lease becomes late by it, and lets no
 * lease end before until_ms. */
void plan_stand_still(plan *p, int64_t ms, int64_t until_ms);
/* Returns the number of leases that the worker has, not counting backups. */
int plan_n_held(const plan *p, int worker);
/* Call this if the path's state is bad. Ends all leases of the path's phase, and sets
 * its counts of failures to 0. The caller must tell the homes to drop the state. */
void plan_drop_state(plan *p, plan_path *path);
/* Forgets the worker. Returns false, and does nothing, if something in the plan still
 * refers to the worker. */
bool plan_forget_worker(plan *p, int worker);
/* Whether all tasks of the arm are done and all their versions are made. */
bool plan_arm_finished(const plan_arm *arm);
