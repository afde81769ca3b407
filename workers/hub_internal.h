/* Private to the hub: how the hub works, its state, and the functions that its files
 * share.
 *
 * Purpose. The hub leases tasks to workers and keeps track of which worker does which
 * task. The hub stores nothing on disk. The homes know which tasks are done; the hub
 * asks them for their state when it starts and then once per second, and receives their
 * events in between. Only the hub knows the leases; after a restart it learns of them
 * again when workers renew them.
 *
 * One thread runs one loop (pl_hub_run in hub.c):
 *
 *   hub_take       handles a message of a worker, and answers it at once. But a worker
 *                  that asks for a task (TASK_REQ) joins the queue
 *   hub_hear_home  handles all messages of one home; called for every home
 *   hub_tend       applies some records of the homes' states, asks homes for their
 *                  states again, ends expired leases, continues audits, then gives
 *                  tasks, audits or backups to the queued workers
 *
 * The states of a home as the hub sees them (hub_home.welcome, hub_home.known):
 *
 *           HELLO until it answers       GET_STATE until all is applied
 *   silent ------------------------> welcome ------------------------> known
 *     ^                                |                                 |
 *     +------- no message for AWAY_MS: the home is not welcome, but -----+
 *              stays known, because its reports stay true
 *
 * The states of a worker (hub_worker.waiting, hub_worker.task). A worker may train one
 * task while it asks for the next one, so there are several flags instead of one state:
 *
 *          TASK_REQ               a task is found: TASK
 *   idle ------------> waiting ----------------------------> has a lease
 *    ^ ^                  |                                       |
 *    | +-- NO_WORK after PARK_MS                                  |
 *    +------- DONE, RELEASE, LEASE_LOST, or no renewal in time ---+
 *
 * Tasks are granted only while every home is known and welcome (hub_homes_ready), and
 * while no failure ends the job. After a restart the hub first waits for the lifetime
 * of a lease. In this time workers renew the leases that they hold. A worker whose key
 * is not one of the job's own keys is on trial: until it has delivered a task, again
 * after a lease of its key has expired, and while one of its results is audited. A
 * worker on trial has one lease at a time and is served last, and its task may also be
 * leased to a second worker (hub_trial.c, hub_backup.c).
 *
 * Invariants
 *   - A worker's DONE does not end a phase; only the homes' report does (plan_done.c).
 *   - Before a task is granted to another worker than before, the hub tells all homes
 *     to refuse lower tokens (hub_fence). A backup is an exception: both workers may
 *     deliver.
 *   - Workers may repeat every question. For each worker the hub remembers the last
 *     TASK_REQ that it answered, and gives the same answer again (on_task_req).
 *   - An index into hub.workers gets a different worker only if nothing refers to the
 *     old worker any more (place_worker in hub_names.c). All other indices stay valid.
 *
 * Ownership. `hub` owns everything that it points to, except `options`. The hub's plan
 * owns arms, paths and their leases. Leases of audits belong to the audits.
 *
 * Files: hub.c (loop, workers' questions), hub_join.c (workers that come and go),
 * hub_homes.c (homes), hub_names.c (names and keys of workers), hub_trial.c (their
 * failures, trials), plan.c and plan_done.c (tasks and leases), hub_progress.c (what
 * workers report), hub_pace.c (what each worker can do), hub_backup.c (second leases
 * for slow tasks), hub_audit.c, hub_auditor.c and hub_verdict.c (tasks done again to
 * compare them), hub_fenced.c (workers that are shut out), hub_status.c (what `pathloom
 * status` shows). */
#pragma once
#include "workers/plan.h"
#include "workers/workers.h"

/* The speed of a worker: means over its finished tasks, in which the newest task has
 * the same weight as all earlier tasks together. */
typedef struct hub_pace {
    int n_tasks;
    double slot_s;    /* seconds of inner steps per token of a batch */
    double rest_s;    /* seconds per task from grant to DONE, without inner steps */
    int64_t noted_ms; /* time of the newest measurement */
} hub_pace;

