/* Signs URLs of S3 (s3_sign.h). The signature covers method, path, query and some
 * headers, but not the bytes. The key that signs is made from the secret by four HMACs:
 * of the day, the region, the service and the purpose. */
#include "store/engine/s3_sign.h"
#include <string.h>
#include <time.h>

void s3_signed_url(const s3_signing *what, pl_buf *out)
{
    const s3_keys *keys = what->keys;
    const bool put = what->put_bytes > 0;
    const char *names = put ? "content-length;host;if-none-match" : "host";
    char stamp[24], day[16], scope[128], secret[176], hash[PL_HASH_TEXT];
    uint8_t key[PL_HASH_BYTES];
    pl_buf text = {0}, query = {0};
    struct tm utc;
    const time_t now = (time_t)what->now_s;
    gmtime_r(&now, &utc);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    strftime(day, sizeof day, "%Y%m%d", &utc);
    snprintf(scope, sizeof scope, "%s/%s/s3/aws4_request", day, what->region);

    pl_buf_printf(&query, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=");
    pl_buf_url(&query, keys->id);
    pl_buf_url(&query, "/");
    pl_buf_url(&query, scope);
    pl_buf_printf(&query, "&X-Amz-Date=%s&X-Amz-Expires=%d", stamp, what->valid_s);
    if (keys->token[0]) {
        pl_buf_printf(&query, "&X-Amz-Security-Token=");
        pl_buf_url(&query, keys->token);
    }
    pl_buf_printf(&query, "&X-Amz-SignedHeaders=");
    pl_buf_url(&query, names);

    /* the header Host, without the port that the scheme implies */
    const char *host = strstr(what->url, "://") + strlen("://");
    const int end = (int)strcspn(host, "/");
    const char *port = pl_starts_with(what->url, "https") ? ":443/" : ":80/";
    const int cut = (int)strlen(port) - 1;
    const int host_len =
        end > cut && pl_starts_with(host + end - cut, port) ? end - cut : end;

    pl_buf_printf(&text, "%s\n%s\n%s\n", put ? "PUT" : "GET", host + end,
                  pl_buf_text(&query));
    if (put)
        pl_buf_printf(&text, "content-length:%llu\n",
                      (unsigned long long)what->put_bytes);
    pl_buf_printf(&text, "host:%.*s\n%s\n%s\nUNSIGNED-PAYLOAD", host_len, host,
                  put ? "if-none-match:*\n" : "", names);
    pl_sha256_hex(pl_buf_text(&text), hash);
    pl_buf_clear(&text);
    pl_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", stamp, scope, hash);

    const int len = snprintf(secret, sizeof secret, "AWS4%s", keys->secret);
    pl_hmac_sha256(secret, (size_t)len, day, key);
    pl_hmac_sha256(key, sizeof key, what->region, key);
    pl_hmac_sha256(key, sizeof key, "s3", key);
    pl_hmac_sha256(key, sizeof key, "aws4_request", key);
    pl_hmac_sha256(key, sizeof key, pl_buf_text(&text), key);
    explicit_bzero(secret, sizeof secret);
    pl_buf_printf(out, "%s?%s&X-Amz-Signature=", what->url, pl_buf_text(&query));
    for (size_t i = 0; i < sizeof key; i++)
        pl_buf_printf(out, "%02x", key[i]);
    pl_buf_destroy(&text);
    pl_buf_destroy(&query);
}
