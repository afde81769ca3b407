/* Any S3 service through libcurl, which signs the requests (AWS signature 4).
 *
 * A put carries `If-None-Match: *`, a swap the ETag that the expected content was read
 * with (`If-Match`). A service that ignores these conditions would overwrite silently.
 * So a writer tests these conditions at opening, with an object of its own, and refuses
 * such a service. The bucket is part of the path and not of the host name, which works
 * without wildcard names in DNS.
 *
 * Keys come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or
 * from the file that AWS's own tools use (s3_keys.h). */
#include "store/engine/s3_keys.h"
#include "store/engine/s3_text.h"
#include <curl/curl.h>
#include <string.h>
#include <sys/random.h>

enum { ANSWER_S = 10, REQUEST_S = 120, PAGE_KEYS = 1000 };

typedef struct s3_engine {
    char base[1024]; /* ENDPOINT/BUCKET */
    char space[258]; /* PREFIX/ or "" */
    char signing[96];
    s3_keys keys;
    pl_queue *idle; /* idle curl handles, each with its connection */
} s3_engine;

typedef struct s3_request {
    const char *method; /* "PUT", "GET", "DELETE" */
    const char *url;
    const char *condition; /* a further header, or NULL */
    const void *data;      /* the body of a PUT */
    size_t len, sent;
    pl_buf *answer;
    char etag[128];
    bool too_long;
} s3_request;

/* ---- one request ---- */
static size_t take_answer_bytes(char *data, size_t one, size_t n, void *context)
{
    s3_request *r = context;
    (void)one;
    if (r->answer->len + n > ENGINE_OBJECT_MAX) {
        r->too_long = true;
        return 0;
    }
    pl_buf_append(r->answer, data, n);
    return n;
}

static size_t give_bytes(char *out, size_t one, size_t n, void *context)
{
    s3_request *r = context;
    size_t len = r->len - r->sent < one * n ? r->len - r->sent : one * n;
    if (len > 0)
        memcpy(out, (const char *)r->data + r->sent, len);
    r->sent += len;
    return len;
}

/* When a connection breaks, curl calls this to send the same bytes again. */
static int rewind_bytes(void *context, curl_off_t offset, int origin)
{
    s3_request *r = context;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > r->len)
        return CURL_SEEKFUNC_FAIL;
    r->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t take_header(char *line, size_t one, size_t n, void *context)
{
    s3_request *r = context;
    (void)one;
    s3_etag_of_header(line, n, r->etag, sizeof r->etag);
    return n;
}

static struct curl_slist *headers_of(const s3_engine *e, const s3_request *r)
{
    char token[2200];
    struct curl_slist *list =
        curl_slist_append(NULL, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    if (r->condition)
        list = curl_slist_append(list, r->condition);
    if (e->keys.token[0]) {
        snprintf(token, sizeof token, "x-amz-security-token: %s", e->keys.token);
        list = curl_slist_append(list, token);
    }
    return list;
}

static void set_request(CURL *h, const s3_engine *e, s3_request *r)
{
    curl_easy_setopt(h, CURLOPT_URL, r->url);
    curl_easy_setopt(h, CURLOPT_USERNAME, e->keys.id);
    curl_easy_setopt(h, CURLOPT_PASSWORD, e->keys.secret);
    curl_easy_setopt(h, CURLOPT_AWS_SIGV4, e->signing);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_answer_bytes);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(h, CURLOPT_HEADERDATA, r);
    if (strcmp(r->method, "PUT") == 0) {
        curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(h, CURLOPT_READFUNCTION, give_bytes);
        curl_easy_setopt(h, CURLOPT_READDATA, r);
        curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, rewind_bytes);
        curl_easy_setopt(h, CURLOPT_SEEKDATA, r);
        curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->len);
    } else if (strcmp(r->method, "GET") != 0) {
        curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, r->method);
    }
}

static pl_status transport_failed(CURLcode code, const s3_request *r)
{
    if (r->too_long)
        return pl_fail(PL_ERR_DAMAGED, "it has more than %d bytes", ENGINE_OBJECT_MAX);
    switch ((int)code) {
    case CURLE_OPERATION_TIMEDOUT:
        return pl_fail(PL_ERR_TIMEOUT, "no answer in %d s", ANSWER_S);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return pl_fail(PL_ERR_CONFIG, "%s; look at the endpoint",
                       curl_easy_strerror(code));
    default:
        return pl_fail(PL_ERR_NET, "%s", curl_easy_strerror(code));
    }
}

