/* The engine of a server: one thread that takes jobs and sends events (server.h). */
#include "serve/server_paths.h"

enum {
    IDLE_MS = 100, /* after this time at most a signal is noticed */
    ADDRESS_SLOTS = 1 << 16
};

struct pl_server {
    pl_server_options options;
    server_paths *paths;
    pl_queue *incoming;
    server_job *first, **last; /* waiting, in order of arrival */
    bool draining;
    uint64_t n_jobs;
    server_counters counts;
    int of_address[ADDRESS_SLOTS]; /* requests that have not ended, by address_slot */
};

/* ---- jobs and events ---- */
void server_event_destroy(server_event **event)
{
    if (!*event)
        return;
    pl_buf_destroy(&(*event)->text);
    pl_free(*event);
    *event = NULL;
}

void server_job_release(server_job **job)
{
    server_job *j = *job;
    *job = NULL;
    if (!j || __atomic_fetch_sub(&j->owners, 1, __ATOMIC_SEQ_CST) > 1)
        return;
    for (server_event *e; (e = pl_queue_pop(j->events, 0)) != NULL;)
        server_event_destroy(&e);
    pl_queue_destroy(&j->events);
    pl_completion_clear(&j->completion);
    pl_buf_destroy(&j->tokens);
    pl_free(j);
}

static void leave_line(server_job *job)
{
    if (__atomic_exchange_n(&job->in_line, false, __ATOMIC_SEQ_CST))
        __atomic_fetch_sub(&job->server->counts.waiting, 1, __ATOMIC_SEQ_CST);
}

/* Addresses of one network have different slots; distant ones may share one. */
static int *address_slot(pl_server *s, uint32_t address)
{
    return &s->of_address[(address ^ address >> 16) % ADDRESS_SLOTS];
}

static void leave_places(server_job *job)
{
    leave_line(job);
    if (__atomic_exchange_n(&job->of_address, false, __ATOMIC_SEQ_CST))
        __atomic_fetch_sub(address_slot(job->server, job->address), 1,
                           __ATOMIC_SEQ_CST);
}

void server_job_leave(server_job *job)
{
    __atomic_store_n(&job->left, true, __ATOMIC_SEQ_CST);
    leave_places(job);
}

