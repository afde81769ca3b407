/* Parses requests for embeddings and writes their answers (embedding.h). */
#include "serve/embedding.h"
#include <math.h>

typedef struct embedding_request {
    pl_completion *completion;
    bool *base64;
} embedding_request;

static pl_status read_embedding_key(void *context, const char *key,
                                    const pl_json *value)
{
    const embedding_request *q = context;
    if (strcmp(key, "input") == 0)
        return pl_completion_read_prompts(value, key, q->completion);
    if (strcmp(key, "model") == 0)
        return pl_completion_read_model(value, q->completion);
    if (strcmp(key, "encoding_format") == 0) {
        size_t len = 0;
        const char *text = pl_json_text(value, &len);
        *q->base64 = text && strcmp(text, "base64") == 0;
        if (*q->base64 || (text && strcmp(text, "float") == 0))
            return PL_OK;
        return pl_fail(PL_ERR_USAGE,
                       "`encoding_format` must be \"float\" or \"base64\"");
    }
    if (strcmp(key, "dimensions") == 0)
        return pl_fail(PL_ERR_USAGE,
                       "`dimensions` must be left out: the model's width is fixed");
    return pl_completion_foreign_key(key, value);
}

pl_status embedding_parse(const char *body, size_t len, pl_completion *out,
                          bool *base64)
{
    embedding_request q = {out, base64};
    *base64 = false;
    pl_completion_defaults(out);
    PL_CHECK(pl_completion_each_key(body, len, read_embedding_key, &q));
    return out->prompts ? PL_OK : pl_fail(PL_ERR_USAGE, "`input` must be given");
}

void embedding_write(const embedding_answer *a, pl_buf *out)
{
    pl_json *o = pl_json_object(), *data = pl_json_array(), *usage = pl_json_object();
    for (int i = 0; i < a->n; i++) {
        pl_json *entry = pl_json_object();
        pl_json_set_text(entry, "object", "embedding");
        pl_json_set_int(entry, "index", i);
        /* each vector gets the length 1 */
        const float *values = a->values + (size_t)i * (size_t)a->width;
        double square = 0.0;
        pl_buf bytes = {0}, text = {0};
        pl_json *list = a->base64 ? NULL : pl_json_array();
        for (int k = 0; k < a->width; k++)
            square += (double)values[k] * (double)values[k];
        const double scale = square > 0 ? 1.0 / sqrt(square) : 0.0;
        for (int k = 0; k < a->width; k++) {
            const float value = (float)((double)values[k] * scale);
            if (a->base64)
                /* The format is little-endian, like all supported machines. */
                pl_buf_append(&bytes, &value, sizeof value);
            else
                pl_json_push(list, pl_json_make_real((double)value));
        }
        if (a->base64) {
            pl_buf_base64(&text, bytes.data, bytes.len);
            list = pl_json_make_text(pl_buf_text(&text));
        }
        pl_buf_destroy(&bytes);
        pl_buf_destroy(&text);
        pl_json_set(entry, "embedding", list);
        pl_json_push(data, entry);
    }
    pl_json_set_int(usage, "prompt_tokens", a->n_tokens);
    pl_json_set_int(usage, "total_tokens", a->n_tokens);
    pl_json_set_text(o, "object", "list");
    pl_json_set(o, "data", data);
    pl_json_set_text(o, "model", a->model);
    pl_json_set(o, "usage", usage);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}
