/* The public functions of this folder. A home is the process that owns one store, or
 * one part of a store. A home accepts updates and makes them durable. When a module's
 * round has the contributions that it needs, the home merges it. It commits the
 * module's next version together with the outer optimizer's state in one atomic write.
 *
 * A home has one event loop and one thread. A home that cannot write reports the error
 * and ends. Its supervisor starts it again, and the store still has everything that was
 * acknowledged.
 *
 * Read in this order: home.c (the loop), home_upload and staging (uploads), home_lease
 * and home_submit (checks of leases and of updates), home_updates and home_merge (the
 * next version), home_state (reports to the hub), home_still (a pause in which a client
 * reads all homes), home_audit (tasks that are done twice), home_gate (norms and states
 * that training cannot have), home_meet (noloco's deadlines), home_quota, and
 * home_status. */
#pragma once
#include "history/history.h"
#include "outer/outer.h"
#include "store/store.h"
#include <signal.h>

typedef struct pl_home_options {
    const char *store; /* folder of the store */
    const char *bind;  /* address to listen on, for example "tcp://127.0.0.1:*" */
    /* the home writes its bound address to this file, atomically; "": no file */
    const char *ready_file;
    bool keep_updates;  /* keep updates after their merge, for pl_home_replay */
    bool keep_momentum; /* keep the outer momentum of old versions */
    bool keep_states;   /* keep the state of each path after each phase */
    bool compress;      /* compress old versions while idle */
    /* an update is refused above this many times its module's usual norm; 0: never */
    double norm_gate;
    double audit; /* fraction of tasks that one of the job's workers repeats */
    uint64_t staging_bytes; /* memory limit for uploads not yet in the store */
    uint64_t quota_bytes;   /* limit for the bytes of the store's data; 0: none */
    /* a signal sets this flag; the home then commits the changes of the messages that
     * it has handled, and pl_home_run returns */
    volatile sig_atomic_t *stop;
} pl_home_options;

/* A merge reads updates in batches of this many bytes, or of one update per thread
 * (pl_codec_add_threads) if that is more. */
enum { PL_HOME_AHEAD_BYTES = 16 << 20 };

pl_status pl_home_run(const pl_home_options *options);

/* Computes a version again with the same arithmetic as the home: from the previous
 * version and the updates that the record names, or, for a merged version, from its
 * sources. So a user can check that the home computed the version correctly. `momentum`
 * gets a zero hash if the module has no momentum. ERR_NOT_FOUND: the version was not
 * made from updates, or some of these data no longer exist. */
typedef struct pl_replay {
    pl_hash params, momentum;
} pl_replay;
pl_status pl_home_replay(pl_store *store, const pl_version *made, pl_replay *out);

/* Calls pl_home_replay and compares its result with the version. *got gets the result,
 * or zeros. The status is OK for every verdict. UNKNOWN: some data are missing, and
 * pl_last_error says which data. */
typedef enum pl_replay_verdict {
    PL_REPLAY_SAME,
    PL_REPLAY_OTHER,
    PL_REPLAY_UNKNOWN
} pl_replay_verdict;
pl_status pl_home_verify(pl_store *store, const pl_version *made, pl_replay *got,
                         pl_replay_verdict *out);
