/* Sends and receives messages over ZeroMQ (docs/PROTOCOL.md section 1): opens sockets,
 * sends and receives frames, and checks senders.
 *
 * This file follows two rules. First, only pl_wire_poll waits, because a process has
 * one event loop, which a slow peer must not stop. Second, the caller gets only
 * messages that wire_decode has checked.
 *
 * ZeroMQ keeps messages whole and in order on one connection, and reconnects by itself.
 * But when a connection ends, messages that were under way are lost, and the peer gets
 * a new routing id when it connects again. Therefore a client repeats a question until
 * it is answered, and a question has the same effect if it arrives twice. */
#include "base/wire.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fs.h"
#include "base/gate.h"
#include "base/text.h"
#include "base/wire_internal.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

enum {
    LINGER_MS = 500,
    RECONNECT_MS = 50,
    RECONNECT_MAX_MS = 1000,
    /* the kernel repeats a lost SYN after 1, 3, 7, ... s; a new attempt is sooner */
    CONNECT_MS = 4000,
    KEEPALIVE_S = 5,
    KEEPALIVE_TRIES = 3,
    BACKLOG = 4096,
    HIGH_WATER = 1000,
    FRAME_EXTRA = 256, /* room for the bytes that CURVE adds to a frame */
    /* one call of pl_wire_recv drops at most this many bad messages */
    BAD_IN_A_ROW = 64
};

/* Keys and host are set when the process starts, before it has any socket. */
static struct {
    bool has_keys;
    pl_keypair keys;
    char advertised[PL_ADDRESS_MAX];
} self;

void pl_wire_keys(const pl_keypair *pair)
{
    self.has_keys = pair != NULL;
    if (pair)
        self.keys = *pair;
    else
        pl_keypair_wipe(&self.keys);
}

void pl_wire_advertise(const char *host)
{
    pl_copy_text(self.advertised, sizeof self.advertised, host);
}

/* The frames of one message, except the routing id, in buffers of ZeroMQ. A frame is
 * copied at most once, into the caller's message. On an encrypted connection only the
 * header is kept as a frame; pieces of body and data are joined in the message. */
typedef struct frame_list {
    zmq_msg_t frame[WIRE_FRAMES_MAX];
    /* number of frames that came; those beyond WIRE_FRAMES_MAX were dropped */
    size_t count;
    size_t bytes;
    /* the message into which pieces are joined; NULL without encryption */
    pl_message *joined;
    size_t body_len, data_len;
    bool has_body, is_bad;
} frame_list;

/* Data of fewer bytes than this is copied even if it may be lent (pl_wire_recv_lent),
 * because a copy costs less than keeping a frame. */
enum { LENT_FROM = 64 << 10 };

void wire_give_back(pl_message *message)
{
    if (!message->lent)
        return;
    zmq_msg_close(message->lent);
    pl_free(message->lent);
    message->lent = NULL;
    message->data = (pl_buf){0};
}

static void join_frame(frame_list *in, zmq_msg_t *frame)
{
    pl_message *m = in->joined;
    size_t len = zmq_msg_size(frame);
    if (in->count == 0) {
        pl_buf_clear(&m->body);
        pl_buf_clear(&m->data);
        in->is_bad =
            len != WIRE_HEADER_BYTES ||
            !wire_header_sizes(zmq_msg_data(frame), &in->body_len, &in->data_len);
        return;
    }
    pl_buf *to = in->has_body ? &m->data : &m->body;
    size_t left = (in->has_body ? in->data_len : in->body_len) - to->len;
    size_t piece = left < WIRE_PIECE ? left : WIRE_PIECE;
    if (in->is_bad || len != piece || (in->has_body && left == 0)) {
        in->is_bad = true;
        return;
    }
    pl_buf_reserve(to, left);
    pl_buf_append(to, zmq_msg_data(frame), len);
    in->has_body = in->has_body || to->len == in->body_len;
}

