/* Serves the page over HTTP (page_front.h). */
#include "serve/page_front.h"
#include "serve/exporter.h"
#include "serve/http.h"
#include "serve/page_asset.h"
#include "serve/server_access.h"
#include "serve/server_framing.h"

#include <errno.h>
#include <poll.h>

enum {
    CONNECTIONS_MAX = 128,
    PLACES = 64,    /* as in server_http.c */
    REQUEST_S = 30, /* limit of time for a request; a stream of events begins it anew */
    TIMEOUT_S = 15,
    MEMORY_MAX = 32 << 10,
    LOOK_MS = 200, /* how often a thread checks whether the front is closing */
    AGAIN_MS = 50, /* pause before a busy owner is asked again */
    /* for how long a busy owner is asked again and again; less than TIMEOUT_S, after
     * which the HTTP library closes the connection */
    BUSY_MS = 10000,
    COMMENT_MS = 10000, /* how often a stream without events sends a comment */
    WATCHED_MS = 15000  /* a page counts as open for this time after a question */
};

struct pl_page_front {
    struct MHD_Daemon *daemon;
    server_access *access; /* NULL: no token is needed */
    http_site site;
    http_page page;
    pl_queue *questions; /* questions that the owner has not taken yet */
    /* the three fields below are accessed by atomic operations */
    uint64_t number;  /* number of the newest state */
    int64_t asked_ms; /* time when a page last asked or listened */
    bool closing;
};

/* ---- questions ---- */
static void release_question(pl_page_question *q)
{
    if (pl_atomic_sub(&q->owners, 1) > 1)
        return;
    for (int i = 0; i < q->n_arguments; i++)
        pl_free(q->arguments[i].value);
    pl_buf_destroy(&q->body);
    pl_queue_destroy(&q->answers);
    pl_free(q);
}

const char *pl_page_ask(const pl_page_question *q, const char *name)
{
    for (int i = 0; i < q->n_arguments; i++)
        if (strcmp(q->arguments[i].name, name) == 0)
            return q->arguments[i].value;
    return "";
}

static enum MHD_Result note_argument(void *context, enum MHD_ValueKind kind,
                                     const char *name, const char *value)
{
    pl_page_question *q = context;
    (void)kind;
    q->refused = true;
    if (q->n_arguments == PL_PAGE_ARGUMENTS || !value ||
        strlen(value) >= PL_PAGE_ARGUMENT_BYTES)
        return MHD_NO;
    pl_page_argument *a = &q->arguments[q->n_arguments];
    if (!pl_copy_text(a->name, sizeof a->name, name))
        return MHD_NO;
    q->refused = false;
    a->value = pl_strdup(value);
    q->n_arguments++;
    return MHD_YES;
}

pl_page_question *pl_page_front_take(pl_page_front *front, int timeout_ms)
{
    return pl_queue_pop(front->questions, timeout_ms);
}

void pl_page_front_answer(pl_page_question *q, pl_status status, pl_buf *body)
{
    q->status = status;
    q->body = *body;
    *body = (pl_buf){0};
    if (status != PL_OK) {
        pl_buf_clear(&q->body);
        pl_buf_printf(&q->body, "%s", pl_last_error());
    }
    pl_queue_push(q->answers, q);
    release_question(q);
}

void pl_page_front_publish(pl_page_front *front, uint64_t number)
{
    pl_atomic_set(&front->number, number);
}

bool pl_page_front_is_watched(const pl_page_front *front)
{
    return pl_now_ms() - pl_atomic_get(&front->asked_ms) < WATCHED_MS;
}

/* Gives the question to the owner of the front and waits for the answer. Returns false
 * if the front closes before the answer comes. */
static bool ask_owner(pl_page_front *f, pl_page_question *q)
{
    pl_buf_destroy(&q->body);
    pl_atomic_add(&q->owners, 1);
    pl_queue_push(f->questions, q);
    while (!pl_queue_pop(q->answers, LOOK_MS))
        if (pl_atomic_get(&f->closing))
            return false;
    return true;
}

