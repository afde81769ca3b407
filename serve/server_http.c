/* The front of a server: OpenAI's endpoints over HTTP/1.1, with a thread per
 * connection.
 *
 * A request whose end is not certain is refused, and its connection is closed
 * (server_framing.h). The connection's thread collects the body up to a limit, then
 * waits for the events of the request's job (server_exchange.h). Until the first event
 * the thread can still answer with an error status.
 *
 * At most BUSY_MAX requests may be in progress. The library accepts no more than
 * CONNECTIONS_MAX connections. When more than PLACES are open, waiting connections are
 * closed (server_clients.h), so that the library need not refuse new ones. */
#include "serve/embedding.h"
#include "serve/exporter.h"
#include "serve/page_asset.h"
#include "serve/server_exchange.h"
#include "serve/server_framing.h"
#include "serve/server_tokens.h"

#include <arpa/inet.h>
#include <errno.h>
#include <strings.h>
#include <time.h>

enum {
    CONNECTIONS_MAX = 1024,
    /* largest number of open connections; the rest up to CONNECTIONS_MAX is for
     * connections that are being closed */
    PLACES = 576,
    BUSY_MAX = 512,
    PARSERS = 4,
    /* limit of time for the head of a request, and again for its body, even while bytes
     * arrive slowly */
    REQUEST_S = 30,
    MEMORY_MAX = 32 << 10,
    /* Every connection has a thread. With the usual stacks of 8 MiB, PLACES of them
     * would not fit into 4 GiB of address space (ulimit -v). */
    STACK_BYTES = 1 << 20
};

/* ---- requests ---- */
/* Answers a request for completions, for the next message of a chat, or for embeddings:
 * parses it, hands it to the engine, and sends the answers. */
static enum MHD_Result answer_completion(exchange *x)
{
    pl_server *s = x->front->server;
    const pl_mixture *mix = server_options(s)->mix;
    const pl_chat_template *chat = server_options(s)->chat;
    const bool chats = strcmp(x->route->url, "/v1/chat/completions") == 0,
               embeds = strcmp(x->route->url, "/v1/embeddings") == 0;
    const char *body = (const char *)x->body.data;
    const size_t len = x->body.len;
    pl_completion request = {0};
    bool base64 = false;
    if (chats && !chat)
        return exchange_fail(
            x, MHD_HTTP_NOT_FOUND,
            strcmp(mix->settings.chat, "unknown") == 0
                ? "this server does not know the chat template of the imported model; "
                  "send a `prompt` to POST /v1/completions, or start the server with "
                  "--chat chatml, --chat llama2 or --chat plain"
                : "this run has no chat template, so it offers no chat; send a "
                  "`prompt` to POST /v1/completions, or start the server with --chat "
                  "chatml, --chat llama2 or --chat plain (or set model.chat)",
            "not_found");
    exchange_look(x, 0);
    if (x->gone)
        return MHD_NO;
    /* no more than BUSY_MAX requests are busy, so that a request for /health always
     * finds a place */
    pl_status status = PL_OK;
    x->busy = true;
    server_client_is_busy(x->client);
    if (pl_atomic_add(&x->front->n_busy, 1) >= BUSY_MAX) {
        pl_atomic_add(&server_counts(s)->refused, 1);
        status =
            pl_fail(PL_ERR_BUSY,
                    "%d requests are in progress, which is the limit; try again later",
                    BUSY_MAX);
    }
    if (status == PL_OK) {
        void *place = pl_queue_pop(x->front->parsers, -1);
        status = chats    ? pl_chat_parse(chat, mix->tokenizer, body, len, &request)
                 : embeds ? embedding_parse(body, len, &request, &base64)
                          : pl_completion_parse(body, len, &request);
        pl_queue_push(x->front->parsers, place);
    }
    if (status == PL_OK)
        status = server_submit(
            s, embeds ? SERVER_EMBEDDING : SERVER_COMPLETION, &request,
            (server_asker){http_address(x->connection), x->user}, &x->job);
    if (status != PL_OK) {
        unsigned http = status == PL_ERR_BUSY && server_is_draining(s)
                            ? MHD_HTTP_SERVICE_UNAVAILABLE
                            : exchange_status(status);
        pl_completion_clear(&request);
        return exchange_fail(x, http, pl_last_error(),
                             status == PL_ERR_BUSY ? "busy" : "invalid_value");
    }
    x->answers = pl_alloc((size_t)x->job->n_parts * sizeof *x->answers);
    exchange_rest(x, 0);
    const bool stream = x->job->completion.stream;
    enum MHD_Result result = embeds   ? exchange_answer_embeddings(x, base64)
                             : stream ? exchange_answer_stream(x)
                                      : exchange_answer_whole(x);
    exchange_rest(x,
                  stream ? (unsigned)server_options(s)->timeout_s : SERVER_TIMEOUT_S);
    return result;
}

