/* Messages over ZeroMQ (docs/PROTOCOL.md section 1).
 *
 * A message is two or three frames after the routing id:
 *   header 64 B | body (record, <= 64 KiB) | data (<= PL_WIRE_DATA_MAX)
 * The header carries magic, version, type, lengths, request id, epoch, token and an
 * XXH3-64 checksum over the header (with zeros in the checksum's field), body and data.
 * Any message that does not fit this description is received as a whole, counted and
 * dropped; it never reaches the caller.
 *
 * Sockets: a server binds a ROUTER, a client connects a DEALER. LINGER, HWM,
 * MAXMSGSIZE, time limits and reconnection are set as docs/PROTOCOL.md says. Only one
 * thread may use a socket. */
#pragma once
#include "base/address.h"
#include "base/buf.h"
#include "base/fields.h"
PL_C_BEGIN

enum {
    PL_WIRE_DATA_MAX = 1 << 20,
    PL_WIRE_BODY_MAX = 1 << 16,
    PL_WIRE_VERSION = 1,
    PL_WIRE_PEER_MAX = 32
};

/* A client, as the server sees it. The routing id belongs to one connection. */
typedef struct pl_peer {
    uint8_t id[PL_WIRE_PEER_MAX];
    size_t len;
    pl_key_role role; /* role of the key below; LOCAL if the socket is not encrypted */
    /* the client's key on this connection; zeros if the connection is not encrypted */
    pl_pubkey key;
    bool own; /* whether the key is one of the job's own (own-...); true for LOCAL */
} pl_peer;

typedef struct pl_message {
    uint16_t type;
    /* major version of the protocol, for a refusal that a peer with a different version
     * can read; 0: that of this program */
    uint8_t version;
    uint64_t request; /* the client chooses it, and the answer repeats it */
    uint64_t epoch;   /* number that rises with each start of the answering store or
                       * hub; 0: not known */
    uint64_t token;   /* fencing token of the lease; 0 if there is none */
    pl_buf body;      /* a record */
    pl_buf data;      /* bulk bytes, may be empty */
    /* not NULL: `data` is ZeroMQ's, only to be read (pl_wire_recv_lent) */
    void *lent;
    pl_buf texts; /* texts that were read from `body` (pl_message_get) */
} pl_message;
void pl_message_init(pl_message *message, uint16_t type); /* zeroes */
void pl_message_destroy(pl_message *message);             /* frees and zeroes */
void pl_message_put(pl_message *message, uint16_t type, const pl_field *fields,
                    const void *from);
/* Reads the body into `to`, whose pointers are valid as long as the message's body.
 * `what` names the message in errors. */
pl_status pl_message_get(pl_message *message, const char *what, const pl_field *fields,
                         void *to);

typedef struct pl_socket pl_socket;

/* Sets (copies) this process's key pair, before the first socket; NULL: no key. */
void pl_wire_keys(const pl_keypair *pair);
/* Sets the host name or IP address under which other machines reach this process.
 * pl_wire_bind writes it into an address that stands for all interfaces. "": the first
 * address of this machine. */
void pl_wire_advertise(const char *host);

/* Listens at an address (base/address.h). While a gate is open (base/gate.h) the socket
 * is encrypted; without a gate only local addresses are allowed (ERR_CONFIG). Writes to
 * `bound` the address that clients connect to, with port and key. ERR_BUSY: the port is
 * in use. */
pl_status pl_wire_bind(const char *address, pl_socket **out,
                       char bound[PL_ADDRESS_MAX]);
/* Checks that pl_wire_bind could listen at the address; does not listen there, if the
 * host is a number or *. ERR_BUSY: it is in use. */
pl_status pl_wire_check_free(const char *address);
/* Connects with the process's key pair. pl_wire_connect_as uses the pair `own` instead,
 * unless it is NULL. ERR_CONFIG: the address is not local and does not contain the
 * server's key. If the server refuses the client, pl_wire_recv returns ERR_NOPERM. */
pl_status pl_wire_connect(const char *address, pl_socket **out);
pl_status pl_wire_connect_as(const char *address, const pl_keypair *own,
                             pl_socket **out);
void pl_wire_close(pl_socket **socket); /* accepts NULL */

/* Sends from a server. The caller keeps the message. ERR_NET if the peer has gone. */
pl_status pl_wire_send_to(pl_socket *socket, const pl_peer *peer,
                          const pl_message *message);