/* What a worker has measured of its links to the homes, as it reports it. */
typedef struct hub_link {
    double up_rate, down_rate; /* bytes per second */
    uint64_t rtt_ms, up, down, repeated, reconnects;
    /* time of the first report of the present `up` and `down`; 0: there was no report
     */
    int64_t moved_ms;
} hub_link;

/* Why a worker that asks gets no task (hub_pace.c). */
typedef struct hub_withheld {
    bool is; /* whether a task was withheld since the worker's last lease */
    int arm; /* whose task it was */
    /* seconds until the worker would have finished it, and until all workers will have
     * finished the tasks that are ready */
    double need_s, others_s;
    int64_t judged_ms;
} hub_withheld;
enum { HUB_WITHHELD_TEXT_MAX = 320 };

/* A lease whose task another worker might finish sooner. */
typedef struct hub_slow {
    plan_task task;
    double left_s; /* expected seconds until the task is done */
} hub_slow;
enum { HUB_SLOW_MAX = 16 };

/* One part of an audited result: the update of a slot, or the state. */
typedef struct hub_part {
    bool sends;    /* whether the task has this part */
    bool is_known; /* whether the hub knows the next two */
    pl_hash hash;
    pl_audit_result from; /* its sender, as the home reports it; `digest` is not used */
    uint64_t request;     /* request number of the question for it; 0: none */
} hub_part;

/* An audit: a task that must be done again (hub_audit.c). */
typedef struct hub_audit {
    pl_audit row;
    plan_task task;
    int home;         /* the home that keeps the row, the record of the audit */
    plan_lease lease; /* the lease of the worker that does the audit */
    int failures;     /* how often a worker failed at this audit */
    int n_parts;      /* one per slot, then the state */
    hub_part *parts;  /* [n_parts] what the homes accepted */
    /* [PL_AUDIT_RESULTS - 1, n_parts] what the repetitions made: row.results from
     * number 1 on */
    pl_hash *made;
    /* the kind of device on which the task must be repeated next; "": none */
    char wants[PL_TEXT_MAX];
    int64_t lacks_ms; /* time since which no own worker of that kind is there, or 0 */
    /* whether a home has answered that it lacks an update, and how often the hub has
     * asked again because of this */
    bool refused;
    int n_asked;
    /* time when the hub last asked the homes for hashes, judged, or sent the verdict */
    int64_t asked_ms;
    /* how far the best connected judge is from an independent one (hub_auditor.c), and
     * the time of this search */
    int rank;
    int64_t looked_ms;
    /* If the verdict drops the results: the token below which homes refuse leases, the
     * request numbers of the orders to drop, and whether each home has answered. */
    uint64_t drop_token;
    uint64_t drops[PL_HOMES_MAX];
    bool dropped[PL_HOMES_MAX];
    /* whether the row is in the home's newest state, and in the previous one */
    bool listed, was_listed;
} hub_audit;

/* A worker as the hub knows it. A worker that comes back with the same name is the same
 * worker. An entry is reused for another name if nothing refers to the old worker any
 * more, but only if the table is full or the key already has as many entries as one key
 * may have. */
