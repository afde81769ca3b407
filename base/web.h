/* HTTP requests to a service. Only web.c uses libcurl. A build without libcurl has
 * web_absent.c instead, in which pl_web_open fails and says what to install.
 *
 * Each request is sent once; the caller decides whether to repeat it. */
#pragma once
#include "base/buf.h"
PL_C_BEGIN

/* A client that keeps idle connections for later. Several threads may use it. */
typedef struct pl_web pl_web;
/* ERR_UNSUPPORTED: this build was made without libcurl. */
pl_status pl_web_open(pl_web **out);
void pl_web_close(pl_web **web); /* accepts NULL */

enum { PL_WEB_HEADERS_MAX = 64 };
typedef struct pl_web_request {
    const char *method; /* "GET", "PUT", "DELETE" */
    const char *url;
    const char *headers[PL_WEB_HEADERS_MAX]; /* "Name: value", up to the first NULL */
    /* parameters of an AWS signature version 4 ("aws:amz:us-east-1:s3"), and the id and
     * secret of the key that signs; signing NULL: no signature */
    const char *signing, *id, *secret;
    const void *data; /* the body of PUT */
    size_t len;
    size_t answer_max; /* a longer answer is ERR_DAMAGED */
    /* The request fails if no data moves for silent_s seconds, or if it takes longer
     * than most_s seconds (0: no limit). */
    int silent_s, most_s;
    /* Both are read and written atomically, and may be NULL. *stops: the request fails
     * with ERR_NET within about a second. *moved: the bytes of bodies are added. */
    const bool *stops;
    uint64_t *moved;
    pl_buf *answer; /* cleared, then filled */
    /* results: the HTTP status; the header ETag, or "" */
    int code;
    char etag[128];
} pl_web_request;
/* OK for every HTTP status. ERR_NET or ERR_TIMEOUT: the caller may try again.
 * ERR_CONFIG: a wrong address or certificate. Redirections are not followed. */
pl_status pl_web_ask(pl_web *web, pl_web_request *request);

PL_C_END
