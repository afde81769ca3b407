/* Parses requests for completions in the form of OpenAI's API. */
#include "serve/serve.h"
#include <inttypes.h>
#include <stdio.h>

/* The values of keys that a request leaves out. They are OpenAI's, except that the seed
 * is 0, so that equal requests get equal answers. */
static const pl_completion defaults = {
    .model = "auto",
    .n = 1,
    .logprobs = -1,
    .options = {.max_tokens = 16,
                .choice = {.temperature = 1.0, .top_k = 0, .top_p = 1.0}}};

static pl_status wrong_value(const char *key, const char *what)
{
    return pl_fail(PL_ERR_USAGE, "`%s` must be %s", key, what);
}

static pl_status read_whole_number(const pl_json *value, const char *key, int64_t least,
                                   int64_t most, int64_t *out)
{
    char range[96];
    if (pl_json_int(value, out) && *out >= least && *out <= most)
        return PL_OK;
    snprintf(range, sizeof range, "a whole number from %" PRId64 " to %" PRId64, least,
             most);
    return wrong_value(key, range);
}

static pl_status read_real(const pl_json *value, const char *key, double least,
                           double most, double *out)
{
    char range[64];
    if (pl_json_number(value, out) && *out >= least && *out <= most)
        return PL_OK;
    snprintf(range, sizeof range, "a number from %g to %g", least, most);
    return wrong_value(key, range);
}

/* ---- prompts ---- */
pl_status pl_completion_read_tokens(const pl_json *array, const char *key,
                                    int32_t **tokens, int *n)
{
    const size_t count = pl_json_count(array);
    *tokens = pl_alloc((count > 0 ? count : 1) * sizeof **tokens);
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t token = 0;
        PL_CHECK(read_whole_number(pl_json_at(array, i), key, 0, INT32_MAX, &token));
        (*tokens)[(*n)++] = (int32_t)token;
    }
    return PL_OK;
}

/* A list whose first item is a number is one prompt, given as tokens. */
pl_status pl_completion_read_prompts(const pl_json *value, const char *key,
                                     pl_completion *c)
{
    double number = 0;
    size_t n = pl_json_count(value);
    const bool one = !pl_json_is_array(value) || n == 0 ||
                     pl_json_number(pl_json_at(value, 0), &number);
    n = one ? 1 : n;
    if (n > PL_CHOICES_MAX)
        return pl_fail(PL_ERR_USAGE, "`%s` has %zu texts; give at most %d", key, n,
                       (int)PL_CHOICES_MAX);
    c->prompts = pl_alloc(n * sizeof *c->prompts);
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const pl_json *item = one ? value : pl_json_at(value, i);
        const char *text = pl_json_text(item, &len);
        pl_completion_prompt *prompt = &c->prompts[i];
        if (text ? len == 0 : !pl_json_is_array(item) || pl_json_count(item) == 0)
            return wrong_value(key, "a text, a list of token numbers, or a list of "
                                    "these, none of them empty");
        if (text && strlen(text) != len)
            return wrong_value(key, "a text without the character U+0000");
        c->n_prompts++;
        if (text)
            prompt->text = pl_strdup(text);
        else
            PL_CHECK(pl_completion_read_tokens(item, key, &prompt->tokens,
                                               &prompt->n_tokens));
    }
    return PL_OK;
}

/* ---- keys that need a parser of their own ---- */
static pl_status read_prompt_key(const pl_json *value, pl_completion *c)
{
    return pl_completion_read_prompts(value, "prompt", c);
}

pl_status pl_completion_read_model(const pl_json *value, pl_completion *c)
{
    size_t len = 0;
    const char *text = pl_json_text(value, &len);
    if (!text || len == 0 || len >= sizeof c->model || strlen(text) != len)
        return wrong_value("model", "\"auto\" or the name of a path or an arm");
    memcpy(c->model, text, len + 1);
    return PL_OK;
}

static pl_status read_stop(const pl_json *value, pl_completion *c)
{
    bool list = pl_json_is_array(value);
    size_t n = list ? pl_json_count(value) : 1;
    if (n > PL_STOP_MAX)
        return wrong_value("stop", "one text, or a list of at most 4 texts");
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *text = pl_json_text(list ? pl_json_at(value, i) : value, &len);
        if (!text || len == 0 || strlen(text) != len)
            return wrong_value("stop", "one text, or a list of at most 4 texts, not "
                                       "empty and without the character U+0000");
        c->options.stop[i] = pl_strdup(text);
    }
    return PL_OK;
}

