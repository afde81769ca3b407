/* A small S3 server for tests of engine_s3.c, on a machine without a real one.
 * (tests/ceph.sh uses radosgw.) It keeps objects in memory. A request must have a
 * signature in its header, which the server does not check, or a valid one in its URL.
 *
 *   s3_server PORTFILE [lose=N] [busy=N] [deaf] [full] [small] [shut]
 *
 *   lose=N   every Nth request is executed, but its answer is not sent
 *   busy=N   every Nth request is not executed, but is answered 503
 *   deaf     the server ignores conditions of writes, such as If-None-Match
 *   full     the server answers writes like a bucket that has reached its quota
 *   small    lists have pages of 7 keys
 *   shut     the server refuses signed URLs
 *
 * Writes its port into PORTFILE, and after each request with a signed URL the numbers
 * of such GETs and PUTs into PORTFILE.signed. Ends when its standard input is closed,
 * and then writes into PORTFILE.left how many objects of uploads (upload/...) there
 * are. */
#include "base/base.h"
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct object {
    char *key;
    uint8_t *data;
    size_t len;
    unsigned tag;
} object;

static struct {
    object *all;
    size_t n;
    unsigned next_tag, n_requests;
    int lose, busy, page;
    bool deaf, full, shut;
    int n_gets, n_puts; /* with signed URLs */
    char count_file[512];
} bucket = {.page = 1000};

typedef struct upload {
    pl_buf body;
} upload;

static int by_key(const void *a, const void *b)
{
    return strcmp(((const object *)a)->key, ((const object *)b)->key);
}

static object *find(const char *key)
{
    for (size_t i = 0; i < bucket.n; i++)
        if (strcmp(bucket.all[i].key, key) == 0)
            return &bucket.all[i];
    return NULL;
}

static void store(const char *key, const pl_buf *body)
{
    object *o = find(key);
    if (!o) {
        bucket.all = pl_grow(bucket.all, (bucket.n + 1) * sizeof *bucket.all);
        o = &bucket.all[bucket.n++];
        *o = (object){.key = pl_strdup(key)};
    }
    pl_free(o->data);
    o->data = pl_alloc(body->len + 1);
    if (body->len)
        memcpy(o->data, body->data, body->len);
    o->len = body->len;
    o->tag = ++bucket.next_tag;
    qsort(bucket.all, bucket.n, sizeof *bucket.all, by_key);
}

static void forget(const char *key)
{
    object *o = find(key);
    if (!o)
        return;
    pl_free(o->key);
    pl_free(o->data);
    *o = bucket.all[--bucket.n];
    qsort(bucket.all, bucket.n, sizeof *bucket.all, by_key);
}

/* ---- answers ---- */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const void *data,
                              size_t len, unsigned tag)
{
    char etag[32];
    struct MHD_Response *r = MHD_create_response_from_buffer(
        len, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY);
    snprintf(etag, sizeof etag, "\"%08x\"", tag);
    if (tag)
        MHD_add_response_header(r, "ETag", etag);
    enum MHD_Result queued = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return queued;
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned code, const char *said)
{
    char text[128];
    snprintf(text, sizeof text, "<?xml version=\"1.0\"?><Error><Code>%s</Code></Error>",
             said);
    return answer(c, code, text, strlen(text), 0);
}

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static bool condition_holds(struct MHD_Connection *c, const object *there)
{
    char etag[32] = "";
    const char *match = header(c, "If-Match"), *none = header(c, "If-None-Match");
    if (bucket.deaf)
        return true;
    if (there)
        snprintf(etag, sizeof etag, "\"%08x\"", there->tag);
    return !(none && there) && !(match && (!there || strcmp(match, etag) != 0));
}

static enum MHD_Result put(struct MHD_Connection *c, const char *key,
                           const pl_buf *body)
{
    if (bucket.full)
        return say(c, 403, "QuotaExceeded");
    if (!condition_holds(c, find(key)))
        return say(c, 412, "PreconditionFailed");
    store(key, body);
    return answer(c, 200, "", 0, find(key)->tag);
}

