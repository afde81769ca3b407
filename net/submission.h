/* The fields of SUBMIT (docs/PROTOCOL.md 2.3): one update of a module, made by one
 * contributor, or the sum of several updates that a relay added. */
#pragma once
#include "net/lease.h"

/* Largest number of contributors of a message. A message with this number of
 * contributors is never too long, even with the longest names. */
enum { PL_SUBMISSION_MAX = 90 };

/* What a contributor's worker has shown: its sealed lease, the hash of its own update,
 * and its seal of the message with this update. */
typedef struct pl_submission_proof {
    size_t len; /* of the lease */
    uint8_t lease[PL_LEASE_MAX];
    pl_hash update, seal;
} pl_submission_proof;

typedef struct pl_submit_message {
    char module[PL_MODULE_NAME_MAX];
    int64_t round;
    uint64_t base_version; /* the version that the update is relative to */
    pl_hash base;          /* hash of that version's parameters */
    pl_hash update;
    int n;
    pl_contribution *contributors; /* [n] sorted by (path, replica), the lowest first */
    pl_submission_proof *proofs;   /* [n] */
} pl_submit_message;

/* Compares two contributors by (path, replica), for sorting. Returns a negative number,
 * 0 if path and replica are equal, or a positive number. */
int pl_submission_order(const pl_contribution *a, const pl_contribution *b);
/* Reads SUBMIT. ERR_PROTO: a field is missing or wrong, or the contributors are not
 * sorted, one of them is listed twice, or there are more than PL_SUBMISSION_MAX. The
 * caller must call pl_submission_clear, even after an error. */
pl_status pl_submission_read(pl_message *submit, pl_submit_message *out);
/* Computes the seal under a task key of the SUBMIT that contributor i has sent. */
void pl_submission_seal(const pl_submit_message *s, int i, const pl_lease_secret *key,
                        pl_hash *out);
void pl_submission_write(const pl_submit_message *s, pl_message *out);
void pl_submission_clear(pl_submit_message *s);
