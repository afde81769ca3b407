/* The fields of SUBMIT (docs/PROTOCOL.md 2.3): one update of a module, made by one
 * contributor, or the sum of several updates that a relay added. */
#ifndef PL_NET_SUBMISSION_H
#define PL_NET_SUBMISSION_H
#include "net/lease.h"
#include "net/messages.h"
#include "store/store.h"

/* The number of contributors that always fit into one message, even with the longest
 * names. */
enum { PL_SUBMISSION_MAX = 96 };

/* The sealed lease of a contributor, as its worker got it from the hub. */
typedef struct pl_submission_lease {
    size_t len;
    uint8_t bytes[PL_LEASE_MAX];
} pl_submission_lease;

typedef struct pl_submit_message {
    char module[PL_MODULE_NAME_MAX];
    int64_t round;
    uint64_t base_version; /* the version that the update is relative to */
    pl_hash base;          /* hash of that version's parameters */
    pl_hash update;
    int n;
    pl_contribution *contributors; /* [n] sorted by (path, replica), the lowest first */
    pl_submission_lease *leases;   /* [n] */
} pl_submit_message;

/* Compares two contributors: negative, 0 (the same path and replica) or positive. */
int pl_submission_order(const pl_contribution *a, const pl_contribution *b);
/* ERR_PROTO: a field is missing or wrong, or contributors are out of order, listed
 * twice, or more than PL_SUBMISSION_MAX. The caller owns the list and clears it, also
 * after an error. */
pl_status pl_submission_read(pl_message *submit, pl_submit_message *out);
/* Writes the fields of `s` into the message's body. */
void pl_submission_write(const pl_submit_message *s, pl_message *out);
void pl_submission_clear(pl_submit_message *s);

#endif
