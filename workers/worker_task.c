/* A task in the worker's memory: the slots of its path, the data with which training
 * begins, and its end. Nothing here reads a file or a socket. */
#include "workers/worker_internal.h"

const pl_contract *worker_contract(const worker_task *task, int slot)
{
    return &task->arm->contracts[pl_topology_module_of_path(task->arm->topology, slot,
                                                            task->path)];
}

pl_holder worker_slot(const worker_task *task, int slot, float *state)
{
    const pl_slot *place = pl_topology_slot(task->arm->topology, slot);
    const pl_path_layout *l = &task->layout;
    size_t n = task->n_params, at = place->offset;
    return (pl_holder){
        .of = worker_contract(task, slot),
        .path = task->path,
        .phase = task->phase,
        .base = task->base + at,
        .params = l->params < 0 ? NULL : state + (size_t)l->params * n + at,
        .velocity = l->velocity < 0 ? NULL : state + (size_t)l->velocity * n + at,
        .last = l->last < 0 ? NULL : state + (size_t)l->last * n + at,
        .before = l->before < 0 ? NULL : state + (size_t)l->before * n + at};
}

bool worker_takes_predictions(const worker_task *task)
{
    return task->after && !task->after->remakes;
}

bool worker_restarts(const worker_task *task)
{
    return !task->after && task->layout.params >= 0 && task->phase > 0 &&
           pl_hash_none(&task->known.moments);
}

pl_status worker_begin(worker_task *task)
{
    const pl_topology *topology = task->arm->topology;
    const int n_slots = pl_topology_n_slots(topology);
    task->first_step = task->phase * task->arm->arm.inner.tau;
    task->start = task->base;
    if (task->layout.params >= 0)
        PL_CHECK(pl_try_alloc_bare(task->n_params * sizeof(float),
                                   "a path's parameters", (void **)&task->start));
    for (int slot = 0; task->start != task->base && slot < n_slots; slot++) {
        const pl_holder s = worker_slot(task, slot, task->state);
        const size_t at = pl_topology_slot(topology, slot)->offset;
        const float *other = task->has_other[slot] ? task->other + at : NULL;
        if (worker_restarts(task))
            memcpy(task->start + at, s.params, s.of->n_params * sizeof *s.params);
        else
            PL_CHECK(pl_holder_begin(&s, other, other ? other + task->n_params : NULL,
                                     task->start + at));
    }
    int marked = 0;
    task->mixed = pl_alloc((size_t)n_slots * sizeof *task->mixed);
    for (int slot = 0; slot < n_slots; slot++)
        marked += task->mixed[slot] =
            pl_round_takes(worker_contract(task, slot), task->phase) > 0;
    if (marked == 0) {
        pl_free(task->mixed);
        task->mixed = NULL;
    }
    task->begun = true;
    return PL_OK;
}

pl_status worker_begin_after(worker_task *task, const worker_task *before)
{
    const pl_topology *t = task->arm->topology;
    size_t bytes = (size_t)task->layout.n_vectors * task->n_params * sizeof(float);
    const train_job *job = &before->job;
    PL_CHECK(pl_try_alloc(bytes, "a path's state", (void **)&task->state));
    memcpy(task->state, job->state, bytes);
    if (!before->remakes) { /* else the home has said these sums */
        task->work_before = before->work_before;
        pl_work_add(&task->work_before, &job->work);
    }
    const bool predicted = worker_takes_predictions(task);
    for (int slot = 0; predicted && slot < pl_topology_n_slots(t); slot++) {
        if (!worker_contract(task, slot)->predicts)
            continue;
        const pl_slot *place = pl_topology_slot(t, slot);
        pl_version_facts *facts = &task->bases[slot];
        float *base = task->base + place->offset;
        const uint64_t n = place->n_params * sizeof *base;
        memcpy(base, before->base + place->offset, (size_t)n);
        facts->number = before->bases[slot].number + 1;
        facts->norm = before->predicted_norm[slot];
        pl_blob_hash(base, n, &facts->params);
    }
    worker_task_free(&task->past);
    return worker_begin(task);
}

void worker_drop_start(worker_task *task)
{
    if (task->start != task->base)
        pl_free(task->start);
    task->start = NULL;
}

pl_status worker_take_lease(worker_task *task, pl_bytes lease, const uint8_t *key)
{
    if (lease.len > PL_LEASE_MAX || (lease.len > 0) != (key != NULL))
        return pl_fail(
            PL_ERR_PROTO,
            "the hub sent a lease of %zu bytes; a lease has at most %d, and a key",
            lease.len, PL_LEASE_MAX);
    if (lease.len == 0)
        return PL_OK;
    worker_lease *newest = pl_alloc(sizeof *newest);
    *newest = (worker_lease){.sealed.len = lease.len, .before = task->lease};
    memcpy(newest->sealed.bytes, lease.at, lease.len);
    memcpy(newest->sealed.key.bytes, key, sizeof newest->sealed.key.bytes);
    __atomic_store_n(&task->lease, newest, __ATOMIC_RELEASE);
    return PL_OK;
}

void worker_task_free(worker_task **task_)
{
    worker_task *task = *task_;
    if (!task)
        return;
    if (task->packed_state != task->job.state)
        pl_free(task->packed_state);
    worker_drop_start(task);
    pl_free_all(task->job.params, task->job.state, task->base, task->state,
                task->own_state, task->other);
    worker_task_free(&task->past);
    pl_free_all(task->predicted_norm, task->made, task->has_other, task->peers,
                task->met, task->bases, task->mixed);
    while (task->lease) {
        worker_lease *before = task->lease->before;
        pl_free(task->lease);
        task->lease = before;
    }
    pl_free(task);
    *task_ = NULL;
}

void worker_forget(worker *w)
{
    for (int i = 0; i < w->n_arms; i++) {
        pl_free(w->arms[i]->contracts);
        pl_topology_destroy(&w->arms[i]->topology);
        pl_arm_clear(&w->arms[i]->arm);
        pl_free(w->arms[i]);
    }
    for (int i = 0; i < w->n_shards; i++) {
        pl_tokens_close(&w->shards[i]->tokens);
        pl_free(w->shards[i]);
    }
    pl_free_all(w->arms, w->shards);
}
