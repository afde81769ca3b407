/* Chooses the path that answers a prompt. The commands generate, serve and export use
 * this chooser, so all of them choose the same path for a prompt.
 *
 * By the router: for each path the router has a very small language model, made of
 * counts (router/prefix_lm.c), which reads the first router.prefix tokens. By
 * likelihood: every path reads these tokens, and the path that predicts them best
 * answers (serve/likelihood.c). The modules of the paths are in memory once
 * (module_pool.h). Both choices are computed with the run's precision and one thread.
 * So the precision and the threads with which the answer is computed do not change the
 * path. */
#ifndef PL_SERVE_PATH_CHOOSER_H
#define PL_SERVE_PATH_CHOOSER_H
#include "router/router.h"
#include "serve/mixture.h"

typedef struct pl_path_chooser pl_path_chooser;

/* Opens the backend. The router chooses paths until pl_path_chooser_by_likelihood is
 * called. The router is read from the store when it is first needed. Borrows its
 * arguments until close. */
PL_MUST_CHECK pl_status pl_path_chooser_open(const pl_answer_settings *settings,
                                             pl_store *store, pl_path_chooser **out);
void pl_path_chooser_close(pl_path_chooser **chooser); /* accepts NULL */

/* Reads the router now, so that the first prompt need not wait for it. */
PL_MUST_CHECK pl_status pl_path_chooser_by_router(pl_path_chooser *c);
/* Returns the router's models, valid until close; NULL if they were not read yet. */
const pl_prefix_lm *pl_path_chooser_router(const pl_path_chooser *c);
/* From now on the paths of `arm` decide by likelihood. n_held paths, from 1 to the
 * number of paths, are held in memory. If n_held is less than the number of paths, the
 * paths are read again for every prompt, one after another. Borrows its arguments until
 * close. */
PL_MUST_CHECK pl_status pl_path_chooser_by_likelihood(pl_path_chooser *c,
                                                      const pl_arm *arm,
                                                      const pl_topology *topology,
                                                      int n_held);
/* For a command that chooses only once: follows the key router.answer. If this key
 * means likelihood, only one path at a time is held in memory. */
PL_MUST_CHECK pl_status pl_path_chooser_follow(pl_path_chooser *c, const pl_arm *arm,
                                               const pl_topology *topology);
/* Returns how many bytes of memory would be needed to hold all paths. */
uint64_t pl_path_chooser_bytes(const pl_path_chooser *c, const pl_topology *topology);

/* Makes the functions below look for new versions in the store. Modules that have not
 * changed are not read again. */
void pl_path_chooser_reload(pl_path_chooser *c);
/* Whether all parameters are loaded, so that pl_path_chooser_choose does not read the
 * store. */
bool pl_path_chooser_is_ready(const pl_path_chooser *c);
/* Reads the parameters of only one more path, so that a server can do other work before
 * the next call. */
PL_MUST_CHECK pl_status pl_path_chooser_read_one(pl_path_chooser *c);

typedef struct pl_path_choice {
    int path;
    bool by_likelihood; /* false: the router chose the path */
    double margin_nats; /* nats of the second best path minus nats of the chosen one */
    const double *nats; /* [n_paths], valid until the chooser's next call */
} pl_path_choice;
/* Chooses a path. tokens[0] is BOS. If BOS is the only token, the router decides. */
PL_MUST_CHECK pl_status pl_path_chooser_choose(pl_path_chooser *c,
                                               const int32_t *tokens, int n,
                                               pl_path_choice *out);
/* Paths that the settings close are never chosen; their nats and costs are infinite. */
/* Computes how much each path costs by the router: costs [n_paths], in nats
 * (pl_prefix_lm_nats). This works also if the paths are chosen by likelihood.
 * ERR_DAMAGED if the router has a different number of paths. */
PL_MUST_CHECK pl_status pl_path_chooser_costs(pl_path_chooser *c, const int32_t *tokens,
                                              int n, int n_paths, double *costs);

#endif
