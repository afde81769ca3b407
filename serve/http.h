/* Private to serve: HTTP functions that the exporter, the page and the server share. */
#pragma once
#include "serve/server_clients.h"
#include <microhttpd.h>
#include <netinet/in.h>

#define MHD_FUNCTIONS(X)                                                               \
    X(MHD_start_daemon)                                                                \
    X(MHD_stop_daemon)                                                                 \
    X(MHD_get_daemon_info)                                                             \
    X(MHD_is_feature_supported)                                                        \
    X(MHD_get_connection_info)                                                         \
    X(MHD_get_connection_values)                                                       \
    X(MHD_set_connection_option)                                                       \
    X(MHD_lookup_connection_value)                                                     \
    X(MHD_create_response_from_buffer)                                                 \
    X(MHD_create_response_from_callback)                                               \
    X(MHD_add_response_header)                                                         \
    X(MHD_queue_response)                                                              \
    X(MHD_destroy_response)

/* The functions of libmicrohttpd. http_load must have succeeded before the first call;
 * the functions that start a server do it. */
extern struct http_library {
    MHD_FUNCTIONS(PL_LIBRARY_MEMBER)
} mhd;
pl_status http_load(void);

/* Copies the bytes and queues them as the answer, with Cache-Control: no-store. */
enum MHD_Result http_reply(struct MHD_Connection *c, unsigned code, const char *type,
                           const void *data, size_t len);
enum MHD_Result http_reply_text(struct MHD_Connection *c, unsigned code,
                                const char *text);
/* Sets the type of the answer r, queues r, and releases it. Returns MHD_NO if r is
 * NULL. */
enum MHD_Result http_queue(struct MHD_Connection *c, unsigned code, const char *type,
                           struct MHD_Response *r);
/* A page made of one HTML file. The script and the styles in this file are marked with
 * a random number (a nonce). Browsers run no other script and load nothing from
 * other sites. */
typedef struct http_page {
    pl_buf html;      /* freed by the owner */
    char policy[256]; /* value of the header Content-Security-Policy */
} http_page;
void http_page_make(const unsigned char *asset, size_t bytes, http_page *out);
/* Makes an answer that contains the page, with its security headers; the caller sets
 * the content type. The page must outlive the answer. Returns NULL if memory is
 * short. */
struct MHD_Response *http_page_response(const http_page *page);
/* Answers a request whose method is neither GET nor HEAD. */
enum MHD_Result http_refuse_method(struct MHD_Connection *c);
/* Whether the method is GET or HEAD. The caller answers both in the same way; for HEAD
 * the library leaves out the body. */
bool http_only_reads(const char *method);
enum { HTTP_HOST_MAX = INET6_ADDRSTRLEN + 2 };
/* The address at which a server listens. */
typedef struct http_listen {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    unsigned flags; /* for the library */
    int port;       /* 0: any free port */
    bool loopback;
    char host[HTTP_HOST_MAX];  /* an IPv6 address is in brackets */
    char name[PL_ADDRESS_MAX]; /* HOST as it was given */
} http_listen;
/* Parses HOST:PORT: an IPv4 address, an IPv6 address in brackets, or a name, which is
 * looked up; PORT may be `*`. ERR_USAGE names `option`. */
pl_status http_listen_parse(const char *listen, const char *option, http_listen *out);

/* The one rule of all HTTP servers about who may ask. A server without keys answers
 * only this machine: it listens on a loopback address, the Host header names this
 * machine, and the request does not come from a page of a different site. So a web page
 * that a user visits can neither read the server (DNS rebinding) nor make it work
 * (forged requests). With keys none of this is needed, because no page has a key. */
typedef struct http_site {
    http_listen at; /* the address at which the server listens */
    bool local_only;
    const char *cors; /* origin whose pages may ask, "*": all; NULL: none */
    /* bounds the connections; closed after the daemon has been stopped */
    server_clients *clients;
} http_site;
/* Opens the site. `keys` names the option that gives the server keys; NULL: the server
 * has keys. ERR_USAGE: other machines can reach the address, and there are no keys. */
pl_status http_site_open(const http_listen *at, const char *keys, const char *cors,
                         const server_clients_options *places, http_site *out);
/* Returns the reason why a request is refused (status 403); NULL if it is not. */
const char *http_site_doubt(const http_site *site, struct MHD_Connection *c,
                            const char *url);
/* MHD_OPTION_NOTIFY_CONNECTION, whose context is the site. The client of a connection
 * (server_clients.h) becomes its socket context. */
void http_site_connection(void *site, struct MHD_Connection *c, void **client,
                          enum MHD_ConnectionNotificationCode what);
server_client *http_client(struct MHD_Connection *c);
/* MHD_OPTION_UNESCAPE_CALLBACK: decodes %XX but %00, which would end the text. */
size_t http_unescape(void *context, struct MHD_Connection *c, char *text);
/* Returns the value of a request's header, or NULL. */
const char *http_request_header(struct MHD_Connection *c, const char *name);
int http_socket(struct MHD_Connection *c);
/* Returns the client's IPv4 address in host order; of an IPv6 address, a number that
 * all addresses of its /64 net share; 0: unknown. */
uint32_t http_address(struct MHD_Connection *c);
void http_address_text(struct MHD_Connection *c, char out[HTTP_HOST_MAX]);

/* Returns the error for an HTTP server that could not listen at `listen`. `cause` is
 * the value of errno; `option` is the option or key that sets the address; `what` is
 * what the server would serve. */
pl_status http_not_listening(const char *listen, const char *what, const char *option,
                             int cause);
