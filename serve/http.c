/* Answers of the small HTTP servers (http.h), on libmicrohttpd. */
#include "serve/http.h"
#include "serve/exporter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

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

/* ---- who may ask ---- */
pl_status http_site_open(const struct sockaddr_in *at, const char *keys,
                         const char *cors, const server_clients_options *places,
                         http_site *out)
{
    const bool loopback = ntohl(at->sin_addr.s_addr) >> 24 == 127;
    *out = (http_site){.local_only = keys && loopback, .cors = cors};
    inet_ntop(AF_INET, &at->sin_addr, out->host, sizeof out->host);
    if (keys && !loopback)
        return pl_fail(PL_ERR_USAGE,
                       "other machines can reach %s; give %s FILE with the names and "
                       "hashes of keys, or listen on 127.0.0.1",
                       out->host, keys);
    return server_clients_open(places, &out->clients);
}

void http_site_close(http_site *site)
{
    server_clients_close(&site->clients);
}

static const char *header_of(struct MHD_Connection *c, const char *name)
{
    return mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Whether the Host header names this machine; its port does not matter. */
static bool is_own_host(const http_site *site, const char *host)
{
    size_t len = host ? strcspn(host, ":") : 0;
    return len > 0 &&
           ((len == strlen("localhost") && strncasecmp(host, "localhost", len) == 0) ||
            (len == strlen(site->host) && strncmp(host, site->host, len) == 0));
}

static bool is_own_origin(const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");
    return name &&
           (pl_starts_with(origin, "http://") || pl_starts_with(origin, "https://")) &&
           strcasecmp(name + strlen("://"), host) == 0;
}

/* A browser sends no Origin with some requests of foreign pages (for images, for
 * example), but says in Sec-Fetch-Site that the page is foreign. A user may follow a
 * link from a foreign page to the page of the server ("/"). */
const char *http_site_doubt(const http_site *site, struct MHD_Connection *c,
                            const char *url)
{
    const char *host = header_of(c, MHD_HTTP_HEADER_HOST),
               *origin = header_of(c, MHD_HTTP_HEADER_ORIGIN),
               *from = header_of(c, "Sec-Fetch-Site");
    if (!site->local_only)
        return NULL;
    if (!is_own_host(site, host))
        return "the Host header must be localhost or the address at which this server "
               "listens";
    if (site->cors && origin &&
        (strcmp(site->cors, "*") == 0 || strcmp(site->cors, origin) == 0))
        return NULL;
    if ((origin && !is_own_origin(origin, host)) ||
        (!origin && from && strcmp(url, "/") != 0 &&
         (strcmp(from, "cross-site") == 0 || strcmp(from, "same-site") == 0)))
        return "the request comes from a page of a different site, which this server "
               "does not allow";
    return NULL;
}

int http_socket(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

uint32_t http_address(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || info->client_addr->sa_family != AF_INET)
        return 0;
    struct sockaddr_in at;
    memcpy(&at, info->client_addr, sizeof at);
    return ntohl(at.sin_addr.s_addr);
}

/* Called when a connection is opened and when it ends, both times on the thread of the
 * library. The second call comes before the socket is closed. */
void http_site_connection(void *context, struct MHD_Connection *c, void **client,
                          enum MHD_ConnectionNotificationCode what)
{
    http_site *site = context;
    server_client *left = *client;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *client = server_clients_enter(site->clients, http_socket(c), http_address(c));
    else
        server_clients_leave(site->clients, &left);
}

server_client *http_client(struct MHD_Connection *c)
{
    return mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

size_t http_unescape(void *context, struct MHD_Connection *c, char *text)
{
    char *to = text;
    (void)context;
    (void)c;
    for (const char *from = text; *from; to++) {
        const int high = *from == '%' ? digit_of(from[1]) : -1,
                  low = high >= 0 ? digit_of(from[2]) : -1;
        const bool is_code = low >= 0 && high + low > 0;
        *to = (char)(is_code ? high * 16 + low : *from);
        from += is_code ? 3 : 1;
    }
    *to = '\0';
    return (size_t)(to - text);
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
