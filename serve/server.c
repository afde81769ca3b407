/* The engine of a server: one thread that takes jobs and sends events (server.h). */
#include "serve/pieces.h"
#include "serve/server_paths.h"

enum {
    TAKE_MS = 20,
    IDLE_MS = 100, /* an idle engine looks for signals at least this often */
    ADDRESS_SLOTS = 1 << 16,
    FLOAT_BYTES = 32, /* of one number of an embedding in JSON */
    /* Bytes of one token of an answer until it is sent: its event, and its part of the
     * answer's JSON. SCORE_BYTES comes once more for each listed token. */
    TOKEN_BYTES = 512,
    SCORE_BYTES = 256
};
/* Answers are kept until their clients have read them. So what all clients together,
 * and all of one address, may ask for at the same time is bounded. */
enum { PER_ADDRESS = 128, ANSWERS_MAX = 256 << 20 };

/* what the unfinished requests from all addresses that share a slot take */
typedef struct address_use {
    int n;
    int64_t answer_bytes;
} address_use;

struct pl_server {
    pl_server_options options;
    server_paths *paths;
    pl_queue *incoming;
    /* jobs that wait, in order of arrival; `last` points to the list's final NULL */
    server_job *first, **last;
    bool draining;                      /* the server is ending, and accepts no jobs */
    pl_status (*reload)(void *context); /* reads keys again; may be NULL */
    void *reload_context;
    uint64_t n_jobs;
    server_counters counts;
    int64_t answer_bytes; /* of all jobs; accessed by atomic operations */
    address_use of_address[ADDRESS_SLOTS];
};

/* ---- jobs and events ---- */
void server_output_destroy(server_output *out)
{
    pl_buf_destroy(&out->text);
    pl_buf_destroy(&out->scores);
    pl_buf_destroy(&out->spans);
}

void server_event_destroy(server_event **event)
{
    if (!*event)
        return;
    server_output_destroy(&(*event)->out);
    pl_free(*event);
    *event = NULL;
}

/* Addresses with the same first 16 bits have different slots; other addresses may share
 * a slot. */
static address_use *address_slot(pl_server *s, uint32_t address)
{
    return &s->of_address[(address ^ address >> 16) % ADDRESS_SLOTS];
}

/* Adds to the bytes that the job has taken for its answers. */
static void add_answer_bytes(server_job *job, int64_t bytes)
{
    job->answer_bytes += bytes;
    pl_atomic_add(&job->server->answer_bytes, bytes);
    pl_atomic_add(&address_slot(job->server, job->address)->answer_bytes, bytes);
}

void server_job_release(server_job **job)
{
    server_job *j = *job;
    *job = NULL;
    if (!j || pl_atomic_sub(&j->owners, 1) > 1)
        return;
    add_answer_bytes(j, -j->answer_bytes);
    for (server_event *e; (e = pl_queue_pop(j->events, 0)) != NULL;)
        server_event_destroy(&e);
    pl_queue_destroy(&j->events);
    pl_completion_clear(&j->completion);
    for (int i = 0; i < j->n_prompts; i++)
        pl_buf_destroy(&j->prompts[i].tokens);
    for (int i = 0; i < j->n_parts; i++)
        server_output_destroy(&j->parts[i].out);
    pl_free_all(j->prompts, j->parts, j);
}

static void leave_line(server_job *job)
{
    if (pl_atomic_swap(&job->in_line, false))
        pl_atomic_sub(&job->server->counts.waiting, 1);
}

static void leave_places(server_job *job)
{
    leave_line(job);
    if (pl_atomic_swap(&job->of_address, false))
        pl_atomic_sub(&address_slot(job->server, job->address)->n, 1);
}

void server_job_leave(server_job *job)
{
    pl_atomic_set(&job->left, true);
    leave_places(job);
}

/* Counts a job that has ended, and stops counting it as waiting or as a request of its
 * address. This happens before the front learns of the end, so that a client's next
 * request is not refused because of this job. */
