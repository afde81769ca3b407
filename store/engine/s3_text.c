/* Parses the answers of S3 services without an XML library. This is possible because
 * the needed elements contain only plain text: this program makes the names of objects,
 * from characters that XML does not escape. */
#include "store/engine/s3_text.h"
#include <string.h>

/* Copies the text between <NAME> and </NAME> to `out`. Returns the position after the
 * element, or NULL if the element does not exist or its text does not fit. */
static const char *element(const char *at, const char *name, char *out, size_t size)
{
    char open[64], close[64];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    const char *from = strstr(at, open);
    if (!from)
        return NULL;
    from += strlen(open);
    const char *to = strstr(from, close);
    if (!to || (size_t)(to - from) >= size)
        return NULL;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
    return to + strlen(close);
}

pl_status s3_judge(int code, const char *body)
{
    char said[64] = "";
    if (code >= 200 && code < 300)
        return PL_OK;
    element(body, "Code", said, sizeof said);
    const char *colon = said[0] ? ": " : "";
    const bool is_full = code == 507 || strcmp(said, "QuotaExceeded") == 0 ||
                         strcmp(said, "XMinioStorageFull") == 0 ||
                         strcmp(said, "EntityTooLarge") == 0;
    if (is_full)
        return pl_fail(PL_ERR_NOSPACE,
                       "the bucket is full or at its quota (HTTP %d%s%s); give it "
                       "space, or free some with `pathloom store gc --delete`",
                       code, colon, said);
    if (strcmp(said, "NoSuchBucket") == 0)
        return pl_fail(PL_ERR_CONFIG,
                       "the service has no such bucket; create the bucket");
    if (code == 404)
        return pl_fail(PL_ERR_NOT_FOUND, "there is no such object");
    if (code == 412)
        return pl_fail(PL_ERR_STALE, "another process has changed the object");
    if (code == 401 || code == 403)
        return pl_fail(
            PL_ERR_NOPERM,
            "the service refuses these keys (HTTP %d%s%s); look at "
            "AWS_ACCESS_KEY_ID, the bucket's policy and this machine's clock",
            code, colon, said);
    if (code == 409 || code == 429 || (code >= 500 && code != 501))
        return pl_fail(PL_ERR_NET, "HTTP %d%s%s", code, colon, said);
    return pl_fail(code == 501 ? PL_ERR_UNSUPPORTED : PL_ERR_IO, "HTTP %d%s%s", code,
                   colon, said);
}

static pl_status broken(void)
{
    return pl_fail(PL_ERR_PROTO, "the service's list of objects cannot be read");
}

pl_status s3_each_key(const char *page, size_t skip, engine_entry_fn fn, void *context)
{
    char key[ENGINE_NAME_MAX + 260], size[32];
    int64_t bytes = 0;
    const char *at = page;
    if (!strstr(page, "<ListBucketResult"))
        return broken();
    while ((at = strstr(at, "<Contents>"))) {
        const char *end = strstr(at, "</Contents>");
        const char *past = element(at, "Key", key, sizeof key);
        if (!end || !past || past > end || strlen(key) < skip ||
            !element(at, "Size", size, sizeof size) ||
            pl_parse_int(size, &bytes) != PL_OK || bytes < 0)
            return broken();
        engine_entry entry = {key + skip, (uint64_t)bytes};
        if (strlen(entry.name) < ENGINE_NAME_MAX)
            PL_CHECK(fn(context, &entry));
        at = end;
    }
    return PL_OK;
}

pl_status s3_next_page(const char *page, char token[S3_TOKEN_MAX])
{
    char more[8] = "";
    token[0] = '\0';
    if (!element(page, "IsTruncated", more, sizeof more))
        return broken();
    if (strcmp(more, "true") != 0)
        return PL_OK;
    return element(page, "NextContinuationToken", token, S3_TOKEN_MAX) && token[0]
               ? PL_OK
               : broken();
}
