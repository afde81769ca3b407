/* Sends answers and waits for the events of a request's job (server_exchange.h). While
 * a thread waits it also watches the client's socket. If the client closes the
 * connection, the thread ends the job at once.
 *
 * A client may close its writing half after the request (RFC 9112, 9.6), and still
 * reads the answer. Its socket then looks like that of a client that has closed both
 * halves (POLLRDHUP), until the server sends something: the system of a client that has
 * closed both refuses it (POLLERR). Before an answer begins the server therefore sends
 * the interim response "100 Continue", which clients must ignore (RFC 9110, 15.2). In a
 * stream the next event does the same. */
#include "serve/server_exchange.h"
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* ---- answers ---- */
enum MHD_Result exchange_queue(exchange *x, unsigned code, const char *type,
                               struct MHD_Response *r)
{
    const char *origin = x->front->options.cors;
    if (!r)
        return MHD_NO;
    if (type)
        mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    mhd.MHD_add_response_header(r, "Cache-Control", "no-store");
    if (code == MHD_HTTP_TOO_MANY_REQUESTS || code == MHD_HTTP_SERVICE_UNAVAILABLE)
        mhd.MHD_add_response_header(r, "Retry-After", "1");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW,
                                    x->route->post ? "POST" : "GET, HEAD");
    /* programs may see the end of a body in chunks at different places */
    if (x->is_last)
        mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (code == MHD_HTTP_UNAUTHORIZED)
        mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (origin) {
        mhd.MHD_add_response_header(r, "Access-Control-Allow-Origin", origin);
        mhd.MHD_add_response_header(r, "Access-Control-Allow-Methods",
                                    "GET, POST, OPTIONS");
        mhd.MHD_add_response_header(r, "Access-Control-Allow-Headers",
                                    "Authorization, Content-Type");
        mhd.MHD_add_response_header(r, "Vary", "Origin");
    }
    x->status = code;
    enum MHD_Result result = mhd.MHD_queue_response(x->connection, code, r);
    mhd.MHD_destroy_response(r);
    return result;
}

enum MHD_Result exchange_send(exchange *x, unsigned code, const char *type,
                              pl_buf *body)
{
    struct MHD_Response *r = mhd.MHD_create_response_from_buffer(body->len, body->data,
                                                                 MHD_RESPMEM_MUST_COPY);
    pl_buf_destroy(body);
    return exchange_queue(x, code, type, r);
}

enum MHD_Result exchange_send_json(exchange *x, unsigned code, pl_buf *body)
{
    return exchange_send(x, code, "application/json", body);
}

enum MHD_Result exchange_fail(exchange *x, unsigned http, const char *message,
                              const char *code)
{
    pl_buf body = {0};
    if (x->gone)
        http = SERVER_CLIENT_LEFT;
    pl_completion_write_error(
        message, http < 500 ? "invalid_request_error" : "server_error", code, &body);
    return exchange_send_json(x, http, &body);
}

unsigned exchange_status(pl_status status)
{
    return status == PL_ERR_USAGE       ? MHD_HTTP_BAD_REQUEST
           : status == PL_ERR_NOT_FOUND ? MHD_HTTP_NOT_FOUND
           : status == PL_ERR_BUSY      ? MHD_HTTP_TOO_MANY_REQUESTS
           : status == PL_ERR_TIMEOUT   ? MHD_HTTP_GATEWAY_TIMEOUT
           : status == PL_ERR_CANCELLED ? MHD_HTTP_SERVICE_UNAVAILABLE
                                        : MHD_HTTP_INTERNAL_SERVER_ERROR;
}

enum MHD_Result exchange_end(exchange *x, pl_status status, pl_buf *body)
{
    if (status == PL_OK)
        return exchange_send_json(x, MHD_HTTP_OK, body);
    pl_buf_destroy(body);
    return exchange_fail(x, exchange_status(status), pl_last_error(),
                         status == PL_ERR_NOT_FOUND ? "model_not_found"
                                                    : "invalid_value");
}

/* ---- the client and the events of the job ---- */
/* Sends the interim response to a client that has closed its writing half. Returns
 * whether the client is known to have closed both halves; a system far away refuses
 * later, which the next poll sees. Over TLS the server cannot send an interim response,
 * and TLS libraries close both halves of the connection. */
static bool has_closed_both(const exchange *x, struct pollfd *socket)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (x->front->options.tls_cert)
        return true;
    if (x->status != 0 || !x->is_http_1_1)
        return false;
    socket->events = 0;
    if (send(socket->fd, interim, sizeof interim - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return errno != EAGAIN; /* the client has not yet read an earlier answer */
    return poll(socket, 1, 0) > 0;
}

void exchange_look(exchange *x, int timeout_ms)
{
    struct pollfd look[] = {
        {.fd = x->job ? pl_queue_fd(x->job->events) : -1, .events = POLLIN},
        {.fd = x->gone ? -1 : http_socket(x->connection),
         .events = x->half_closed ? 0 : POLLRDHUP}};
    poll(look, 2, timeout_ms);
    const bool only_half = look[1].revents == POLLRDHUP;
    x->half_closed = x->half_closed || only_half;
    x->gone = x->gone || (only_half ? has_closed_both(x, &look[1]) : look[1].revents);
}

server_event *exchange_next(exchange *x)
{
    server_event *e = x->held;
    x->held = NULL;
    if (e)
        return e;
    exchange_look(x, SERVER_LOOK_MS);
    if (x->gone)
        server_job_leave(x->job);
    return pl_queue_pop(x->job->events, 0);
}

server_event *exchange_wait(exchange *x)
{
    server_event *e = NULL;
    while (!e)
        e = exchange_next(x);
    return e;
}

void exchange_rest(exchange *x, unsigned seconds)
{
    mhd.MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                  seconds);
}
