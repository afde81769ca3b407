/* Private to wire and gate: the header of messages, the ZeroMQ context, the own key. */
#pragma once
#include "base/keys.h"
#include "base/quota.h"
#include "base/wire.h"
PL_C_BEGIN

enum { WIRE_HEADER_BYTES = 64, WIRE_FRAMES_MAX = 3 };

typedef struct wire_frame {
    const void *data;
    size_t len;
} wire_frame;

/* The largest frame of an encrypted connection: body and data are cut into pieces of
 * this size. Before a handshake is over, ZeroMQ keeps one frame of any client that
 * connects, so the memory that strangers can take grows with this size. */
enum { WIRE_PIECE = 48 << 10 };

void wire_header_encode(const pl_message *message, uint8_t out[WIRE_HEADER_BYTES]);
/* Reads both lengths from the header. Returns false if a length exceeds its limit. */
bool wire_header_sizes(const void *header, size_t *body_len, size_t *data_len);
/* Whether this is the header of a message with a different major version of the
 * protocol. If so, sets version and request of `out`. */
bool wire_header_foreign(const void *header, size_t len, pl_message *out);
void wire_header_decode(const void *header, pl_message *out);
bool wire_check(const wire_frame *frames, size_t n_frames);
/* Checks and decodes a message from the network. n_frames is the number of frames that
 * came, which may be larger than the number of frames that were kept. The data are not
 * copied: *data points into the frames. */
bool wire_decode(const wire_frame *frames, size_t n_frames, pl_message *out,
                 wire_frame *data);
/* Returns lent data to ZeroMQ; the message has no data afterwards. */
void wire_give_back(pl_message *message);

typedef enum wire_verdict {
    WIRE_FINE,
    WIRE_KEY_REFUSED,
    WIRE_OTHER_MECHANISM, /* only one of the two sides encrypts */
    WIRE_BROKEN           /* for long, every handshake broke off */
} wire_verdict;

struct pl_socket {
    /* monitor: for a client, reports connections and failed handshakes */
    void *zmq, *monitor;
    int fd; /* descriptor of a client's connection; -1: not connected */
    /* for a server that listens on TCP: bounds its connections; else NULL */
    struct wire_crowd *crowd;
    uint64_t connections;
    /* client: time since which it has no connection; 0: it is connected */
    int64_t lost_ms;
    /* client: when its connection ended, if ZeroMQ has not said since that it connects
     * again; else 0 */
    int64_t given_up_ms;
    bool is_server, is_bound, is_secure;
    /* the token buckets of keys (quota.h), for an encrypted server; else NULL */
    quota *shares;
    char address[PL_ADDRESS_MAX];
    wire_verdict seen;
    bool loses;   /* whether this connection loses many packets (pl_wire_line_now) */
    int n_broken; /* length of the current series of broken handshakes */
    /* broken_ms, last_broken_ms: time of the first and of the last one of this series;
     * refused_ms: time of the last report of a refusal */
    int64_t broken_ms, last_broken_ms, refused_ms;
    pl_wire_counts counts;
};

/* wire_watch.c: events that ZeroMQ reports about a socket's connections */
/* time between two reports of a server about refusals */
enum { WIRE_REFUSAL_MS = 1000 };
bool wire_watch_client(pl_socket *socket); /* if false, errno has the reason */
/* Starts a thread that bounds the connections of a server (base/crowd.h). */
pl_status wire_watch_server(pl_socket *socket);
/* Tells this thread that a message came from the connection with this descriptor. */
void wire_watch_heard(pl_socket *socket, int fd);
void wire_watch_end(pl_socket *socket);
/* ERR_NOPERM if the server refuses this client, which should end then. */
pl_status wire_client_verdict(pl_socket *socket);
/* Reports handshakes that ended before the client sent its key to the gate. */
void wire_tell_failed_clients(pl_socket *socket);

/* wire_admit.c */
/* Reports a refusal through pl_gate_options.on_refused, but not too often. */
void wire_tell_refusal(pl_socket *socket, const pl_peer *peer, const char *text);
/* Whether the message reaches the caller: the bucket of the sender's key must hold
 * enough (quota.h), and the sender's role must allow it. If not, answers the sender. */
bool wire_admit(pl_socket *socket, const pl_peer *peer, const pl_message *m);
/* Answers a message that was dropped, if its reason is a different major version of the
 * protocol. `header` is its first frame. */
void wire_refuse_version(pl_socket *socket, const pl_peer *peer, const void *header,
                         size_t len);
/* WIRE_HANDSHAKE_MS, WIRE_CLIENT_MS: a server's or client's connection that has not
 * finished its handshake is closed. A handshake takes about four round trips, each of
 * which may wait for seconds in the queue of a link. crowd.h bounds strangers.
 * WIRE_SILENT_MS: a client's connection that confirms no byte is closed. */
enum { WIRE_HANDSHAKE_MS = 15000, WIRE_CLIENT_MS = 30000, WIRE_SILENT_MS = 10000 };

void *wire_context(void);
/* Makes an error of ZeroMQ's last errno: "ACTION ADDRESS: REASON". */
pl_status wire_failed(const char *action, const char *address, pl_status otherwise);

/* Called before a socket is bound at an ipc address. ERR_BUSY: a process listens there.
 * ERR_EXISTS: the file there is not a socket. ERR_CONFIG: the path is too long. */
pl_status wire_ipc_check(const char *endpoint);
/* Checks that a process may make a socket in the folder of an ipc address.
 * ERR_NOT_FOUND: the name is not in a folder (ipc://@NAME), so only ZeroMQ knows. */
pl_status wire_ipc_check_folder(const char *endpoint);
/* Checks that a process can listen at the TCP address, by a socket that is bound there
 * for a moment but does not listen. One that listened would answer a worker that waits
 * for its hub, and the worker would take it for another job. ERR_NOT_FOUND: the host is
 * neither a number nor *, so only ZeroMQ knows. */
pl_status wire_tcp_check(const pl_address *address);
/* Fails for the reason in errno. ERR_BUSY: another process has the address. */
pl_status wire_cannot_listen(const char *address);
/* For PL_ADDRESS_PRIVATE: makes a folder, and writes the address of a socket in it. */
pl_status wire_ipc_private(char endpoint[PL_ADDRESS_MAX]);
void wire_ipc_remove(const char *endpoint);

/* the value of ZMQ_ZAP_ENFORCE_DOMAIN, which the header of ZeroMQ 4.3 hides */
enum { WIRE_ENFORCE_DOMAIN = 93 };

/* These functions turn on CURVE for a ZeroMQ socket: the first for a server, the second
 * for a client of the server with the key `server`. ERR_UNSUPPORTED: this ZeroMQ
 * library cannot encrypt. */
pl_status wire_curve_server(void *zmq, const pl_keypair *own);
pl_status wire_curve_client(void *zmq, const pl_keypair *own, const pl_pubkey *server);

PL_C_END