static void count_end(server_job *job)
{
    /* a job that only asks for the slots is not counted */
    if (job->kind == SERVER_SLOTS)
        return;
    server_counters *n = &job->server->counts;
    const pl_status status = job->status;
    /* mistakes of clients are counted nowhere: neither these nor those that the parser
     * finds */
    if (status != PL_ERR_USAGE && status != PL_ERR_NOT_FOUND)
        pl_atomic_add(status == PL_OK              ? &n->answered
                      : status == PL_ERR_CANCELLED ? &n->left
                                                   : &n->failed,
                      1);
    leave_places(job);
}

static server_event *make_end(const server_part *part, pl_status status,
                              const char *code, const pl_generate_result *result)
{
    server_event *e = pl_alloc(sizeof *e);
    e->index = part->index;
    e->ended = true;
    e->status = status;
    e->code = code;
    e->result = *result;
    if (status != PL_OK)
        pl_buf_printf(&e->out.text, "%s", pl_last_error());
    return e;
}

static void move_output(server_event *e, server_part *part)
{
    e->out = part->out;
    part->out = (server_output){.text = {0}};
}

static void tell_end(server_part *part, pl_status status, const char *code,
                     const pl_generate_result *result)
{
    server_job *job = part->job;
    server_counters *n = &job->server->counts;
    server_event *e = make_end(part, status, code, result);
    if (status == PL_OK)
        move_output(e, part);
    else if (job->status == PL_OK)
        job->status = status;
    if (part->index % job->completion.n == 0)
        pl_atomic_add(&n->prompt_tokens, result->n_prompt);
    pl_atomic_add(&n->known_tokens, result->n_known);
    pl_atomic_add(&n->chosen_tokens, result->n_tokens);
    pl_atomic_add(&n->routing_tokens, result->n_routing);
    const bool last = ++job->n_ended == job->n_parts;
    if (last)
        count_end(job);
    pl_queue_push(job->events, e);
    if (last)
        server_job_release(&job);
}

/* Ends the parts that have not joined a batch. The caller must be an owner of the job,
 * because the engine's ownership is released when the last part ends. */
static void end_waiting_parts(server_job *job, pl_status status, const char *code)
{
    static const pl_generate_result none;
    for (int i = 0; i < job->n_parts; i++)
        if (!job->parts[i].joined) {
            job->parts[i].joined = true;
            tell_end(&job->parts[i], status, code, &none);
        }
}

/* Whether the job is still wanted. ERR_CANCELLED: its client has gone. ERR_TIMEOUT: it
 * took too long. */
static pl_status check_job_wanted(void *context)
{
    const server_job *job = context;
    if (pl_atomic_get(&job->left))
        return pl_fail(PL_ERR_CANCELLED, "the client has closed the connection");
    if (pl_now() > job->deadline)
        return pl_fail(PL_ERR_TIMEOUT, "the request took longer than %d s",
                       job->server->options.timeout_s);
    return PL_OK;
}

/* Sends the new text of an answer. */
static pl_status on_piece(void *context, const char *text, size_t len)
{
    server_part *part = context;
    PL_CHECK(check_job_wanted(part->job));
    server_event *e = pl_alloc(sizeof *e);
    pl_buf_append(&part->out.text, text, len);
    e->index = part->index;
    move_output(e, part);
    pl_queue_push(part->job->events, e);
    return PL_OK;
}

static pl_status on_score(void *context, const pl_token_score *score)
{
    server_part *part = context;
    if (part->options.scores)
        pl_buf_append(&part->out.scores, score, sizeof *score);
    return PL_OK;
}

/* Notes that a path writes the answer from index `from` on. `path` counts only the
 * paths that may answer. */
static void on_moved(void *context, int from, int path)
{
    server_part *part = context;
    const pl_reroute_span span = {
        from, server_paths_open_path(part->job->server->paths, path)};
    pl_buf_append(&part->out.spans, &span, sizeof span);
}

