/* Private to outer: what SUBMIT says (docs/PROTOCOL.md 2.3). One update of a module,
 * made by one contributor, or the sum of several that a relay added. */
#ifndef PL_OUTER_SUBMISSION_H
#define PL_OUTER_SUBMISSION_H
#include "outer/lease.h"
#include "outer/messages.h"
#include "store/store.h"

/* So many contributors fit into one message's body, however long their names are. */
enum { SUBMISSION_MAX = 96 };

/* The sealed lease of a contributor, as its worker got it from the hub. */
typedef struct submission_lease {
    size_t len;
    uint8_t bytes[PL_LEASE_MAX];
} submission_lease;

typedef struct submission {
    char module[PL_MODULE_NAME_MAX];
    int64_t round;
    uint64_t base_version; /* that the update is relative to */
    pl_hash base;          /* its params */
    pl_hash update;
    int n;
    pl_contribution *contributors; /* [n] rising in (path, replica) */
    submission_lease *leases;      /* [n] */
} submission;

/* Of two contributors: negative, 0 (the same path and replica) or positive. */
int submission_order(const pl_contribution *a, const pl_contribution *b);
/* ERR_PROTO: a field is missing or wrong, contributors out of order, twice, or more
 * than SUBMISSION_MAX. The list is the caller's; clear it also after an error. */
pl_status submission_read(const pl_message *submit, submission *out);
void submission_write(const submission *s, pl_message *out); /* its body */
void submission_clear(submission *s);

#endif
