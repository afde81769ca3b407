/* The gate: who may connect to this process, and what a key may say.
 *
 * While a gate is open every socket that is bound speaks CURVE and nothing else; a
 * client gets in when its key stands in the list (base/keys.h). The list is read again
 * whenever its file has changed: a new key works at once, and a key that was taken out
 * is refused at its next message, at the latest after half a second. `may` judges every
 * message by the role of the key that the connection was made with.
 *
 * While the list cannot be read, nobody can be revoked: connections that exist go on
 * under the list that was read last, so that the job does not end, and no new one is
 * let in but of the job's own keys (own-...), which cannot be revoked in any case.
 *
 * The gate answers ZeroMQ's questions (ZAP, RFC 27) on a thread of its own. Should that
 * end, ZeroMQ lets nobody in. */
#ifndef PL_BASE_GATE_H
#define PL_BASE_GATE_H
#include "base/keys.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_refusal {
    const char *reason; /* a sentence */
    const char *key;    /* of the client; "" if it is not known */
    const char *from;   /* its address; "" if it is not known */
} pl_refusal;

typedef struct pl_gate_options {
    const pl_keypair *own; /* of this process; copied */
    const char *list;      /* file; "" for none: only pl_gate_admit lets somebody in */
    bool (*may)(pl_key_role role, uint16_t type);
    unsigned (*cost)(uint16_t type); /* of a key's share (base/quota.h); NULL: 1 each */
    /* Called from several threads, not more than once a second for one key. */
    void (*on_refused)(const pl_refusal *refusal);
    /* A sentence about a list that cannot be read, or has bad lines; from the gate's
     * thread, and from pl_gate_open. */
    void (*on_list)(const char *trouble);
} pl_gate_options;

/* Before any socket is bound. Tries that a key which is not in the list is refused:
 * ERR_INTERNAL if it is not, for then nothing is safe. ERR_CONFIG: the list cannot be
 * read. ERR_BUSY: there is one already. */
PL_MUST_CHECK pl_status pl_gate_open(const pl_gate_options *options);
bool pl_gate_is_open(void);
/* After all sockets are closed; pl_wire_shutdown does it too. */
void pl_gate_close(void);

/* Lets a key in beside the list; soon, not at once. */
void pl_gate_admit(const pl_pubkey *key, pl_key_role role);

/* What the key may do now, PL_AS_NONE: nothing; and whether it is the job's own. */
pl_key_role pl_gate_role(const pl_pubkey *key, bool *own);
bool pl_gate_may(pl_key_role role, uint16_t type);
unsigned pl_gate_cost(uint16_t type);
void pl_gate_refused(const pl_refusal *refusal);

#ifdef __cplusplus
}
#endif
#endif
