/* Reads ZeroMQ's events about the connections of a socket (accepted, handshakes that
 * succeeded or failed, ended). For a client it turns them into a verdict, asks the
 * kernel about the connection, and chooses how it avoids congestion. For a server that
 * listens on TCP, a thread keeps the connections as a crowd (crowd.h), and shuts down
 * those that strangers hold. ZeroMQ itself accepts connections without a limit.
 *
 * ZeroMQ owns the sockets of connections and may close one at any time; its number may
 * then belong to a different file. So before a socket is shut down, its peer is
 * compared with the peer that was accepted. */
#include "base/clock.h"
#include "base/crowd.h"
#include "base/gate.h"
#include "base/thread.h"
#include "base/wire_internal.h"
#include <linux/tcp.h> /* its tcp_info is newer than that of netinet/tcp.h */
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

/* BROKEN_MS: nothing but broken handshakes for this time means a wrong key. PAUSE_MS:
 * so long after a broken handshake the next one begins a new series. GIVEN_UP_MS:
 * ZeroMQ tells within milliseconds that it will connect again; if it is silent for this
 * time, it will not. */
enum { BROKEN_MS = 20000, PAUSE_MS = 10000, GIVEN_UP_MS = 1000 };

/* Makes ZeroMQ report events of a socket to socket->monitor. A report has two frames:
 * the first has the kind of the event and a number, the second has the endpoint. */
static bool watch_socket(pl_socket *socket, int events)
{
    static atomic_uint count;
    char name[32];
    snprintf(name, sizeof name, "inproc://monitor-%u", atomic_fetch_add(&count, 1));
    int none = 0;
    socket->monitor = zmq_socket(wire_context(), ZMQ_PAIR);
    /* the queue has no limit: the thread that writes events must not wait */
    return socket->monitor &&
           zmq_setsockopt(socket->monitor, ZMQ_RCVHWM, &none, sizeof none) == 0 &&
           zmq_socket_monitor(socket->zmq, name, events) == 0 &&
           zmq_connect(socket->monitor, name) == 0;
}

static const int failed_handshakes = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                     ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

bool wire_watch_client(pl_socket *socket)
{
    socket->lost_ms = pl_now_ms();
    return watch_socket(socket, ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                                    ZMQ_EVENT_DISCONNECTED |
                                    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | failed_handshakes);
}

/* Reads the next event, of at most two frames; returns false if none waits. */
static bool next_event(void *monitor, uint16_t *event, uint32_t *value)
{
    uint8_t frame[PL_ADDRESS_MAX];
    if (zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT) < 6)
        return false;
    memcpy(event, frame, sizeof *event);
    memcpy(value, frame + sizeof *event, sizeof *value);
    return zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT) >= 0;
}

/* If the server's key is not the key that the client expects, ZeroMQ ends the handshake
 * without a reason. So does a server that ends, and a tunnel or a load balancer in
 * front of a server that is away. Only a long series means a wrong key. */
static void note_broken(pl_socket *socket)
{
    int64_t now = pl_now_ms();
    if (socket->n_broken == 0 || now - socket->last_broken_ms > PAUSE_MS) {
        socket->n_broken = 0;
        socket->broken_ms = now;
    }
    socket->n_broken++;
    socket->last_broken_ms = now;
    if (now - socket->broken_ms >= BROKEN_MS && socket->is_secure)
        socket->seen = WIRE_BROKEN;
}

/* Chooses bbr for a connection between machines. cubic and reno take each lost packet
 * for a full queue: with 1 % of loss and 80 ms they reach a tenth of the link. If the
 * administrator chose a different algorithm, or does not permit bbr, that choice stays.
 * The connections of a server inherit the choice from the socket that listens. */
static void choose_congestion(bool is_secure, int fd)
{
    static const char wanted[] = "bbr";
    char now[16] = {0};
    socklen_t len = sizeof now - 1;
    if (is_secure && getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &len) == 0 &&
        (strcmp(now, "cubic") == 0 || strcmp(now, "reno") == 0))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted, sizeof wanted - 1);
}

