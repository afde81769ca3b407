/* Generation: prefill the prompt, then one token at a time. */
#include "serve/pieces.h"
#include "serve/serve.h"
#include <math.h>
#include <string.h>

const char *pl_finish_name(pl_finish finish)
{
    return finish == PL_FINISH_STOP ? "stop" : "length";
}

typedef struct run {
    const pl_generator *generator;
    const pl_generate_options *options;
    pl_chooser *chooser;
    float *logits; /* [vocab] */
    pl_buf bytes;  /* of the last token */
    pieces pieces;
    pl_generate_result result;
} run;

static pl_status check_request(const pl_generator *generator, int n_prompt,
                               const pl_generate_options *options)
{
    int known = pl_tokenizer_vocab(generator->tokenizer);
    if (known > generator->vocab || known <= PL_TOKEN_EOS)
        return pl_fail(
            PL_ERR_CONFIG,
            "the tokenizer has %d tokens and the model %d; use the tokenizer "
            "that the model was trained with",
            known, generator->vocab);
    if (n_prompt < 1)
        return pl_fail(PL_ERR_USAGE, "the prompt is empty; give at least one token");
    if (n_prompt > generator->context)
        return pl_fail(
            PL_ERR_USAGE,
            "the prompt has %d tokens and the model's context is %d; shorten it",
            n_prompt, generator->context);
    if (options->max_tokens < 1)
        return pl_fail(PL_ERR_USAGE, "max_tokens is %d; give 1 or more",
                       options->max_tokens);
    return PL_OK;
}

static pl_status open_run(run *r)
{
    int known = pl_tokenizer_vocab(r->generator->tokenizer);
    void *logits = NULL;
    PL_RETURN_IF(pl_chooser_create(known, &r->chooser));
    PL_RETURN_IF(
        pl_try_alloc((size_t)r->generator->vocab * sizeof(float), "logits", &logits));
    r->logits = logits;
    r->pieces.stop = r->options->stop;
    for (int s = 0; s < PL_STOP_MAX && r->options->stop[s]; ++s) {
        if (r->options->stop[s][0] == '\0')
            return pl_fail(PL_ERR_USAGE, "a stop text is empty; leave it out");
        r->pieces.n_stop = s + 1;
    }
    return PL_OK;
}

static void close_run(run *r)
{
    pl_chooser_destroy(&r->chooser);
    pl_free_aligned(r->logits);
    pl_buf_destroy(&r->bytes);
    pieces_destroy(&r->pieces);
}

static pl_status choose_next(run *r, int32_t *token)
{
    r->logits[PL_TOKEN_UNK] = -INFINITY;
    r->logits[PL_TOKEN_BOS] = -INFINITY;
    uint64_t place = (uint64_t)(r->result.n_prompt + r->result.n_tokens);
    PL_RETURN_IF(
        pl_choose_token(r->chooser, r->logits, &r->options->choice, place, token));
    ++r->result.n_tokens;
    return PL_OK;
}

static pl_status emit_token(run *r, int32_t token, bool *stopped)
{
    pl_buf_clear(&r->bytes);
    PL_RETURN_IF(pl_tokenizer_decode(r->generator->tokenizer, &token, 1, &r->bytes));
    return pieces_add(&r->pieces, r->bytes.data, r->bytes.len, stopped);
}

/* The last token is not fed: nothing is asked of the model after it. */
static pl_status decode_tokens(run *r)
{
    pl_decoder *decoder = r->generator->decoder;
    for (;;) {
        int32_t token;
        bool stopped = false;
        PL_RETURN_IF(choose_next(r, &token));
        if (token != PL_TOKEN_EOS)
            PL_RETURN_IF(emit_token(r, token, &stopped));
        r->result.finish = PL_FINISH_STOP;
        if (stopped)
            return PL_OK;
        if (token == PL_TOKEN_EOS)
            return pieces_end(&r->pieces);
        r->result.finish = PL_FINISH_LENGTH;
        if (r->result.n_tokens == r->options->max_tokens ||
            pl_decoder_position(decoder) == r->generator->context)
            return pieces_end(&r->pieces);
        PL_RETURN_IF(pl_decoder_feed(decoder, &token, 1, r->logits));
    }
}

pl_status pl_generate(const pl_generator *generator, const int32_t *prompt,
                      int n_prompt, const pl_generate_options *options,
                      pl_piece_fn emit, void *context, pl_generate_result *out)
{
    run r = {.generator = generator,
             .options = options,
             .pieces = {.emit = emit, .context = context}};
    pl_status status;
    memset(out, 0, sizeof *out);
    PL_RETURN_IF(check_request(generator, n_prompt, options));
    PL_TRY(open_run(&r));
    double start = pl_now();
    pl_decoder_reset(generator->decoder);
    PL_TRY(pl_decoder_feed(generator->decoder, prompt, n_prompt, r.logits));
    r.result.n_prompt = n_prompt;
    r.result.prompt_seconds = pl_now() - start;
    PL_TRY(decode_tokens(&r));
    r.result.decode_seconds = pl_now() - start - r.result.prompt_seconds;
    *out = r.result;
done:
    close_run(&r);
    return status;
}
