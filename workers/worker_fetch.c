/* What a task depends on, fetched by hash: arm definition, data shard, modules at the
 * phase's version, inner optimizer state. What is here already is not asked for. */
#include "workers/worker_parts.h"

static pl_status fetch_arm(worker *w, const pl_hash *blob, const char *name,
                           const worker_arm **out)
{
    pl_buf bytes = {0};
    char object[PL_MODULE_NAME_MAX];
    pl_status status = PL_OK;
    for (int i = 0; i < w->n_arms; i++)
        if (pl_hash_equal(&w->arms[i]->blob, blob)) {
            *out = w->arms[i];
            return PL_OK;
        }
    worker_arm *a = pl_alloc(sizeof *a);
    a->blob = *blob;
    snprintf(object, sizeof object, "arm/%s", name);
    PL_TRY(pl_client_get_blob(w->homes, object, blob, &bytes));
    PL_TRY(pl_arm_decode(bytes.data, bytes.len, &a->arm));
    PL_TRY(pl_topology_create(&a->arm.shape, &a->arm.spec, &a->topology));
    w->arms = pl_grow(w->arms, (size_t)(w->n_arms + 1) * sizeof(worker_arm *));
    w->arms[w->n_arms++] = a;
    *out = a;
    a = NULL;
done:
    if (a)
        pl_arm_clear(&a->arm);
    pl_free(a);
    pl_buf_destroy(&bytes);
    return status;
}

