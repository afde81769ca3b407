/* The door of eval: how well held-out text is predicted.
 *
 * A document is cut into windows of `context` targets exactly like the sampler cuts
 * it for training (window w covers the tokens w*T+1 .. of the document) and scored
 * window by window. Only tokens at index >= prefix of their document count, since the
 * tokens before them chose the path. Sums are token-weighted, in double, in document
 * order: perplexity = exp(sum of nats / counted targets).
 *
 * scorer: one topology's parameters on documents. Routed perplexity scores each
 * document with the parameters of its path; the matrix scores every document with
 * every path and tells what the routing is worth.
 *
 * Only numbers come out: the verbs print. Read in this order: scorer, perplexity.
 */
#ifndef PL_EVAL_EVAL_H
#define PL_EVAL_EVAL_H
#include "corpus/corpus.h"
#include "modules/modules.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- scorer ---- */
typedef struct pl_scorer_options {
    const pl_topology *topology; /* borrowed until destroy */
    const char *backend;         /* as of pl_backend_options */
    const char *precision;
    int n_threads; /* one model each; 1 where the backend is a GPU */
    int context;   /* T, targets a window; 0: the shape's context */
    int batch;     /* windows a call; 0: as many as give about 2048 tokens */
    int prefix;    /* tokens at the start of a document that do not count */
} pl_scorer_options;

typedef struct pl_score {
    double nats;        /* sum over counted targets */
    uint64_t n_targets; /* counted */
} pl_score;

typedef struct pl_scorer pl_scorer;
PL_MUST_CHECK pl_status pl_scorer_create(const pl_scorer_options *options,
                                         pl_scorer **out);
void pl_scorer_destroy(pl_scorer **scorer); /* accepts NULL */
const pl_topology *pl_scorer_topology(const pl_scorer *scorer);

/* pl_topology_path_params floats; they are copied. */
PL_MUST_CHECK pl_status pl_scorer_load(pl_scorer *scorer, const float *params);

/* scores[i] is that of document docs[i]; one without a counted target gets zeros.
 * Batches are filled in the order of docs, so that the result depends on the options
 * and the list but not on n_threads. ERR_DATA for a token outside the vocabulary;
 * ERR_ARG if nothing was loaded or a document does not exist. */
PL_MUST_CHECK pl_status pl_score_documents(pl_scorer *scorer, const pl_tokens *tokens,
                                           const uint32_t *docs, size_t n,
                                           pl_score *scores);

/* ---- perplexity ---- */
/* Gives path `path`'s parameters, pl_topology_path_params floats. */
typedef pl_status (*pl_path_params_fn)(void *context, int path, float *params);

/* Scores document docs[i] with the parameters of path_of[i]. */
PL_MUST_CHECK pl_status pl_score_routed(pl_scorer *scorer, const pl_tokens *tokens,
                                        const uint32_t *docs, const int *path_of,
                                        size_t n, pl_path_params_fn params,
                                        void *context, pl_score *scores);

/* Scores every document with every path: scores [n_paths, n]. */
PL_MUST_CHECK pl_status pl_score_matrix(pl_scorer *scorer, const pl_tokens *tokens,
                                        const uint32_t *docs, size_t n,
                                        pl_path_params_fn params, void *context,
                                        pl_score *scores);

/* What the matrix says. `matrix` [n_paths, n_paths] may be NULL: row = the path that
 * scored, column = the path that the router gave the document. */
typedef struct pl_matrix_summary {
    pl_score routed;      /* each document with its own path */
    pl_score best;        /* each document with the path that predicts it best */
    pl_score worst_wrong; /* each document with the worst of the other paths */
    pl_score mean_other;  /* mean over the other paths, counted once a document */
    uint64_t n_best_is_routed, n_documents; /* with a counted target */
} pl_matrix_summary;
void pl_matrix_summarise(const pl_score *scores, int n_paths, const int *path_of,
                         size_t n, pl_score *matrix, pl_matrix_summary *out);

/* Sums in order. perplexity is NaN when nothing was counted. */
void pl_score_add(pl_score *sum, const pl_score *score);
pl_score pl_score_sum(const pl_score *scores, size_t n);
double pl_perplexity(const pl_score *score);

/* by_domain [pl_tokens_n_domains]: sums of the documents of each. */
void pl_score_by_domain(const pl_tokens *tokens, const uint32_t *docs,
                        const pl_score *scores, size_t n, pl_score *by_domain);

/* Counted targets of a document. */
uint64_t pl_counted_targets(const pl_tokens *tokens, uint32_t doc, int prefix);

/* Chooses whole documents, evenly strided over the list, that have together at most
 * max_targets counted targets (0: no limit), but at least one. Keeps the chosen at
 * the front of `docs`, in order, and returns how many. Documents without a counted
 * target are left out. */
size_t pl_pick_documents(const pl_tokens *tokens, int prefix, uint64_t max_targets,
                         uint32_t *docs, size_t n);

#ifdef __cplusplus
}
#endif
#endif
