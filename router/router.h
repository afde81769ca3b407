/* The door of router: which path a document takes.
 *
 * feature: mean over the first `prefix` tokens of the last block's hidden state of the
 * base model. k-means gives one centroid per path; product k-means splits the feature
 * into L parts and clusters each with K_l centroids, so that the path is the tuple of
 * labels. The discriminative router is linear: it is fitted on scores, so that a
 * document takes the path that would predict it best.
 *
 * The k-means and linear routers assign the training documents. New text is routed by a
 * prefix model: one tiny language model per path, made of counts from the path's
 * documents. A prefix model is an immutable object (bytes) in the store.
 *
 * Features are transformed before distances are measured (lens: standardise, whiten,
 * sharpen, unit length), because raw hidden states have a few directions with large
 * variance that say little about a document.
 *
 * Read in this order: kmeans, lens (pca, sharpen), router, router_fit (discriminate,
 * arrange, balance), features, shards, prefix_lm, prefix_lm_fit, prefix_lm_code, judge
 * (purity, NMI), scorer, map (a picture). */
#ifndef PL_ROUTER_ROUTER_H
#define PL_ROUTER_ROUTER_H
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "router/scorer.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_router_kind {
    PL_ROUTER_KMEANS,
    PL_ROUTER_PRODUCT,
    PL_ROUTER_LINEAR /* discriminative */
} pl_router_kind;

typedef struct pl_router_options {
    pl_router_kind kind;
    int n_paths;
    /* The number of levels, and of experts in each. Product k-means divides the feature
     * into n_levels parts; plain k-means uses them to let similar clusters share
     * modules. */
    int n_levels;
    int experts[PL_LEVELS_MAX];
    /* number of k-means++ restarts; upper limit for iterations of Lloyd's algorithm, or
     * of the linear router's descent */
    int restarts, iterations;
    /* Linear: [n, n_paths] log likelihood in nats of each document on each path;
     * borrowed. A document's target is the path with the highest value or, with a
     * temperature above 0, the distribution softmax(score / temperature). */
    const double *scores;
    double temperature;
    double decay; /* weight decay of the linear router's rows, at least 0 */
    /* Above 0, prices limit the heaviest shard to (1+balance) times the mean while
     * fitting; 0: shards are not balanced. */
    double balance;
    /* [n] each document's weight for balance, in tokens; borrowed; NULL: every weight
     * is 1 */
    const double *weights;
    bool standardize; /* first change of features: divide each by its deviation */
    /* second change: keep this many principal components, each scaled to variance 1; 0:
     * keep all features */
    int components;
    /* rounds in which the components are turned towards the directions that separate
     * clusters (unsupervised discriminant analysis), chosen among the first 64
     * components, or among `components` if that is more; 0: no rounds */
    int sharpen;
    bool unit; /* last change: scale each document's feature to length 1 */
    uint64_t seed;
    int n_threads;
    /* Memory limit of a fit, in bytes; 0: no limit. If the documents need more memory,
     * the fit uses only evenly spaced documents, at least one per path. */
    uint64_t memory;
} pl_router_options;

/* Returns d if a fit uses every d-th document; 1 if it uses all. */
size_t pl_router_stride(const pl_router_options *options, size_t n, int dim);

typedef struct pl_router pl_router;

/* Fits a router to features [n, dim]. The same input gives the same bytes for any
 * n_threads. ERR_DATA: there are more paths than documents. ERR_CONFIG: with balance, a
 * weight is negative or not finite, or all are 0. ERR_NUMERIC: a score is not
 * finite. */
PL_MUST_CHECK pl_status pl_router_fit(const float *features, size_t n, int dim,
                                      const pl_router_options *options,
                                      pl_router **out);
/* Replaces the prices of a linear router by prices that keep every path's share of
 * these documents at most (1 + options->balance) times the mean; with balance 0 it
 * removes the prices. The router may have been fitted to fewer documents than these.
 * Uses only these options: balance, weights, n_threads, memory. */
PL_MUST_CHECK pl_status pl_router_price(pl_router *router, const float *features,
                                        size_t n, const pl_router_options *options);
void pl_router_destroy(pl_router **router);
/* Writes the `top` nearest paths, the nearest first (top <= n_paths). */
void pl_router_route(const pl_router *router, const float *feature, int top,
                     int *paths);

/* Computes features [n_docs, width]: one per document, from its first `prefix` tokens
 * (with BOS) or all if it has fewer. With `windows` above 1 a feature is the mean over
 * that many windows of `prefix` tokens, spread evenly over the document. Batches are
 * fixed, so the result does not depend on n_threads. `params` are the fp32 parameters
 * of the base model. */