static void drain_monitor(pl_socket *socket)
{
    uint16_t event;
    uint32_t value;
    while (socket->monitor && next_event(socket->monitor, &event, &value))
        switch (event) {
        case ZMQ_EVENT_CONNECTED:
            socket->fd = (int)value;
            socket->loses = false;
            socket->given_up_ms = 0;
            choose_congestion(socket->is_secure, socket->fd);
            break;
        case ZMQ_EVENT_CONNECT_RETRIED:
            socket->given_up_ms = 0;
            break;
        case ZMQ_EVENT_DISCONNECTED:
            socket->fd = -1;
            socket->given_up_ms = pl_now_ms();
            if (socket->lost_ms == 0)
                socket->lost_ms = pl_now_ms();
            break;
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            socket->connections++;
            socket->lost_ms = 0;
            socket->n_broken = 0;
            socket->seen = WIRE_FINE;
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
            socket->seen = WIRE_KEY_REFUSED;
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
                socket->seen = WIRE_OTHER_MECHANISM;
            else
                note_broken(socket);
            break;
        default:
            note_broken(socket);
        }
    /* ZeroMQ never connects again after it met a process that speaks something else.
     * The right server may come back to its address later. */
    if (socket->given_up_ms != 0 && pl_now_ms() - socket->given_up_ms >= GIVEN_UP_MS) {
        zmq_disconnect(socket->zmq, socket->address);
        const bool tries = zmq_connect(socket->zmq, socket->address) == 0;
        socket->given_up_ms = tries ? 0 : pl_now_ms();
    }
}

pl_status wire_client_verdict(pl_socket *socket)
{
    drain_monitor(socket);
    switch (socket->seen) {
    case WIRE_FINE:
        break;
    case WIRE_KEY_REFUSED:
        return pl_fail(PL_ERR_NOPERM,
                       "%s refuses the key of this process: it is not in the list "
                       "there, was taken out, or has expired; ask for an invitation "
                       "(`pathloom key invite` there, `pathloom join TOKEN` here)",
                       socket->address);
    case WIRE_OTHER_MECHANISM:
        /* A process without keys took the port of the right server while it is away. */
        if (socket->connections > 0 && socket->is_secure)
            break;
        return pl_fail(PL_ERR_NOPERM, "%s %s", socket->address,
                       socket->is_secure
                           ? "is not encrypted, but the address has a key; it is not "
                             "the process for which this address was made"
                           : "is encrypted; give its whole address, with its key "
                             "(tcp://HOST:PORT#KEY)");
    case WIRE_BROKEN:
        /* A server that was the right one before is away: what answers in its place is
         * a proxy, or another process that took its port. */
        if (socket->connections > 0)
            break;
        return pl_fail(PL_ERR_NOPERM,
                       "%s ends every handshake: it does not have the key that the "
                       "address names, or is not encrypted (%d handshakes failed in a "
                       "row); copy its address again from the machine where it runs",
                       socket->address, socket->n_broken);
    }
    return PL_OK;
}

/* socket->connections counts the connections that were made since the socket was
 * opened. ZeroMQ owns the descriptor, and may have closed it a moment ago. In the worst
 * case the numbers are those of another connection, or 0. */
