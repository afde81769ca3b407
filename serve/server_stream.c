/* Answers a request from the events of its job: in one piece, or as a stream of
 * server-sent events. If there is no event for a long time, the stream sends a comment
 * line. */
#include "serve/embedding.h"
#include "serve/server_exchange.h"
#include "serve/server_paths.h"

enum { COMMENT_MS = 5000, BLOCK_BYTES = 4096 };

/* Removes a space at the beginning of an answer in a chat: the model writes the space
 * that stands between the role and the text in the template. */
static void skip_space(pl_completion_choice *c)
{
    if (c->text_len > 0 && c->text[0] == ' ') {
        c->text++;
        c->text_len--;
    }
}

/* Returns the name of the path that gave all answers. If different paths answered,
 * returns the model that the request named, such as "auto". */
static const char *model_of(const server_job *job)
{
    for (int i = 1; i < job->n_prompts; i++)
        if (strcmp(job->prompts[i].model, job->prompts[0].model) != 0)
            return job->completion.model;
    return job->prompts[0].model;
}

/* Appends the spans of an event to those of its answer, with the paths' names. */
static void add_spans(exchange *x, const server_event *e)
{
    const server_models *models =
        server_paths_models(server_paths_of(x->front->server));
    const pl_reroute_span *spans =
        (const pl_reroute_span *)(const void *)e->out.spans.data;
    for (size_t i = 0; i < e->out.spans.len / sizeof *spans; i++) {
        pl_completion_span span = {.from = spans[i].from};
        server_models_name(models, spans[i].path, span.path);
        pl_buf_append(&x->answers[e->index].out.spans, &span, sizeof span);
    }
}

static const pl_completion_span *list_spans(const exchange *x, int index, int *n)
{
    const pl_buf *spans = &x->answers[index].out.spans;
    *n = (int)(spans->len / sizeof(pl_completion_span));
    return (const pl_completion_span *)(const void *)spans->data;
}

static pl_completion_choice make_choice(const exchange *x, int index,
                                        const server_output *out)
{
    const pl_completion *c = &x->job->completion;
    return (pl_completion_choice){
        .index = index,
        .path = x->job->prompts[index / c->n].model,
        .text = out->text.len > 0 ? (const char *)out->text.data : "",
        .text_len = out->text.len,
        .scores = (const pl_token_score *)(const void *)out->scores.data,
        .n_scores = out->scores.len / sizeof(pl_token_score),
        .offset = x->answers[index].offset,
        .scored = c->logprobs >= 0};
}

static pl_completion_answer start_answer(const exchange *x)
{
    return (pl_completion_answer){.id = x->job->id,
                                  .created = x->created,
                                  .chat = x->job->completion.chat,
                                  .stream = x->job->completion.stream,
                                  .tokenizer =
                                      server_options(x->front->server)->mix->tokenizer};
}

/* Adds up the tokens of the request. The tokens of a prompt count once, even if the
 * prompt has several answers. Also lists how the paths were chosen; the caller frees
 * the list. */
static void add_usage(const exchange *x, pl_completion_answer *a)
{
    const int n = x->job->completion.n;
    a->usage = true;
    a->routes = pl_alloc((size_t)x->job->n_prompts * sizeof *a->routes);
    for (int i = 0; i < x->job->n_prompts; i++) {
        const server_prompt *prompt = &x->job->prompts[i];
        if (!prompt->route.rule)
            continue;
        a->routes[a->n_routes] = prompt->route;
        a->routes[a->n_routes++].path = prompt->model;
    }
    a->rerouted = x->job->completion.route_every > 0;
    for (int i = 0; i < x->job->n_parts; i++) {
        a->n_prompt_tokens += i % n == 0 ? x->answers[i].result.n_prompt : 0;
        a->n_known_tokens += i % n == 0 ? x->answers[i].result.n_known : 0;
        a->n_tokens += x->answers[i].result.n_tokens;
        a->n_routing_tokens += x->answers[i].result.n_routing;
        a->routing_seconds += x->answers[i].result.routing_seconds;
    }
}

/* ---- an answer in one piece ---- */
static enum MHD_Result answer_failed(exchange *x, server_event *e)
{
    enum MHD_Result result = exchange_fail(x, exchange_status(e->status),
                                           pl_buf_text(&e->out.text), e->code);
    server_event_destroy(&e);
    return result;
}

/* Collects the answers of a job. Returns NULL when all answers are complete. If an
 * answer fails, returns its event, which the caller destroys. */
static server_event *collect_answers(exchange *x)
{
    while (x->n_ended < x->job->n_parts) {
        server_event *e = exchange_wait(x);
        server_answer *answer = &x->answers[e->index];
        if (e->ended && e->status != PL_OK)
            return e;
        pl_buf_append(&answer->out.text, e->out.text.data, e->out.text.len);
        pl_buf_append(&answer->out.scores, e->out.scores.data, e->out.scores.len);
        add_spans(x, e);
        if (e->ended) {
            answer->result = e->result;
            x->n_ended++;
        }
        server_event_destroy(&e);
    }
    return NULL;
}