/* ---- pages ---- */
/* Sends the page of the server. The page contains no data of the run, so no key is
 * needed; the script of the page uses the endpoints below. */
static enum MHD_Result answer_talk(exchange *x)
{
    return exchange_queue(x, MHD_HTTP_OK, "text/html; charset=utf-8",
                          http_page_response(&x->front->talk));
}

static enum MHD_Result answer_health(exchange *x)
{
    pl_buf body = {0};
    bool draining = server_is_draining(x->front->server);
    pl_buf_printf(&body, "{\"status\":\"%s\"}", draining ? "ending" : "ok");
    return exchange_send_json(x, draining ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                              &body);
}

static enum MHD_Result answer_written(exchange *x)
{
    pl_buf body = {0};
    x->route->write(x->front->server, &body);
    return exchange_send_json(x, MHD_HTTP_OK, &body);
}

static enum MHD_Result answer_model(exchange *x)
{
    pl_buf body = {0};
    const char *name = x->path + strlen(x->route->url);
    return exchange_end(x, server_write_model(x->front->server, name, &body), &body);
}

static enum MHD_Result answer_metrics(exchange *x)
{
    pl_buf body = {0};
    server_write_metrics(x->front->server, &body);
    return exchange_send(x, MHD_HTTP_OK, "text/plain; version=0.0.4", &body);
}

static enum MHD_Result answer_tokenize(exchange *x)
{
    pl_buf body = {0};
    const pl_mixture *mix = server_options(x->front->server)->mix;
    const char *asked = (const char *)x->body.data;
    void *place = pl_queue_pop(x->front->parsers, -1);
    const pl_status status =
        strcmp(x->route->url, "/detokenize") == 0
            ? tokens_decode(mix->tokenizer, asked, x->body.len, &body)
            : tokens_encode(mix->tokenizer, mix->arm.shape.context, asked, x->body.len,
                            &body);
    pl_queue_push(x->front->parsers, place);
    return exchange_end(x, status, &body);
}

/* Asks the engine what its slots are doing, because only the engine knows. */
static enum MHD_Result answer_slots(exchange *x)
{
    if (server_ask_slots(x->front->server, &x->job) != PL_OK)
        return exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, pl_last_error(), "busy");
    exchange_rest(x, 0);
    server_event *e = exchange_wait(x);
    pl_buf body = e->out.text;
    e->out.text = (pl_buf){0};
    server_event_destroy(&e);
    enum MHD_Result result = exchange_send_json(x, MHD_HTTP_OK, &body);
    exchange_rest(x, SERVER_TIMEOUT_S);
    return result;
}

/* ---- the table of endpoints ---- */
static const endpoint endpoints[] = {
    {"/", false, answer_talk, true, NULL},
    {"/health", false, answer_health, true, NULL},
    {"/metrics", false, answer_metrics, false, NULL},
    {"/v1/models", false, answer_written, false, server_write_models},
    {"/v1/models/", false, answer_model, false, NULL},
    {"/props", false, answer_written, false, server_write_props},
    {"/slots", false, answer_slots, false, NULL},
    {"/tokenizer_info", false, answer_written, false, tokens_write_info},
    {"/tokenize", true, answer_tokenize, false, NULL},
    {"/detokenize", true, answer_tokenize, false, NULL},
    {"/v1/completions", true, answer_completion, false, NULL},
    {"/v1/embeddings", true, answer_completion, false, NULL},
    {"/v1/chat/completions", true, answer_completion, false, NULL},
};
enum { N_ENDPOINTS = sizeof endpoints / sizeof *endpoints };

