/* Private to the home: its state and the parts of its loop. */
#ifndef PL_HOME_HOME_INTERNAL_H
#define PL_HOME_HOME_INTERNAL_H
#include "outer/outer.h"
#include "home/home.h"
#include "net/net.h"
#include "home/norm_gate.h"
#include "home/staging.h"
#include "store/store.h"

/* What the home knows of one module: its head, and who has contributed to the
 * phase that follows it. */
typedef struct home_module {
    char name[PL_MODULE_NAME_MAX];
    bool exists; /* version 0 is there */
    uint64_t version;
    pl_hash params;
    double norm; /* of the update that made the head */
    norm_gate usual;
    size_t n_params;
    int n_holders;      /* paths through it times replicas */
    int n_contributors; /* that make a round whole */
    int window;         /* rounds under way at most: version .. version + window - 1 */
    int *n_pending;     /* [window] by round modulo window */
    bool *pending;      /* [window, n_holders]: see home_flag */
    uint64_t *cursor;   /* [n_holders] delayed-nesterov: samples merged or pending; or
                           NULL: see home_samples */
    uint64_t *counted;  /* the same, of a module whose rounds need a quorum only */
    int quorum;         /* contributors that a round needs */
    int64_t quorum_ms;  /* since when they are there, in the round that is open; 0 */
    bool noted;         /* stands in home.whole */
    struct home_meeting *meetings; /* of rounds that somebody may ask about */
    size_t n_meetings;
} home_module;

/* What was decided of a pair (noloco with a deadline). */
typedef struct home_meeting {
    int64_t round;
    int first; /* the lower of the two: path * R + replica */
    bool split;
} home_meeting;

typedef struct home_path {
    char name[PL_MODULE_NAME_MAX];
    int64_t phase; /* finished */
    uint64_t n_tokens;
    double loss, seconds;
    pl_hash state;            /* blob of what it carries; none: nothing */
    char worker[PL_TEXT_MAX]; /* who made it; "": nobody */
    uint64_t fence;           /* submissions with a lower token are refused */
} home_path;

typedef struct home_arm {
    pl_arm arm;
    pl_hash blob;
    pl_topology *topology;
    home_module *modules; /* [M] */
    home_path *paths;     /* [P*R] */
} home_arm;

/* A module of which some round has what it needs. All modules are as many as paths
 * have slots; to look through them after each message would cost their square. */
typedef struct home_whole {
    int arm, module;
} home_whole;

typedef struct home_audit home_audit;

/* An answer that waits for the commit of its group. */
typedef struct home_answer {
    pl_peer peer;
    pl_message message;
} home_answer;

/* Who owns a name that has changed its home, as far as this home knows (home_places.c).
 */
typedef struct home_place {
    char name[PL_MODULE_NAME_MAX];
    int home; /* HOME_HERE: this one */
    uint64_t stamp;
} home_place;
enum { HOME_HERE = -1 };

/* What changes this name waits, so that its rows stand still (home_moving.c). */
typedef struct home_hold {
    char name[PL_MODULE_NAME_MAX];
    int64_t until_ms;
} home_hold;

typedef struct home_moving {
    home_place *places;
    int n_places, cap_places;
    pl_name_table *index; /* name -> places */
    /* What clients go by, and what new names are placed by; n 0: no table was made. */
    pl_places table, next;
    int self;                                     /* this home's number in them */
    char addresses[PL_HOMES_MAX][PL_ADDRESS_MAX]; /* as the hub says; "" not known */
    home_hold *holds;
    int n_holds;
    int64_t still_until_ms;       /* all that would be written waits */
    struct home_waiting *waiting; /* messages that wait for a hold, in their order */
    int n_waiting;
    pl_buf listing; /* being read in pieces */
} home_moving;

/* Since this process began; for show. */
enum { HOME_RESULTS = PL_SUBMIT_OTHER + 1 };
typedef struct home_counts {
    int64_t started_ms, disk_ms; /* the latter: of the two sizes below */
    uint64_t results[HOME_RESULTS], n_versions, n_by_quorum, store_bytes, free_bytes;
    double merge_s;                    /* making versions, commits included */
    char rejection[256];               /* the last one's reason */
    uint64_t audits[PL_VERDICT_COUNT]; /* closed, by verdict */
} home_counts;

