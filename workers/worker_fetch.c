/* Fetches by hash what a task depends on: the arm's definition, the data shard, and the
 * versions of modules that the phase needs. Data that the worker already has is not
 * fetched again. worker_mates.c fetches the updates of mates, and worker_state.c the
 * state of the path. */
#include "workers/worker_internal.h"

/* Every home gets the definition. The home of the path has told the hub of it, while
 * others may not have it yet. */
static pl_status fetch_arm(worker *w, const pl_hash *blob, const char *path,
                           const worker_arm **out)
{
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    for (int i = 0; i < w->n_arms; i++)
        if (pl_hash_equal(&w->arms[i]->blob, blob)) {
            *out = w->arms[i];
            return PL_OK;
        }
    worker_arm *a = pl_alloc(sizeof *a);
    a->blob = *blob;
    PL_TRY(pl_client_get_blob(w->homes, path, blob, &bytes));
    PL_TRY(pl_arm_decode(bytes.data, bytes.len, &a->arm));
    PL_TRY(pl_topology_create(&a->arm.shape, &a->arm.spec, &a->topology));
    a->contracts = pl_contracts_create(&a->arm, a->topology);
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

uint64_t pl_worker_cache_bytes(const pl_arm *arm, const pl_topology *topology,
                               uint64_t most)
{
    size_t n = pl_topology_path_params(topology), kept = n;
    if (arm->outer.down.codec[PL_ROLE_MLP] > PL_CODEC_F32) {
        /* A change can be used only by a worker that has the version before. */
        kept = 0;
        for (int m = 0; m < pl_topology_n_modules(topology); m++)
            kept += pl_topology_slot(topology, pl_topology_module_slot(topology, m))
                        ->n_params;
    }
    uint64_t bytes = kept * sizeof(float);
    if (arm->outer.state_every <= 1) /* else states are in files */
        bytes += pl_path_state_bytes(arm, n);
    return bytes < most ? bytes : most;
}

/* Writes to `path` the name of the file with the shard, and fetches the shard if the
 * file does not exist. The name is the shard's hash, so that all workers of a machine
 * use the same file. */
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

/* Opens the shard if the file is complete and has the requested hash. */
static pl_status open_shard(const char *path, const pl_hash *blob, pl_tokens **out)
{
    pl_mapping file;
    pl_hash found;
    PL_CHECK(pl_map_file(path, &file));
    pl_blob_hash(file.data, file.len, &found);
    pl_unmap_file(&file);
    if (!pl_hash_equal(&found, blob))
        return pl_fail(PL_ERR_DAMAGED,
                       "the bytes of %s do not have the hash in the name of the file",
                       path);
    return pl_tokens_open(path, true, out);
}

/* Gets the token file that is stored as the object `object`: finds it among the open
 * files or in the cache folder, or fetches it from the home. */
static pl_status fetch_tokens(worker *w, const char *object, const pl_hash *blob,
                              const worker_shard **out)
{
    char path[PL_PATH_MAX];
    pl_tokens *tokens = NULL;
    for (int i = 0; i < w->n_shards; i++)
        if (pl_hash_equal(&w->shards[i]->blob, blob) &&
            pl_tokens_check(w->shards[i]->tokens) == PL_OK) {
            *out = w->shards[i];
            return PL_OK;
        }
    PL_CHECK(shard_file(w, object, blob, path));
    pl_status status = open_shard(path, blob, &tokens);
    /* if the file on disk is damaged, fetches it once more */
    if (status == PL_ERR_DAMAGED) {
        pl_log(PL_LOG_WARN, "shard.damaged", "file=\"%s\" reason=\"%s\"", path,
               pl_last_error());
        PL_CHECK(pl_remove_tree(path));
        PL_CHECK(shard_file(w, object, blob, path));
        status = open_shard(path, blob, &tokens);
    }
    PL_CHECK(status);
    worker_shard *s = pl_alloc(sizeof *s);
    s->blob = *blob;
    s->tokens = tokens;
    w->shards = pl_grow(w->shards, (size_t)(w->n_shards + 1) * sizeof(worker_shard *));
    w->shards[w->n_shards++] = s;
    *out = s;
    return PL_OK;
}

pl_status worker_fetch_blob(worker *w, const char *name, const pl_hash *blob,
                            uint64_t want, void **out)
{
    uint64_t have = 0;
    pl_buf bytes = {.data = cache_take(w->blobs, blob, &have), .len = (size_t)have};
    pl_status status = PL_OK;
    *out = NULL;
    if (!bytes.data) {
        pl_buf_reserve(&bytes, (size_t)want);
        PL_TRY(pl_client_get_blob(w->homes, name, blob, &bytes));
    }
    if (bytes.len != want)
        PL_TRY(pl_fail(PL_ERR_PROTO, "%s has %zu bytes instead of %llu", name,
                       bytes.len, (unsigned long long)want));
    *out = bytes.data;
    return PL_OK;
done:
    pl_buf_destroy(&bytes);
    return status;
}

/* ---- versions of modules ---- */
/* Versions are fetched together until their blobs have so many bytes: enough for links
 * that carry 20 MB/s with a round trip of 200 ms. */
enum { TOGETHER_BYTES = 4 << 20, NO_VERSION = PL_NEWEST - 1 };

/* The version of one slot's module. */
typedef struct fetching {
    const char *name;
    size_t n_params;
    pl_version_facts *facts;
    float *out;
    bool is_change; /* `blob` will have the change from the version before */
    pl_buf blob;
} fetching;

static pl_wanted want_of(fetching *f)
{
    const uint64_t bytes = f->n_params * sizeof *f->out;
    /* no codec of changes has more than half of the bytes */
    return (pl_wanted){.name = f->name,
                       .blob = f->is_change ? f->facts->change : f->facts->params,
                       .expected = f->is_change ? bytes / 2 : bytes,
                       .out = &f->blob};
}

/* Makes the version from the fetched blob, and keeps it for other paths. */
static pl_status use_fetched(worker *w, fetching *f)
{
    const size_t bytes = f->n_params * sizeof *f->out;
    pl_hash made;
    if (f->is_change) {
        PL_CHECK(pl_change_apply(f->blob.data, f->blob.len, f->n_params, f->out));
        pl_blob_hash(f->out, bytes, &made);
        if (!pl_hash_equal(&made, &f->facts->params))
            return pl_fail(PL_ERR_PROTO,
                           "version %llu of %s: the change from the home, applied to "
                           "the previous version, does not give the hash that the home "
                           "named",
                           (unsigned long long)f->facts->number, f->name);
        cache_put(w->blobs, &made, memcpy(pl_grow(NULL, bytes), f->out, bytes), bytes);
        return PL_OK;
    }
    if (f->blob.len != bytes)
        return pl_fail(PL_ERR_PROTO, "%s has %zu bytes instead of %zu", f->name,
                       f->blob.len, bytes);
    memcpy(f->out, f->blob.data, bytes);
    cache_put(w->blobs, &f->facts->params, f->blob.data, bytes);
    f->blob = (pl_buf){0};
    return PL_OK;
}

/* Fetches the first versions of the list, at least one; *n_done is their number. */
static pl_status fetch_some(worker *w, fetching *all, int n, int *n_done)
{
    int end = 0;
    pl_wanted *wants = pl_alloc((size_t)n * sizeof *wants);
    for (uint64_t sum = 0; end < n && sum < TOGETHER_BYTES; end++) {
        wants[end] = want_of(&all[end]);
        pl_buf_reserve(&all[end].blob, (size_t)wants[end].expected);
        sum += wants[end].expected;
    }
    pl_status status = pl_client_get_blobs(w->homes, wants, (size_t)end);
    /* homes keep a change only for a short time, so the versions are fetched instead */
    bool has_changes = false;
    for (int i = 0; status == PL_ERR_NOT_FOUND && i < end; i++) {
        has_changes = has_changes || all[i].is_change;
        all[i].is_change = false;
        all[i].blob.len = 0;
        wants[i] = want_of(&all[i]);
    }
    if (has_changes)
        status = pl_client_get_blobs(w->homes, wants, (size_t)end);
    PL_TRY(status);
    for (int k = 0; k < end; k++) {
        PL_TRY(use_fetched(w, &all[k]));
        /* no path needs the previous version any more */
        cache_drop(w->blobs, &all[k].facts->parent);
    }
    *n_done = end;
done:
    for (int k = 0; k < end; k++)
        pl_buf_destroy(&all[k].blob);
    pl_free(wants);
    return status;
}

/* Fetches for each slot the version with the number numbers[slot] into params[slot],
 * and its facts into facts[slot]. Numbers below PL_NEWEST are left out.
 * ERR_NOT_FOUND: some version does not exist yet, or no more; the others have come. */
static pl_status fetch_versions(worker *w, worker_task *task, const int64_t *numbers,
                                float *const *params, pl_version_facts *facts)
{
    const int n_slots = pl_topology_n_slots(task->arm->topology);
    pl_status status = PL_OK;
    bool all_there = true;
    int n = 0, n_missing = 0;
    pl_wanted_version *wants = pl_alloc((size_t)n_slots * sizeof *wants);
    fetching *list = pl_alloc((size_t)n_slots * sizeof *list);
    for (int slot = 0; slot < n_slots; slot++) {
        const pl_contract *of = worker_contract(task, slot);
        if (numbers[slot] < PL_NEWEST)
            continue;
        wants[n] = (pl_wanted_version){
            .module = of->name, .number = numbers[slot], .out = &facts[slot]};
        list[n++] = (fetching){.name = of->name,
                               .n_params = of->n_params,
                               .facts = &facts[slot],
                               .out = params[slot]};
    }
    if (worker_task_lease(task)) /* the newest; a task that makes a state has none */
        pl_client_act_under(w->homes, worker_task_lease(task));
    PL_TRY(pl_client_get_versions(w->homes, wants, n));
    for (int i = 0; i < n; i++) {
        fetching *f = &list[i];
        /* a version of which garbage collection has left only the record is gone */
        if (wants[i].status != PL_OK || pl_hash_none(&f->facts->params)) {
            all_there = false;
            continue;
        }
        const size_t bytes = f->n_params * sizeof *f->out;
        uint64_t have = 0;
        const void *kept = cache_get(w->blobs, &f->facts->params, &have);
        if (kept && have == bytes) {
            memcpy(f->out, kept, bytes);
            cache_drop(w->blobs, &f->facts->parent);
            continue;
        }
        /* The previous version is enough if the homes have the change from it. */
        kept = cache_get(w->blobs, &f->facts->parent, &have);
        f->is_change = !pl_hash_none(&f->facts->change) && kept && have == bytes;
        if (f->is_change)
            memcpy(f->out, kept, bytes);
        list[n_missing++] = *f;
    }
    for (int i = 0, n_done = 0; i < n_missing; i += n_done)
        PL_TRY(fetch_some(w, list + i, n_missing - i, &n_done));
    status = all_there ? PL_OK : PL_ERR_NOT_FOUND;
done:
    pl_free_all(wants, list);
    return status;
}

/* Fetches the versions with these numbers into their places in task->base. */
static pl_status fetch_bases(worker *w, worker_task *task, const int64_t *numbers)
{
    const pl_topology *t = task->arm->topology;
    const int n_slots = pl_topology_n_slots(t);
    float **params = pl_alloc((size_t)n_slots * sizeof *params);
    for (int slot = 0; slot < n_slots; slot++)
        params[slot] = task->base + pl_topology_slot(t, slot)->offset;
    const pl_status status = fetch_versions(w, task, numbers, params, task->bases);
    pl_free(params);
    return status;
}

/* ---- all that a task needs ---- */
pl_status worker_fetch_merged(worker *w, worker_task *task)
{
    const int n_slots = pl_topology_n_slots(task->arm->topology);
    int64_t *numbers = pl_alloc((size_t)n_slots * sizeof *numbers);
    for (int slot = 0; slot < n_slots; slot++) {
        const uint64_t number =
            pl_round_takes(worker_contract(task, slot), task->phase);
        numbers[slot] = number == 0 ? NO_VERSION : (int64_t)number;
    }
    const pl_status status = fetch_bases(w, task, numbers);
    pl_free(numbers);
    /* if a version does not exist yet, the worker asks again later */
    task->merged = status == PL_OK;
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

pl_status worker_fetch(worker *w, worker_task *task, const pl_hash *arm_blob)
{
    char object[PL_MODULE_NAME_MAX], path[PL_NAME_MAX];
    pl_client_act_under(w->homes, worker_task_lease(task));
    PL_CHECK(fetch_arm(w, arm_blob, task->name, &task->arm));
    const pl_arm *arm = &task->arm->arm;
    const pl_topology *topology = task->arm->topology;
    if (task->path >= arm->n_shards)
        return pl_fail(PL_ERR_PROTO, "the hub named path %d, but the arm has %d paths",
                       task->path, arm->n_shards);
    pl_arm_path_name(arm, topology, task->path, task->replica, task->name);
    cache_limit(w->blobs,
                pl_worker_cache_bytes(arm, topology, w->options->cache_bytes));
    /* the documents on which the task trains, and the documents that it scores */
    pl_topology_path_name(topology, task->path, path);
    snprintf(object, sizeof object, "shard/%s/%s", arm->name, path);
    PL_CHECK(fetch_tokens(w, object, &arm->shards[task->path], &task->shard));
    if (!task->again && pl_held_scores(arm, task->path, task->replica, task->phase)) {
        snprintf(object, sizeof object, "curve/%s/%s", arm->name, path);
        PL_CHECK(fetch_tokens(w, object, &arm->held[task->path], &task->held));
    }
    task->layout = pl_path_layout_of(arm);
    task->n_params = pl_topology_path_params(topology);
    if (task->steps < 1 || task->steps > arm->inner.tau)
        task->steps = arm->inner.tau;
    if (!task->after)
        PL_CHECK(worker_find_state(w, task));
    return worker_fetch_inputs(w, task);
}

pl_status worker_fetch_inputs(worker *w, worker_task *task)
{
    int n_slots = pl_topology_n_slots(task->arm->topology);
    task->bases = pl_alloc((size_t)n_slots * sizeof *task->bases);
    PL_CHECK(pl_try_alloc(task->n_params * sizeof(float), "a path's modules",
                          (void **)&task->base));
    /* The versions to which the slots' updates of this phase are relative. Training
     * also starts from them, unless the path has parameters of its own.
     * worker_fetch_merged later fetches the versions that are mixed in. */
    int64_t *numbers = pl_alloc((size_t)n_slots * sizeof *numbers);
    for (int slot = 0; slot < n_slots; slot++) {
        const pl_contract *of = worker_contract(task, slot);
        const bool made_here = worker_takes_predictions(task) && of->predicts;
        numbers[slot] = made_here ? NO_VERSION : pl_round_start(of, task->phase);
    }
    const pl_status status = fetch_bases(w, task, numbers);
    pl_free(numbers);
    PL_CHECK(status);
    PL_CHECK(worker_fetch_mates(w, task));
    if (task->after)
        /* worker_begin_after completes the task when the previous task is packed */
        return PL_OK;
    PL_CHECK(worker_fetch_state(w, task));
    if (worker_restarts(task)) {
        /* The path's own parameters were dropped: it begins again with the newest
         * versions in their place. The other vectors are zero. */
        int64_t *newest = pl_alloc((size_t)n_slots * sizeof *newest);
        float **params = pl_alloc((size_t)n_slots * sizeof *params);
        pl_version_facts *facts = pl_alloc((size_t)n_slots * sizeof *facts);
        for (int slot = 0; slot < n_slots; slot++) {
            const pl_holder s = worker_slot(task, slot, task->state);
            newest[slot] = pl_round_restart(s.of, task->phase);
            params[slot] = s.params;
        }
        const pl_status fetched = fetch_versions(w, task, newest, params, facts);
        pl_free_all(newest, params, facts);
        PL_CHECK(fetched);
        pl_log(PL_LOG_WARN, "state.restarted", "task=%s phase=%lld", task->name,
               (long long)task->phase);
    }
    return worker_begin(task);
}
