/* The adversary: a program that attacks a running job with messages that a stranger,
 * the holder of an invitation, or an enrolled worker can send (tests/adversary.sh).
 *
 * It draws acts from one table (ACTS_OF). An act is a function that sends something
 * wrong and returns. Messages and answers are counted per act. Each act would do harm
 * if one particular defence were missing.
 *
 *   adversary.c       the loop, the output
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
/* Asks with the message of a draft (draft_message), and clears the draft. */
answer_kind ask_draft(adversary *a, party *p, draft_place place, draft *d, dice *cut);
/* Does not wait for an answer. */
void tell(adversary *a, party *p, draft_place place, pl_message *m);
void hear(party *p, int ms); /* waits for `ms` and drops all messages */
void note_answer(adversary *a, answer_kind kind);
void put_hello(pl_message *m, const char *name, const char *device, uint64_t pid);
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

void raw_close(void);            /* adversary_raw.c */
void keep_sitting(adversary *a); /* adversary_hub.c */

/* Function and name of each act, its weight (an act is drawn with a probability in
 * proportion to it), and whether its results count until an audit finds them. */
#define ACTS_OF(X)                                                                     \
    X(act_hub_message, "hub-message", 12, false)                                       \
    X(act_home_message, "home-message", 12, false)                                     \
    X(act_report, "report", 4, false)                                                  \
    X(act_invited, "invited", 3, false)                                                \
    X(act_enrol, "enrol", 3, false)                                                    \
    X(act_garbage, "garbage", 3, false)                                                \
    X(act_slow_handshake, "slow-handshake", 2, false)                                  \
    X(act_silent, "silent", 2, false)                                                  \
    X(act_invite_flood, "invite-flood", 2, false)                                      \
    X(act_early_megabyte, "early-megabyte", 2, false)                                  \
    X(act_wrong_frames, "wrong-frames", 3, false)                                      \
    X(act_no_encryption, "no-encryption", 1, false)                                    \
    X(act_unknown_key, "unknown-key", 1, false)                                        \
    X(act_wrong_server, "wrong-server", 1, false)                                      \
    X(act_many_names, "many-names", 2, false)                                          \
    X(act_steal_name, "steal-name", 3, false)                                          \
    X(act_change_device, "change-device", 2, false)                                    \
    X(act_new_device, "new-device", 2, false)                                          \
    X(act_home_names, "home-names", 2, false)                                          \
    X(act_ask_flood, "ask-flood", 2, false)                                            \
    X(act_status_flood, "status-flood", 2, false)                                      \
    X(act_blob_flood, "blob-flood", 2, false)                                          \
    X(act_hold, "hold", 1, false)                                                      \
    X(act_sit, "sit", 1, false)                                                        \
    X(act_claim, "claim", 1, false)                                                    \
    X(act_give_back, "give-back", 1, false)                                            \
    X(act_restart, "restart", 1, false)                                                \
    X(act_false_offer, "false-offer", 1, false)                                        \
    X(act_go_on, "go-on", 1, false)                                                    \
    X(act_fail, "fail", 2, false)                                                      \
    X(act_done_empty, "done-empty", 1, false)                                          \
    X(act_vanish, "vanish", 1, false)                                                  \
    X(act_forge_report, "forge-report", 4, false)                                      \
    X(act_forge_update, "forge-update", 6, false)                                      \
    X(act_forge_path, "forge-path", 3, false)                                          \
    X(act_hog_staging, "hog-staging", 3, false)                                        \
    X(act_half_upload, "half-upload", 3, false)                                        \
    X(act_malformed_update, "malformed-update", 4, false)                              \
    X(act_other_path, "other-path", 3, false)                                          \
    X(act_lent_lease, "lent-lease", 3, false)                                          \
    X(act_old_lease, "old-lease", 3, false)                                            \
    X(act_replay, "replay", 4, false)                                                  \
    X(act_relay, "relay", 3, false)                                                    \
    X(act_peek, "peek", 2, false)                                                      \
    X(act_split_pair, "split-pair", 2, false)                                          \
    X(act_be_hub, "be-hub", 2, false)                                                  \
    X(act_end_empty, "end-empty", 3, false)                                            \
    X(act_lie, "lie", 6, true)                                                         \
    X(act_half_lie, "half-lie", 3, true)                                               \
    X(act_false_state, "false-state", 3, true)                                         \
    X(act_lie_unseen, "lie-unseen", 3, true)                                           \
    X(act_drift, "drift", 3, true)                                                     \
    X(act_collude, "collude", 3, true)                                                 \
    X(act_lie_as_new_device, "device-lie", 2, true)
#define AS_DECLARATION(run, name, weight, lies) void run(adversary *a);
ACTS_OF(AS_DECLARATION)