static pl_status read_bias(const pl_json *value, pl_completion *c)
{
    static const char wanted[] =
        "an object whose keys are token numbers, with values from -100 to 100";
    size_t n = 0;
    if (!pl_json_is_object(value))
        return wrong_value("logit_bias", wanted);
    for (const char *key = NULL; (key = pl_json_next_key(value, key));)
        n++;
    if (n > PL_BIAS_MAX)
        return pl_fail(PL_ERR_USAGE, "`logit_bias` has %zu tokens; give at most %d", n,
                       (int)PL_BIAS_MAX);
    c->bias = pl_alloc((n > 0 ? n : 1) * sizeof *c->bias);
    c->options.bias = c->bias;
    for (const char *key = NULL; (key = pl_json_next_key(value, key));) {
        int64_t token = 0;
        double bias = 0;
        if (pl_parse_int(key, &token) != PL_OK || token < 0 || token > INT32_MAX)
            return pl_fail(PL_ERR_USAGE,
                           "`logit_bias` has the key `%.60s`, which is not a token "
                           "number; it must be %s",
                           key, wanted);
        PL_CHECK(read_real(pl_json_get(value, key), "logit_bias", -100, 100, &bias));
        c->bias[c->options.n_bias++] = (pl_logit_bias){(int32_t)token, (float)bias};
    }
    return PL_OK;
}

static pl_status read_stream_options(const pl_json *value, pl_completion *c)
{
    bool ignored = false;
    if (!pl_json_is_object(value))
        return wrong_value("stream_options", "an object");
    c->stream_options = true;
    for (const char *key = NULL; (key = pl_json_next_key(value, key));) {
        bool *to = strcmp(key, "include_usage") == 0         ? &c->include_usage
                   : strcmp(key, "include_obfuscation") == 0 ? &ignored
                                                             : NULL;
        if (!to)
            PL_CHECK(pl_completion_foreign_key(key, pl_json_get(value, key)));
        else if (!pl_json_bool(pl_json_get(value, key), to))
            return wrong_value(key, "true or false");
    }
    return PL_OK;
}

static pl_status read_top_k(const pl_json *value, pl_completion *c)
{
    int64_t whole = 0;
    pl_status status = read_whole_number(value, "top_k", -1, 1000000, &whole);
    /* -1 also means that all tokens are kept */
    c->options.choice.top_k = whole > 0 ? (int)whole : 0;
    return status;
}

static pl_status read_top_p(const pl_json *value, pl_completion *c)
{
    PL_CHECK(read_real(value, "top_p", 0, 1, &c->options.choice.top_p));
    return c->options.choice.top_p > 0 ? PL_OK : wrong_value("top_p", "more than 0");
}

/* ---- the table of keys ---- */
typedef struct completion_key {
    const char *name;
    /* i: int, u: uint64_t, r: double, b: bool; f: parsed by the function `read` */
    char kind;
    size_t at;          /* offset of the key's field in pl_completion */
    double least, most; /* limits of the value, for kinds i and r */
    pl_status (*read)(const pl_json *value, pl_completion *c); /* for kind f */
} completion_key;

#define KEY_AT(name, kind, field, least, most)                                         \
    {                                                                                  \
        name, kind, offsetof(pl_completion, field), least, most, NULL                  \
    }
#define KEY_BY(name, read)                                                             \
    {                                                                                  \
        name, 'f', 0, 0, 0, read                                                       \
    }

static const completion_key keys[] = {
    KEY_BY("model", pl_completion_read_model),
    KEY_BY("prompt", read_prompt_key),
    KEY_BY("stop", read_stop),
    KEY_BY("logit_bias", read_bias),
    KEY_BY("stream_options", read_stream_options),
    KEY_BY("top_k", read_top_k),
    KEY_BY("top_p", read_top_p),
    KEY_AT("stream", 'b', stream, 0, 1),
    KEY_AT("echo", 'b', echo, 0, 1),
    KEY_AT("n", 'i', n, 1, PL_CHOICES_MAX),
    KEY_AT("best_of", 'i', best_of, 1, PL_CHOICES_MAX),
    KEY_AT("logprobs", 'i', logprobs, 0, PL_TOP_MAX),
    KEY_AT("max_tokens", 'i', options.max_tokens, 0, PL_TOKENS_MAX),
    KEY_AT("route_every", 'i', route_every, 1, PL_TOKENS_MAX),
    KEY_AT("seed", 'u', options.choice.seed, 0, 9e18),
    KEY_AT("temperature", 'r', options.choice.temperature, 0, 100),
    KEY_AT("min_p", 'r', options.choice.min_p, 0, 1),
    KEY_AT("presence_penalty", 'r', options.presence_penalty, -2, 2),
    KEY_AT("frequency_penalty", 'r', options.frequency_penalty, -2, 2),
};