typedef struct hub_worker {
    char name[PL_TEXT_MAX], device[PL_TEXT_MAX];
    /* address at which other workers can fetch this worker's updates */
    char offers_at[PL_ADDRESS_MAX];
    uint64_t pid;
    pl_pubkey key; /* the key of the first HELLO under this name */
    /* whether the key is one of the job's own keys, which several workers may share */
    bool own_key;
    bool had_task; /* whether at least one task was leased to this worker */
    /* number of tasks that workers with this key delivered since such a worker last
     * lost a lease */
    int n_results;
    /* the newest token when the worker was put on trial: the loss of an older lease is
     * no failure */
    uint64_t trial_token;
    /* whether this worker itself has delivered a task; and whether it has delivered
     * another task after that, while none of its results was audited */
    bool delivered, proven;
    /* whether an audit was given up because no own worker of this one's kind came */
    bool given_up;
    /* the reason why the worker's messages are refused; "": not fenced */
    char fenced[PL_FENCED_TEXT_MAX];
    pl_peer peer;
    int64_t seen_ms;
    bool left;   /* whether the worker's process has said that it leaves */
    bool drains; /* whether the operator removes the worker (hub_join.c) */
    /* PID of the process that the present one has replaced; 0: none */
    uint64_t replaced;
    int n_failures; /* number of failures in a row (count_failure in hub_trial.c) */
    int n_bars;     /* how often the worker was barred since its last delivery */
    int64_t barred_until_ms;
    /* reason of the last failure, from the worker's report or from the hub */
    char failure[PL_FENCED_TEXT_MAX];
    bool waiting; /* whether a TASK_REQ of the worker waits for an answer */
    /* whether it gets no task, because audits could not check its kind of device */
    bool unchecked;
    /* whether the worker is in the hub's queue, even if it no longer waits */
    bool queued;
    uint64_t request;  /* request number of the open question */
    uint64_t answered; /* request number of the last TASK_REQ that was answered */
    plan_task given;   /* the task of that answer, if given_token is not 0 */
    uint64_t given_token;
    uint64_t given_down; /* link.down at that time */
    int64_t given_phase;
    int given_steps; /* number of inner steps to do; 0: all steps of the phase */
    /* The task whose next phase the worker could do, according to its TASK_REQ.
     * held_token is 0 if there is no such task. */
    plan_task held;
    uint64_t held_token;
    int64_t held_phase;
    int64_t waiting_since_ms;
    char task[PL_MODULE_NAME_MAX]; /* the task that the worker trains; "": none */
    int64_t phase;
    int step;
    double rate; /* tokens per second of inner steps */
    hub_link link;
    uint64_t memory_bytes; /* the process's largest memory so far; 0: not known */
    /* Sums over finished tasks, in seconds. inner_s: inner steps. overhead_s: time in
     * which the trainer did no steps although it had a task. idle_s: time in which the
     * trainer had no task. */
    double inner_s, overhead_s, idle_s;
    double waited_s; /* the part of overhead_s that was spent waiting for data */
    uint64_t n_tasks, n_tokens;
    hub_pace pace[2]; /* of tasks that train, and of tasks that score documents */
    int64_t asked_ms; /* time of the last TASK_REQ */
    int64_t done_ms;  /* time when its last finished task ended */
    hub_withheld withheld;
    /* the path that other workers leave to this one (is_left_to_keeper), or NULL; and
     * time when it last let such a path wait in vain, or 0 */
    const plan_path *left_to_it;
    int64_t missed_ms;
    int n_probes; /* how often it got a task in order to be measured (hub_backup.c) */
    /* What hub_look_at_fleet found: time when the worker will have finished its leases,
     * whether it has one, and time when it will have finished the ready tasks that the
     * hub counts on it for. */
    int64_t free_ms, taken_ms;
    bool has_lease;
    /* the lease at which the worker is, and its task; only if has_lease */
    plan_stage stage;
    const plan_path *at;
    int64_t stage_ms; /* time when it began to fetch or to send */
} hub_worker;

/* The hub's connection to one home. */
typedef struct hub_home {
    pl_socket *socket;
    /* epoch of the home's store; a different epoch means that the home has restarted */
    uint64_t epoch;
    uint64_t n_connects; /* number of connections to the home so far */
    /* A FENCE may have been lost, so all are sent again: the number of paths that are
     * done; -1: none was lost. */
    int fence_next;
    uint64_t hello;   /* request number of the last HELLO */
    uint64_t greeted; /* the home's epoch as that HELLO named it; 0: not known then */
    uint64_t told_epoch; /* the hub's epoch in the newest WELCOME */
    uint64_t sequence;   /* newest commit of the home's store that a STATE_IS named */
    int64_t old_ms;      /* time when an older copy of the store was last reported */
    bool known;          /* whether the home's whole state was applied after WELCOME */
    bool welcome;      /* whether the home answered HELLO and was not away since then */
    int64_t heard_ms;  /* time when the home's last message arrived */
    int64_t back_ms;   /* time of its first message after it was silent */
    int64_t asked_ms;  /* time when the last HELLO or GET_STATE was sent */
    int64_t piece_ms;  /* time when the last piece of a state arrived */
    bool gathers;      /* further pieces of that state are expected */
    int64_t fresh_ms;  /* asked_ms of the newest state that was applied */
    pl_buf state;      /* the pieces of STATE_IS received so far */
    pl_reader records; /* the whole state, which is applied some records at a time */
    /* number of records of the state, and number of records applied so far */
    size_t n_records, n_applied;
    /* number of arms in the state whose definitions have not arrived yet */
    int unknown_arms;
    pl_buf status; /* the home's newest STATUS_IS, JSON */
} hub_home;

