/* The engine for S3 services. Requests are sent and signed by libcurl (base/web.h).
 *
 * A put has the condition `If-None-Match: *`. A swap has the condition `If-Match` with
 * the ETag of the expected content. A service that ignores these conditions would
 * silently overwrite objects. So a writer tests the conditions with a separate object
 * when it opens the engine, and refuses a service that ignores them. The bucket is a
 * part of the URL's path and not of the host name, so no wildcard names in DNS are
 * needed.
 *
 * The access keys come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
 * AWS_SESSION_TOKEN, or from the file that AWS's own tools use (s3_keys.h). */
#include "store/engine/s3_sign.h"
#include "store/engine/s3_text.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ANSWER_S = 10, REQUEST_S = 120, PAGE_KEYS = 1000 };

typedef struct s3_engine {
    char base[1024]; /* ENDPOINT/BUCKET */
    char space[258]; /* PREFIX/ or "" */
    char region[64], signing[96];
    s3_keys keys;
    pl_web *web;
} s3_engine;

/* ---- one request ---- */
/* Sends a request. r->answer gets the content, or the server's error text. */
static pl_status request(s3_engine *e, const char *method, const char *url,
                         const char *condition, pl_web_request *r)
{
    char token[2200];
    int n = 0;
    r->method = method;
    r->url = url;
    r->headers[n++] = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
    if (condition)
        r->headers[n++] = condition;
    snprintf(token, sizeof token, "x-amz-security-token: %s", e->keys.token);
    if (e->keys.token[0])
        r->headers[n++] = token;
    r->signing = e->signing;
    r->id = e->keys.id;
    r->secret = e->keys.secret;
    r->answer_max = ENGINE_OBJECT_MAX;
    r->silent_s = ANSWER_S;
    r->most_s = REQUEST_S;
    PL_CHECK(pl_web_ask(e->web, r));
    return s3_judge(r->code, pl_buf_text(r->answer));
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
    pl_web_request r = {.data = data, .len = len, .answer = &answer};
    pl_status status = request(e, "PUT", object_url(e, name, url), condition, &r);
    pl_buf_destroy(&answer);
    return status;
}

/* Writes an object. The service has only one status for a failed condition. For a put,
 * this status means that the object exists. */
static pl_status s3_put(void *self, const char *name, const void *data, size_t len)
{
    pl_status status = put_if(self, name, "If-None-Match: *", data, len);
    return status == PL_ERR_STALE ? PL_ERR_EXISTS : status;
}

static pl_status get_tagged(s3_engine *e, const char *name, pl_buf *out, char etag[128])
{
    char url[1600];
    pl_web_request r = {.answer = out};
    pl_status status = request(e, "GET", object_url(e, name, url), NULL, &r);
    pl_copy_text(etag, 128, r.etag);
    return status;
}

static pl_status s3_get(void *self, const char *name, pl_buf *out)
{
    char etag[128];
    return get_tagged(self, name, out, etag);
}

static pl_status s3_swap(void *self, const char *name, const pl_buf *expected,
                         const pl_buf *next)
{
    char etag[128], condition[160];
    pl_buf there = {0};
    if (expected->len == 0)
        return put_if(self, name, "If-None-Match: *", next->data, next->len);
    pl_status status = get_tagged(self, name, &there, etag);
    bool same = status == PL_OK && there.len == expected->len &&
                memcmp(there.data, expected->data, there.len) == 0;
    pl_buf_destroy(&there);
    if (status == PL_ERR_NOT_FOUND || (status == PL_OK && !same))
        return PL_ERR_STALE;
    PL_CHECK(status);
    if (!etag[0])
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the service sends no ETag, without which an object cannot be "
                       "changed safely; use a different service");
    snprintf(condition, sizeof condition, "If-Match: %s", etag);
    status = put_if(self, name, condition, next->data, next->len);
    /* By the standard a tag in a condition has quotes, but radosgw (16.2) compares the
     * condition with the tag without quotes. So both forms are tried. */
    const size_t len = strlen(etag);
    if (status != PL_ERR_STALE || len < 3 || etag[0] != '"' || etag[len - 1] != '"')
        return status;
    snprintf(condition, sizeof condition, "If-Match: %.*s", (int)len - 2, etag + 1);
    return put_if(self, name, condition, next->data, next->len);
}