/* ---- keys of other servers ---- */
/* Clients send keys of other servers with values that ask for nothing. `neutral` lists
 * these values as JSON, divided by |; NULL: every value only describes the request. */
static const struct {
    const char *name, *neutral;
} foreign_keys[] = {
    {"add_generation_prompt", "true"},
    {"add_special_tokens", "true"},
    {"allowed_token_ids", "[]"},
    {"annotations", "[]"},
    {"audio", ""},
    {"bad_words", "[]"},
    {"cache_prompt", NULL},
    {"continue_final_message", "false"},
    {"continuous_usage_stats", "false"},
    {"extra_body", "{}"},
    {"function_call", "\"none\"|\"auto\""},
    {"functions", "[]"},
    {"grammar", "\"\""},
    {"guided_json", ""},
    {"id_slot", "-1"},
    {"ignore_eos", "false"},
    {"include_stop_str_in_output", "false"},
    {"json_schema", "{}"},
    {"length_penalty", "1"},
    {"metadata", NULL},
    {"min_tokens", "0"},
    {"mirostat", "0"},
    {"modalities", "[\"text\"]"},
    {"n_probs", "0"},
    {"parallel_tool_calls", NULL},
    {"prediction", ""},
    {"prompt_cache_key", NULL},
    {"prompt_cache_retention", NULL},
    {"reasoning_effort", "\"none\""},
    {"refusal", "\"\""},
    {"repeat_last_n", NULL},
    {"repeat_penalty", "1"},
    {"repetition_penalty", "1"},
    {"response_format", "{\"type\":\"text\"}"},
    {"safety_identifier", NULL},
    {"service_tier", "\"auto\"|\"default\""},
    {"skip_special_tokens", "true"},
    {"spaces_between_special_tokens", "true"},
    {"stop_token_ids", "[]"},
    {"store", "false"},
    {"suffix", "\"\""},
    {"tool_calls", "[]"},
    {"tool_choice", "\"none\"|\"auto\""},
    {"tools", "[]"},
    {"typical_p", "1"},
    {"use_beam_search", "false"},
    {"user", NULL},
    {"verbosity", "\"medium\""},
    {"web_search_options", ""},
};
enum {
    N_FOREIGN = sizeof foreign_keys / sizeof *foreign_keys,
    N_KEYS = sizeof keys / sizeof *keys
};

pl_status pl_completion_foreign_key(const char *name, const pl_json *value)
{
    static const char *const others[] = {"messages", "input", "max_completion_tokens",
                                         "top_logprobs", "content"};
    const char *names[N_KEYS + N_FOREIGN + 5];
    size_t n = 0;
    for (size_t i = 0; i < N_FOREIGN; i++) {
        names[n++] = foreign_keys[i].name;
        if (strcmp(name, foreign_keys[i].name) != 0)
            continue;
        pl_buf text = {0};
        pl_json_write(value, 0, &text);
        const bool asks =
            !pl_json_is_null(value) && foreign_keys[i].neutral &&
            !pl_lists_word(foreign_keys[i].neutral, '|', pl_buf_text(&text));
        pl_buf_destroy(&text);
        return asks
                   ? pl_fail(PL_ERR_USAGE,
                             "`%s` is not supported by this server; leave it out", name)
                   : PL_OK;
    }
    for (size_t i = 0; i < N_KEYS; i++)
        names[n++] = keys[i].name;
    for (size_t i = 0; i < 5; i++)
        names[n++] = others[i];
    const char *near = pl_nearest(name, names, n);
    return near ? pl_fail(PL_ERR_USAGE,
                          "unknown key `%.60s`; the most similar key is `%s`", name,
                          near)
                : pl_fail(PL_ERR_USAGE, "unknown key `%.60s`", name);
}

