/* The door of eval: measures how well held-out text is predicted.
 *
 * Documents are scored as in router/scorer.h. Sums are weighted by tokens, in double,
 * in document order: perplexity = exp(sum of nats / counted targets). Routed perplexity
 * scores each document with the parameters of its path. Routes score every document
 * with every path and compare ways to choose a path.
 *
 * The functions of this folder only compute; the verbs print. Read in this order:
 * perplexity, routes, every. */
#ifndef PL_EVAL_EVAL_H
#define PL_EVAL_EVAL_H
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "router/router.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- perplexity ---- */
/* A function that gives the parameters of a path: pl_topology_path_params floats. */
typedef pl_status (*pl_path_params_fn)(void *context, int path, float *params);

/* Scores document docs[i] with the parameters of path_of[i]. */
PL_MUST_CHECK pl_status pl_score_routed(pl_scorer *scorer, const pl_tokens *tokens,
                                        const uint32_t *docs, const int *path_of,
                                        size_t n, pl_path_params_fn params,
                                        void *context, pl_score *scores);

/* ERR_ARG if a document's path is not one of n_paths. */
PL_MUST_CHECK pl_status pl_check_paths(const int *path_of, size_t n, int n_paths);

/* ---- routes ---- */
/* Ways to choose the path of a document or of each of its windows (routes.c). */
typedef enum pl_route {
    PL_ROUTE_ROUTER, /* the path that the caller gives (that of the router) */
    /* the path under which the document's prefix is likeliest */
    PL_ROUTE_LIKELIHOOD,
    /* for each window, the path under which the text before the window is likeliest */
    PL_ROUTE_WINDOWS,
    /* in hindsight: for each document the path that predicts it best */
    PL_ROUTE_BEST,
    /* in hindsight: for each window the path that predicts it best */
    PL_ROUTE_BEST_WINDOWS,
    PL_ROUTE_COUNT
} pl_route;

typedef struct pl_route_document {
    const float *losses; /* in nats; a row of n_targets per path, rows `stride` apart */
    size_t stride;
    int n_paths;
    uint32_t n_targets;
    /* prefix: first tokens, which choose the path and are not counted; window: number
     * of targets in a window */
    int prefix, window;
    int router_path;
    /* the same targets under the router's models: a row of n_targets per path; NULL: no
     * choice by the gate is evaluated */
    const float *gate;
} pl_route_document;
/* The path of a document under PL_ROUTE_LIKELIHOOD. */
typedef struct pl_likeliest {
    int path; /* router_path if the prefix has no target */
    /* how much worse the second likeliest path predicts the prefix, in nats; INFINITY
     * if there is no second path, or no target */
    double margin_nats;
} pl_likeliest;
/* Scores the counted targets of one document under each way to choose. */
void pl_route_choose(const pl_route_document *d, pl_score scores[PL_ROUTE_COUNT],
                     pl_likeliest *likeliest);

/* Results of choosing the path again every W tokens (every.c): by the losses of the
 * text before (`history`), by the router's models of that text (`gate`), and in
 * hindsight (`oracle`). */
typedef struct pl_every_way {
    pl_score score; /* of the counted targets */
    /* n_choices: choices after the first path; n_changes: those that changed the
     * path */
    uint64_t n_choices, n_changes;
    /* tokens of their window that chosen paths have missed and must read when the path
     * changes; history has none, because all paths read all tokens */
    uint64_t n_missed;
} pl_every_way;
typedef struct pl_every_choice {
    pl_every_way history, gate; /* gate: zeros if the document has none */
    pl_score oracle;
} pl_every_choice;
/* `path` is the first path of `history`. */
void pl_route_every(const pl_route_document *d, int path, int every,
                    pl_every_choice *out);
/* The limits of the rules `history` and `gate` in nats (docs/results/routing.md
 * compares values). */
#define PL_HISTORY_BEHIND 24.0
#define PL_GATE_BEHIND    8.0
/* Adds the losses of n more targets to the evidence [n_paths] against each path, which
 * begins as zeros. No path falls more than `behind` nats behind the best one. A row of
 * n losses per path, rows `stride` apart. */
void pl_evidence_add(double *evidence, int n_paths, double behind, const float *losses,
                     size_t stride, size_t n);
/* The path with the least evidence against it, or the first of equals. A path whose
 * evidence is NaN is chosen only if all are NaN. */
int pl_least_evidence(const double *evidence, int n_paths);

enum { PL_EVERY_MAX = 8 }; /* the most values of W in one evaluation */

/* Scores every document with every path. Documents are taken in parts whose losses fit
 * into `most_bytes`; each path is loaded once per part. */
typedef struct pl_route_job {
    pl_scorer *scorer;
    const pl_tokens *tokens;
    const uint32_t *docs; /* [n] */
    const int *path_of;   /* [n] path of each document from the router */
    /* [n_paths] paths that are closed: their parameters are not read, and their losses
     * are NaN; NULL: no path is closed */
    const bool *closed;
    const pl_prefix_lm *gate; /* also evaluate the choice by it; NULL: do not */
    size_t n;
    int prefix;
    pl_path_params_fn params;
    void *context;
    size_t most_bytes;
    /* the values of W; n_every 0: no choice every W tokens is evaluated */
    int every[PL_EVERY_MAX], n_every;
} pl_route_job;
typedef struct pl_routes {
    pl_score *scores;        /* [PL_ROUTE_COUNT, n] */
    pl_likeliest *likeliest; /* [n] */
    pl_every_choice *every;  /* [n_every, n]; NULL if n_every is 0 */
} pl_routes;
PL_MUST_CHECK pl_status pl_score_routes(const pl_route_job *job, const pl_routes *out);

/* ---- sums ---- */
/* Adds the scores in order. Perplexity is NaN if nothing was counted. */
pl_score pl_score_sum(const pl_score *scores, size_t n);
double pl_perplexity(const pl_score *score);
/* The standard error over documents of nats per counted target or, with `than`, of the
 * difference between two models on the same documents. This is the error of a ratio of
 * sums, because documents weigh by their targets. NaN for fewer than two documents. */
double pl_score_error(const pl_score *scores, const pl_score *than, size_t n);

/* by_domain [pl_tokens_n_domains] gets the sums over the documents of each domain. */
void pl_score_by_domain(const pl_tokens *tokens, const uint32_t *docs,
                        const pl_score *scores, size_t n, pl_score *by_domain);

/* pl_counted_targets returns the number of counted targets of a document,
 * pl_counted_bytes the bytes of text that these targets stand for. */
uint64_t pl_counted_targets(const pl_tokens *tokens, uint32_t doc, int prefix);
PL_MUST_CHECK pl_status pl_counted_bytes(const pl_tokens *tokens, uint32_t doc,
                                         int prefix, const pl_tokenizer *tokenizer,
                                         uint64_t *bytes);

/* Chooses evenly spaced documents of the list, as a whole, with at most max_targets
 * counted targets together (0: no limit), but at least one document. Moves the chosen
 * documents to the front of `docs`, in order, and returns their number. Documents
 * without a counted target are left out. */
size_t pl_pick_documents(const pl_tokens *tokens, int prefix, uint64_t max_targets,
                         uint32_t *docs, size_t n);

#ifdef __cplusplus
}
#endif
#endif
