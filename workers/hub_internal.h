/* Private to the hub: how it works, its state, and the functions that its files share.
 *
 * Purpose. The hub gives tasks to workers and keeps track of who works on what. The hub
 * stores nothing on disk. The homes know which tasks are done; the hub asks them for
 * their state when it starts and once per second, and receives their events in between.
 * Only the hub knows who works on what; after a restart it learns this again from the
 * renewals of the workers.
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
 * The states of a home, for the hub (hub_home.welcome, hub_home.known):
 *
 *           HELLO until it answers       GET_STATE until all is applied
 *   silent ------------------------> welcome ------------------------> known
 *     ^                                |                                 |
 *     +------- nothing heard for AWAY_MS: it is no longer welcome, ------+
 *              but stays known, because its reports stay true
 *
 * The states of a worker (hub_worker.waiting, hub_worker.task). A worker may train one
 * task while it asks for the next, so these are flags and not one state:
 *
 *          TASK_REQ               a task is found: TASK
 *   idle ------------> waiting ----------------------------> has a lease
 *    ^ ^                  |                                       |
 *    | +-- NO_WORK after PARK_MS                                  |
 *    +------- DONE, RELEASE, LEASE_LOST, or no renewal in time ---+
 *
 * Tasks are granted only while every home is known and welcome (hub_homes_ready; homes
 * that were added during the job need only be known), while no failure ends the job,
 * and, after a restart, once one time to live has passed: until then earlier holders
 * may renew their leases. A worker whose key is not the job's own is on trial until it
 * has delivered a task, and again when a lease of its holder has run out. On trial it
 * has one lease at a time, is served last, and its task may be given to a second worker
 * as well (hub_names.c, hub_backup.c).
 *
 * Invariants
 *   - A worker's DONE does not end a phase; only the homes' report does (plan_done.c).
 *   - Before a task that had a holder is granted to another one, all homes are told to
 *     refuse lower tokens (hub_fence). A backup is the exception: both holders may
 *     deliver.
 *   - Every question may be repeated. The hub remembers the last TASK_REQ that it
 *     answered per worker, and answers that one again in the same way (repeat_answer).
 *   - A place in hub.workers is given to a different worker only if nothing refers to
 *     it any more (is_idle in hub_names.c). Every other index stays valid.
 *
 * Ownership. `hub` owns all that it points to, except `options`. The hub's plan owns
 * arms, paths and leases; audits have leases of their own.
 *
 * Files: hub.c (loop, workers' questions), hub_homes.c (homes), hub_names.c (names and
 * keys of workers, their failures, trials), plan.c and plan_done.c (tasks and leases),
 * hub_backup.c (second leases for slow tasks), hub_audit.c (tasks done again to compare
 * them), hub_status.c (what `pathloom status` shows). */
#ifndef PL_WORKERS_HUB_INTERNAL_H
#define PL_WORKERS_HUB_INTERNAL_H
#include "workers/admission.h"
#include "workers/plan.h"
#include "workers/workers.h"
#include "net/net.h"

/* The speed of a worker's finished tasks. The newest task weighs as much as all before
 * it. */
typedef struct hub_pace {
    int n_tasks;
    double slot_s; /* seconds of inner steps per token of a batch */
    double rest_s; /* seconds from grant to DONE, less those of inner steps */
} hub_pace;

/* A lease whose task another worker might finish sooner. */
typedef struct hub_slow {
    plan_task task;
    double left_s;
} hub_slow;
enum { HUB_SLOW_MAX = 16 };

/* The sender of an audited update, as its home reports it. */
typedef struct hub_sender {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    pl_pubkey key; /* zero if the connection was not encrypted */
} hub_sender;