static pl_status check_part_wanted(void *context)
{
    return check_job_wanted(((server_part *)context)->job);
}

static const char *code_of(pl_status status)
{
    return status == PL_ERR_TIMEOUT     ? "timeout"
           : status == PL_ERR_NOT_FOUND ? "model_not_found"
           : status == PL_ERR_USAGE     ? "invalid_value"
                                        : "engine_failed";
}

static void on_part_done(void *context, pl_status status,
                         const pl_generate_result *result)
{
    tell_end(context, status, code_of(status), result);
}

/* ---- from arrival to a batch ---- */
/* Finds the model that answers a prompt: the model that the request names, or else the
 * path that is chosen for the prompt. Leaves prompt->path at -1 if the server must do
 * other work before the path can be chosen. If the prompt does not begin with BOS, BOS
 * is put before it for the choice, because the paths were trained on texts that begin
 * with BOS. */
static pl_status find_prompt_path(pl_server *s, const server_job *job,
                                  server_prompt *prompt)
{
    const server_models *models = server_paths_models(s->paths);
    if (prompt->path >= 0)
        return PL_OK;
    if (!server_models_is_auto(job->completion.model)) {
        PL_CHECK(server_models_find(models, job->completion.model, &prompt->path));
    } else if (job->kind == SERVER_EMBEDDING) {
        /* Embeddings can be compared only if one model made them. Different texts could
         * get different paths, so the base model answers. */
        PL_CHECK(server_models_find(models, "base", &prompt->path));
    } else {
        const int32_t bos = PL_TOKEN_BOS, *tokens = pl_prompt_tokens(&prompt->tokens);
        const bool starts = tokens[0] == bos;
        int n = pl_prompt_count(&prompt->tokens) + !starts;
        pl_buf text = {0};
        /* A request whose purpose is the scores of its prompt: evaluation tools ask for
         * at most one token. Only the first router.prefix tokens choose its path, as in
         * `pathloom eval`: a score of tokens that chose the path would be too good. */
        const pl_generate_options *o = &job->completion.options;
        const bool is_evaluation = o->prompt_scores && o->max_tokens <= 1;
        const int prefix = s->options.mix->settings.prefix, whole = n;
        if (is_evaluation && n > prefix)
            n = prefix;
        /* the last token never chooses the path by which it is scored, or the
         * probabilities of all last tokens would not sum to 1 */
        if (is_evaluation && n == whole && n > 1)
            n--;
        if (!starts) {
            pl_buf_append(&text, &bos, sizeof bos);
            pl_buf_append(&text, tokens, (size_t)(n - 1) * sizeof *tokens);
            tokens = pl_prompt_tokens(&text);
        }
        pl_path_choice choice;
        const pl_status status = server_paths_route(s->paths, tokens, n, &choice);
        pl_buf_destroy(&text);
        prompt->path = choice.path;
        prompt->route = (pl_completion_route){
            .rule = choice.by_likelihood ? "likelihood" : "router",
            .margin_nats = choice.margin_nats};
        PL_CHECK(status);
    }
    if (prompt->path >= 0)
        server_models_name(models, prompt->path, prompt->model);
    return PL_OK;
}

/* Sets the tokens of a prompt (BOS and the tokens of its text, or the list of tokens in
 * the request, unchanged) and its path. Refuses one that is longer than the context. */