static enum MHD_Result list(struct MHD_Connection *c)
{
    const char *prefix =
        MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "prefix");
    const char *after =
        MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "continuation-token");
    int n = 0;
    bool more = false;
    const char *last = "";
    pl_buf text = {0};
    pl_buf_printf(&text, "<?xml version=\"1.0\"?><ListBucketResult>");
    for (size_t i = 0; i < bucket.n && !more; i++) {
        const object *o = &bucket.all[i];
        if (!pl_starts_with(o->key, prefix ? prefix : "") ||
            (after && strcmp(o->key, after) <= 0))
            continue;
        more = n == bucket.page;
        if (more)
            break;
        pl_buf_printf(&text, "<Contents><Key>%s</Key><Size>%zu</Size></Contents>",
                      o->key, o->len);
        last = o->key;
        n++;
    }
    pl_buf_printf(&text, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
    if (more)
        pl_buf_printf(&text, "<NextContinuationToken>%s</NextContinuationToken>", last);
    pl_buf_printf(&text, "</ListBucketResult>");
    enum MHD_Result queued = answer(c, 200, text.data, text.len, 0);
    pl_buf_destroy(&text);
    return queued;
}

static const char *argument(struct MHD_Connection *c, const char *name)
{
    const char *value = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);
    return value ? value : "";
}

/* Writes the signature that the secret of AWS_SECRET_ACCESS_KEY gives to this request
 * (AWS signature version 4, in the query). */
static void sign(struct MHD_Connection *c, const char *method, const char *path,
                 char out[PL_HASH_TEXT])
{
    static const char *const keys[] = {"X-Amz-Algorithm", "X-Amz-Credential",
                                       "X-Amz-Date", "X-Amz-Expires",
                                       "X-Amz-SignedHeaders"};
    char names[64], hash[PL_HASH_TEXT], scope[128], secret[256], *rest = names, *name;
    pl_buf text = {0};
    pl_hash key;
    snprintf(names, sizeof names, "%s", argument(c, "X-Amz-SignedHeaders"));
    snprintf(scope, sizeof scope, "%s", argument(c, "X-Amz-Credential") + 7);
    pl_buf_printf(&text, "%s\n%s\n", method, path);
    for (int i = 0; i < 5; i++) {
        pl_buf_printf(&text, "%s%s=", i ? "&" : "", keys[i]);
        pl_buf_url(&text, argument(c, keys[i]));
    }
    pl_buf_printf(&text, "\n");
    while ((name = strsep(&rest, ";")))
        pl_buf_printf(&text, "%s:%s\n", name, header(c, name));
    pl_buf_printf(&text, "\n%s\nUNSIGNED-PAYLOAD", argument(c, "X-Amz-SignedHeaders"));
    pl_sha256_hex(pl_buf_text(&text), hash);
    pl_buf_clear(&text);
    pl_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", argument(c, "X-Amz-Date"),
                  scope, hash);
    const int len =
        snprintf(secret, sizeof secret, "AWS4%s", getenv("AWS_SECRET_ACCESS_KEY"));
    pl_hmac_sha256(secret, (size_t)len, strtok_r(scope, "/", &rest), key.bytes);
    while ((name = strtok_r(NULL, "/", &rest)))
        pl_hmac_sha256(key.bytes, PL_HASH_BYTES, name, key.bytes);
    pl_hmac_sha256(key.bytes, PL_HASH_BYTES, pl_buf_text(&text), key.bytes);
    pl_hash_format(&key, out);
    pl_buf_destroy(&text);
}

/* Returns whether the URL has a signature that allows this request. */
static bool is_signed(struct MHD_Connection *c, const char *method, const char *path)
{
    struct tm utc = {0};
    const char *names = argument(c, "X-Amz-SignedHeaders");
    const char *end = strptime(argument(c, "X-Amz-Date"), "%Y%m%dT%H%M%SZ", &utc);
    char text[64], signature[PL_HASH_TEXT];
    const bool put = strcmp(method, "PUT") == 0;
    if (!end || bucket.shut ||
        timegm(&utc) + atoi(argument(c, "X-Amz-Expires")) < time(NULL) ||
        !pl_starts_with(argument(c, "X-Amz-Credential"), "tester/") ||
        strcmp(names, put ? "content-length;host;if-none-match" : "host") != 0 ||
        (put && !header(c, "If-None-Match")))
        return false;
    sign(c, method, path, signature);
    if (strcmp(signature, argument(c, "X-Amz-Signature")) != 0)
        return false;
    *(put ? &bucket.n_puts : &bucket.n_gets) += 1;
    const int len =
        snprintf(text, sizeof text, "%d %d\n", bucket.n_gets, bucket.n_puts);
    return pl_replace_file(bucket.count_file, text, (size_t)len) == PL_OK;
}

