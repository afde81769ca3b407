/* Generates text: feeds the prompt to the decoder, then one token at a time. */
#include "serve/sequence.h"

pl_status pl_prompt_encode(const pl_tokenizer *tokenizer, const char *text, size_t len,
                           pl_buf *tokens)
{
    const int32_t bos = PL_TOKEN_BOS;
    pl_buf_append(tokens, &bos, sizeof bos);
    return pl_tokenizer_encode(tokenizer, text, len, tokens);
}

const int32_t *pl_prompt_tokens(const pl_buf *tokens)
{
    return (const int32_t *)(const void *)tokens->data;
}

int pl_prompt_count(const pl_buf *tokens)
{
    return (int)(tokens->len / sizeof(int32_t));
}

pl_status pl_generate(const pl_generator *generator, const int32_t *prompt,
                      int n_prompt, const pl_generate_options *options,
                      pl_piece_fn emit, void *context, pl_generate_result *out)
{
    sequence s;
    pl_chooser *chooser = NULL;
    void *logits = NULL;
    memset(out, 0, sizeof *out);
    pl_status status =
        sequence_open(&s, generator->tokenizer, generator->vocab, generator->context,
                      n_prompt, options, emit, context);
    PL_TRY(status);
    PL_TRY(pl_chooser_create(pl_tokenizer_vocab(generator->tokenizer), &chooser));
    PL_TRY(pl_try_alloc((size_t)generator->vocab * sizeof(float), "logits", &logits));
    double start = pl_now();
    pl_decoder_clear(generator->decoder, 0);
    PL_TRY(pl_decoder_prefill(generator->decoder, 0, prompt, n_prompt, logits));
    s.result.prompt_seconds = pl_now() - start;
    for (;;) {
        int room = generator->context - pl_decoder_length(generator->decoder, 0);
        PL_TRY(sequence_take(&s, chooser, logits, room));
        /* the last token is not fed, because no further logits are needed */
        if (s.ended)
            break;
        PL_TRY(pl_decoder_prefill(generator->decoder, 0, &s.token, 1, logits));
    }
    s.result.decode_seconds = pl_now() - start - s.result.prompt_seconds;
    *out = s.result;
done:
    sequence_close(&s);
    pl_chooser_destroy(&chooser);
    pl_free(logits);
    return status;
}
