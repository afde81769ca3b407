/* Finds the phase at which the mixture began to predict a text worse (pathloom store
 * bisect). */
#pragma once
#include "job/evaluate.h"

typedef struct bisect_wish {
    const char *arm;    /* a chapter of the mixture; NULL: the newest one */
    const char *domain; /* use only held-out documents of this domain; NULL: use all */
    /* a text to use instead of the held-out text, or NULL */
    const evaluation_text *text;
    /* first and last phase of the search; from = -1: the search starts at the best of a
     * few phases; to = -1: it ends at the newest phase */
    int64_t from, to;
} bisect_wish;

/* One evaluation of the mixture as it was after `phase`. */
typedef struct bisect_step {
    int64_t phase;
    double bits; /* bits per byte of the text */
    /* The text is predicted worse than at the good (earlier) end of the search. While
     * the good end is still searched, `bits` is compared with the best phase so far;
     * then, for the bad (later) end, with the good end; afterwards with the mean of
     * both ends. */
    bool worse;
} bisect_step;
typedef void (*bisect_fn)(void *context, const bisect_step *step);

typedef struct bisect_result {
    char arm[PL_ARM_NAME_MAX];
    /* The text was predicted better after phase `before` than after phase `at`. The
     * store has no parameters of phases between these two. at = -1: the text did not
     * become worse. */
    int64_t before, at;
    double bits_before, bits_at;
    double error; /* standard error of the difference over documents; NaN: unknown */
    /* number of scored documents; number of paths that answered at least one of them */
    size_t n_docs, n_paths;
    /* the versions that modules of these paths got between the two phases; the caller
     * clears it with pl_snapshot_clear */
    pl_snapshot versions;
} bisect_result;

/* The text to score must be open as r->valid. ERR_NOT_FOUND: the store has the
 * parameters of fewer than two phases between `from` and `to`. */
pl_status bisect_run(pl_run *r, pl_store *store, const bisect_wish *wish, bisect_fn fn,
                     void *context, bisect_result *out);
