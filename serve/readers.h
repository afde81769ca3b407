/* Opens the paths that generate one text. Each path has its own decoder; modules that
 * several paths use are in memory once (module_pool.h). */
#pragma once
#include "serve/module_pool.h"

/* Starts as zeros; pl_readers_open fills it. */
typedef struct pl_readers {
    const pl_mixture *mix;
    pl_backend *backend;
    pl_module_pool *pool;
    pl_model *model;        /* computes all paths */
    pl_pooled_path **paths; /* [n] */
    pl_decoder **decoders;  /* [n] for pl_generate or pl_reroute_generate */
    int *numbers;           /* [n] the paths' numbers in the mixture */
    int n;                  /* number of paths that were added */
} pl_readers;
/* Opens the mixture's backend; no path is opened yet. If `precision` is NULL, the run's
 * precision is used. Borrows the mixture until close.
 * The caller closes the readers, also after a failure. */
pl_status pl_readers_open(const pl_mixture *mix, const char *precision, int n_threads,
                          pl_readers *r);
/* Adds a path of the mixture. Each path may be added at most once. */
pl_status pl_readers_add(pl_readers *r, int path);
void pl_readers_close(pl_readers *r);
