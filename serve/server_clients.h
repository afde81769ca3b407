/* Private to serve: the connections of an HTTP server as a crowd (base/crowd.h).
 *
 * A connection either waits for a complete request or is busy with one. Both states
 * have a time limit, which slowly arriving bytes do not extend. So silent connections
 * never prevent other clients from connecting, for example to ask for /health.
 *
 * One thread owns the list of connections and decides which are closed. */
#pragma once
#include "base/base.h"

typedef struct server_clients server_clients;
typedef struct server_client server_client;

typedef struct server_clients_options {
    int places;    /* the largest number of open connections */
    int request_s; /* seconds that a connection may wait for a request's head, and
                    * again for its body */
    int answer_s;  /* seconds that a connection may be busy with an answer */
} server_clients_options;

pl_status server_clients_open(const server_clients_options *options,
                              server_clients **out);
/* Call this after all clients have left. */
void server_clients_close(server_clients **clients);

/* Adds a connection. The socket is borrowed until server_clients_leave. If there are
 * too many connections, sleeps a short time, in which the thread that owns the list
 * closes some of them. Only the thread that accepts connections may call this function
 * and server_clients_leave. */
server_client *server_clients_enter(server_clients *clients, int socket,
                                    uint32_t address);
void server_clients_leave(server_clients *clients, server_client **client);

/* The connection's thread calls these functions when the connection begins to wait for
 * a request, and when it becomes busy with one. Each call starts a new time limit. */
void server_client_waits(server_client *client);
void server_client_is_busy(server_client *client);
