/* Private to the worker: updates for other workers (noloco). A separate thread answers
 * GET_UPDATE and GET_BLOB as a home does, with the updates that this worker has made. A
 * worker that gets no answer asks the home. Offers only save time; results do not
 * depend on them. */
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

/* Starts the thread, which listens at `bind`. `address` (PL_ADDRESS_MAX) gets the
 * address for other workers. */
pl_status peer_create(const char *bind, peer **out, char *address);
void peer_destroy(peer *p); /* accepts NULL */
/* Takes ownership of the offer. The last two rounds of each path and module are kept.
 * Any thread. */
void peer_put(peer *p, peer_offer *offer);

/* The worker to ask, and what to do while waiting (as in pl_client_options; may be
 * NULL). */
typedef struct peer_line {
    const char *address;
    pl_status (*idle)(void *context);
    void *idle_context;
    const pl_keypair *keys; /* the key pair to ask with; NULL: that of the process */
} peer_line;

/* Appends the update that the other worker offers. After ERR_NOT_FOUND, ERR_NET,
 * ERR_TIMEOUT or ERR_NOPERM the caller should ask the home. */
pl_status peer_get(const peer_line *line, const char *module, int64_t round, int path,
                   int replica, pl_buf *out);

#endif
