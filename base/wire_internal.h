/* Private to wire and gate: the header of messages, the process's ZeroMQ context, and
 * its own key. */
#ifndef PL_BASE_WIRE_INTERNAL_H
#define PL_BASE_WIRE_INTERNAL_H
#include "base/keys.h"
#include "base/quota.h"
#include "base/wire.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { WIRE_HEADER_BYTES = 64, WIRE_FRAMES_MAX = 3 };

typedef struct wire_frame {
    const void *data;
    size_t len;
} wire_frame;

/* The most that a frame of an encrypted connection has; body and data are cut into such
 * pieces. Before a handshake is over ZeroMQ keeps one frame of whoever connects, up to
 * what a frame may have: what strangers cost is in proportion to it. */
enum { WIRE_PIECE = 48 << 10 };

void wire_header_encode(const pl_message *message, uint8_t out[WIRE_HEADER_BYTES]);
/* What the header says of both; false if it is more than they may have. */
bool wire_header_sizes(const void *header, size_t *body_len, size_t *data_len);
void wire_header_decode(const void *header, pl_message *out); /* of what was checked */
bool wire_check(const wire_frame *frames, size_t n_frames);
/* Every check that stands between the network and the caller; n_frames may be more than
 * the frames that are given. */
bool wire_decode(const wire_frame *frames, size_t n_frames, pl_message *out);
/* The same without a copy of the data: *data is where it lies among the frames. */
bool wire_decode_lent(const wire_frame *frames, size_t n_frames, pl_message *out,
                      wire_frame *data);
/* Gives back data that is lent; then the message has none. */
void wire_give_back(pl_message *message);

/* What became of the newest handshakes. */
typedef enum wire_verdict {
    WIRE_FINE,
    WIRE_KEY_REFUSED,
    WIRE_OTHER_MECHANISM,
    WIRE_BROKEN
} wire_verdict;

struct pl_socket {
    void *zmq, *monitor; /* the latter tells of every connection and of failed ones */
    uint64_t connections;
    bool is_server, is_bound, is_secure;
    quota *shares; /* of an encrypted server */
    char address[PL_ADDRESS_MAX];
    wire_verdict seen;
    int n_broken;
    int64_t broken_ms, refused_ms; /* first of those in a row; last word of a refusal */
    uint64_t dropped, refused, bytes_sent, bytes_received;
};

/* wire_watch.c: what ZeroMQ tells of a socket's connections. */
enum { WIRE_REFUSAL_MS = 1000 }; /* between two words of a server about refusals */
bool wire_watch_client(pl_socket *socket); /* false: errno */
bool wire_watch_server(pl_socket *socket);
void wire_watch_end(pl_socket *socket);
/* A client that was refused is told so once; it would try for ever in silence. */
PL_MUST_CHECK pl_status wire_client_verdict(pl_socket *socket);
/* To the gate: failed handshakes with clients that never named their key. */
void wire_tell_failed_clients(pl_socket *socket);

void *wire_context(void);

/* Before something is bound there: ERR_BUSY if a process listens at this ipc address,
 * ERR_EXISTS if it is no socket, ERR_CONFIG if its path is too long. */
PL_MUST_CHECK pl_status wire_ipc_check(const char *endpoint);
/* A path of its own for PL_ADDRESS_PRIVATE. */
PL_MUST_CHECK pl_status wire_ipc_private(char endpoint[PL_ADDRESS_MAX]);
void wire_ipc_remove(const char *endpoint); /* of what was bound there */

enum { WIRE_ENFORCE_DOMAIN = 93 }; /* ZMQ_ZAP_ENFORCE_DOMAIN, hidden in 4.3's header */

/* CURVE on a ZeroMQ socket: as server, or as client of the server with that key. The
 * status is OK, or ERR_UNSUPPORTED for a ZeroMQ that cannot be made safe. */
PL_MUST_CHECK pl_status wire_curve_server(void *zmq, const pl_keypair *own);
PL_MUST_CHECK pl_status wire_curve_client(void *zmq, const pl_keypair *own,
                                          const pl_pubkey *server);

#ifdef __cplusplus
}
#endif
#endif
