/* The door of home: the process that owns one shard of the store. It takes submissions
 * and makes them durable. When the last contribution of a module's round is in, it
 * merges the round and commits the next version with its optimizer state in one atomic
 * write.
 *
 * A home has one event loop and one thread. If it cannot write, it reports that and
 * ends. Its supervisor starts it again, and everything that was acknowledged is there.
 *
 * Read in this order: home.c (the loop), home_upload and staging (bytes that arrive),
 * home_lease and home_submit (whose they are, and whether they are taken), home_updates
 * and home_merge (the next version), home_state (what the hub is told), home_places,
 * home_moving and home_away (names that move between homes), home_audit (tasks that are
 * done twice), relay (a process that adds updates on their way to a home).
 *
 * Beside it stand the rules of commands that look at or change a store in a home's
 * place: roots (what garbage collection keeps), phase_tag (which versions a tag names),
 * rollback_plan (which versions a rollback writes), blame (who made a version),
 * difference (of two versions), merged (versions made of others), transfer (copies to
 * another store). */
#ifndef PL_HOME_HOME_H
#define PL_HOME_HOME_H
#include "home/blame.h"
#include "home/difference.h"
#include "home/merged.h"
#include "home/phase_tag.h"
#include "home/relay.h"
#include "home/rollback_plan.h"
#include "home/roots.h"
#include "home/transfer.h"
#include "outer/outer.h"
#include "store/store.h"
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_home_options {
    const char *store;      /* folder */
    const char *bind;       /* "tcp://127.0.0.1:*" */
    const char *ready_file; /* gets the bound address, atomically; "" for none */
    bool keep_updates;      /* keep merged updates (for replay) */
    bool keep_momentum;     /* keep the outer momentum of old versions */
    bool compress;          /* code old versions while there is nothing else to do */
    /* an update is refused if its norm exceeds this many times its module's usual norm;
     * 0: never */
    double norm_gate;
    double audit;                /* share of tasks that a second worker does again */
    uint64_t staging_bytes;      /* for uploads that no record names yet */
    volatile sig_atomic_t *stop; /* set by a signal: finish the group and return */
} pl_home_options;

/* A merge reads this many bytes of updates at once, or one update for each of
 * pl_codec_add_threads if that is more. */
enum { PL_HOME_AHEAD_BYTES = 16 << 20 };

PL_MUST_CHECK pl_status pl_home_run(const pl_home_options *options);

/* Makes a version again from the one before it and the updates that it names, by the
 * home's own arithmetic, or a merged version from its sources. So a user can check
 * whether the home told the truth. `momentum` is none if the module keeps none.
 * ERR_NOT_FOUND: the version was not made of updates, or some data are no longer there.
 */
typedef struct pl_replay {
    pl_hash params, momentum;
} pl_replay;
PL_MUST_CHECK pl_status pl_home_replay(pl_store *store, const pl_version *made,
                                       pl_replay *out);

#ifdef __cplusplus
}
#endif
#endif