typedef struct pl_feature_job {
    const pl_topology *topology;
    const float *params;
    const char *precision; /* backend precision, "auto" */
    const char *backend;
    int prefix, n_threads;
    /* most windows per document; with 0 or 1 only the first window is used */
    int windows;
} pl_feature_job;
PL_MUST_CHECK pl_status pl_router_features(const pl_feature_job *job,
                                           const pl_tokens *tokens, float *features);

/* The documents of each path: those of path p are docs[first[p] .. first[p+1]), in
 * rising order. With an overlap of n > 1 a document is in the shards of its n nearest
 * paths. A path that would have no documents gets those nearest to its centroid
 * (n_repaired counts such paths). */
typedef struct pl_shards {
    int n_paths;
    uint32_t *docs;
    size_t *first; /* n_paths + 1 */
    int *path_of;  /* [n_docs] nearest path of each document */
    int n_repaired;
} pl_shards;
PL_MUST_CHECK pl_status pl_shards_make(const pl_router *router, const float *features,
                                       size_t n_docs, int overlap, pl_shards *out);
void pl_shards_clear(pl_shards *shards);

/* ---- prefix model ----
 * One tiny language model per path, made of counts of tokens and of pairs of tokens. A
 * text goes to the path whose model gives it the highest likelihood. */
typedef struct pl_prefix_lm pl_prefix_lm;
/* the most counts of a model: size of the vocabulary times number of paths */
enum { PL_PREFIX_LM_CELLS_MAX = 1 << 28 };
typedef struct pl_prefix_lm_job {
    const pl_tokens *tokens;
    /* Of each document at most `windows` windows of `length` tokens are read, spread
     * evenly; with 0 or 1 only the first window. */
    int length, windows;
    int n_paths, n_threads;
} pl_prefix_lm_job;
/* Counts the tokens of each document d for the path path_of[d]; a document with -1 is
 * not counted. */
PL_MUST_CHECK pl_status pl_prefix_lm_count(const pl_prefix_lm_job *job,
                                           const int *path_of, pl_prefix_lm **out);
void pl_prefix_lm_destroy(pl_prefix_lm **lm);
int pl_prefix_lm_n_paths(const pl_prefix_lm *lm);
PL_MUST_CHECK pl_status pl_prefix_lm_encode(const pl_prefix_lm *lm, pl_buf *out);
/* ERR_DAMAGED, ERR_UNSUPPORTED (a different format version), ERR_NOMEM. */
PL_MUST_CHECK pl_status pl_prefix_lm_decode(const void *data, size_t len, int n_threads,
                                            pl_prefix_lm **out);
/* The largest size in bytes of a model for this vocabulary and number of paths. */
uint64_t pl_prefix_lm_bytes(int vocab, int n_paths);
/* Writes nats [n_paths]: for each path, -log p of all tokens but the first under the
 * path's model. */
void pl_prefix_lm_nats(const pl_prefix_lm *lm, const int32_t *tokens, int n,
                       double *nats);
/* Writes a row of n - 1 losses per path, rows `stride` apart: -log p of each token but
 * the first. Row i belongs to paths[i], or to path i if `paths` is NULL. */
void pl_prefix_lm_losses(const pl_prefix_lm *lm, const int *paths, int n_paths,
                         const int32_t *tokens, int n, float *losses, size_t stride);

/* Finds the group of documents with identical features [n, dim] that has the largest
 * total weight; among groups of the same weight, the one with most documents. No router
 * can split such a group. Often the group is a single document. `weights` [n] means the
 * same as in pl_router_options. */
typedef struct pl_alike {
    size_t n_docs;
    double weight;
} pl_alike;
PL_MUST_CHECK pl_status pl_router_heaviest_alike(const float *features, size_t n,
                                                 int dim, const double *weights,
                                                 pl_alike *out);

/* Places the documents of features [n, dim] on a plane, for a picture: xy [n, 2] are
 * the first two principal components of the standardised features, each with
 * variance 1. `shares`: the part of the variance along each of them. With fewer than
 * two documents all outputs are 0. The result does not depend on n_threads. */
PL_MUST_CHECK pl_status pl_router_map(const float *features, size_t n, int dim,
                                      int n_threads, float *xy, double shares[2]);

/* How well an assignment matches labels. purity: share of documents that have the most
 * frequent label of their cluster; nmi: mutual information / mean of the two
 * entropies. */
typedef struct pl_judgement {
    double purity, nmi;
} pl_judgement;
void pl_judge(const int *cluster, int n_clusters, const uint32_t *label, int n_labels,
              size_t n, pl_judgement *out);

#ifdef __cplusplus
}
#endif
#endif