/* Reads the path of the URL. A client may send the whole URL (RFC 9112, 3.2.2); its
 * host must then be that of the Host header, which decides who may ask. */
static const char *read_target(exchange *x, const char *url)
{
    const size_t scheme = pl_starts_with(url, "http://")    ? strlen("http://")
                          : pl_starts_with(url, "https://") ? strlen("https://")
                                                            : 0;
    if (scheme > 0) {
        const char *host = http_request_header(x->connection, MHD_HTTP_HEADER_HOST);
        const size_t len = strcspn(url + scheme, "/");
        if (!host || strlen(host) != len || strncasecmp(host, url + scheme, len) != 0)
            return "the host of the URL differs from the Host header";
        url += scheme + len;
    }
    pl_copy_text(x->path, sizeof x->path, *url ? url : "/");
    const size_t len = strlen(x->path);
    if (len > 1 && x->path[len - 1] == '/')
        x->path[len - 1] = '\0';
    for (int i = 0; i < N_ENDPOINTS && !x->route; i++) {
        const size_t n = strlen(endpoints[i].url);
        const bool folder = n > 1 && endpoints[i].url[n - 1] == '/';
        if (folder ? strncmp(x->path, endpoints[i].url, n) == 0 && x->path[n]
                   : strcmp(x->path, endpoints[i].url) == 0)
            x->route = &endpoints[i];
    }
    return NULL;
}

static enum MHD_Result refuse_length(exchange *x)
{
    char text[80];
    snprintf(text, sizeof text, "the body is larger than %d bytes",
             (int)PL_COMPLETION_BYTES_MAX);
    return exchange_fail(x, MHD_HTTP_CONTENT_TOO_LARGE, text, "body_too_large");
}

/* Looks at a request before its body is read. Refuses a wrong request at once;
 * otherwise the endpoint answers after the body. HEAD is answered like GET; the library
 * leaves out the body of the answer. */
