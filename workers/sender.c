/* The sender's thread: one update a module to that module's home, then the path's
 * state, which ends the task. A worker that dies in between loses nothing: whoever
 * repeats the task sends the same bytes, and what was accepted is recognised. */
#include "workers/worker_parts.h"

struct sender {
    const char *name, *device; /* of the worker */
    pl_client *homes;
    worker_task *task; /* being sent */
    pl_queue *tasks, *sent;
    pl_thread *thread;
};

static pl_status judge(const char *name, pl_submit_result result, const char *text)
{
    switch (result) {
    case PL_SUBMIT_ACCEPTED:
    case PL_SUBMIT_DUPLICATE:
        return PL_OK;
    case PL_SUBMIT_FENCED:
        return pl_fail(PL_ERR_STALE, "%s: %s", name, text);
    case PL_SUBMIT_UNKNOWN_BLOB:
    case PL_SUBMIT_REJECTED:
    default:
        return pl_fail(PL_ERR_DATA, "%s was rejected: %s", name, text);
    }
}

static void fill_contribution(const sender *s, pl_contribution *c)
{
    const worker_task *task = s->task;
    const train_job *job = &task->job;
    pl_copy_text(c->worker, sizeof c->worker, s->name);
    pl_copy_text(c->device, sizeof c->device, s->device);
    pl_copy_text(c->codec, sizeof c->codec, task->arm->arm.outer.codec);
    c->path = task->path;
    c->replica = task->replica;
    c->phase = task->phase;
    c->first_sample = job->first_sample;
    c->n_samples = job->n_samples;
    c->n_tokens = job->n_tokens;
    c->loss = job->loss;
    c->seconds = job->seconds;
    c->token = task->token;
}

/* A task's updates, encoded one behind the other. */
typedef struct parcel {
    pl_submission *submissions;
    pl_submit_result *results; /* of the modules, then of the path */
    char (*texts)[256];
    char (*names)[96];
    float *update;    /* of the largest slot */
    uint8_t *encoded; /* all slots, each from a multiple of 64 on */
} parcel;

static size_t room_of(const worker_task *task, int slot)
{
    size_t n = pl_topology_slot(task->arm->topology, slot)->n_params;
    return (size_t)(pl_codec_bytes("f32", n) + 63) / 64 * 64;
}

static pl_status alloc_parcel(const worker_task *task, int n, parcel *p)
{
    size_t most = 0, total = 0;
    for (int slot = 0; slot < n; slot++) {
        size_t params = pl_topology_slot(task->arm->topology, slot)->n_params;
        most = params > most ? params : most;
        total += room_of(task, slot);
    }
    p->submissions = pl_alloc((size_t)n * sizeof *p->submissions);
    p->results = pl_alloc((size_t)(n + 1) * sizeof *p->results);
    p->texts = pl_alloc((size_t)(n + 1) * sizeof *p->texts);
    p->names = pl_alloc((size_t)n * sizeof *p->names);
    PL_RETURN_IF(pl_try_alloc(most * sizeof(float), "an update", (void **)&p->update));
    return pl_try_alloc(total, "a path's updates", (void **)&p->encoded);
}

static void free_parcel(parcel *p)
{
    pl_free(p->submissions);
    pl_free(p->results);
    pl_free(p->texts);
    pl_free(p->names);
    pl_free_aligned(p->update);
    pl_free_aligned(p->encoded);
}

/* The pseudo-gradient of one slot: module at phase start minus module now. */
static pl_status pack_module(sender *s, int slot, parcel *p, uint8_t *room)
{
    const worker_task *task = s->task;
    const pl_topology *t = task->arm->topology;
    const pl_slot *place = pl_topology_slot(t, slot);
    const float *start = task->start + place->offset;
    const float *now = task->job.params + place->offset;
    const char *codec = task->arm->arm.outer.codec;
    pl_submission *out = &p->submissions[slot];
    for (size_t i = 0; i < place->n_params; i++)
        p->update[i] = start[i] - now[i];
    pl_arm_module_name(&task->arm->arm, t,
                       pl_topology_module_of_path(t, slot, task->path), p->names[slot]);
    fill_contribution(s, &out->contribution);
    out->module = p->names[slot];
    out->base = task->bases[slot];
    out->data = room;
    out->bytes = pl_codec_bytes(codec, place->n_params);
    return pl_codec_encode(codec, p->update, place->n_params, room);
}

