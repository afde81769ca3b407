/* The relay: a process between workers and a home. It adds homomorphic updates on their
 * way without decoding them. So a link that several workers share carries one update
 * per module and round, instead of one per worker. Relays may be connected in a chain.
 *
 * To a worker the relay looks like a home; to the home it looks like one more worker.
 * All other messages pass through. The relay has no disk and makes no promises of its
 * own: it answers a SUBMIT only when the home has answered. If it is killed nothing is
 * lost, because workers repeat their questions. An update counts once, even if it
 * arrives both directly and in a sum: the home accepts a sum only if it has no part of
 * it yet (docs/PROTOCOL.md 2.10).
 *
 * Read in this order: relay_internal, relay (the loop, and messages that pass through),
 * relay_group (which updates are added), relay_uplink (adding and sending, on a
 * separate thread). */
#ifndef PL_HOME_RELAY_H
#define PL_HOME_RELAY_H
#include "base/base.h"
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_relay_options {
    const char *home; /* address of a home, or of a relay in front of it */
    const char *bind;
    /* the relay writes its bound address to this file, atomically; "": no file */
    const char *ready_file;
    int expect;  /* number of workers that will connect; 0: unknown */
    int wait_ms; /* the longest time that an update waits for other updates */
    /* how long the home may be unreachable before the relay gives up */
    int patience_ms;
    uint64_t staging_bytes;      /* most bytes of updates in memory */
    volatile sig_atomic_t *stop; /* a signal sets this; then the relay ends */
} pl_relay_options;

typedef struct pl_relay_report {
    uint64_t bytes_received; /* messages from workers and from relays behind this one */
    uint64_t bytes_sent;     /* messages to the home */
    /* n_sums: sums that the home accepted; n_summed: updates in them */
    int64_t n_sums, n_summed;
    int64_t n_alone; /* updates that were sent to the home unchanged */
} pl_relay_report;

PL_MUST_CHECK pl_status pl_relay_run(const pl_relay_options *options,
                                     pl_relay_report *report);

#ifdef __cplusplus
}
#endif
#endif
