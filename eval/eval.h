/* The door of eval: how well held-out text is predicted.
 *
 * Documents are scored as in router/scorer.h. Sums are token-weighted, in double, in
 * document order: perplexity = exp(sum of nats / counted targets). Routed perplexity
 * scores each document with the parameters of its path; routes score every document
 * with every path and compare ways to choose.
 *
 * These functions only compute; the verbs print. Read in this order:
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
/* Gives path `path`'s parameters, pl_topology_path_params floats. */
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
    PL_ROUTE_ROUTER,     /* the document by the caller's path */
    PL_ROUTE_LIKELIHOOD, /* the document by the paths' likelihood of its prefix */
    PL_ROUTE_WINDOWS,    /* the same, and anew for each window by the text before it */
    PL_ROUTE_BEST,       /* in hindsight: the best path of each document */
    PL_ROUTE_BEST_WINDOWS, /* in hindsight: the best path of each window */
    PL_ROUTE_COUNT
} pl_route;

typedef struct pl_route_document {
    const float *losses; /* [n_paths] rows of n_targets, `stride` apart; nats */
    size_t stride;
    int n_paths;
    uint32_t n_targets;
    int prefix, window; /* tokens that choose and do not count; targets a window */
    int router_path;
} pl_route_document;
/* The path of a document under PL_ROUTE_LIKELIHOOD. */
typedef struct pl_likeliest {
    int path;           /* router_path where the prefix has no target */
    double margin_nats; /* how many more nats the second likeliest path has for the
                           prefix; INFINITY: there is no second, or no target */
} pl_likeliest;
/* Counted targets of one document under each way. */
void pl_route_choose(const pl_route_document *d, pl_score scores[PL_ROUTE_COUNT],
                     pl_likeliest *likeliest);

/* The choice of the path again every W tokens (every.c): causal, and in hindsight. */
typedef struct pl_every_choice {
    pl_score history, oracle;      /* of the counted targets */
    uint64_t n_choices, n_changes; /* of history after its first path: all, and those
                                      that took another path than before */
} pl_every_choice;
/* `path` is the first path of history. */
void pl_route_every(const pl_route_document *d, int path, int every,
                    pl_every_choice *out);
/* The rule of history: adds n more targets to the evidence [n_paths] against the paths,
 * which begins as zeros. losses [n_paths] rows of n, `stride` apart. */
void pl_evidence_add(double *evidence, int n_paths, const float *losses, size_t stride,
                     size_t n);
/* The path with the least evidence, the lower of equals. One whose evidence is NaN is
 * chosen only if that of all paths is. */
int pl_least_evidence(const double *evidence, int n_paths);

enum { PL_EVERY_MAX = 8 }; /* the most values of W */

/* Scores every document with every path. Documents are taken in parts whose losses fit
 * into `most_bytes`; each path is loaded once per part. */
typedef struct pl_route_job {
    pl_scorer *scorer;
    const pl_tokens *tokens;
    const uint32_t *docs; /* [n] */
    const int *path_of;   /* [n] the router's */
    const bool *closed; /* [n_paths] paths that are not asked for their parameters, and
                           whose losses are NaN; NULL: none */
    size_t n;
    int prefix;
    pl_path_params_fn params;
    void *context;
    size_t most_bytes;
    int every[PL_EVERY_MAX], n_every; /* values of W; 0: none */
} pl_route_job;
typedef struct pl_routes {
    pl_score *scores;        /* [PL_ROUTE_COUNT, n] */
    pl_likeliest *likeliest; /* [n] */
    pl_every_choice *every;  /* [n_every, n]; NULL if n_every is 0 */
} pl_routes;
PL_MUST_CHECK pl_status pl_score_routes(const pl_route_job *job, const pl_routes *out);

/* ---- sums ---- */
/* Sums in order. perplexity is NaN when nothing was counted. */
pl_score pl_score_sum(const pl_score *scores, size_t n);
double pl_perplexity(const pl_score *score);
/* The standard error over documents of nats per counted target or, with `than`, of the
 * difference between two models on the same documents. It is that of a ratio of sums:
 * documents weigh by their targets. NaN for fewer than two documents. */
double pl_score_error(const pl_score *scores, const pl_score *than, size_t n);

/* by_domain [pl_tokens_n_domains]: sums of the documents of each. */
void pl_score_by_domain(const pl_tokens *tokens, const uint32_t *docs,
                        const pl_score *scores, size_t n, pl_score *by_domain);

/* Counted targets of a document, and the bytes of text that they stand for. */
uint64_t pl_counted_targets(const pl_tokens *tokens, uint32_t doc, int prefix);
PL_MUST_CHECK pl_status pl_counted_bytes(const pl_tokens *tokens, uint32_t doc,
                                         int prefix, const pl_tokenizer *tokenizer,
                                         uint64_t *bytes);

/* Chooses whole documents at even distances from the list, with at most max_targets
 * counted targets in all (0: no limit), but at least one document. Moves the chosen
 * ones to the front of `docs`, in order, and returns their number. Documents without a
 * counted target are left out. */
size_t pl_pick_documents(const pl_tokens *tokens, int prefix, uint64_t max_targets,
                         uint32_t *docs, size_t n);

#ifdef __cplusplus
}
#endif
#endif