/* Writes the HTTP status into *code; returns OK for every status. */
static pl_status perform(s3_engine *e, s3_request *r, long *code)
{
    CURL *h = pl_queue_pop(e->idle, 0);
    if (!h)
        h = curl_easy_init();
    if (!h)
        return pl_fail(PL_ERR_OS, "libcurl does not start");
    struct curl_slist *headers = headers_of(e, r);
    curl_easy_reset(h); /* resets the options but keeps the connection */
    /* A request fails if the server sends nothing for ANSWER_S. */
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    /* An empty header `Expect:` would do the same, but curl 7.88 signs it without
     * sending it. */
    curl_easy_setopt(h, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, (long)ANSWER_S);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (long)ANSWER_S);
    curl_easy_setopt(h, CURLOPT_TIMEOUT, (long)REQUEST_S);
    set_request(h, e, r);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    CURLcode result = curl_easy_perform(h);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, code);
    curl_slist_free_all(headers);
    pl_queue_push(e->idle, h);
    return result == CURLE_OK ? PL_OK : transport_failed(result, r);
}

/* Sends a request. `answer` is emptied first and gets the content, or the server's
 * error text. */
static pl_status request(s3_engine *e, s3_request *r)
{
    long code = 0;
    r->sent = 0;
    r->etag[0] = '\0';
    pl_buf_clear(r->answer);
    PL_CHECK(perform(e, r, &code));
    return s3_judge((int)code, pl_buf_text(r->answer));
}

static const char *object_url(const s3_engine *e, const char *name, char out[1600])
{
    snprintf(out, 1600, "%s/%s%s", e->base, e->space, name);
    return out;
}

/* ---- objects ---- */
static pl_status put_if(s3_engine *e, const char *name, const char *condition,
                        const void *data, size_t len)
{
    char url[1600];
    pl_buf answer = {0};
    s3_request r = {.method = "PUT",
                    .url = object_url(e, name, url),
                    .condition = condition,
                    .data = data,
                    .len = len,
                    .answer = &answer};
    pl_status status = request(e, &r);
    pl_buf_destroy(&answer);
    return status;
}

/* The service reports both failed conditions with one status; for a put it means that
 * the object exists. */
static pl_status s3_put(void *self, const char *name, const void *data, size_t len)
{
    pl_status status = put_if(self, name, "If-None-Match: *", data, len);
    return status == PL_ERR_STALE ? PL_ERR_EXISTS : status;
}

static pl_status get_tagged(s3_engine *e, const char *name, pl_buf *out, char etag[128])
{
    char url[1600];
    s3_request r = {.method = "GET", .url = object_url(e, name, url), .answer = out};
    pl_status status = request(e, &r);
    pl_copy_text(etag, 128, r.etag);
    return status;
}

static pl_status s3_get(void *self, const char *name, pl_buf *out)
{
    char etag[128];
    return get_tagged(self, name, out, etag);
}

/* radosgw (16.2) compares the header with the bare tag, others with the quoted tag of
 * the standard. A swap tries both forms of the tag, because both mean the expected
 * content. */
static bool unquote(char etag[128])
{
    size_t len = strlen(etag);
    if (len < 3 || etag[0] != '"' || etag[len - 1] != '"')
        return false;
    memmove(etag, etag + 1, len - 2);
    etag[len - 2] = '\0';
    return true;
}

static pl_status swap_from(s3_engine *e, const char *name, const pl_buf *expected,
                           const pl_buf *next)
{
    char etag[128], condition[160];
    pl_buf there = {0};
    pl_status status = get_tagged(e, name, &there, etag);
    bool same = status == PL_OK && there.len == expected->len &&
                memcmp(there.data, expected->data, there.len) == 0;
    pl_buf_destroy(&there);
    if (status == PL_ERR_NOT_FOUND || (status == PL_OK && !same))
        return PL_ERR_STALE;
    PL_CHECK(status);
    if (!etag[0])
        return pl_fail(PL_ERR_UNSUPPORTED, "the service gives no ETag");
    snprintf(condition, sizeof condition, "If-Match: %s", etag);
    status = put_if(e, name, condition, next->data, next->len);
    if (status != PL_ERR_STALE || !unquote(etag))
        return status;
    snprintf(condition, sizeof condition, "If-Match: %s", etag);
    return put_if(e, name, condition, next->data, next->len);
}

static pl_status s3_swap(void *self, const char *name, const pl_buf *expected,
                         const pl_buf *next)
{
    if (expected->len > 0)
        return swap_from(self, name, expected, next);
    return put_if(self, name, "If-None-Match: *", next->data, next->len);
}