typedef struct hub {
    const pl_hub_options *options;
    pl_socket *socket;
    hub_home *homes; /* [PL_HOMES_MAX] the first n_homes are in use */
    int n_homes;
    char homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    hub_worker *workers;
    int n_workers;
    pl_name_table *worker_names;
    int *queue; /* [n_queued] workers that wait, in the order in which they asked */
    int n_queued;
    /* whether an event may have made a task ready since the last search */
    bool stirred;
    int64_t expired_ms; /* time of the last check for expired leases */
    int64_t overdue_ms; /* time of the last call of hub_end_overdue */
    /* [n_slow] leases that may need backups; leases with the most time left come
     * first */
    hub_slow slow[HUB_SLOW_MAX];
    int n_slow;
    int64_t slow_ms;  /* time when the list `slow` was made */
    int64_t fleet_ms; /* time of the last hub_look_at_fleet; 0: there was none */
    int n_able;       /* number of workers that took tasks then */
    plan tasks;
    hub_audit *audits;
    pl_fence *fenced;
    size_t n_audits, n_fenced;
    /* number of verdicts of each kind since this hub started */
    uint64_t n_verdicts[PL_VERDICT_COUNT];
    int64_t known_ms;   /* time when the hub first knew the states of all homes */
    char failure[1200]; /* reason why the job cannot continue; "" while it can */
    pl_status failure_status;
    pl_keypair mates; /* the key pair that workers use to ask each other */
    /* The secret that seals leases, made when this hub started; and that of the hub
     * before, if a home still knows it: it only proves leases in renewals. */
    pl_lease_secret secret, secret_before;
    bool has_before;
    bool stopping;
    int64_t started_ms;
    /* the address at which other processes reach the hub */
    char address[PL_ADDRESS_MAX];
} hub;

/* hub_homes.c */
pl_status hub_open_homes(hub *h);
void hub_close_homes(hub *h);
pl_status hub_tend_homes(hub *h, int64_t now_ms);
pl_status hub_hear_home(hub *h, int home, int64_t now_ms);
pl_status hub_take_home(hub *h, int home, pl_message *m, int64_t now_ms);
/* Tells the homes which leases of the path are valid and how many of its phases count.
 */
pl_status hub_fence(hub *h, plan_path *path);
bool hub_homes_ready(const hub *h);
/* Returns for how long all homes have been ready and none has been silent. */
int64_t hub_reached_ms(const hub *h, int64_t now_ms);
/* Applies some records of the homes' states. Returns true if more records are left. */
bool hub_apply_some(hub *h);
/* Sends a message to a home. Takes ownership of the message's body. Gives the message a
 * request number unless it has one. */
pl_status hub_send_home(hub_home *home, pl_message *m);

/* hub.c */
/* Handles one message. A returned error ends the hub. If the sender made a mistake, it
 * gets an error as its answer, and the function returns OK. */
pl_status hub_take(hub *h, const pl_peer *peer, pl_message *m);
/* Does the work that depends on time, and serves waiting workers. *more becomes true if
 * records of the homes' states are left to apply. */
pl_status hub_tend(hub *h, int64_t now_ms, bool *more);
/* Ends all leases, audits and offers of this worker, and its open question. */
void hub_free_held(hub *h, int worker);
/* Sends an answer; takes ownership of the message's body. */
pl_status hub_answer(hub *h, const pl_peer *peer, pl_message *a);
/* Answers the worker's open question without giving it a task. */
pl_status hub_give_nothing(hub *h, hub_worker *w, pl_message *a);
/* Notes that the worker has stopped training this path's task. A worker may train one
 * task while it sends another. */
void hub_end_task(hub_worker *w, const plan_path *path);

