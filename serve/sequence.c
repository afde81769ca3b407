/* Keeps the state of one request while its tokens are chosen (sequence.h). */
#include "serve/sequence.h"
#include <math.h>

const char *pl_finish_name(pl_finish finish)
{
    return finish == PL_FINISH_STOP ? "stop" : "length";
}

pl_status sequence_open(sequence *s, const pl_tokenizer *tokenizer, int vocab,
                        int context, int n_prompt, const pl_generate_options *options,
                        pl_piece_fn emit, void *emit_context)
{
    memset(s, 0, sizeof *s);
    const int known = pl_tokenizer_vocab(tokenizer);
    if (known > vocab || known <= PL_TOKEN_EOS)
        return pl_fail(PL_ERR_CONFIG,
                       "the tokenizer has %d tokens and the model has %d; use the "
                       "tokenizer that the model was trained with",
                       known, vocab);
    if (n_prompt < 1)
        return pl_fail(PL_ERR_USAGE, "the prompt is empty; give at least one token");
    if (n_prompt > context)
        return pl_fail(PL_ERR_USAGE,
                       "the prompt has %d tokens and the model's context is %d; "
                       "shorten the prompt",
                       n_prompt, context);
    if (options->max_tokens < (options->prompt_scores ? 0 : 1))
        return pl_fail(PL_ERR_USAGE, "max_tokens is %d; give 1 or more",
                       options->max_tokens);
    if (options->n_top < 0 || options->n_top > PL_TOP_MAX)
        return pl_fail(PL_ERR_USAGE,
                       "%d likeliest tokens are asked for per token; give 0 to %d",
                       options->n_top, (int)PL_TOP_MAX);
    for (int i = 0; i < options->n_bias; ++i)
        if (options->bias[i].token < 0 || options->bias[i].token >= known)
            return pl_fail(
                PL_ERR_USAGE,
                "logit_bias names token %d; the vocabulary has tokens 0 to %d",
                (int)options->bias[i].token, known - 1);
    s->tokenizer = tokenizer;
    s->options = *options;
    s->vocab = vocab;
    s->n_known = known;
    if (options->presence_penalty != 0 || options->frequency_penalty != 0)
        s->chosen = pl_alloc((size_t)known * sizeof *s->chosen);
    if (options->scores)
        s->raw = pl_alloc((size_t)vocab * sizeof *s->raw);
    s->pieces.emit = emit;
    s->pieces.context = emit_context;
    s->result.n_prompt = n_prompt;
    s->pieces.stop = s->options.stop;
    for (int i = 0; i < PL_STOPS && s->options.stop[i]; ++i) {
        if (s->options.stop[i][0] == '\0')
            return pl_fail(PL_ERR_USAGE, "a stop text is empty; leave it out");
        s->pieces.n_stop = i + 1;
    }
    return PL_OK;
}

void sequence_close(sequence *s)
{
    pl_buf_destroy(&s->bytes);
    pl_free_all(s->chosen, s->raw);
    s->chosen = NULL;
    s->raw = NULL;
    pieces_destroy(&s->pieces);
}

pl_status sequence_score(sequence *s, const float *logits, int32_t token)
{
    pl_token_score score = {.token = token, .logprob = NAN};
    if (logits)
        PL_CHECK(pl_score_token(logits, s->vocab, token, s->options.n_top, &score));
    return s->score(s->score_context, &score);
}

pl_status sequence_take(sequence *s, pl_chooser *chooser, float *logits, int room)
{
    const pl_generate_options *o = &s->options;
    bool stopped = false;
    if (s->raw)
        memcpy(s->raw, logits, (size_t)s->vocab * sizeof *s->raw);
    /* logit[v] = logit[v] + bias[v] - presence * [c > 0] - frequency * c, where c is
     * the number of times that v was chosen */
    for (int i = 0; i < o->n_bias; ++i)
        logits[o->bias[i].token] += o->bias[i].bias;
    for (int v = 0; s->chosen && v < s->n_known; ++v)
        if (s->chosen[v] > 0)
            logits[v] = (float)((double)logits[v] - o->presence_penalty -
                                o->frequency_penalty * s->chosen[v]);
    logits[PL_TOKEN_UNK] = -INFINITY;
    logits[PL_TOKEN_BOS] = -INFINITY;
    uint64_t place = (uint64_t)(s->result.n_prompt + s->result.n_tokens);
    PL_CHECK(pl_choose_token(chooser, logits, &o->choice, place, &s->token));
    if (s->raw && s->score)
        PL_CHECK(sequence_score(s, s->raw, s->token));
    if (s->chosen)
        ++s->chosen[s->token];
    ++s->result.n_tokens;
    if (s->token != PL_TOKEN_EOS) {
        pl_buf_clear(&s->bytes);
        PL_CHECK(pl_tokenizer_decode(s->tokenizer, &s->token, 1, &s->bytes));
        PL_CHECK(pieces_add(&s->pieces, s->bytes.data, s->bytes.len, &stopped));
    }
    bool full = s->result.n_tokens == o->max_tokens || room < 1;
    bool end = stopped || s->token == PL_TOKEN_EOS;
    s->result.finish = end ? PL_FINISH_STOP : PL_FINISH_LENGTH;
    s->ended = end || full;
    return s->ended && !stopped ? pieces_end(&s->pieces) : PL_OK;
}