/* Asks the owner, and repeats the question while the owner is busy and the client
 * waits. A busy owner is often ready soon, and a browser's console would show each
 * status 503 as an error. A client that has closed its writing half may have left,
 * which only an answer shows, so it gets the answer that there is. */
static enum MHD_Result reply_to_question(pl_page_front *f, struct MHD_Connection *c,
                                         const char *url)
{
    struct pollfd closed = {.fd = http_socket(c), .events = POLLRDHUP};
    const int64_t until = pl_now_ms() + BUSY_MS;
    pl_page_question *q = pl_alloc(sizeof *q);
    q->owners = 1;
    if (!pl_copy_text(q->url, sizeof q->url, url) ||
        mhd.MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, note_argument, q) < 0 ||
        q->refused || pl_queue_create(&q->answers) != PL_OK) {
        release_question(q);
        return http_reply_text(c, MHD_HTTP_BAD_REQUEST,
                               "the URL has too many arguments, or a part of the URL "
                               "is too long\n");
    }
    pl_atomic_set(&f->asked_ms, pl_now_ms());
    server_client_is_busy(http_client(c));
    bool answered = ask_owner(f, q);
    while (answered && q->status == PL_ERR_BUSY && pl_now_ms() < until &&
           poll(&closed, 1, AGAIN_MS) == 0)
        answered = ask_owner(f, q);
    /* the owner may still write to a question without an answer */
    const pl_status status = answered ? q->status : PL_ERR_BUSY;
    const unsigned code = status == PL_ERR_USAGE       ? MHD_HTTP_BAD_REQUEST
                          : status == PL_ERR_NOT_FOUND ? MHD_HTTP_NOT_FOUND
                          : status == PL_ERR_BUSY      ? MHD_HTTP_SERVICE_UNAVAILABLE
                                                       : MHD_HTTP_INTERNAL_SERVER_ERROR;
    enum MHD_Result result =
        !answered
            ? http_reply_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the page is closing\n")
        : status == PL_OK
            ? http_reply(c, MHD_HTTP_OK, "application/json", q->body.data, q->body.len)
            : http_reply_text(c, code, pl_buf_text(&q->body));
    release_question(q);
    server_client_waits(http_client(c));
    return result;
}

/* ---- the stream of events ---- */
typedef struct event_stream {
    pl_page_front *front;
    server_client *client;
    int socket;
    bool half_closed; /* the client has closed at least its writing half */
    uint64_t number;  /* the number of the state that was sent last */
    int64_t sent_ms;
} event_stream;

/* Waits for a new state. Ends the stream if the front closes or the client has gone. */
static ssize_t write_event(void *context, uint64_t position, char *out, size_t most)
{
    event_stream *s = context;
    (void)position;
    for (;;) {
        const uint64_t number = pl_atomic_get(&s->front->number);
        pl_atomic_set(&s->front->asked_ms, pl_now_ms());
        /* So the stream is closed only if there are too many connections, and after
         * silent ones. The browser then opens it again. */
        server_client_waits(s->client);
        if (pl_atomic_get(&s->front->closing) || most < 64)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (number != s->number || pl_now_ms() - s->sent_ms > COMMENT_MS) {
            int n =
                number != s->number
                    ? snprintf(out, most, "event: state\ndata: {\"number\":%llu}\n\n",
                               (unsigned long long)number)
                    : snprintf(out, most, ": nothing new\n\n");
            s->number = number;
            s->sent_ms = pl_now_ms();
            return n;
        }
        /* A client that has closed both halves of the connection refuses the next
         * bytes, so one that may have done so gets a comment at once. */
        struct pollfd look = {.fd = s->socket,
                              .events = s->half_closed ? 0 : POLLRDHUP};
        poll(&look, 1, LOOK_MS);
        if (look.revents & ~POLLRDHUP)
            return MHD_CONTENT_READER_END_OF_STREAM;
        s->half_closed = s->half_closed || look.revents;
        s->sent_ms = look.revents ? 0 : s->sent_ms;
    }
}

