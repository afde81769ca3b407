/* Private to the hub: how it works, its state, and the functions that its files share.
 *
 * Purpose. The hub gives tasks to workers and keeps track of who works on what. It has
 * no disk. What is done is known to the homes, so the hub only caches it: it asks them
 * for their state when it starts and once per second, and hears their events in
 * between. Who works on what is known here alone, and is learnt again from the renewals
 * of the workers after a restart.
 *
 * One thread runs one loop (serve in hub.c):
 *
 *   hear_workers   up to 256 messages of workers. All are answered at once, except a
 *                  question for a task (TASK_REQ), which is put into the queue
 *   hub_hear_home  all messages of every home
 *   hub_tend       applies some records of the homes' states, asks homes anew, ends
 *                  leases that ran out, goes on with audits, then gives the workers in
 *                  the queue tasks, audits or backups (serve_waiting)
 *
 * A home, as the hub sees it (hub_home.welcome, hub_home.known):
 *
 *           HELLO until it answers       GET_STATE until all is applied
 *   silent ------------------------> welcome ------------------------> known
 *     ^                                |                                 |
 *     +------- nothing heard for AWAY_MS: it is no longer welcome, ------+
 *              but stays known, since what it told can only grow
 *
 * A worker that asks (hub_worker.waiting, hub_worker.task). It may train one task while
 * it asks for the next, so these are flags and not one state:
 *
 *          TASK_REQ               a task is found: TASK
 *   idle ------------> waiting ----------------------------> has a lease
 *    ^ ^                  |                                       |
 *    | +-- NO_WORK after PARK_MS                                  |
 *    +------- DONE, RELEASE, LEASE_LOST, or no renewal in time ---+
 *
 * Tasks are granted only while every home is known and welcome (may_grant), while no
 * failure ends the job, and, after a restart, once one time to live has passed: until
 * then earlier holders may renew their leases. A worker whose key is not the job's own
 * is on trial until it has delivered a task, and again when a lease of its holder has
 * run out. On trial it has one lease at a time, is served last, and its task may be
 * given to a second worker as well (hub_names.c, hub_backup.c).
 *
 * Invariants
 *   - A worker's DONE ends no phase; the homes' news does (plan_done.c).
 *   - Before a task that had a holder is granted to another one, all homes are told to
 *     refuse lower tokens (hub_fence). A backup is the exception, because both holders
 *     may deliver.
 *   - Every question may be repeated. The hub remembers the request that it answered
 *     last per worker, and answers that one again in the same way (repeat_answer).
 *   - A place in hub.workers is given to a different worker only if nothing refers to
 *     it any more (is_idle in hub_names.c). Every other index stays valid.
 *
 * Ownership. `hub` owns all that it points to, except `options`. Its plan owns arms,
 * paths and leases; audits have leases of their own.
 *
 * Files: hub.c (loop, workers' questions), hub_homes.c (homes), hub_names.c (who a
 * worker is, its failures, trials), plan.c and plan_done.c (tasks and leases),
 * hub_backup.c (second leases for slow tasks), hub_audit.c (tasks done again to compare
 * them), hub_status.c (what `pathloom status` shows). */
#ifndef PL_WORKERS_HUB_INTERNAL_H
#define PL_WORKERS_HUB_INTERNAL_H
#include "workers/admission.h"
#include "workers/plan.h"
#include "workers/workers.h"
#include "net/net.h"

/* How fast a worker's finished tasks went, the newest weighing as much as all before.
 */
typedef struct hub_pace {
    int n_tasks;
    double slot_s; /* of inner steps, for one place of a batch */
    double rest_s; /* from grant to DONE, but for inner steps */
} hub_pace;

/* A lease that others would end sooner, perhaps. */
typedef struct hub_slow {
    plan_task task;
    double left_s;
} hub_slow;
enum { HUB_SLOW_MAX = 16 };