static pl_status prepare_prompt(const pl_server *s, const pl_completion_prompt *from,
                                server_prompt *to, const char **code)
{
    const pl_tokenizer *tokenizer = s->options.mix->tokenizer;
    const int context = s->options.mix->arm.shape.context;
    to->path = -1;
    /* The front may read the name as soon as it has the job's first event, so the name
     * must be set before any event. */
    pl_copy_text(to->model, sizeof to->model, "auto");
    if (from->text) {
        PL_CHECK(
            pl_prompt_encode(tokenizer, from->text, strlen(from->text), &to->tokens));
    } else {
        for (int i = 0; i < from->n_tokens; i++)
            if (from->tokens[i] >= pl_tokenizer_vocab(tokenizer))
                return pl_fail(
                    PL_ERR_USAGE,
                    "`prompt` has token %d; the vocabulary has tokens 0 to %d",
                    (int)from->tokens[i], pl_tokenizer_vocab(tokenizer) - 1);
        pl_buf_append(&to->tokens, from->tokens,
                      (size_t)from->n_tokens * sizeof *from->tokens);
    }
    if (pl_prompt_count(&to->tokens) <= context)
        return PL_OK;
    *code = "exceed_context_size_error";
    return pl_fail(
        PL_ERR_USAGE,
        "the prompt has %d tokens and the model's context is %d; shorten the prompt",
        pl_prompt_count(&to->tokens), context);
}

/* Returns the limit of one address; that of all addresses is twice as high. Answers of
 * all slots that fill the context always fit. */
static int64_t answers_max(const pl_server *s)
{
    const int64_t full =
        (int64_t)s->options.slots * s->options.mix->arm.shape.context * TOKEN_BYTES;
    return full > ANSWERS_MAX ? full : ANSWERS_MAX;
}

/* Prepares a job and lets it wait for slots. A job that asks for the state of the slots
 * is answered at once; a job with a wrong prompt is refused. */
static void arrive(pl_server *s, server_job *job)
{
    static const pl_generate_result none;
    if (job->kind == SERVER_SLOTS) {
        pl_json *list = pl_json_array();
        server_paths_write_slots(s->paths, list);
        job->parts[0].job = job;
        pl_json_write(list, 0, &job->parts[0].out.text);
        pl_json_destroy(&list);
        tell_end(&job->parts[0], PL_OK, NULL, &none);
        return;
    }
    const char *code = NULL;
    pl_status status = PL_OK;
    for (int i = 0; i < job->n_prompts && status == PL_OK; i++)
        status =
            prepare_prompt(s, &job->completion.prompts[i], &job->prompts[i], &code);
    for (int i = 0; i < job->n_parts && status == PL_OK; i++) {
        server_part *part = &job->parts[i];
        *part =
            (server_part){.job = job, .index = i, .options = job->completion.options};
        part->options.choice.seed += (uint64_t)(i % job->completion.n);
    }
    /* the largest number of bytes that the answers can take */
    const pl_completion *c = &job->completion;
    const pl_shape *shape = &s->options.mix->arm.shape;
    int64_t bytes = 0;
    if (status == PL_OK && job->kind == SERVER_EMBEDDING) {
        bytes = (int64_t)job->n_parts * shape->width * FLOAT_BYTES;
    } else if (status == PL_OK) {
        const int64_t context = shape->context;
        const int64_t scores = c->logprobs >= 0 ? (c->logprobs + 2) * SCORE_BYTES : 0;
        int64_t tokens = 0;
        for (int i = 0; i < job->n_prompts; i++) {
            int64_t n = context - pl_prompt_count(&job->prompts[i].tokens);
            n = c->options.max_tokens < n ? c->options.max_tokens : n;
            tokens += c->echo || c->options.prompt_scores ? context : n > 0 ? n : 0;
        }
        bytes = c->n * tokens * (TOKEN_BYTES + scores);
    }
    job->answer_bytes_max = bytes;
    if (bytes > answers_max(s))
        status = pl_fail(PL_ERR_USAGE,
                         "the answers to this request could take %lld MiB, and %lld "
                         "MiB are allowed; ask for fewer tokens, answers or logprobs",
                         (long long)(bytes >> 20), (long long)(answers_max(s) >> 20));
    if (status != PL_OK) {
        server_event *e =
            make_end(&job->parts[0], status, code ? code : code_of(status), &none);
        job->status = status;
        count_end(job);
        pl_queue_push(job->events, e);
        server_job_release(&job);
        return;
    }
    job->next = NULL;
    *s->last = job;
    s->last = &job->next;
}

/* Lets a part join a batch, or computes its embedding. *waits becomes true if the part
 * must wait. */
