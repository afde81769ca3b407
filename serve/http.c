/* Answers of the small HTTP servers (http.h), on libmicrohttpd. */
#include "serve/http.h"
#include "serve/exporter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <strings.h>

struct http_library mhd;

pl_status http_load(void)
{
    static const char *const names[] = {MHD_FUNCTIONS(PL_LIBRARY_NAME)};
    return pl_library_load("libmicrohttpd.so.12", "libmicrohttpd12", names, &mhd,
                           sizeof mhd);
}

enum MHD_Result http_queue(struct MHD_Connection *c, unsigned code, const char *type,
                           struct MHD_Response *r)
{
    if (!r)
        return MHD_NO;
    mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    mhd.MHD_add_response_header(r, "Cache-Control", "no-store");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = mhd.MHD_queue_response(c, code, r);
    mhd.MHD_destroy_response(r);
    return result;
}

enum MHD_Result http_reply(struct MHD_Connection *c, unsigned code, const char *type,
                           const void *data, size_t len)
{
    /* The library's argument is not a pointer to const, but the library only copies the
     * data. */
    void *bytes = (void *)(uintptr_t)data;
    return http_queue(
        c, code, type,
        mhd.MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_COPY));
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

enum MHD_Result http_refuse_method(struct MHD_Connection *c)
{
    return http_reply_text(c, MHD_HTTP_METHOD_NOT_ALLOWED,
                           "only GET and HEAD are allowed\n");
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
pl_status http_site_open(const http_listen *at, const char *keys, const char *cors,
                         const server_clients_options *places, http_site *out)
{
    *out = (http_site){.at = *at, .local_only = keys && at->loopback, .cors = cors};
    if (keys && !at->loopback)
        return pl_fail(PL_ERR_USAGE,
                       "other machines can reach %s; give %s FILE with the names and "
                       "hashes of keys, or listen on 127.0.0.1",
                       at->host, keys);
    return server_clients_open(places, &out->clients);
}

const char *http_request_header(struct MHD_Connection *c, const char *name)
{
    return mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* A browser sends no Origin with some requests of foreign pages (for images, for
 * example), but says in Sec-Fetch-Site that the page is foreign. A user may follow a
 * link from a foreign page to the page of the server ("/"). */
const char *http_site_doubt(const http_site *site, struct MHD_Connection *c,
                            const char *url)
{
    const char *host = http_request_header(c, MHD_HTTP_HEADER_HOST),
               *origin = http_request_header(c, MHD_HTTP_HEADER_ORIGIN),
               *from = http_request_header(c, "Sec-Fetch-Site");
    if (!site->local_only)
        return NULL;
    /* the Host header must name this machine; its port does not matter */
    const char *end = host && host[0] == '[' ? strchr(host, ']') : NULL;
    const size_t len = end ? (size_t)(end - host) + 1 : host ? strcspn(host, ":") : 0;
    const char *const own[] = {"localhost", site->at.host, site->at.name};
    bool is_own_host = false;
    for (size_t i = 0; i < 3 && len > 0; i++)
        is_own_host = is_own_host ||
                      (len == strlen(own[i]) && strncasecmp(host, own[i], len) == 0);
    if (!is_own_host)
        return "the Host header must be localhost or the address at which this server "
               "listens";
    if (site->cors && origin &&
        (strcmp(site->cors, "*") == 0 || strcmp(site->cors, origin) == 0))
        return NULL;
    const char *name = origin ? strstr(origin, "://") : NULL;
    const bool is_own_origin =
        name &&
        (pl_starts_with(origin, "http://") || pl_starts_with(origin, "https://")) &&
        strcasecmp(name + strlen("://"), host) == 0;
    if ((origin && !is_own_origin) ||
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

/* Returns the address of the client; NULL if it is unknown. */
static const struct sockaddr *client_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

uint32_t http_address(struct MHD_Connection *c)
{
    const struct sockaddr *from = client_of(c);
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (from && from->sa_family == AF_INET) {
        memcpy(&v4, from, sizeof v4);
        return ntohl(v4.sin_addr.s_addr);
    }
    if (!from || from->sa_family != AF_INET6)
        return 0;
    memcpy(&v6, from, sizeof v6);
    uint32_t parts[4];
    memcpy(parts, &v6.sin6_addr, sizeof parts);
    return IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) ? ntohl(parts[3])
                                               : ntohl(parts[0] ^ parts[1]);
}

void http_address_text(struct MHD_Connection *c, char out[HTTP_HOST_MAX])
{
    const struct sockaddr *from = client_of(c);
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    out[0] = '\0';
    if (from && from->sa_family == AF_INET) {
        memcpy(&v4, from, sizeof v4);
        inet_ntop(AF_INET, &v4.sin_addr, out, HTTP_HOST_MAX);
    } else if (from && from->sa_family == AF_INET6) {
        memcpy(&v6, from, sizeof v6);
        inet_ntop(AF_INET6, &v6.sin6_addr, out, HTTP_HOST_MAX);
    }
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

/* ---- where a server listens ---- */
pl_status http_listen_parse(const char *listen, const char *option, http_listen *out)
{
    char text[PL_ADDRESS_MAX], bare[INET6_ADDRSTRLEN] = "";
    pl_address a;
    *out = (http_listen){.port = 0};
    snprintf(text, sizeof text, "tcp://%.200s", listen);
    bool good = pl_address_parse(text, &a) == PL_OK;
    const bool is_v6 = good && a.host[0] == '[';
    if (is_v6)
        snprintf(bare, sizeof bare, "%.*s", (int)strlen(a.host) - 2, a.host + 1);
    if (is_v6) {
        out->at.v6.sin6_family = AF_INET6;
        good = inet_pton(AF_INET6, bare, &out->at.v6.sin6_addr) == 1;
    } else if (good && a.is_anywhere) {
        out->at.v4.sin_family = AF_INET;
    } else if (good) {
        /* an IPv4 address is preferred, because most clients try it first */
        const struct addrinfo wish = {.ai_socktype = SOCK_STREAM}, *best = NULL;
        struct addrinfo *all = NULL;
        good = getaddrinfo(a.host, NULL, &wish, &all) == 0;
        for (const struct addrinfo *at = all; good && at; at = at->ai_next)
            if ((at->ai_family == AF_INET && (!best || best->ai_family != AF_INET)) ||
                (at->ai_family == AF_INET6 && !best))
                best = at;
        if (best)
            memcpy(&out->at, best->ai_addr, best->ai_addrlen);
        if (good)
            freeaddrinfo(all);
        good = best != NULL;
    }
    if (!good)
        return pl_fail(PL_ERR_USAGE,
                       "%s needs HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or "
                       "localhost:8080, not `%s`",
                       option, listen);
    out->port = a.port;
    pl_copy_text(out->name, sizeof out->name, a.host);
    if (out->at.any.sa_family == AF_INET6) {
        out->at.v6.sin6_port = htons((uint16_t)a.port);
        out->flags = a.is_anywhere ? MHD_USE_DUAL_STACK : MHD_USE_IPv6;
        out->loopback = IN6_IS_ADDR_LOOPBACK(&out->at.v6.sin6_addr);
        inet_ntop(AF_INET6, &out->at.v6.sin6_addr, bare, sizeof bare);
        snprintf(out->host, sizeof out->host, "[%s]", bare);
    } else {
        out->at.v4.sin_port = htons((uint16_t)a.port);
        out->loopback = ntohl(out->at.v4.sin_addr.s_addr) >> 24 == 127;
        inet_ntop(AF_INET, &out->at.v4.sin_addr, out->host, sizeof out->host);
    }
    return PL_OK;
}
