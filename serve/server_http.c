/* The front of a server: OpenAI's endpoints over HTTP/1.1, with a thread per
 * connection.
 *
 * A request is refused, and its connection closed, if its end is declared twice or in a
 * way that is not understood: a proxy before the server might assume another end, and
 * take the following bytes for a request of another client (RFC 9112, section 6.3).
 *
 * A request's body is collected up to a limit; then the thread waits for the events of
 * its job. Until the first one it can still answer with an error's status. While it
 * waits it watches the socket too, so that a client that goes away leaves the line at
 * once; a stream that is silent for long sends a comment line.
 *
 * Of the connections at most BUSY_MAX have a completion under way; others always find a
 * place (server_clients.h), because the library accepts none beyond CONNECTIONS_MAX. */
#include "serve/exporter.h"
#include "serve/server_internal.h"
#include "serve/server_clients.h"
#include "serve/server_framing.h"
#include "serve/server_tokens.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <time.h>

enum {
    CONNECTIONS_MAX = 1024,
    PLACES = 576, /* others are for connections that are being closed */
    BUSY_MAX = 512,
    TIMEOUT_S = 15, /* for a client that sends or takes nothing */
    /* for a request's head, and again for its body, however slowly they come */
    REQUEST_S = 30,
    MEMORY_MAX = 32 << 10,
    LOOK_MS = 1000,
    COMMENT_MS = 5000,
    BLOCK_BYTES = 4096
};

struct pl_server_front {
    struct MHD_Daemon *daemon;
    pl_server *server;
    server_clients *clients;
    int n_busy; /* accessed by atomic operations */
};

/* What is known of one of the answers of a request. */
typedef struct server_answer {
    pl_buf text, scores; /* of an answer in one piece */
    int64_t offset;      /* of a stream: characters of the tokens that were written */
    pl_generate_result result;
} server_answer;

typedef struct exchange exchange;
typedef struct endpoint {
    const char *url; /* one that ends in / is the beginning of others */
    bool post;
    enum MHD_Result (*answer)(exchange *x);
} endpoint;

/* One request, from its first line to its end. */
struct exchange {
    pl_server_front *front;
    struct MHD_Connection *connection;
    const endpoint *route;
    const char *url; /* borrowed from the library */
    server_client *client;
    bool busy; /* counted in the front's n_busy */
    pl_buf body;
    server_job *job;
    server_answer *answers; /* [job->n_parts] */
    int n_ended;
    server_event *held; /* taken from the queue but not written yet */
    pl_buf out;         /* of a stream: what the client has not received yet */
    size_t written;
    int64_t created, quiet_ms;
    bool ended, gone; /* gone: the client */
};

