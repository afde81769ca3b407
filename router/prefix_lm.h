/* Private to router: the tables of a prefix model (prefix_lm.c). */
#ifndef PL_ROUTER_PREFIX_LM_H
#define PL_ROUTER_PREFIX_LM_H
#include "router/router.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Limits: the number of buckets into which pairs of tokens fall, of buckets that have
 * counts of their own, and of counts that are kept. */
enum {
    PREFIX_LM_BUCKETS = 1 << 22,
    PREFIX_LM_ROWS_MOST = 1 << 16,
    PREFIX_LM_PATHS_MOST = 1 << 16
};

struct pl_prefix_lm {
    int vocab, n_paths;
    uint32_t n_rows;
    uint32_t *buckets; /* [n_rows] the buckets of frequent pairs, in rising order */
    /* how often a token, or a frequent pair of tokens, occurred on each path */
    uint32_t *tokens; /* [vocab, n_paths] */
    uint32_t *pairs;  /* [n_rows, n_paths] */
    /* Computed by prefix_lm_finish: logarithms of the smoothed counts of a pair and of
     * a token that another one follows, and log p of a token regardless of the token
     * before it. */
    float *pair_terms, *before_terms, *alone_terms;
};

/* Chooses the frequent pairs of a text: pass each part of the text to survey_add. */
typedef struct pair_survey {
    uint32_t *counts; /* [PREFIX_LM_BUCKETS] counts of pairs */
    int vocab;
} pair_survey;
PL_MUST_CHECK pl_status survey_begin(int vocab, pair_survey *out);
void survey_add(pair_survey *survey, const int32_t *tokens, int n);
/* Creates a model with rows for the pairs that were most frequent. */
PL_MUST_CHECK pl_status survey_end(pair_survey *survey, int n_paths,
                                   pl_prefix_lm **out);
void survey_clear(pair_survey *survey);

/* `buckets` [n_rows] must rise and be below PREFIX_LM_BUCKETS; counts begin at zero. */
PL_MUST_CHECK pl_status prefix_lm_create(int vocab, int n_paths,
                                         const uint32_t *buckets, uint32_t n_rows,
                                         pl_prefix_lm **out);
void prefix_lm_add(pl_prefix_lm *lm, int path, const int32_t *tokens, int n);
/* Computes the logarithms of a model. Call it after all texts were added, before
 * prefix_lm_score. */
PL_MUST_CHECK pl_status prefix_lm_finish(pl_prefix_lm *lm, int n_threads);
/* Adds -log p of the tokens after the first to nats [n_paths]. */
void prefix_lm_score(const pl_prefix_lm *lm, const int32_t *tokens, int n,
                     double *nats);

#ifdef __cplusplus
}
#endif
#endif
