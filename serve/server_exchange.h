/* Private to serve: one HTTP request while it is answered. */
#ifndef PL_SERVE_SERVER_EXCHANGE_H
#define PL_SERVE_SERVER_EXCHANGE_H
#include "serve/http.h"
#include "serve/server_access.h"
#include "serve/server_clients.h"
#include "serve/server_internal.h"
#include <microhttpd.h>

enum {
    SERVER_TIMEOUT_S = 15, /* for a client that sends or takes nothing */
    SERVER_LOOK_MS = 1000
};

struct pl_server_front {
    struct MHD_Daemon *daemon;
    pl_server *server;
    server_clients *clients;
    pl_front_options options;
    server_access *access; /* NULL: no key is needed */
    pl_buf certificate, private_key;
    http_page talk; /* the page at / */
    int n_busy;     /* accessed by atomic operations */
};

/* What is known of one of the answers of a request. */
typedef struct server_answer {
    pl_buf text, scores;  /* of an answer in one piece */
    int64_t offset;       /* of a stream: characters of the tokens that were written */
    bool begun, has_text; /* of a stream: a chunk was written, one with text */
    pl_generate_result result;
} server_answer;

typedef struct exchange exchange;
typedef struct endpoint {
    const char *url; /* one that ends in / is the beginning of others */
    bool post;
    enum MHD_Result (*answer)(exchange *x);
    bool open; /* needs no key */
} endpoint;

/* From its first line to its end. */
struct exchange {
    pl_server_front *front;
    struct MHD_Connection *connection;
    const endpoint *route; /* NULL: there is none */
    const char *url;       /* borrowed from the library */
    const char *user;      /* the name of its key; "" without */
    unsigned status;       /* of HTTP, when it is sent */
    double began;
    server_client *client;
    bool busy; /* counted in the front's n_busy */
    pl_buf body;
    server_job *job;
    server_answer *answers; /* [job->n_parts] */
    int n_ended;
    server_event *held; /* taken from the queue but not written yet */
    pl_buf out;         /* of a stream: what the client has not received yet */
    size_t written;
    int64_t created, quiet_ms;
    bool ended, gone; /* gone: the client */
};

/* ---- answers; they take the body ---- */
/* Adds the headers of every answer and sends it. */
enum MHD_Result exchange_queue(exchange *x, unsigned code, struct MHD_Response *r);
enum MHD_Result exchange_send(exchange *x, unsigned code, const char *type,
                              pl_buf *body);
enum MHD_Result exchange_send_json(exchange *x, unsigned code, pl_buf *body);
enum MHD_Result exchange_fail(exchange *x, unsigned http, const char *message,
                              const char *code);
/* The body, or the error of making it. */
enum MHD_Result exchange_end(exchange *x, pl_status status, pl_buf *body);
unsigned exchange_status(pl_status status);

/* ---- the client and the events of the job ---- */
int exchange_socket(struct MHD_Connection *c);
uint32_t exchange_address(struct MHD_Connection *c);
/* While a job is computed its client need not send anything. Setting the timeout again
 * also counts as activity. */
void exchange_rest(exchange *x, unsigned seconds);
/* Waits for an event of the job, if there is one yet, and for the client to go away. */
void exchange_look(exchange *x, int timeout_ms);
/* The next event. NULL: there is none yet, or the client has gone (then the job is
 * told). */
server_event *exchange_next(exchange *x, int timeout_ms);
/* The engine ends a job whose client left, so this wait ends. */
server_event *exchange_wait(exchange *x);

/* ---- answers of the engine (server_answer.c) ---- */
/* Answers the job in one piece, or as a stream. */
enum MHD_Result exchange_answer_whole(exchange *x);
enum MHD_Result exchange_answer_stream(exchange *x);
/* The job is one of embeddings. */
enum MHD_Result exchange_answer_embeddings(exchange *x, bool base64);

#endif
