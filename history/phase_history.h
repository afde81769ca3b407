/* The history of every path, phase by phase, collected from the contributions of all
 * versions, in bounded memory.
 *
 * Each path has a series with one cell per `stride` phases; the stride is 1 at first.
 * When the cells of all series exceed a limit, the stride doubles: neighbouring cells
 * are joined, so a picture of even a very long run keeps its shape. A cell that
 * changes gets a new, larger serial number, so that a reader can ask for only the
 * changed cells. When the stride changes, `epoch` changes, too, and readers must read
 * all cells again. */
#pragma once
#include "history/module_lineage.h"
#include "outer/outer.h"

enum { PHASE_CELLS_MAX = 32768, PHASE_WORKERS_MAX = 8192, PHASE_ARMS_MAX = 64 };

typedef struct phase_cell {
    pl_work work; /* joined over the phases of the cell (pl_work_join) */
    /* from_ms: when its first phase was leased; at_ms: when its last was committed */
    int64_t from_ms, at_ms;
    uint64_t token, serial; /* token: token of the cell's newest lease */
    int worker;             /* worker of the newest phase; -1: not known */
    int n;                  /* number of phases in the cell */
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
    /* [n_merged] merged[i]: number of versions that were merged from updates of the
     * phases i * stride to (i + 1) * stride - 1 */
    uint32_t *merged;
    size_t n_merged;
} phase_arm;

/* Which versions of a module must still be read. */
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
    /* reading: index of the first module that may have unread versions */
    size_t n_modules, reading;
    int64_t stride;
    size_t n_cells;
    uint64_t serial, epoch, n_versions;
    module_lineage lineage;
} phase_history;

void phase_history_begin(phase_history *h);
void phase_history_clear(phase_history *h);
/* Adds an arm, of at most PHASE_ARMS_MAX; takes ownership of both arguments. */
void phase_history_add_arm(phase_history *h, pl_arm *arm, pl_topology *topology);
/* Looks for new arms and versions. Call it after each refresh of the store. */
pl_status phase_history_look(phase_history *h, pl_store *store);
/* Reads up to `most` versions; *more becomes false when all are read. */
pl_status phase_history_read(phase_history *h, pl_store *store, int most, bool *more);
void phase_history_add(phase_history *h, const pl_version *version);
/* Finds the series of a task such as "mix/p01.r0"; NULL if there is none. */
phase_series *phase_history_find(phase_history *h, const char *task, int *arm,
                                 int *path);
/* Returns a worker's number in the list, adding it if needed; -1: the list is full. */
int phase_history_worker(phase_history *h, const char *name);
/* Returns the cell of a slot; an empty cell if there is none. A slot stands for
 * `stride` phases, which begin at phase slot * stride. */
const phase_cell *phase_series_at(const phase_series *s, size_t slot);
/* Whether the values of this slot are final: each path has done all phases of the slot,
 * or has begun a later slot. (A path whose update was dropped by a rollback, or for
 * which a quorum did not wait, never completes the cell.) `ended`: of the arm. */
bool phase_history_is_final(const phase_history *h, const phase_arm *a, size_t slot,
                            bool ended);
/* Adds up the paths' held-out scores of a slot. */
pl_held_sum phase_history_held(const phase_arm *a, size_t slot);
/* Appends the members "epoch", "serial", "stride", "paths", "held_bytes" (for each
 * path: bytes of the held-out text that the path scores), "workers" and "cells". Only
 * cells that changed after the serial `since` of this epoch; 0: all cells. */
void phase_history_json(const phase_history *h, uint64_t since, pl_json *out);
