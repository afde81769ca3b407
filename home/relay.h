/* The relay: stands between workers and a home, or between other relays and either,
 * and adds homomorphic updates on their way, without decoding them. So a link that all
 * would share carries one update of a module and round instead of one a worker.
 *
 * To a worker it is the home; to the home it is one worker more. Everything but
 * homomorphic updates passes through. It has no disk and promises nothing: it answers a
 * SUBMIT when the home has. Killed at any time it loses nothing, because whoever asked
 * asks again; and an update counts once whichever way it came, because the home takes
 * a sum only if none of its parts is there (docs/PROTOCOL.md 2.10).
 *
 * Read in this order: relay_parts, relay (the loop and what passes through),
 * relay_group (what waits for what), relay_uplink (adding and sending, in a thread of
 * its own).
 */
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
    int expect;                  /* how many workers ask here; 0: not known */
    int wait_ms;                 /* an update waits at most so long for others */
    int patience_ms;             /* how long the home may be away */
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