static enum MHD_Result look_at_request(exchange *x, const char *url, const char *method,
                                       const char *version)
{
    unsigned http = 0;
    char text[80];
    const char *doubt = framing_doubt(x->connection, version, &x->is_last, &http);
    if (!doubt)
        doubt = read_target(x, url);
    if (doubt) {
        x->is_last = true;
        return exchange_fail(x, http, doubt, "framing");
    }
    doubt = http_site_doubt(&x->front->site, x->connection, x->path);
    if (doubt)
        return exchange_fail(x, MHD_HTTP_FORBIDDEN, doubt, "foreign_site");
    /* before a page from another origin may send a request, its browser asks without a
     * key which requests are allowed */
    if (x->front->options.cors && strcmp(method, "OPTIONS") == 0)
        return exchange_queue(
            x, MHD_HTTP_NO_CONTENT, NULL,
            mhd.MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT));
    const server_access *access = pl_atomic_get(&x->front->access);
    if (access && !(x->route && x->route->open)) {
        const char *user = server_access_find(
            access, http_request_header(x->connection, MHD_HTTP_HEADER_AUTHORIZATION));
        x->user = user ? user : "";
        if (!x->user[0])
            return exchange_fail(x, MHD_HTTP_UNAUTHORIZED,
                                 "the request has no key that this server knows; send "
                                 "the header `Authorization: Bearer KEY`",
                                 "invalid_api_key");
    }
    int64_t bytes = 0;
    const char *length =
        http_request_header(x->connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (length &&
        (pl_parse_int(length, &bytes) != PL_OK || bytes > PL_COMPLETION_BYTES_MAX))
        return refuse_length(x);
    const char *coding =
        http_request_header(x->connection, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (coding && strcasecmp(coding, "identity") != 0)
        return exchange_fail(
            x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
            "the body is compressed (Content-Encoding); send it uncompressed",
            "unsupported_encoding");
    if (!x->route) {
        pl_buf known = {0};
        pl_buf_printf(&known, "there is no such endpoint; the endpoints are");
        for (int i = 0; i < N_ENDPOINTS; i++)
            if (endpoints[i].answer != answer_model)
                pl_buf_printf(&known, "%s %s %s", i == 0 ? "" : ",",
                              endpoints[i].post ? "POST" : "GET", endpoints[i].url);
        enum MHD_Result result =
            exchange_fail(x, MHD_HTTP_NOT_FOUND, pl_buf_text(&known), "not_found");
        pl_buf_destroy(&known);
        return result;
    }
    if (x->route->post ? strcmp(method, "POST") != 0 : !http_only_reads(method)) {
        snprintf(text, sizeof text, "send %s with %s", x->route->url,
                 x->route->post ? "POST" : "GET");
        return exchange_fail(x, MHD_HTTP_METHOD_NOT_ALLOWED, text,
                             "method_not_allowed");
    }
    return MHD_YES;
}

/* The library's first call for a request comes before its body. */
static enum MHD_Result on_api_request(void *context, struct MHD_Connection *c,
                                      const char *url, const char *method,
                                      const char *version, const char *upload,
                                      size_t *upload_bytes, void **state)
{
    exchange *x = *state;
    if (!x) {
        pl_server_front *front = context;
        *state = x = pl_alloc(sizeof *x);
        x->front = front;
        x->connection = c;
        x->user = "";
        x->began = pl_now();
        x->client = http_client(c);
        server_client_waits(x->client);
        x->created = (int64_t)time(NULL);
        pl_atomic_add(&server_counts(front->server)->open, 1);
        x->is_http_1_1 = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
        return look_at_request(x, url, method, version);
    }
    /* the request has been answered already, so its body is ignored */
    if (x->status != 0) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        x->too_long =
            x->too_long || x->body.len + *upload_bytes > PL_COMPLETION_BYTES_MAX;
        if (!x->too_long)
            pl_buf_append(&x->body, upload, *upload_bytes);
        *upload_bytes = 0;
        return MHD_YES;
    }
    return x->too_long ? refuse_length(x) : x->route->answer(x);
}

/* Called when a request ends, also if the client has gone before the end. */
static void on_completed(void *context, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    pl_server_front *front = context;
    exchange *x = *state;
    (void)c;
    (void)why;
    if (!x)
        return;
    if (front->options.log_requests) {
        /* one line per request, without any text from the client */
        char address[HTTP_HOST_MAX];
        int n_prompt = 0, n_tokens = 0;
        for (int i = 0; x->answers && i < x->job->n_parts; i++) {
            n_prompt +=
                i % x->job->completion.n == 0 ? x->answers[i].result.n_prompt : 0;
            n_tokens += x->answers[i].result.n_tokens;
        }
        http_address_text(x->connection, address);
        pl_log(PL_LOG_INFO, "serve.request",
               "endpoint=%s status=%u seconds=%.3f address=%s key=%s prompt_tokens=%d "
               "tokens=%d",
               x->route ? x->route->url : "-",
               x->status ? x->status : (unsigned)SERVER_CLIENT_LEFT,
               pl_now() - x->began, address, x->user[0] ? x->user : "-", n_prompt,
               n_tokens);
    }
    if (x->job)
        server_job_leave(x->job);
    if (x->busy)
        pl_atomic_sub(&front->n_busy, 1);
    server_client_waits(x->client);
    server_event_destroy(&x->held);
    for (int i = 0; x->answers && i < x->job->n_parts; i++)
        server_output_destroy(&x->answers[i].out);
    pl_free(x->answers);
    server_job_release(&x->job);
    pl_buf_destroy(&x->body);
    pl_buf_destroy(&x->out);
    pl_free(x);
    *state = NULL;
    pl_atomic_sub(&server_counts(front->server)->open, 1);
}

/* ---- opening ---- */
static pl_status reload_keys(void *context)
{
    pl_server_front *f = context;
    return server_access_reload(f->options.api_keys, &f->access);
}

