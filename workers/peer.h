/* Private to the worker: offers updates to other workers (noloco). A separate thread
 * answers GET_UPDATE and GET_BLOB with the updates that this worker has made, as a home
 * would. A worker that gets no answer asks the home instead. Offers only save time;
 * results do not depend on them. */
#pragma once
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

/* Starts the thread, which listens at `bind`. `address` (PL_ADDRESS_MAX bytes) gets the
 * address for other workers. */
pl_status peer_create(const char *bind, peer **out, char *address);
void peer_destroy(peer *p); /* accepts NULL */
/* Adds an offer and takes ownership of it. Older offers of the same path and module are
 * freed, except the offer of the previous round. Any thread may call this function. */
void peer_put(peer *p, peer_offer *offer);

/* How to ask another worker. `idle` is called while this worker waits for the answer,
 * as in pl_client_options; it may be NULL. */
typedef struct peer_line {
    const char *address; /* the address of the worker to ask */
    pl_status (*idle)(void *context);
    void *idle_context;
    /* the key pair for the connection; NULL: the key pair of the process */
    const pl_keypair *keys;
    uint64_t bytes_max; /* the largest update that is accepted */
} peer_line;

/* Asks another worker for an update, and appends the bytes of the update to `out`.
 * After ERR_NOT_FOUND, ERR_NET, ERR_TIMEOUT or ERR_NOPERM the caller should ask the
 * home. */
pl_status peer_get(const peer_line *line, const char *module, int64_t round, int path,
                   int replica, pl_buf *out);
