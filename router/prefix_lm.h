/* Private to router: the tables of a prefix model (prefix_lm.c). */
#ifndef PL_ROUTER_PREFIX_LM_H
#define PL_ROUTER_PREFIX_LM_H
#include "router/router.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A pair of tokens falls into one of these buckets; so many of them at most have
 * counts of their own, and so many counts are kept at most. */
enum {
    PREFIX_LM_BUCKETS = 1 << 22,
    PREFIX_LM_ROWS_MOST = 1 << 16,
    PREFIX_LM_PATHS_MOST = 1 << 16
};

struct pl_prefix_lm {
    int vocab, n_paths;
    uint32_t n_rows;
    uint32_t *buckets; /* [n_rows] those of frequent pairs, rising */
    /* Whole numbers: how often each path saw a token, and a frequent pair of tokens. */
    uint32_t *tokens; /* [vocab, n_paths] */
    uint32_t *pairs;  /* [n_rows, n_paths] */
    /* What prefix_lm_finish makes of them: logarithms of smoothed counts of a pair, of
     * a token that others follow, and log p of a token whatever came before it. */
    float *pair_terms, *before_terms, *alone_terms;
};

/* Chooses the frequent pairs of a text: give each part of it to survey_add. */
typedef struct pair_survey {
    uint32_t *counts; /* [PREFIX_LM_BUCKETS] */
    int vocab;
} pair_survey;
PL_MUST_CHECK pl_status survey_begin(int vocab, pair_survey *out);
void survey_add(pair_survey *survey, const int32_t *tokens, int n);
/* Creates a model with rows for the pairs that were most frequent. */
PL_MUST_CHECK pl_status survey_end(pair_survey *survey, int n_paths,
                                   pl_prefix_lm **out);
void survey_clear(pair_survey *survey);

/* `buckets` [n_rows] rise and are below PREFIX_LM_BUCKETS; counts begin at zero. */
PL_MUST_CHECK pl_status prefix_lm_create(int vocab, int n_paths,
                                         const uint32_t *buckets, uint32_t n_rows,
                                         pl_prefix_lm **out);
void prefix_lm_add(pl_prefix_lm *lm, int path, const int32_t *tokens, int n);
/* Call it when all texts were added, before prefix_lm_score. */
PL_MUST_CHECK pl_status prefix_lm_finish(pl_prefix_lm *lm, int n_threads);
/* Adds -log p of the tokens after the first to nats [n_paths]. */
void prefix_lm_score(const pl_prefix_lm *lm, const int32_t *tokens, int n,
                     double *nats);

#ifdef __cplusplus
}
#endif
#endif
