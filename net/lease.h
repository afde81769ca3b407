/* A sealed lease is a certificate from the hub. It names a worker, and the task and
 * phase whose results the worker may send.
 *
 * The hub seals each lease with a key that only the hub and the homes have, so a worker
 * cannot make or change a lease. The lease contains the key of its worker, so no other
 * worker can use it on an encrypted connection. A home accepts a worker's uploads and
 * submissions only with a sealed lease. The lease is checked before any memory is
 * reserved for an upload.
 *
 *   bytes = MAC (32, keyed BLAKE2b-256 over the record) | record (docs/PROTOCOL.md 2.5)
 *
 * The worker gets these bytes with TASK, and a task key, which is made from the bytes
 * and the secret and never passes a relay. It seals its messages with this key, so that
 * a relay cannot change them or speak in its name. The hub makes the secret at its
 * start, and nobody stores it: no copy of a store can make leases. */
#pragma once
#include "net/messages.h"

enum { PL_LEASE_MAX = 640 };

typedef struct pl_lease {
    char arm[PL_MODULE_NAME_MAX];
    int64_t path, replica, phase;
    uint64_t token; /* fencing token */
    int64_t step;   /* number of inner steps; 0: all steps of the phase */
    int64_t late;   /* 1: the worker need not wait for missing mates (noloco) */
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    pl_pubkey key; /* the worker's key; zeros if connections are not encrypted */
} pl_lease;

/* The secret with which leases are sealed, or a task key. */
typedef struct pl_lease_secret {
    uint8_t bytes[PL_HASH_BYTES];
} pl_lease_secret;
void pl_lease_secret_create(pl_lease_secret *out);

/* What a worker has of its lease. */
typedef struct pl_sealed_lease {
    size_t len; /* 0: no lease */
    uint8_t bytes[PL_LEASE_MAX];
    pl_lease_secret key; /* the task key */
} pl_sealed_lease;

void pl_lease_seal(const pl_lease_secret *secret, const pl_lease *lease,
                   pl_sealed_lease *out);
void pl_lease_key(const pl_lease_secret *secret, const uint8_t *bytes, size_t len,
                  pl_lease_secret *out);
/* Returns the token that a sealed lease claims to have; 0: it has none. Only a home can
 * check the claim (pl_lease_open). */
uint64_t pl_lease_token(pl_bytes lease);
/* Computes the seal of a message, without its lease, seal and receipts. */
void pl_lease_sign(const pl_lease_secret *key, pl_message_type type,
                   const pl_field *fields, const void *body, pl_hash *out);
/* Whether a home proves its answer to a question of this type under a lease. */
bool pl_lease_covers(uint16_t type);
/* Appends PROOF to an answer: a MAC under the task key over question and answer, so
 * that a relay can neither change the answer nor give that to a different question. */
void pl_lease_sign_answer(const pl_lease_secret *key, const pl_message *question,
                          pl_message *answer);
/* ERR_PROTO: the answer does not have this proof. */
pl_status pl_lease_check_answer(const pl_lease_secret *key, const pl_message *question,
                                const pl_message *answer);
/* Computes a home's receipt for the holder of the lease of (path, replica) with this
 * token: the home has their update of this module and round. */
void pl_lease_receipt(const pl_lease_secret *secret, const pl_lease *lease,
                      const char *module, int64_t round, pl_hash *out);
/* ERR_STALE: these bytes were not sealed with the secret. */
pl_status pl_lease_open(const pl_lease_secret *secret, const uint8_t *bytes, size_t len,
                        pl_lease *out);
