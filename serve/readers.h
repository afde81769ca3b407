/* Paths that generate one text: each with a decoder of its own, and the modules that
 * they share in memory once (module_pool.h). */
#ifndef PL_SERVE_READERS_H
#define PL_SERVE_READERS_H
#include "serve/module_pool.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Starts as zeros. */
typedef struct pl_readers {
    const pl_mixture *mix;
    pl_backend *backend;
    pl_module_pool *pool;
    pl_model *model; /* all paths go through it */
    pl_pooled_path **paths;
    pl_decoder **decoders; /* [n], as pl_generate and pl_reroute_generate need them */
    int *numbers;          /* [n] the paths' numbers in the mixture */
    int n;
} pl_readers;
/* Opens the mixture's backend, on all processors, with no path yet. precision: NULL
 * means the run's. Borrows the mixture until close. Close the readers also after a
 * failure. */
PL_MUST_CHECK pl_status pl_readers_open(const pl_mixture *mix, const char *precision,
                                        pl_readers *r);
/* Adds a path; at most once per path of the mixture. */
PL_MUST_CHECK pl_status pl_readers_add(pl_readers *r, int path);
void pl_readers_close(pl_readers *r);

#ifdef __cplusplus
}
#endif
#endif
