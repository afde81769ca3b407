/* Parses and answers OpenAI's /v1/completions, as far as one path can: one prompt, one
 * choice. */
#include "serve/serve.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Defaults: OpenAI's values, and seed 0, so that equal requests have equal answers. */
static const pl_generate_options defaults = {
    .max_tokens = 16, .choice = {.temperature = 1.0, .top_k = 0, .top_p = 1.0}};

static pl_status wrong_value(const char *key, const char *what)
{
    return pl_fail(PL_ERR_USAGE, "`%s` must be %s", key, what);
}

static char *copy_text(const char *text, size_t len)
{
    char *copy = pl_alloc(len + 1);
    memcpy(copy, text, len);
    return copy; /* pl_alloc gave zeros */
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

static pl_status read_real(const pl_json *value, const char *key, double most,
                           double *out)
{
    char range[64];
    if (pl_json_number(value, out) && *out >= 0 && *out <= most)
        return PL_OK;
    snprintf(range, sizeof range, "a number from 0 to %g", most);
    return wrong_value(key, range);
}

/* A prompt may also be a list of one, which some clients send. */
static pl_status read_prompt_text(const pl_json *value, pl_completion *c)
{
    size_t len = 0;
    if (pl_json_is_array(value) && pl_json_count(value) == 1)
        value = pl_json_at(value, 0);
    const char *text = pl_json_text(value, &len);
    if (!text || len == 0)
        return wrong_value("prompt", "one text that is not empty");
    if (strlen(text) != len)
        return wrong_value("prompt", "a text without the character U+0000");
    c->prompt = copy_text(text, len);
    return PL_OK;
}

static pl_status read_stop(const pl_json *value, pl_completion *c)
{
    bool list = pl_json_is_array(value);
    size_t n = list ? pl_json_count(value) : 1;
    if (n > PL_STOP_MAX)
        return wrong_value("stop", "one text, or a list of at most 4");
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *text = pl_json_text(list ? pl_json_at(value, i) : value, &len);
        if (!text || len == 0 || strlen(text) != len)
            return wrong_value("stop", "one text, or a list of at most 4, none empty");
        c->options.stop[i] = copy_text(text, len);
    }
    return PL_OK;
}

static pl_status read_key(const char *key, const pl_json *value, pl_completion *c)
{
    int64_t whole = 0;
    pl_status status;
    if (strcmp(key, "model") == 0) {
        size_t len = 0;
        const char *text = pl_json_text(value, &len);
        if (!text || len == 0 || len >= sizeof c->model || strlen(text) != len)
            return wrong_value("model", "\"auto\" or the name of a path");
        memcpy(c->model, text, len + 1);
        return PL_OK;
    }
    if (strcmp(key, "prompt") == 0)
        return read_prompt_text(value, c);
    if (strcmp(key, "stop") == 0)
        return read_stop(value, c);
    if (strcmp(key, "stream") == 0)
        return pl_json_bool(value, &c->stream) ? PL_OK
                                               : wrong_value(key, "true or false");
    if (strcmp(key, "temperature") == 0)
        return read_real(value, key, 100, &c->options.choice.temperature);
    if (strcmp(key, "top_p") == 0) {
        PL_CHECK(read_real(value, key, 1, &c->options.choice.top_p));
        return c->options.choice.top_p > 0 ? PL_OK : wrong_value(key, "more than 0");
    }
    if (strcmp(key, "max_tokens") == 0) {
        status = read_whole_number(value, key, 1, 1000000, &whole);
        c->options.max_tokens = (int)whole;
        return status;
    }
    if (strcmp(key, "top_k") == 0) {
        status = read_whole_number(value, key, 0, 1000000, &whole);
        c->options.choice.top_k = (int)whole;
        return status;
    }
    if (strcmp(key, "seed") == 0) {
        status = read_whole_number(value, key, 0, INT64_MAX, &whole);
        c->options.choice.seed = (uint64_t)whole;
        return status;
    }
    /* Keys that other servers know and this one does not: only the value that turns
     * them off is accepted. */
    double number = 0;
    bool yes = false;
    if (strcmp(key, "n") == 0 || strcmp(key, "best_of") == 0)
        return pl_json_number(value, &number) && number == 1 ? PL_OK
                                                             : wrong_value(key, "1");
    if (strcmp(key, "echo") == 0)
        return pl_json_bool(value, &yes) && !yes ? PL_OK : wrong_value(key, "false");
    if (strcmp(key, "presence_penalty") == 0 || strcmp(key, "frequency_penalty") == 0)
        return pl_json_number(value, &number) && number == 0 ? PL_OK
                                                             : wrong_value(key, "0");
    if (strcmp(key, "logprobs") == 0 || strcmp(key, "suffix") == 0 ||
        strcmp(key, "logit_bias") == 0)
        return wrong_value(key, "left out: it is not supported");
    if (strcmp(key, "user") == 0 || strcmp(key, "stream_options") == 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "unknown key `%.60s`", key);
}

