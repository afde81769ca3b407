/* Private to the relay: who waits for an answer, and what is added. */
#ifndef PL_HOME_RELAY_INTERNAL_H
#define PL_HOME_RELAY_INTERNAL_H
#include "home/relay.h"
#include "home/staging.h"
#include "net/net.h"

typedef enum relay_state {
    RELAY_PASSED, /* the home was asked the same */
    RELAY_HELD,   /* a SUBMIT whose update is in a group */
    RELAY_WAITING /* a SUBMIT_PATH: its updates are held */
} relay_state;

/* Somebody waits for an answer. */
typedef struct relay_question {
    uint64_t id; /* its request number here; towards the home, if passed */
    relay_state state;
    pl_peer peer;
    uint64_t request; /* the asker's */
    pl_hash content;  /* of a held SUBMIT: it may come again on another connection */
    pl_message kept;  /* of a waiting SUBMIT_PATH */
    int64_t asked_ms;
} relay_question;

/* An update on its way. */
typedef struct relay_part {
    uint64_t question;        /* id */
    pl_submit_message submit; /* as it came */
    staging_blob *blob;
    pl_status status; /* from the uplink: whether there is a result; text: why not */
    pl_submit_result result;
    char text[256];
} relay_part;

/* Updates of one module and round that are added. The loop owns it until it is whole,
 * then the uplink until it comes back with results. */
typedef struct relay_group {
    int n_parts, n_contributors;
    int limit; /* contributors that a sum of this round may have */
    int64_t since_ms;
    int n_summed; /* parts that the home took as one; 0 or at least 2 */
    relay_part *parts[PL_SUBMISSION_MAX];
    struct relay_group *next;
} relay_group;

/* ---- relay_group.c: groups that are not whole, oldest first ---- */
typedef struct relay_groups {
    relay_group *first;
} relay_groups;
/* Takes the part. */
void relay_groups_add(relay_groups *all, relay_part *part);
/* One that waits no longer, taken out; NULL if there is none. `everybody_waits`: no
 * asker will send another update before it has an answer. */
relay_group *relay_groups_take(relay_groups *all, const pl_relay_options *options,
                               bool everybody_waits);
/* Milliseconds until the oldest has waited long enough, at most `most`. */
int relay_groups_due_ms(const relay_groups *all, int wait_ms, int most);
void relay_group_destroy(relay_group **group, staging *uploads);

/* ---- relay_uplink.c ---- */
typedef struct relay_uplink relay_uplink;
pl_status relay_uplink_create(const pl_relay_options *options, relay_uplink **out);
void relay_uplink_push(relay_uplink *u, relay_group *group);
relay_group *relay_uplink_take(relay_uplink *u); /* or NULL */
int relay_uplink_fd(const relay_uplink *u);
/* Ends what is under way; after it every group that was pushed can be taken. */
void relay_uplink_stop(relay_uplink *u);
uint64_t relay_uplink_bytes_sent(const relay_uplink *u); /* once stopped */
void relay_uplink_destroy(relay_uplink **u);

#endif
