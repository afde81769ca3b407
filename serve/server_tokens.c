/* Answers requests for the tokens of a text, and for the text of tokens
 * (server_tokens.h). */
#include "serve/server_tokens.h"
#include "serve/pieces.h"

static const struct {
    const char *text;
    int32_t token;
} specials[] = {{"<s>", PL_TOKEN_BOS}, {"</s>", PL_TOKEN_EOS}};

typedef struct tokens_request {
    const char *text; /* borrowed from the JSON */
    size_t len;
    bool add_bos, keep_specials, with_pieces;
} tokens_request;

static pl_status read_tokens_key(const char *key, const pl_json *value,
                                 tokens_request *q)
{
    bool parse = true;
    bool *to = strcmp(key, "add_special") == 0 || strcmp(key, "add_special_tokens") == 0
                   ? &q->add_bos
               : strcmp(key, "parse_special") == 0 ? &parse
               : strcmp(key, "with_pieces") == 0   ? &q->with_pieces
                                                   : NULL;
    if (strcmp(key, "content") == 0 || strcmp(key, "prompt") == 0) {
        q->text = pl_json_text(value, &q->len);
        if (q->text && strlen(q->text) == q->len)
            return PL_OK;
        return pl_fail(PL_ERR_USAGE, "`%s` must be a text without the character U+0000",
                       key);
    }
    /* `model` is ignored, because all models have the same tokens */
    if (strcmp(key, "model") == 0)
        return PL_OK;
    if (!to)
        return pl_completion_foreign_key(key, value);
    if (!pl_json_bool(value, to))
        return pl_fail(PL_ERR_USAGE, "`%s` must be true or false", key);
    q->keep_specials = q->keep_specials || !parse;
    return PL_OK;
}

/* ---- tokens of a text ---- */
/* Finds the next special text ("<s>" or "</s>"). Returns its index in `specials`, and
 * *at gets its position; or returns -1 and sets *at to len. */
static int find_special(const char *text, size_t len, size_t *at)
{
    for (*at = 0; *at < len; ++*at)
        for (int i = 0; i < 2; i++) {
            const size_t n = strlen(specials[i].text);
            if (n <= len - *at && memcmp(text + *at, specials[i].text, n) == 0)
                return i;
        }
    return -1;
}

/* Writes the text of a token; if its bytes are not valid text, writes a list of the
 * bytes. A tree (base/json.h) of a million tokens would take half a GiB. */
