/* Opens engines by name, and retries their requests.
 *
 * If the answer to a request is lost, the request may have been carried out. Repeating
 * a request is safe. A put succeeds if the object already exists with the same bytes,
 * and a swap succeeds if the object already has the new content. A put fails if the
 * object exists with different bytes; a swap fails if the content is neither the
 * expected nor the new content. */
#include "store/engine/engine.h"
#include <string.h>

enum {
    WAIT_FIRST_MS = 20,
    WAIT_LONGEST_MS = 2000,
    PATIENCE_S = 60,
    PATIENCE_MAX_S = 86400
};

struct engine {
    const engine_ops *ops;
    void *self;
    int64_t patience_ms;
    char place[544];
};

/* ---- URLs ---- */
static bool is_name(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!strchr(
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/",
                *c))
            return false;
    return true;
}

/* Copies the text [from, to); returns false if it does not fit. */
static bool copy_span(char *out, size_t size, const char *from, const char *to)
{
    size_t len = (size_t)(to - from);
    if (len >= size)
        return false;
    memcpy(out, from, len);
    out[len] = '\0';
    return true;
}

static pl_status take_option(const char *key, const char *value, engine_url *url)
{
    static const char *const names[] = {"conf", "id", "endpoint", "region", "patience"};
    const struct {
        char *out;
        size_t size;
    } texts[] = {{url->conf, sizeof url->conf},
                 {url->id, sizeof url->id},
                 {url->endpoint, sizeof url->endpoint},
                 {url->region, sizeof url->region}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(key, names[i]) == 0)
            return pl_copy_text(texts[i].out, texts[i].size, value)
                       ? PL_OK
                       : pl_fail(PL_ERR_CONFIG,
                                 "the option %s is longer than %zu bytes", key,
                                 texts[i].size - 1);
    if (strcmp(key, "patience") == 0) {
        int64_t seconds = 0;
        if (pl_parse_int(value, &seconds) != PL_OK || seconds < 1 ||
            seconds > PATIENCE_MAX_S)
            return pl_fail(PL_ERR_CONFIG,
                           "the option patience must be 1 to %d seconds, not `%s`",
                           PATIENCE_MAX_S, value);
        url->patience_ms = seconds * 1000;
        return PL_OK;
    }
    const char *near = pl_nearest(key, names, sizeof names / sizeof *names);
    return pl_fail(PL_ERR_CONFIG, "a storage engine has no option `%s`%s%s%s", key,
                   near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static pl_status parse_engine_url(const char *text, engine_url *out)
{
    char key[64], value[PL_PATH_MAX];
    const char *place = strstr(text, "://");
    if (!place || !copy_span(out->kind, sizeof out->kind, text, place))
        return pl_fail(
            PL_ERR_CONFIG,
            "the address of a storage engine must be rados://... or s3://...");
    place += strlen("://");
    const char *end = place + strcspn(place, "?");
    const char *slash = memchr(place, '/', (size_t)(end - place));
    const char *space = slash ? slash + 1 : end;
    if (!copy_span(out->place, sizeof out->place, place, slash ? slash : end) ||
        !copy_span(out->space, sizeof out->space, space, end))
        return pl_fail(
            PL_ERR_CONFIG,
            "the name of the bucket or pool, or the name after it, is too long");
    for (const char *at = *end ? end + 1 : end, *next; *at; at = next) {
        end = at + strcspn(at, "&");
        next = *end ? end + 1 : end;
        const char *equal = memchr(at, '=', (size_t)(end - at));
        if (!equal || !copy_span(key, sizeof key, at, equal) ||
            !copy_span(value, sizeof value, equal + 1, end))
            return pl_fail(PL_ERR_CONFIG,
                           "an option must be written as KEY=VALUE, with & between two "
                           "options, and must not be too long");
        PL_CHECK(take_option(key, value, out));
    }
    const bool s3 = strcmp(out->kind, "s3") == 0;
    if (!s3 && strcmp(out->kind, "rados") != 0)
        return pl_fail(PL_ERR_CONFIG, "a storage engine must be rados or s3, not `%s`",
                       out->kind);
    if (!*out->place || strchr(out->place, '/') || !is_name(out->place) ||
        !is_name(out->space))
        return pl_fail(PL_ERR_CONFIG,
                       "the name of the %s must not be empty; this name and the names "
                       "after it may contain only letters, digits and . _ -",
                       s3 ? "bucket" : "pool");
    if (s3 && !pl_starts_with(out->endpoint, "http://") &&
        !pl_starts_with(out->endpoint, "https://"))
        return pl_fail(PL_ERR_CONFIG, "the address of an s3 engine must say where the "
                                      "service is: add ?endpoint=https://HOST:PORT");
    if (s3 && strchr(out->endpoint, '@'))
        return pl_fail(
            PL_ERR_CONFIG,
            "the endpoint must not contain `@`, because keys are not written into a "
            "URL; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    if (s3 && !pl_starts_with(out->endpoint, "https://") &&
        !pl_url_is_local(out->endpoint))
        return pl_fail(
            PL_ERR_CONFIG,
            "the endpoint must be https://HOST (http:// only for a service on "
            "this machine), because keys are sent to it");
    return PL_OK;
}

/* Returns how many characters of a URL errors may show; the rest may be secret. */
static int shown(const char *text)
{
    enum { SHOWN = 80 };
    size_t len = strcspn(text, "?");
    const char *place = strstr(text, "://");
    if (memchr(text, '@', len))
        len = place && place < text + len ? (size_t)(place + 3 - text) : 0;
    return len < SHOWN ? (int)len : SHOWN;
}

pl_status engine_url_parse(const char *text, engine_url *out)
{
    memset(out, 0, sizeof *out);
    pl_copy_text(out->region, sizeof out->region, "us-east-1");
    out->patience_ms = PATIENCE_S * 1000;
    pl_status status =
        strlen(text) < ENGINE_URL_MAX
            ? parse_engine_url(text, out)
            : pl_fail(PL_ERR_CONFIG, "it is longer than %d bytes", ENGINE_URL_MAX - 1);
    return status == PL_OK
               ? PL_OK
               : pl_fail_in(status, "store.engine `%.*s`", shown(text), text);
}

pl_status engine_url_part(const char *text, const char *name, char out[ENGINE_URL_MAX])
{
    engine_url url;
    PL_CHECK(engine_url_parse(text, &url));
    int path = (int)strcspn(text, "?");
    const char *joint = url.space[0] ? "/" : "";
    if (!url.space[0] && text[path - 1] != '/')
        joint = "/";
    int len = snprintf(out, ENGINE_URL_MAX, "%.*s%s%s%s", path, text, joint, name,
                       text + path);
    if (len >= ENGINE_URL_MAX)
        return pl_fail(PL_ERR_CONFIG, "store.engine `%.*s` is too long", shown(text),
                       text);
    return engine_url_parse(out, &url);
}

/* ---- when to retry ---- */
typedef struct patience {
    const engine *e;
    int64_t start, wait_ms;
    int tries;
} patience;

bool engine_may_retry(pl_status status)
{
    return status == PL_ERR_NET || status == PL_ERR_TIMEOUT;
}

/* Whether to repeat a request that ended with `status`; waits before it returns true.
 */
static bool again(patience *p, pl_status status)
{
    int64_t now = pl_now_ms();
    if (!engine_may_retry(status))
        return false;
    if (p->tries++ == 0) {
        p->start = now;
        p->wait_ms = WAIT_FIRST_MS;
    }
    if (now - p->start >= p->e->patience_ms)
        return false;
    pl_sleep_ms(p->wait_ms);
    p->wait_ms = 2 * p->wait_ms < WAIT_LONGEST_MS ? 2 * p->wait_ms : WAIT_LONGEST_MS;
    return true;
}

/* Reports a request that failed for good. If all retries failed, the status is ERR_IO,
 * as for a failed disk, because the engine is used in place of a disk. */
static pl_status fail_engine_request(const patience *p, pl_status status,
                                     const char *verb, const char *name)
{
    char waited[16];
    const char *place = p->e->place;
    if (status == PL_OK || status == PL_ERR_EXISTS || status == PL_ERR_STALE ||
        status == PL_ERR_NOT_FOUND)
        return status;
    if (!engine_may_retry(status))
        return pl_fail_in(status, "cannot %s %.40s in %s", verb, name, place);
    pl_human_seconds((double)p->e->patience_ms / 1000, waited);
    return pl_fail_in(PL_ERR_IO, "cannot %s %.40s in %s, tried %d times in %s", verb,
                      name, place, p->tries, waited);
}

/* ---- open and close ---- */
pl_status engine_open(const char *text, bool to_write, engine **out)
{
    engine_url url;
    *out = NULL;
    PL_CHECK(engine_url_parse(text, &url));
    engine *e = pl_alloc(sizeof *e);
    snprintf(e->place, sizeof e->place, "%s://%s%s%s", url.kind, url.place,
             url.space[0] ? "/" : "", url.space);
    e->patience_ms = url.patience_ms;
    patience p = {.e = e};
    pl_status status;
    do
        status = strcmp(url.kind, "s3") == 0
                     ? engine_s3_open(&url, to_write, &e->ops, &e->self)
                     : engine_rados_open(&url, to_write, &e->ops, &e->self);
    while (again(&p, status));
    status = fail_engine_request(&p, status, "open", "the engine");
    if (status == PL_OK)
        *out = e;
    else
        pl_free(e);
    return status;
}

void engine_close(engine **handle)
{
    engine *e = *handle;
    *handle = NULL;
    if (!e)
        return;
    e->ops->close(e->self);
    pl_free(e);
}

const char *engine_place(const engine *e)
{
    return e->place;
}

/* ---- requests ---- */
static pl_status get_engine_object(engine *e, const char *name, pl_buf *out)
{
    patience p = {.e = e};
    pl_status status;
    do {
        pl_buf_clear(out);
        status = e->ops->get(e->self, name, out);
    } while (again(&p, status));
    return fail_engine_request(&p, status, "read", name);
}

pl_status engine_get(engine *e, const char *name, pl_buf *out)
{
    PL_CHECK(pl_failpoint("engine.get.before"));
    return get_engine_object(e, name, out);
}

/* Sets *out to whether the object has exactly these bytes. */
static pl_status holds(engine *e, const char *name, const void *data, size_t len,
                       bool *out)
{
    pl_buf there = {0};
    pl_status status = get_engine_object(e, name, &there);
    *out = status == PL_OK && there.len == len &&
           (len == 0 || memcmp(there.data, data, len) == 0);
    pl_buf_destroy(&there);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

pl_status engine_put(engine *e, const char *name, const void *data, size_t len)
{
    patience p = {.e = e};
    bool same = false;
    PL_CHECK(pl_failpoint("engine.put.before"));
    pl_status status;
    do
        status = e->ops->put(e->self, name, data, len);
    while (again(&p, status));
    if (status == PL_ERR_EXISTS) {
        PL_CHECK(holds(e, name, data, len, &same));
        status =
            same ? PL_OK
                 : pl_fail(
                       PL_ERR_EXISTS,
                       "object %s in %s already exists with different bytes, because "
                       "another store uses this place; use a different namespace",
                       name, e->place);
    }
    if (status == PL_OK)
        return pl_failpoint("engine.put.after");
    return fail_engine_request(&p, status, "write", name);
}

pl_status engine_swap(engine *e, const char *name, const pl_buf *expected,
                      const pl_buf *next)
{
    patience p = {.e = e};
    bool same = false;
    PL_CHECK(pl_failpoint("engine.swap.before"));
    pl_status status;
    do
        status = e->ops->swap(e->self, name, expected, next);
    while (again(&p, status));
    if (status == PL_ERR_STALE) {
        PL_CHECK(holds(e, name, next->data, next->len, &same));
        status = same ? PL_OK
                      : pl_fail(PL_ERR_STALE,
                                "object %s in %s was changed by another process", name,
                                e->place);
    }
    if (status == PL_OK)
        return pl_failpoint("engine.swap.after");
    return fail_engine_request(&p, status, "replace", name);
}

pl_status engine_drop(engine *e, const char *name)
{
    patience p = {.e = e};
    PL_CHECK(pl_failpoint("engine.drop.before"));
    pl_status status;
    do
        status = e->ops->drop(e->self, name);
    while (again(&p, status));
    return fail_engine_request(&p, status, "delete", name);
}

/* Lists objects. An interrupted listing is not started again: the caller has a part of
 * it. For S3, engine_s3.c repeats a request for a page that failed. */
pl_status engine_list(engine *e, const char *prefix, engine_entry_fn fn, void *context)
{
    patience p = {.e = e, .tries = 1};
    return fail_engine_request(&p, e->ops->list(e->self, prefix, fn, context), "list",
                               prefix);
}

bool engine_signs(const engine *e)
{
    return e->ops->sign != NULL;
}

pl_status engine_sign(engine *e, const char *name, uint64_t put_bytes, pl_buf *out)
{
    return e->ops->sign(e->self, name, put_bytes, out);
}

/* ---- many objects at once ---- */
engine_object *engine_objects_add(engine_objects *list)
{
    list->at = pl_grow_items(list->at, list->n, list->n + 1, sizeof *list->at);
    engine_object *one = &list->at[list->n++];
    memset(one, 0, sizeof *one);
    return one;
}

typedef struct many {
    engine *e;
    const engine_object *objects;
} many;

static pl_status put_item(void *context, size_t i, int thread)
{
    const many *m = context;
    (void)thread;
    return engine_put(m->e, m->objects[i].name, m->objects[i].data, m->objects[i].len);
}

static pl_status drop_item(void *context, size_t i, int thread)
{
    const many *m = context;
    (void)thread;
    return engine_drop(m->e, m->objects[i].name);
}

pl_status engine_put_all(engine *e, const engine_object *objects, size_t n)
{
    many m = {e, objects};
    return pl_parallel(ENGINE_THREADS, n, put_item, &m);
}

pl_status engine_drop_all(engine *e, const engine_object *objects, size_t n)
{
    many m = {e, objects};
    return pl_parallel(ENGINE_THREADS, n, drop_item, &m);
}
