/* Fetches by hash everything on which a task depends: the arm's definition, the data
 * shard, the versions of modules that the phase needs, and the state of the path. Data
 * that the worker already has is not fetched again. */
#include "workers/worker_internal.h"

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

/* Fetches the documents on which the task trains, and the documents that it scores. */
static pl_status fetch_documents(worker *w, worker_task *task)
{
    const pl_arm *arm = &task->arm->arm;
    char object[PL_MODULE_NAME_MAX], name[PL_NAME_MAX];
    pl_topology_path_name(task->arm->topology, task->path, name);
    snprintf(object, sizeof object, "shard/%s/%s", arm->name, name);
    PL_CHECK(fetch_tokens(w, object, &arm->shards[task->path], &task->shard));
    if (task->again || !pl_held_scores(arm, task->path, task->replica, task->phase))
        return PL_OK;
    snprintf(object, sizeof object, "curve/%s/%s", arm->name, name);
    return fetch_tokens(w, object, &arm->held[task->path], &task->held);
}

/* Gets a blob of `want` bytes from the cache, which then no longer has it, or from the
 * home. The caller owns the blob. */
static pl_status fetch_blob(worker *w, const char *name, const pl_hash *blob,
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

/* Fetches a blob into `out`, and also keeps it in the cache for other paths. */
static pl_status fetch_floats(worker *w, const char *name, const pl_hash *blob,
                              size_t floats, float *out)
{
    uint64_t bytes = (uint64_t)floats * sizeof *out;
    void *data;
    PL_CHECK(fetch_blob(w, name, blob, bytes, &data));
    memcpy(out, data, (size_t)bytes);
    cache_put(w->blobs, blob, data, bytes);
    return PL_OK;
}

static int module_of(const worker_task *task, int slot)
{
    return pl_topology_module_of_path(task->arm->topology, slot, task->path);
}

local_slot worker_slot(const worker_task *task, int slot, float *state)
{
    const pl_slot *place = pl_topology_slot(task->arm->topology, slot);
    const pl_path_layout *l = &task->layout;
    size_t n = task->n_params, at = place->offset;
    return (local_slot){
        .arm = &task->arm->arm,
        .topology = task->arm->topology,
        .module = module_of(task, slot),
        .path = task->path,
        .phase = task->phase,
        .n = place->n_params,
        .base = task->base + at,
        .params = l->params < 0 ? NULL : state + (size_t)l->params * n + at,
        .velocity = l->velocity < 0 ? NULL : state + (size_t)l->velocity * n + at,
        .last = l->last < 0 ? NULL : state + (size_t)l->last * n + at,
        .before = l->before < 0 ? NULL : state + (size_t)l->before * n + at};
}

/* If the previous version is in the cache, fetches only the change from that version
 * and applies it. ERR_NOT_FOUND: there is no such change, or the cache has the wanted
 * version itself; then call fetch_floats. */
static pl_status fetch_change(worker *w, const char *name,
                              const pl_version_facts *facts, size_t n, float *out)
{
    pl_buf change = {0};
    pl_hash made;
    uint64_t have = 0;
    size_t bytes = n * sizeof *out;
    pl_status status = PL_OK;
    const void *parent = cache_get(w->blobs, &facts->parent, &have);
    if (pl_hash_none(&facts->change) || !parent || have != bytes ||
        cache_get(w->blobs, &facts->params, &have))
        return PL_ERR_NOT_FOUND;
    memcpy(out, parent, bytes);
    PL_TRY(pl_client_get_blob(w->homes, name, &facts->change, &change));
    PL_TRY(pl_change_apply(change.data, change.len, n, out));
    pl_blob_hash(out, bytes, &made);
    if (pl_hash_equal(&made, &facts->params))
        cache_put(w->blobs, &made, memcpy(pl_grow(NULL, bytes), out, bytes), bytes);
    else
        status = pl_fail(PL_ERR_PROTO,
                         "version %llu of %s: the change from the home, applied to the "
                         "previous version, does not give the hash that the home named",
                         (unsigned long long)facts->number, name);
done:
    pl_buf_destroy(&change);
    return status;
}

/* Fetches version `number` of a slot's module into its place in task->base. */
static pl_status fetch_version(worker *w, worker_task *task, int slot, int64_t number)
{
    const pl_slot *place = pl_topology_slot(task->arm->topology, slot);
    pl_version_facts *facts = &task->bases[slot];
    float *out = task->base + place->offset;
    char name[96];
    pl_arm_module_name(&task->arm->arm, task->arm->topology, module_of(task, slot),
                       name);
    PL_CHECK(pl_client_get_version(w->homes, name, number, facts));
    pl_status status = fetch_change(w, name, facts, place->n_params, out);
    if (status == PL_ERR_NOT_FOUND)
        status = fetch_floats(w, name, &facts->params, place->n_params, out);
    /* no path needs the previous version any more */
    cache_drop(w->blobs, &facts->parent);
    return status;
}

/* Whether the task takes versions that its previous task has computed. It does not if
 * that task was a repeated phase: then the homes have these versions, and they differ
 * from the computed ones if the worker that first did the phase has a different kind of
 * device or was wrong. */
static bool takes_predictions(const worker_task *task)
{
    return task->after && !task->after->remakes;
}

/* Fetches the version to which the slot's update of this phase is relative. Training
 * also starts from this version, unless the path has parameters of its own. In phase 0
 * and for frozen modules this is version 0. In later phases a slot that sends no update
 * needs no version. */
static pl_status fetch_base(worker *w, worker_task *task, int slot)
{
    const pl_arm *arm = &task->arm->arm;
    const pl_topology *t = task->arm->topology;
    int module = module_of(task, slot);
    int64_t round = pl_round_of(arm, t, module, task->phase);
    if (pl_traits(pl_arm_method(arm, t, module).method)->arrives)
        return fetch_version(w, task, slot, PL_NEWEST);
    if (takes_predictions(task) && pl_round_predicts(arm, t, module))
        return PL_OK; /* the worker computes this version itself */
    /* with streaming, phase 0 also starts from version 0 */
    if (task->phase == 0 || pl_arm_is_frozen(arm, module))
        return fetch_version(w, task, slot, 0);
    if (round < 0)
        return PL_OK;
    uint64_t number = pl_round_base(arm, t, module, round);
    if (pl_round_takes(arm, t, module, task->phase) == number && number > 0)
        /* this version is mixed in during the phase, so bring_merged fetches it
         * later */
        return PL_OK;
    return fetch_version(w, task, slot, (int64_t)number);
}

void worker_local_key(const worker_task *task, int64_t phase, pl_hash *key)
{
    char text[PL_MODULE_NAME_MAX + 32];
    int len = snprintf(text, sizeof text, "%s %lld", task->name, (long long)phase);
    pl_hash_of("local moments", text, (size_t)len, key);
}

/* For train.state=local: copies the path's moments, which never leave a worker, from
 * the cache. A worker that does not have them starts the phase with zeros. */
static void find_local(worker *w, worker_task *task)
{
    pl_hash key;
    uint64_t have = 0;
    size_t bytes = 2 * task->n_params * sizeof *task->state;
    worker_local_key(task, task->phase, &key);
    const void *kept = cache_get(w->moments, &key, &have);
    if (kept && have == bytes)
        memcpy(task->state, kept, bytes);
    else
        pl_log(PL_LOG_INFO, "state.fresh", "task=%s phase=%lld", task->name,
               (long long)task->phase);
}

/* Makes the state of a path that begins without a state. If the arm names moments to
 * begin with (PL_MOMENTS_OBJECT), the state gets them; all other values are zeros. The
 * moments are fetched directly into the state's memory, not into the cache, because a
 * path needs them only once. */
static pl_status begin_state(worker *w, worker_task *task)
{
    const pl_hash *moments = &task->arm->arm.moments;
    size_t bytes = (size_t)task->layout.n_vectors * task->n_params * sizeof(float);
    size_t known =
        pl_path_moments_floats(&task->arm->arm, task->n_params) * sizeof(float);
    void *data;
    if (pl_hash_none(moments))
        return pl_try_alloc(bytes, "a path's state", (void **)&task->state);
    PL_CHECK(fetch_blob(w, PL_MOMENTS_OBJECT, moments, known, &data));
    if (bytes > known)
        data = pl_grow(data, bytes);
    memset((char *)data + known, 0, bytes - known);
    task->state = data;
    return PL_OK;
}

/* If an arm continues an earlier arm, a path begins with the state that it had at the
 * end of the earlier arm. *state gets the hash of this state; zeros if the path ended
 * without a state. `name` gets the name of the path in the earlier arm. */
static pl_status find_inherited(worker *w, const worker_task *task, char name[96],
                                pl_hash *state)
{
    const pl_arm *arm = &task->arm->arm;
    const pl_topology *t = task->arm->topology;
    const int replicas = pl_topology_n_replicas(t);
    const size_t bytes = (size_t)(pl_topology_n_paths(t) * replicas) * sizeof(pl_hash);
    char object[96];
    void *states = NULL;
    pl_arm_states_name(arm, object);
    pl_arm_before_name(arm, t, task->path, task->replica, name);
    PL_CHECK(fetch_blob(w, object, &arm->states, bytes, &states));
    *state = ((const pl_hash *)states)[task->path * replicas + task->replica];
    pl_free(states);
    return PL_OK;
}

static pl_status fetch_state(worker *w, worker_task *task)
{
    const pl_arm *arm = &task->arm->arm;
    pl_hash moments = task->known.moments;
    void *blob = task->own_state;
    pl_status status = PL_OK;
    size_t floats = (size_t)task->layout.n_vectors * task->n_params;
    task->own_state = NULL;
    /* `fresh`: the path begins without a state, as in the first phase. In a later phase
     * this happens if its state was dropped, or if a rollback moved the path before it
     * had finished a phase. */
    bool fresh = task->phase == 0 ||
                 (arm->outer.state != PL_STATE_LOCAL && pl_hash_none(&moments));
    const char *owner = task->name;
    char before[96];
    if (fresh && !pl_hash_none(&arm->states)) {
        PL_CHECK(find_inherited(w, task, before, &moments));
        owner = before;
        fresh = false;
    }
    if (task->phase == 0 && pl_hash_none(&arm->moments) && fresh)
        return PL_OK;
    uint64_t bytes = pl_path_state_bytes(arm, task->n_params);
    if (!blob && !fresh && bytes > 0 && !pl_hash_none(&moments))
        PL_CHECK(fetch_blob(w, owner, &moments, bytes, &blob));
    /* the vectors have the same form in the blob as in memory */
    if (blob && bytes == floats * sizeof(float)) {
        task->state = blob;
        return PL_OK;
    }
    if (fresh)
        return begin_state(w, task);
    PL_TRY(
        pl_try_alloc(floats * sizeof(float), "a path's state", (void **)&task->state));
    state_unpack(arm, blob, task->n_params, task->state);
    if (arm->outer.state == PL_STATE_LOCAL)
        find_local(w, task);
done:
    pl_free(blob);
    return status;
}

/* ---- other data that a phase begins with ---- */
/* For eager: fetches the mean of the previous round into task->other. The home stores
 * this mean behind the momentum, in the momentum blob of the fetched version. */
static pl_status fetch_mean(worker *w, worker_task *task, int slot, const local_slot *s,
                            const char *name)
{
    float *momentum = NULL;
    pl_status status = PL_OK;
    if (task->phase < 2)
        return PL_OK;
    PL_TRY(pl_try_alloc(2 * s->n * sizeof *momentum, "an outer momentum",
                        (void **)&momentum));
    PL_TRY(fetch_floats(w, name, &task->bases[slot].momentum, 2 * s->n, momentum));
    memcpy(task->other + pl_topology_slot(s->topology, slot)->offset, momentum + s->n,
           s->n * sizeof *momentum);
    task->has_other[slot] = true;
done:
    pl_free_aligned(momentum);
    return status;
}

/* Whether bytes from another worker can be decoded as an update of this slot. */
static bool is_update(const local_slot *s, const pl_buf *bytes)
{
    pl_codec_message messages[PL_ROUND_VECTORS_MAX];
    int n = pl_round_vectors(s->arm, s->topology, s->module);
    double norm = 0;
    if (pl_codec_split(bytes->data, bytes->len, n, messages) != PL_OK)
        return false;
    for (int v = 0; v < n; v++)
        if (pl_codec_add(messages[v].data, messages[v].bytes, s->n, 1.0f, NULL,
                         &norm) != PL_OK)
            return false;
    return true;
}

/* Asks a worker that offers the update. If the worker does not answer, or gives bytes
 * that are no update, its address is deleted, so that this task does not ask it again
 * for the next slot. */
static pl_status ask_peer(worker *w, struct task_peer *who, worker_task *task,
                          const local_slot *s, const char *name, const int mate[2],
                          pl_buf *out)
{
    /* no codec sends more than two vectors of f32 with a few words per block */
    peer_line line = {who->address, worker_go_on, w, w->has_mates ? &w->mates : NULL,
                      16 * s->n + ((uint64_t)1 << 20)};
    pl_status status = peer_get(&line, name, task->phase - 1, mate[0], mate[1], out);
    if (status == PL_OK && !is_update(s, out)) {
        pl_log(PL_LOG_WARN, "mate.lied", "module=%s mate=%s round=%lld reason=\"%s\"",
               name, who->task, (long long)task->phase - 1, pl_last_error());
        pl_buf_clear(out);
        status = PL_ERR_DATA;
    }
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        who->address[0] = '\0';
    if (status == PL_OK) {
        /* The sender's thread will compare this update with the update that the home
         * accepted from the mate (check_met). */
        task->met = pl_grow(task->met, (task->n_met + 1) * sizeof *task->met);
        struct task_met *met = &task->met[task->n_met++];
        pl_copy_text(met->task, sizeof met->task, who->task);
        pl_copy_text(met->module, sizeof met->module, name);
        met->path = mate[0];
        met->replica = mate[1];
        pl_blob_hash(out->data, out->len, &met->hash);
    }
    if (status == PL_OK)
        pl_log(PL_LOG_DEBUG, "mate.met", "module=%s mate=%s round=%lld", name,
               who->task, (long long)task->phase - 1);
    return status;
}

/* Asks the workers that offer the update. PL_ERR_NOT_FOUND: no worker gave the update,
 * so the home must be asked. */
static pl_status ask_peers(worker *w, worker_task *task, const local_slot *s,
                           const char *path, const char *name, const int mate[2],
                           pl_buf *out)
{
    for (size_t i = 0; !w->shuns_peers && i < task->n_peers; i++) {
        struct task_peer *who = &task->peers[i];
        if (!who->address[0] || strcmp(who->task, path) != 0)
            continue;
        if (ask_peer(w, who, task, s, name, mate, out) == PL_OK)
            return PL_OK;
        if (w->broken != PL_OK) /* this worker must end, so it asks no other worker */
            return w->broken;
    }
    return PL_ERR_NOT_FOUND;
}

/* Asks the workers that offer the update, then the home. PL_ERR_NOT_FOUND: no worker
 * and no home has the update. */
static pl_status fetch_update(worker *w, worker_task *task, const local_slot *s,
                              const char *name, int mate, pl_buf *out)
{
    int replicas = pl_topology_n_replicas(s->topology);
    char path[96];
    pl_hash hash;
    pl_arm_path_name(s->arm, s->topology, mate / replicas, mate % replicas, path);
    const int place[2] = {mate / replicas, mate % replicas};
    pl_status status = ask_peers(w, task, s, path, name, place, out);
    if (status != PL_ERR_NOT_FOUND)
        return status;
    status = pl_client_get_update(w->homes, name, task->phase - 1, place[0], place[1],
                                  &hash);
    PL_CHECK(status);
    return pl_client_get_blob(w->homes, name, &hash, out);
}

static pl_status ask_meeting(worker *w, const worker_task *task, const char *name,
                             pl_meeting wish, pl_meeting *said)
{
    PL_CHECK(pl_client_act_under(w->homes, task->lease, task->lease_bytes));
    return pl_client_meet(w->homes, name, task->phase - 1, task->path, task->replica,
                          wish, said);
}

/* Gets the update of the mate. `out` stays empty if the pair is split; then each of the
 * two goes on alone. With a deadline, the module's home decides whether the pair meets
 * or is split. This worker first asks the home for its decision, and then tries to
 * fetch the update. If the home has not decided yet, the worker asks to meet if it got
 * the update, or to split if it did not get the update and the deadline is over. */
static pl_status meet_mate(worker *w, worker_task *task, const local_slot *s,
                           const char *name, int mate, pl_buf *out)
{
    bool timed = s->arm->outer.deadline_ms > 0;
    pl_meeting said = timed ? PL_MEETING_OPEN : PL_MEETING_MET;
    if (timed)
        PL_CHECK(ask_meeting(w, task, name, PL_MEETING_OPEN, &said));
    if (said == PL_MEETING_SPLIT)
        return PL_OK;
    pl_status status = fetch_update(w, task, s, name, mate, out);
    bool is_there = status == PL_OK;
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        return status;
    if (said == PL_MEETING_OPEN && (is_there || task->late))
        PL_CHECK(ask_meeting(w, task, name,
                             is_there ? PL_MEETING_MET : PL_MEETING_SPLIT, &said));
    if (said == PL_MEETING_SPLIT) {
        pl_buf_clear(out);
        return PL_OK;
    }
    if (is_there)
        return PL_OK;
    /* no worker gave the update, and the home lacks it; the task must be tried again */
    return pl_fail(PL_ERR_BUSY,
                   "%s needs its mate's update of %s, which has not arrived yet",
                   task->name, name);
}

/* For noloco: fetches to task->other the update of the mate that the path meets now. */
static pl_status fetch_mate(worker *w, worker_task *task, int slot, const local_slot *s,
                            const char *name)
{
    int replicas = pl_topology_n_replicas(s->topology), mate = 0;
    int own = task->path * replicas + task->replica;
    float *out = task->other + pl_topology_slot(s->topology, slot)->offset;
    pl_buf bytes = {0};
    pl_codec_message messages[PL_ROUND_VECTORS_MAX];
    double norm = 0;
    pl_status status = PL_OK;
    PL_TRY(pl_round_mate(s->arm, s->topology, s->module, own, task->phase - 1, &mate));
    if (mate == own)
        goto done;
    PL_TRY(meet_mate(w, task, s, name, mate, &bytes));
    if (bytes.len == 0)
        goto done;
    int n_vectors = pl_round_vectors(s->arm, s->topology, s->module);
    PL_TRY(pl_codec_split(bytes.data, bytes.len, n_vectors, messages));
    for (int v = 0; v < n_vectors; v++) {
        float *to = out + (size_t)v * task->n_params;
        memset(to, 0, s->n * sizeof *to);
        PL_TRY(
            pl_codec_add(messages[v].data, messages[v].bytes, s->n, 1.0f, to, &norm));
    }
    task->has_other[slot] = true;
done:
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status fetch_others(worker *w, worker_task *task)
{
    int n_slots = pl_topology_n_slots(task->arm->topology);
    task->has_other = pl_alloc((size_t)n_slots * sizeof *task->has_other);
    if (task->layout.last < 0 || task->phase == 0)
        return PL_OK;
    PL_CHECK(pl_try_alloc(PL_ROUND_VECTORS_MAX * task->n_params * sizeof(float),
                          "updates of other contributors", (void **)&task->other));
    for (int slot = 0; slot < n_slots; slot++) {
        /* Only the module, path and length of `s` are used, not its vectors. So any
         * memory may be passed as `state`. */
        local_slot s = worker_slot(task, slot, task->base);
        const pl_method_traits *of =
            pl_traits(pl_arm_method(s.arm, s.topology, s.module).method);
        char name[96];
        pl_arm_module_name(s.arm, s.topology, s.module, name);
        if (of->leads)
            PL_CHECK(fetch_mean(w, task, slot, &s, name));
        if (of->gossips)
            PL_CHECK(fetch_mate(w, task, slot, &s, name));
    }
    return PL_OK;
}

/* ---- the parameters with which training begins ---- */
static pl_status begin_slot(worker_task *task, int slot)
{
    local_slot s = worker_slot(task, slot, task->state);
    const pl_method_traits *of =
        pl_traits(pl_arm_method(s.arm, s.topology, s.module).method);
    size_t at = pl_topology_slot(s.topology, slot)->offset;
    const float *other = task->has_other[slot] ? task->other + at : NULL;
    bool own =
        task->phase > 0 && s.params &&
        (of->leads || of->gossips || pl_traits(s.arm->outer.method.method)->streams);
    if (own && of->leads)
        PL_CHECK(local_step_eager(&s, other));
    if (own && of->gossips)
        PL_CHECK(local_step_gossip(&s, other, other ? other + task->n_params : NULL));
    memcpy(task->start + at, own ? s.params : s.base, s.n * sizeof *s.base);
    return PL_OK;
}

/* For streaming: whether a new version of the slot's module is mixed in during this
 * phase. */
static bool takes_up(const worker_task *task, int slot)
{
    return pl_round_takes(&task->arm->arm, task->arm->topology, module_of(task, slot),
                          task->phase) > 0;
}

pl_status worker_fetch_merged(worker *w, worker_task *task)
{
    const pl_topology *t = task->arm->topology;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        uint64_t number =
            pl_round_takes(&task->arm->arm, t, module_of(task, slot), task->phase);
        if (number == 0)
            continue;
        pl_status status = fetch_version(w, task, slot, (int64_t)number);
        /* a version does not exist yet, so the worker asks again later */
        if (status == PL_ERR_NOT_FOUND)
            return PL_OK;
        PL_CHECK(status);
    }
    task->merged = true;
    return PL_OK;
}

static pl_status begin_task(worker_task *task)
{
    task->first_step = task->phase * task->arm->arm.inner.tau;
    task->start = task->base;
    if (task->layout.params >= 0)
        PL_CHECK(pl_try_alloc_bare(task->n_params * sizeof(float),
                                   "a path's parameters", (void **)&task->start));
    for (int slot = 0;
         task->start != task->base && slot < pl_topology_n_slots(task->arm->topology);
         slot++)
        PL_CHECK(begin_slot(task, slot));
    int n = pl_topology_n_slots(task->arm->topology), marked = 0;
    task->mixed = pl_alloc((size_t)n * sizeof *task->mixed);
    for (int slot = 0; slot < n; slot++)
        marked += task->mixed[slot] = takes_up(task, slot);
    if (marked == 0) {
        pl_free(task->mixed);
        task->mixed = NULL;
    }
    task->begun = true;
    return PL_OK;
}

static void take_prediction(worker_task *task, const worker_task *before, int slot)
{
    const pl_slot *place = pl_topology_slot(task->arm->topology, slot);
    pl_version_facts *facts = &task->bases[slot];
    uint64_t bytes = place->n_params * sizeof *task->base;
    memcpy(task->base + place->offset, before->base + place->offset, (size_t)bytes);
    facts->number = before->bases[slot].number + 1;
    facts->norm = before->predicted_norm[slot];
    pl_blob_hash(task->base + place->offset, bytes, &facts->params);
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
    for (int slot = 0; takes_predictions(task) && slot < pl_topology_n_slots(t); slot++)
        if (pl_round_predicts(&task->arm->arm, t, module_of(task, slot)))
            take_prediction(task, before, slot);
    worker_task_free(&task->past);
    return begin_task(task);
}

pl_status worker_fetch(worker *w, worker_task *task, const pl_hash *arm_blob)
{
    char arm_name[PL_ARM_NAME_MAX];
    size_t len = strcspn(task->name, "/");
    snprintf(arm_name, sizeof arm_name, "%.*s", (int)len, task->name);
    PL_CHECK(fetch_arm(w, arm_blob, arm_name, &task->arm));
    if (task->path >= task->arm->arm.n_shards)
        return pl_fail(PL_ERR_PROTO, "the hub named path %d, but the arm has %d paths",
                       task->path, task->arm->arm.n_shards);
    pl_arm_path_name(&task->arm->arm, task->arm->topology, task->path, task->replica,
                     task->name);
    cache_limit(w->blobs, pl_worker_cache_bytes(&task->arm->arm, task->arm->topology,
                                                w->options->cache_bytes));
    PL_CHECK(fetch_documents(w, task));
    task->layout = pl_path_layout_of(&task->arm->arm);
    task->n_params = pl_topology_path_params(task->arm->topology);
    if (task->steps < 1 || task->steps > task->arm->arm.inner.tau)
        task->steps = task->arm->arm.inner.tau;
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
    for (int slot = 0; slot < n_slots; slot++)
        PL_CHECK(fetch_base(w, task, slot));
    PL_CHECK(fetch_others(w, task));
    if (task->after)
        /* worker_begin_after completes the task when the previous task is packed */
        return PL_OK;
    PL_CHECK(fetch_state(w, task));
    return begin_task(task);
}

void worker_drop_start(worker_task *task)
{
    if (task->start != task->base)
        pl_free_aligned(task->start);
    task->start = NULL;
}

void worker_task_free(worker_task **task_)
{
    worker_task *task = *task_;
    if (!task)
        return;
    if (task->packed_state != task->job.state)
        pl_free_aligned(task->packed_state);
    train_job_clear(&task->job);
    worker_drop_start(task);
    pl_free_aligned(task->base);
    pl_free_aligned(task->state);
    pl_free(task->own_state);
    worker_task_free(&task->past);
    pl_free_aligned(task->other);
    pl_free(task->predicted_norm);
    pl_free(task->seeds);
    pl_free(task->likeness);
    pl_free(task->made);
    pl_free(task->has_other);
    pl_free(task->peers);
    pl_free(task->met);
    pl_free(task->bases);
    pl_free(task->mixed);
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
