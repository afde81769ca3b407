/* Private to the worker: updates for other workers (noloco). A thread of its own
 * answers GET_UPDATE and GET_BLOB as a home does, from what this worker has trained;
 * who does not get an answer asks the home. Nothing depends on it but time. */
#ifndef PL_WORKERS_PEER_H
#define PL_WORKERS_PEER_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

typedef struct peer_offer {
    char module[96];
    int64_t round;
    int path, replica;
    pl_hash hash;
    uint8_t *data; /* owned */
    uint64_t bytes;
} peer_offer;

typedef struct peer peer;

/* Listens at `bind`; `address` (PL_ADDRESS_MAX) gets what to tell others. */
pl_status peer_create(const char *bind, peer **out, char *address);
void peer_destroy(peer *p); /* accepts NULL */
/* Takes the offer. Of one path and module the last two rounds are kept. Any thread. */
void peer_put(peer *p, peer_offer *offer);

/* Whom to ask, and what goes on meanwhile (as in pl_client_options; may be NULL). */
typedef struct peer_line {
    const char *address;
    pl_status (*idle)(void *context);
    void *idle_context;
    const pl_keypair *keys; /* to ask with; NULL: those of the process */
} peer_line;

/* Appends the update that this worker offers. ERR_NOT_FOUND, ERR_NET, ERR_TIMEOUT
 * and ERR_NOPERM mean: ask the home. */
pl_status peer_get(const peer_line *line, const char *module, int64_t round, int path,
                   int replica, pl_buf *out);

#endif
