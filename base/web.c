/* Makes HTTP requests through libcurl (web.h). */
#include "base/web.h"
#include "base/library.h"
#include "base/text.h"
#include "base/thread.h"
#include <ctype.h>
#define CURL_DISABLE_TYPECHECK /* its macros cannot call through a pointer */
#include <curl/curl.h>
#include <string.h>
#include <strings.h>

enum { CONNECT_S = 10 };

#define CURL_FUNCTIONS(X)                                                              \
    X(curl_global_init)                                                                \
    X(curl_easy_init)                                                                  \
    X(curl_easy_reset)                                                                 \
    X(curl_easy_setopt)                                                                \
    X(curl_easy_perform)                                                               \
    X(curl_easy_getinfo)                                                               \
    X(curl_easy_strerror)                                                              \
    X(curl_easy_cleanup)                                                               \
    X(curl_slist_append)                                                               \
    X(curl_slist_free_all)

static struct {
    CURL_FUNCTIONS(PL_LIBRARY_MEMBER)
} curl;

struct pl_web {
    pl_queue *idle; /* idle curl handles, each with its connection */
};

typedef struct exchange {
    pl_web_request *request;
    size_t sent;
    bool too_long;
} exchange;

static void note_moved(const exchange *x, size_t n)
{
    if (x->request->moved)
        __atomic_fetch_add(x->request->moved, n, __ATOMIC_RELAXED);
}

/* ---- functions that curl calls ---- */
static size_t take_answer_bytes(char *data, size_t one, size_t n, void *context)
{
    exchange *x = context;
    (void)one;
    if (x->request->answer->len + n > x->request->answer_max) {
        x->too_long = true;
        return 0;
    }
    pl_buf_append(x->request->answer, data, n);
    note_moved(x, n);
    return n;
}

static size_t give_bytes(char *out, size_t one, size_t n, void *context)
{
    exchange *x = context;
    const size_t left = x->request->len - x->sent;
    const size_t len = left < one * n ? left : one * n;
    if (len > 0)
        memcpy(out, (const char *)x->request->data + x->sent, len);
    x->sent += len;
    note_moved(x, len);
    return len;
}

/* curl calls this before it sends the same bytes again after a broken connection. */
static int rewind_bytes(void *context, curl_off_t offset, int origin)
{
    exchange *x = context;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > x->request->len)
        return CURL_SEEKFUNC_FAIL;
    x->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t take_header(char *line, size_t one, size_t n, void *context)
{
    static const char NAME[] = "etag:";
    exchange *x = context;
    size_t at = sizeof NAME - 1, end = n;
    (void)one;
    if (n < at || strncasecmp(line, NAME, at) != 0)
        return n;
    while (at < end && line[at] == ' ')
        at++;
    while (end > at && isspace((unsigned char)line[end - 1]))
        end--;
    if (end - at < sizeof x->request->etag) {
        memcpy(x->request->etag, line + at, end - at);
        x->request->etag[end - at] = '\0';
    }
    return n;
}

static int ask_whether_to_stop(void *context, curl_off_t to_get, curl_off_t got,
                               curl_off_t to_send, curl_off_t sent)
{
    const bool *stops = context;
    (void)to_get, (void)got, (void)to_send, (void)sent;
    return __atomic_load_n(stops, __ATOMIC_RELAXED);
}

