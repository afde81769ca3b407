/* Chooses the path that answers a prompt. generate, serve and export use it, so equal
 * prompts get equal paths.
 *
 * By the router: a tiny language model per path, made of counts (router/prefix_lm.c),
 * reads the first router.prefix tokens. By likelihood: every path reads these tokens in
 * a scoring model, a model for inference of batch 1 and context router.prefix, and the
 * path that predicts them best answers (serve/likelihood.c). Both run in the run's own
 * precision and on one thread, whatever precision and threads the answer is computed
 * with, so that these do not change the path. */
#ifndef PL_SERVE_PATH_CHOOSER_H
#define PL_SERVE_PATH_CHOOSER_H
#include "serve/mixture.h"

typedef struct pl_path_chooser pl_path_chooser;

/* Opens the backend. The router decides until pl_path_chooser_by_likelihood is called;
 * it is read from the store at its first use. Borrows its arguments until close. */
PL_MUST_CHECK pl_status pl_path_chooser_open(const pl_answer_settings *settings,
                                             pl_store *store, pl_path_chooser **out);
void pl_path_chooser_close(pl_path_chooser **chooser); /* accepts NULL */

/* Reads the router now, so that the first prompt need not wait. */
PL_MUST_CHECK pl_status pl_path_chooser_by_router(pl_path_chooser *c);
/* Lets the paths of `arm` decide, with n_models scoring models, from 1 to the number of
 * paths. With fewer models than paths, models are loaded with several paths in turn,
 * again for every prompt. Borrows its arguments until close. */
PL_MUST_CHECK pl_status pl_path_chooser_by_likelihood(pl_path_chooser *c,
                                                      const pl_arm *arm,
                                                      const pl_topology *topology,
                                                      int n_models);
/* For a command that asks once: chooses as router.answer says, with a single scoring
 * model. */
PL_MUST_CHECK pl_status pl_path_chooser_follow(pl_path_chooser *c, const pl_arm *arm,
                                               const pl_topology *topology);
/* The memory of one scoring model per path. */
uint64_t pl_path_chooser_bytes(const pl_path_chooser *c, const pl_topology *topology);

/* The newest parameters will be read from the store again by the next calls of the
 * functions below. */
void pl_path_chooser_reload(pl_path_chooser *c);
/* Whether pl_path_chooser_choose reads no parameters from the store. */
bool pl_path_chooser_is_ready(const pl_path_chooser *c);
/* Reads the parameters of one path, so that a server can do other work in between. */
PL_MUST_CHECK pl_status pl_path_chooser_read_one(pl_path_chooser *c);

typedef struct pl_path_choice {
    int path;
    bool by_likelihood; /* false: by the router */
    double margin_nats; /* the second best path's nats minus this path's */
    const double *nats; /* [n_paths], valid until the chooser's next call */
} pl_path_choice;
/* tokens[0] is BOS. The router decides for a prompt without any other token. */
PL_MUST_CHECK pl_status pl_path_chooser_choose(pl_path_chooser *c,
                                               const int32_t *tokens, int n,
                                               pl_path_choice *out);
/* Closed paths (settings) are never chosen; their nats and costs are infinite. */
/* What each path costs the router (nats, pl_prefix_lm_nats), whichever rule chooses:
 * costs [n_paths]. ERR_DAMAGED if the router has another number of paths. */
PL_MUST_CHECK pl_status pl_path_chooser_costs(pl_path_chooser *c, const int32_t *tokens,
                                              int n, int n_paths, double *costs);

#endif