void pl_wire_line_now(pl_socket *socket, pl_wire_line *out)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    memset(&info, 0, sizeof info);
    drain_monitor(socket);
    *out = (pl_wire_line){.n_connects = socket->connections,
                          .is_connected = socket->lost_ms == 0};
    if (!out->is_connected || socket->fd < 0 ||
        getsockopt(socket->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return;
    /* A full link with hundreds of connections loses the same packet several times in a
     * row: a connection that confirms nothing for WIRE_SILENT_MS is alive there. A new
     * one would send again what was on its way, so such a connection has three times as
     * long. Where few packets are lost, silence means that the peer or the route is
     * gone: an outage alone repeats at most a few packets within WIRE_SILENT_MS. */
    const bool loses = info.tcpi_total_retrans > 16 + info.tcpi_segs_out / 20;
    const int ms = loses ? 3 * WIRE_SILENT_MS : WIRE_SILENT_MS;
    if (loses != socket->loses)
        (void)setsockopt(socket->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    socket->loses = loses;
    out->arrived_bytes = info.tcpi_bytes_received;
    out->confirmed_bytes = info.tcpi_bytes_acked;
    /* the kernel sets the smallest round trip to all ones until it has measured one */
    out->rtt_us = info.tcpi_min_rtt == UINT32_MAX ? 0 : info.tcpi_min_rtt;
}

int64_t pl_wire_lost_ms(pl_socket *socket)
{
    drain_monitor(socket);
    if (socket->lost_ms == 0)
        return 0;
    const int64_t ms = pl_now_ms() - socket->lost_ms;
    return ms > 0 ? ms : 1; /* 0 would mean that there is a connection */
}

/* ---- the connections of a server ---- */
enum {
    /* Until their handshakes are over, strangers cost about 62 KiB of memory each. */
    WAITING_MAX = 2048,
    SWEEP_MS = 1000
};

typedef struct connection {
    pl_guest guest; /* first: the list of the crowd leads to connections */
    uint16_t port;
} connection;

struct wire_crowd {
    void *monitor;
    bool is_secure;
    pl_thread *thread;
    pl_crowd crowd;
    /* [n_files] whether a message came from the connection with this descriptor */
    _Atomic uint8_t *heard;
    int n_files;
    /* numbers of refused connections that were not reported yet, by their reasons */
    atomic_int n_plain, n_broken, n_cut;
};

/* Fills in the peer of a socket. Addresses of one IPv6 network (/64) count as one. */
static bool find_peer(int fd, uint32_t *address, uint16_t *port)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
        return false;
    if (peer.ss_family == AF_INET) {
        struct sockaddr_in at;
        memcpy(&at, &peer, sizeof at);
        *address = ntohl(at.sin_addr.s_addr);
        *port = at.sin_port;
        return true;
    }
    if (peer.ss_family != AF_INET6)
        return false;
    struct sockaddr_in6 at;
    uint32_t half[2];
    memcpy(&at, &peer, sizeof at);
    memcpy(half, &at.sin6_addr, sizeof half);
    *address = half[0] ^ half[1] * 2654435761u;
    *port = at.sin6_port;
    return true;
}

static bool is_same_peer(const pl_guest *guest)
{
    uint32_t address;
    uint16_t port;
    return find_peer(guest->socket, &address, &port) && address == guest->address &&
           port == ((const connection *)guest)->port;
}

static void remove_connection(struct wire_crowd *w, int fd)
{
    pl_guest *g = w->crowd.first;
    while (g && g->socket != fd)
        g = g->next;
    if (!g)
        return;
    pl_crowd_leave(&w->crowd, g);
    pl_free(g);
}

static void add_connection(struct wire_crowd *w, int fd)
{
    connection *c = pl_alloc(sizeof *c);
    remove_connection(w, fd);
    c->guest.socket = fd;
    if (fd < 0 || !find_peer(fd, &c->guest.address, &c->port)) {
        pl_free(c); /* it has ended already */
        return;
    }
    if (fd < w->n_files)
        atomic_store(&w->heard[fd], 0);
    pl_guest_waits(&c->guest);
    pl_crowd_enter(&w->crowd, &c->guest);
}

/* A connection is busy from its first message on, or when it has lasted longer than
 * ZeroMQ waits for a handshake. */
static void settle_connections(struct wire_crowd *w)
{
    const int64_t now = pl_now_ms();
    for (pl_guest *g = w->crowd.first; g; g = g->next)
        if (g->waits_ms > 0 &&
            ((g->socket < w->n_files && atomic_load(&w->heard[g->socket])) ||
             now - g->waits_ms > WIRE_HANDSHAKE_MS + SWEEP_MS))
            pl_guest_is_busy(g);
    atomic_fetch_add(&w->n_cut, pl_crowd_settle(&w->crowd));
}

static void run_crowd(void *context)
{
    struct wire_crowd *w = context;
    uint16_t event = 0;
    uint32_t value;
    while (event != ZMQ_EVENT_MONITOR_STOPPED) {
        zmq_pollitem_t item = {.socket = w->monitor, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, SWEEP_MS);
        while (event != ZMQ_EVENT_MONITOR_STOPPED &&
               next_event(w->monitor, &event, &value)) {
            if (event == ZMQ_EVENT_LISTENING)
                choose_congestion(w->is_secure, (int)value);
            else if (event == ZMQ_EVENT_ACCEPTED)
                add_connection(w, (int)value);
            else if (event == ZMQ_EVENT_DISCONNECTED)
                remove_connection(w, (int)value);
            else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                     value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
                atomic_fetch_add(&w->n_plain, 1);
            else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                     event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
                atomic_fetch_add(&w->n_broken, 1);
            /* ACCEPT_FAILED: the process has no free descriptor */
            if (event == ZMQ_EVENT_ACCEPTED || event == ZMQ_EVENT_ACCEPT_FAILED)
                settle_connections(w);
        }
        settle_connections(w);
    }
    while (w->crowd.first)
        remove_connection(w, w->crowd.first->socket);
    zmq_close(w->monitor);
}

pl_status wire_watch_server(pl_socket *socket)
{
    struct wire_crowd *w = pl_alloc(sizeof *w);
    const int files = pl_files_for_guests();
    if (!watch_socket(socket, failed_handshakes | ZMQ_EVENT_LISTENING |
                                  ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED |
                                  ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_MONITOR_STOPPED)) {
        pl_free(w);
        return wire_failed("cannot observe the connections of", socket->address,
                           PL_ERR_OS);
    }
    w->monitor = socket->monitor;
    w->is_secure = socket->is_secure;
    w->n_files = pl_files_limit();
    w->heard = pl_alloc((size_t)w->n_files);
    w->crowd = (pl_crowd){.places = files,
                          .waiting = files / 2 < WAITING_MAX ? files / 2 : WAITING_MAX,
                          .wait_limit_ms = INT64_MAX,
                          .busy_limit_ms = INT64_MAX,
                          .is_open = is_same_peer};
    pl_status status = pl_thread_start("crowd", run_crowd, w, &w->thread);
    if (status != PL_OK) {
        pl_free_all(w->heard, w);
        return status;
    }
    socket->monitor = NULL; /* the thread closes it */
    socket->crowd = w;
    return PL_OK;
}

void wire_watch_heard(pl_socket *socket, int fd)
{
    if (fd >= 0 && fd < socket->crowd->n_files)
        atomic_store(&socket->crowd->heard[fd], 1);
}

/* The reports of events must stop first, because events that are not read would block
 * ZeroMQ's thread. The last report tells the thread of a crowd to end. */
void wire_watch_end(pl_socket *socket)
{
    struct wire_crowd *w = socket->crowd;
    zmq_socket_monitor(socket->zmq, NULL, 0);
    if (socket->monitor)
        zmq_close(socket->monitor);
    if (!w)
        return;
    pl_thread_join(&w->thread);
    pl_free_all(w->heard, w);
    socket->crowd = NULL;
}

void wire_tell_failed_clients(pl_socket *socket)
{
    struct wire_crowd *w = socket->crowd;
    int64_t now = pl_now_ms();
    char text[160];
    if (!w || now - socket->refused_ms < WIRE_REFUSAL_MS)
        return;
    const int n_plain = atomic_exchange(&w->n_plain, 0),
              n_broken = atomic_exchange(&w->n_broken, 0),
              n_cut = atomic_exchange(&w->n_cut, 0);
    if (n_plain + n_broken + n_cut == 0)
        return;
    if (n_cut > 0)
        snprintf(text, sizeof text,
                 "%d clients without a known key were disconnected, because at most %d "
                 "connections may wait and %d may be open",
                 n_cut, w->crowd.waiting, w->crowd.places);
    else
        snprintf(text, sizeof text, "%s",
                 n_plain > 0 ? "a client that does not encrypt was refused"
                             : "a client was refused: it does not know this process's "
                               "key, or ended the connection");
    socket->refused_ms = now;
    pl_gate_refused(&(pl_refusal){text, "", socket->address});
}