enum MHD_Result exchange_answer_whole(exchange *x)
{
    pl_buf body = {0};
    server_event *failed = collect_answers(x);
    if (failed)
        return answer_failed(x, failed);
    const int n = x->job->n_parts;
    pl_completion_answer a = start_answer(x);
    a.model = model_of(x->job);
    a.n_choices = n;
    a.choices = pl_alloc((size_t)n * sizeof *a.choices);
    add_usage(x, &a);
    for (int i = 0; i < n; i++) {
        const server_answer *answer = &x->answers[i];
        a.choices[i] = make_choice(x, i, &answer->out);
        a.choices[i].ended = true;
        a.choices[i].finish = answer->result.finish;
        a.choices[i].first = true;
        a.choices[i].spans = list_spans(x, i, &a.choices[i].n_spans);
        if (a.choices[i].n_spans > 0)
            a.choices[i].path = a.choices[i].spans[0].path;
        if (a.chat)
            skip_space(&a.choices[i]);
    }
    const pl_status status = pl_completion_write(&a, &body);
    pl_free_all(a.choices, a.routes);
    if (status == PL_OK)
        return exchange_send_json(x, MHD_HTTP_OK, &body);
    pl_buf_destroy(&body);
    return exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, pl_last_error(),
                         "engine_failed");
}

enum MHD_Result exchange_answer_embeddings(exchange *x, bool base64)
{
    pl_buf values = {0}, body = {0};
    server_event *failed = collect_answers(x);
    if (failed)
        return answer_failed(x, failed);
    embedding_answer a = {
        .model = x->job->prompts[0].model, .base64 = base64, .n = x->job->n_parts};
    for (int i = 0; i < a.n; i++) {
        const pl_buf *one = &x->answers[i].out.text;
        pl_buf_append(&values, one->data, one->len);
        a.width = (int)(one->len / sizeof(float));
        a.n_tokens += x->answers[i].result.n_prompt;
    }
    a.values = (const float *)(const void *)values.data;
    embedding_write(&a, &body);
    pl_buf_destroy(&values);
    return exchange_send_json(x, MHD_HTTP_OK, &body);
}

/* ---- a stream ---- */
static void write_event(exchange *x, server_event *e)
{
    pl_status status = e->status;
    server_answer *answer = &x->answers[e->index];
    const size_t begin = x->out.len;
    pl_buf_printf(&x->out, "data: ");
    if (status == PL_OK) {
        pl_completion_choice choice = make_choice(x, e->index, &e->out);
        pl_completion_answer a = start_answer(x);
        int n_spans;
        add_spans(x, e);
        const pl_completion_span *spans = list_spans(x, e->index, &n_spans);
        a.model = choice.path;
        if (n_spans > 0)
            choice.path = spans[n_spans - 1].path;
        if (e->ended) {
            choice.spans = spans;
            choice.n_spans = n_spans;
        }
        a.choices = &choice;
        a.n_choices = 1;
        choice.ended = e->ended;
        choice.finish = e->result.finish;
        choice.first = !answer->begun;
        if (a.chat && !answer->has_text)
            skip_space(&choice);
        answer->begun = true;
        answer->has_text |= e->out.text.len > 0;
        status = pl_completion_write(&a, &x->out);
        if (status == PL_OK)
            answer->offset = choice.offset;
    }
    if (status != PL_OK) {
        x->out.len = begin;
        pl_buf_printf(&x->out, "data: ");
        pl_completion_write_error(
            e->status != PL_OK ? pl_buf_text(&e->out.text) : pl_last_error(),
            "server_error", e->code ? e->code : "engine_failed", &x->out);
    }
    pl_buf_printf(&x->out, "\n\n");
    if (e->ended) {
        answer->result = e->result;
        x->n_ended++;
    }
    x->ended = status != PL_OK || x->n_ended == x->job->n_parts;
    if (x->ended && status == PL_OK && x->job->completion.include_usage) {
        /* the last chunk has the token counts and no text */
        pl_completion_answer a = start_answer(x);
        a.model = model_of(x->job);
        add_usage(x, &a);
        pl_buf_printf(&x->out, "data: ");
        if (pl_completion_write(&a, &x->out) == PL_OK)
            pl_buf_printf(&x->out, "\n\n");
        else
            pl_log(PL_LOG_WARN, "serve.usage_failed", "error=\"%s\"", pl_last_error());
        pl_free(a.routes);
    }
    if (x->ended)
        pl_buf_printf(&x->out, "data: [DONE]\n\n");
}

static ssize_t on_read(void *context, uint64_t at, char *to, size_t most)
{
    exchange *x = context;
    (void)at;
    if (x->written == x->out.len) {
        if (x->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        /* takes the next event, or, after a long time without an event, a comment */
        pl_buf_clear(&x->out);
        x->written = 0;
        while (x->out.len == 0) {
            server_event *e = exchange_next(x);
            x->quiet_ms = e ? 0 : x->quiet_ms + SERVER_LOOK_MS;
            if (e)
                write_event(x, e);
            else if (x->quiet_ms % COMMENT_MS == 0)
                pl_buf_printf(&x->out, ": wait\n\n");
            server_event_destroy(&e);
        }
    }
    size_t left = x->out.len - x->written, n = left < most ? left : most;
    memcpy(to, x->out.data + x->written, n);
    x->written += n;
    return (ssize_t)n;
}

enum MHD_Result exchange_answer_stream(exchange *x)
{
    server_event *first = exchange_wait(x);
    if (first->ended && first->status != PL_OK)
        /* No byte of the answer was sent yet, so it can have an error status. */
        return answer_failed(x, first);
    x->held = first;
    return exchange_queue(x, MHD_HTTP_OK, "text/event-stream",
                          mhd.MHD_create_response_from_callback(
                              MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, x, NULL));
}
