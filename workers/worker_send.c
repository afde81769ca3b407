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
static pl_status send_module(worker *w, int slot, float *update, uint8_t *encoded)
{
    worker_task *task = &w->task;
    const pl_topology *t = task->arm->topology;
    const pl_slot *s = pl_topology_slot(t, slot);
    const float *start = task->start + s->offset, *now = task->job.params + s->offset;
    char name[96], text[256];
    pl_submission submission;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    for (size_t i = 0; i < s->n_params; i++)
        update[i] = start[i] - now[i];
    const char *codec = task->arm->arm.outer.codec;
    PL_RETURN_IF(pl_codec_encode(codec, update, s->n_params, encoded));
    memset(&submission, 0, sizeof submission);
    pl_arm_module_name(&task->arm->arm, t,
                       pl_topology_module_of_path(t, slot, task->path), name);
    fill_contribution(w, &submission.contribution);
    submission.module = name;
    submission.base = task->bases[slot];
    submission.data = encoded;
    submission.bytes = pl_codec_bytes(codec, s->n_params);
    PL_RETURN_IF(pl_client_submit(w->homes, &submission, &result, text));
    return judge(name, result, text);
}

static pl_status send_modules(worker *w)
{
    pl_status status = PL_OK;
    const pl_topology *t = w->task.arm->topology;
    float *update = NULL;
    uint8_t *encoded = NULL;
    size_t most = 0;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
        if (pl_topology_slot(t, slot)->n_params > most)
            most = pl_topology_slot(t, slot)->n_params;
    PL_TRY(pl_try_alloc(most * sizeof *update, "an update", (void **)&update));
    PL_TRY(pl_try_alloc((size_t)pl_codec_bytes("f32", most), "an update",
                        (void **)&encoded));
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
        PL_TRY(send_module(w, slot, update, encoded));
done:
    pl_free_aligned(update);
    pl_free_aligned(encoded);
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
