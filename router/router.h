/* The public header of router. A router decides to which path a document goes.
 *
 * The feature of a document is a mean of hidden states: the states of the base model's
 * last block in some windows of the document (pl_feature_job). K-means computes one
 * centroid per path. Product k-means splits the feature into one part per level and
 * clusters each part; the labels of all parts together identify the path. The
 * discriminative router is linear. It is fitted to scores that say how well each path
 * predicts each document, so that a document goes to the path that would predict it
 * best.
 *
 * Each path has a cost for a document: the distance of the document to the path's
 * centroids plus the path's price. A document goes to the path with the lowest cost.
 * Prices balance the shards; without balancing they are 0.
 *
 * The k-means and linear routers assign the training documents. New text is routed by a
 * prefix model: one tiny language model per path, made of counts in the path's
 * documents. A prefix model is an immutable object in the store.
 *
 * Features are transformed before distances are computed (lens: standardise, whiten,
 * sharpen, scale to unit length), because hidden states have a few directions with
 * large variance that say little about a document.
 *
 * Read in this order: kmeans, lens (pca, sharpen, eigen), router, router_fit
 * (discriminate, arrange, balance, alike), features, shards, prefix_lm, prefix_lm_fit,
 * prefix_lm_code, judge (purity, NMI), map (a picture). */
#pragma once
#include "corpus/corpus.h"
#include "eval/eval.h"
#include "modules/modules.h"

typedef enum pl_router_kind {
    PL_ROUTER_KMEANS,
    PL_ROUTER_PRODUCT,
    PL_ROUTER_LINEAR /* the discriminative router */
} pl_router_kind;

typedef struct pl_router_options {
    pl_router_kind kind;
    int n_paths;
    /* The number of levels, and the number of experts of each level. Product k-means
     * divides the feature into n_levels parts. Plain k-means uses the levels to give
     * similar clusters to paths that share modules. */
    int n_levels;
    int experts[PL_LEVELS_MAX];
    /* restarts: number of k-means++ restarts; iterations: upper limit for iterations of
     * Lloyd's algorithm, or of the gradient descent of the linear router */
    int restarts, iterations;
    /* Only for a linear router: [n, n_paths] log likelihood in nats of each document on
     * each path; borrowed. The router is fitted to choose the path with the highest
     * score of each document. */
    const double *scores;
    double decay; /* weight decay of the linear router's rows, at least 0 */
    /* If this is above 0, the fit computes prices that limit the weight of each shard
     * to (1 + balance) times the mean weight. 0: shards are not balanced. */
    double balance;
    /* [n] weight of each document for balance, in tokens; borrowed; NULL: every weight
     * is 1 */
    const double *weights;
    /* first step of the transform: divide each feature by its standard deviation */
    bool standardize;
    /* second step: keep this many principal components, each scaled to variance 1; 0:
     * keep all features */
    int components;
    /* Number of rounds that rotate the components towards directions that separate
     * clusters (unsupervised discriminant analysis). The directions are combinations of
     * the first 64 components, or of the first `components` if that is more. 0: no
     * rounds. */
    int sharpen;
    bool unit; /* last step: scale each document's feature vector to length 1 */
    uint64_t seed;
    int n_threads;
    /* Memory limit of a fit, in bytes; 0: no limit. If the documents need more memory,
     * the fit uses only evenly spaced documents, at least one per path. */
    uint64_t memory;
} pl_router_options;

/* Returns d if a fit to n documents, with features of `dim` elements, would use only
 * every d-th document because of the memory limit; 1 if it would use all documents. */
size_t pl_router_stride(const pl_router_options *options, size_t n, int dim);

typedef struct pl_router pl_router;

/* Fits a router to features [n, dim]. The same input gives the same bytes for any
 * n_threads. ERR_DATA: there are more paths than documents. ERR_CONFIG: an option is
 * out of range; or `balance` is above 0 and a weight is negative or not finite, or all
 * weights are 0. ERR_NUMERIC: a feature or a score is not finite. */
pl_status pl_router_fit(const float *features, size_t n, int dim,
                        const pl_router_options *options, pl_router **out);
/* Replaces the prices of a linear router by prices for these n documents. With the new
 * prices, the documents of each path together weigh at most (1 + options->balance)
 * times the mean, if such prices are found. With balance 0, all prices become 0. The
 * router may have been fitted to other documents. Uses only these options: balance,
 * weights, n_threads, memory. */
pl_status pl_router_price(pl_router *router, const float *features, size_t n,
                          const pl_router_options *options);
void pl_router_destroy(pl_router **router);

/* pl_router_features computes features [n_docs, width]. The feature of a document is
 * computed from its first `prefix` tokens (with BOS), or from all its tokens if it has
 * fewer. If `windows` is above 1, the feature is the mean over up to `windows` windows
 * of `prefix` tokens, which are evenly spaced in the document. The result does not
 * depend on n_threads. `params` are the fp32 parameters of the base model. */
