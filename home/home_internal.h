/* Private to the folder home: the home's state, and the functions that the files of
 * this folder share. home.c explains how the files work together. */
#pragma once
#include "home/home.h"

/* The norms of the newest contributions to a module's versions, in a ring. Their median
 * is the usual norm: it is the same after a restart, and no single worker can change it
 * much. */
enum { HOME_NORMS_MAX = 32 };
typedef struct home_norms {
    double ring[HOME_NORMS_MAX];
    size_t n_noted;
} home_norms;

/* The phases that a holder has contributed: `next` is one more than the newest of them,
 * which `round` has, and bit k of `newest` tells whether phase next - 1 - k is one. A
 * phase older than these bits counts as absent. */
typedef struct home_phase_set {
    int64_t next, round;
    uint64_t newest;
} home_phase_set;

/* A module: its newest version (the head), and the contributors to later rounds. */
typedef struct home_module {
    char name[PL_MODULE_NAME_MAX];
    bool exists; /* whether the store has version 0 */
    uint64_t version;
    pl_hash params;
    double norm;        /* norm of the update that made this (the newest) version */
    double params_norm; /* norm of its parameters; 0 or NAN: not known */
    double first_norm;  /* norm of version 0; 0: home_check_start has not read it */
    home_norms norms;
    size_t n_params;
    /* rounds `version` to `version` + of->window - 1 are open: they get updates */
    const pl_contract *of;
    /* [window] number of pending contributions (accepted, not merged) of each open
     * round; the index is the round modulo window */
    int *n_pending;
    /* [window, n_holders] whether a holder has contributed to an open round */
    bool *pending;
    /* [n_holders] if the round does not tell which phase an update belongs to (rounds
     * are numbered by arrival, or need only a quorum): for each holder, the phases of
     * its contributions, merged or pending; else NULL; see home_phases */
    home_phase_set *phases;
    /* time when the open round reached the quorum; 0: not reached yet */
    int64_t quorum_ms;
    bool noted; /* whether the list home.due has the module */
    /* noloco: decided meetings about which a worker may still ask */
    struct home_meeting *meetings;
    size_t n_meetings;
} home_module;

/* The decision whether a pair of holders meets in a round (noloco with a deadline). */
typedef struct home_meeting {
    int64_t round;
    int first;  /* the lower of the two holders' indices, path * R + replica */
    bool split; /* false: the pair meets */
} home_meeting;

typedef struct home_path {
    pl_path_state state; /* as the store has it, or will have it after the commit */
    /* The newest FENCE of a hub: the highest token by then, and the tokens that are
     * valid (0: none). Results under any other token are refused. */
    uint64_t fence, valid[2];
    /* number of finished phases, as the hub knows it from the path's home */
    int64_t confirmed;
    /* bytes for which senders under the newest lease got URLs (home_upload.c) */
    uint64_t signed_token, signed_bytes;
} home_path;

typedef struct home_arm {
    pl_arm arm;
    pl_hash blob;
    pl_topology *topology;
    pl_contract *contracts; /* [M] */
    home_module *modules;   /* [M] one per module of the topology */
    home_path *paths; /* [P*R] P paths, R replicas each; index path * R + replica */
} home_arm;

/* A module with a round that may be ready to be merged. The home keeps a list of these
 * modules. An arm can have very many modules (about one per path and slot), so a search
 * of all modules after each message would be slow. */
typedef struct home_due {
    int arm, module;
} home_due;

/* An answer that waits until the changes of its group of messages are committed, or a
 * message that waits while the home is still. */
typedef struct home_letter {
    pl_peer peer;
    pl_message message;
} home_letter;

/* A question for room that waits, and the queue of these questions (home_upload.c). */
typedef struct home_ticket {
    pl_peer peer;
    uint64_t request;
    pl_hash hash;
    uint64_t total;
    staging_owner owner; /* of the upload */
    int64_t asked_ms;    /* when the client last asked */
    int64_t begun_ms;    /* when it first asked */
} home_ticket;
typedef struct home_room {
    home_ticket *tickets; /* those of own workers first, the oldest first */
    size_t n;
    int64_t evicted_ms; /* when an own worker last got room from a key */
} home_room;

/* The time in which the home writes nothing (home_still.c). */
typedef struct home_still {
    int64_t until_ms; /* 0: the home is not still */
    /* messages that wait until then, in the order in which they arrived */
    home_letter *waiting;
    int n_waiting;
} home_still;