/* hub_join.c */
pl_status hub_hello(hub *h, const pl_peer *peer, pl_message *m, pl_message *a);
/* Notes a message of a worker. ERR_STALE: the worker must send HELLO first. */
pl_status hub_hear_from(hub *h, int worker, const pl_peer *peer);
pl_status hub_leave(hub *h, const pl_peer *peer, pl_message *m);
/* Handles DRAIN: the worker gets no new task. */
pl_status hub_drain(hub *h, pl_message *m);
pl_status hub_let_go(hub *h, int worker);

/* hub_names.c */
/* returns -1 if the name is not known */
int hub_find_worker(const hub *h, const char *name);
/* As above, but -1 if the name belongs to a worker with a different key. A key of zeros
 * is not known. */
int hub_find_maker(const hub *h, const char *name, const pl_pubkey *key);
/* Finds the worker of this name, or adds it. ERR_USAGE: the name is not valid.
 * ERR_NOPERM: the key has too many names. ERR_BUSY: the hub has too many workers. */
pl_status hub_know_worker(hub *h, const char *name, const pl_peer *peer, int *out);
/* Handles the question of a client that has the key of an invitation: adds the client's
 * new key and its name to the list of keys. Such a client may ask nothing else. */
pl_status hub_enrol(hub *h, const pl_peer *peer, pl_message *m, pl_message *a);
pl_status hub_check_owner(const hub_worker *w, const pl_peer *peer);
/* Whether both are the same worker, or have the same key, which is not one of the job's
 * own keys. */
bool hub_same_holder(const hub_worker *a, const hub_worker *b);

/* hub_trial.c */
bool hub_is_on_trial(const hub *h, const hub_worker *w);
/* Whether the worker's key may hold one more task. */
bool hub_may_take(const hub *h, const hub_worker *w);
/* Returns how many tasks and audits this worker has; also backups, or those of all
 * workers with the same key (hub_same_holder). */
enum { HELD_BACKUPS = 1, HELD_BY_KEY = 2 };
int hub_n_held(const hub *h, const hub_worker *w, int also);
/* Notes that the worker lost the lease `token` without a usable result. `hub` points to
 * the hub; it is a void pointer because plan_expire calls this function. */
void hub_note_lost(void *hub, int worker, uint64_t token);
/* Call this before a worker gives tasks back without a failure. If it had one of its
 * leases for longer than such a task usually takes, puts it on trial. */
void hub_note_returned(hub *h, int worker, int64_t now_ms);
/* Puts all workers with this worker's key on trial. */
void hub_put_on_trial(hub *h, int worker);
/* Notes that a task was given back because of a fault of the worker's machine. Bars the
 * worker for a while. */
void hub_note_fault(hub *h, int worker, const char *text);
/* Notes that a task was given back as failed. A failure may bar the worker, drop the
 * state with which the task began, or end the job. */
pl_status hub_note_failure(hub *h, plan_path *path, int worker, pl_status why,
                           const char *text);
/* Notes that the homes have confirmed a task that the worker delivered; `late`: its
 * lease was late (hub_is_late). */
void hub_note_success(hub *h, int worker, bool late);
bool hub_is_barred(const hub_worker *w, int64_t now_ms);
/* Puts holders of late leases on trial. Ends leases of tasks and of audits that their
 * workers have held for far too long. */
void hub_end_overdue(hub *h, int64_t now_ms);
/* Returns how long a lease may be held whose tasks usually take usual_s seconds. */
double hub_overdue_s(const hub *h, double usual_s);

/* hub_audit.c */
bool hub_is_audited(const hub *h, const hub_worker *w);
/* Returns the audit that this worker does under this token, or NULL. */
hub_audit *hub_audit_of(hub *h, uint64_t token, int worker);
void hub_close_audit(hub *h, hub_audit *a, pl_verdict verdict, const char *reason);
/* Ends the lease of an audit without a result. `reason` says why the worker failed;
 * NULL: the lease ended without a failure. */
void hub_audit_release(hub *h, hub_audit *a, const char *reason);
/* These functions apply records about audits that homes have sent. hub_begin_rows and
 * hub_end_rows enclose the records of one state, but not the records of events. */
