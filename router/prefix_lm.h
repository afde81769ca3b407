/* Private to router: the tables of a prefix model (prefix_lm.c). */
#pragma once
#include "router/router.h"

/* PREFIX_LM_BUCKETS is the number of buckets (hash values) of pairs of tokens. A model
 * has counts for at most PREFIX_LM_ROWS_MOST of the buckets and at most
 * PREFIX_LM_PATHS_MOST paths. */
enum {
    PREFIX_LM_BUCKETS = 1 << 22,
    PREFIX_LM_ROWS_MOST = 1 << 16,
    PREFIX_LM_PATHS_MOST = 1 << 16
};

struct pl_prefix_lm {
    int vocab, n_paths;
    uint32_t n_rows;   /* number of frequent pairs */
    uint32_t *buckets; /* [n_rows] the buckets of frequent pairs, in rising order */
    uint32_t *tokens;  /* [vocab, n_paths] how often each token occurred on each path */
    uint32_t *pairs;   /* [n_rows, n_paths] the same for each frequent pair */
    /* prefix_lm_finish computes these arrays. pair_terms [n_rows, n_paths]: logarithms
     * of the smoothed counts of pairs. before_terms [vocab, n_paths]: logarithms of the
     * smoothed counts of tokens. alone_terms [vocab, n_paths]: log p of a token without
     * regard to the previous token. */
    float *pair_terms, *before_terms, *alone_terms;
};

/* Finds the most frequent pairs of tokens: call survey_begin, then survey_add for each
 * part of the text, then survey_end. survey_clear frees the counts. */
typedef struct pair_survey {
    uint32_t *counts; /* [PREFIX_LM_BUCKETS] counts of pairs */
    int vocab;
} pair_survey;
pl_status survey_begin(int vocab, pair_survey *out);
void survey_add(pair_survey *survey, const int32_t *tokens, int n);
/* Creates a model whose rows are for the most frequent pairs, and whose counts are
 * zero. */
pl_status survey_end(pair_survey *survey, int n_paths, pl_prefix_lm **out);
void survey_clear(pair_survey *survey);

/* Creates a model whose counts are zero. `buckets` [n_rows] must be in rising order and
 * below PREFIX_LM_BUCKETS. */
pl_status prefix_lm_create(int vocab, int n_paths, const uint32_t *buckets,
                           uint32_t n_rows, pl_prefix_lm **out);
/* Adds the tokens of a text, and its pairs, to the counts of a path. */
void prefix_lm_add(pl_prefix_lm *lm, int path, const int32_t *tokens, int n);
/* Computes the logarithms of a model. Call it after all texts were added, before
 * pl_prefix_lm_nats. */
pl_status prefix_lm_finish(pl_prefix_lm *lm, int n_threads);
