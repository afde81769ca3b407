/* Private to serve: one HTTP request and its answer. */
#pragma once
#include "serve/http.h"
#include "serve/server_access.h"
#include "serve/server_internal.h"

enum {
    SERVER_TIMEOUT_S = 15, /* a connection without traffic is closed after this time */
    SERVER_LOOK_MS = 1000, /* longest time of one wait for an event */
    SERVER_CLIENT_LEFT = 499 /* status in logs if the client left before the answer */
};

struct pl_server_front {
    struct MHD_Daemon *daemon;
    pl_server *server;
    http_site site;
    pl_front_options options;
    server_access *access; /* NULL: no key is needed */
    pl_buf certificate, private_key;
    http_page talk; /* the page that is served at / */
    int n_busy;     /* requests in progress; accessed by atomic operations */
    /* Free places to parse a body, which may take 80 times its size then. A thread
     * takes one of the items, and puts it back. */
    pl_queue *parsers;
};

/* The front's data about one answer of a request. */
typedef struct server_answer {
    /* Everything so far; in a stream only the spans. These are pl_completion_span
     * records, and empty if the path is chosen only once. */
    server_output out;
    /* in a stream: number of characters written so far (pl_completion_choice.offset) */
    int64_t offset;
    bool begun;                /* in a stream: a chunk was written */
    bool has_text;             /* in a stream: a chunk with text was written */
    pl_generate_result result; /* set when the answer has ended */
} server_answer;

typedef struct exchange exchange;
typedef struct endpoint {
    /* a URL that ends in / stands for all longer URLs that begin with it; except "/",
     * which stands only for itself */
    const char *url;
    bool post; /* true: the method is POST; false: GET or HEAD */
    enum MHD_Result (*answer)(exchange *x);
    bool open; /* clients without a key may use this endpoint */
    void (*write)(pl_server *s, pl_buf *out); /* for answer_written: writes the JSON */
} endpoint;

/* One request, from its first line to the end of its answer. */
struct exchange {
    pl_server_front *front;
    struct MHD_Connection *connection;
    const endpoint *route; /* NULL: there is no such endpoint */
    char path[256];        /* of the URL, without a slash at its end; "/" stays */
    const char *user;      /* the name of the client's key; "": no known key was sent */
    unsigned status;       /* HTTP status of the answer; 0: no answer was sent yet */
    double began;          /* time of the first line (pl_now) */
    server_client *client;
    bool is_last;           /* nothing is read from the connection after this request */
    bool too_long;          /* the body has passed the limit */
    bool busy;              /* the request is counted in the front's n_busy */
    pl_buf body;            /* body of the request */
    server_job *job;        /* NULL: the engine has no job for this request */
    server_answer *answers; /* [job->n_parts] */
    int n_ended;            /* number of answers that have ended */
    server_event *held;     /* an event that was taken from the queue but not written */
    pl_buf out;             /* in a stream: the chunk that is being sent */
    size_t written;         /* how many bytes of `out` the library has taken */
    int64_t created;        /* time of the request, in seconds since 1970 */
    int64_t quiet_ms;       /* in a stream: time since the last event */
    bool ended;             /* in a stream: `out` is the last chunk */
    bool is_http_1_1;
    bool half_closed; /* the client has closed at least its writing half */
    bool gone;        /* the client has closed the connection */
};

/* ---- answers; these functions take ownership of `body` and `r` ---- */
/* Adds its type (NULL: none) and the headers that every answer has, and sends the
 * answer. MHD_NO if r is NULL. */
enum MHD_Result exchange_queue(exchange *x, unsigned code, const char *type,
                               struct MHD_Response *r);
enum MHD_Result exchange_send(exchange *x, unsigned code, const char *type,
                              pl_buf *body);
enum MHD_Result exchange_send_json(exchange *x, unsigned code, pl_buf *body);
enum MHD_Result exchange_fail(exchange *x, unsigned http, const char *message,
                              const char *code);
/* Sends the body; if `status` is an error, sends that error instead. */
enum MHD_Result exchange_end(exchange *x, pl_status status, pl_buf *body);
/* Returns the HTTP status for an error. */
unsigned exchange_status(pl_status status);

/* ---- the client and the events of the job ---- */
/* Sets after how many seconds without activity the library closes the connection; 0:
 * never. (While the engine computes a job, neither side sends anything.) The call
 * itself counts as activity. */
void exchange_rest(exchange *x, unsigned seconds);
/* Waits until the job has an event, the client has gone, or the timeout is over. */
void exchange_look(exchange *x, int timeout_ms);
/* Returns the next event; NULL if no event has come within SERVER_LOOK_MS. If the
 * client has gone, tells the engine to end the job. */
server_event *exchange_next(exchange *x);
/* Waits for the next event without a timeout. If the client leaves, the engine ends the
 * job with an event, which this function returns. */
server_event *exchange_wait(exchange *x);

/* ---- answers of the engine (server_stream.c) ---- */
/* Answers the job in one piece, or as a stream. */
enum MHD_Result exchange_answer_whole(exchange *x);
enum MHD_Result exchange_answer_stream(exchange *x);
/* Answers a job that computes embeddings. */
enum MHD_Result exchange_answer_embeddings(exchange *x, bool base64);