/* ---- plain answers ---- */
static enum MHD_Result send_answer(struct MHD_Connection *c, unsigned code,
                                   const char *type, bool close, pl_buf *body)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_COPY);
    pl_buf_destroy(body);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    if (code == MHD_HTTP_TOO_MANY_REQUESTS || code == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(r, "Retry-After", "1");
    if (close)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result answer_body(struct MHD_Connection *c, unsigned code,
                                   const char *type, pl_buf *body)
{
    return send_answer(c, code, type, false, body);
}

static enum MHD_Result answer_json(struct MHD_Connection *c, unsigned code,
                                   pl_buf *body)
{
    return answer_body(c, code, "application/json", body);
}

static enum MHD_Result answer_http_error(struct MHD_Connection *c, unsigned http,
                                         const char *message, const char *code)
{
    pl_buf body = {0};
    pl_completion_write_error(
        message, http < 500 ? "invalid_request_error" : "server_error", code, &body);
    return answer_json(c, http, &body);
}

static unsigned http_status(pl_status status)
{
    return status == PL_ERR_USAGE       ? MHD_HTTP_BAD_REQUEST
           : status == PL_ERR_NOT_FOUND ? MHD_HTTP_NOT_FOUND
           : status == PL_ERR_BUSY      ? MHD_HTTP_TOO_MANY_REQUESTS
           : status == PL_ERR_TIMEOUT   ? MHD_HTTP_GATEWAY_TIMEOUT
           : status == PL_ERR_CANCELLED ? MHD_HTTP_SERVICE_UNAVAILABLE
                                        : MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static enum MHD_Result answer_health(exchange *x)
{
    pl_buf body = {0};
    bool draining = server_is_draining(x->front->server);
    pl_buf_printf(&body, "{\"status\":\"%s\"}", draining ? "ending" : "ok");
    return answer_json(x->connection,
                       draining ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, &body);
}

/* ---- events of a job ---- */
static int socket_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

/* Waits for an event of the job, if there is one yet, and for the client to go away. */
static void wait_for_news(exchange *x, int timeout_ms)
{
    struct pollfd look[] = {
        {.fd = x->job ? pl_queue_fd(x->job->events) : -1, .events = POLLIN},
        {.fd = x->gone ? -1 : socket_of(x->connection), .events = POLLRDHUP}};
    poll(look, 2, timeout_ms);
    x->gone = x->gone || look[1].revents != 0;
}

/* The next event. NULL: there is none yet, or the client has gone (then the job is
 * told). */
static server_event *next_job_event(exchange *x, int timeout_ms)
{
    server_event *e = x->held;
    x->held = NULL;
    if (e)
        return e;
    wait_for_news(x, timeout_ms);
    if (x->gone)
        server_job_leave(x->job);
    return pl_queue_pop(x->job->events, 0);
}

/* The engine ends a job whose client left, so this wait ends. */
static server_event *wait_event(exchange *x)
{
    server_event *e = NULL;
    while (!e)
        e = next_job_event(x, LOOK_MS);
    return e;
}

/* The path of all answers, or what was asked for if they have several. */
static const char *model_of(const server_job *job)
{
    for (int i = 1; i < job->n_prompts; i++)
        if (strcmp(job->prompts[i].model, job->prompts[0].model) != 0)
            return job->completion.model;
    return job->prompts[0].model;
}

static pl_completion_choice make_choice(const exchange *x, int index,
                                        const pl_buf *text, const pl_buf *scores)
{
    const pl_completion *c = &x->job->completion;
    return (pl_completion_choice){
        .index = index,
        .path = x->job->prompts[index / c->n].model,
        .text = text->len > 0 ? (const char *)text->data : "",
        .text_len = text->len,
        .scores = (const pl_token_score *)(const void *)scores->data,
        .n_scores = scores->len / sizeof(pl_token_score),
        .offset = x->answers[index].offset,
        .scored = c->logprobs >= 0};
}

static pl_completion_answer start_answer(const exchange *x)
{
    return (pl_completion_answer){.id = x->job->id,
                                  .created = x->created,
                                  .tokenizer = server_tokenizer(x->front->server)};
}

/* Tokens of the prompts count once each, whatever the number of their answers. */
static void add_usage(const exchange *x, pl_completion_answer *a)
{
    const int n = x->job->completion.n;
    a->usage = true;
    for (int i = 0; i < x->job->n_parts; i++) {
        a->n_prompt_tokens += i % n == 0 ? x->answers[i].result.n_prompt : 0;
        a->n_known_tokens += i % n == 0 ? x->answers[i].result.n_known : 0;
        a->n_tokens += x->answers[i].result.n_tokens;
    }
}

/* ---- an answer in one piece ---- */
static pl_status write_whole(exchange *x, pl_buf *body)
{
    const int n = x->job->n_parts;
    pl_completion_answer a = start_answer(x);
    a.model = model_of(x->job);
    a.n_choices = n;
    a.choices = pl_alloc((size_t)n * sizeof *a.choices);
    add_usage(x, &a);
    for (int i = 0; i < n; i++) {
        const server_answer *answer = &x->answers[i];
        a.choices[i] = make_choice(x, i, &answer->text, &answer->scores);
        a.choices[i].ended = true;
        a.choices[i].finish = answer->result.finish;
    }
    pl_status status = pl_completion_write(&a, body);
    pl_free(a.choices);
    return status;
}

static enum MHD_Result answer_failed(exchange *x, server_event *e)
{
    enum MHD_Result result = answer_http_error(x->connection, http_status(e->status),
                                               pl_buf_text(&e->text), e->code);
    server_event_destroy(&e);
    return result;
}

static enum MHD_Result answer_whole(exchange *x)
{
    pl_buf body = {0};
    while (x->n_ended < x->job->n_parts) {
        server_event *e = wait_event(x);
        server_answer *answer = &x->answers[e->index];
        if (e->ended && e->status != PL_OK)
            return answer_failed(x, e);
        pl_buf_append(&answer->text, e->text.data, e->text.len);
        pl_buf_append(&answer->scores, e->scores.data, e->scores.len);
        if (e->ended) {
            answer->result = e->result;
            x->n_ended++;
        }
        server_event_destroy(&e);
    }
    if (write_whole(x, &body) == PL_OK)
        return answer_json(x->connection, MHD_HTTP_OK, &body);
    pl_buf_destroy(&body);
    return answer_http_error(x->connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
                             pl_last_error(), "engine_failed");
}

/* ---- a stream ---- */
static pl_status write_chunk(exchange *x, const server_event *e)
{
    pl_completion_choice choice = make_choice(x, e->index, &e->text, &e->scores);
    pl_completion_answer a = start_answer(x);
    a.model = choice.path;
    a.choices = &choice;
    a.n_choices = 1;
    choice.ended = e->ended;
    choice.finish = e->result.finish;
    PL_CHECK(pl_completion_write(&a, &x->out));
    x->answers[e->index].offset = choice.offset;
    return PL_OK;
}

/* The chunk with the usage has no choices. */
static pl_status write_usage(exchange *x)
{
    pl_completion_answer a = start_answer(x);
    a.model = model_of(x->job);
    add_usage(x, &a);
    pl_buf_printf(&x->out, "data: ");
    PL_CHECK(pl_completion_write(&a, &x->out));
    pl_buf_printf(&x->out, "\n\n");
    return PL_OK;
}

static void write_event(exchange *x, server_event *e)
{
    pl_status status = e->status;
    const size_t begin = x->out.len;
    pl_buf_printf(&x->out, "data: ");
    if (status == PL_OK)
        status = write_chunk(x, e);
    if (status != PL_OK) {
        x->out.len = begin;
        pl_buf_printf(&x->out, "data: ");
        pl_completion_write_error(
            e->status != PL_OK ? pl_buf_text(&e->text) : pl_last_error(),
            "server_error", e->code ? e->code : "engine_failed", &x->out);
    }
    pl_buf_printf(&x->out, "\n\n");
    if (e->ended) {
        x->answers[e->index].result = e->result;
        x->n_ended++;
    }
    x->ended = status != PL_OK || x->n_ended == x->job->n_parts;
    if (x->ended && status == PL_OK && x->job->completion.include_usage &&
        write_usage(x) != PL_OK)
        pl_log(PL_LOG_WARN, "serve.usage_failed", "error=\"%s\"", pl_last_error());
    if (x->ended)
        pl_buf_printf(&x->out, "data: [DONE]\n\n");
}

/* Fills x->out with the next event, or with a comment after a long silence. */
static void read_more(exchange *x)
{
    pl_buf_clear(&x->out);
    x->written = 0;
    while (x->out.len == 0) {
        server_event *e = next_job_event(x, LOOK_MS);
        x->quiet_ms = e ? 0 : x->quiet_ms + LOOK_MS;
        if (e)
            write_event(x, e);
        else if (x->quiet_ms % COMMENT_MS == 0)
            pl_buf_printf(&x->out, ": wait\n\n");
        server_event_destroy(&e);
    }
}

static ssize_t on_read(void *context, uint64_t at, char *to, size_t most)
{
    exchange *x = context;
    (void)at;
    if (x->written == x->out.len) {
        if (x->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        read_more(x);
    }
    size_t left = x->out.len - x->written, n = left < most ? left : most;
    memcpy(to, x->out.data + x->written, n);
    x->written += n;
    return (ssize_t)n;
}

static enum MHD_Result answer_stream(exchange *x)
{
    server_event *first = wait_event(x);
    if (first->ended && first->status != PL_OK)
        return answer_failed(x, first); /* the status can still be set */
    x->held = first;
    struct MHD_Response *r = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, x, NULL);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    MHD_add_response_header(r, "Cache-Control", "no-store");
    enum MHD_Result result = MHD_queue_response(x->connection, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return result;
}

/* ---- requests ---- */
/* While a job is computed its client need not send anything. Setting the timeout again
 * also counts as activity. */
static void rest_clock(struct MHD_Connection *c, unsigned seconds)
{
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

/* Above BUSY_MAX no place would be left for /health. */
static pl_status become_busy(exchange *x)
{
    x->busy = true;
    server_client_is_busy(x->client);
    if (__atomic_add_fetch(&x->front->n_busy, 1, __ATOMIC_SEQ_CST) <= BUSY_MAX)
        return PL_OK;
    __atomic_fetch_add(&server_counts(x->front->server)->refused, 1, __ATOMIC_SEQ_CST);
    return pl_fail(PL_ERR_BUSY, "%d requests are under way already; ask again later",
                   BUSY_MAX);
}

static uint32_t address_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || info->client_addr->sa_family != AF_INET)
        return 0;
    struct sockaddr_in at;
    memcpy(&at, info->client_addr, sizeof at);
    return ntohl(at.sin_addr.s_addr);
}

static enum MHD_Result answer_completion(exchange *x)
{
    pl_server *s = x->front->server;
    pl_completion completion = {0};
    wait_for_news(x, 0);
    if (x->gone)
        return MHD_NO;
    pl_status status = become_busy(x);
    if (status == PL_OK)
        status =
            pl_completion_parse((const char *)x->body.data, x->body.len, &completion);
    if (status == PL_OK)
        status = server_submit(s, &completion, address_of(x->connection), &x->job);
    if (status != PL_OK) {
        unsigned http = status == PL_ERR_BUSY && server_is_draining(s)
                            ? MHD_HTTP_SERVICE_UNAVAILABLE
                            : http_status(status);
        pl_completion_clear(&completion);
        return answer_http_error(x->connection, http, pl_last_error(),
                                 status == PL_ERR_BUSY ? "busy" : "invalid_value");
    }
    x->answers = pl_alloc((size_t)x->job->n_parts * sizeof *x->answers);
    rest_clock(x->connection, 0);
    bool stream = x->job->completion.stream;
    enum MHD_Result result = stream ? answer_stream(x) : answer_whole(x);
    rest_clock(x->connection,
               stream ? (unsigned)server_options(s)->timeout_s : TIMEOUT_S);
    return result;
}

/* ---- pages ---- */
static enum MHD_Result answer_models(exchange *x)
{
    pl_buf body = {0};
    server_write_models(x->front->server, &body);
    return answer_json(x->connection, MHD_HTTP_OK, &body);
}

/* The body of a request that was answered in `body`, or its error. */
static enum MHD_Result answer_status(exchange *x, pl_status status, pl_buf *body)
{
    if (status == PL_OK)
        return answer_json(x->connection, MHD_HTTP_OK, body);
    pl_buf_destroy(body);
    return answer_http_error(x->connection, http_status(status), pl_last_error(),
                             status == PL_ERR_NOT_FOUND ? "model_not_found"
                                                        : "invalid_value");
}

static enum MHD_Result answer_model(exchange *x)
{
    pl_buf body = {0};
    const char *name = x->url + strlen(x->route->url);
    return answer_status(x, server_write_model(x->front->server, name, &body), &body);
}

static enum MHD_Result answer_metrics(exchange *x)
{
    pl_buf body = {0};
    server_write_metrics(x->front->server, &body);
    return answer_body(x->connection, MHD_HTTP_OK, "text/plain; version=0.0.4", &body);
}

static enum MHD_Result answer_props(exchange *x)
{
    pl_buf body = {0};
    server_write_props(x->front->server, &body);
    return answer_json(x->connection, MHD_HTTP_OK, &body);
}

static enum MHD_Result answer_tokenizer_info(exchange *x)
{
    pl_buf body = {0};
    const pl_server *s = x->front->server;
    tokens_write_info(server_tokenizer(s), server_context(s), &body);
    return answer_json(x->connection, MHD_HTTP_OK, &body);
}

static enum MHD_Result answer_tokenize(exchange *x)
{
    pl_buf body = {0};
    const pl_server *s = x->front->server;
    return answer_status(x,
                         tokens_encode(server_tokenizer(s), server_context(s),
                                       (const char *)x->body.data, x->body.len, &body),
                         &body);
}

static enum MHD_Result answer_detokenize(exchange *x)
{
    pl_buf body = {0};
    return answer_status(x,
                         tokens_decode(server_tokenizer(x->front->server),
                                       (const char *)x->body.data, x->body.len, &body),
                         &body);
}

/* Only the engine knows, so it is asked. */
static enum MHD_Result answer_slots(exchange *x)
{
    if (server_ask_slots(x->front->server, &x->job) != PL_OK)
        return answer_http_error(x->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                                 pl_last_error(), "busy");
    rest_clock(x->connection, 0);
    server_event *e = wait_event(x);
    pl_buf body = e->text;
    e->text = (pl_buf){0};
    server_event_destroy(&e);
    enum MHD_Result result = answer_json(x->connection, MHD_HTTP_OK, &body);
    rest_clock(x->connection, TIMEOUT_S);
    return result;
}

static enum MHD_Result answer_no_chat(exchange *x)
{
    return answer_http_error(x->connection, MHD_HTTP_NOT_FOUND,
                             "this server completes text only and has no chat; send a "
                             "`prompt` to POST /v1/completions",
                             "not_found");
}

/* ---- the table of endpoints ---- */
static const endpoint endpoints[] = {
    {"/health", false, answer_health},
    {"/metrics", false, answer_metrics},
    {"/v1/models", false, answer_models},
    {"/v1/models/", false, answer_model},
    {"/props", false, answer_props},
    {"/slots", false, answer_slots},
    {"/tokenizer_info", false, answer_tokenizer_info},
    {"/tokenize", true, answer_tokenize},
    {"/detokenize", true, answer_detokenize},
    {"/v1/completions", true, answer_completion},
    {"/v1/chat/completions", true, answer_no_chat},
};
enum { N_ENDPOINTS = sizeof endpoints / sizeof *endpoints };

static const endpoint *find_endpoint(const char *url)
{
    for (int i = 0; i < N_ENDPOINTS; i++) {
        const size_t len = strlen(endpoints[i].url);
        const bool folder = endpoints[i].url[len - 1] == '/' && url[0] != '\0';
        if (folder ? strncmp(url, endpoints[i].url, len) == 0 && url[len] != '\0'
                   : strcmp(url, endpoints[i].url) == 0)
            return &endpoints[i];
    }
    return NULL;
}

static enum MHD_Result answer_unknown(struct MHD_Connection *c)
{
    pl_buf text = {0};
    pl_buf_printf(&text, "there is no such endpoint; there are");
    for (int i = 0; i < N_ENDPOINTS; i++)
        if (endpoints[i].answer != answer_no_chat &&
            endpoints[i].answer != answer_model)
            pl_buf_printf(&text, "%s %s %s", i == 0 ? "" : ",",
                          endpoints[i].post ? "POST" : "GET", endpoints[i].url);
    enum MHD_Result result =
        answer_http_error(c, MHD_HTTP_NOT_FOUND, pl_buf_text(&text), "not_found");
    pl_buf_destroy(&text);
    return result;
}

static bool is_too_large(struct MHD_Connection *c)
{
    int64_t bytes = 0;
    const char *length =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length &&
           (pl_parse_int(length, &bytes) != PL_OK || bytes > PL_COMPLETION_BYTES_MAX);
}

/* The first call for a request, before its body. HEAD is answered like GET; the library
 * leaves out the body. */
static enum MHD_Result begin_exchange(pl_server_front *front, struct MHD_Connection *c,
                                      const char *url, const char *method,
                                      const char *version, void **state)
{
    const bool post = strcmp(method, "POST") == 0;
    const bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    const endpoint *route = find_endpoint(url);
    unsigned http = 0;
    char text[80];
    const char *doubt = framing_doubt(c, version, &http);
    if (doubt) {
        pl_buf body = {0};
        pl_completion_write_error(doubt, "invalid_request_error", "framing", &body);
        return send_answer(c, http, "application/json", true, &body);
    }
    if (is_too_large(c)) {
        snprintf(text, sizeof text, "the body is larger than %d bytes",
                 (int)PL_COMPLETION_BYTES_MAX);
        return answer_http_error(c, MHD_HTTP_CONTENT_TOO_LARGE, text, "body_too_large");
    }
    if (!route)
        return answer_unknown(c);
    if (route->post ? !post : !get) {
        snprintf(text, sizeof text, "send %s with %s", route->url,
                 route->post ? "POST" : "GET");
        return answer_http_error(c, MHD_HTTP_METHOD_NOT_ALLOWED, text,
                                 "method_not_allowed");
    }
    exchange *x = pl_alloc(sizeof *x);
    x->front = front;
    x->connection = c;
    x->route = route;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    x->client = info->socket_context;
    server_client_waits(x->client);
    x->created = (int64_t)time(NULL);
    *state = x;
    __atomic_fetch_add(&server_counts(front->server)->open, 1, __ATOMIC_SEQ_CST);
    return MHD_YES;
}

static enum MHD_Result on_api_request(void *context, struct MHD_Connection *c,
                                      const char *url, const char *method,
                                      const char *version, const char *upload,
                                      size_t *upload_bytes, void **state)
{
    pl_server_front *front = context;
    exchange *x = *state;
    if (!x)
        return begin_exchange(front, c, url, method, version, state);
    if (*upload_bytes > 0) {
        pl_buf_append(&x->body, upload, *upload_bytes);
        *upload_bytes = 0;
        return MHD_YES;
    }
    x->url = url;
    return x->route->answer(x);
}

/* Called also if the client has gone in the middle. */
static void on_completed(void *context, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    pl_server_front *front = context;
    exchange *x = *state;
    (void)c;
    (void)why;
    if (!x)
        return;
    if (x->job)
        server_job_leave(x->job);
    if (x->busy)
        __atomic_sub_fetch(&front->n_busy, 1, __ATOMIC_SEQ_CST);
    server_client_waits(x->client);
    server_event_destroy(&x->held);
    for (int i = 0; x->answers && i < x->job->n_parts; i++) {
        pl_buf_destroy(&x->answers[i].text);
        pl_buf_destroy(&x->answers[i].scores);
    }
    pl_free(x->answers);
    server_job_release(&x->job);
    pl_buf_destroy(&x->body);
    pl_buf_destroy(&x->out);
    pl_free(x);
    *state = NULL;
    __atomic_fetch_sub(&server_counts(front->server)->open, 1, __ATOMIC_SEQ_CST);
}

/* Both calls come from the library's own thread, the second one before it closes the
 * socket. */
static void on_connection(void *context, struct MHD_Connection *c, void **client,
                          enum MHD_ConnectionNotificationCode what)
{
    pl_server_front *front = context;
    server_client *left = *client;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *client = server_clients_enter(front->clients, socket_of(c), address_of(c));
    else
        server_clients_leave(front->clients, &left);
}

/* ---- opening ---- */
static struct MHD_Daemon *start_daemon(pl_server_front *f, const struct sockaddr_in *at)
{
    return MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL,
        0, NULL, NULL, on_api_request, f, MHD_OPTION_SOCK_ADDR, at,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, f, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, f, MHD_OPTION_END);
}

pl_status pl_server_front_open(pl_server *s, const char *listen, pl_server_front **out,
                               char address[64])
{
    struct sockaddr_in at;
    char host[INET_ADDRSTRLEN];
    *out = NULL;
    if (!pl_http_address(listen, &at))
        return pl_fail(PL_ERR_USAGE,
                       "--listen takes IPv4:PORT, as 127.0.0.1:8080, not `%s`", listen);
    pl_server_front *f = pl_alloc(sizeof *f);
    const server_clients_options places = {.places = PLACES,
                                           .request_s = REQUEST_S,
                                           .answer_s = server_options(s)->timeout_s +
                                                       REQUEST_S};
    f->server = s;
    pl_status status = server_clients_open(&places, &f->clients);
    if (status != PL_OK) {
        pl_free(f);
        return status;
    }
    f->daemon = start_daemon(f, &at);
    if (!f->daemon) {
        int cause = errno;
        server_clients_close(&f->clients);
        pl_free(f);
        if (cause == EADDRINUSE)
            return pl_fail(PL_ERR_BUSY,
                           "%s is in use by another process; stop it or choose another "
                           "port by --listen",
                           listen);
        return pl_fail(PL_ERR_NET, "cannot listen at %s: %s; choose another --listen",
                       listen, strerror(cause));
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_BIND_PORT);
    inet_ntop(AF_INET, &at.sin_addr, host, sizeof host);
    snprintf(address, 64, "%s:%u", host, info ? (unsigned)info->port : 0u);
    *out = f;
    return PL_OK;
}

void pl_server_front_close(pl_server_front **front)
{
    if (!*front)
        return;
    MHD_stop_daemon((*front)->daemon);
    server_clients_close(&(*front)->clients);
    pl_free(*front);
    *front = NULL;
}