/* ---- one request ---- */
pl_status pl_web_ask(pl_web *web, pl_web_request *r)
{
    exchange x = {.request = r};
    struct curl_slist *headers = NULL;
    long code = 0;
    CURL *h = pl_queue_pop(web->idle, 0);
    if (!h)
        h = curl.curl_easy_init();
    if (!h)
        return pl_fail(PL_ERR_OS, "libcurl cannot make a connection handle");
    for (int i = 0; i < PL_WEB_HEADERS_MAX && r->headers[i]; i++)
        headers = curl.curl_slist_append(headers, r->headers[i]);
    pl_buf_clear(r->answer);
    r->etag[0] = '\0';
    curl.curl_easy_reset(h); /* resets the options but keeps the connection */
    curl.curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    /* Waits at most 1 ms for the answer to `Expect: 100-continue` before sending the
     * body. An empty header `Expect:` would avoid the wait, too, but curl 7.88 includes
     * it in the signature without sending it. */
    curl.curl_easy_setopt(h, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    curl.curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl.curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl.curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (long)r->silent_s);
    curl.curl_easy_setopt(h, CURLOPT_TIMEOUT, (long)r->most_s);
    curl.curl_easy_setopt(h, CURLOPT_URL, r->url);
    curl.curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_answer_bytes);
    curl.curl_easy_setopt(h, CURLOPT_WRITEDATA, &x);
    curl.curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
    curl.curl_easy_setopt(h, CURLOPT_HEADERDATA, &x);
    if (r->stops) {
        curl.curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
        curl.curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, ask_whether_to_stop);
        curl.curl_easy_setopt(h, CURLOPT_XFERINFODATA, r->stops);
    }
    if (r->signing) {
        curl.curl_easy_setopt(h, CURLOPT_USERNAME, r->id);
        curl.curl_easy_setopt(h, CURLOPT_PASSWORD, r->secret);
        curl.curl_easy_setopt(h, CURLOPT_AWS_SIGV4, r->signing);
    }
    if (strcmp(r->method, "PUT") == 0) {
        curl.curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
        curl.curl_easy_setopt(h, CURLOPT_READFUNCTION, give_bytes);
        curl.curl_easy_setopt(h, CURLOPT_READDATA, &x);
        curl.curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, rewind_bytes);
        curl.curl_easy_setopt(h, CURLOPT_SEEKDATA, &x);
        curl.curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->len);
    } else if (strcmp(r->method, "GET") != 0) {
        curl.curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, r->method);
    }
    curl.curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    CURLcode result = curl.curl_easy_perform(h);
    curl.curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &code);
    r->code = (int)code;
    curl.curl_slist_free_all(headers);
    pl_queue_push(web->idle, h);
    if (result != CURLE_OK && x.too_long)
        return pl_fail(PL_ERR_DAMAGED,
                       "the answer is longer than the limit of %zu bytes",
                       r->answer_max);
    switch ((int)result) {
    case CURLE_OK:
        return PL_OK;
    case CURLE_OPERATION_TIMEDOUT:
        return pl_fail(PL_ERR_TIMEOUT,
                       "the service sent no complete answer in time: no data came for "
                       "%d s, or the answer was too slow",
                       r->silent_s);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return pl_fail(PL_ERR_CONFIG, "%s; check the address of the service",
                       curl.curl_easy_strerror(result));
    default:
        return pl_fail(PL_ERR_NET, "%s", curl.curl_easy_strerror(result));
    }
}

/* ---- open and close ---- */
static CURLcode curl_state;

static void begin_curl(void)
{
    curl_state = curl.curl_global_init(CURL_GLOBAL_DEFAULT);
}

pl_status pl_web_open(pl_web **out)
{
    static const char *const names[] = {CURL_FUNCTIONS(PL_LIBRARY_NAME)};
    *out = NULL;
    PL_CHECK(pl_library_load("libcurl.so.4", "libcurl4", names, &curl, sizeof curl));
    static bool begun;
    pl_once(&begun, begin_curl); /* not safe in several threads before libcurl 7.84 */
    if (curl_state != CURLE_OK)
        return pl_fail(PL_ERR_OS, "libcurl cannot be initialised");
    pl_web *w = pl_alloc(sizeof *w);
    pl_status status = pl_queue_create(&w->idle);
    if (status != PL_OK)
        pl_free(w);
    else
        *out = w;
    return status;
}

void pl_web_close(pl_web **web)
{
    pl_web *w = *web;
    CURL *h;
    *web = NULL;
    if (!w)
        return;
    while ((h = pl_queue_pop(w->idle, 0)))
        curl.curl_easy_cleanup(h);
    pl_queue_destroy(&w->idle);
    pl_free(w);
}