/* Of an update, as the home has it from the sender's lease. */
typedef struct hub_sender {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
} hub_sender;

/* A task that is to be done again (hub_audit.c). */
typedef struct hub_audit {
    pl_audit row;
    plan_task task;
    int home;         /* that has the row */
    int n_there;      /* results that it has in it */
    plan_lease lease; /* of who does it now */
    int failures;
    int n_slots;
    pl_hash *hashes; /* [n_slots] of the updates that the homes took; none: not known */
    hub_sender *senders;   /* [n_slots] */
    bool mixed;            /* they were made on different kinds of devices */
    uint64_t *requests;    /* [n_slots] that ask for them */
    int n_parts;           /* of what is compared across kinds */
    uint64_t *seeds;       /* [n_parts], with the first one's hashes */
    pl_likeness *likeness; /* [PL_AUDIT_RESULTS, n_parts] */
    int n_asked;
    int64_t asked_ms, told_ms;
    int64_t looked_ms; /* when workers were looked for that can do it; found were: */
    bool has_any;      /* anybody, */
    int trust;         /* the most that one of them has, */
    bool has_kin;      /* one with as much, of the first one's kind of device */
    bool listed, was_listed; /* in the home's newest state, and the one before */
} hub_audit;

typedef struct hub_fenced {
    char name[PL_TEXT_MAX], reason[PL_FENCED_TEXT_MAX];
    pl_pubkey key; /* all zero: the name alone is refused */
} hub_fenced;

/* A worker as the hub knows it. Entries are never removed: a worker that comes
 * back under its name is the same worker. */
typedef struct hub_worker {
    char name[PL_TEXT_MAX], device[PL_TEXT_MAX];
    char offers_at[PL_ADDRESS_MAX]; /* where other workers get its updates */
    uint64_t pid;
    pl_pubkey key; /* that the name came with */
    bool own_key;  /* of the job's own machine, where many may have it */
    bool had_task; /* one was leased to it at some time */
    bool delivers; /* it delivered a task, and let no lease run out since */
    char fenced[PL_FENCED_TEXT_MAX]; /* why nothing is taken from it; "": it is */
    pl_peer peer;
    int64_t seen_ms;
    bool left;      /* it said goodbye */
    int n_failures; /* tasks in a row that it gave back as failed */
    int n_bars;     /* times that it was barred since it last did one */
    int64_t barred_until_ms;
    char failure[PL_FENCED_TEXT_MAX]; /* the last one, in its words */
    bool waiting;                     /* asked for a task and has not been answered */
    bool queued;       /* stands in the hub's queue, waiting or not any more */
    uint64_t request;  /* of the open question */
    uint64_t answered; /* request of the last answer to TASK_REQ */
    plan_task given;   /* and what it gave, if given_token is not 0 */
    uint64_t given_token;
    int64_t given_phase;
    int given_steps; /* 0: all of the phase */
    /* the task that it could go on from, said with the open question; token 0: none */
    plan_task held;
    uint64_t held_token;
    int64_t held_phase;
    int64_t waiting_since_ms;
    char task[PL_MODULE_NAME_MAX]; /* that it trains; "" when idle */
    int64_t phase;
    int step;
    double rate; /* tokens per second of inner steps */
    /* sums over finished tasks: inner steps; the trainer stood still although there
     * was a task; there was none */
    double inner_s, overhead_s, idle_s;
    double waited_s; /* of overhead: for data */
    uint64_t n_tasks, n_tokens;
    hub_pace pace;
} hub_worker;