pl_status pl_completion_read_key(const char *name, const pl_json *value,
                                 pl_completion *c)
{
    size_t i = 0;
    int64_t whole = 0;
    while (i < N_KEYS && strcmp(keys[i].name, name) != 0)
        i++;
    if (i == N_KEYS)
        return pl_completion_foreign_key(name, value);
    const completion_key *key = &keys[i];
    void *to = (char *)c + key->at;
    switch (key->kind) {
    case 'f':
        return key->read(value, c);
    case 'b':
        return pl_json_bool(value, to) ? PL_OK : wrong_value(name, "true or false");
    case 'r':
        return read_real(value, name, key->least, key->most, to);
    default:
        break;
    }
    const int64_t most = key->kind == 'u' ? INT64_MAX : (int64_t)key->most;
    PL_CHECK(read_whole_number(value, name, (int64_t)key->least, most, &whole));
    if (key->kind == 'u')
        *(uint64_t *)to = (uint64_t)whole;
    else
        *(int *)to = (int)whole;
    return PL_OK;
}

pl_status pl_completion_check(pl_completion *c)
{
    pl_generate_options *o = &c->options;
    if (!c->prompts)
        return wrong_value("prompt", "given");
    if (c->n_prompts * c->n > PL_CHOICES_MAX)
        return pl_fail(PL_ERR_USAGE,
                       "%d prompts with `n` = %d are %d answers; one request may ask "
                       "for at most %d",
                       c->n_prompts, c->n, c->n_prompts * c->n, (int)PL_CHOICES_MAX);
    if (c->best_of > 0 && c->best_of != c->n)
        return pl_fail(
            PL_ERR_USAGE,
            "`best_of` is %d and `n` is %d; this server returns all answers that it "
            "makes and does not choose among them, so leave `best_of` out",
            c->best_of, c->n);
    if (o->max_tokens == 0 && !c->echo)
        return pl_fail(PL_ERR_USAGE,
                       "`max_tokens` is 0 and `echo` is not set, so the answer would "
                       "be empty; give 1 or more tokens, or set `echo`");
    if (c->stream_options && !c->stream)
        return pl_fail(PL_ERR_USAGE, "`stream_options` needs `stream`; set `stream` to "
                                     "true, or leave `stream_options` out");
    if (c->route_every > 0 && strcmp(c->model, "auto") != 0 &&
        strcmp(c->model, "mix") != 0)
        return pl_fail(PL_ERR_USAGE,
                       "`route_every` lets the server choose the paths, but `model` "
                       "names one path or arm; leave one of them out");
    o->scores = c->logprobs >= 0;
    o->prompt_scores = c->echo && (o->scores || o->max_tokens == 0);
    o->n_top = o->scores ? c->logprobs : 0;
    return PL_OK;
}

pl_status pl_completion_each_key(const char *body, size_t len,
                                 pl_completion_key_fn read, void *context)
{
    pl_json *json = NULL;
    pl_status status = pl_json_parse(body, len, &json);
    if (status != PL_OK && strstr(pl_last_error(), "too big integer"))
        return pl_fail(PL_ERR_USAGE,
                       "the body has a whole number above 9223372036854775807, the "
                       "largest that this server reads (as a `seed`, for example)");
    if (status != PL_OK)
        return pl_fail(PL_ERR_USAGE, "the body is not JSON: %s", pl_last_error());
    if (!pl_json_is_object(json))
        status = pl_fail(PL_ERR_USAGE, "the body must be a JSON object");
    for (const char *key = NULL;
         status == PL_OK && (key = pl_json_next_key(json, key));)
        status = read(context, key, pl_json_get(json, key));
    pl_json_destroy(&json);
    return status;
}

static pl_status read_key(void *context, const char *key, const pl_json *value)
{
    return pl_json_is_null(value) ? PL_OK : pl_completion_read_key(key, value, context);
}

void pl_completion_defaults(pl_completion *out)
{
    *out = defaults;
}

pl_status pl_completion_parse(const char *body, size_t len, pl_completion *out)
{
    *out = defaults;
    PL_CHECK(pl_completion_each_key(body, len, read_key, out));
    return pl_completion_check(out);
}

void pl_completion_clear(pl_completion *c)
{
    for (int i = 0; i < c->n_prompts; i++)
        pl_free_all(c->prompts[i].text, c->prompts[i].tokens);
    pl_free_all(c->prompts, c->bias);
    c->prompts = NULL;
    c->bias = NULL;
    c->n_prompts = c->options.n_bias = 0;
    for (int i = 0; i < PL_STOPS; i++) {
        /* The parser has allocated these texts, so they may be freed although the
         * option's type is a pointer to const. */
        pl_free((void *)(uintptr_t)c->options.stop[i]);
        c->options.stop[i] = NULL;
    }
}
