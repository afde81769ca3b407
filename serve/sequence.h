/* Private to serve: the state of one request while its tokens are chosen.
 *
 * The owner of a decoder passes the logits to sequence_take, then feeds `token` to the
 * decoder. It repeats these two steps until `ended` is true. The chosen tokens depend
 * only on the prompt, the options and the logits. */
#pragma once
#include "serve/pieces.h"

typedef struct sequence {
    const pl_tokenizer *tokenizer;
    pl_generate_options options; /* stop texts and biases are borrowed until close */
    /* gets the scores that the options ask for; NULL (no scores) until the caller sets
     * it; this must happen before the first token */
    pl_score_fn score;
    void *score_context;
    /* vocab: number of the model's tokens; n_known: number of the tokenizer's tokens */
    int vocab, n_known;
    /* [n_known] how often each token was chosen; NULL if there are no penalties */
    int *chosen;
    /* [vocab] the logits before options change them; NULL if options.scores is false */
    float *raw;
    pl_buf bytes; /* bytes of the last token */
    pieces pieces;
    int32_t token; /* the chosen token, which must be fed to the decoder next */
    bool ended;
    pl_generate_result result; /* the caller sets its times */
} sequence;

/* Begins a sequence, and checks the prompt's length and the options that do not depend
 * on logits. `context` and `vocab` are the model's. ERR_USAGE and ERR_CONFIG as for
 * pl_generate. The caller closes the sequence, also after a failure. */
pl_status sequence_open(sequence *s, const pl_tokenizer *tokenizer, int vocab,
                        int context, int n_prompt, const pl_generate_options *options,
                        pl_piece_fn emit, void *emit_context);
void sequence_close(sequence *s);

/* Chooses a token from `logits` (whose values change), and emits the text that is
 * final. `room` is the number of tokens that still fit into the decoder's context. */
pl_status sequence_take(sequence *s, pl_chooser *chooser, float *logits, int room);
/* Reports the score of a token to s->score, which must be set; `logits` is NULL for the
 * first token of the prompt. */
pl_status sequence_score(sequence *s, const float *logits, int32_t token);