/* A shard lies in a file named by its hash; workers of one machine share it. */
static pl_status shard_file(worker *w, const char *object, const pl_hash *blob,
                            char path[PL_PATH_MAX])
{
    char name[PL_HASH_TEXT + 8], hex[PL_HASH_TEXT];
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    pl_hash_format(blob, hex);
    snprintf(name, sizeof name, "%s.tok", hex);
    pl_join(path, w->options->cache, name);
    if (pl_path_exists(path))
        return PL_OK;
    PL_TRY(pl_make_folders(w->options->cache));
    PL_TRY(pl_client_get_blob(w->homes, object, blob, &bytes));
    PL_TRY(pl_replace_file(path, bytes.data, bytes.len));
done:
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status fetch_shard(worker *w, worker_task *task)
{
    const pl_arm *arm = &task->arm->arm;
    const pl_hash *blob = &arm->shards[task->path];
    char object[PL_MODULE_NAME_MAX], name[PL_NAME_MAX], path[PL_PATH_MAX];
    pl_tokens *tokens = NULL;
    for (int i = 0; i < w->n_shards; i++)
        if (pl_hash_equal(&w->shards[i]->blob, blob)) {
            task->shard = w->shards[i];
            return PL_OK;
        }
    pl_topology_path_name(task->arm->topology, task->path, name);
    snprintf(object, sizeof object, "shard/%s/%s", arm->name, name);
    PL_RETURN_IF(shard_file(w, object, blob, path));
    pl_status status = pl_tokens_open(path, true, &tokens);
    if (status == PL_ERR_DAMAGED) { /* the cache rotted: fetch it once more */
        PL_RETURN_IF(pl_remove_tree(path));
        PL_RETURN_IF(shard_file(w, object, blob, path));
        status = pl_tokens_open(path, true, &tokens);
    }
    PL_RETURN_IF(status);
    worker_shard *s = pl_alloc(sizeof *s);
    s->blob = *blob;
    s->tokens = tokens;
    w->shards = pl_grow(w->shards, (size_t)(w->n_shards + 1) * sizeof(worker_shard *));
    w->shards[w->n_shards++] = s;
    task->shard = s;
    return PL_OK;
}

/* `floats` of a blob, from the cache or the home, into out. */
static pl_status fetch_floats(worker *w, const char *name, const pl_hash *blob,
                              size_t floats, float *out)
{
    pl_buf bytes = {0};
    uint64_t have = 0;
    pl_status status = PL_OK;
    const void *data = cache_get(w->blobs, blob, &have);
    if (!data) {
        PL_TRY(pl_client_get_blob(w->homes, name, blob, &bytes));
        cache_put(w->blobs, blob, bytes.data, bytes.len);
        data = bytes.data;
        have = bytes.len;
    }
    if (have != (uint64_t)floats * sizeof *out)
        PL_TRY(pl_fail(PL_ERR_PROTO, "%s has %llu bytes instead of %zu", name,
                       (unsigned long long)have, floats * sizeof *out));
    memcpy(out, data, (size_t)have);
done:
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status fetch_modules(worker *w, worker_task *task)
{
    const pl_topology *t = task->arm->topology;
    int n_slots = pl_topology_n_slots(t);
    task->bases = pl_alloc((size_t)n_slots * sizeof *task->bases);
    PL_RETURN_IF(pl_try_alloc(pl_topology_path_params(t) * sizeof(float),
                              "a path's modules", (void **)&task->start));
    for (int slot = 0; slot < n_slots; slot++) {
        const pl_slot *s = pl_topology_slot(t, slot);
        char name[96];
        pl_arm_module_name(&task->arm->arm, t,
                           pl_topology_module_of_path(t, slot, task->path), name);
        PL_RETURN_IF(pl_client_get_version(w->homes, name, (uint64_t)task->phase,
                                           &task->bases[slot]));
        PL_RETURN_IF(fetch_floats(w, name, &task->bases[slot], s->n_params,
                                  task->start + s->offset));
    }
    return PL_OK;
}

static pl_status fetch_moments(worker *w, worker_task *task)
{
    pl_path_state state;
    size_t n = pl_topology_path_params(task->arm->topology);
    PL_RETURN_IF(pl_client_get_path(w->homes, task->name, &state));
    if (state.phase != task->phase)
        return pl_fail(PL_ERR_STALE, "%s has finished phase %lld already", task->name,
                       (long long)state.phase);
    task->n_tokens_before = state.n_tokens;
    task->seconds_before = state.seconds;
    if (pl_hash_none(&state.moments))
        return PL_OK;
    PL_RETURN_IF(
        pl_try_alloc(2 * n * sizeof(float), "moments", (void **)&task->moments));
    return fetch_floats(w, task->name, &state.moments, 2 * n, task->moments);
}

pl_status worker_fetch(worker *w, worker_task *task, const pl_hash *arm_blob)
{
    char arm_name[PL_ARM_NAME_MAX];
    size_t len = strcspn(task->name, "/");
    snprintf(arm_name, sizeof arm_name, "%.*s", (int)len, task->name);
    PL_RETURN_IF(fetch_arm(w, arm_blob, arm_name, &task->arm));
    if (task->path >= task->arm->arm.n_shards)
        return pl_fail(PL_ERR_PROTO, "the hub named path %d of %d", task->path,
                       task->arm->arm.n_shards);
    pl_arm_path_name(&task->arm->arm, task->arm->topology, task->path, task->replica,
                     task->name);
    PL_RETURN_IF(fetch_shard(w, task));
    PL_RETURN_IF(fetch_modules(w, task));
    return fetch_moments(w, task);
}

void worker_task_free(worker_task **task_)
{
    worker_task *task = *task_;
    if (!task)
        return;
    train_job_clear(&task->job);
    pl_free_aligned(task->start);
    pl_free_aligned(task->moments);
    pl_free(task->bases);
    pl_free(task);
    *task_ = NULL;
}

void worker_forget(worker *w)
{
    for (int i = 0; i < w->n_arms; i++) {
        pl_topology_destroy(&w->arms[i]->topology);
        pl_arm_clear(&w->arms[i]->arm);
        pl_free(w->arms[i]);
    }
    for (int i = 0; i < w->n_shards; i++) {
        pl_tokens_close(&w->shards[i]->tokens);
        pl_free(w->shards[i]);
    }
    pl_free(w->arms);
    pl_free(w->shards);
}
