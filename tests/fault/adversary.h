/* The adversary: a program that attacks a running job with messages that a stranger,
 * the holder of an invitation, or an enrolled worker can send (tests/adversary.sh).
 *
 * It draws acts from one table (adversary.c). An act is a function that sends something
 * wrong and returns; messages and answers are counted for each act. Every act would do
 * harm if one defence were missing.
 *
 *   adversary.c       the table, the loop, what is printed
 *   adversary_line.c  who speaks, questions, leases, what is known of the job
 *   adversary_hub.c   acts against the hub
 *   adversary_home.c  acts against the home
 *   adversary_raw.c   acts below messages: bytes, handshakes, frames */
#ifndef PL_TESTS_ADVERSARY_H
#define PL_TESTS_ADVERSARY_H
#include "tests/fault/hostile.h"

/* ---- who speaks ---- */
typedef struct lease {
    bool held, audit;
    uint64_t token;
    char task[PL_MODULE_NAME_MAX];
    int64_t index, replica, phase, taken_ms;
    size_t sealed_len; /* 0: an audit's lease, or none */
    uint8_t sealed[PL_LEASE_MAX];
} lease;

/* A key, and its connections to hub and home. */
typedef struct party {
    char name[PL_KEY_NAME_MAX];
    const char *device;
    pl_keypair key;
    pl_socket *hub, *home;
    pl_client *client; /* NULL: this key may not ask the home for blobs */
    lease lease;       /* the newest */
    lease over;        /* a lease that has ended */
    bool said_hello, refused;
    int n_idle; /* questions in a row that gave no task */
} party;

enum { WORKERS = 2, NAMES_MAX = 16 };

/* Kinds of answers, in addition to the statuses of ERR. */
typedef enum answer_kind {
    ANSWER_OK, /* the server accepted it */
    ANSWER_TASK = PL_STATUS_COUNT,
    ANSWER_NO_WORK,
    ANSWER_LEASE_LOST,
    ANSWER_ACCEPTED, /* results of SUBMIT and SUBMIT_PATH */
    ANSWER_DUPLICATE,
    ANSWER_UNKNOWN_BLOB,
    ANSWER_FENCED,
    ANSWER_REJECTED,
    ANSWER_DROPPED,
    ANSWER_OTHER, /* another worker's update counts */
    ANSWER_SENT,  /* part of a flood, without an answer */
    ANSWER_COUNT
} answer_kind;

enum { ACTS_MAX = 64 };

typedef struct adversary {
    dice dice;
    char hub[PL_ADDRESS_MAX], home[PL_ADDRESS_MAX];
    char names[NAMES_MAX][PL_KEY_NAME_MAX]; /* names of honest workers */
    int n_names;
    pl_keypair invite; /* the invitation for new workers */
    pl_keypair spare;  /* an invitation that is only misused */
    party workers[WORKERS];
    party invited, stranger; /* with the key `spare`; without a key */
    int n_enrolled;
    char label[32]; /* part of its workers' names */
    /* the newest arm of the job */
    pl_arm arm;
    pl_topology *topology; /* NULL: none yet */
    int64_t looked_ms;
    /* a lease that is kept alive without work */
    party *sitter;
    int64_t sit_until_ms, renewed_ms;
    int sit_act; /* the act that counts it */
    int act;     /* the present act */
    uint64_t n_acts[ACTS_MAX], answers[ACTS_MAX][ANSWER_COUNT];
} adversary;

/* ---- adversary_line.c ---- */
enum { PATIENCE_MS = 500 };
void line_open(adversary *a);
void line_close(adversary *a);
void party_close(party *p);
party *some_worker(adversary *a); /* not refused, if possible */
party *some_party(adversary *a);
const char *honest_name(adversary *a); /* "" if none is known */
/* Counts the answer and keeps it in `answer`, if that is not NULL. `m` is taken. */
answer_kind ask(adversary *a, party *p, draft_place place, pl_message *m,
                pl_message *answer);
void tell(adversary *a, party *p, draft_place place, pl_message *m); /* no waiting */
void hear(party *p, int ms); /* drops all messages */
void note_answer(adversary *a, answer_kind kind);
bool say_hello(adversary *a, party *p, const char *name, const char *device);
/* Gets a task, or an audit if `audit` is set; gives back the other kind. */
bool take_task(adversary *a, party *p, bool audit);
void put_lease(const party *p, uint16_t type, pl_message *out); /* for a report */
/* Ends the lease; `why` PL_OK: without a failure. */
void release(adversary *a, party *p, pl_status why, const char *text);
bool look_at_job(adversary *a); /* false: no arm */
void know(adversary *a, const party *p, known *out);
void know_lease(const party *p, known *out);
void know_sealed(const lease *from, known *out); /* the sealed bytes alone */
/* The slot's module on the path, and its newest version. */
bool find_version(adversary *a, party *p, int slot, int path, char module[96],
                  pl_version_facts *out);

/* ---- adversary_raw.c ---- */
void act_garbage(adversary *a);
void act_slow_handshake(adversary *a);
void act_early_megabyte(adversary *a);
void act_wrong_frames(adversary *a);
void act_no_encryption(adversary *a);
void act_unknown_key(adversary *a);
void act_wrong_server(adversary *a);
void raw_close(void);

/* ---- adversary_hub.c ---- */
void act_hub_message(adversary *a);
void act_report(adversary *a);
void act_many_names(adversary *a);
void act_steal_name(adversary *a);
void act_change_device(adversary *a);
void act_ask_flood(adversary *a);
void act_status_flood(adversary *a);
void act_hold(adversary *a);
void act_sit(adversary *a);
void act_fail(adversary *a);
void act_done_empty(adversary *a);
void act_vanish(adversary *a);
void act_forge_report(adversary *a);
void act_enrol(adversary *a);
void act_invited(adversary *a);
void act_audit_fail(adversary *a);
void act_audit_lie(adversary *a);
void keep_sitting(adversary *a);

/* ---- adversary_home.c ---- */
void act_home_message(adversary *a);
void act_forge_update(adversary *a);
void act_forge_path(adversary *a);
void act_home_names(adversary *a);
void act_hog_staging(adversary *a);
void act_half_upload(adversary *a);
void act_blob_flood(adversary *a);
void act_malformed_update(adversary *a);
void act_other_path(adversary *a);
void act_lent_lease(adversary *a);
void act_old_lease(adversary *a);
void act_split_pair(adversary *a);
void act_be_hub(adversary *a);
void act_lie(adversary *a);
void act_half_lie(adversary *a);
void act_false_state(adversary *a);

#endif