void hub_begin_rows(hub *h, int home);
pl_status hub_take_audit_record(hub *h, int home, pl_reader *r, bool in_state);
void hub_end_rows(hub *h, int home);
pl_status hub_hear_update(hub *h, pl_message *m);
/* A home answered the question with this number by an error: it lacks the update. */
void hub_hear_no_update(hub *h, uint64_t request);
/* Notes that a home has done what this request asked for. */
void hub_hear_ok(hub *h, int home, uint64_t request);
pl_status hub_tend_audits(hub *h, int64_t now_ms);
void hub_clear_audits(hub *h);
void hub_audit_json(const hub *h, pl_json *out);

/* hub_auditor.c */
/* Whether the job has a worker that audits results of this kind of device. */
bool hub_has_judge(const hub *h, const char *device);
bool hub_lists_device(const hub *h, const char *device);
/* Whether the worker's kind of device may get tasks. */
bool hub_admits_device(const hub *h, const hub_worker *w, int64_t now_ms);
/* Returns an audit that this worker may do and for which no better worker is connected,
 * or NULL. */
hub_audit *hub_find_audit(hub *h, int worker, int64_t now_ms);
/* Gives up an audit for which no judge has come for as long as a task may be held. */
void hub_await_judge(hub *h, hub_audit *a, int64_t now_ms);
void hub_grant_audit(hub *h, hub_audit *a, int worker, int64_t now_ms);

/* hub_verdict.c */
bool hub_audit_is_known(const hub_audit *a);
/* Whether a repetition differs from a part that no second one has shown to be right. */
bool hub_audit_differs(const hub_audit *a);
/* Closes the audit if the repetitions so far give a verdict. Otherwise notes on which
 * kind of device the task must be repeated next. */
pl_status hub_judge(hub *h, hub_audit *a);
pl_status hub_audit_done(hub *h, hub_audit *a, int worker, const pl_message *m);

/* hub_fenced.c */
void hub_mark_fenced(hub *h, hub_worker *w);
/* Fences a worker whose part of an audited result, or whose repetition, is wrong. */
pl_status hub_fence_odd(hub *h, const hub_audit *a, const pl_audit_result *odd);
pl_status hub_take_fenced(hub *h, pl_reader *r);
/* Tells a home of all fences, because it may have missed some. */
pl_status hub_repeat_fenced(const hub *h, hub_home *home);

/* hub_progress.c */
/* Notes what a worker says in a renewal of a lease that it has; `lease` may also be the
 * lease of an audit. */
void hub_note_renewal(hub *h, int worker, const plan_path *path, plan_lease *lease,
                      const pl_msg_renew *q, int64_t now_ms);
/* Lets the holder of a task continue with its next phase, before the DONE of the
 * present one. */
void hub_extend(hub *h, plan_task task, int64_t now_ms);
/* Returns the rate, in tokens per second, or 0 if the rate is impossible. */
double hub_possible_rate(double rate);
/* Returns the bytes that a worker reports, or the most that are possible. */
uint64_t hub_possible_bytes(uint64_t bytes);
/* Returns what the worker does: "fetching", "training", "sending", "waiting", or
 * "stalled". Call hub_look_at_fleet before. */
const char *hub_doing(const hub_worker *w, int64_t now_ms);
/* Returns why the worker gets no task or is stalled; "": neither is so. */
const char *hub_reason(const hub *h, const hub_worker *w, int64_t now_ms,
                       char text[HUB_WITHHELD_TEXT_MAX]);

/* hub_pace.c */
/* Returns the bytes that the holder of a lease has fetched since the grant, as it has
 * reported; 0: not known. */
uint64_t hub_fetched(const hub_worker *w, const plan_lease *l);
/* Returns the usual seconds of a task of the arm, from grant to confirmation: a median
 * over workers; 0: not known. */
double hub_usual_s(const plan_arm *arm);
/* Within this time each worker that reaches the hub has renewed its leases. */
enum { HUB_RENEWED_MS = 20000 };
/* Returns how long a lease of this arm lives without a renewal, if its holder has had
 * it for held_ms. */
int hub_ttl_ms(const hub *h, const plan_arm *arm, int64_t held_ms);
/* Returns the seconds for which a lease was held for a phase, and in *n_tasks the usual
 * times that this may take. While the phase waits for versions that others make, and
 * that it mixes in, the holder loses no time. */
