/* Computes which versions a rollback writes, and in which phase training continues. */
#pragma once
#include "history/names.h"
#include "outer/outer.h"

typedef struct pl_rollback_change {
    char module[PL_MODULE_NAME_MAX];
    uint64_t source;     /* version whose parameters the new versions get */
    uint64_t head, last; /* versions head + 1 .. last are written */
} pl_rollback_change;

typedef struct pl_rollback_plan {
    /* the caller fills in the following fields */
    pl_store *store; /* the whole store, opened for reading */
    /* the user's words: arguments of the command, for example "L1.E0" and "3" */
    const char *what, *to;
    char arm_name[PL_MODULE_NAME_MAX]; /* arm of the modules that `what` names */
    pl_rollback_change *changes;       /* [n] one for every module of the arm */
    size_t n;
    pl_arm arm;
    pl_topology *topology; /* NULL if the store does not define the arm */
    /* the phase in which the paths continue; -1: the paths do not change */
    int64_t phase;
} pl_rollback_plan;

/* Makes the plan. ERR_USAGE: the words name merged modules. ERR_CONFIG: a later chapter
 * continued from the arm. ERR_UNSUPPORTED: the arm is still in training, and either too
 * few phases are left, or paths of its method keep parameters that no version has. */
pl_status pl_rollback_plan_make(pl_rollback_plan *plan);
/* Carries out the plan: writes it to all homes or to none. */
pl_status pl_rollback_plan_commit(const pl_rollback_plan *plan, pl_writers *writers);
void pl_rollback_plan_clear(pl_rollback_plan *plan);
/* Writes the user's words as text, for example "L1.E0 --to 3". The store uses this text
 * to notice that an unfinished rollback is being repeated. */
void pl_rollback_words(const pl_rollback_plan *plan, char out[PL_TEXT_MAX]);