static pl_status s3_drop(void *self, const char *name)
{
    char url[1600];
    pl_buf answer = {0};
    s3_engine *e = self;
    pl_web_request r = {.answer = &answer};
    pl_status status = request(e, "DELETE", object_url(e, name, url), NULL, &r);
    pl_buf_destroy(&answer);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

/* ---- listing objects ---- */
enum { FEW_TRIES = 5 };

/* Requests the list page by page. curl 7.88 signs the query unchanged, so the query's
 * keys are sorted and its values are escaped here. */
static pl_status s3_list(void *self, const char *prefix, engine_entry_fn fn,
                         void *context)
{
    s3_engine *e = self;
    char full[512], token[S3_TOKEN_MAX] = "";
    pl_buf page = {0}, url = {0};
    pl_status status = PL_OK;
    snprintf(full, sizeof full, "%s%s", e->space, prefix);
    do {
        pl_web_request r = {.answer = &page};
        pl_buf_clear(&url);
        pl_buf_printf(&url, "%s?", e->base);
        if (*token) {
            pl_buf_printf(&url, "continuation-token=");
            pl_buf_url(&url, token);
            pl_buf_printf(&url, "&");
        }
        pl_buf_printf(&url, "list-type=2&max-keys=%d&prefix=", PAGE_KEYS);
        pl_buf_url(&url, full);
        status = request(e, "GET", pl_buf_text(&url), NULL, &r);
        for (int i = 1; i < FEW_TRIES && engine_may_retry(status); i++) {
            pl_sleep_ms(200 * i);
            status = request(e, "GET", pl_buf_text(&url), NULL, &r);
        }
        PL_TRY(status);
        PL_TRY(s3_each_key(pl_buf_text(&page), strlen(e->space), fn, context));
        PL_TRY(s3_next_page(pl_buf_text(&page), token));
    } while (*token);
done:
    pl_buf_destroy(&url);
    pl_buf_destroy(&page);
    return status;
}

static pl_status s3_sign(void *self, const char *name, uint64_t put_bytes, pl_buf *out)
{
    const s3_engine *e = self;
    char url[1600];
    s3_signed_url(&(s3_signing){.url = object_url(e, name, url),
                                .region = e->region,
                                .keys = &e->keys,
                                .put_bytes = put_bytes,
                                .now_s = time(NULL),
                                .valid_s = ENGINE_SIGNED_S},
                  out);
    return PL_OK;
}

/* ---- open and close ---- */
static void s3_close(void *self)
{
    s3_engine *e = self;
    pl_web_close(&e->web);
    explicit_bzero(&e->keys, sizeof e->keys);
    pl_free(e);
}

static const engine_ops OPS = {s3_put,  s3_get,  s3_swap, s3_drop,
                               s3_list, s3_sign, s3_close};

/* Makes one put for the function probe. Each put is retried separately, because a busy
 * service may never answer all puts of a probe in a row. */
static pl_status probe_put(s3_engine *e, const char *name, const char *condition)
{
    pl_status status = put_if(e, name, condition, "probe", 5);
    for (int i = 1; i < FEW_TRIES && engine_may_retry(status); i++) {
        pl_sleep_ms(200 * i);
        status = put_if(e, name, condition, "probe", 5);
    }
    return status;
}

/* Tests whether the service respects conditions, with three writes to an object that is
 * used for nothing else. The first write must succeed. (ERR_STALE is accepted, too: the
 * answer may have been lost, and the repeated write then finds the object.) The other
 * two writes have conditions that do not hold, so they must fail with ERR_STALE. */
static pl_status probe(s3_engine *e, const engine_url *url)
{
    static const char *const conditions[] = {"If-None-Match: *",
                                             "If-Match: \"0123456789abcdef\""};
    char name[64];
    snprintf(name, sizeof name, "probe/%016llx", (unsigned long long)pl_random_fresh());
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

/* ---- where keys may go ---- */
static bool is_same_endpoint(const char *a, const char *b)
{
    size_t n = strlen(a), m = b ? strlen(b) : 0;
    n -= n > 0 && a[n - 1] == '/';
    m -= m > 0 && b[m - 1] == '/';
    return n == m && m > 0 && memcmp(a, b, n) == 0;
}

/* The endpoint stands in the run, which somebody else may have made, so that this
 * user's keys, or a session token, would be sent to a stranger. So a service that is
 * neither on this machine nor Amazon's S3 (its customers have names in its domain, too)
 * must be named by the user. */
pl_status engine_s3_open(const engine_url *url, bool to_write, const engine_ops **ops,
                         void **self)
{
    static const char domain[] = ".amazonaws.com";
    const char *host = url->endpoint + strlen("https://");
    const bool is_https = pl_starts_with(url->endpoint, "https://");
    const size_t len = is_https ? strcspn(host, ":/?#") : 0, own = strlen(domain);
    const bool is_amazon =
        len > own && memcmp(host + len - own, domain, own) == 0 &&
        (pl_starts_with(host, "s3.") || pl_starts_with(host, "s3-fips.") ||
         (pl_starts_with(host, "s3-") && !memchr(host, '.', len - own)));
    pl_status status = PL_OK;
    s3_engine *e = pl_alloc(sizeof *e);
    size_t end = strlen(url->endpoint);
    end -= end > 0 && url->endpoint[end - 1] == '/';
    snprintf(e->base, sizeof e->base, "%.*s/%s", (int)end, url->endpoint, url->place);
    snprintf(e->space, sizeof e->space, "%s%s", url->space, url->space[0] ? "/" : "");
    pl_copy_text(e->region, sizeof e->region, url->region);
    snprintf(e->signing, sizeof e->signing, "aws:amz:%s:s3", url->region);
    if (!is_amazon && !pl_url_is_local(url->endpoint) &&
        !is_same_endpoint(url->endpoint, getenv("AWS_ENDPOINT_URL_S3")) &&
        !is_same_endpoint(url->endpoint, getenv("AWS_ENDPOINT_URL")))
        PL_TRY(pl_fail(
            PL_ERR_NOPERM,
            "the store sends its S3 keys to %.200s; if you trust this service, set "
            "AWS_ENDPOINT_URL_S3=%.200s",
            url->endpoint, url->endpoint));
    PL_TRY(s3_keys_load(&e->keys));
    PL_TRY(pl_web_open(&e->web));
    if (to_write)
        PL_TRY(probe(e, url));
    *ops = &OPS;
    *self = e;
    return PL_OK;
done:
    s3_close(e);
    return status;
}
