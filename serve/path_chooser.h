/* Chooses the path that answers a prompt. The commands generate, serve and export use
 * this chooser, so all of them choose the same path for a prompt. There are two ways:
 *
 * - By the router: for each path the router has a very small language model, made of
 *   counts (router/prefix_lm.c). The path whose model predicts the text best answers.
 * - By likelihood: every path reads the first router.prefix tokens (likelihood.c). The
 *   path with the lowest sum of two losses answers: its own loss of these tokens, and
 *   the router's loss of the later ones, which would cost much to read with every path.
 *   Many texts begin with the same licence or the same system message, so the first
 *   tokens alone often say nothing (docs/results/routing.md). Each module of the paths
 *   is in memory once (module_pool.h).
 *
 * Likelihoods are always computed with the run's precision and one thread, even if the
 * answer is computed with another precision or more threads. So these options never
 * change the path. */
#pragma once
#include "router/router.h"
#include "serve/mixture.h"

typedef struct pl_path_chooser pl_path_chooser;

/* Opens a chooser and its backend. The router chooses the paths until
 * pl_path_chooser_by_likelihood is called. The router is read from the store when it is
 * first needed. Borrows the settings and the store until close. */
pl_status pl_path_chooser_open(const pl_answer_settings *settings, pl_store *store,
                               pl_path_chooser **out);
void pl_path_chooser_close(pl_path_chooser **chooser); /* accepts NULL */

/* Reads the router now, so that the first prompt need not wait for it. */
pl_status pl_path_chooser_by_router(pl_path_chooser *c);
/* Returns the router's models, valid until close; NULL if they were not read yet. */
const pl_prefix_lm *pl_path_chooser_router(const pl_path_chooser *c);
/* From now on paths are chosen by likelihood, among the paths of `arm`. The chooser
 * keeps n_held paths in memory, from 1 to the number of paths. If n_held is less than
 * the number of paths, the paths are read again for every prompt, one after another.
 * Borrows `arm` and `topology` until close. */
pl_status pl_path_chooser_by_likelihood(pl_path_chooser *c, const pl_arm *arm,
                                        const pl_topology *topology, int n_held);
/* For a command that chooses only once: chooses by the rule of the key router.answer.
 * If this rule is likelihood, only one path at a time is in memory. */
pl_status pl_path_chooser_follow(pl_path_chooser *c, const pl_arm *arm,
                                 const pl_topology *topology);
/* Returns the bytes of memory that choosing by likelihood needs if all paths are held:
 * all modules once, and working memory. */
uint64_t pl_path_chooser_bytes(const pl_path_chooser *c, const pl_topology *topology);

/* Call this function when the store may have new versions: the functions below then use
 * the new versions. Modules that have not changed are not read again. */
void pl_path_chooser_reload(pl_path_chooser *c);
/* Whether the newest parameters of all held paths are in memory, so that
 * pl_path_chooser_choose need not read them. */
bool pl_path_chooser_is_ready(const pl_path_chooser *c);
/* Reads the parameters of one more path. A server can do other work between two
 * calls. */
pl_status pl_path_chooser_read_one(pl_path_chooser *c);

typedef struct pl_path_choice {
    int path;
    bool by_likelihood; /* false: the router chose the path */
    double margin_nats; /* nats of the second best path minus nats of the chosen one */
    /* [n_paths] by likelihood: for each path, its nats of the first tokens plus the
     * router's nats of the later tokens, valid until the chooser's next call; NULL: the
     * router chose the path */
    const double *nats;
} pl_path_choice;
/* Chooses the path for a text of n tokens. tokens[0] is BOS. If BOS is the only token,
 * the router chooses. Closed paths (settings.closed) are never chosen; their nats are
 * infinite. A caller who scores the text gives only its first router.prefix tokens. */
pl_status pl_path_chooser_choose(pl_path_chooser *c, const int32_t *tokens, int n,
                                 pl_path_choice *out);
/* Computes the router's cost of each path: costs [n_paths], in nats
 * (pl_prefix_lm_nats); infinite for closed paths. Also works if paths are chosen by
 * likelihood. ERR_DAMAGED if the router's number of paths is not n_paths. */
pl_status pl_path_chooser_costs(pl_path_chooser *c, const int32_t *tokens, int n,
                                int n_paths, double *costs);