/* Counts since this process began. They are used only for the status. */
enum { HOME_RESULTS = PL_SUBMIT_OTHER + 1 };
typedef struct home_counts {
    int64_t started_ms, disk_ms; /* disk_ms: when disk sizes were last measured */
    uint64_t results[HOME_RESULTS], n_versions, n_by_quorum, store_bytes, free_bytes;
    uint64_t n_thinned;  /* versions whose data were dropped because of the quota */
    double merge_s;      /* seconds spent on merges and their commits */
    char rejection[256]; /* the reason of the last rejection */
    uint64_t audits[PL_VERDICT_COUNT]; /* number of closed audits with each verdict */
} home_counts;

#define HOME_KEYS_REF "sys/keys-changed"

typedef struct home {
    const pl_home_options *options;
    pl_store *store;
    pl_socket *socket;
    uint64_t epoch;
    home_arm *arms;
    int n_arms;
    home_due *due;
    size_t n_due;
    bool unmerged;   /* whether the last turn had no time for all complete rounds */
    staging uploads; /* uploaded blobs that no record names yet */
    home_room room;  /* uploads that wait for room */
    /* the transaction of the current group; NULL while there is nothing to write */
    pl_txn *txn;
    /* tags that this transaction writes, whose versions the quota spares */
    pl_snapshot *new_tags;
    size_t n_new_tags;
    home_letter *answers;
    size_t n_answers;
    /* the peer that last asked for the state (GET_STATE); hub.len 0: none */
    pl_peer hub;
    pl_buf state;             /* the snapshot that the hub reads in pieces */
    uint64_t hub_epoch;       /* the highest that it gave to a hub, or heard from one */
    uint64_t number, n_homes; /* this home's number; of homes; 0: no hub has said it */
    int64_t keys_changed_s;   /* newest change of the list of keys, of HOME_KEYS_REF */
    home_counts counts;
    pl_audit *audits; /* rows of audits that are not closed */
    pl_draw draw;     /* draws the tasks that are audited */
    pl_fence *fenced;
    size_t n_audits, n_fenced;
    /* the secrets of the newest hub and of the one before, good until old_until_ms */
    pl_lease_secret secrets[2];
    int n_secrets;
    int64_t old_until_ms;
    home_still still;
    bool stopping;
    bool broken; /* whether a commit failed, so that memory and disk differ */
    bool tidies; /* whether this process compresses old versions while idle */
} home;

/* home.c */
/* A search for an accepted update. The caller sets round, path, replica and module; the
 * update with its work and its worker is the result. */
typedef struct home_update {
    int64_t round, path, replica;
    const char *module;
    pl_contribution found;
} home_update;
/* Searches for a holder's update among the pending updates and in the version that its
 * round made. If this group of messages may have brought it, commits the group first:
 * it is in the store only after a commit. ERR_NOT_FOUND: the update is in neither. */
pl_status home_find_taken(home *h, const home_arm *arm, const home_module *m,
                          home_update *search);
/* Begins the transaction of the group, unless it has begun already. */
pl_status home_write(home *h);
/* Queues an answer until the group's commit. Owns the body of `message`. */
void home_answer_later(home *h, const pl_peer *peer, pl_message *message);
/* Sends an answer; ignores a failure: the peer then repeats its message. */
pl_status home_answer_now(home *h, const pl_peer *peer, pl_message *message);
/* Handles one message of a group. A returned error ends the home. If the peer made a
 * mistake, it gets an error as its answer, and the function returns OK. */
pl_status home_take(home *h, const pl_peer *peer, pl_message *m);
pl_status home_end_group(home *h); /* commits the group, then sends its answers */
home_arm *home_find_arm(home *h, const char *name, size_t len);
/* Finds a module by its name, "ARM/L1.E0". ERR_NOT_FOUND: there is no such module. */
pl_status home_find_module(home *h, const char *name, home_arm **arm, int *module);
pl_status home_find_path(home *h, const char *name, home_arm **arm, int *index);

/* home_state.c */
int home_n_tasks(const home_arm *arm);
/* Returns a pointer to the flag that tells whether a holder has contributed to the
 * round. The round must be open. */
bool *home_flag(const home_arm *arm, const home_module *m, int64_t round, int index);
/* Returns a pointer to the number of pending contributions of an open round. */
int *home_count(const home_module *m, int64_t round);
/* Returns a pointer to the holder's entry in `phases`; NULL if the module has none. */
home_phase_set *home_phases(const home_arm *arm, const home_module *m, int index);
bool home_phase_is_in(const home_phase_set *set, int64_t phase);
/* Adds this contribution's phase to the contributor's entry in `phases`. */
void home_note_phase(const home_arm *arm, home_module *m, const pl_contribution *c);
/* Reads arms, heads, pending updates and paths from the store. */
pl_status home_load(home *h);
void home_unload(home *h);
/* Returns whether a holder's contribution to the round was accepted: the round was
 * merged, or the contribution is pending. */