typedef struct home {
    const pl_home_options *options;
    pl_store *store;
    pl_socket *socket;
    uint64_t epoch;
    home_arm *arms;
    int n_arms;
    home_whole *whole;
    size_t n_whole;
    staging uploads; /* blobs that no record names yet */
    pl_txn *txn;     /* of the current group; NULL if nothing is to be written */
    home_answer *answers;
    size_t n_answers, cap_answers;
    pl_peer hub;  /* whoever asked for the state last; len 0: none */
    pl_buf state; /* snapshot being read by the hub */
    uint64_t hub_epoch;
    home_counts counts;
    home_audit *audits; /* open ones */
    struct home_fenced *fenced;
    size_t n_audits, n_fenced;
    bool has_secret; /* a hub has spoken to this store */
    pl_lease_secret secret;
    home_moving moving;
    bool stopping;
    bool broken; /* a commit failed: what is in memory is not what is on disk */
    bool tidies; /* codes old versions while nothing else is to do */
} home;

/* home.c */
/* An update that was accepted: what is looked for, and what was found. */
typedef struct home_update {
    int64_t round, path, replica;
    const char *module;
    pl_hash found;
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    uint64_t seed;
    float likeness[PL_CONTRIBUTION_CELLS];
} home_update;
/* Pending, or in one of the newest versions, as the store has it. ERR_NOT_FOUND. */
pl_status home_find_update(home *h, home_update *search);
pl_status home_write(home *h); /* the group's transaction exists after this */
/* Queues an answer until the group is durable; takes body of `message`. */
void home_answer_later(home *h, const pl_peer *peer, pl_message *message);
/* One message of a group. An error ends the home: what is the asker's fault is
 * answered.
 */
pl_status home_take(home *h, const pl_peer *peer, const pl_message *m);
pl_status home_end_group(home *h); /* commit, then answer */
home_arm *home_find_arm(home *h, const char *name, size_t len);
/* "ARM/L1.E0" -> module; ERR_NOT_FOUND. */
pl_status home_find_module(home *h, const char *name, home_arm **arm, int *module);
/* "ARM/p01.r0" -> path; ERR_NOT_FOUND. */
pl_status home_find_path(home *h, const char *name, home_arm **arm, int *index);

/* home_state.c */
int home_n_tasks(const home_arm *arm);
/* Whether (path, replica) has contributed to the round; the round is in the window. */
bool *home_flag(const home_arm *arm, const home_module *m, int64_t round, int index);
int *home_count(const home_module *m, int64_t round);
/* End of the samples that (path, replica) has contributed; NULL where the module does
 * not count them. */
uint64_t *home_samples(const home_arm *arm, const home_module *m, int index);
/* The module's cursor moves behind the phase of this contribution. */
void home_note_samples(const home_arm *arm, home_module *m, const pl_contribution *c);
pl_status home_load(home *h); /* arms, heads, pending, paths from the store */
void home_unload(home *h);
/* Decoded and checked from the store or from an upload; not yet known to the home. */
pl_status home_read_arm(home *h, const char *object_name, const pl_hash *blob,
                        home_arm *out);
void home_clear_arm(home_arm *arm);
/* Takes what `arm` holds, also when it fails. */
pl_status home_install_arm(home *h, home_arm *arm);
void home_snapshot(home *h, pl_buf *out);
void home_tell_version(home *h, const home_module *module);
/* `token`: that the last phase arrived under; 0: not known. */
void home_tell_path(home *h, const home_path *path, uint64_t token);
void home_tell_arm(home *h, const home_arm *arm);
void home_tell(home *h, pl_message *event); /* takes its body */

/* Of a module that goes or comes: what the home knows of it, from the store anew. */
pl_status home_reload_module(home *h, home_arm *arm, int index);
pl_status home_reload_path(home *h, home_arm *arm, int index);

/* home_places.c */
#define PLACE_REFS     "at/"
#define TABLE_REF      "sys/places"
#define NEXT_TABLE_REF "sys/places-next"
pl_status home_load_places(home *h);
void home_unload_places(home *h);
const home_place *home_find_place(const home *h, const char *name); /* or NULL */
/* Remembered at once, durable with the group. */
pl_status home_note_place(home *h, const char *name, int home_number, uint64_t stamp);
/* Whether a name is not this home's to serve, and whose it is. */
bool home_is_elsewhere(home *h, const char *name, int *whose);
/* The name that a message is about; false: about none that moves. */
bool home_name_of(const pl_message *m, char out[PL_MODULE_NAME_MAX]);
void home_moved_answer(home *h, const char *name, int whose, pl_message *answer);
pl_status home_put_places(home *h, pl_reader *r, pl_message *answer);
pl_status home_get_places(home *h, pl_message *answer);
void home_note_addresses(home *h, pl_reader *r);
void home_tell_places(home *h, pl_buf *state); /* records of the snapshot */