/* Sends from a client. ERR_NET: the queue is full, the server has long taken none. */
pl_status pl_wire_send(pl_socket *socket, const pl_message *message);
/* Sends without copying the data, which then belongs to ZeroMQ, even if the message was
 * not sent. `peer` is NULL on a client. */
pl_status pl_wire_give_to(pl_socket *socket, const pl_peer *peer, pl_message *message);

/* Takes one waiting message; ERR_TIMEOUT at once if there is none. `peer` may be NULL
 * on a client. `out` must be initialised; its buffers are reused. On a server, this
 * function answers a message with ERR_NOPERM if the role of the sender's key does not
 * allow the message; the caller does not get such a message. A client gets ERR_NOPERM
 * if its key is refused, or if the server is not the one that the address names. */
pl_status pl_wire_recv(pl_socket *socket, pl_peer *peer, pl_message *out);
/* Receives like pl_wire_recv, but large data stays in ZeroMQ's memory. The data may be
 * read until `out` is used for receiving again or destroyed, and must not be written,
 * grown, taken or freed. */
pl_status pl_wire_recv_lent(pl_socket *socket, pl_peer *peer, pl_message *out);

/* Waits for sockets and descriptors. ready[i] tells whether item i is ready (first the
 * sockets, then the descriptors). Returns how many are ready, 0 on timeout or signal.
 */
int pl_wire_poll(pl_socket *const *sockets, size_t n_sockets, const int *fds,
                 size_t n_fds, int timeout_ms, bool *ready);

/* What is known of a client's connection at this moment. */
typedef struct pl_wire_line {
    /* number of connections that were made so far; when a connection ends, messages
     * that were under way are lost */
    uint64_t n_connects;
    bool is_connected;
    /* Bytes that arrived here, and bytes whose arrival the other machine has confirmed.
     * They also rise within a long message. 0 for ipc, and without a connection. */
    uint64_t arrived_bytes, confirmed_bytes;
    uint32_t rtt_us; /* the shortest round trip; 0: not known */
} pl_wire_line;
void pl_wire_line_now(pl_socket *socket, pl_wire_line *out);
/* Returns the ms since a client lost its server; 0: connected. */
int64_t pl_wire_lost_ms(pl_socket *socket);
/* Tests whether a TCP connection to the address can be made, and ends it at once. The
 * error's sentence says which of these it is. ERR_NET: the name of the machine is
 * unknown, the name service is silent, or nothing listens at the port. ERR_TIMEOUT: the
 * machine does not answer within timeout_ms. Looking the name up may take longer. */
pl_status pl_wire_reach(const char *address, int timeout_ms);

/* What a socket has counted so far. */
typedef struct pl_wire_counts {
    uint64_t dropped; /* messages that failed the checks */
    /* messages that the sender's role does not allow, or whose key asked too much
     * (base/quota.h) */
    uint64_t refused;
    uint64_t bytes_sent, bytes_received;
} pl_wire_counts;
const pl_wire_counts *pl_wire_counted(const pl_socket *socket);
/* Charges the sender's key for work that the server did in vain. Its next messages are
 * dropped for eight times as long (base/quota.h), so such work cannot fill a server. */
void pl_wire_charge(pl_socket *socket, const pl_peer *from, double seconds);

/* Sends a question from a client and waits for its answer. The same request is sent
 * again every `retry_ms` until `timeout_ms`; answers to other requests are dropped.
 * Both limits begin anew when bytes arrive (until ten times `timeout_ms`). If the
 * answer is an error (ERR), returns the status and the sentence in it. */
pl_status pl_wire_ask(pl_socket *socket, const pl_message *question, int retry_ms,
                      int timeout_ms, pl_message *answer);
uint64_t pl_wire_next_request(void); /* a new request number */

/* The type of an ERR message, whose body has tag 1 = status, tag 2 = sentence. */
enum { PL_WIRE_ERR = 1 };
void pl_wire_error(pl_message *out, uint64_t request, pl_status status,
                   const char *sentence);
/* Returns the status of an ERR answer, never PL_OK; its sentence: the last error. */
pl_status pl_wire_error_of(const pl_message *answer);

/* Writes ZeroMQ's name and version. Returns false if it cannot encrypt. */
bool pl_wire_library(char out[128]);

/* Call it before exit, after all sockets are closed. */
void pl_wire_shutdown(void);

PL_C_END