static pl_status write_piece(const pl_tokenizer *tokenizer, int32_t token, pl_buf *out)
{
    pl_buf bytes = {0};
    pl_status status = pl_tokenizer_decode(tokenizer, &token, 1, &bytes);
    pl_buf_printf(out, "{\"id\":%d,\"piece\":", (int)token);
    if (pieces_are_text(bytes.data, bytes.len))
        pl_buf_json_text(out, pl_buf_text(&bytes), bytes.len);
    else {
        for (size_t i = 0; i < bytes.len; i++)
            pl_buf_printf(out, "%s%d", i == 0 ? "[" : ",", bytes.data[i]);
        pl_buf_printf(out, "]");
    }
    pl_buf_printf(out, "}");
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status parse_tokens_body(const char *body, size_t len, pl_json **json)
{
    if (pl_json_parse(body, len, json) != PL_OK)
        return pl_fail(PL_ERR_USAGE, "the body is not JSON: %s", pl_last_error());
    return PL_OK;
}

pl_status tokens_encode(const pl_tokenizer *tokenizer, int context, const char *body,
                        size_t len, pl_buf *out)
{
    pl_status status = PL_OK;
    pl_json *json = NULL;
    pl_buf tokens = {0};
    tokens_request q;
    PL_TRY(parse_tokens_body(body, len, &json));
    /* In vLLM's form (key `prompt`) the tokens begin with BOS unless
     * the key `add_special_tokens` or `add_special` is false. In llama-server's form
     * (key `content`) they begin with BOS only if one of these keys is true. */
    const bool content = pl_json_get(json, "content") != NULL;
    q = (tokens_request){.add_bos = !content};
    if (!pl_json_is_object(json))
        PL_TRY(pl_fail(PL_ERR_USAGE, "the body must be a JSON object"));
    if (content == (pl_json_get(json, "prompt") != NULL))
        PL_TRY(
            pl_fail(PL_ERR_USAGE, "give the text either as `content` or as `prompt`"));
    for (const char *key = NULL; (key = pl_json_next_key(json, key));)
        PL_TRY(read_tokens_key(key, pl_json_get(json, key), &q));
    const int32_t bos = PL_TOKEN_BOS;
    const char *text = q.text;
    size_t left = q.len;
    if (q.add_bos)
        pl_buf_append(&tokens, &bos, sizeof bos);
    while (left > 0) {
        size_t at = left;
        const int special = q.keep_specials ? -1 : find_special(text, left, &at);
        if (at > 0)
            PL_TRY(pl_tokenizer_encode(tokenizer, text, at, &tokens));
        if (special >= 0) {
            pl_buf_append(&tokens, &specials[special].token, sizeof bos);
            at += strlen(specials[special].text);
        }
        text += at;
        left -= at;
    }
    const int n = pl_prompt_count(&tokens);
    pl_buf_printf(out, "{\"tokens\":[");
    for (int i = 0; i < n; i++) {
        const int32_t token = pl_prompt_tokens(&tokens)[i];
        pl_buf_printf(out, "%s", i == 0 ? "" : ",");
        if (q.with_pieces)
            PL_TRY(write_piece(tokenizer, token, out));
        else
            pl_buf_printf(out, "%d", (int)token);
    }
    pl_buf_printf(out, "],\"count\":%d,\"max_model_len\":%d}", n, context);
done:
    pl_json_destroy(&json);
    pl_buf_destroy(&tokens);
    return status;
}

/* ---- the text of tokens ---- */
pl_status tokens_decode(const pl_tokenizer *tokenizer, const char *body, size_t len,
                        pl_buf *out)
{
    pl_status status = PL_OK;
    pl_json *json = NULL;
    pl_buf text = {0};
    int32_t *tokens = NULL;
    int n = 0;
    PL_TRY(parse_tokens_body(body, len, &json));
    const pl_json *list = pl_json_get(json, "tokens");
    if (!pl_json_is_array(list))
        PL_TRY(pl_fail(PL_ERR_USAGE, "`tokens` must be a list of token numbers"));
    PL_TRY(pl_completion_read_tokens(list, "tokens", &tokens, &n));
    for (int i = 0; i < n; i++)
        if (tokens[i] >= pl_tokenizer_vocab(tokenizer))
            PL_TRY(pl_fail(PL_ERR_USAGE,
                           "`tokens` has token %d; the vocabulary has tokens 0 to %d",
                           (int)tokens[i], pl_tokenizer_vocab(tokenizer) - 1));
    PL_TRY(pieces_decode(tokenizer, tokens, (size_t)n, &text));
    pl_json *o = pl_json_object();
    pl_json_set(o, "content", pl_json_make_bytes(pl_buf_text(&text), text.len));
    pl_json_set(o, "prompt", pl_json_make_bytes(pl_buf_text(&text), text.len));
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
done:
    pl_free(tokens);
    pl_json_destroy(&json);
    pl_buf_destroy(&text);
    return status;
}

void tokens_write_info(pl_server *s, pl_buf *out)
{
    const pl_mixture *mix = server_options(s)->mix;
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "tokenizer_class", "pathloom");
    pl_json_set_int(o, "vocab_size", pl_tokenizer_vocab(mix->tokenizer));
    pl_json_set_int(o, "model_max_length", mix->arm.shape.context);
    pl_json_set_text(o, "bos_token", "<s>");
    pl_json_set_text(o, "eos_token", "</s>");
    pl_json_set_text(o, "unk_token", "<unk>");
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}
