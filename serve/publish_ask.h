/* Private to publish: requests to a hub of models, with its token. */
#ifndef PL_SERVE_PUBLISH_ASK_H
#define PL_SERVE_PUBLISH_ASK_H
#include "base/base.h"

typedef struct asker {
    pl_web *web;
    char endpoint[512];      /* the hub's address, without a slash at the end */
    char authorization[600]; /* the header line with the token */
    pl_buf answer;           /* the body of the last answer */
    int code;                /* HTTP status of the last answer */
} asker;

/* Finds the hub's address and the token (publish.h says where). */
PL_MUST_CHECK pl_status asker_open(asker *a);
void asker_close(asker *a); /* wipes the token */

/* A request, which is repeated after temporary failures: a broken connection, or one of
 * the statuses 429 and 5xx. If `url` begins with "/", the endpoint is prepended. The
 * token is sent only with requests to the endpoint. The list `headers` ends with NULL.
 * Every status except 2xx is an error. `what` is the purpose of the request for error
 * messages, such as "make the repository". */
typedef struct ask {
    const char *what, *method, *url;
    const char *const *headers;
    const void *data;
    size_t len;
} ask;
PL_MUST_CHECK pl_status asker_do(asker *a, const ask *q);
/* Posts the text `body` with the content type `type`. *answer becomes the answer's
 * JSON, which the caller destroys. If `answer` is NULL, the answer is not parsed. */
PL_MUST_CHECK pl_status asker_post(asker *a, const char *what, const char *url,
                                   const char *type, const pl_buf *body,
                                   pl_json **answer);

#endif
