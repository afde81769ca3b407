/* The history of a run: one row per finished phase of each arm, in the order of time.
 *
 * The history is computed from the store and the logs: the records of versions have
 * losses, tokens and held-out scores, the store's refs have the audits, and the logs
 * show restarts and expired leases. So every run has a history, and a killed process
 * can neither lose a row nor write it twice. If all arms have more cells (phases of
 * paths) than PHASE_CELLS_MAX (phase_history.h), a row stands for several phases. */
#pragma once
#include "job/job.h"

typedef struct history_row {
    char arm[PL_ARM_NAME_MAX];
    int64_t phase, n_phases; /* the row stands for phases [phase, phase + n_phases) */
    /* from_ms: of the phase's first lease; at_ms: of its last commit; since 1970 */
    int64_t from_ms, at_ms;
    int n_paths;   /* number of the arm's paths, where each replica counts */
    int n_done;    /* how many of these n_paths have finished the phase */
    double loss;   /* training loss in nats per token */
    double bits;   /* bits per byte of the held-out text, scored with the versions with
                    * which the phase began; 0: not scored */
    double tokens; /* tokens that the phase was trained on */
    /* n_versions: versions that were merged from updates of the phase; n_audits: audits
     * of its tasks; n_odd: how many of these audits had results that differ */
    int64_t n_versions, n_audits, n_odd;
    /* since the previous row: expired leases; restarts of workers, homes and hubs */
    int64_t n_expired, n_restarts;
} history_row;

typedef struct history {
    history_row *rows;
    size_t n;
} history;

/* Returns the tokens per second from the row's first lease to its last commit, or 0. */
double history_rate(const history_row *row);
/* Makes the rows from `h`, from the audits in `store`, and from the logs in the folder
 * `logs` (the newest 64 MiB of each log). `h` must have read all versions already. The
 * caller clears `out`, also after a failure. */
pl_status history_make(const phase_history *h, pl_store *store, const char *logs,
                       history *out);
void history_clear(history *h);
/* Appends all rows: comma-separated with a header, or as JSON lines. */
void history_write(const history *h, bool json, pl_buf *out);
/* The same from a store and the folder of the run's logs. */
pl_status history_read(pl_store *store, const char *logs, history *out);
/* Reads the run in `dir`, and appends its history to `out`. The job may be running. */
pl_status history_of_run(const char *dir, bool json, pl_buf *out);
