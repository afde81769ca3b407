/* The history of a run: one row per finished phase of each arm, in the order of time.
 *
 * The history is derived from the store and the logs: the records of versions have
 * losses, tokens and held-out scores, references of the store have the audits, and the
 * logs show which processes ended. So it exists for every run, and a killed process can
 * neither lose a row nor write it twice. If all arms together have more cells than
 * PHASE_CELLS_MAX (phase_history.h), a row stands for several phases. */
#ifndef PL_VIEW_HISTORY_H
#define PL_VIEW_HISTORY_H
#include "job/job.h"

typedef struct history_row {
    char arm[PL_ARM_NAME_MAX];
    int64_t phase, n_phases; /* the row stands for phases [phase, phase + n_phases) */
    /* from_ms: time of the phase's first lease; at_ms: time of its last commit */
    int64_t from_ms, at_ms;
    int n_paths, n_done; /* paths (with replicas), and how many have an update */
    double loss;         /* mean over the tokens */
    /* bits per byte of the held-out text with the versions that the phase began with;
     * 0: not scored */
    double bits;
    double tokens;
    /* versions: merged from updates of the phase; odd: audits whose results differ */
    int64_t n_versions, n_audits, n_odd;
    /* since the previous row: expired leases; workers, homes and hubs that were started
     * again */
    int64_t n_expired, n_restarts;
} history_row;

typedef struct history {
    history_row *rows;
    size_t n;
} history;

typedef enum history_form { HISTORY_TEXT, HISTORY_CSV, HISTORY_JSON } history_form;

/* Tokens per second from the first lease to the last commit. */
double history_rate(const history_row *row);
/* Fills in the rows of a history whose versions were read. `store` has the audits,
 * `logs` is the folder of the logs. Of each log, the newest 64 MiB are read. */
PL_MUST_CHECK pl_status history_make(const phase_history *h, pl_store *store,
                                     const char *logs, history *out);
void history_clear(history *h);
/* Appends all rows: a table, comma-separated values with a header, or one JSON object
 * per line. */
void history_write(const history *h, history_form form, pl_buf *out);
/* Reads the run in `dir`, and writes its history. It works while the job runs. */
PL_MUST_CHECK pl_status history_of_run(const char *dir, history_form form, pl_buf *out);

#endif
