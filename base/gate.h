/* The gate: it decides which keys may connect to this process, and which messages each
 * may send.
 *
 * While a gate is open, every socket that is bound accepts only connections that are
 * encrypted with CURVE, and only from clients whose keys are in the list (base/keys.h).
 * The list is read again whenever its file has changed. So a new key works at once. A
 * key that was removed is refused from its next message on, at the latest half a second
 * after the change. The option `may` decides for every message whether the role of the
 * connection's key allows the message.
 *
 * While the file cannot be read, the gate cannot see which keys were revoked. Existing
 * connections continue under the list that was read last, so that the job does not end.
 * New connections are accepted only with the job's own keys (own-...), because these
 * can never be revoked.
 *
 * ZeroMQ asks the gate whether a client may connect (the ZAP protocol, RFC 27). A
 * separate thread answers. If that thread ends, ZeroMQ accepts no connection. */
#pragma once
#include "base/keys.h"
PL_C_BEGIN

typedef struct pl_refusal {
    const char *reason; /* a sentence */
    const char *key;    /* the client's key as text; "" if it is not known */
    const char *from;   /* the client's address; "" if it is not known */
} pl_refusal;

typedef struct pl_gate_options {
    const pl_keypair *own; /* this process's key pair; copied */
    /* file of the list; "": only keys passed to pl_gate_admit may connect */
    const char *list;
    bool (*may)(pl_key_role role, uint16_t type);
    /* returns how much a message of this type takes out of the token bucket of its
     * sender's key (base/quota.h); NULL: every message costs 1 */
    unsigned (*cost)(uint16_t type);
    /* Called from several threads when a connection or a message is refused. Also
     * called with the text of an error of this machine if the peer gets only a general
     * text (wire.c). A refused key is reported at most once in 10 s, refused messages
     * at most once per second and socket. */
    void (*on_refused)(const pl_refusal *refusal);
    /* Called with a sentence about a list that cannot be read or that has bad lines,
     * from the gate's thread and from pl_gate_open. */
    void (*on_list)(const char *trouble);
} pl_gate_options;

/* Call pl_gate_open before any socket is bound. The function tests the gate: it
 * connects with a random key, which must be refused. ERR_INTERNAL: the random key was
 * accepted, or was not refused in time, so the gate may protect nothing. ERR_CONFIG:
 * the list cannot be read. ERR_BUSY: this process already has a gate. */
pl_status pl_gate_open(const pl_gate_options *options);
bool pl_gate_is_open(void);
/* Call pl_gate_close after all sockets are closed; pl_wire_shutdown also calls it. */
void pl_gate_close(void);

/* Allows a key that is not in the list; returns before the gate has added it. */
void pl_gate_admit(const pl_pubkey *key, pl_key_role role);

/* Returns the current role of the key; PL_AS_NONE: the key has no rights. Sets *own to
 * whether it is one of the job's own keys. */
pl_key_role pl_gate_role(const pl_pubkey *key, bool *own);
/* Returns whether the list has a key with this name, and writes the key to `out`. A
 * revoked key keeps its name. */
bool pl_gate_key_named(const char *name, pl_pubkey *out);
/* Returns when the list was last changed (pl_key_list.changed_s); 0 without a list. */
int64_t pl_gate_list_changed(void);
/* Returns whether the role may send a message of this type. Sets *cost to what the
 * message takes out of the bucket of its sender's key: 1 if the role may not. */
bool pl_gate_may(pl_key_role role, uint16_t type, unsigned *cost);
void pl_gate_refused(const pl_refusal *refusal);

PL_C_END
