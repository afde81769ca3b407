/* A small model of random weights for the tokens of make_words, and the answers that a
 * batch of requests gives. */
#pragma once
#include "serve/serve.h"
#include "tests/support/corpus_support.h"

extern pl_topology *topology;
extern pl_backend *backend;
extern pl_model *model;

/* Opens the backend `name` and the model. */
void open_word_model(const char *name, const char *precision, int context);

void close_word_model(void);

/* Stores version `number` of module m. The parameters depend only on m and `seed`. */
void put_word_module(pl_mixture *mix, int m, uint64_t number, uint64_t seed);

/* Makes the scratch folder, and in it the store of a 2x2 mixture with version 0 of all
 * modules, made with seed 7. Blocks that mix->arm.spec calls private are so. Returns
 * whether it could. */
bool open_word_mixture(void **state, pl_mixture *mix, int context);

int close_word_mixture(void **state, pl_mixture *mix);

/* What a request was told; it is the context of a request of told_request. */
typedef struct told {
    pl_buf text, scores;
    pl_generate_result result;
    pl_status status;
    int n_done;
} told;

/* Returns a request that tells `t`, also the score of each token. */
pl_batch_request told_request(told *t, const int32_t *prompt, int n_prompt,
                              const pl_generate_options *options);

/* Checks that two requests were told the same number of tokens, text and scores. */
void assert_same_told(told *a, told *b);

/* Frees what it was told. */
void told_clear(told *t);

/* Takes steps until no request is left. */
void run_batch(pl_batch *batch);