static bool frames_decode(frame_list *in, bool may_lend, pl_message *out)
{
    wire_frame frames[WIRE_FRAMES_MAX], data;
    for (size_t i = 0; i < in->count && i < (in->joined ? 1 : WIRE_FRAMES_MAX); i++)
        frames[i] =
            (wire_frame){zmq_msg_data(&in->frame[i]), zmq_msg_size(&in->frame[i])};
    if (in->joined) {
        if (in->is_bad || !in->has_body)
            return false;
        frames[1] = (wire_frame){out->body.data, out->body.len};
        frames[2] = (wire_frame){out->data.data, out->data.len};
        if (!wire_check(frames, in->data_len > 0 ? 3 : 2))
            return false;
        wire_header_decode(frames[0].data, out);
        return true;
    }
    if (!wire_decode(frames, in->count, out, &data))
        return false;
    if (may_lend && data.len >= LENT_FROM) {
        /* the message keeps the frame that contains its data */
        zmq_msg_t *kept = pl_alloc(sizeof *kept);
        zmq_msg_init(kept);
        zmq_msg_move(kept, &in->frame[WIRE_FRAMES_MAX - 1]);
        pl_buf_destroy(&out->data);
        out->data = (pl_buf){.data = zmq_msg_data(kept), .len = zmq_msg_size(kept)};
        out->lent = kept;
    } else
        pl_buf_append(&out->data, data.data, data.len);
    return true;
}

/* The one ZeroMQ context of the process; the first caller makes it. */
static _Atomic(void *) process_context;
static _Atomic int n_open; /* number of open sockets */

void *wire_context(void)
{
    void *made = atomic_load(&process_context);
    if (made)
        return made;
    pl_keep_blocks();
    void *fresh = zmq_ctx_new();
    if (atomic_compare_exchange_strong(&process_context, &made, fresh))
        return fresh;
    zmq_ctx_term(fresh); /* another thread made the context first */
    return made;
}

/* Ends ZeroMQ only if all sockets are closed: it would wait for ever for an open one,
 * and the process could not end. */
void pl_wire_shutdown(void)
{
    if (atomic_load(&n_open) > 0)
        return;
    pl_gate_close();
    void *old = atomic_exchange(&process_context, NULL);
    if (old)
        while (zmq_ctx_term(old) != 0 && zmq_errno() == EINTR)
            continue;
}

pl_status wire_cannot_listen(const char *address)
{
    if (zmq_errno() == EADDRINUSE)
        return pl_fail(
            PL_ERR_BUSY,
            "%s is in use by another process; stop it or choose another port", address);
    return wire_failed("cannot listen on", address, PL_ERR_NET);
}

pl_status wire_failed(const char *action, const char *address, pl_status otherwise)
{
    char remedy[PL_REMEDY_MAX];
    const int cause = zmq_errno();
    return pl_fail(pl_status_of_errno(cause, otherwise), "%s %s: %s%s", action, address,
                   zmq_strerror(cause), pl_file_remedy(cause, "", 0, remedy));
}

/* The kernel finds dead connections. ZeroMQ's heartbeats would end a connection whose
 * answer waits behind a long message on a slow link, and a hub with thousands of
 * clients spent most of its time in their timers.
 *
 * An IPv6 socket would report its IPv4 address as tcp://[::ffff:127.0.0.1]:PORT, to
 * which no client could connect. Therefore ZMQ_IPV6 is set only for IPv6 addresses. */
