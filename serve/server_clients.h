/* Private to serve: the connections of a server, and which of them must be closed.
 *
 * A connection either waits for a complete request or is busy with one. Both states
 * have a time limit, even if bytes arrive slowly all the time. When more connections
 * are open than allowed, a waiting one is closed: of the address with the most
 * connections, the one that has waited longest. So silent connections never keep other
 * clients out, in particular not from /health.
 *
 * One thread owns the list and decides. */
#ifndef PL_SERVE_SERVER_CLIENTS_H
#define PL_SERVE_SERVER_CLIENTS_H
#include "base/base.h"

typedef struct server_clients server_clients;
typedef struct server_client server_client;

typedef struct server_clients_options {
    int places;    /* the largest number of open connections */
    int request_s; /* seconds for a request's head, and again for its body */
    int answer_s;  /* seconds for the answer */
} server_clients_options;

PL_MUST_CHECK pl_status server_clients_open(const server_clients_options *options,
                                            server_clients **out);
/* Call this after all clients have left. */
void server_clients_close(server_clients **clients);

/* Adds a connection. The socket is borrowed until the client leaves. If there are too
 * many connections, waits a moment until others are closed. This function and the next
 * may be called only by the thread that accepts connections. */
server_client *server_clients_enter(server_clients *clients, int socket,
                                    uint32_t address);
void server_clients_leave(server_clients *clients, server_client **client);

/* Called on the client's own thread when its state changes; the time limit starts
 * again. */
void server_client_waits(server_client *client);
void server_client_is_busy(server_client *client);

#endif
