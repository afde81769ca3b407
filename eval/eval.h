/* The public header of eval, which measures how well paths predict held-out text.
 *
 * Documents are scored as in eval/scorer.h. Sums are in double and in document order.
 * A target is counted if it lies after the prefix, and every counted target has the
 * same weight: perplexity = exp(sum of nats / counted targets). perplexity.c scores
 * each document with the parameters of its path. routes.c scores each document with all
 * paths and compares ways to choose a path.
 *
 * The functions of this folder only compute; the commands in cli print the results.
 * Read in this order: scorer, perplexity, routes, every, compare. */
#pragma once
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "eval/compare.h"

/* ---- perplexity ---- */
/* A function that writes the parameters of a path to `params`: pl_topology_path_params
 * floats. */
typedef pl_status (*pl_path_params_fn)(void *context, int path, float *params);

/* Scores document docs[i] with the parameters of path_of[i]. */
pl_status pl_score_routed(pl_scorer *scorer, const pl_tokens *tokens,
                          const uint32_t *docs, const int *path_of, size_t n,
                          pl_path_params_fn params, void *context, pl_score *scores);

/* Checks the paths of documents. ERR_ARG: a path is not in 0 .. n_paths - 1. */
pl_status pl_check_paths(const int *path_of, size_t n, int n_paths);

/* ---- routes ---- */
/* Ways to choose the path of a document or of each of its pieces (routes.c). */
typedef enum pl_route {
    PL_ROUTE_ROUTER, /* the path that the caller gives (chosen by the router) */
    /* the path under which the document's prefix is likeliest */
    PL_ROUTE_LIKELIHOOD,
    /* the path is chosen again after every `prefix` tokens, by the text before them:
     * the rule `history` of every.c */
    PL_ROUTE_REROUTED,
    /* in hindsight: for each document, the path that predicts it best */
    PL_ROUTE_BEST,
    /* in hindsight: for each piece of `prefix` tokens, the path that predicts it best
     */
    PL_ROUTE_BEST_PIECES,
    PL_ROUTE_COUNT
} pl_route;

typedef struct pl_route_document {
    /* losses in nats; the n_targets losses of a path begin at losses[path * stride] */
    const float *losses;
    size_t stride;
    int n_paths;
    uint32_t n_targets;
    /* prefix: number of first tokens, which determine the path and do not count as
     * targets; window, step: T and S of the windows (eval/scorer.h); step 0: T */
    int prefix, window, step;
    int router_path;
    /* [n_paths, n_targets] losses of the same targets under the router's tiny language
     * models (the gate); NULL: the gate is not evaluated */
    const float *gate;
} pl_route_document;
/* The path that PL_ROUTE_LIKELIHOOD chooses for a document. */
typedef struct pl_likeliest {
    int path; /* router_path if the prefix has no target */
    /* by how many nats the loss of the prefix is higher on the second likeliest path;
     * INFINITY if there is no second path or the prefix has no target */
    double margin_nats;
} pl_likeliest;
/* Computes the score of one document's counted targets for each way to choose the
 * path. */
void pl_route_choose(const pl_route_document *d, pl_score scores[PL_ROUTE_COUNT],
                     pl_likeliest *likeliest);

/* Evaluates routing that chooses a path again after every `every` tokens. `path` is the
 * first path of the way `history`. */
void pl_route_every(const pl_route_document *d, int path, int every,
                    pl_every_choice *out);
/* The limit `behind` of pl_evidence_add, in nats: PL_HISTORY_BEHIND for `history`,
 * PL_GATE_BEHIND for `gate`. docs/results/routing.md compares these with other
 * values. */
#define PL_HISTORY_BEHIND 24.0
#define PL_GATE_BEHIND    16.0
/* Adds the losses of n more targets to the evidence [n_paths] against each path. The
 * caller sets the evidence to zeros before the first call. Evidence is relative to the
 * best path and at most `behind` nats. The n losses of a path begin at losses[path *
 * stride]. */
void pl_evidence_add(double *evidence, int n_paths, double behind, const float *losses,
                     size_t stride, size_t n);
/* Returns the path with the least evidence against it, or the first such path. Returns
 * a path whose evidence is NaN only if the evidence of all paths is NaN. */
int pl_least_evidence(const double *evidence, int n_paths);

enum { PL_EVERY_MAX = 8 }; /* largest number of values of W in one evaluation */

/* A function that writes to losses[path * stride] the n - 1 losses of the tokens after
 * the first under the gate's model of each path, for all paths. */
typedef void (*pl_gate_fn)(const void *gate, int n_paths, const int32_t *tokens, int n,
                           float *losses, size_t stride);

/* Scores every document with every path. Documents are scored in groups whose losses
 * fit into `most_bytes`, and the parameters of each path are loaded once per group. */
typedef struct pl_route_job {
    pl_scorer *scorer;
    const pl_tokens *tokens;
    const uint32_t *docs; /* [n] the documents to score */
    const int *path_of;   /* [n] path that the router chose for each document */
    /* [n_paths] paths that are closed: their parameters are not read, and their losses
     * are NaN; NULL: no path is closed */
    const bool *closed;
    const void *gate; /* the router's models; NULL: the gate is not evaluated */
    pl_gate_fn gate_losses;
    size_t n;
    int prefix;
    pl_path_params_fn params;
    void *context;
    size_t most_bytes;
    /* the n_every values of W (see pl_every_way) to evaluate; n_every may be 0 */
    int every[PL_EVERY_MAX], n_every;
} pl_route_job;
typedef struct pl_routes {
    pl_score *scores;        /* [PL_ROUTE_COUNT, n] per way and document */
    pl_likeliest *likeliest; /* [n] per document */
    pl_every_choice *every;  /* [n_every, n] per W and document; NULL if n_every is 0 */
} pl_routes;
pl_status pl_score_routes(const pl_route_job *job, const pl_routes *out);

/* ---- sums ---- */
/* pl_score_sum adds the scores in order. pl_perplexity returns NaN if no target was
 * counted. */
pl_score pl_score_sum(const pl_score *scores, size_t n);
double pl_perplexity(const pl_score *score);
/* Returns the standard error, over documents, of the nats per counted target. With
 * `than`, returns the standard error of the difference between two models on the same
 * documents. The error is that of a ratio of two sums (nats and targets), because
 * documents differ in their number of targets. NaN for fewer than two documents or
 * without targets. */
double pl_score_error(const pl_score *scores, const pl_score *than, size_t n);

/* by_domain [pl_tokens_n_domains] gets the sums over the documents of each domain. */
void pl_score_by_domain(const pl_tokens *tokens, const uint32_t *docs,
                        const pl_score *scores, size_t n, pl_score *by_domain);

/* pl_counted_targets returns the number of counted targets of a document.
 * pl_counted_bytes computes how many bytes of text these targets represent, and sets
 * *lost if one of them is unknown, so that the text cannot be rebuilt from them. */
uint64_t pl_counted_targets(const pl_tokens *tokens, uint32_t doc, int prefix);
pl_status pl_counted_bytes(const pl_tokens *tokens, uint32_t doc, int prefix,
                           const pl_tokenizer *tokenizer, uint64_t *bytes, bool *lost);

/* Chooses evenly spaced documents of the list. Together they have at most max_targets
 * counted targets (0: no limit), but at least one document is chosen. Documents are not
 * cut. Moves the chosen documents to the front of `docs`, in order, and returns their
 * number. Documents without a counted target are not chosen. */
size_t pl_pick_documents(const pl_tokens *tokens, int prefix, uint64_t max_targets,
                         uint32_t *docs, size_t n);
