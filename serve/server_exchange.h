/* Private to serve: one HTTP request and its answer. */
#ifndef PL_SERVE_SERVER_EXCHANGE_H
#define PL_SERVE_SERVER_EXCHANGE_H
#include "serve/http.h"
#include "serve/server_access.h"
#include "serve/server_clients.h"
#include "serve/server_internal.h"
#include <microhttpd.h>

enum {
    SERVER_TIMEOUT_S = 15, /* limit while a client sends and receives nothing */
    SERVER_LOOK_MS = 1000
};

struct pl_server_front {
    struct MHD_Daemon *daemon;
    pl_server *server;
    server_clients *clients;
    pl_front_options options;
    server_access *access; /* NULL: no key is needed */
    pl_buf certificate, private_key;
    http_page talk; /* the page that is served at / */
    int n_busy;     /* accessed by atomic operations */
};

/* The front's data about one answer of a request. */
typedef struct server_answer {
    pl_buf text, scores; /* the answer so far, if it is sent in one piece */
    /* pl_completion_span: the paths that have written so far; empty if the path is
     * fixed */
    pl_buf spans;
    /* in a stream: number of characters written so far (pl_completion_choice.offset) */
    int64_t offset;
    /* in a stream: begun: a chunk was written; has_text: a chunk with text was
     * written */
    bool begun, has_text;
    pl_generate_result result;
} server_answer;

typedef struct exchange exchange;
typedef struct endpoint {
    const char *url; /* a URL that ends in / stands for all URLs that begin with it */
    bool post;
    enum MHD_Result (*answer)(exchange *x);
    bool open; /* clients without a key may use it */
} endpoint;

/* One request, from its first line to the end of its answer. */
struct exchange {
    pl_server_front *front;
    struct MHD_Connection *connection;
    const endpoint *route; /* NULL: there is no such endpoint */
    const char *url;       /* borrowed from the library */
    const char *user;      /* the name of the client's key; "" if no key was sent */
    unsigned status;       /* HTTP status of the answer; 0: no answer was sent yet */
    double began;
    server_client *client;
    bool busy; /* the request is counted in the front's n_busy */
    pl_buf body;
    server_job *job;
    server_answer *answers; /* [job->n_parts] */
    int n_ended;
    server_event *held; /* an event that was taken from the queue but not written */
    pl_buf out;         /* in a stream: bytes that the client has not received yet */
    size_t written;
    int64_t created, quiet_ms;
    bool ended, gone; /* gone: the client has gone */
};

/* ---- answers; these functions take ownership of the body ---- */
/* Adds the headers that every answer has, and sends the answer. */
enum MHD_Result exchange_queue(exchange *x, unsigned code, struct MHD_Response *r);
enum MHD_Result exchange_send(exchange *x, unsigned code, const char *type,
                              pl_buf *body);
enum MHD_Result exchange_send_json(exchange *x, unsigned code, pl_buf *body);
enum MHD_Result exchange_fail(exchange *x, unsigned http, const char *message,
                              const char *code);
/* Sends the body; if `status` is an error, sends that error instead. */
enum MHD_Result exchange_end(exchange *x, pl_status status, pl_buf *body);
unsigned exchange_status(pl_status status);

/* ---- the client and the events of the job ---- */
int exchange_socket(struct MHD_Connection *c);
uint32_t exchange_address(struct MHD_Connection *c);
/* Sets the connection's timeout in seconds; 0 means no timeout, for the time while a
 * job is computed and the client need not send anything. Setting the timeout also
 * counts as activity. */
void exchange_rest(exchange *x, unsigned seconds);
/* Waits until the job has an event, the client has gone, or the timeout is over. */
void exchange_look(exchange *x, int timeout_ms);
/* Returns the next event. NULL: there is none yet, or the client has gone. If the
 * client has gone, the engine is told to end the job. */
server_event *exchange_next(exchange *x, int timeout_ms);
/* Waits for the next event without a timeout. If the client leaves, the engine ends the
 * job, which also gives an event. */
server_event *exchange_wait(exchange *x);

/* ---- answers of the engine (server_answer.c) ---- */
/* Answers the job in one piece, or as a stream. */
enum MHD_Result exchange_answer_whole(exchange *x);
enum MHD_Result exchange_answer_stream(exchange *x);
/* Answers a job that computes embeddings. */
enum MHD_Result exchange_answer_embeddings(exchange *x, bool base64);

#endif