/* home_moving.c */
pl_status home_list(home *h, pl_reader *r, pl_message *answer);
pl_status home_get_row(home *h, pl_reader *r, pl_message *answer);
pl_status home_put_rows(home *h, const pl_message *m, pl_reader *r, pl_message *answer);
pl_status home_hold_name(home *h, pl_reader *r, pl_message *answer);
pl_status home_hand_over(home *h, pl_reader *r, pl_message *answer);
pl_status home_adopt_name(home *h, pl_reader *r, pl_message *answer);
/* Takes a message that changes a held name, or, while the home stands still, any that
 * would be written; handled when the hold is over. `name` may be NULL. */
bool home_waits(home *h, const pl_peer *peer, const pl_message *m, const char *name);
bool home_is_still(const home *h);
/* The messages whose holds are over, one call each; false: none. */
bool home_next_waiting(home *h, pl_peer *peer, pl_message *out);
void home_free_moving(home *h);

/* home_status.c */
void home_status_json(home *h, pl_buf *out);

/* home_lease.c */
#define SECRET_REF "sys/lease-secret"
typedef struct home_lease {
    pl_lease lease;
    home_arm *arm;
    int index; /* path * R + replica */
} home_lease;
/* What a message says was done under a lease. */
typedef struct home_work {
    uint64_t first_sample, n_samples, n_tokens;
    double loss, seconds;
} home_work;
pl_status home_load_secret(home *h);
pl_status home_agree_secret(home *h, pl_reader *hello);
/* Uploads are then looked for among those of this lease. ERR_STALE: not a lease of this
 * job; ERR_NOPERM: another's, or its holder is fenced. */
pl_status home_open_lease(home *h, const pl_peer *peer, const uint8_t *bytes,
                          size_t len, home_lease *out);
pl_status home_get_lease(home *h, const pl_peer *peer, pl_reader *r, home_lease *out);
/* ERR_DATA, ERR_NUMERIC: no worker can have done that under this lease. */
pl_status home_check_work(const home_lease *l, const home_work *w);
/* Most bytes of uploads that its task may need at a time. */
uint64_t home_upload_share(const home_lease *l);

/* home_upload.c */
pl_status home_put_blob(home *h, const pl_peer *peer, const pl_message *m,
                        pl_message *answer);
/* The staged upload (or a blob that the store has) becomes part of the group. */
pl_status home_adopt_blob(home *h, const pl_hash *hash);

/* home_submit.c */
pl_status home_submit(home *h, const pl_peer *peer, const pl_message *m);
pl_status home_submit_path(home *h, const pl_peer *peer, const pl_message *m);

/* home_meet.c */
pl_status home_meet(home *h, const pl_peer *peer, pl_reader *r, pl_message *answer);
/* Callback over the refs below MEET_REFS, whose arms are known. */
#define MEET_REFS "meet/"
pl_status home_load_meeting(void *context, const char *name, const char *target);
bool home_was_split(const home_arm *arm, int module, int64_t round, int index);
/* In the group that makes version round + 1: what nobody asks any more goes. */
pl_status home_forget_meetings(home *h, home_module *m, int64_t round);

/* home_audit.c */
/* In the group that ends the path's phase: if the task is drawn, it gets a row. */
/* Writes nothing; out->n 0: it is not drawn. */
pl_status home_draw_audit(home *h, const home_arm *arm, int index,
                          const pl_path_state *after, pl_audit *out);
pl_status home_open_audit(home *h, const pl_audit *audit); /* drawn, or n 0 */
/* Of an update that is about to be accepted, if its task is drawn. Sums are left out:
 * they are nobody's. */
pl_status home_note_likeness(home *h, const home_arm *arm, int module, int64_t round,
                             const pl_hash *update, pl_contribution *c);
pl_status home_put_audit(home *h, pl_reader *r, pl_message *answer);
pl_status home_fence_worker(home *h, pl_reader *r, pl_message *answer);
/* ERR_NOPERM with the reason: nothing is taken from the holder. */
pl_status home_check_fenced(const home *h, const pl_lease *lease);
void home_audit_records(const home *h, pl_buf *out); /* for the hub */
/* Callbacks over the refs below PL_AUDIT_REFS and PL_FENCED_REFS. */
pl_status home_load_audit(void *context, const char *name, const char *target);
pl_status home_load_fenced(void *context, const char *name, const char *target);
void home_forget_audits(home *h);

/* home_merge.c */
/* An update of the round is in: if it is the last one, home_merge_ready merges. */
void home_note_round(home *h, const home_arm *arm, home_module *m, int64_t round);
pl_status home_merge_ready(home *h); /* every module whose contributors are all in */

#endif