/* The hub's line to one home. */
typedef struct hub_home {
    pl_socket *socket;
    uint64_t epoch;    /* of its store; another one means that it has started again */
    bool known;        /* its whole state has been applied since WELCOME */
    bool welcome;      /* HELLO answered since the home was last heard of */
    bool added;        /* while the job ran: it owned nothing then */
    int64_t heard_ms;  /* any message */
    int64_t asked_ms;  /* last HELLO or GET_STATE */
    int64_t fresh_ms;  /* asked_ms of the newest state that was applied */
    pl_buf state;      /* pieces of STATE_IS received so far */
    pl_reader records; /* of the whole, while it is applied, some at a time */
    size_t n_records, n_applied; /* equal: nothing is left of it */
    int unknown_arms;            /* named by it, definition not here yet */
    pl_buf status;               /* its newest STATUS_IS, JSON */
    int64_t status_ms;
} hub_home;

/* Who owns a name that moved: the note with the highest stamp that any home has. */
typedef struct hub_place {
    int home;
    uint64_t stamp;
} hub_place;

typedef struct hub {
    const pl_hub_options *options;
    pl_socket *socket;
    hub_home *homes; /* [PL_HOMES_MAX], n_homes of them are there */
    int n_homes;
    char homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    char table[PL_PLACES_TEXT]; /* the placement, as home 1 has it; "": equal weights */
    pl_name_table *place_index; /* name -> places */
    hub_place *places;
    int n_places;
    hub_worker *workers;
    int n_workers;
    pl_name_table *worker_names;
    int *queue; /* [n_queued] workers that wait, in the order in which they asked */
    int n_queued;
    bool stirred;                /* since nothing was ready, something happened */
    int64_t expired_ms;          /* when leases were last looked through */
    int64_t overdue_ms;          /* and for those that are held too long */
    double slowest_s;            /* from grant to DONE, of all tasks so far */
    hub_slow slow[HUB_SLOW_MAX]; /* those that may need backups, slowest first */
    int n_slow;
    int64_t slow_ms; /* when they were looked for */
    plan tasks;
    hub_audit *audits;
    hub_fenced *fenced;
    size_t n_audits, n_fenced;
    int64_t done_ms; /* last DONE: rows of that task may be on their way */
    bool in_state;   /* a record of a state is being applied, not an event */
    uint64_t n_verdicts[PL_VERDICT_COUNT]; /* since this hub began */
    uint64_t n_across;  /* of them: by tolerance, between kinds of devices */
    int64_t known_ms;   /* when the state of all homes was known */
    char failure[1200]; /* why the run cannot go on; "" while it can */
    pl_status failure_status;
    pl_keypair mates; /* with which workers ask each other */
    bool has_secret;
    pl_lease_secret secret; /* that seals leases; the first home keeps it */
    bool stopping;
    int64_t started_ms;
    char address[PL_ADDRESS_MAX]; /* by which others reach it */
} hub;

/* hub_homes.c */
pl_status hub_open_homes(hub *h);
void hub_close_homes(hub *h);
pl_status hub_tend_homes(hub *h, int64_t now_ms);
pl_status hub_hear_home(hub *h, int home, int64_t now_ms);
pl_status hub_take_home(hub *h, int home, const pl_message *m, int64_t now_ms);
pl_status hub_fence(hub *h, const plan_path *path);
bool hub_homes_ready(const hub *h);
/* Some of what homes told of their state; true if more is left. */
bool hub_apply_some(hub *h);
/* Takes the body; gives the message a request number unless it has one. */
pl_status hub_send_home(hub_home *home, pl_message *m);

/* hub.c */
/* One message; an error ends the hub, what is the asker's fault is answered. */
pl_status hub_take(hub *h, const pl_peer *peer, const pl_message *m);
/* What is due, and tasks for those who wait; *more: homes' state is left to apply. */
pl_status hub_tend(hub *h, int64_t now_ms, bool *more);
void hub_free_held(hub *h, int worker); /* whatever this worker has is others' */
pl_status hub_answer(hub *h, const pl_peer *peer, pl_message *a); /* takes it */
/* A worker may train one task while another is sent. */
void hub_end_task(hub_worker *w, const plan_path *path);

