/* Writes answers to requests for completions in the form of OpenAI's API. */
#include "serve/pieces.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

pl_status pl_token_text(const pl_tokenizer *tokenizer, int32_t token, pl_buf *out)
{
    static const char *const names[] = {
        [PL_TOKEN_UNK] = "<unk>", [PL_TOKEN_BOS] = "<s>", [PL_TOKEN_EOS] = "</s>"};
    pl_buf bytes = {0};
    if (token >= 0 && token < (int32_t)(sizeof names / sizeof *names)) {
        pl_buf_printf(out, "%s", names[token]);
        return PL_OK;
    }
    /* the model may have more tokens than the tokenizer; such a token has no text */
    if (token >= pl_tokenizer_vocab(tokenizer)) {
        pl_buf_printf(out, "<token %d>", (int)token);
        return PL_OK;
    }
    pl_status status = pl_tokenizer_decode(tokenizer, &token, 1, &bytes);
    if (status == PL_OK && pieces_are_text(bytes.data, bytes.len)) {
        pl_buf_append(out, bytes.data, bytes.len);
    } else if (status == PL_OK) {
        pl_buf_printf(out, "bytes:");
        for (size_t i = 0; i < bytes.len; i++)
            pl_buf_printf(out, "\\x%02x", bytes.data[i]);
    }
    pl_buf_destroy(&bytes);
    return status;
}

/* Adds the text of the token to `to`. If `logprob` is not NULL, `to` is an object, and
 * the text is the key of the value *logprob; otherwise `to` is a list of texts. */
static pl_status set_token(const pl_tokenizer *tokenizer, int32_t token, pl_json *to,
                           const double *logprob)
{
    pl_buf text = {0};
    pl_status status = pl_token_text(tokenizer, token, &text);
    const char *name = pl_buf_text(&text);
    if (status == PL_OK && logprob)
        pl_json_set_real(to, name, *logprob);
    else if (status == PL_OK)
        pl_json_push(to, pl_json_make_text(name));
    pl_buf_destroy(&text);
    return status;
}

/* Writes the scores in four lists, as /v1/completions does. */
static pl_status set_scores(const pl_completion_answer *a, pl_completion_choice *c,
                            pl_json *scores)
{
    pl_status status = PL_OK;
    pl_json *tokens = pl_json_array(), *logprobs = pl_json_array();
    pl_json *tops = pl_json_array(), *offsets = pl_json_array();
    for (size_t i = 0; i < c->n_scores && status == PL_OK; i++) {
        const pl_token_score *s = &c->scores[i];
        status = set_token(a->tokenizer, s->token, tokens, NULL);
        pl_json_push(logprobs, pl_json_make_real(s->logprob));
        /* The likeliest tokens and the token that was chosen. If two tokens have the
         * same text, the value of the likelier one is kept. */
        const bool is_scored = isfinite(s->logprob);
        pl_json *top = is_scored ? pl_json_object() : pl_json_make_real(NAN);
        if (status == PL_OK && is_scored)
            status = set_token(a->tokenizer, s->token, top, &s->logprob);
        for (int k = s->n_top - 1; is_scored && k >= 0 && status == PL_OK; k--)
            status = set_token(a->tokenizer, s->top[k].token, top, &s->top[k].logprob);
        pl_json_push(tops, top);
        pl_json_push(offsets, pl_json_make_int(c->offset));
        /* counts the characters whose first byte is in the token's text */
        pl_buf bytes = {0};
        /* these two have no text; an unknown token has U+FFFD */
        if (status == PL_OK && s->token != PL_TOKEN_BOS && s->token != PL_TOKEN_EOS)
            status = pl_tokenizer_decode(a->tokenizer, &s->token, 1, &bytes);
        for (size_t k = 0; k < bytes.len; k++)
            c->offset += (bytes.data[k] & 0xc0) != 0x80;
        pl_buf_destroy(&bytes);
    }
    pl_json_set(scores, "tokens", tokens);
    pl_json_set(scores, "token_logprobs", logprobs);
    pl_json_set(scores, "top_logprobs", tops);
    pl_json_set(scores, "text_offset", offsets);
    return status;
}

static pl_status set_chat_token(const pl_tokenizer *tokenizer, int32_t token,
                                double logprob, pl_json *o)
{
    pl_buf text = {0}, bytes = {0};
    pl_json *list = pl_json_array();
    pl_status status = pl_token_text(tokenizer, token, &text);
    if (status == PL_OK && token > PL_TOKEN_EOS &&
        token < pl_tokenizer_vocab(tokenizer))
        status = pl_tokenizer_decode(tokenizer, &token, 1, &bytes);
    for (size_t i = 0; i < bytes.len; i++)
        pl_json_push(list, pl_json_make_int(bytes.data[i]));
    pl_json_set_text(o, "token", pl_buf_text(&text));
    pl_json_set_real(o, "logprob", logprob);
    pl_json_set(o, "bytes", list);
    pl_buf_destroy(&text);
    pl_buf_destroy(&bytes);
    return status;
}