/* A task that is to be done again (hub_audit.c). */
typedef struct hub_audit {
    pl_audit row;
    plan_task task;
    int home;         /* the home that has the row */
    int n_there;      /* number of results in the row */
    plan_lease lease; /* the lease of the worker that does the audit now */
    int failures;
    int n_slots;
    /* [n_slots] hashes of the updates that the homes accepted; zero: not known yet */
    pl_hash *hashes;
    hub_sender *senders; /* [n_slots] */
    bool mixed;          /* the updates were made on different kinds of devices */
    /* [n_slots] request numbers of the questions for these hashes */
    uint64_t *requests;
    int n_parts; /* number of parts that are compared across kinds of devices */
    /* [n_parts] seeds of the parts' likenesses, which the homes chose */
    uint64_t *seeds;
    /* [PL_AUDIT_RESULTS, n_parts] likeness of each part of each result */
    pl_likeness *likeness;
    int n_asked;
    int64_t asked_ms, told_ms;
    /* when the hub last looked for workers that can do the audit, and the result: */
    int64_t looked_ms;
    bool has_any; /* some worker can do the audit */
    int trust;    /* the highest trust of any such worker (trust_in) */
    /* a worker with that trust has the same kind of device as the first worker */
    bool has_kin;
    /* whether the row is in the home's newest state, and in the previous one */
    bool listed, was_listed;
} hub_audit;

typedef struct hub_fenced {
    char name[PL_TEXT_MAX], reason[PL_FENCED_TEXT_MAX];
    pl_pubkey key; /* all zero: only the name is fenced */
} hub_fenced;

/* A worker as the hub knows it. A worker that comes back under its name is the same
 * worker. An entry is reused for another name only if the table is full, or the key has
 * all entries that one key may have, and nothing refers to the old worker any more. */
typedef struct hub_worker {
    char name[PL_TEXT_MAX], device[PL_TEXT_MAX];
    /* address at which other workers can fetch this worker's updates */
    char offers_at[PL_ADDRESS_MAX];
    uint64_t pid;
    pl_pubkey key; /* the key of the first HELLO under this name */
    /* the key is one of the job's own, which several workers may share */
    bool own_key;
    bool had_task; /* at least one task was leased to this worker */
    bool delivers; /* a task was delivered, and no lease expired since */
    /* why the worker's results are refused; "": they are accepted */
    char fenced[PL_FENCED_TEXT_MAX];
    pl_peer peer;
    int64_t seen_ms;
    bool left;      /* the worker's process has ended its connection by RELEASE */
    int n_failures; /* tasks in a row that the worker gave back as failed */
    int n_bars;     /* how often the worker was barred after its last delivery */
    int64_t barred_until_ms;
    /* the reason of the last failure, as the worker reported it */
    char failure[PL_FENCED_TEXT_MAX];
    bool waiting;     /* the worker's TASK_REQ is not answered yet */
    bool queued;      /* the worker is in the hub's queue, even if it no longer waits */
    uint64_t request; /* request number of the open question */
    uint64_t answered; /* request of the last answer to TASK_REQ */
    plan_task given;   /* the task of that answer, if given_token is not 0 */
    uint64_t given_token;
    int64_t given_phase;
    int given_steps; /* inner steps to do; 0: all of the phase */
    /* The task whose next phase the worker could do, according to its TASK_REQ. Token
     * 0: none. */
    plan_task held;
    uint64_t held_token;
    int64_t held_phase;
    int64_t waiting_since_ms;
    char task[PL_MODULE_NAME_MAX]; /* the task in training; "": idle */
    int64_t phase;
    int step;
    double rate;           /* tokens per second of inner steps */
    uint64_t memory_bytes; /* the process's largest memory so far; 0: not known */
    /* Sums over finished tasks, in seconds: inner steps; time in which the trainer
     * stood still although it had a task; time without a task. */
    double inner_s, overhead_s, idle_s;
    double waited_s; /* the part of overhead_s that was spent waiting for data */
    uint64_t n_tasks, n_tokens;
    hub_pace pace;
} hub_worker;

/* The hub's connection to one home. */
typedef struct hub_home {
    pl_socket *socket;
    /* epoch of the home's store; a different epoch means that the home has restarted */
    uint64_t epoch;
    bool known;        /* the home's whole state was applied after WELCOME */
    bool welcome;      /* the home has answered HELLO, and was not away since */
    bool added;        /* the home was added while the job ran */
    int64_t heard_ms;  /* when the home's last message arrived */
    int64_t asked_ms;  /* when the last HELLO or GET_STATE was sent */
    int64_t fresh_ms;  /* asked_ms of the newest state that was applied */
    pl_buf state;      /* the pieces of STATE_IS received so far */
    pl_reader records; /* the whole state, which is applied some records at a time */
    size_t n_records, n_applied; /* records of the state, and records applied so far */
    int unknown_arms; /* arms in the state whose definitions have not come yet */
    pl_buf status;    /* the home's newest STATUS_IS, JSON */
    int64_t status_ms;
} hub_home;

