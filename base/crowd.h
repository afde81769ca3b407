/* The connections of a listening socket, and which of them must be closed, so that
 * strangers cannot use up the descriptors, the memory, the threads or the places of a
 * process. All listening sockets use it: those of ZeroMQ (wire_watch.c) and those of
 * HTTP (serve/server_clients.c).
 *
 * A connection waits until its client has sent something that counts: a message of a
 * known key, or a complete request. Then it is busy. Three numbers are bounded:
 *
 *   open      at most `places` connections
 *   waiting   at most `waiting` of them
 *   files     The system gives the lowest free number to a new descriptor, so this
 *             number tells how many files the process has open. The numbers from
 *             pl_files_for_guests() on are for the process itself: its store, its logs,
 *             its threads
 *
 * Beyond a bound a waiting connection is closed: of the address with the most open
 * connections, the connection that has waited longest. So no address can take a place
 * that an address with fewer connections needs. A busy connection is never closed to
 * make room; then the new connection is the one that waits, and is closed.
 *
 * One thread owns a crowd and its list. */
#pragma once
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>
PL_C_BEGIN

/* Raises the limit of open files to the highest one that the process may set: a hub has
 * one connection per worker, and many systems allow only 1,024 open files by default.
 * Called once, when the program starts; its children inherit the limit. */
void pl_allow_files(void);
/* Returns the limit of open files, or 2^20 if it is higher. */
int pl_files_limit(void);
/* Returns how many of the process's descriptors connections may use: half of the limit
 * of files, or the limit without 512 if that is more. ZeroMQ may accept some hundred
 * connections before they are judged, and the store needs files meanwhile. */
int pl_files_for_guests(void);

typedef struct pl_guest {
    int socket;
    uint32_t address; /* IPv4 in host order; 0: unknown */
    /* waits_ms: since when the connection waits, 0: it is busy; busy_ms: since when it
     * has been busy. Any thread may set both, by the functions below. */
    int64_t waits_ms, busy_ms;
    bool cut; /* its socket has been shut down */
    struct pl_guest *next;
} pl_guest;
void pl_guest_waits(pl_guest *guest);
void pl_guest_is_busy(pl_guest *guest);

typedef struct pl_crowd {
    int places, waiting;
    /* after this time a connection is closed; INT64_MAX: never */
    int64_t wait_limit_ms, busy_limit_ms;
    /* Tells whether the guest's socket is still this connection; NULL: it always is,
     * because guests leave before their sockets are closed. */
    bool (*is_open)(const pl_guest *guest);
    pl_guest *first; /* the newest */
} pl_crowd;

/* Adds a guest, which the caller owns, and which waits or is busy already. */
void pl_crowd_enter(pl_crowd *crowd, pl_guest *guest);
void pl_crowd_leave(pl_crowd *crowd, pl_guest *guest); /* it need not be in the list */
/* Shuts down the connections that must be closed. Their sockets then end like those
 * whose clients have gone. Returns how many were closed to make room. */
int pl_crowd_settle(pl_crowd *crowd);

PL_C_END
