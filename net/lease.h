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
 * The worker gets these bytes with TASK and sends them unchanged with its messages. */
#ifndef PL_NET_LEASE_H
#define PL_NET_LEASE_H
#include "base/base.h"
#include "net/messages.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_LEASE_MAX = 640 };

typedef struct pl_lease {
    char arm[PL_MODULE_NAME_MAX];
    int64_t path, replica, phase;
    uint64_t token; /* fencing token */
    int64_t late;   /* 1: the worker need not wait for missing mates (noloco) */
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    pl_pubkey key; /* the worker's key; zeros if connections are not encrypted */
} pl_lease;

/* The key with which leases are sealed. The homes store this key, and the hub gets it
 * from the first home. */
typedef struct pl_lease_secret {
    uint8_t bytes[PL_HASH_BYTES];
} pl_lease_secret;
void pl_lease_secret_create(pl_lease_secret *out);

/* Appends the sealed bytes to `out`. */
void pl_lease_seal(const pl_lease_secret *secret, const pl_lease *lease, pl_buf *out);
/* ERR_STALE: these bytes were not sealed with the secret. */
PL_MUST_CHECK pl_status pl_lease_open(const pl_lease_secret *secret,
                                      const uint8_t *bytes, size_t len, pl_lease *out);

#ifdef __cplusplus
}
#endif
#endif
