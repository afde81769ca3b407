/* Finds the phase of the mixture at which a text became worse predicted (pathloom store
 * bisect). */
#ifndef PL_JOB_BISECT_H
#define PL_JOB_BISECT_H
#include "job/evaluate.h"

typedef struct bisect_wish {
    const char *arm;    /* a chapter of the mixture; NULL: the newest one */
    const char *domain; /* domain of the held-out documents to use; NULL: all */
    /* a text to use instead of the held-out text, or NULL */
    const evaluation_text *text;
    int64_t from, to; /* phases to search; -1: from the best of a few, to the newest */
} bisect_wish;

/* One evaluation of the mixture as it was after `phase`. */
typedef struct bisect_step {
    int64_t phase;
    double bits; /* bits per byte of the text */
    bool worse;  /* bits are nearer to those of the bad end than of the good end */
} bisect_step;
typedef void (*bisect_fn)(void *context, const bisect_step *step);

typedef struct bisect_result {
    char arm[PL_ARM_NAME_MAX];
    /* The text was predicted better after phase `before` than after phase `at`; no
     * phase between them has its parameters. at = -1: it did not become worse. */
    int64_t before, at;
    double bits_before, bits_at;
    double error; /* standard error of the difference over documents; NaN: unknown */
    size_t n_docs, n_paths; /* documents that were scored; paths that answered them */
    /* the versions that came between the two, of modules of those paths; the caller
     * clears it with pl_snapshot_clear */
    pl_snapshot versions;
} bisect_result;

/* `r` is a run with its text opened. ERR_NOT_FOUND: fewer than two of these phases have
 * their parameters. */
PL_MUST_CHECK pl_status bisect_run(pl_run *r, pl_store *store, const bisect_wish *wish,
                                   bisect_fn fn, void *context, bisect_result *out);

#endif