static pl_status open_socket(const pl_address *at, bool is_server, bool is_secure,
                             pl_socket **out)
{
    const char *address = at->endpoint;
    const struct {
        int name, value;
        bool server_only, client_only;
    } options[] = {
        {ZMQ_LINGER, LINGER_MS, false, false},
        {ZMQ_SNDHWM, HIGH_WATER, false, false},
        {ZMQ_RCVHWM, HIGH_WATER, false, false},
        {ZMQ_IPV6, pl_starts_with(address, "tcp://["), false, false},
        {ZMQ_HANDSHAKE_IVL, WIRE_HANDSHAKE_MS, true, false},
        {ZMQ_HANDSHAKE_IVL, WIRE_CLIENT_MS, false, true},
        {ZMQ_TCP_MAXRT, WIRE_SILENT_MS, false, true},
        {ZMQ_TCP_MAXRT, 6 * WIRE_SILENT_MS, true, false},
        {ZMQ_TCP_KEEPALIVE, 1, false, false},
        {ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_S, false, false},
        {ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_S, false, false},
        {ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_TRIES, false, false},
        {ZMQ_BACKLOG, BACKLOG, true, false},
        {ZMQ_ROUTER_MANDATORY, 1, true, false},
        {ZMQ_ROUTER_HANDOVER, 0, true, false},
        {ZMQ_IMMEDIATE, 0, false, true},
        {ZMQ_CONNECT_TIMEOUT, CONNECT_MS, false, true},
        {ZMQ_RECONNECT_IVL, RECONNECT_MS, false, true},
        {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS, false, true},
    };
    const int64_t frame_max = (is_secure ? WIRE_PIECE : PL_WIRE_DATA_MAX) + FRAME_EXTRA;
    pl_socket *socket = pl_alloc(sizeof *socket);
    socket->is_server = is_server;
    socket->is_secure = is_secure;
    socket->fd = -1;
    socket->shares = is_server && is_secure ? quota_create() : NULL;
    pl_copy_text(socket->address, sizeof socket->address, address);
    socket->zmq = zmq_socket(wire_context(), is_server ? ZMQ_ROUTER : ZMQ_DEALER);
    atomic_fetch_add(&n_open, socket->zmq != NULL);
    pl_status status = PL_OK;
    if (!socket->zmq)
        PL_TRY(wire_failed("cannot open a socket for", address, PL_ERR_OS));
    int failed =
        zmq_setsockopt(socket->zmq, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max);
    for (size_t i = 0; i < sizeof options / sizeof *options && !failed; i++)
        if (!(is_server ? options[i].client_only : options[i].server_only))
            failed = zmq_setsockopt(socket->zmq, options[i].name, &options[i].value,
                                    sizeof options[i].value);
    if (failed)
        status = pl_fail(PL_ERR_INTERNAL, "ZeroMQ refuses a socket option: %s",
                         zmq_strerror(zmq_errno()));
done:
    if (status != PL_OK)
        pl_wire_close(&socket);
    *out = socket;
    return status;
}

static pl_status bind_socket(pl_socket *socket, const char *address)
{
    if (socket->is_secure)
        PL_CHECK(wire_curve_server(socket->zmq, &self.keys));
    if (pl_starts_with(address, "tcp://"))
        PL_CHECK(wire_watch_server(socket));
    return zmq_bind(socket->zmq, address) == 0 ? PL_OK : wire_cannot_listen(address);
}

pl_status pl_wire_bind(const char *address, pl_socket **out, char bound[PL_ADDRESS_MAX])
{
    pl_address at, got;
    char host[PL_ADDRESS_MAX];
    size_t size = PL_ADDRESS_MAX;
    pl_status status = PL_OK;
    bound[0] = 0;
    *out = NULL;
    PL_CHECK(pl_address_parse(address, &at));
    if (!at.is_local && !pl_gate_is_open())
        return pl_fail(PL_ERR_CONFIG,
                       "%s can be reached from other machines, so it must be "
                       "encrypted: give this process a key and a list of keys",
                       at.endpoint);
    if (strcmp(at.endpoint, PL_ADDRESS_PRIVATE) == 0)
        PL_CHECK(wire_ipc_private(at.endpoint));
    PL_CHECK(wire_ipc_check(at.endpoint));
    PL_CHECK(open_socket(&at, true, pl_gate_is_open(), out));
    pl_socket *socket = *out;
    PL_TRY(bind_socket(socket, at.endpoint));
    /* `bound`: the address by which others reach the socket, with its key */
    if (zmq_getsockopt(socket->zmq, ZMQ_LAST_ENDPOINT, socket->address, &size) != 0)
        PL_TRY(pl_fail(PL_ERR_NET,
                       "the address of a socket that listens cannot be read: %s",
                       zmq_strerror(zmq_errno())));
    PL_TRY(pl_address_parse(socket->address, &got));
    pl_copy_text(host, sizeof host, self.advertised);
    if (got.is_anywhere && !host[0])
        pl_address_of_machine(host);
    pl_address_format(&got, host, socket->is_secure ? &self.keys.open : NULL, bound);
    socket->is_bound = true;
done:
    if (status != PL_OK)
        pl_wire_close(out);
    return status;
}