static pl_status admit_part(pl_server *s, server_part *part, bool *waits)
{
    server_job *job = part->job;
    server_prompt *prompt = &job->prompts[part->index / job->completion.n];
    PL_CHECK(check_job_wanted(job));
    /* The job takes the bytes of its answers, once, or waits until earlier answers have
     * been sent. Only this thread takes bytes; others give them back at any time. */
    const int64_t bytes = job->answer_bytes_max - job->answer_bytes,
                  most = answers_max(s),
                  own = pl_atomic_get(&address_slot(s, job->address)->answer_bytes),
                  all = pl_atomic_get(&s->answer_bytes);
    *waits = own + bytes > most || all + bytes > 2 * most;
    if (*waits)
        return PL_OK;
    add_answer_bytes(job, bytes);
    /* with `echo`, the answer's text begins with the prompt; a waiting part has it */
    const pl_completion *c = &job->completion;
    const pl_completion_prompt *asked = &c->prompts[part->index / c->n];
    const bool echoes = c->echo && part->out.text.len == 0;
    if (echoes && asked->text)
        pl_buf_append(&part->out.text, asked->text, strlen(asked->text));
    else if (echoes)
        PL_CHECK(pieces_decode(s->options.mix->tokenizer, asked->tokens,
                               (size_t)asked->n_tokens, &part->out.text));
    const int every = job->completion.route_every;
    if (every == 0)
        PL_CHECK(find_prompt_path(s, job, prompt));
    if (job->kind == SERVER_EMBEDDING) {
        const pl_generate_result result = {.n_prompt =
                                               pl_prompt_count(&prompt->tokens)};
        PL_CHECK(server_paths_embed(s->paths, prompt->path,
                                    pl_prompt_tokens(&prompt->tokens), result.n_prompt,
                                    &part->out.text, waits));
        if (!*waits) {
            part->joined = true;
            tell_end(part, PL_OK, NULL, &result);
        }
        return PL_OK;
    }
    *waits = every == 0 && prompt->path < 0;
    if (*waits)
        return PL_OK;
    pl_batch_request request = {.prompt = pl_prompt_tokens(&prompt->tokens),
                                .n_prompt = pl_prompt_count(&prompt->tokens),
                                .options = &part->options,
                                .emit = on_piece,
                                .done = on_part_done,
                                .wanted = check_part_wanted,
                                .context = part,
                                .asker = job->asker,
                                .score = on_score};
    if (every == 0)
        return server_paths_join(s->paths, prompt->path, &request, waits);
    return server_paths_join_all(s->paths, every, on_moved, &request, waits);
}

/* Lets the parts of a job join batches. If a part fails, all waiting parts end. Returns
 * true if no part waits any longer, so that the job leaves the queue. */
static bool admit(pl_server *s, server_job *job)
{
    int n_waiting = 0;
    pl_atomic_add(&job->owners, 1);
    for (int i = 0; i < job->n_parts && job->status == PL_OK; i++) {
        bool waits = false;
        if (job->parts[i].joined)
            continue;
        const pl_status status = admit_part(s, &job->parts[i], &waits);
        if (status != PL_OK)
            end_waiting_parts(job, status, code_of(status));
        else if (waits)
            n_waiting++;
        else
            job->parts[i].joined = true;
    }
    if (job->status != PL_OK) /* a part that joined earlier may have failed */
        end_waiting_parts(job, job->status, code_of(job->status));
    const bool all = n_waiting == 0 || job->status != PL_OK;
    if (all)
        leave_line(job);
    server_job_release(&job);
    return all;
}

/* ---- running ---- */
/* Takes jobs for at most TAKE_MS, or the first one. Clients whose prompts are refused
 * may send new ones as fast as they are read. */
static void take_incoming(pl_server *s, int timeout_ms)
{
    const double begun = pl_now();
    server_job *job = pl_queue_pop(s->incoming, timeout_ms);
    while (job) {
        arrive(s, job);
        job = pl_now() - begun < 1e-3 * TAKE_MS ? pl_queue_pop(s->incoming, 0) : NULL;
    }
}