/* hub_names.c */
int hub_find_worker(const hub *h, const char *name); /* -1: not known */
/* The worker of this name, which may be new. ERR_USAGE: it is no name; ERR_NOPERM: the
 * key has too many; ERR_BUSY: the hub has. */
pl_status hub_know_worker(hub *h, const char *name, const pl_peer *peer, int *out);
pl_status hub_check_owner(const hub_worker *w, const pl_peer *peer);
/* Whether the same answers for both: one worker, or one key. */
bool hub_same_holder(const hub_worker *a, const hub_worker *b);
/* Whether its leases must be expected to lead to nothing (hub_names.c). */
bool hub_is_on_trial(const hub_worker *w);
/* Leases of all workers for which the same holder answers. */
int hub_n_held(const hub *h, const hub_worker *w);
/* Its lease ran out. */
void hub_note_lost(void *hub, int worker);
/* A task was given back as failed; may bar the worker, drop the state that the task
 * began with, or end the job. */
pl_status hub_note_failure(hub *h, plan_path *path, int worker, pl_status why,
                           const char *text);
/* The homes confirm what the worker did `held_s` after its lease was granted. */
void hub_note_success(hub *h, int worker, double held_s);
bool hub_is_barred(const hub_worker *w, int64_t now_ms);
/* The path's lease goes to others, which is a failure of its holder. */
void hub_end_lease(hub *h, plan_path *path, int64_t now_ms);
/* Leases that were renewed for ever go to others. */
void hub_end_overdue(hub *h, int64_t now_ms);

/* hub_audit.c */
/* Whether an open audit is of this worker's result. */
bool hub_is_audited(const hub *h, const hub_worker *w);
/* Being done under it by this worker; or NULL. */
hub_audit *hub_audit_of(hub *h, uint64_t token, int worker);
/* That it may do, and nobody can compare better; or NULL. */
hub_audit *hub_find_audit(hub *h, int worker, int64_t now_ms);
void hub_grant_audit(hub *h, hub_audit *a, int worker, int64_t now_ms);
/* `m`, being read by `r`: its DONE, whose data may have the likeness. */
pl_status hub_audit_done(hub *h, hub_audit *a, int worker, pl_reader *r,
                         const pl_message *m);
/* Given back; `reason` not NULL: it failed there. */
void hub_audit_release(hub *h, hub_audit *a, const char *reason);
void hub_release_audits(hub *h, int worker);
bool hub_audits_wait(const hub *h, int arm, int64_t now_ms);
void hub_mark_fenced(hub *h, hub_worker *w);
/* Homes: the rows of one state stand between begin and end; events come alone. */
void hub_begin_rows(hub *h, int home);
bool hub_is_audit_record(pl_reader *r);
pl_status hub_take_audit_record(hub *h, int home, pl_reader *r);
void hub_end_rows(hub *h, int home);
pl_status hub_hear_update(hub *h, const pl_message *m);
pl_status hub_tend_audits(hub *h, int64_t now_ms);
pl_status hub_repeat_fenced(hub *h);
void hub_clear_audits(hub *h);
void hub_audit_json(const hub *h, pl_json *out);

/* hub_backup.c */
/* A finished task: `total_s` from its grant, 0 if that is not known. */
void hub_note_pace(hub_worker *w, const pl_arm *arm, double inner_s, double total_s);
/* A task that somebody is at and that this worker would end well before; false: none.
 * Looks at leases anew only now and then. */
bool hub_find_backup(hub *h, int worker, int64_t now_ms, plan_task *out);
/* Of the phase that a path has finished: whose work it was, as soon as worker and homes
 * have said so. Whoever comes second has nothing to do any more, and is told. */
pl_status hub_settle(hub *h, plan_path *path);
/* Of a running job: the addresses of all homes, old ones first. */
pl_status hub_add_homes(hub *h, pl_reader *r);

/* hub_status.c */
bool hub_is_away(const hub *h, const hub_worker *w, int64_t now_ms);
void hub_status_json(hub *h, pl_buf *out);

#endif