bool home_has_update(const home_arm *arm, const home_module *m, int64_t round,
                     int index);
/* Reads a blob of the store. The caller frees *owned with pl_free after its last use of
 * the bytes. `what` names the bytes in an error. */
pl_status home_read_blob(const home *h, const pl_hash *blob, const char *what,
                         pl_bytes *bytes, void **owned);
/* Gets the length of a blob that was uploaded or stored. */
pl_status home_blob_bytes(const home *h, const pl_hash *blob, uint64_t *bytes);
/* Reads a blob as home_read_blob, but an upload with this hash comes first; its bytes,
 * for which *owned is NULL, may have a different hash: nothing has checked it. */
pl_status home_lend_blob(const home *h, const pl_hash *blob, const char *what,
                         pl_bytes *bytes, void **owned);
/* Reads an arm from the store or an upload, and checks it; h->arms stays. */
pl_status home_read_arm(home *h, const char *object_name, const pl_hash *blob,
                        home_arm *out);
void home_clear_arm(home_arm *arm);
/* Adds the arm to h->arms, and loads its modules and paths. Takes ownership of the
 * contents of `arm`, even if the function fails. */
pl_status home_install_arm(home *h, home_arm *arm);
void home_snapshot(home *h, pl_buf *out);
/* If the path has an open audit, its record is that of the audit's state. */
void home_tell_path(home *h, const home_path *path);
/* sends an event to the hub; takes ownership of its body */
void home_tell(home *h, pl_message *event);

/* home_still.c */
/* Answers HOLD: makes the home still for some time, or ends this time. */
pl_status home_hold(home *h, pl_message *m, pl_message *answer);
bool home_is_still(const home *h);
/* Keeps a message that would write while the home is still, and returns true. */
bool home_waits(home *h, const pl_peer *peer, const pl_message *m);
/* Moves the oldest waiting message to `out`. False: none, or the home is still. */
bool home_next_waiting(home *h, pl_peer *peer, pl_message *out);
void home_free_waiting(home *h);

/* home_quota.c */
/* Sets the store's quota. If the store is larger, drops data of old versions. */
pl_status home_open_quota(home *h);
/* Notes that the open transaction will write this object. If the object is a tag, the
 * quota keeps the versions that the tag names. ERR_NOT_FOUND: the tag names a version
 * whose data are gone. ERR_DAMAGED: the bytes are not a tag. */
pl_status home_note_object(home *h, const char *name, const pl_hash *blob);
void home_forget_tags(home *h);
/* Commits the open transaction, if there is one. Before the commit, drops the data of
 * old versions if the quota requires this. If the commit fails, memory already shows
 * changes that the disk lost: marks the home broken, so that it ends and restarts from
 * disk. */
pl_status home_commit(home *h);

/* home_status.c */
void home_status_json(home *h, pl_buf *out);

/* home_lease.c */
typedef struct home_lease {
    pl_lease lease;
    const pl_lease_secret *secret; /* which sealed it; every home of the job has it */
    pl_lease_secret key;           /* the task key */
    home_arm *arm;
    int index;     /* path * R + replica, for R replicas per path */
    bool is_own;   /* whether its key is one of the job's own */
    bool is_ended; /* whether the hub no longer counts the lease as valid */
} home_lease;
#define PL_LEASE_ENDED "this lease has ended: the task was given to another worker"
/* ERR_NOT_FOUND: the module or path belongs to another home. Every home has all arms
 * and fences, so a lease alone does not show where its results belong. */
pl_status home_check_here(const home *h, const char *name);
/* Reads a lease that a hub has sealed with one of the first n_secrets secrets, valid or
 * not, and finds its task key. ERR_BUSY, ERR_STALE: as below. */
pl_status home_open_seal(const home *h, int n_secrets, pl_bytes sealed,
                         home_lease *out);
/* Checks and reads a sealed lease. After this call, searches for uploads find only
 * those of this lease and of the job. ERR_BUSY: no hub has said HELLO yet, or the hub
 * has not told this home of the lease yet. ERR_STALE: the bytes are not a lease of this
 * job, or its task does not exist. ERR_NOT_FOUND: this home does not have the lease's
 * arm. ERR_NOPERM: the lease is another worker's, or its worker is fenced. */
pl_status home_open_lease(home *h, const pl_peer *peer, pl_bytes sealed,
                          home_lease *out);
/* ERR_STALE: the worker of the lease has not sealed this message (pl_lease_sign). */
pl_status home_check_seal(const home_lease *l, const pl_hash *wanted,
                          const uint8_t *seal);
