/* Reads ZeroMQ's events about the connections of a socket (handshakes that succeeded or
 * failed) and turns them into reports for clients and servers. */
#include "base/clock.h"
#include "base/gate.h"
#include "base/wire_internal.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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
    return watch_socket(socket, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                                    failed_handshakes);
}

bool wire_watch_server(pl_socket *socket)
{
    return watch_socket(socket, failed_handshakes);
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

static void note_event(pl_socket *socket, uint16_t event, uint32_t value)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        socket->connections++;
        socket->lost_ms = 0;
        socket->n_broken = 0;
        socket->seen = WIRE_FINE;
        break;
    case ZMQ_EVENT_DISCONNECTED:
        if (socket->lost_ms == 0)
            socket->lost_ms = pl_now_ms();
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

static void drain_monitor(pl_socket *socket)
{
    uint8_t frame[PL_ADDRESS_MAX];
    while (zmq_recv(socket->monitor, frame, sizeof frame, ZMQ_DONTWAIT) >= 6) {
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
    drain_monitor(socket);
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
 * opened. */
bool pl_wire_reconnected(pl_socket *socket, uint64_t *seen)
{
    uint64_t before = *seen;
    drain_monitor(socket);
    *seen = socket->connections > 1 ? socket->connections : 0;
    return *seen != before;
}

int64_t pl_wire_lost_ms(pl_socket *socket)
{
    drain_monitor(socket);
    return socket->lost_ms > 0 ? pl_now_ms() - socket->lost_ms : 0;
}