/* JSON's null counts as a missing key. */
static bool is_null(const pl_json *value)
{
    double number;
    bool yes;
    return !pl_json_is_array(value) && !pl_json_is_object(value) &&
           !pl_json_text(value, NULL) && !pl_json_number(value, &number) &&
           !pl_json_bool(value, &yes);
}

static pl_status read_object(const pl_json *json, pl_completion *c)
{
    if (!pl_json_is_object(json))
        return pl_fail(PL_ERR_USAGE, "the body must be a JSON object");
    for (const char *key = pl_json_next_key(json, NULL); key;
         key = pl_json_next_key(json, key)) {
        const pl_json *value = pl_json_get(json, key);
        if (!is_null(value))
            PL_CHECK(read_key(key, value, c));
    }
    return c->prompt ? PL_OK : wrong_value("prompt", "given");
}

pl_status pl_completion_parse(const char *body, size_t len, pl_completion *out)
{
    pl_json *json = NULL;
    *out = (pl_completion){.model = "auto", .options = defaults};
    pl_status status = pl_json_parse(body, len, &json);
    if (status != PL_OK)
        return pl_fail(PL_ERR_USAGE, "the body is no JSON: %s", pl_last_error());
    status = read_object(json, out);
    pl_json_destroy(&json);
    return status;
}

void pl_completion_clear(pl_completion *c)
{
    pl_free(c->prompt);
    c->prompt = NULL;
    for (int i = 0; i < PL_STOP_MAX; i++) {
        union {
            const char *in;
            void *out;
        } stop = {c->options.stop[i]}; /* this module made it */
        pl_free(stop.out);
        c->options.stop[i] = NULL;
    }
}

/* ---- answers ---- */
static pl_json *usage(const pl_generate_result *r)
{
    pl_json *o = pl_json_object();
    pl_json_set_int(o, "prompt_tokens", r->n_prompt);
    pl_json_set_int(o, "completion_tokens", r->n_tokens);
    pl_json_set_int(o, "total_tokens", r->n_prompt + r->n_tokens);
    return o;
}

void pl_completion_write(const pl_completion_answer *a, pl_buf *out)
{
    char id[40];
    pl_json *o = pl_json_object(), *choices = pl_json_array();
    pl_json *choice = pl_json_object();
    snprintf(id, sizeof id, "cmpl-%" PRIu64, a->id);
    pl_json_set_text(o, "id", id);
    pl_json_set_text(o, "object", "text_completion");
    pl_json_set_int(o, "created", a->created);
    pl_json_set_text(o, "model", a->model);
    pl_json_set(choice, "text", pl_json_make_bytes(a->text, a->text_len));
    pl_json_set_int(choice, "index", 0);
    pl_json_set_real(choice, "logprobs", NAN); /* null */
    if (a->ended)
        pl_json_set_text(choice, "finish_reason", pl_finish_name(a->result.finish));
    else
        pl_json_set_real(choice, "finish_reason", NAN);
    pl_json_push(choices, choice);
    pl_json_set(o, "choices", choices);
    if (a->ended)
        pl_json_set(o, "usage", usage(&a->result));
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
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
