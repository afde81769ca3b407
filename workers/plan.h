/* Private to workers: which task is next, and who holds which lease. plan.c opens with
 * the rules, the states of a lease and the invariants. */
#ifndef PL_WORKERS_PLAN_H
#define PL_WORKERS_PLAN_H
#include "outer/outer.h"
#include "net/net.h"

/* Of one worker at once: fetched, being trained, being sent. */
enum { PLAN_HELD_MAX = 3 };

typedef struct plan_lease {
    bool active;
    bool taken_up; /* by a hub that started again: granted_ms is when it heard of it */
    uint64_t token;
    int64_t phase;
    int64_t deadline_ms, granted_ms;
    int worker;       /* index of the holder */
    int step;         /* last reported inner step */
    int64_t step_ms;  /* when it was reported */
    int first_step;   /* the first one reported, */
    int64_t first_ms; /* and when; 0: none yet */
    double loss;
    int failures; /* of this task in this phase */
} plan_lease;

/* The leases of a phase that is over: whose work it was is known when its worker says
 * so. */
typedef struct plan_ended {
    int64_t phase;
    plan_lease leases[2]; /* of the path, and its backup; token 0: there was none */
    bool goes_on;         /* the first one, into the next phase */
    uint64_t by;          /* under which it arrived; 0: the homes did not say */
} plan_ended;
/* A lease is at most one phase ahead of its path, so news ends two at once. */
enum { PLAN_ENDED_MAX = 2 };

/* What a worker says that it has delivered: it counts when the homes tell the same. */
typedef struct plan_said {
    int64_t phase;
    uint64_t token; /* 0: nobody said anything */
    int worker;
    double loss, seconds; /* of its inner steps */
    int64_t held_ms;      /* since its lease was granted */
    int64_t lease_ms;     /* as long as its lease lives, if nobody confirms it */
    int64_t until_ms;     /* so long others get the path if the homes know nothing */
} plan_said;
/* Workers that are remembered as having failed at a path's task. */
enum { PLAN_FAILED_MAX = 3 };
/* Of one path, not confirmed: the holder of two phases, its backup, and one before. */
enum { PLAN_SAID_MAX = 4 };

/* What a home says of a path. */
typedef struct plan_news {
    int64_t phase;
    uint64_t n_tokens;
    double loss, seconds;
    uint64_t by;        /* token that the last phase arrived under; 0: not known */
    const char *worker; /* who made the path's state; "" or NULL: nobody */
} plan_news;

typedef struct plan_path {
    char name[PL_MODULE_NAME_MAX];
    int64_t phase;
    uint64_t n_tokens;
    double loss, seconds;
    int last_worker;            /* -1: nobody yet */
    char state_of[PL_TEXT_MAX]; /* the worker that made what it carries; "": nobody */
    bool drops_state; /* the homes are to drop that; until they have, nobody gets it */
    int64_t mates_phase; /* that `mates` is of; -1: of none yet */
    int *mates;          /* [n_slots] whom it met after its last phase (noloco) */
    int64_t offered;     /* phases whose updates can be had from a worker (noloco) */
    int offered_by;
    int64_t made; /* phases finished or offered at some time, and since when */
    int64_t made_ms;
    plan_lease lease;
    /* The same phase, under a higher token, with a worker that may be faster: whoever
     * delivers first ends both. */
    plan_lease backup;
    int backups_failed;                          /* in this phase */
    int failed_by[PLAN_FAILED_MAX], n_failed_by; /* in this phase */
    int own_failures; /* the same, of the job's own workers */
    plan_ended ended[PLAN_ENDED_MAX];
    plan_said said[PLAN_SAID_MAX]; /* n_said of them, in the order in which they came */
    int n_said;
} plan_path;

typedef struct plan_arm {
    pl_arm arm;
    pl_hash blob;
    pl_topology *topology;
    uint64_t *versions; /* [M]; UINT64_MAX: no such module yet */
    plan_path *paths;   /* [P*R] */
    int n_tasks;
    pl_name_table *path_names, *module_names; /* without the arm's; owned */
} plan_arm;

typedef struct plan {
    plan_arm *arms;
    int n_arms;
    uint64_t epoch;   /* high half of tokens */
    uint32_t counter; /* low half */
    uint64_t n_granted, n_expired, n_failed;
    uint64_t n_backups, n_backups_won; /* of n_granted */
} plan;

typedef struct plan_task {
    int arm, index; /* index = path * R + replica */
} plan_task;

void plan_clear(plan *p);
plan_arm *plan_find_arm(plan *p, const char *name);
/* Takes ownership of the arm's contents. Adding one twice is fine. */
pl_status plan_add_arm(plan *p, pl_arm *arm, const pl_hash *blob);
void plan_set_version(plan *p, const char *module, uint64_t version);
bool plan_find_task(plan *p, const char *name, plan_task *out);
plan_path *plan_find_path(plan *p, const char *name); /* or NULL */
/* Progress that a home reports. News may come in any order, twice, or not at all: what
 * is older than the newest changes nothing. */
