/* Chooses the path that answers a prompt. generate, serve and export use it, so equal
 * prompts get equal paths.
 *
 * By the router: a very small language model per path, made of counts
 * (router/prefix_lm.c), reads the first router.prefix tokens. By likelihood: every path
 * reads these tokens, and the path that predicts them best answers
 * (serve/likelihood.c). The modules of the paths are in memory once (module_pool.h).
 * Both use the run's own precision and one thread. So the precision and threads with
 * which the answer is computed do not change the path. */
#ifndef PL_SERVE_PATH_CHOOSER_H
#define PL_SERVE_PATH_CHOOSER_H
#include "router/router.h"
#include "serve/mixture.h"

typedef struct pl_path_chooser pl_path_chooser;

/* Opens the backend. The router decides until pl_path_chooser_by_likelihood is called;
 * the router is read from the store when it is first needed. Borrows its arguments
 * until close. */
PL_MUST_CHECK pl_status pl_path_chooser_open(const pl_answer_settings *settings,
                                             pl_store *store, pl_path_chooser **out);
void pl_path_chooser_close(pl_path_chooser **chooser); /* accepts NULL */

/* Reads the router now, so that the first prompt need not wait for it. */
PL_MUST_CHECK pl_status pl_path_chooser_by_router(pl_path_chooser *c);
/* The router's models, valid until close; NULL if they were not read yet. */
const pl_prefix_lm *pl_path_chooser_router(const pl_path_chooser *c);
/* From now on the paths of `arm` decide by likelihood. n_held paths are held in memory,
 * from 1 to the number of paths. If that is not all, the paths are read in turn, again
 * for every prompt. Borrows its arguments until close. */
PL_MUST_CHECK pl_status pl_path_chooser_by_likelihood(pl_path_chooser *c,
                                                      const pl_arm *arm,
                                                      const pl_topology *topology,
                                                      int n_held);
/* For a command that chooses only once: follows router.answer, and if that means
 * likelihood, holds a single path at a time. */
PL_MUST_CHECK pl_status pl_path_chooser_follow(pl_path_chooser *c, const pl_arm *arm,
                                               const pl_topology *topology);
/* The bytes of memory that holding all paths would need. */
uint64_t pl_path_chooser_bytes(const pl_path_chooser *c, const pl_topology *topology);

/* Makes the functions below look for new versions in the store; modules that have not
 * changed are not read again. */
void pl_path_chooser_reload(pl_path_chooser *c);
/* Whether all parameters are loaded, so that pl_path_chooser_choose does not read the
 * store. */
bool pl_path_chooser_is_ready(const pl_path_chooser *c);
/* Reads the parameters of one more path, so that a server can do other work in
 * between. */
PL_MUST_CHECK pl_status pl_path_chooser_read_one(pl_path_chooser *c);

typedef struct pl_path_choice {
    int path;
    bool by_likelihood; /* false: the router chose the path */
    double margin_nats; /* the second best path's nats minus this one's */
    const double *nats; /* [n_paths], valid until the chooser's next call */
} pl_path_choice;
/* Chooses a path. tokens[0] is BOS. If BOS is the only token, the router decides. */
PL_MUST_CHECK pl_status pl_path_chooser_choose(pl_path_chooser *c,
                                               const int32_t *tokens, int n,
                                               pl_path_choice *out);
/* Closed paths (settings) are never chosen; their nats and costs are infinite. */
/* Computes the router's costs of each path (nats, pl_prefix_lm_nats), whichever rule is
 * in use: costs [n_paths]. ERR_DAMAGED if the router has a different number of
 * paths. */
PL_MUST_CHECK pl_status pl_path_chooser_costs(pl_path_chooser *c, const int32_t *tokens,
                                              int n, int n_paths, double *costs);

#endif