/* Writes the scores in a list of tokens, as /v1/chat/completions does. */
static pl_status set_chat_scores(const pl_completion_answer *a,
                                 const pl_completion_choice *c, pl_json *scores)
{
    pl_status status = PL_OK;
    pl_json *content = pl_json_array();
    for (size_t i = 0; i < c->n_scores && status == PL_OK; i++) {
        const pl_token_score *s = &c->scores[i];
        pl_json *o = pl_json_object(), *tops = pl_json_array();
        status = set_chat_token(a->tokenizer, s->token, s->logprob, o);
        for (int k = 0; k < s->n_top && status == PL_OK; k++) {
            pl_json *top = pl_json_object();
            status =
                set_chat_token(a->tokenizer, s->top[k].token, s->top[k].logprob, top);
            pl_json_push(tops, top);
        }
        pl_json_set(o, "top_logprobs", tops);
        pl_json_push(content, o);
    }
    pl_json_set(scores, "content", content);
    return status;
}

pl_status pl_completion_write(const pl_completion_answer *a, pl_buf *out)
{
    char id[40];
    pl_status status = PL_OK;
    pl_json *o = pl_json_object(), *choices = pl_json_array();
    snprintf(id, sizeof id, "%scmpl-%" PRIu64, a->chat ? "chat" : "", a->id);
    pl_json_set_text(o, "id", id);
    pl_json_set_text(o, "object",
                     !a->chat    ? "text_completion"
                     : a->stream ? "chat.completion.chunk"
                                 : "chat.completion");
    pl_json_set_int(o, "created", a->created);
    pl_json_set_text(o, "model", a->model);
    for (int i = 0; i < a->n_choices && status == PL_OK; i++) {
        pl_completion_choice *c = &a->choices[i];
        pl_json *choice = pl_json_object();
        pl_json *text = pl_json_make_bytes(c->text, c->text_len);
        if (!a->chat)
            pl_json_set(choice, "text", text);
        pl_json_set_int(choice, "index", c->index);
        if (a->chat) {
            pl_json *message = pl_json_object();
            if (c->first)
                pl_json_set_text(message, "role", "assistant");
            pl_json_set(message, "content", text);
            pl_json_set(choice, a->stream ? "delta" : "message", message);
        }
        pl_json_set_text(choice, "path", c->path);
        if (c->n_spans > 0) {
            /* The path was chosen again, so the answer tells which path wrote each
             * part. */
            pl_json *spans = pl_json_array();
            for (int k = 0; k < c->n_spans; k++) {
                pl_json *span = pl_json_object();
                pl_json_set_int(span, "from", c->spans[k].from);
                pl_json_set_text(span, "path", c->spans[k].path);
                pl_json_push(spans, span);
            }
            pl_json_set(choice, "paths", spans);
        }
        /* null stands for a value that is not known */
        pl_json *scores = c->scored ? pl_json_object() : pl_json_make_real(NAN);
        if (c->scored)
            status = a->chat ? set_chat_scores(a, c, scores) : set_scores(a, c, scores);
        pl_json_set(choice, "logprobs", scores);
        pl_json_set(choice, "finish_reason",
                    c->ended ? pl_json_make_text(pl_finish_name(c->finish))
                             : pl_json_make_real(NAN));
        pl_json_push(choices, choice);
    }
    pl_json_set(o, "choices", choices);
    if (a->usage) {
        pl_json *usage = pl_json_object(), *details = pl_json_object();
        pl_json_set_int(usage, "prompt_tokens", a->n_prompt_tokens);
        pl_json_set_int(usage, "completion_tokens", a->n_tokens);
        pl_json_set_int(usage, "total_tokens", a->n_prompt_tokens + a->n_tokens);
        pl_json_set_int(details, "cached_tokens", a->n_known_tokens);
        pl_json_set(usage, "prompt_tokens_details", details);
        if (a->rerouted) {
            pl_json *routing = pl_json_object();
            pl_json_set_int(routing, "routing_tokens", a->n_routing_tokens);
            pl_json_set_real(routing, "routing_seconds", a->routing_seconds);
            pl_json_set(usage, "completion_tokens_details", routing);
        }
        pl_json *routes = a->n_routes > 0 ? pl_json_array() : NULL;
        for (int i = 0; i < a->n_routes; i++) {
            pl_json *route = pl_json_object();
            pl_json_set_text(route, "path", a->routes[i].path);
            pl_json_set_text(route, "rule", a->routes[i].rule);
            pl_json_set_real(route, "margin_nats", a->routes[i].margin_nats);
            pl_json_push(routes, route);
        }
        if (routes)
            pl_json_set(usage, "routes", routes);
        pl_json_set(o, "usage", usage);
    }
    if (status == PL_OK)
        pl_json_write(o, 0, out);
    pl_json_destroy(&o);
    return status;
}

void pl_completion_write_error(const char *message, const char *type, const char *code,
                               pl_buf *out)
{
    pl_json *o = pl_json_object(), *error = pl_json_object();
    pl_json_set_text(error, "message", message);
    pl_json_set_text(error, "type", type);
    pl_json_set_text(error, "code", code);
    pl_json_set(o, "error", error);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}
