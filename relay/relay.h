/* The relay: a process between workers and a home. It adds homomorphic updates that
 * pass through it, without decoding them. So the network link to the home carries one
 * update per module and round, instead of one per worker. Relays may be connected in a
 * chain.
 *
 * To a worker the relay looks like a home; to the home it looks like one more worker.
 * The relay forwards all messages that do not concern such updates. The relay stores
 * nothing on disk, and acknowledges no update by itself: it answers a SUBMIT only when
 * the home has answered. If the relay is killed, nothing is lost, because workers
 * repeat their questions. An update counts once, even if it arrives both directly and
 * in a sum: the home accepts a sum only if it has none of the sum's updates yet
 * (docs/PROTOCOL.md 2.10).
 *
 * Read in this order: relay_internal, relay (the loop, and messages that the relay
 * forwards), relay_group (which updates are added), relay_adder (adding and sending,
 * on a separate thread). */
#pragma once
#include "base/base.h"
#include <signal.h>

typedef struct pl_relay_options {
    const char *home; /* address of the home, or of the next relay towards the home */
    const char *bind; /* address where workers connect: "tcp://HOST:PORT" */
    /* the relay writes its bound address to this file, atomically; "": no file */
    const char *ready_file;
    int expect;  /* number of workers that will connect; 0: unknown */
    int wait_ms; /* the longest time for which an update waits for other updates */
    /* how long the home may be unreachable before the relay gives up */
    int patience_ms;
    uint64_t staging_bytes; /* limit for the bytes of held updates in memory */
    /* a signal sets this flag; pl_relay_run then returns */
    volatile sig_atomic_t *stop;
} pl_relay_options;

typedef struct pl_relay_report {
    uint64_t bytes_received; /* bytes of messages from workers and from other relays */
    uint64_t bytes_sent;     /* bytes of messages to the home */
    /* n_sums: sums that the home accepted; n_summed: updates in these sums */
    int64_t n_sums, n_summed;
    int64_t n_alone; /* number of updates that were sent to the home unchanged */
} pl_relay_report;

pl_status pl_relay_run(const pl_relay_options *options, pl_relay_report *report);