pl_status pl_wire_check_free(const char *address)
{
    pl_address at;
    pl_socket *socket = NULL;
    PL_CHECK(pl_address_parse(address, &at));
    if (strcmp(at.endpoint, PL_ADDRESS_PRIVATE) == 0)
        return PL_OK;
    PL_CHECK(wire_ipc_check(at.endpoint));
    pl_status status =
        at.host[0] ? wire_tcp_check(&at) : wire_ipc_check_folder(at.endpoint);
    if (status != PL_ERR_NOT_FOUND)
        return status;
    PL_CHECK(open_socket(&at, true, false, &socket));
    status = bind_socket(socket, at.endpoint);
    socket->is_bound = status == PL_OK;
    pl_wire_close(&socket);
    return status;
}

pl_status pl_wire_connect_as(const char *address, const pl_keypair *own,
                             pl_socket **out)
{
    pl_address at;
    *out = NULL;
    PL_CHECK(pl_address_parse(address, &at));
    if (!own && self.has_keys)
        own = &self.keys;
    if (!at.is_local && !at.has_key)
        return pl_fail(PL_ERR_CONFIG,
                       "%s is not on this machine and has no key; give the whole "
                       "address, as the other process printed it (tcp://HOST:PORT#KEY)",
                       at.endpoint);
    if (at.has_key && !own)
        return pl_fail(PL_ERR_CONFIG,
                       "%s is encrypted, and this process has no key of its own; give "
                       "--key FILE (`pathloom key new` makes one)",
                       at.endpoint);
    PL_CHECK(open_socket(&at, false, at.has_key, out));
    pl_status status = PL_OK;
    if (at.has_key)
        status = wire_curve_client((*out)->zmq, own, &at.key);
    if (status == PL_OK &&
        (!wire_watch_client(*out) || zmq_connect((*out)->zmq, at.endpoint) != 0))
        status = wire_failed("cannot connect to", at.endpoint, PL_ERR_NET);
    if (status != PL_OK)
        pl_wire_close(out);
    return status;
}

pl_status pl_wire_connect(const char *address, pl_socket **out)
{
    return pl_wire_connect_as(address, NULL, out);
}

void pl_wire_close(pl_socket **socket)
{
    if (!*socket)
        return;
    if ((*socket)->is_bound) /* removes the socket's file, because ZeroMQ does not */
        wire_ipc_remove((*socket)->address);
    wire_watch_end(*socket);
    if ((*socket)->zmq && zmq_close((*socket)->zmq) == 0)
        atomic_fetch_sub(&n_open, 1);
    quota_destroy(&(*socket)->shares);
    pl_free(*socket);
    *socket = NULL;
}

/* Sends a frame without waiting. Only the first frame of a message can find the queue
 * full or the peer gone, because ZeroMQ accepts messages as a whole. */
static bool send_frame(pl_socket *socket, const void *data, size_t len, bool more)
{
    int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
    int sent;
    do
        sent = zmq_send(socket->zmq, data, len, flags);
    while (sent < 0 && zmq_errno() == EINTR);
    return sent >= 0;
}

/* Returns how many of the `left` bytes the next frame takes. */
static size_t frame_of(const pl_socket *socket, size_t left)
{
    return socket->is_secure && left > WIRE_PIECE ? WIRE_PIECE : left;
}

