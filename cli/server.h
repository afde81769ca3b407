/* Private to cli: `pathloom serve`.
 *
 * Two sides. The front (server_http.c) has a thread a connection: it reads a request,
 * hands a job to the engine, and writes what comes back. The engine (server.c) runs in
 * the process's main thread and alone touches store, router and models. Between them
 * are a queue of jobs, a queue of events a job, and counters.
 */
#ifndef PL_CLI_SERVER_H
#define PL_CLI_SERVER_H
#include "cli/run.h"
#include "serve/serve.h"

typedef struct server_options {
    const char *dir, *listen, *precision;
    const char *route; /* instead of router.answer; NULL: that */
    int threads;       /* of the models */
    int slots;         /* requests that a path answers at once */
    int paths;         /* most in memory; 0: as many as fit */
    int queue;         /* most requests that wait */
    int per_address;   /* most requests of one address at once; 0: no limit */
    int timeout_s;
} server_options;

/* Both sides touch these, and `left`, `in_line`, `of_address` and `owners` of a
 * job, by atomic operations. */
typedef struct server_counters {
    int64_t answered, refused, failed, left, prompt_tokens, chosen_tokens, steps;
    int waiting, active, loaded, open; /* open: exchanges at the front */
} server_counters;

/* What a job tells the front. */
typedef struct server_event {
    pl_buf text; /* a piece, or the sentence of an error */
    bool ended;
    pl_status status;
    const char *code; /* of an error; static */
    pl_generate_result result;
} server_event;
void server_event_destroy(server_event **event);

typedef struct server_job {
    uint64_t id;
    pl_completion completion;
    pl_queue *events; /* server_event*, for the front */
    bool left;        /* the client has gone */
    bool in_line;     /* counted in `waiting`, */
    bool of_address;  /* and among the requests of its address */
    uint32_t address; /* of the client */
    int owners;       /* front and engine; the last one frees */
    double deadline;
    char model[PL_NAME_MAX]; /* of the path; set before the first event */
    /* the engine's own */
    pl_buf tokens;
    int path; /* -1: not known yet */
    struct server *server;
    struct server_job *next;
} server_job;
void server_job_release(server_job **job);
/* The client has gone: the job gives up its places, and the engine ends it. */
void server_job_leave(server_job *job);

typedef struct server server;
/* Opens run, store, tokenizer, backend and what routes. Paths are loaded when asked
 * for.
 */
PL_MUST_CHECK pl_status server_open(const server_options *options, server **out);
void server_close(server **s);
/* Answers until `*stop` is 1 and everything is answered, or 2. */
PL_MUST_CHECK pl_status server_run(server *s, volatile sig_atomic_t *stop,
                                   volatile sig_atomic_t *reload);

/* ---- for the front, from any thread ---- */
/* Takes the completion. ERR_BUSY: too many wait, too many are of this address, or the
 * server is ending. */
PL_MUST_CHECK pl_status server_submit(server *s, pl_completion *completion,
                                      uint32_t address, server_job **out);
server_counters *server_counts(server *s);
bool server_is_draining(const server *s);
int server_timeout_s(const server *s);
void server_write_models(const server *s, pl_buf *out);
void server_write_metrics(server *s, pl_buf *out);

typedef struct server_front server_front;
/* `address` gets HOST:PORT, with the port that was free if `listen` ends in ":*". */
PL_MUST_CHECK pl_status server_front_open(server *s, const char *listen,
                                          server_front **out, char address[64]);
void server_front_close(server_front **front);

#endif
