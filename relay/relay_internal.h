/* Private to the relay: questions that wait for answers, updates to be added. */
#pragma once
#include "relay/relay.h"
#include "net/net.h"

#include <stdatomic.h>

typedef enum relay_state {
    RELAY_PASSED, /* the question was forwarded to the home */
    RELAY_HELD,   /* the question is a SUBMIT whose update is in a group */
    /* a SUBMIT_PATH that waits because the relay holds updates of the same worker */
    RELAY_WAITING
} relay_state;

typedef struct relay_question {
    /* the relay's number of this question, which the home sees */
    uint64_t id;
    relay_state state;
    pl_peer peer;
    uint64_t request; /* the number that the peer gave the question */
    /* hash of a held SUBMIT, by which the relay finds the question if the same SUBMIT
     * comes again, perhaps over another connection */
    pl_hash content;
    /* of a held SUBMIT and its update, or of a waiting SUBMIT_PATH */
    uint64_t bytes;
    uint64_t moved; /* relay_adder.moved when the peer was last told to wait */
    /* whether the question asks for room; it may get ERR_BUSY before its answer */
    bool asks_room;
    pl_message kept;  /* the message of a waiting SUBMIT_PATH */
    int64_t asked_ms; /* when the question was last asked or forwarded */
} relay_question;

typedef struct relay_part {
    uint64_t question; /* id of the question (a SUBMIT) that brought the update */
    pl_submit_message submit; /* the fields of the SUBMIT message */
    staging_blob *blob;
    /* set by the adder: OK if the home gave a result; else the failure, in `text` */
    pl_status status;
    pl_submit_result result;
    char text[256];
    pl_hash *receipts; /* [submit.n] the home's receipts; owned */
} relay_part;

/* Updates of one module and round that will be added. The loop owns the group until it
 * is pushed to the adder, which owns it until it is taken with results. */
typedef struct relay_group {
    int n_parts, n_contributors;
    int limit;        /* largest number of contributors that the sum may have */
    int64_t since_ms; /* when the group began */
    /* number of parts that the home accepted as one sum: 0, or at least 2 */
    int n_summed;
    relay_part *parts[PL_SUBMISSION_MAX];
    struct relay_group *next;
} relay_group;

/* ---- relay_group.c: groups that are not complete, oldest first ---- */
/* Takes ownership of the part. */
void relay_groups_add(relay_group **all, relay_part *part, uint64_t values_max);
/* Removes and returns a group that need not wait longer; NULL if all groups must wait.
 * If `everybody_waits` is true, no worker will send another update before it has an
 * answer, so no group must wait. */
relay_group *relay_groups_take(relay_group **all, const pl_relay_options *options,
                               bool everybody_waits);
void relay_group_destroy(relay_group **group, staging *uploads);

/* ---- relay_adder.c ---- */
/* The loop pushes groups to the actor, and takes them back with results. */
typedef struct relay_adder {
    pl_client *home;
    pl_actor *actor;
    atomic_int stopping;
    /* bytes that it has sent, and answers that say to wait: the home is there */
    _Atomic uint64_t moved;
} relay_adder;
pl_status relay_adder_create(const pl_relay_options *options, relay_adder **out);
/* Ends the adder's thread. Then every group that was pushed can be taken. */
void relay_adder_stop(relay_adder *u);
void relay_adder_destroy(relay_adder **u);