static enum MHD_Result on_page_request(void *context, struct MHD_Connection *c,
                                       const char *url, const char *method,
                                       const char *version, const char *upload,
                                       size_t *upload_bytes, void **state)
{
    pl_page_front *f = context;
    unsigned http = 0;
    (void)upload;
    (void)upload_bytes;
    (void)state;
    const char *doubt = framing_doubt(c, version, NULL, &http);
    if (doubt)
        return http_reply_text(c, http, doubt);
    if (!http_only_reads(method))
        return http_refuse_method(c);
    if ((doubt = http_site_doubt(&f->site, c, url)))
        return http_reply_text(c, MHD_HTTP_FORBIDDEN, doubt);
    if (strcmp(url, "/") == 0)
        return http_queue(c, MHD_HTTP_OK, "text/html; charset=utf-8",
                          http_page_response(&f->page));
    if (f->access &&
        !server_access_find(f->access,
                            http_request_header(c, MHD_HTTP_HEADER_AUTHORIZATION)))
        return http_reply_text(c, MHD_HTTP_UNAUTHORIZED,
                               "send a valid token: Authorization: Bearer TOKEN\n");
    if (strcmp(url, "/events") == 0) {
        enum { BLOCK_BYTES = 256 };
        event_stream *s = pl_alloc(sizeof *s);
        s->front = f;
        s->client = http_client(c);
        s->socket = http_socket(c);
        s->number = UINT64_MAX;
        return http_queue(c, MHD_HTTP_OK, "text/event-stream",
                          mhd.MHD_create_response_from_callback(
                              MHD_SIZE_UNKNOWN, BLOCK_BYTES, write_event, s, pl_free));
    }
    return reply_to_question(f, c, url);
}

/* ---- opening ---- */
pl_status pl_page_front_open(const pl_page_front_options *options, pl_page_front **out,
                             char address[64])
{
    http_listen at;
    *out = NULL;
    PL_CHECK(http_listen_parse(options->listen, "--listen", &at));
    const server_clients_options places = {
        .places = PLACES, .request_s = REQUEST_S, .answer_s = REQUEST_S};
    const char *tokens = options->tokens;
    pl_page_front *f = pl_alloc(sizeof *f);
    pl_status status = PL_OK;
    PL_TRY(http_site_open(&at, tokens ? NULL : "--token", NULL, &places, &f->site));
    if (tokens)
        PL_TRY(server_access_load(tokens, &f->access));
    PL_TRY(http_load());
    PL_TRY(pl_queue_create(&f->questions));
    http_page_make(page_asset, page_asset_bytes, &f->page);
    errno = 0;
    f->daemon = mhd.MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            at.flags,
        0, NULL, NULL, on_page_request, f, MHD_OPTION_SOCK_ADDR, &at.at.any,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, http_site_connection, &f->site,
        MHD_OPTION_UNESCAPE_CALLBACK, http_unescape, NULL,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX, MHD_OPTION_END);
    if (!f->daemon)
        PL_TRY(http_not_listening(options->listen, "the page", "--listen", errno));
    const union MHD_DaemonInfo *info =
        mhd.MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_BIND_PORT);
    snprintf(address, 64, "%s:%u", at.host, info ? (unsigned)info->port : 0u);
    *out = f;
    return PL_OK;
done:
    pl_page_front_close(&f);
    return status;
}

void pl_page_front_close(pl_page_front **front)
{
    pl_page_front *f = *front;
    if (!f)
        return;
    pl_atomic_set(&f->closing, true);
    if (f->daemon)
        mhd.MHD_stop_daemon(f->daemon);
    for (pl_page_question *q; f->questions && (q = pl_queue_pop(f->questions, 0));)
        release_question(q);
    pl_queue_destroy(&f->questions);
    server_clients_close(&f->site.clients);
    server_access_destroy(&f->access);
    pl_buf_destroy(&f->page.html);
    pl_free(f);
    *front = NULL;
}
