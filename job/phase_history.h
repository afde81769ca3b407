/* The training of every path in every phase, collected from the
 * contributions of all versions, in bounded memory.
 *
 * Each path has a series with one cell per phase. When the cells of all series exceed a
 * limit, the stride doubles: neighbouring cells are joined, so even a year of phases
 * keeps its shape. A cell that changes gets a new serial, so that a reader can ask only
 * for what is new. When the stride changes, the epoch changes, too, and readers begin
 * again. */
#ifndef PL_JOB_PHASE_HISTORY_H
#define PL_JOB_PHASE_HISTORY_H
#include "job/module_lineage.h"
#include "outer/outer.h"
#include "store/store.h"

enum { PHASE_CELLS_MAX = 32768, PHASE_WORKERS_MAX = 8192, PHASE_ARMS_MAX = 64 };

typedef struct phase_cell {
    double loss;            /* mean over the tokens of the phase or phases */
    double tokens, seconds; /* sums over the phases of the cell */
    double gradient;        /* mean norm of the gradient; 0: not measured */
    /* nats of the path's held-out text before the first phase of the cell that scored
     * it; 0: none did */
    double held;
    double memory_bytes; /* largest memory of the worker; 0: not known */
    /* from_ms: when the first phase was leased; at_ms: when the last was committed */
    int64_t from_ms, at_ms;
    uint64_t token, serial; /* token: of the newest lease in the cell */
    int worker;             /* the worker of the newest phase; -1: not known */
    int n;                  /* number of phases in the cell; 0: none yet */
} phase_cell;

typedef struct phase_series {
    char name[PL_NAME_MAX]; /* "p01.r0" */
    phase_cell *cells;
    size_t n_cells;
} phase_series;

typedef struct phase_arm {
    pl_arm arm;
    pl_topology *topology;
    phase_series *series; /* [paths * replicas] ordered by path, then by replica */
    int n_series, n_replicas;
    /* [n_merged] versions that were merged from updates of the phases of each slot */
    uint32_t *merged;
    size_t n_merged;
} phase_arm;

/* How far the versions of a module were read. */
typedef struct phase_module {
    char name[PL_MODULE_NAME_MAX];
    uint64_t next, end; /* versions [next, end) are still to be read */
} phase_module;

typedef struct phase_history {
    phase_arm arms[PHASE_ARMS_MAX];
    int n_arms;
    char (*workers)[PL_TEXT_MAX];
    int n_workers;
    phase_module *modules;
    size_t n_modules, reading; /* reading: the first module that may have more */
    int64_t stride;
    size_t n_cells;
    uint64_t serial, epoch, n_versions;
    module_lineage lineage;
} phase_history;

void phase_history_begin(phase_history *h);
void phase_history_clear(phase_history *h);
/* Adds an arm; takes ownership of both arguments. There are at most PHASE_ARMS_MAX
 * arms. */
void phase_history_add_arm(phase_history *h, pl_arm *arm, pl_topology *topology);
/* Looks for new arms and versions. Call it after each refresh of the store. */
PL_MUST_CHECK pl_status phase_history_look(phase_history *h, pl_store *store);
/* Reads up to `most` versions; *more is false when all are read. */
PL_MUST_CHECK pl_status phase_history_read(phase_history *h, pl_store *store, int most,
                                           bool *more);
/* Adds the contributions that a version's record names. */
void phase_history_add(phase_history *h, const pl_version *version);
/* Finds the series of a task such as "mix/p01.r0"; NULL if there is none. */
phase_series *phase_history_find(phase_history *h, const char *task, int *arm,
                                 int *path);
/* The number of a worker in the list of workers; -1 if the list is full. */
int phase_history_worker(phase_history *h, const char *name);
/* The cell of a phase; NULL if it is not there. */
phase_cell *phase_history_cell(phase_history *h, phase_series *s, int64_t phase);
/* The cell of a slot; an empty cell if there is none. A slot stands for `stride`
 * phases, from phase slot * stride on. */
const phase_cell *phase_series_at(const phase_series *s, size_t slot);
/* Whether the values of this slot are final: each path has done all phases of the slot,
 * or has begun a later slot. (A path never completes the cell if a rollback dropped its
 * update, or if a quorum did not wait for it.) `ended`: the arm has done its last
 * phase. */
bool phase_history_is_final(const phase_history *h, const phase_arm *a, size_t slot,
                            bool ended);
/* Adds up the paths' held-out scores of a slot. */
pl_held_sum phase_history_held(const phase_arm *a, size_t slot);
/* Appends the members "epoch", "serial", "stride", "paths", "held_bytes" (of each path:
 * bytes of the held-out text that it scores), "workers" and "cells".
 * Cells are those that changed after `since`, a serial of this epoch; 0 gives all. */
void phase_history_json(const phase_history *h, uint64_t since, pl_json *out);

#endif