double hub_held_s(const plan_arm *arm, const plan_path *path, const plan_lease *l,
                  int64_t phase, int64_t now_ms, double *n_tasks);
/* Whether a lease of the path was granted for this phase so long ago that, whatever its
 * holder reports, a different worker should do the task. Never if no usual time is
 * known. */
bool hub_is_late(const plan_arm *arm, const plan_path *path, const plan_lease *l,
                 int64_t phase, int64_t now_ms);
/* Notes that a worker has delivered a phase: its success, the time that the phase took,
 * and the speed of the worker and of a second holder, which is stopped. */
void hub_note_settled(hub *h, plan_task task, const plan_settled *s, int64_t now_ms);
/* Notes the speed of a worker from a phase that it has finished at `now_ms` under this
 * lease. The time of the task runs from the grant of the phase's lease, or from the end
 * of the worker's previous task if that was later: until then the worker was at that
 * task. The time is not known if the lease was granted before the hub restarted. */
void hub_note_done(hub *h, hub_worker *w, const plan_path *path, int64_t phase,
                   const plan_lease *lease, double inner_s, int64_t now_ms);
/* Notes the speed of a finished task: `total_s` seconds by the hub's clock, of which
 * `inner_s`, as the worker says, were inner steps. */
void hub_note_pace(const hub *h, hub_worker *w, int arm, double inner_s, double total_s,
                   int64_t now_ms);
/* Notes what the worker needs at least for the task of a lease that is taken from it.
 */
void hub_note_taken(const hub *h, int arm, const plan_path *path, const plan_lease *l,
                    int64_t now_ms);
/* Returns how many seconds of the fetch of a task its holder will not need for the
 * path's next phase. */
double hub_once_s(const hub *h, const plan_arm *arm, const plan_lease *l);
/* Returns the seconds that this worker needs for a task of the arm; 0: not measured. */
double hub_task_s(const hub_worker *w, const pl_arm *arm);
/* Returns the seconds until the lease's task will be done. A task that is t seconds
 * late is expected to need t seconds more. */
double hub_left_s(const hub *h, const plan_arm *arm, const plan_path *path,
                  const plan_lease *l, int64_t now_ms);
/* Finds out when all workers will be free, and when they will have finished the tasks
 * that are ready. */
void hub_look_at_fleet(hub *h, int64_t now_ms);
/* Call this when the path was granted to the worker: if it was left to it, the time
 * until then counts as the worker's. */
void hub_note_left(const hub_worker *w, const plan_arm *arm, plan_path *path);
/* Whether the next phase of a task that the worker holds fits it. */
bool hub_fits_next(hub *h, int worker, plan_task held, int64_t now_ms);
/* plan.fits: whether the worker may have this ready task. `context` points to the hub.
 */
bool hub_fits_new(void *context, int worker, plan_task task, int64_t now_ms);
/* Writes why the worker gets no task; "": there is no reason. Returns `text`. */
const char *hub_withheld_text(const hub *h, const hub_worker *w,
                              char text[HUB_WITHHELD_TEXT_MAX]);

/* hub_backup.c */
/* Finds a task that another worker holds and that this worker should do, too
 * (hub_backup.c). Returns false if there is no such task. To save time, the list of
 * slow leases is up to LOOK_MS old. */
bool hub_find_backup(hub *h, int worker, int64_t now_ms, plan_task *out);
/* Makes room for the worker that hub_find_backup found for the task: ends a late backup
 * or, if the method allows one holder, the lease. */
void hub_end_late(hub *h, plan_task task, int64_t now_ms);
/* Call this before plan_hear. If the news ends a phase, credits the worker that did it,
 * and tells a second holder of the phase to stop. */
pl_status hub_settle(hub *h, plan_task task, const plan_news *news, int64_t now_ms);

/* hub_status.c */
/* Answers LOG with lines of the file to which this process writes its log. */
pl_status hub_log_lines(pl_message *m, pl_message *a);
bool hub_is_away(const hub *h, const hub_worker *w, int64_t now_ms);
void hub_status_json(hub *h, pl_buf *out);
