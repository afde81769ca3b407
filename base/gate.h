/* The gate: it decides which keys may connect to this process, and which messages each
 * may send.
 *
 * While a gate is open every socket that is bound speaks CURVE and nothing else; a
 * client is let in if its key is in the list (base/keys.h). The list is read again
 * whenever its file has changed: a new key works at once, and a key that was removed is
 * refused at its next message, at the latest after half a second. `may` decides for
 * every message whether the role of the connection's key allows it.
 *
 * While the list cannot be read, no key can be revoked. Existing connections continue
 * under the list that was read last, so that the job does not end. New connections are
 * accepted only with the job's own keys (own-...), which cannot be revoked in any case.
 *
 * The gate answers ZeroMQ's questions (ZAP, RFC 27) on a separate thread. If that
 * thread ends, ZeroMQ accepts no connection. */
#ifndef PL_BASE_GATE_H
#define PL_BASE_GATE_H
#include "base/keys.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_refusal {
    const char *reason; /* a sentence */
    const char *key;    /* the client's key as text; "" if it is not known */
    const char *from;   /* the client's address; "" if it is not known */
} pl_refusal;

typedef struct pl_gate_options {
    const pl_keypair *own; /* this process's key pair; copied */
    /* file of the list; "": no file, so only keys passed to pl_gate_admit may
     * connect */
    const char *list;
    bool (*may)(pl_key_role role, uint16_t type);
    /* how much a message of this type takes out of the token bucket of its sender's key
     * (base/quota.h); NULL: 1 for every message */
    unsigned (*cost)(uint16_t type);
    /* Called from several threads, at most once per second for each key. */
    void (*on_refused)(const pl_refusal *refusal);
    /* Called with a sentence about a list that cannot be read or that has bad lines,
     * from the gate's thread and from pl_gate_open. */
    void (*on_list)(const char *trouble);
} pl_gate_options;

/* Call pl_gate_open before any socket is bound. It tests that a key which is not in the
 * list is refused. ERR_INTERNAL: the unknown key was let in, so nothing would be safe.
 * ERR_CONFIG: the list cannot be read. ERR_BUSY: this process already has a gate. */
PL_MUST_CHECK pl_status pl_gate_open(const pl_gate_options *options);
bool pl_gate_is_open(void);
/* Call it after all sockets are closed; pl_wire_shutdown also calls it. */
void pl_gate_close(void);

/* Lets a key connect that is not in the list: soon, but not at once. */
void pl_gate_admit(const pl_pubkey *key, pl_key_role role);

/* The current role of the key; PL_AS_NONE if it may do nothing. *own: whether it is one
 * of the job's own keys. */
pl_key_role pl_gate_role(const pl_pubkey *key, bool *own);
/* Whether the list assigns this name to a key. A revoked key keeps its name. */
bool pl_gate_key_named(const char *name, pl_pubkey *out);
bool pl_gate_may(pl_key_role role, uint16_t type);
unsigned pl_gate_cost(uint16_t type);
void pl_gate_refused(const pl_refusal *refusal);

#ifdef __cplusplus
}
#endif
#endif