static void end_waiting(pl_server *s)
{
    take_incoming(s, 0);
    while (s->first) {
        server_job *job = s->first;
        s->first = job->next;
        s->last = s->first ? s->last : &s->first;
        pl_atomic_add(&job->owners, 1);
        (void)pl_fail(PL_ERR_CANCELLED, "the server is ending before the request was "
                                        "answered; send it to another server");
        end_waiting_parts(job, PL_ERR_CANCELLED, "server_ending");
        server_job_release(&job);
    }
}

pl_status pl_server_run(pl_server *s, volatile sig_atomic_t *stop,
                        volatile sig_atomic_t *reload)
{
    int busy = 0;
    while (*stop < 2) {
        /* *stop is read only once per turn of this loop. So in a turn that may end the
         * server, new jobs are refused from the beginning. */
        bool ending = *stop > 0;
        pl_atomic_set(&s->draining, ending);
        if (*reload) {
            *reload = 0;
            const bool has_keys = !s->reload || s->reload(s->reload_context) == PL_OK;
            if (!has_keys)
                pl_log(PL_LOG_WARN, "serve.keys_failed",
                       "error=\"%s\" reason=\"the old keys are still valid\"",
                       pl_last_error());
            if (server_paths_reload(s->paths) != PL_OK)
                pl_log(PL_LOG_WARN, "serve.reload_failed", "error=\"%s\"",
                       pl_last_error());
            else if (has_keys)
                pl_log(PL_LOG_INFO, "serve.reloaded", "run=\"%s\"",
                       s->options.mix->dir);
        }
        /* jobs wait without a busy slot if they have used up their time for routing */
        take_incoming(s, busy > 0 || s->first ? 0 : IDLE_MS);
        server_job **at = &s->first;
        while (*at) {
            server_job *job = *at, *next = job->next;
            if (admit(s, job))
                *at = next;
            else
                at = &job->next;
        }
        s->last = at;
        busy = server_paths_step(s->paths);
        pl_atomic_add(&s->counts.steps, busy);
        pl_atomic_set(&s->counts.active, server_paths_active(s->paths));
        const pl_pool_counts modules = server_paths_modules(s->paths);
        server_counters *n = &s->counts;
        pl_atomic_set(&n->loaded, server_paths_loaded(s->paths));
        pl_atomic_set(&n->modules, modules.n_modules);
        pl_atomic_set(&n->module_bytes, (int64_t)modules.bytes);
        pl_atomic_set(&n->modules_read, (int64_t)modules.n_read);
        if (ending && pl_atomic_get(&s->counts.open) == 0 && busy == 0)
            return PL_OK;
    }
    /* All jobs end with an error. The front gets 2 s to send the errors to clients. */
    pl_atomic_set(&s->draining, true);
    server_paths_unload(s->paths);
    for (int i = 0; i < 20 && pl_atomic_get(&s->counts.open) > 0; i++) {
        end_waiting(s);
        pl_sleep_ms(IDLE_MS);
    }
    return PL_OK;
}

/* ---- for the front ---- */
/* Adds 1 to the counter if it is below `most`; otherwise returns false. */
static bool take_counted_place(int *count, int most)
{
    if (pl_atomic_add(count, 1) < most)
        return true;
    pl_atomic_sub(count, 1);
    return false;
}

void server_on_reload(pl_server *s, pl_status (*reload)(void *context), void *context)
{
    s->reload = reload;
    s->reload_context = context;
}

/* On loopback all clients of this machine have one address. */
void server_limit_addresses(pl_server *s, bool loopback)
{
    if (s->options.per_address < 0)
        s->options.per_address =
            loopback ? s->options.queue + s->options.slots : PER_ADDRESS;
}