/* The owner of a name that moved. If homes disagree, the note with the highest stamp
 * counts. */
typedef struct hub_place {
    int home;
    uint64_t stamp;
} hub_place;

typedef struct hub {
    const pl_hub_options *options;
    pl_socket *socket;
    hub_home *homes; /* [PL_HOMES_MAX]; n_homes are in use */
    int n_homes;
    char homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    /* the placement table from home 1; "": all homes have equal weights */
    char table[PL_PLACES_TEXT];
    pl_name_table *place_index; /* name -> index in places */
    hub_place *places;
    int n_places;
    hub_worker *workers;
    int n_workers;
    pl_name_table *worker_names;
    int *queue; /* [n_queued] workers that wait, in the order in which they asked */
    int n_queued;
    bool stirred;       /* an event may have made a task ready since the last search */
    int64_t expired_ms; /* when leases were last checked for expiry */
    int64_t overdue_ms; /* when hub_end_overdue last ran */
    double slowest_s;   /* the longest time from grant to DONE of any task so far */
    hub_slow slow[HUB_SLOW_MAX]; /* leases that may need backups, the slowest first */
    int n_slow;
    int64_t slow_ms; /* when the list `slow` was made */
    plan tasks;
    hub_audit *audits;
    hub_fenced *fenced;
    size_t n_audits, n_fenced;
    /* when the last DONE came; audit rows of that task may still be on their way */
    int64_t done_ms;
    bool in_state; /* the record being applied comes from a state, not from an event */
    /* number of verdicts of each kind since this hub started */
    uint64_t n_verdicts[PL_VERDICT_COUNT];
    /* number of verdicts from likenesses, because the kinds of devices differed */
    uint64_t n_across;
    int64_t known_ms;   /* when the hub first knew the states of all homes */
    char failure[1200]; /* why the job cannot go on; "" while it can */
    pl_status failure_status;
    pl_keypair mates; /* the key pair with which workers ask each other */
    bool has_secret;
    pl_lease_secret secret; /* the secret that seals leases; the first home keeps it */
    bool stopping;
    /* number of lines that may still be logged about workers that are not the job's
     * own */
    double lines_left;
    int64_t logged_ms; /* when lines_left was last renewed */
    int64_t started_ms;
    char address[PL_ADDRESS_MAX]; /* the address by which others reach the hub */
} hub;

/* hub_homes.c */
pl_status hub_open_homes(hub *h);
void hub_close_homes(hub *h);
pl_status hub_tend_homes(hub *h, int64_t now_ms);
pl_status hub_hear_home(hub *h, int home, int64_t now_ms);
pl_status hub_take_home(hub *h, int home, pl_message *m, int64_t now_ms);
pl_status hub_fence(hub *h, const plan_path *path);
bool hub_homes_ready(const hub *h);
/* Applies some records of the homes' states. Returns true if more are left. */
bool hub_apply_some(hub *h);
/* Takes ownership of the message's body. Gives the message a request number unless it
 * has one. */
pl_status hub_send_home(hub_home *home, pl_message *m);

/* hub.c */
/* Handles one message. An error ends the hub; a mistake of the sender is answered
 * instead. */
pl_status hub_take(hub *h, const pl_peer *peer, pl_message *m);
/* Does the work that is due by time, and gives tasks to waiting workers. *more becomes
 * true if records of homes' states are left to apply. */
pl_status hub_tend(hub *h, int64_t now_ms, bool *more);
/* Ends all leases, audits and offers of this worker. */
void hub_free_held(hub *h, int worker);
/* If everything is trained, tells all workers that the job has ended. */
void hub_dismiss_finished(hub *h);
/* Sends an answer; takes ownership of the message's body. */
pl_status hub_answer(hub *h, const pl_peer *peer, pl_message *a);
/* Notes that the worker has stopped training this path's task. A worker may train one
 * task while it sends another. */
void hub_end_task(hub_worker *w, const plan_path *path);

/* hub_names.c */
int hub_find_worker(const hub *h, const char *name); /* -1: the name is not known */
/* Finds the worker of this name, or adds it. ERR_USAGE: the name is not valid.
 * ERR_NOPERM: the key has too many names. ERR_BUSY: the hub has too many workers. */