static pl_status s3_drop(void *self, const char *name)
{
    char url[1600];
    pl_buf answer = {0};
    s3_engine *e = self;
    s3_request r = {
        .method = "DELETE", .url = object_url(e, name, url), .answer = &answer};
    pl_status status = request(e, &r);
    pl_buf_destroy(&answer);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

/* ---- lists ---- */
enum { FEW_TRIES = 5 };

/* curl 7.88 signs the query as it is given, so its keys are sorted and its values
 * escaped here. */
static pl_status fetch_page(s3_engine *e, const char *prefix, const char *token,
                            pl_buf *page)
{
    char url[4096], full[512];
    snprintf(full, sizeof full, "%s%s", e->space, prefix);
    char *escaped = curl_easy_escape(NULL, full, 0);
    char *place = curl_easy_escape(NULL, token, 0);
    snprintf(url, sizeof url, "%s?%s%s%slist-type=2&max-keys=%d&prefix=%s", e->base,
             *token ? "continuation-token=" : "", place, *token ? "&" : "", PAGE_KEYS,
             escaped);
    curl_free(escaped);
    curl_free(place);
    s3_request r = {.method = "GET", .url = url, .answer = page};
    pl_status status = request(e, &r);
    for (int i = 1; i < FEW_TRIES && engine_may_retry(status); i++) {
        pl_sleep_ms(200 * i);
        status = request(e, &r);
    }
    return status;
}

static pl_status s3_list(void *self, const char *prefix, engine_entry_fn fn,
                         void *context)
{
    s3_engine *e = self;
    char token[S3_TOKEN_MAX] = "";
    pl_buf page = {0};
    pl_status status = PL_OK;
    do {
        PL_TRY(fetch_page(e, prefix, token, &page));
        PL_TRY(s3_each_key(pl_buf_text(&page), strlen(e->space), fn, context));
        PL_TRY(s3_next_page(pl_buf_text(&page), token));
    } while (*token);
done:
    pl_buf_destroy(&page);
    return status;
}

/* ---- open and close ---- */
static void s3_close(void *self)
{
    s3_engine *e = self;
    CURL *h;
    while (e->idle && (h = pl_queue_pop(e->idle, 0)))
        curl_easy_cleanup(h);
    pl_queue_destroy(&e->idle);
    s3_keys_wipe(&e->keys);
    pl_free(e);
}

static const engine_ops OPS = {s3_put, s3_get, s3_swap, s3_drop, s3_list, s3_close};

/* Each request of the probe is retried by itself: a service that is busy now and then
 * would never answer all of them in a row. */
static pl_status probe_put(s3_engine *e, const char *name, const char *condition)
{
    pl_status status = put_if(e, name, condition, "probe", 5);
    for (int i = 1; i < FEW_TRIES && engine_may_retry(status); i++) {
        pl_sleep_ms(200 * i);
        status = put_if(e, name, condition, "probe", 5);
    }
    return status;
}

/* Makes three writes to an object that nothing else uses: one that must succeed (or
 * whose answer was lost), and two whose conditions do not hold. */
static pl_status probe(s3_engine *e, const engine_url *url)
{
    static const char *const conditions[] = {"If-None-Match: *",
                                             "If-Match: \"0123456789abcdef\""};
    char name[64];
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return pl_fail(PL_ERR_OS,
                       "this machine does not give random numbers (getrandom failed)");
    snprintf(name, sizeof name, "probe/%016llx", (unsigned long long)number);
    pl_status status = probe_put(e, name, conditions[0]);
    for (int i = 0; i < 2 && (status == PL_OK || status == PL_ERR_STALE); i++) {
        status = probe_put(e, name, conditions[i]);
        if (status == PL_OK) {
            return pl_fail(PL_ERR_UNSUPPORTED,
                           "the service at %s ignores the condition `%s`, so a home "
                           "could overwrite what another home wrote; use a service "
                           "with conditional writes (Amazon S3, MinIO, Ceph's radosgw)",
                           url->endpoint, conditions[i]);
        }
    }
    if (status != PL_ERR_STALE)
        return status;
    (void)s3_drop(e, name); /* if this fails, `store gc` finds the object */
    return PL_OK;
}

pl_status engine_s3_open(const engine_url *url, bool to_write, const engine_ops **ops,
                         void **self)
{
    pl_status status = PL_OK;
    s3_engine *e = pl_alloc(sizeof *e);
    size_t end = strlen(url->endpoint);
    end -= end > 0 && url->endpoint[end - 1] == '/';
    snprintf(e->base, sizeof e->base, "%.*s/%s", (int)end, url->endpoint, url->place);
    snprintf(e->space, sizeof e->space, "%s%s", url->space, url->space[0] ? "/" : "");
    snprintf(e->signing, sizeof e->signing, "aws:amz:%s:s3", url->region);
    PL_TRY(s3_keys_load(&e->keys));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        PL_TRY(pl_fail(PL_ERR_OS, "libcurl does not start"));
    PL_TRY(pl_queue_create(&e->idle));
    if (to_write)
        PL_TRY(probe(e, url));
    *ops = &OPS;
    *self = e;
    return PL_OK;
done:
    s3_close(e);
    return status;
}
