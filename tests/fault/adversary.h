/* The adversary: a program that attacks a running job with messages that a stranger,
 * the holder of an invitation, or an enrolled worker can send (tests/adversary.sh).
 *
 * It draws acts from one table (adversary.c). An act is a function that sends something
 * wrong and returns. Messages and answers are counted per act. Each act would do harm
 * if one particular defence were missing.
 *
 *   adversary.c       the table of acts, the loop, the output
 *   adversary_line.c  the senders of messages, questions, leases, facts about the job
 *   adversary_hub.c   acts against the hub
 *   adversary_home.c  acts against the home
 *   adversary_raw.c   acts below messages: bytes, handshakes, frames */
#pragma once
#include "tests/fault/hostile.h"

/* ---- the senders of messages ---- */
typedef struct lease {
    bool held;
    uint64_t token;
    char task[PL_MODULE_NAME_MAX];
    int64_t index, replica, phase, taken_ms;
    bool given_back;   /* the hub has answered that the lease is over */
    size_t sealed_len; /* 0 without a lease */
    uint8_t sealed[PL_LEASE_MAX];
    pl_lease_secret key; /* the task key */
} lease;

/* A key, and the connections that the adversary makes with it. */
typedef struct party {
    char name[PL_KEY_NAME_MAX];
    const char *device;
    uint64_t pid;
    pl_keypair key;
    pl_socket *hub, *home;
    pl_client *client; /* NULL if this key may not ask the home for blobs */
    lease lease;       /* the newest lease */
    lease over;        /* a lease that has ended */
    bool said_hello, refused;
    int n_idle; /* number of questions in a row for which it got no task */
} party;

enum { WORKERS = 2, NAMES_MAX = 16, PAST_MAX = 64 };

/* Kinds of answers, in addition to the statuses of ERR. */
typedef enum answer_kind {
    ANSWER_OK, /* the server accepted the message */
    ANSWER_TASK = PL_STATUS_COUNT,
    ANSWER_NO_WORK,
    ANSWER_LEASE_LOST,
    ANSWER_ACCEPTED, /* from here on: results of SUBMIT and SUBMIT_PATH */
    ANSWER_DUPLICATE,
    ANSWER_UNKNOWN_BLOB,
    ANSWER_FENCED,
    ANSWER_REJECTED,
    ANSWER_DROPPED,
    ANSWER_OTHER, /* the update of a different worker counts */
    ANSWER_SENT,  /* a message of a flood, for which no answer is read */
    ANSWER_COUNT
} answer_kind;

enum { ACTS_MAX = 64 };

/* How a worker that sits on a lease ends it. */
typedef enum sit_end { SIT_FORGETS, SIT_RELEASES, SIT_RESTARTS } sit_end;

typedef struct adversary {
    dice dice;
    char hub[PL_ADDRESS_MAX], home[PL_ADDRESS_MAX];
    char names[NAMES_MAX][PL_KEY_NAME_MAX]; /* names of honest workers */
    int n_names;
    pl_keypair invite; /* the invitation for new workers */
    pl_keypair spare;  /* an invitation that is only misused */
    party workers[WORKERS];
    party invited, stranger; /* `invited` has the key `spare`, `stranger` has no key */
    party relay; /* has the key of a relay, if there is an invitation for one */
    pl_keypair relays;
    bool has_relay;
    lease past[PAST_MAX]; /* the newest leases that have ended */
    int n_past;
    int n_enrolled;
    char label[32];           /* a part of the names of its workers */
    char device[PL_TEXT_MAX]; /* the kind of device that its workers name */
    /* the newest arm of the job */
    pl_arm arm;
    pl_topology *topology; /* NULL while no arm is known */
    pl_hash arm_blob;      /* the definition that the newest TASK named */
    int64_t looked_ms;
    /* a lease that is kept alive without work */
    party *sitter;
    int64_t sit_until_ms, renewed_ms;
    bool sit_claims; /* whether it reports to be at its last step */
    sit_end sit_end;
    int sit_act; /* the act that counts messages about this lease */
    int act;     /* the act that runs now */
    uint64_t n_acts[ACTS_MAX], answers[ACTS_MAX][ANSWER_COUNT];
} adversary;

const char *act_name(int act);

/* ---- adversary_line.c ---- */
enum { PATIENCE_MS = 500 };
#define NO_DEVICE "cpu of nobody" /* a kind of device that no job has */
void line_open(adversary *a);
void line_close(adversary *a);
void party_close(party *p);
party *some_worker(adversary *a); /* prefers a worker that the servers still accept */
party *some_party(adversary *a);
const char *honest_name(adversary *a); /* "" if none is known */
/* Sends `m`, destroys it and counts the answer. If `answer` is not NULL, the answer is
 * kept there. */
answer_kind ask(adversary *a, party *p, draft_place place, pl_message *m,
                pl_message *answer);
/* Does not wait for an answer. */
void tell(adversary *a, party *p, draft_place place, pl_message *m);
void hear(party *p, int ms); /* waits for `ms` and drops all messages */
void note_answer(adversary *a, answer_kind kind);
bool say_hello(adversary *a, party *p, const char *name, const char *device);
bool begin_anew(adversary *a, party *p, const char *device);
/* Gives back its task, and asks for another one. */
bool take_task(adversary *a, party *p);
/* Begins a report of this type about the party's lease. */
void put_lease(const party *p, uint16_t type, pl_message *out);
/* The worker has no lease any more, but remembers it. */
void end_lease(adversary *a, party *p);
/* Gives back the lease. With `why` PL_OK this is not a failure. */
void release(adversary *a, party *p, pl_status why, const char *text);
bool look_at_job(adversary *a); /* false if the job has no arm yet */
void know(adversary *a, const party *p, known *out);
void know_lease(const party *p, known *out);
void know_sealed(const lease *from, known *out); /* only the sealed bytes */
/* Finds the module in the path's slot, and the newest version of this module. */
bool find_version(adversary *a, party *p, int slot, int path, char module[96],
                  pl_version_facts *out);

/* ---- adversary_raw.c ---- */
void act_garbage(adversary *a);
void act_slow_handshake(adversary *a);
void act_silent(adversary *a);
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
void act_new_device(adversary *a);
void act_ask_flood(adversary *a);
void act_status_flood(adversary *a);
void act_hold(adversary *a);
void act_sit(adversary *a);
void act_claim(adversary *a);
void act_give_back(adversary *a);
void act_restart(adversary *a);
void act_false_offer(adversary *a);
void act_go_on(adversary *a);
void act_fail(adversary *a);
void act_done_empty(adversary *a);
void act_vanish(adversary *a);
void act_forge_report(adversary *a);
void act_enrol(adversary *a);
void act_invited(adversary *a);
void act_invite_flood(adversary *a);
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
void act_replay(adversary *a);
void act_relay(adversary *a);
void act_peek(adversary *a);
void act_split_pair(adversary *a);
void act_be_hub(adversary *a);
void act_end_empty(adversary *a);
void act_lie(adversary *a);
void act_half_lie(adversary *a);
void act_false_state(adversary *a);
void act_lie_unseen(adversary *a);
void act_drift(adversary *a);
void act_collude(adversary *a);
void act_lie_as_new_device(adversary *a);