pl_status hub_know_worker(hub *h, const char *name, const pl_peer *peer, int *out);
pl_status hub_check_owner(const hub_worker *w, const pl_peer *peer);
/* Whether a line about what this peer said may be logged now. */
bool hub_may_log(hub *h, const pl_peer *peer);
/* Whether both workers belong to one holder: they are one worker, or share a key. */
bool hub_same_holder(const hub_worker *a, const hub_worker *b);
/* Whether the worker is on trial, so that its leases may lead to nothing
 * (hub_names.c). */
bool hub_is_on_trial(const hub_worker *w);
/* The number of leases that all workers of this worker's holder have. */
int hub_n_held(const hub *h, const hub_worker *w);
/* Notes that a lease of the worker ran out. */
void hub_note_lost(void *hub, int worker);
/* Notes that a task was given back as failed. A failure may bar the worker, drop the
 * state with which the task began, or end the job. */
pl_status hub_note_failure(hub *h, plan_path *path, int worker, pl_status why,
                           const char *text);
/* Notes that the homes have confirmed a task that the worker delivered, `held_s`
 * seconds after its lease was granted. */
void hub_note_success(hub *h, int worker, double held_s);
bool hub_is_barred(const hub_worker *w, int64_t now_ms);
/* Takes the path's lease from its holder, which counts as a failure of the holder. */
void hub_end_lease(hub *h, plan_path *path, int64_t now_ms);
/* Ends leases (also of audits) whose workers renew them without ever delivering. */
void hub_end_overdue(hub *h, int64_t now_ms);

/* hub_audit.c */
/* Whether an open audit checks a result of this worker. */
bool hub_is_audited(const hub *h, const hub_worker *w);
/* The audit that this worker does under this token, or NULL. */
hub_audit *hub_audit_of(hub *h, uint64_t token, int worker);
/* Finds an audit that this worker may do and for which no better worker is connected;
 * or NULL. */
hub_audit *hub_find_audit(hub *h, int worker, int64_t now_ms);
void hub_grant_audit(hub *h, hub_audit *a, int worker, int64_t now_ms);
/* Handles a worker's DONE for an audit. The data of `m` may contain the likeness. */
pl_status hub_audit_done(hub *h, hub_audit *a, int worker, const pl_message *m);
/* Handles an audit that its worker gave back. If `reason` is not NULL, the worker
 * failed. */
void hub_audit_release(hub *h, hub_audit *a, const char *reason);
void hub_release_audits(hub *h, int worker);
bool hub_audits_wait(const hub *h, int arm, int64_t now_ms);
void hub_mark_fenced(hub *h, hub_worker *w);
/* Apply records about audits that homes have sent. The records of one state come
 * between hub_begin_rows and hub_end_rows; events come alone. */
void hub_begin_rows(hub *h, int home);
bool hub_is_audit_record(pl_reader *r);
pl_status hub_take_audit_record(hub *h, int home, pl_reader *r);
void hub_end_rows(hub *h, int home);
pl_status hub_hear_update(hub *h, pl_message *m);
pl_status hub_tend_audits(hub *h, int64_t now_ms);
pl_status hub_repeat_fenced(hub *h);
void hub_clear_audits(hub *h);
void hub_audit_json(const hub *h, pl_json *out);

/* hub_backup.c */
/* Notes the speed of a finished task. `total_s` counts from the grant of its lease; 0:
 * not known. */
void hub_note_pace(hub_worker *w, const pl_arm *arm, double inner_s, double total_s);
/* Finds a task that another worker holds, and that this worker would finish much
 * earlier. Returns false if there is none. The list of slow leases is made anew only
 * now and then. */
bool hub_find_backup(hub *h, int worker, int64_t now_ms, plan_task *out);
/* Finds out which worker did a finished phase, as soon as both worker and homes have
 * reported it. A second holder is told to stop. */
pl_status hub_settle(hub *h, plan_path *path);
/* For a running job: reads the addresses of all homes, the old ones first. */
pl_status hub_add_homes(hub *h, const pl_message *homes);

/* hub_status.c */
bool hub_is_away(const hub *h, const hub_worker *w, int64_t now_ms);
void hub_status_json(hub *h, pl_buf *out);

#endif
