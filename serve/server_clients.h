/* Private to serve: the connections of a server, and which of them must go.
 *
 * A connection waits for a request (its head or its body comes in, or nothing does), or
 * it is busy with one that came in whole. Both may only last so long in all, however
 * many bytes trickle in. When more connections are open than there are places, one that
 * waits is closed: of the address that has the most connections, the one that has
 * waited longest. So silent connections never keep others out, /health least of all.
 *
 * One thread decides and owns the list. */
#ifndef PL_SERVE_SERVER_CLIENTS_H
#define PL_SERVE_SERVER_CLIENTS_H
#include "base/base.h"

typedef struct server_clients server_clients;
typedef struct server_client server_client;

typedef struct server_clients_options {
    int places;    /* open connections */
    int request_s; /* for a request's head, and again for its body */
    int answer_s;  /* for its answer */
} server_clients_options;

PL_MUST_CHECK pl_status server_clients_open(const server_clients_options *options,
                                            server_clients **out);
/* After every client has left. */
void server_clients_close(server_clients **clients);

/* The socket is borrowed until the client leaves. Both from the one thread that accepts
 * connections; beyond the places it waits a moment here, in which others are closed. */
server_client *server_clients_enter(server_clients *clients, int socket,
                                    uint32_t address);
void server_clients_leave(server_clients *clients, server_client **client);

/* From the client's own thread: its time begins anew. */
void server_client_waits(server_client *client);
void server_client_is_busy(server_client *client);

#endif