/* Whether the hub counts the token as that of a valid lease of the path. */
bool home_is_valid(const home_path *path, uint64_t token);
/* Whether `receipt` is a home's receipt for the update of this lease's holder. */
bool home_is_receipt(const home *h, const char *module, int64_t round,
                     const home_lease *by, const pl_hash *receipt);
/* Checks reported work. ERR_DATA, ERR_NUMERIC: it is impossible under this lease. */
pl_status home_check_work(const home_lease *l, const pl_work *w);
/* Returns how many bytes an update of the module has at most. */
uint64_t home_update_bound(const home_arm *arm, int module);

/* home_upload.c */
pl_status home_put_blob(home *h, const pl_peer *peer, pl_message *m,
                        pl_message *answer);
pl_status home_grant_room(home *h);
/* Call this after `ms` in which the home read nothing: uploads, and questions for room,
 * do not age in this time. */
void home_stand_still(home *h, int64_t ms);
/* Lets the store drop what the sender of this upload has written into the engine. */
void home_forget_objects(void *context, const staging_blob *b);
/* Begins the group's transaction if needed, and moves a staged upload into it. Adds
 * nothing if the store already has the blob. */
pl_status home_adopt_blob(home *h, const pl_hash *hash);

/* home_gate.c */
void home_note_norm(home_module *m, double norm);
/* Refuses an update whose norm is far above the usual norm of the module's updates. */
pl_status home_check_norm(const home *h, const home_arm *arm, const home_module *m,
                          const pl_submit_message *s);
/* The same for the second vector of an update (noloco): version 0 minus the start. */
pl_status home_check_start(const home *h, home_module *m, double norm);
/* Refuses a state of path `index` with a wrong size, or with values that training from
 * the path's present state cannot produce (ERR_DATA). It is an upload, or stored. */
pl_status home_check_state(home *h, const home_arm *arm, int index,
                           const pl_path_state *state);

/* home_submit.c */
pl_status home_submit(home *h, const pl_peer *peer, pl_message *m);
pl_status home_submit_path(home *h, const pl_peer *peer, pl_message *m);
pl_status home_end_phase(home *h, home_arm *arm, int index, const pl_path_state *state);

/* home_meet.c */
pl_status home_meet(home *h, const pl_peer *peer, pl_message *m, pl_message *answer);
/* Callback for each ref below PL_MEET_REFS. The arms must be loaded before. */
pl_status home_load_meeting(void *context, const char *name, const char *target);
/* Returns whether holder `index` was split from its mate in the round. */
bool home_was_split(const home_arm *arm, int module, int64_t round, int index);
/* Drops the records of meetings about which no worker can ask any more. Call this
 * function in the group that makes version round + 1. */
pl_status home_forget_meetings(home *h, home_module *m, int64_t round);

/* home_audit.c */
/* Makes the secret of this process's draws and publishes its hash. home_end_draws, at
 * the end of the process, publishes the secret. */
pl_status home_begin_draws(home *h);
pl_status home_end_draws(home *h);
bool home_audits(const home *h, const home_arm *arm);
/* Writes the row of an audit. The path stays in its phase until the verdict. */
pl_status home_open_audit(home *h, const home_lease *under, const pl_path_state *state);
/* Returns the path's state if its open audit agrees; NULL: it has no open audit. */
const pl_path_state *home_in_audit(const home *h, const char *path);
/* Unless the phase counts, drops the updates of a path from this phase on whose leases
 * are not newer than `token`, and notes this, so that an older copy of the store drops
 * them again. */
pl_status home_drop_results(home *h, const home_arm *arm, int index, int64_t phase,
                            uint64_t token);
pl_status home_put_audit(home *h, pl_message *m);
pl_status home_fence_worker(home *h, pl_message *m);
/* appends the records of audits and fenced workers to the state for the hub */
void home_audit_records(const home *h, pl_buf *out);
/* Callbacks for each ref whose name begins with PL_AUDIT_REFS, PL_DROPPED_REFS or
 * PL_FENCED_REFS. Pending updates must be loaded before. */
pl_status home_load_audit(void *context, const char *name, const char *target);
pl_status home_load_dropped(void *context, const char *name, const char *target);
pl_status home_load_fenced(void *context, const char *name, const char *target);

/* home_merge.c */
/* Call this function when an update of the round has arrived. If the round may now be
 * complete, the module is noted for home_merge_ready. */
void home_note_round(home *h, const home_arm *arm, home_module *m, int64_t round);
/* Merges complete rounds for about a second. Sets h->unmerged if some are left. */
pl_status home_merge_ready(home *h);
