/* Measures how well one path predicts documents.
 *
 * A document is cut into windows of T = `context` targets, and each window is scored
 * alone. Window w begins at target w * S, where S = `step` is at most T:
 *
 *   S = T    the windows of the sampler, which training uses: the first targets of a
 *            window see no text before it
 *   S < T    sliding windows. The first T - S targets of a window are those that the
 *            window before has scored, so every target sees at least T - S targets
 *            before it, or the whole document before it
 *
 *   window 0   0 ............... T-1
 *   window 1         S ... T-1 | T ..... T+S-1
 *              seen, not counted  counted
 *
 * A token counts as a target only if its index in the document is at least `prefix`,
 * because the first `prefix` tokens determined the path. */
#pragma once
#include "corpus/corpus.h"
#include "modules/modules.h"

typedef struct pl_scorer_options {
    const pl_topology *topology; /* borrowed until pl_scorer_destroy */
    const char *backend;         /* backend and precision as in pl_backend_options */
    const char *precision;
    int n_threads; /* each thread has one model; on GPUs at most one thread per GPU */
    /* T, the number of targets per window; 0: the context length of the model's
     * shape */
    int context;
    /* number of windows per call of the model; 0: as many as have about 2048 tokens */
    int batch;
    /* S, the number of targets by which each window is shifted; 0: T */
    int step;
    int prefix; /* number of tokens at the start of a document that do not count */
    /* NULL: the scorer creates its models. Otherwise a borrowed model with this batch
     * and context, whose parameters are loaded; the scorer then ignores backend,
     * precision and n_threads. */
    pl_model *model;
    /* NULL, or a function that each thread calls before each batch. If the function
     * fails, scoring ends with its status. */
    pl_status (*check)(void *context);
    void *check_context;
} pl_scorer_options;

typedef struct pl_score {
    double nats;        /* sum of the losses of all targets that count */
    uint64_t n_targets; /* number of targets that count */
    /* the part of nats and n_targets in the first T targets of each document, where no
     * earlier text is out of sight */
    double first_nats;
    uint64_t n_first;
} pl_score;

typedef struct pl_scorer pl_scorer;
pl_status pl_scorer_create(const pl_scorer_options *options, pl_scorer **out);
void pl_scorer_destroy(pl_scorer **scorer); /* accepts NULL */
/* Returns the options, with the defaults of context, batch and step in place of 0. */
const pl_scorer_options *pl_scorer_settings(const pl_scorer *scorer);
/* Returns the target with which the window begins that counts target t. */
static inline uint32_t pl_window_start(uint32_t t, uint32_t T, uint32_t S)
{
    return t < T ? 0 : (t - T + S) / S * S;
}

/* Number of targets at a window's start that the prefix or the window before has. */
static inline uint32_t pl_window_skip(uint32_t at, uint32_t prefix, uint32_t T,
                                      uint32_t S)
{
    const uint32_t skip = prefix > at + 1 ? prefix - at - 1 : 0;
    return at > 0 && skip < T - S ? T - S : skip;
}
/* Returns the step S of windows of T targets in reports. */
static inline int pl_window_step(int T)
{
    return (T + 1) / 2;
}

/* Copies the parameters of a path, pl_topology_path_params floats, into the models. */
pl_status pl_scorer_load(pl_scorer *scorer, const float *params);

/* Writes to scores[i] the score of document docs[i]. A document in which no target
 * counts gets zeros. Batches are filled in the order of docs, so the result depends on
 * the options and on `docs`, but not on n_threads. ERR_DATA for a token outside the
 * vocabulary; ERR_ARG if nothing was loaded or a document does not exist. */
pl_status pl_score_documents(pl_scorer *scorer, const pl_tokens *tokens,
                             const uint32_t *docs, size_t n, pl_score *scores);

/* Writes the loss in nats of every target, including targets in the prefix. `losses`
 * has pl_doc_targets elements per document, document after document in the order of
 * `docs`; the elements of a blank document are not written. Errors as in
 * pl_score_documents. */
pl_status pl_score_targets(pl_scorer *scorer, const pl_tokens *tokens,
                           const uint32_t *docs, size_t n, float *losses);

/* Returns the number of targets of a document: all its tokens except the first. */
static inline uint32_t pl_doc_targets(const pl_token_doc *doc)
{
    return doc->n_tokens > 0 ? doc->n_tokens - 1 : 0;
}