static void describe_path(const sender *s, pl_path_state *state)
{
    const worker_task *task = s->task;
    const train_job *job = &task->job;
    memset(state, 0, sizeof *state);
    pl_copy_text(state->name, sizeof state->name, task->name);
    pl_copy_text(state->worker, sizeof state->worker, s->name);
    state->phase = task->phase + 1;
    state->samples = job->first_sample + job->n_samples;
    state->n_tokens = task->n_tokens_before + job->n_tokens;
    state->loss = job->loss;
    state->seconds = task->seconds_before + job->seconds;
    state->moments = task->moments_hash;
}

static pl_status send_task(sender *s)
{
    worker_task *task = s->task;
    const pl_topology *t = task->arm->topology;
    uint64_t bytes = 2 * pl_topology_path_params(t) * sizeof(float);
    int n = pl_topology_n_slots(t);
    pl_status status = PL_OK;
    pl_path_state state;
    parcel p = {0};
    PL_TRY(alloc_parcel(task, n, &p));
    uint8_t *room = p.encoded;
    for (int slot = 0; slot < n; room += room_of(task, slot), slot++)
        PL_TRY(pack_module(s, slot, &p, room));
    pl_blob_hash(task->job.moments_out, bytes, &task->moments_hash);
    describe_path(s, &state);
    PL_TRY(pl_client_submit_task(s->homes, p.submissions, n, &state, task->token,
                                 task->job.moments_out, bytes, p.results, p.texts));
    for (int slot = 0; slot < n; slot++)
        PL_TRY(judge(p.names[slot], p.results[slot], p.texts[slot]));
    PL_TRY(judge(task->name, p.results[n], p.texts[n]));
done:
    free_parcel(&p);
    return status;
}

static pl_status check_lease(void *context)
{
    const sender *s = context;
    if (s->task && worker_task_lost(s->task))
        return pl_fail(PL_ERR_STALE, "the lease of %s was given to another worker",
                       s->task->name);
    return PL_OK;
}

static void run(void *context)
{
    sender *s = context;
    for (;;) {
        void *item = pl_queue_pop(s->tasks, -1);
        if (item == (void *)s) /* the mark of destroy */
            return;
        if (!item)
            continue;
        s->task = item;
        s->task->status = check_lease(s);
        if (s->task->status == PL_OK)
            s->task->status = send_task(s);
        if (s->task->status != PL_OK)
            pl_copy_text(s->task->error, sizeof s->task->error, pl_last_error());
        pl_queue_push(s->sent, item);
    }
}

pl_status sender_create(const worker *w, sender **out)
{
    pl_status status = PL_OK;
    const char *list[PL_HOMES_MAX];
    sender *s = pl_alloc(sizeof *s);
    s->name = w->options->name;
    s->device = w->device;
    for (int i = 0; i < w->n_homes; i++)
        list[i] = w->homes_at[i];
    pl_client_options options = {.homes = list,
                                 .n_homes = w->n_homes,
                                 .patience_ms = w->options->patience_ms,
                                 .idle = check_lease,
                                 .idle_context = s};
    PL_TRY(pl_client_create(&options, &s->homes));
    PL_TRY(pl_queue_create(&s->tasks));
    PL_TRY(pl_queue_create(&s->sent));
    PL_TRY(pl_thread_start("sender", run, s, &s->thread));
    *out = s;
    s = NULL;
done:
    sender_destroy(s);
    return status;
}

void sender_destroy(sender *s)
{
    if (!s)
        return;
    if (s->thread) {
        pl_queue_push(s->tasks, s);
        pl_thread_join(&s->thread);
    }
    pl_client_destroy(&s->homes);
    pl_queue_destroy(&s->tasks);
    pl_queue_destroy(&s->sent);
    pl_free(s);
}

void sender_push(sender *s, worker_task *task)
{
    pl_queue_push(s->tasks, task);
}

worker_task *sender_take(sender *s)
{
    return pl_queue_pop(s->sent, 0);
}

int sender_fd(const sender *s)
{
    return pl_queue_fd(s->sent);
}