typedef struct pl_feature_job {
    const pl_topology *topology;
    const float *params;
    const char *precision; /* as in pl_backend_options */
    const char *backend;
    int prefix, n_threads;
    /* largest number of windows per document; with 0 or 1 only the first window is
     * used */
    int windows;
    /* NULL: creates a model per thread. Otherwise a borrowed model with this batch and
     * the context `prefix`, whose parameters are loaded; params, precision, backend and
     * n_threads are then ignored. */
    pl_model *model;
    int batch;
    /* NULL, or a function that each thread calls before each batch. If the function
     * fails, the computation ends with its status. */
    pl_status (*check)(void *context);
    void *check_context;
} pl_feature_job;
/* Returns the number of rows of `prefix` tokens that a model for features computes at
 * once, on a GPU or on a processor. */
int pl_router_feature_rows(int prefix, bool device);
/* Returns the number of tokens from which the features of all documents are computed,
 * with `prefix` and `windows` as in pl_feature_job. */
uint64_t pl_router_feature_tokens(const pl_tokens *tokens, int prefix, int windows);
pl_status pl_router_features(const pl_feature_job *job, const pl_tokens *tokens,
                             float *features);

/* The documents of each path. The documents of path p are docs[first[p] .. first[p+1]),
 * in rising order. With an overlap of n > 1 a document is in the shards of its n
 * cheapest paths. A path that would have no documents gets the documents for which its
 * cost is lowest (n_repaired counts such paths). */
typedef struct pl_shards {
    int n_paths;
    uint32_t *docs;
    size_t *first; /* [n_paths + 1] */
    int *path_of;  /* [n_docs] cheapest path of each document */
    int n_repaired;
} pl_shards;
/* Routes n_docs documents with features [n_docs, dim] and makes the lists of documents
 * of all paths. pl_shards_clear frees the lists. */
pl_status pl_shards_make(const pl_router *router, const float *features, size_t n_docs,
                         int overlap, pl_shards *out);
void pl_shards_clear(pl_shards *shards);

/* ---- prefix model ----
 * One tiny language model per path, made of counts of tokens and of pairs of tokens. A
 * text goes to the path whose model gives it the highest likelihood. */
typedef struct pl_prefix_lm pl_prefix_lm;
/* largest number of counts in one table of a model; the table of tokens has one count
 * per token of the vocabulary and path */
enum { PL_PREFIX_LM_CELLS_MAX = 1 << 28 };
typedef struct pl_prefix_lm_job {
    const pl_tokens *tokens;
    /* From each document at most `windows` evenly spaced windows of `length` tokens are
     * read. With 0 or 1 only the first window is read. */
    int length, windows;
    int n_paths, n_threads;
} pl_prefix_lm_job;
/* Makes a prefix model. The tokens of each document d count for the path path_of[d]. If
 * path_of[d] is -1, the document does not count. */
pl_status pl_prefix_lm_count(const pl_prefix_lm_job *job, const int *path_of,
                             pl_prefix_lm **out);
void pl_prefix_lm_destroy(pl_prefix_lm **lm);
int pl_prefix_lm_n_paths(const pl_prefix_lm *lm);
pl_status pl_prefix_lm_encode(const pl_prefix_lm *lm, pl_buf *out);
/* Decodes a prefix model. ERR_DAMAGED: the bytes are damaged. ERR_UNSUPPORTED: the
 * format version is not known. ERR_NOMEM. */
pl_status pl_prefix_lm_decode(const void *data, size_t len, int n_threads,
                              pl_prefix_lm **out);
/* Returns the most memory, in bytes, that a model for this vocabulary and number of
 * paths can need. */
uint64_t pl_prefix_lm_bytes(int vocab, int n_paths);
/* Writes to nats [n_paths], for each path, the sum of -log p over all tokens except the
 * first, where p is the probability of a token under the path's model. */
void pl_prefix_lm_nats(const pl_prefix_lm *lm, const int32_t *tokens, int n,
                       double *nats);
/* Writes one row of n - 1 losses per path: -log p of each token except the first. Row i
 * begins at losses[i * stride] and belongs to paths[i], or to path i if `paths` is
 * NULL. */
void pl_prefix_lm_losses(const pl_prefix_lm *lm, const int *paths, int n_paths,
                         const int32_t *tokens, int n, float *losses, size_t stride);

/* Finds the group of documents with identical features [n, dim] that has the largest
 * total weight; among groups of equal weight, the group with the most documents. No
 * router can split such a group. Often the group is a single document. `weights` [n]
 * has the same meaning as in pl_router_options. */
typedef struct pl_alike {
    size_t n_docs;
    double weight;
} pl_alike;
pl_status pl_router_heaviest_alike(const float *features, size_t n, int dim,
                                   const double *weights, pl_alike *out);

/* Computes positions of documents on a plane, for a picture, from features [n, dim]. xy
 * [n, 2] gets the first two principal components of the standardised features, each
 * with variance 1. `shares` gets the fraction of the total variance along each of the
 * two components. With fewer than two documents all outputs are 0. The result does not
 * depend on n_threads. */
pl_status pl_router_map(const float *features, size_t n, int dim, int n_threads,
                        float *xy, double shares[2]);

/* How well an assignment matches labels. purity: fraction of documents that have the
 * most frequent label of their cluster. nmi: normalised mutual information, which is
 * the mutual information of clusters and labels, divided by the mean of the two
 * entropies. */
typedef struct pl_judgement {
    double purity, nmi;
} pl_judgement;
void pl_judge(const int *cluster, int n_clusters, const uint32_t *label, int n_labels,
              size_t n, pl_judgement *out);
