/* The door of home: the process that owns one shard of the store. It takes submissions,
 * makes them durable, merges a module's contributions when the last is in, and
 * commits the next version with its optimizer state in one atomic write.
 *
 * One event loop, one thread. A home that cannot write reports and ends; whoever
 * supervises it starts it again, and what was acknowledged is there.
 *
 * Read in this order: home.c (the loop), home_upload and staging (bytes that arrive),
 * home_lease and home_submit (whose they are, and whether they are taken), home_updates
 * and home_merge (the next version), home_state (what the hub is told), home_places,
 * home_moving and home_away (names that move between homes), home_audit (tasks that are
 * done twice), relay (a process that adds updates on their way to a home).
 */
#ifndef PL_HOME_HOME_H
#define PL_HOME_HOME_H
#include "home/relay.h"
#include "outer/outer.h"
#include "store/store.h"
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_home_options {
    const char *store;           /* folder */
    const char *bind;            /* "tcp://127.0.0.1:*" */
    const char *ready_file;      /* gets the bound address, atomically; "" for none */
    bool keep_updates;           /* keep merged updates (for replay) */
    bool keep_momentum;          /* keep the outer momentum of old versions */
    bool compress;               /* code old versions while nothing else is to do */
    double norm_gate;            /* an update longer than so many times its module's
                                    usual is refused; 0: none is */
    double audit;                /* share of tasks that a second worker does again */
    uint64_t staging_bytes;      /* most bytes of uploads that no record names yet */
    volatile sig_atomic_t *stop; /* set by a signal: finish the group and return */
} pl_home_options;

/* A merge reads so many bytes of updates at once, or one update for each of
 * pl_codec_add_threads if those have more. */
enum { PL_HOME_AHEAD_BYTES = 16 << 20 };

PL_MUST_CHECK pl_status pl_home_run(const pl_home_options *options);

/* Makes a version once more, from the one before it and the updates that it names, by
 * the home's own arithmetic; for who wants to know whether the home told the truth.
 * `momentum` is none if the module keeps none. ERR_NOT_FOUND: it was not made of
 * updates, or something of it is no longer there. */
typedef struct pl_replay {
    pl_hash params, momentum;
} pl_replay;
PL_MUST_CHECK pl_status pl_home_replay(pl_store *store, const pl_version *made,
                                       pl_replay *out);

#ifdef __cplusplus
}
#endif
#endif