static bool send_pieces(pl_socket *socket, const pl_buf *bytes, bool more)
{
    size_t at = 0;
    do {
        size_t n = frame_of(socket, bytes->len - at);
        if (!send_frame(socket, bytes->data + at, n, more || at + n < bytes->len))
            return false;
        at += n;
    } while (at < bytes->len);
    return true;
}

/* Data that one of ZeroMQ's threads frees after it has sent the last piece. */
typedef struct given_bytes {
    void *data;
    size_t len;
    quota_unsent *unsent;
    atomic_size_t n_pieces;
} given_bytes;

static void free_given(void *data, void *context)
{
    given_bytes *g = context;
    (void)data;
    if (atomic_fetch_sub(&g->n_pieces, 1) > 1)
        return;
    quota_sent(g->unsent, g->len);
    pl_free_all(g->data, g);
}

static bool give_pieces(pl_socket *socket, const pl_peer *peer, pl_buf *data)
{
    given_bytes *g = pl_alloc(sizeof *g);
    size_t len = data->len;
    bool given = true;
    g->data = data->data;
    g->len = len;
    g->unsent = peer ? quota_give(socket->shares, peer, len) : NULL;
    atomic_store(&g->n_pieces, 1); /* the sending function holds one reference itself */
    *data = (pl_buf){0};
    for (size_t at = 0, n; at < len && given; at += n) {
        zmq_msg_t frame;
        int sent, flags = ZMQ_DONTWAIT;
        n = frame_of(socket, len - at);
        flags |= at + n < len ? ZMQ_SNDMORE : 0;
        atomic_fetch_add(&g->n_pieces, 1);
        if (zmq_msg_init_data(&frame, (char *)g->data + at, n, free_given, g) != 0) {
            free_given(NULL, g);
            given = false;
            break;
        }
        do
            sent = zmq_msg_send(&frame, socket->zmq, flags);
        while (sent < 0 && zmq_errno() == EINTR);
        given = sent >= 0;
        if (!given)
            zmq_msg_close(&frame);
    }
    free_given(NULL, g);
    return given;
}

/* Sends a message. If `given` is not NULL, it holds the message's data, and ZeroMQ
 * sends it without a copy; otherwise the data is copied. */
static pl_status send_message(pl_socket *socket, const pl_peer *peer,
                              const pl_message *message, pl_buf *given)
{
    const pl_buf *body = &message->body, *data = &message->data;
    const char *to = peer ? "a client of" : "the server at";
    if (body->len > PL_WIRE_BODY_MAX || data->len > PL_WIRE_DATA_MAX)
        return pl_fail(PL_ERR_ARG,
                       "a message of type %u is too large: its body has %zu and its "
                       "data %zu bytes, but the limits are %d and %d",
                       (unsigned)message->type, body->len, data->len, PL_WIRE_BODY_MAX,
                       PL_WIRE_DATA_MAX);
    uint8_t header[WIRE_HEADER_BYTES];
    PL_CHECK(pl_failpoint("wire.send.before"));
    wire_header_encode(message, header);
    bool more = data->len > 0;
    size_t bytes = WIRE_HEADER_BYTES + body->len + data->len;
    if ((peer && !send_frame(socket, peer->id, peer->len, true)) ||
        !send_frame(socket, header, sizeof header, true) ||
        !send_pieces(socket, body, more) ||
        (more && !(given ? give_pieces(socket, peer, given)
                         : send_pieces(socket, data, false)))) {
        int cause = zmq_errno();
        if (cause == EHOSTUNREACH)
            return pl_fail(PL_ERR_NET, "%s %s is not connected any more", to,
                           socket->address);
        if (cause == EAGAIN)
            return pl_fail(
                PL_ERR_NET,
                "%s %s accepts no more messages, because %d are waiting to be sent", to,
                socket->address, HIGH_WATER);
        return pl_fail(PL_ERR_NET, "cannot send to %s %s: %s", to, socket->address,
                       zmq_strerror(cause));
    }
    socket->counts.bytes_sent += bytes;
    return pl_failpoint("wire.send.after");
}

