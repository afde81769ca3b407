/* Arithmetic on the results of an evaluation: gains with their standard errors, the
 * effort of training, and the rules that choose a path again every W tokens (every.c)
 * compared with one choice per document. Nothing here reads a run or a store. */
#pragma once
#include "eval/scorer.h"

/* Returns the bits per byte of a text of n_bytes bytes; NaN if n_bytes is 0. */
double pl_bits_per_byte(const pl_score *score, uint64_t n_bytes);

/* By how many percent the perplexity of `scores` is lower (negative: higher) than that
 * of `than`, with the standard error of the difference over the n documents. */
typedef struct pl_gain {
    double percent, error; /* error: NaN if it is not known */
} pl_gain;
pl_gain pl_score_gain(const pl_score *scores, const pl_score *than, size_t n);
/* The same gain on the first window of each document alone. */
pl_gain pl_first_gain(const pl_score *scores, const pl_score *than, size_t n);
/* The same gain if every domain counts equally (macro mean): of the geometric mean of
 * the domains' perplexities. The error is NaN if a domain has only one document. */
pl_gain pl_macro_gain(const pl_tokens *tokens, const uint32_t *docs,
                      const pl_score *scores, const pl_score *than, size_t n);
/* Returns the geometric mean of the perplexities of the domains that have counted
 * targets; NaN if none has. */
double pl_macro_perplexity(const pl_score *by_domain, size_t n_domains);
/* Returns the score of the first windows alone. */
pl_score pl_first_windows(const pl_score *score);

/* Tokens and seconds of the trainings (paths and replicas) of an arm. */
typedef struct pl_spent {
    uint64_t tokens, longest; /* longest: of the training with the most tokens */
    /* mean tokens per training; for the mixture, the sum of its chapters' means */
    uint64_t mean;
    double seconds;
    int n;               /* number of trainings */
    int64_t least_phase; /* the lowest phase that any of them has reached */
} pl_spent;

typedef struct pl_effort {
    /* tokens on which each path was trained, including the tokens of the base model */
    uint64_t tokens_per_path;
    uint64_t tokens_total;
    double flops; /* floating-point operations of training */
    /* seconds that training would take if each path or replica had its own machine; NaN
     * if `rate` is 0 */
    double seconds;
} pl_effort;
/* `base`: the base model that the arm continues; NULL: the arm is the base model.
 * `machines`: number of machines that share each batch of a training. `rate`: tokens
 * per second of one machine. The seconds are computed from tokens and one rate, because
 * measured times depend on which arms were trained at the same time. */
pl_effort pl_effort_of(const pl_spent *spent, const pl_spent *base, double machines,
                       double flops_per_token, double rate);

/* Results of choosing the path of a document again every W tokens (every.c). `history`
 * chooses by the paths' losses of the earlier text, `gate` by the losses of the
 * router's tiny language models, and `oracle` in hindsight. */
typedef struct pl_every_way {
    pl_score score; /* score of the counted targets */
    /* n_choices: number of choices after the first path; n_changes: number of choices
     * that changed the path */
    uint64_t n_choices, n_changes;
    /* Number of tokens that chosen paths must read when the path changes: those tokens
     * of the current window that the new path has not read yet. Always 0 for `history`,
     * because all paths read all tokens. */
    uint64_t n_missed;
} pl_every_way;
typedef struct pl_every_choice {
    pl_every_way history, gate; /* gate: all zeros if pl_route_document.gate is NULL */
    pl_score oracle;
} pl_every_choice;

/* The results of pl_score_routes for several values of W. */
typedef struct pl_every_results {
    const pl_every_choice *choices; /* [n_every, n] */
    const int *every;               /* [n_every] the values of W */
    int n_every;
    const pl_score *once; /* [n] scores of one choice per document, by likelihood */
    size_t n;
    uint64_t n_targets, n_bytes; /* counted tokens, and the bytes of their text */
    int n_open;                  /* number of paths that may be chosen */
} pl_every_results;

typedef struct pl_every_row {
    const char *rule; /* "once", "history", "gate" or "oracle" */
    int every;        /* W; 0: the rule "once" */
    double bits, bits_error, ppl;
    /* by how many percent the perplexity is below the perplexity of "once", and the
     * standard error */
    double below, below_error;
    /* gain in nats over "once", divided by the gain of "oracle" for the same W; NaN in
     * the rows of "once" and "oracle" */
    double share;
    /* fraction of choices that changed the path; NaN in the rows of "once" and
     * "oracle" */
    double changes;
    /* tokens that paths read only for the choice, per scored token; NaN in the rows of
     * "once" and "oracle" */
    double read;
} pl_every_row;

/* Returns pl_every_n_rows rows: first "once", then three rules for each W. The caller
 * frees them with pl_free. */
pl_every_row *pl_every_rows(const pl_every_results *results);
int pl_every_n_rows(const pl_every_results *results);
