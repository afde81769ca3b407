/* Checks the invariants of a stopped or finished run, from its store alone (pathloom
 * check). Each invariant is checked separately, so one kind of damage does not hide
 * another. */
#pragma once
#include "home/home.h"

typedef enum check_verdict {
    CHECK_HOLDS,
    CHECK_BROKEN,
    /* nothing contradicts the invariant, but the data that could prove it is gone */
    CHECK_UNPROVEN
} check_verdict;
extern const char *const check_verdicts[]; /* "holds", "broken", "unproven" */

/* One invariant. */
typedef struct check_result {
    const char *name;  /* "rounds" */
    const char *claim; /* the claim that is checked, without a full stop */
    const char *unit;  /* the things that were counted: "versions" */
    check_verdict verdict;
    uint64_t n_checked, n_unproven;
    uint64_t n_given_up; /* rounds that a rollback replaced; only for "rounds" */
    char why[512];       /* why something could not be proven, or "" */
    pl_findings broken;
} check_result;

/* `recompute` is the number of newest versions of each module that are computed again;
 * -1: all versions. */
typedef struct check_wish {
    const char *folder; /* folder of the store */
    const char *run;    /* folder of its run; NULL: only the store is checked */
    int64_t recompute;
} check_wish;
typedef void (*check_fn)(void *context, const check_result *result);

/* Calls `fn` for each invariant as soon as the invariant is judged. *n_broken gets the
 * number of broken invariants. ERR_BUSY: a job writes to the store. */
pl_status check_store(const check_wish *wish, check_fn fn, void *context,
                      int *n_broken);