pl_status pl_server_front_open(pl_server *s, const pl_front_options *options,
                               pl_server_front **out, char address[64])
{
    http_listen at;
    *out = NULL;
    PL_CHECK(http_listen_parse(options->listen, "--listen", &at));
    pl_server_front *f = pl_alloc(sizeof *f);
    f->server = s;
    f->options = *options;
    const server_clients_options places = {.places = PLACES,
                                           .request_s = REQUEST_S,
                                           .answer_s = server_options(s)->timeout_s +
                                                       REQUEST_S};
    pl_status status = PL_OK;
    PL_TRY(pl_queue_create(&f->parsers));
    for (int i = 0; i < PARSERS; i++)
        pl_queue_push(f->parsers, f);
    PL_TRY(http_site_open(&at, options->api_keys ? NULL : "--api-keys", options->cors,
                          &places, &f->site));
    server_limit_addresses(s, at.loopback);
    PL_TRY(http_load());
    if (options->api_keys)
        PL_TRY(server_access_load(options->api_keys, &f->access));
    const bool tls = options->tls_cert;
    if (!options->tls_cert != !options->tls_key)
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "only one of --tls-cert and --tls-key is given; give both"));
    if (tls && mhd.MHD_is_feature_supported(MHD_FEATURE_SSL) != MHD_YES)
        PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                       "this libmicrohttpd was built without TLS; leave out --tls-cert "
                       "and put a proxy with TLS in front of the server"));
    if (tls) {
        PL_TRY(pl_read_file(options->tls_cert, &f->certificate));
        PL_TRY(pl_read_file(options->tls_key, &f->private_key));
        /* the library needs texts with a terminating NUL */
        (void)pl_buf_text(&f->certificate);
        (void)pl_buf_text(&f->private_key);
    }
    http_page_make(talk_asset, talk_asset_bytes, &f->talk);
    /* with TLS the last part of the options has the files */
    struct MHD_OptionItem extra[] = {
        {tls ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0, f->private_key.data},
        {MHD_OPTION_HTTPS_MEM_CERT, 0, f->certificate.data},
        {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | at.flags;
    if (tls)
        flags |= MHD_USE_TLS;
    errno = 0;
    f->daemon = mhd.MHD_start_daemon(
        flags, 0, NULL, NULL, on_api_request, f, MHD_OPTION_SOCK_ADDR, &at.at.any,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
        http_site_connection, &f->site, MHD_OPTION_UNESCAPE_CALLBACK, http_unescape,
        NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, f, MHD_OPTION_ARRAY, extra,
        MHD_OPTION_END);
    const int cause = errno;
    if (!f->daemon) {
        if (cause == EADDRINUSE)
            PL_TRY(pl_fail(PL_ERR_BUSY,
                           "%s is in use by another process; stop that process, or "
                           "choose another port by --listen",
                           options->listen));
        if (options->tls_cert && cause == 0)
            PL_TRY(pl_fail(PL_ERR_CONFIG,
                           "%s and %s are not a certificate and its private key in PEM",
                           options->tls_cert, options->tls_key));
        PL_TRY(pl_fail(PL_ERR_NET, "cannot listen at %s: %s; choose another --listen",
                       options->listen, strerror(cause)));
    }
    const union MHD_DaemonInfo *info =
        mhd.MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_BIND_PORT);
    snprintf(address, 64, "%s:%u", at.host, info ? (unsigned)info->port : 0u);
    if (options->api_keys)
        server_on_reload(s, reload_keys, f);
    *out = f;
    return PL_OK;
done:
    pl_server_front_close(&f);
    return status;
}

void pl_server_front_close(pl_server_front **front)
{
    pl_server_front *f = *front;
    if (!f)
        return;
    server_on_reload(f->server, NULL, NULL);
    if (f->daemon)
        mhd.MHD_stop_daemon(f->daemon);
    server_clients_close(&f->site.clients);
    pl_queue_destroy(&f->parsers);
    server_access_destroy(&f->access);
    pl_buf_destroy(&f->certificate);
    pl_buf_destroy(&f->private_key);
    pl_buf_destroy(&f->talk.html);
    pl_free(f);
    *front = NULL;
}