/* Whether an error message is about a problem of this machine, such as a full disk. The
 * sentence of such an error may contain names of files. So a peer gets a general
 * sentence unless it is local, a hub, a home or an administrator, and the original
 * sentence is logged. */
static bool is_own_trouble(const pl_peer *peer, const pl_message *m)
{
    if (m->type != PL_WIRE_ERR || peer->role == PL_AS_LOCAL ||
        peer->role == PL_AS_ADMIN || peer->role == PL_AS_HUB ||
        peer->role == PL_AS_HOME)
        return false;
    switch ((int)pl_wire_error_of(m)) {
    case PL_ERR_CONFIG:
    case PL_ERR_DAMAGED:
    case PL_ERR_IO:
    case PL_ERR_FILES:
    case PL_ERR_NOSPACE:
    case PL_ERR_NOMEM:
    case PL_ERR_OS:
    case PL_ERR_DEVICE:
    case PL_ERR_INTERNAL:
        return true;
    default:
        return false;
    }
}

static pl_status send_trouble(pl_socket *socket, const pl_peer *peer,
                              const pl_message *message)
{
    pl_message m = {0};
    pl_status why = pl_wire_error_of(message);
    wire_tell_refusal(socket, peer, pl_last_error());
    pl_wire_error(&m, message->request, why,
                  "the other process cannot do this because of a problem on its "
                  "machine; its log says which");
    m.epoch = message->epoch;
    pl_status status = send_message(socket, peer, &m, NULL);
    pl_message_destroy(&m);
    return status;
}

pl_status pl_wire_send_to(pl_socket *socket, const pl_peer *peer,
                          const pl_message *message)
{
    if (is_own_trouble(peer, message))
        return send_trouble(socket, peer, message);
    return send_message(socket, peer, message, NULL);
}

pl_status pl_wire_send(pl_socket *socket, const pl_message *message)
{
    return send_message(socket, NULL, message, NULL);
}

pl_status pl_wire_give_to(pl_socket *socket, const pl_peer *peer, pl_message *message)
{
    pl_status status = peer && is_own_trouble(peer, message)
                           ? send_trouble(socket, peer, message)
                           : send_message(socket, peer, message, &message->data);
    pl_buf_destroy(&message->data);
    return status;
}

/* Receives the next frame, which the caller closes; returns false if there is none. */
static bool recv_frame(pl_socket *socket, zmq_msg_t *frame)
{
    zmq_msg_init(frame);
    int got;
    do
        got = zmq_msg_recv(frame, socket->zmq, ZMQ_DONTWAIT);
    while (got < 0 && zmq_errno() == EINTR);
    return got >= 0;
}

/* Receives one message, good or bad; returns false if no message is waiting. It is
 * received as a whole, so that a bad one does not shift the frames of the next. On an
 * encrypted connection the frames after the header are joined in the message. */
