/* One update a module to that module's home, then the path's state, which ends the
 * task. A worker that dies in between loses nothing: whoever repeats the task sends the
 * same bytes, and what was accepted is recognised. */
#include "workers/worker_parts.h"

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

static void fill_contribution(const worker *w, pl_contribution *c)
{
    const worker_task *task = &w->task;
    const train_job *job = &task->job;
    pl_copy_text(c->worker, sizeof c->worker, w->options->name);
    pl_copy_text(c->device, sizeof c->device, w->device);
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

/* The pseudo-gradient of one slot: module at phase start minus module now. */
static pl_status prepare_module(worker *w, int slot, float *update, uint8_t *encoded,
                                pl_submission *s)
{
    worker_task *task = &w->task;
    const pl_slot *place = pl_topology_slot(task->arm->topology, slot);
    const float *start = task->start + place->offset;
    const float *now = task->job.params + place->offset;
    const char *codec = task->arm->arm.outer.codec;
    for (size_t i = 0; i < place->n_params; i++)
        update[i] = start[i] - now[i];
    fill_contribution(w, &s->contribution);
    s->base = task->bases[slot];
    s->data = encoded;
    s->bytes = pl_codec_bytes(codec, place->n_params);
    return pl_codec_encode(codec, update, place->n_params, encoded);
}

typedef struct batch {
    pl_submission *submissions;
    pl_submit_result *results;
    char (*texts)[256];
    char (*names)[96];
    float *update;    /* of the largest slot */
    uint8_t *encoded; /* all slots, each from a multiple of 64 on */
} batch;

static uint64_t room_of(const worker *w, int slot)
{
    size_t n = pl_topology_slot(w->task.arm->topology, slot)->n_params;
    return (pl_codec_bytes("f32", n) + 63) / 64 * 64;
}

static pl_status alloc_batch(const worker *w, int n, batch *b)
{
    size_t most = 0, total = 0;
    for (int slot = 0; slot < n; slot++) {
        size_t params = pl_topology_slot(w->task.arm->topology, slot)->n_params;
        most = params > most ? params : most;
        total += (size_t)room_of(w, slot);
    }
    b->submissions = pl_alloc((size_t)n * sizeof *b->submissions);
    b->results = pl_alloc((size_t)n * sizeof *b->results);
    b->texts = pl_alloc((size_t)n * sizeof *b->texts);
    b->names = pl_alloc((size_t)n * sizeof *b->names);
    PL_RETURN_IF(pl_try_alloc(most * sizeof(float), "an update", (void **)&b->update));
    return pl_try_alloc(total, "a path's updates", (void **)&b->encoded);
}

/* All modules together: one commit of the home for the whole task. */
static pl_status send_modules(worker *w)
{
    pl_status status = PL_OK;
    const pl_topology *t = w->task.arm->topology;
    int n = pl_topology_n_slots(t);
    uint64_t at = 0;
    batch b = {0};
    PL_TRY(alloc_batch(w, n, &b));
    for (int slot = 0; slot < n; slot++) {
        PL_TRY(prepare_module(w, slot, b.update, b.encoded + at, &b.submissions[slot]));
        at += room_of(w, slot);
        pl_arm_module_name(&w->task.arm->arm, t,
                           pl_topology_module_of_path(t, slot, w->task.path),
                           b.names[slot]);
        b.submissions[slot].module = b.names[slot];
    }
    PL_TRY(pl_client_submit_all(w->homes, b.submissions, n, b.results, b.texts));
    for (int slot = 0; slot < n; slot++)
        PL_TRY(judge(b.names[slot], b.results[slot], b.texts[slot]));
done:
    pl_free(b.submissions);
    pl_free(b.results);
    pl_free(b.texts);
    pl_free(b.names);
    pl_free_aligned(b.update);
    pl_free_aligned(b.encoded);
    return status;
}

static pl_status send_path(worker *w)
{
    worker_task *task = &w->task;
    const train_job *job = &task->job;
    uint64_t bytes = 2 * pl_topology_path_params(task->arm->topology) * sizeof(float);
    pl_path_state state;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    char text[256];
    memset(&state, 0, sizeof state);
    pl_copy_text(state.name, sizeof state.name, task->name);
    pl_copy_text(state.worker, sizeof state.worker, w->options->name);
    state.phase = task->phase + 1;
    state.samples = job->first_sample + job->n_samples;
    state.n_tokens = task->n_tokens_before + job->n_tokens;
    state.loss = job->loss;
    state.seconds = task->seconds_before + job->seconds;
    state.moments = job->moments_hash;
    cache_put(w->blobs, &state.moments, job->moments_out, bytes);
    PL_RETURN_IF(pl_client_submit_path(w->homes, &state, task->token, job->moments_out,
                                       bytes, &result, text));
    return judge(task->name, result, text);
}

pl_status worker_send(worker *w)
{
    PL_RETURN_IF(send_modules(w));
    return send_path(w);
}
