/* The relay: a process between workers and a home, which adds homomorphic updates on
 * their way without decoding them. Relays may stand in a chain. A link that several
 * workers share then carries one update per module and round, and not one per worker.
 *
 * To a worker the relay looks like a home; to the home it looks like one more worker.
 * All other messages pass through. The relay has no disk and promises nothing by
 * itself: it answers a SUBMIT only when the home has answered. If it is killed nothing
 * is lost, because workers repeat their questions. An update counts once whichever way
 * it came, because the home takes a sum only if it has none of its parts
 * (docs/PROTOCOL.md 2.10).
 *
 * Read in this order: relay_internal, relay (the loop, and messages that pass through),
 * relay_group (which updates are added), relay_uplink (adding and sending, on a thread
 * of its own). */
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
    const char *ready_file;      /* gets the bound address, atomically; "" for none */
    int expect;                  /* number of workers that will connect; 0: unknown */
    int wait_ms;                 /* the longest time that an update waits for others */
    int patience_ms;             /* how long the home may be unreachable */
    uint64_t staging_bytes;      /* most bytes of updates in memory */
    volatile sig_atomic_t *stop; /* set by a signal */
} pl_relay_options;

typedef struct pl_relay_report {
    uint64_t bytes_received;  /* from those who ask */
    uint64_t bytes_sent;      /* to the home */
    int64_t n_sums, n_summed; /* sums that the home took, and updates in them */
    int64_t n_alone;          /* updates that went up as they came */
} pl_relay_report;

PL_MUST_CHECK pl_status pl_relay_run(const pl_relay_options *options,
                                     pl_relay_report *report);

#ifdef __cplusplus
}
#endif
#endif