static void tell_end(server_job *job, pl_status status, const char *code,
                     const pl_generate_result *result)
{
    server_counters *n = &job->server->counts;
    server_event *e = pl_alloc(sizeof *e);
    e->ended = true;
    e->status = status;
    e->code = code;
    if (status != PL_OK)
        pl_buf_printf(&e->text, "%s", pl_last_error());
    if (result) {
        e->result = *result;
        __atomic_fetch_add(&n->prompt_tokens, result->n_prompt, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&n->chosen_tokens, result->n_tokens, __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_add(status == PL_OK              ? &n->answered
                       : status == PL_ERR_CANCELLED ? &n->left
                                                    : &n->failed,
                       1, __ATOMIC_SEQ_CST);
    leave_places(job);
    pl_queue_push(job->events, e);
    server_job_release(&job);
}

/* ERR_CANCELLED and ERR_TIMEOUT end a job in any state. */
static pl_status check_job_wanted(void *context)
{
    const server_job *job = context;
    if (__atomic_load_n(&job->left, __ATOMIC_SEQ_CST))
        return pl_fail(PL_ERR_CANCELLED, "the client has gone");
    if (pl_now() > job->deadline)
        return pl_fail(PL_ERR_TIMEOUT, "the request took longer than %d s",
                       job->server->options.timeout_s);
    return PL_OK;
}

static pl_status on_piece(void *context, const char *text, size_t len)
{
    server_job *job = context;
    PL_CHECK(check_job_wanted(job));
    server_event *e = pl_alloc(sizeof *e);
    pl_buf_append(&e->text, text, len);
    pl_queue_push(job->events, e);
    return PL_OK;
}

static const char *code_of(pl_status status)
{
    return status == PL_ERR_TIMEOUT     ? "timeout"
           : status == PL_ERR_NOT_FOUND ? "model_not_found"
           : status == PL_ERR_USAGE     ? "invalid_value"
                                        : "engine_failed";
}

static void on_job_done(void *context, pl_status status,
                        const pl_generate_result *result)
{
    tell_end(context, status, code_of(status), result);
}

/* ---- from arrival to a batch ---- */
static int count_job_tokens(const server_job *job)
{
    return (int)(job->tokens.len / sizeof(int32_t));
}

static const int32_t *get_job_tokens(const server_job *job)
{
    return (const int32_t *)(const void *)job->tokens.data;
}

/* Leaves job->path at -1 if the server must do other work first. */
static pl_status find_job_path(pl_server *s, server_job *job)
{
    const pl_topology *t = server_paths_topology(s->paths);
    if (job->path >= 0)
        return PL_OK;
    if (strcmp(job->completion.model, "auto") == 0)
        PL_CHECK(server_paths_route(s->paths, get_job_tokens(job),
                                    count_job_tokens(job), &job->path));
    else
        PL_CHECK(pl_find_path(t, job->completion.model, &job->path));
    if (job->path >= 0)
        pl_topology_path_name(t, job->path, job->model);
    return PL_OK;
}

/* Checks everything about a job that needs no place for it. */
static void arrive(pl_server *s, server_job *job)
{
    int context = server_paths_context(s->paths);
    const char *code = NULL;
    int32_t bos = PL_TOKEN_BOS;
    const char *prompt = job->completion.prompt;
    pl_buf_append(&job->tokens, &bos, sizeof bos);
    pl_status status = pl_tokenizer_encode(server_paths_tokenizer(s->paths), prompt,
                                           strlen(prompt), &job->tokens);
    if (status == PL_OK && count_job_tokens(job) > context) {
        code = "exceed_context_size_error";
        status = pl_fail(PL_ERR_USAGE,
                         "the prompt has %d tokens and the model's context is %d; "
                         "shorten it",
                         count_job_tokens(job), context);
    }
    if (status != PL_OK) {
        tell_end(job, status, code ? code : code_of(status), NULL);
        return;
    }
    job->next = NULL;
    *s->last = job;
    s->last = &job->next;
}

/* True if the job has left the queue. */
static bool admit(pl_server *s, server_job *job)
{
    pl_batch *batch = NULL;
    pl_status status = check_job_wanted(job);
    if (status == PL_OK)
        status = find_job_path(s, job);
    if (status == PL_OK && job->path >= 0)
        status = server_paths_batch(s->paths, job->path, &batch);
    if (status == PL_OK && !batch)
        return false;
    leave_line(job);
    if (status == PL_OK) {
        const pl_batch_request request = {.prompt = get_job_tokens(job),
                                          .n_prompt = count_job_tokens(job),
                                          .options = &job->completion.options,
                                          .emit = on_piece,
                                          .done = on_job_done,
                                          .wanted = check_job_wanted,
                                          .context = job};
        status = pl_batch_join(batch, &request);
    }
    if (status != PL_OK)
        tell_end(job, status, code_of(status), NULL);
    return true;
}

static void admit_all(pl_server *s)
{
    server_job **at = &s->first;
    while (*at) {
        server_job *job = *at, *next = job->next;
        if (admit(s, job))
            *at = next;
        else
            at = &job->next;
    }
    s->last = at;
}

/* ---- running ---- */
static void take_incoming(pl_server *s, int timeout_ms)
{
    server_job *job = pl_queue_pop(s->incoming, timeout_ms);
    for (; job; job = pl_queue_pop(s->incoming, 0))
        arrive(s, job);
}

static void end_waiting(pl_server *s)
{
    take_incoming(s, 0);
    while (s->first) {
        server_job *job = s->first;
        s->first = job->next;
        s->last = s->first ? s->last : &s->first;
        (void)pl_fail(PL_ERR_CANCELLED, "the server is ending");
        tell_end(job, PL_ERR_CANCELLED, "server_ending", NULL);
    }
}

pl_status pl_server_run(pl_server *s, volatile sig_atomic_t *stop,
                        volatile sig_atomic_t *reload)
{
    int busy = 0;
    while (*stop < 2) {
        /* read once: no job is admitted after the last check */
        bool ending = *stop > 0;
        __atomic_store_n(&s->draining, ending, __ATOMIC_SEQ_CST);
        if (*reload) {
            *reload = 0;
            if (server_paths_reload(s->paths) != PL_OK)
                pl_log(PL_LOG_WARN, "serve.reload_failed", "error=\"%s\"",
                       pl_last_error());
            else
                pl_log(PL_LOG_INFO, "serve.reloaded", "run=\"%s\"",
                       s->options.mix->dir);
        }
        take_incoming(s, busy > 0 ? 0 : IDLE_MS);
        admit_all(s);
        busy = server_paths_step(s->paths);
        __atomic_fetch_add(&s->counts.steps, busy, __ATOMIC_SEQ_CST);
        __atomic_store_n(&s->counts.active, server_paths_active(s->paths),
                         __ATOMIC_SEQ_CST);
        __atomic_store_n(&s->counts.loaded, server_paths_loaded(s->paths),
                         __ATOMIC_SEQ_CST);
        if (ending && __atomic_load_n(&s->counts.open, __ATOMIC_SEQ_CST) == 0 &&
            busy == 0)
            return PL_OK;
    }
    /* All jobs end with an error; the front has a moment to report it. */
    __atomic_store_n(&s->draining, true, __ATOMIC_SEQ_CST);
    server_paths_unload(s->paths);
    for (int i = 0; i < 20 && __atomic_load_n(&s->counts.open, __ATOMIC_SEQ_CST) > 0;
         i++) {
        end_waiting(s);
        pl_sleep_ms(IDLE_MS);
    }
    return PL_OK;
}

/* ---- for the front ---- */
/* Takes one of `most` places; false if none is left. */
static bool take_counted_place(int *count, int most)
{
    if (__atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST) < most)
        return true;
    __atomic_fetch_sub(count, 1, __ATOMIC_SEQ_CST);
    return false;
}

static pl_status take_places(pl_server *s, uint32_t address)
{
    int *own = address_slot(s, address), most = s->options.per_address;
    if (__atomic_load_n(&s->draining, __ATOMIC_SEQ_CST))
        return pl_fail(PL_ERR_BUSY, "the server is ending; ask another one");
    if (!take_counted_place(own, most > 0 ? most : INT32_MAX)) {
        __atomic_fetch_add(&s->counts.refused, 1, __ATOMIC_SEQ_CST);
        return pl_fail(PL_ERR_BUSY,
                       "%d requests of this address are under way already; ask again "
                       "later (serve --per-address)",
                       most);
    }
    if (take_counted_place(&s->counts.waiting, s->options.queue))
        return PL_OK;
    __atomic_fetch_sub(own, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&s->counts.refused, 1, __ATOMIC_SEQ_CST);
    return pl_fail(PL_ERR_BUSY, "%d requests wait already; ask again later",
                   s->options.queue);
}

pl_status server_submit(pl_server *s, pl_completion *completion, uint32_t address,
                        server_job **out)
{
    *out = NULL;
    PL_CHECK(take_places(s, address));
    server_job *job = pl_alloc(sizeof *job);
    pl_status status = pl_queue_create(&job->events);
    if (status != PL_OK) {
        __atomic_fetch_sub(address_slot(s, address), 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_sub(&s->counts.waiting, 1, __ATOMIC_SEQ_CST);
        pl_free(job);
        return status;
    }
    job->address = address;
    job->in_line = job->of_address = true;
    job->id = __atomic_fetch_add(&s->n_jobs, 1, __ATOMIC_SEQ_CST);
    job->completion = *completion;
    memset(completion, 0, sizeof *completion);
    job->owners = 2;
    job->deadline = pl_now() + s->options.timeout_s;
    job->path = -1;
    job->server = s;
    *out = job;
    pl_queue_push(s->incoming, job);
    return PL_OK;
}

server_counters *server_counts(pl_server *s)
{
    return &s->counts;
}

bool server_is_draining(const pl_server *s)
{
    return __atomic_load_n(&s->draining, __ATOMIC_SEQ_CST);
}

int server_timeout_s(const pl_server *s)
{
    return s->options.timeout_s;
}

static void add_model(pl_json *list, const char *name)
{
    pl_json *entry = pl_json_object();
    pl_json_set_text(entry, "id", name);
    pl_json_set_text(entry, "object", "model");
    pl_json_set_text(entry, "owned_by", "pathloom");
    pl_json_push(list, entry);
}

void server_write_models(const pl_server *s, pl_buf *out)
{
    const pl_topology *t = server_paths_topology(s->paths);
    char name[PL_NAME_MAX];
    pl_json *o = pl_json_object(), *list = pl_json_array();
    add_model(list, "auto");
    for (int i = 0; i < pl_topology_n_paths(t); i++) {
        pl_topology_path_name(t, i, name);
        add_model(list, name);
    }
    pl_json_set_text(o, "object", "list");
    pl_json_set(o, "data", list);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}

static void write_metric(pl_buf *out, const char *name, const char *type,
                         const char *help, int64_t value)
{
    pl_buf_printf(out,
                  "# HELP pathloom_serve_%s %s\n# TYPE pathloom_serve_%s %s\n"
                  "pathloom_serve_%s %lld\n",
                  name, help, name, type, name, (long long)value);
}

void server_write_metrics(pl_server *s, pl_buf *out)
{
    server_counters *n = &s->counts;
    write_metric(out, "requests_answered_total", "counter", "Requests answered.",
                 __atomic_load_n(&n->answered, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_refused_total", "counter",
                 "Requests refused because too many waited.",
                 __atomic_load_n(&n->refused, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_failed_total", "counter", "Requests that failed.",
                 __atomic_load_n(&n->failed, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_left_total", "counter",
                 "Requests whose client went away.",
                 __atomic_load_n(&n->left, __ATOMIC_SEQ_CST));
    write_metric(out, "prompt_tokens_total", "counter", "Tokens read from prompts.",
                 __atomic_load_n(&n->prompt_tokens, __ATOMIC_SEQ_CST));
    write_metric(out, "chosen_tokens_total", "counter", "Tokens chosen.",
                 __atomic_load_n(&n->chosen_tokens, __ATOMIC_SEQ_CST));
    write_metric(out, "steps_total", "counter",
                 "Steps of all paths, of reading and of decoding.",
                 __atomic_load_n(&n->steps, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_waiting", "gauge", "Requests that wait for a place.",
                 __atomic_load_n(&n->waiting, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_active", "gauge", "Requests being answered.",
                 __atomic_load_n(&n->active, __ATOMIC_SEQ_CST));
    write_metric(out, "paths_loaded", "gauge", "Paths in memory.",
                 __atomic_load_n(&n->loaded, __ATOMIC_SEQ_CST));
}

/* ---- opening ---- */
pl_status pl_server_open(const pl_server_options *options, pl_server **out)
{
    pl_status status = PL_OK;
    pl_server *s = pl_alloc(sizeof *s);
    *out = NULL;
    s->options = *options;
    s->last = &s->first;
    PL_TRY(pl_queue_create(&s->incoming));
    PL_TRY(server_paths_open(&s->options, &s->paths));
    *out = s;
    return PL_OK;
done:
    pl_server_close(&s);
    return status;
}

void pl_server_close(pl_server **server_)
{
    pl_server *s = *server_;
    if (!s)
        return;
    if (s->incoming)
        end_waiting(s);
    pl_queue_destroy(&s->incoming);
    server_paths_close(&s->paths);
    pl_free(s);
    *server_ = NULL;
}
