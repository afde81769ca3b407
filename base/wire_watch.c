/* Reads ZeroMQ's events about the connections of a socket (handshakes that succeeded or
 * failed) and turns them into reports for clients and servers. Asks the kernel about a
 * client's connection, and chooses how it avoids congestion. */
#include "base/clock.h"
#include "base/gate.h"
#include "base/wire_internal.h"
#include <linux/tcp.h> /* its tcp_info is newer than that of netinet/tcp.h */
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

enum {
    BROKEN_MAX = 4, /* this many broken handshakes within BROKEN_MS mean a wrong key */
    BROKEN_MS = 4000
};

/* Makes ZeroMQ report events of a socket to socket->monitor. A report has two frames:
 * the first has the kind of the event and a number, the second has the endpoint. */
static bool watch_socket(pl_socket *socket, int events)
{
    static atomic_uint count;
    char name[32];
    snprintf(name, sizeof name, "inproc://monitor-%u", atomic_fetch_add(&count, 1));
    int none = 0;
    socket->monitor = zmq_socket(wire_context(), ZMQ_PAIR);
    /* the queue has no limit, because the thread that writes events must not wait for
     * the reader */
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
    return watch_socket(socket, ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED |
                                    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | failed_handshakes);
}

bool wire_watch_server(pl_socket *socket)
{
    return watch_socket(socket, ZMQ_EVENT_LISTENING | failed_handshakes);
}

void wire_watch_end(pl_socket *socket)
{
    /* stops the reports of events, because events that are not read would block
     * ZeroMQ's thread */
    zmq_socket_monitor(socket->zmq, NULL, 0);
    zmq_close(socket->monitor);
}

/* If the server's key is not the key that the client expects, ZeroMQ ends the handshake
 * without a reason. A single broken handshake may also come from a server that ends;
 * several in a row mean a wrong key. */
static void note_broken(pl_socket *socket)
{
    int64_t now = pl_now_ms();
    if (socket->n_broken == 0 || now - socket->broken_ms > BROKEN_MS) {
        socket->n_broken = 0;
        socket->broken_ms = now;
    }
    if (++socket->n_broken >= BROKEN_MAX && socket->is_secure)
        socket->seen = WIRE_BROKEN;
}

/* Chooses bbr for a connection between machines. cubic and reno take each lost packet
 * for a full queue: with 1 % of loss and 80 ms they reach a tenth of the link. If the
 * administrator chose a different algorithm, or does not permit bbr, that choice stays.
 * The connections of a server inherit the choice from the socket that listens. */
static void choose_congestion(const pl_socket *socket, int fd)
{
    static const char wanted[] = "bbr";
    char now[16] = {0};
    socklen_t len = sizeof now - 1;
    if (socket->is_secure &&
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &len) == 0 &&
        (strcmp(now, "cubic") == 0 || strcmp(now, "reno") == 0))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted, sizeof wanted - 1);
}

static void note_event(pl_socket *socket, uint16_t event, uint32_t value)
{
    switch (event) {
    case ZMQ_EVENT_LISTENING:
        choose_congestion(socket, (int)value);
        break;
    case ZMQ_EVENT_CONNECTED:
        socket->fd = (int)value;
        choose_congestion(socket, socket->fd);
        break;
    case ZMQ_EVENT_DISCONNECTED:
        socket->fd = -1;
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
}

void wire_drain_monitor(pl_socket *socket)
{
    uint8_t frame[PL_ADDRESS_MAX];
    while (socket->monitor &&
           zmq_recv(socket->monitor, frame, sizeof frame, ZMQ_DONTWAIT) >= 6) {
        uint16_t event;
        uint32_t value;
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + sizeof event, sizeof value);
        if (zmq_recv(socket->monitor, frame, sizeof frame, ZMQ_DONTWAIT) < 0)
            break;
        note_event(socket, event, value);
    }
}

pl_status wire_client_verdict(pl_socket *socket)
{
    wire_drain_monitor(socket);
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

void wire_tell_failed_clients(pl_socket *socket)
{
    int64_t now = pl_now_ms();
    wire_verdict before = socket->seen;
    int n_before = socket->n_broken;
    wire_drain_monitor(socket);
    bool other = socket->seen == WIRE_OTHER_MECHANISM;
    socket->seen = before == WIRE_OTHER_MECHANISM ? before : WIRE_FINE;
    if ((!other && socket->n_broken == n_before) ||
        now - socket->refused_ms < WIRE_REFUSAL_MS)
        return;
    socket->refused_ms = now;
    socket->seen = WIRE_FINE;
    pl_gate_refused(&(pl_refusal){
        other ? "a client that does not encrypt was refused"
              : "a client was refused: it does not know this process's key, or ended "
                "the connection",
        "", socket->address});
}

/* socket->connections counts the connections that were made since the socket was
 * opened. ZeroMQ owns the descriptor, and may have closed it a moment ago. In the worst
 * case the numbers are those of another connection, or 0. */
void pl_wire_line_now(pl_socket *socket, pl_wire_line *out)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    memset(&info, 0, sizeof info);
    wire_drain_monitor(socket);
    *out = (pl_wire_line){.n_connects = socket->connections};
    if (socket->fd < 0 ||
        getsockopt(socket->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return;
    out->moved_bytes = info.tcpi_bytes_received + info.tcpi_bytes_acked;
    /* the kernel sets the smallest round trip to all ones until it has measured one */
    out->rtt_us = info.tcpi_min_rtt == UINT32_MAX ? 0 : info.tcpi_min_rtt;
}

int64_t pl_wire_lost_ms(pl_socket *socket)
{
    wire_drain_monitor(socket);
    return socket->lost_ms > 0 ? pl_now_ms() - socket->lost_ms : 0;
}
