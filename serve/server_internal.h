/* Private to the server: jobs, events and counters that its two sides exchange
 * (server.h). */
#pragma once
#include "serve/serve.h"

/* Counters of the server; server_write_metrics explains them. The front and the engine
 * access them by atomic operations. They access the fields `left`, `in_line`,
 * `of_address` and `owners` of a job in the same way. */
typedef struct server_counters {
    int64_t answered, refused, failed, left, prompt_tokens, known_tokens, chosen_tokens,
        steps;
    int64_t module_bytes, modules_read, routing_tokens;
    /* waiting, active: requests that wait for a slot, or have one; loaded: paths in
     * memory; modules: modules in memory; open: requests that the front is working
     * on */
    int waiting, active, loaded, modules, open;
} server_counters;

/* A piece of an answer: its text, the pl_token_score records of its tokens, and
 * pl_reroute_span records: paths that began to write in this piece. */
typedef struct server_output {
    pl_buf text, scores, spans;
} server_output;
void server_output_destroy(server_output *out);

/* A message from the engine to the front about one answer of a job. */
typedef struct server_event {
    int index;         /* the answer's index in the job's parts */
    server_output out; /* after an error its text is the message */
    /* this is the last event of the answer; the fields below are set only then */
    bool ended;
    pl_status status;
    const char *code; /* the error's code for the client; static text */
    pl_generate_result result;
} server_event;
void server_event_destroy(server_event **event);

typedef struct server_job server_job;

/* A prompt of a job. The same model gives all answers to the prompt. */
typedef struct server_prompt {
    pl_buf tokens; /* int32_t */
    /* number of the model that answers (server_models.h); -1: not chosen yet */
    int path;
    char model[PL_NAME_MAX]; /* name of this model; set before the first event */
    /* how the server chose the path; route.rule is NULL if the request named it */
    pl_completion_route route;
} server_prompt;

/* One answer of a job: one request of a batch. Only the engine uses it. */
typedef struct server_part {
    server_job *job;
    int index;   /* number of the prompt * n + number of the answer */
    bool joined; /* the part has joined a batch, or has ended */
    pl_generate_options options;
    server_output out; /* what is in no event yet */
} server_part;

typedef enum server_kind {
    SERVER_COMPLETION,
    /* each part's `out.text` holds not text but the floats of its prompt's embedding */
    SERVER_EMBEDDING,
    SERVER_SLOTS /* asks what the engine's slots are doing */
} server_kind;

struct server_job {
    uint64_t id;
    server_kind kind;
    pl_completion completion;
    pl_queue *events; /* server_event*, for the front */
    bool left;        /* the client has gone */
    bool in_line;     /* the job is counted in the counter `waiting` */
    bool of_address;  /* the job is counted among the requests of its address */
    uint32_t address; /* address of the client */
    uint64_t asker;   /* identifies the client's key (pl_batch_request.asker) */
    /* Bytes that the answers may take until they are sent; 0 while the job waits for
     * them. They count for the server and for the address until the last owner frees
     * the job. */
    int64_t answer_bytes;
    int64_t answer_bytes_max; /* bytes that the answers can take */
    int owners;      /* number of owners (front, engine); the last one frees the job */
    double deadline; /* time (pl_now) at which the job ends with ERR_TIMEOUT */
    server_prompt *prompts; /* [n_prompts] */
    int n_prompts;
    server_part *parts; /* [n_parts] ordered by prompt */
    int n_parts;
    /* used by the engine only */
    int n_ended;
    pl_status status; /* status of the first part that failed */
    struct pl_server *server;
    struct server_job *next; /* the next job that waits */
};
/* Ends one owner's use of the job. */
void server_job_release(server_job **job);
/* Call this function when the client has gone. The job is no longer counted as waiting
 * or as a request of its address, and the engine ends it. */
void server_job_leave(server_job *job);

/* ---- for the front, from any thread ---- */
typedef struct server_asker {
    uint32_t address;
    const char *user; /* the name of the client's key; "" if no key is needed */
} server_asker;
/* Submits a job; takes ownership of the completion. ERR_BUSY: too many requests wait,
 * too many requests are from this address, or the server is ending. */
pl_status server_submit(pl_server *s, server_kind kind, pl_completion *completion,
                        server_asker asker, server_job **out);
/* Submits a job that asks for the state of the slots. The text of the job's only event
 * is the answer, in JSON. */
pl_status server_ask_slots(pl_server *s, server_job **out);
server_counters *server_counts(pl_server *s);
bool server_is_draining(const pl_server *s);
/* Sets what else is read again when the server reloads; NULL: nothing. */
void server_on_reload(pl_server *s, pl_status (*reload)(void *context), void *context);
/* Sets the limit of requests per address if no option did. */
void server_limit_addresses(pl_server *s, bool loopback);
const pl_server_options *server_options(const pl_server *s);

/* ---- pages (server_pages.c) ---- */
void server_write_models(pl_server *s, pl_buf *out);
/* Writes one model. ERR_NOT_FOUND if the server has no model with this name. */
pl_status server_write_model(const pl_server *s, const char *name, pl_buf *out);
/* Writes the server's properties (slots, context, default values) in the form of
 * llama-server; clients read them before their first request. */
void server_write_props(pl_server *s, pl_buf *out);
void server_write_metrics(pl_server *s, pl_buf *out);