/* Makes a job. The front hands the job to the engine through the queue `incoming`. */
static pl_status create_job(pl_server *s, server_kind kind, pl_completion *completion,
                            server_job **out)
{
    server_job *job = pl_alloc(sizeof *job);
    pl_status status = pl_queue_create(&job->events);
    *out = NULL;
    if (status != PL_OK) {
        pl_free(job);
        return status;
    }
    job->server = s;
    job->kind = kind;
    job->completion = *completion;
    memset(completion, 0, sizeof *completion);
    job->owners = 2;
    job->deadline = pl_now() + s->options.timeout_s;
    job->n_prompts = job->completion.n_prompts;
    job->prompts = pl_alloc((size_t)job->n_prompts * sizeof *job->prompts);
    job->n_parts = kind == SERVER_SLOTS ? 1 : job->n_prompts * job->completion.n;
    job->parts = pl_alloc((size_t)job->n_parts * sizeof *job->parts);
    *out = job;
    return PL_OK;
}

pl_status server_submit(pl_server *s, server_kind kind, pl_completion *completion,
                        server_asker asker, server_job **out)
{
    int *own = &address_slot(s, asker.address)->n, most = s->options.per_address;
    *out = NULL;
    if (pl_atomic_get(&s->draining))
        return pl_fail(PL_ERR_BUSY,
                       "the server is ending; send the request to another server");
    if (!take_counted_place(own, most > 0 ? most : INT32_MAX)) {
        pl_atomic_add(&s->counts.refused, 1);
        return pl_fail(PL_ERR_BUSY,
                       "%d requests from this client's address are not finished, and "
                       "more are not allowed (serve --per-address); try again later",
                       most);
    }
    if (!take_counted_place(&s->counts.waiting, s->options.queue)) {
        pl_atomic_sub(own, 1);
        pl_atomic_add(&s->counts.refused, 1);
        return pl_fail(PL_ERR_BUSY,
                       "%d requests are waiting, and more are not allowed (serve "
                       "--queue); try again later",
                       s->options.queue);
    }
    pl_status status = create_job(s, kind, completion, out);
    if (status != PL_OK) {
        pl_atomic_sub(own, 1);
        pl_atomic_sub(&s->counts.waiting, 1);
        return status;
    }
    (*out)->address = asker.address;
    if (asker.user[0]) {
        pl_hash hash;
        pl_hash_of("asker", asker.user, strlen(asker.user), &hash);
        memcpy(&(*out)->asker, hash.bytes, sizeof(*out)->asker);
    }
    (*out)->in_line = (*out)->of_address = true;
    (*out)->id = pl_atomic_add(&s->n_jobs, 1);
    pl_queue_push(s->incoming, *out);
    return PL_OK;
}

pl_status server_ask_slots(pl_server *s, server_job **out)
{
    pl_completion nothing = {.n = 1};
    *out = NULL;
    if (server_is_draining(s)) /* nobody may answer any more */
        return pl_fail(PL_ERR_BUSY, "the server is ending");
    PL_CHECK(create_job(s, SERVER_SLOTS, &nothing, out));
    pl_queue_push(s->incoming, *out);
    return PL_OK;
}

server_counters *server_counts(pl_server *s)
{
    return &s->counts;
}

bool server_is_draining(const pl_server *s)
{
    return pl_atomic_get(&s->draining);
}

const server_paths *server_paths_of(const pl_server *s)
{
    return s->paths;
}

const pl_server_options *server_options(const pl_server *s)
{
    return &s->options;
}

/* ---- opening ---- */
pl_status pl_server_open(const pl_server_options *options, pl_server **out)
{
    pl_server *s = pl_alloc(sizeof *s);
    s->options = *options;
    if (s->options.slots > options->mix->arm.shape.context)
        s->options.slots = options->mix->arm.shape.context;
    s->last = &s->first;
    pl_status status = pl_queue_create(&s->incoming);
    if (status == PL_OK)
        status = server_paths_open(&s->options, &s->paths);
    if (status != PL_OK)
        pl_server_close(&s);
    *out = s;
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