static enum MHD_Result serve(struct MHD_Connection *c, const char *path,
                             const char *method, const pl_buf *body)
{
    const char *key = strchr(path + 1, '/');
    const char *signature = header(c, "Authorization");
    if (!is_signed(c, method, path) &&
        (!signature ||
         !pl_starts_with(signature, "AWS4-HMAC-SHA256 Credential=tester/")))
        return say(c, 403, "InvalidAccessKeyId");
    if (!pl_starts_with(path, "/bucket"))
        return say(c, 404, "NoSuchBucket");
    if (!key)
        return list(c);
    if (strcmp(method, "PUT") == 0)
        return put(c, key + 1, body);
    const object *there = find(key + 1);
    if (!there)
        return say(c, 404, "NoSuchKey");
    if (strcmp(method, "GET") == 0)
        return answer(c, 200, there->data, there->len, there->tag);
    forget(key + 1);
    return answer(c, 204, "", 0, 0);
}

static enum MHD_Result handle(void *self, struct MHD_Connection *c, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *len, void **context)
{
    upload *u = *context;
    (void)self;
    (void)version;
    if (!u) {
        *context = pl_alloc(sizeof *u);
        return MHD_YES;
    }
    if (*len > 0) {
        pl_buf_append(&u->body, data, *len);
        *len = 0;
        return MHD_YES;
    }
    bucket.n_requests++;
    if (bucket.busy && bucket.n_requests % (unsigned)bucket.busy == 0)
        return say(c, 503, "SlowDown");
    enum MHD_Result queued = serve(c, path, method, &u->body);
    if (bucket.lose && bucket.n_requests % (unsigned)bucket.lose == 0)
        return MHD_NO; /* closes the connection */
    return queued;
}

static void done(void *self, struct MHD_Connection *c, void **context,
                 enum MHD_RequestTerminationCode code)
{
    upload *u = *context;
    (void)self;
    (void)c;
    (void)code;
    if (!u)
        return;
    pl_buf_destroy(&u->body);
    pl_free(u);
    *context = NULL;
}

static void take_word(const char *word)
{
    if (pl_starts_with(word, "lose="))
        bucket.lose = atoi(word + 5);
    else if (pl_starts_with(word, "busy="))
        bucket.busy = atoi(word + 5);
    else if (strcmp(word, "deaf") == 0)
        bucket.deaf = true;
    else if (strcmp(word, "full") == 0)
        bucket.full = true;
    else if (strcmp(word, "shut") == 0)
        bucket.shut = true;
    else if (strcmp(word, "small") == 0)
        bucket.page = 7;
}

int main(int argc, char **argv)
{
    char port[16], byte;
    for (int i = 2; i < argc; i++)
        take_word(argv[i]);
    if (argc > 1)
        snprintf(bucket.count_file, sizeof bucket.count_file, "%s.signed", argv[1]);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, NULL,
                         MHD_OPTION_NOTIFY_COMPLETED, done, NULL, MHD_OPTION_END);
    if (argc < 2 || !daemon)
        return 1;
    snprintf(port, sizeof port, "%u",
             (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    if (pl_replace_file(argv[1], port, strlen(port)) != PL_OK)
        return 1;
    while (read(0, &byte, 1) > 0)
        continue;
    MHD_stop_daemon(daemon);
    int n_left = 0;
    for (size_t i = 0; i < bucket.n; i++)
        n_left += strstr(bucket.all[i].key, "upload/") != NULL;
    char left[512], text[16];
    snprintf(left, sizeof left, "%s.left", argv[1]);
    const int len = snprintf(text, sizeof text, "%d\n", n_left);
    return pl_write_output(left, text, (size_t)len) != PL_OK;
}
