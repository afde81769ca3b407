/* Answers of the small HTTP servers (http.h), on libmicrohttpd. */
#include "serve/http.h"
#include "serve/exporter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

struct http_library mhd;

pl_status http_load(void)
{
    static const char *const names[] = {MHD_FUNCTIONS(PL_LIBRARY_NAME)};
    return pl_library_load("libmicrohttpd.so.12", "libmicrohttpd12", names, &mhd,
                           sizeof mhd);
}

enum MHD_Result http_queue(struct MHD_Connection *c, unsigned code, const char *type,
                           const http_header *headers, size_t n_headers,
                           struct MHD_Response *r)
{
    if (!r)
        return MHD_NO;
    mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    mhd.MHD_add_response_header(r, "Cache-Control", "no-store");
    for (size_t i = 0; i < n_headers; i++)
        mhd.MHD_add_response_header(r, headers[i].name, headers[i].value);
    enum MHD_Result result = mhd.MHD_queue_response(c, code, r);
    mhd.MHD_destroy_response(r);
    return result;
}

enum MHD_Result http_reply(struct MHD_Connection *c, unsigned code, const char *type,
                           const void *data, size_t len)
{
    /* The library's argument is not a pointer to const, but the library only copies the
     * data. */
    union {
        const void *in;
        void *out;
    } bytes = {data};
    return http_queue(
        c, code, type, NULL, 0,
        mhd.MHD_create_response_from_buffer(len, bytes.out, MHD_RESPMEM_MUST_COPY));
}

enum MHD_Result http_reply_text(struct MHD_Connection *c, unsigned code,
                                const char *text)
{
    return http_reply(c, code, "text/plain; charset=utf-8", text, strlen(text));
}

void http_page_make(const unsigned char *asset, size_t bytes, http_page *out)
{
    static const char mark[] = "PAGE-NONCE";
    const char *rest = (const char *)asset, *end = rest + bytes;
    char nonce[40];
    *out = (http_page){.html = {0}};
    snprintf(nonce, sizeof nonce, "%016llx%016llx",
             (unsigned long long)pl_random_fresh(),
             (unsigned long long)pl_random_fresh());
    snprintf(out->policy, sizeof out->policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; "
             "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'",
             nonce, nonce);
    for (const char *at;
         (at = memmem(rest, (size_t)(end - rest), mark, strlen(mark))) != NULL;
         rest = at + strlen(mark)) {
        pl_buf_append(&out->html, rest, (size_t)(at - rest));
        pl_buf_printf(&out->html, "%s", nonce);
    }
    pl_buf_append(&out->html, rest, (size_t)(end - rest));
}

void http_page_clear(http_page *page)
{
    pl_buf_destroy(&page->html);
}

struct MHD_Response *http_page_response(const http_page *page)
{
    struct MHD_Response *r = mhd.MHD_create_response_from_buffer(
        page->html.len, page->html.data, MHD_RESPMEM_PERSISTENT);
    if (!r)
        return NULL;
    mhd.MHD_add_response_header(r, "Content-Security-Policy", page->policy);
    mhd.MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    mhd.MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    return r;
}

bool http_only_reads(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

pl_status http_not_listening(const char *listen, const char *what, const char *option,
                             int cause)
{
    if (cause == EADDRINUSE)
        return pl_fail(PL_ERR_BUSY,
                       "%s is in use by another process; stop that process, or choose "
                       "another port for %s by %s",
                       listen, what, option);
    return pl_fail(cause == EACCES ? PL_ERR_NOPERM : PL_ERR_NET,
                   "cannot listen on %s for %s: %s; choose another address by %s",
                   listen, what, strerror(cause), option);
}

bool pl_http_address(const char *listen, struct sockaddr_in *out)
{
    char text[PL_ADDRESS_MAX];
    pl_address at;
    snprintf(text, sizeof text, "tcp://%.200s", listen);
    *out = (struct sockaddr_in){.sin_family = AF_INET};
    if (pl_address_parse(text, &at) != PL_OK ||
        inet_pton(AF_INET, at.is_anywhere ? "0.0.0.0" : at.host, &out->sin_addr) != 1)
        return false;
    out->sin_port = htons((uint16_t)at.port);
    return true;
}