static bool take_message(pl_socket *socket, pl_peer *peer, bool may_lend,
                         pl_message *out, bool *good)
{
    frame_list in = {.joined = socket->is_secure ? out : NULL};
    const size_t most = in.joined ? 1 : WIRE_FRAMES_MAX;
    bool more = true, whole = true;
    wire_give_back(out);
    *good = false;
    if (socket->is_server) { /* the first frame is the routing id of the sender */
        zmq_msg_t id;
        const bool got = recv_frame(socket, &id);
        const size_t len = got ? zmq_msg_size(&id) : 0;
        more = got && zmq_msg_more(&id);
        peer->len = len <= PL_WIRE_PEER_MAX ? len : 0;
        memcpy(peer->id, zmq_msg_data(&id), peer->len);
        zmq_msg_close(&id);
        if (!got)
            return false;
    }
    /* All frames are counted; those beyond `most` are not kept. A message arrives as a
     * whole, so after its first frame the others are available. */
    while (more) {
        zmq_msg_t spare;
        zmq_msg_t *frame = in.count < most ? &in.frame[in.count] : &spare;
        whole = recv_frame(socket, frame);
        if (!whole) {
            zmq_msg_close(frame);
            break;
        }
        more = zmq_msg_more(frame);
        in.bytes += zmq_msg_size(frame);
        if (in.joined)
            join_frame(&in, frame);
        if (frame == &spare)
            zmq_msg_close(&spare);
        in.count++;
    }
    if (!whole && !socket->is_server && in.count == 0)
        return false;
    *good = whole && (!socket->is_server || peer->len > 0) &&
            frames_decode(&in, may_lend, out);
    if (*good)
        socket->counts.bytes_received += in.bytes;
    else
        socket->counts.dropped++;
    if (socket->is_server && whole && peer->len > 0 && in.count > 0) {
        zmq_msg_t *head = &in.frame[0];
        peer->role = PL_AS_LOCAL;
        peer->own = true;
        memset(&peer->key, 0, sizeof peer->key);
        if (socket->crowd)
            wire_watch_heard(socket, zmq_msg_get(head, ZMQ_SRCFD));
        if (socket->is_secure) {
            /* the gate gave the sender's key to ZeroMQ when the connection was made */
            const char *user = zmq_msg_gets(head, "User-Id");
            peer->role = user && pl_pubkey_parse(user, &peer->key) == PL_OK
                             ? pl_gate_role(&peer->key, &peer->own)
                             : PL_AS_NONE;
            peer->own = peer->own && peer->role != PL_AS_NONE;
        }
        if (!*good)
            wire_refuse_version(socket, peer, zmq_msg_data(head), zmq_msg_size(head));
        else if (socket->is_secure)
            *good = wire_admit(socket, peer, out);
    }
    size_t kept = in.count < most ? in.count : most;
    for (size_t i = 0; i < kept; i++)
        zmq_msg_close(&in.frame[i]);
    return true;
}

static pl_status recv_message(pl_socket *socket, pl_peer *peer, bool may_lend,
                              pl_message *out)
{
    pl_peer unused;
    bool good = false;
    for (int i = 0; i < BAD_IN_A_ROW && !good; i++)
        if (!take_message(socket, peer ? peer : &unused, may_lend, out, &good))
            break;
    if (good)
        return PL_OK;
    if (!socket->is_server)
        PL_CHECK(wire_client_verdict(socket));
    else if (socket->is_secure)
        wire_tell_failed_clients(socket);
    /* not an error, so the thread's last error stays as it is */
    return PL_ERR_TIMEOUT;
}

pl_status pl_wire_recv(pl_socket *socket, pl_peer *peer, pl_message *out)
{
    return recv_message(socket, peer, false, out);
}

pl_status pl_wire_recv_lent(pl_socket *socket, pl_peer *peer, pl_message *out)
{
    return recv_message(socket, peer, true, out);
}

/* A signal ends the wait early. Then the caller should look at the flags that its
 * signal handlers set, and call pl_wire_poll again. */
int pl_wire_poll(pl_socket *const *sockets, size_t n_sockets, const int *fds,
                 size_t n_fds, int timeout_ms, bool *ready)
{
    size_t n_items = n_sockets + n_fds;
    zmq_pollitem_t *items = pl_alloc(n_items * sizeof *items);
    for (size_t i = 0; i < n_sockets; i++)
        items[i] = (zmq_pollitem_t){.socket = sockets[i]->zmq, .events = ZMQ_POLLIN};
    for (size_t i = 0; i < n_fds; i++)
        items[n_sockets + i] = (zmq_pollitem_t){.fd = fds[i], .events = ZMQ_POLLIN};
    int n_ready = zmq_poll(items, (int)n_items, timeout_ms);
    for (size_t i = 0; i < n_items; i++)
        ready[i] = n_ready > 0 && items[i].revents != 0;
    pl_free(items);
    return n_ready > 0 ? n_ready : 0;
}

const pl_wire_counts *pl_wire_counted(const pl_socket *socket)
{
    return &socket->counts;
}

void pl_wire_charge(pl_socket *socket, const pl_peer *from, double seconds)
{
    if (socket && socket->shares)
        quota_charge(socket->shares, from, seconds, pl_now_ms());
}