void plan_hear(plan_path *path, const plan_news *news, int64_t now_ms);

/* A worker has this phase's updates ready; when it goes, its offers go with it. */
void plan_offer(plan_path *path, int64_t phase, int worker, int64_t now_ms);
void plan_withdraw(plan *p, int worker);

/* Whom a path exchanges with before `phase`, slot after slot: an index, its own where
 * it has no mate, -1 where that cannot be told. Looked up once a phase. */
const int *plan_mates(const plan_arm *arm, int index, int64_t phase);
/* Whether the path has waited for its mates as long as the arm's deadline allows: who
 * is not there then need not be waited for before `phase` (noloco). */
bool plan_is_late(const plan_arm *arm, int index, int64_t phase, int64_t now_ms);
bool plan_ready(const plan_arm *arm, int index, int64_t now_ms);
/* The best ready task for this worker: longest remaining chain first, then the path
 * the worker knows, then one that nobody knows. False if there is none. */
bool plan_choose(const plan *p, int worker, int64_t now_ms, plan_task *out);
/* Whether plan_choose leaves out a free task for this worker that others may get: it
 * has said that it is done, and the homes know nothing of it. */
bool plan_leaves_out(const plan *p, int worker, int64_t now_ms);
/* A token can be guessed, and is worth nothing from anybody but the worker that has the
 * lease: what others say about it has no effect. */

/* Whether the holder of a lease may go on with the next phase before this one has
 * arrived: nothing that it needs depends on that. */
bool plan_continues(plan *p, plan_task task, int64_t phase, uint64_t token, int worker,
                    int64_t now_ms);
/* Does plan_choose's task come before such a next phase? */
bool plan_is_better(const plan *p, plan_task task, plan_task held, int worker);
/* The lease goes on into its next phase, under the same token. */
void plan_extend(plan *p, plan_task task, int64_t now_ms, int ttl_ms);
/* That next phase is given back, while the one before is still on its way. */
void plan_shorten(plan_path *path, uint64_t token, int worker);
/* True if the task was taken from another holder: homes must then be told. */
bool plan_grant(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms);
/* A lease that this worker has under `token`; or, after a restart of the hub, a free
 * task that is taken up again under the token of an earlier one, PLAN_HELD_MAX a worker
 * at most. `phase` is the path's, or the next if the lease went on. */
bool plan_renew(plan *p, plan_path *path, int64_t phase, uint64_t token, int worker,
                int64_t now_ms, int ttl_ms);
/* The lease of this path that the worker has under the token, active or not; or NULL.
 */
plan_lease *plan_lease_of(plan_path *path, uint64_t token, int worker);
/* Whether two may do the same task of this arm at once: it is a pure function of what
 * lies in the homes, so that both deliver the same bytes. */
bool plan_may_back_up(const plan_arm *arm);
void plan_grant_backup(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms);
/* plan_done.c */
/* The leases of all phases before `phase` are over; `by`: see plan_news. */
void plan_note_ended(plan_path *path, int64_t phase, uint64_t by);
/* A worker says that it has delivered a phase. The lease that it has or had of it, or
 * NULL: then it counts for nothing. One that the homes do not confirm ends after a time
 * to live, whatever its holder says in between. */
const plan_lease *plan_say_done(plan_path *path, const plan_said *said, int64_t now_ms,
                                int ttl_ms);
/* The path's phase has begun, of which its worker may have said that it is done: now
 * the lease lives for that, and no longer for the phase before. */
void plan_await_next(plan_path *path);
bool plan_is_said(const plan_path *path, uint64_t token, int64_t phase);
/* It said so of the path's phase, and the homes know nothing of it: let others try. */
bool plan_has_said(const plan_path *path, int worker, int64_t now_ms);
/* True, once a phase, when a worker has said it and so have the homes; then `by` is
 * what it said, and `other` whom to stop, who is at it still, or -1. Of two who have
 * said it, it was the one that the homes name, else the first. */
bool plan_settle(plan *p, plan_path *path, plan_said *by, int *other, uint64_t *lost);
/* plan.c */
/* A backup takes the place of the lease that it was for. */
void plan_release(plan *p, plan_path *path, uint64_t token, int worker, bool failed);
/* Leases past their deadline become free for others; returns how many. `lost` is told
 * the worker of each; NULL: nobody is. */
int plan_expire(plan *p, int64_t now_ms, void (*lost)(void *context, int worker),
                void *context);
void plan_release_worker(plan *p, int worker);
int plan_n_held(const plan *p, int worker); /* leases, without backups */
/* The path's state is no good: all leases of its phase end, and its task may fail anew.
 * The homes must be told. */
void plan_drop_state(plan *p, plan_path *path);
/* False: something here still names the worker; else nothing does any more. */
bool plan_forget_worker(plan *p, int worker);
bool plan_arm_finished(const plan_arm *arm);

#endif
