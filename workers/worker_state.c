/* The state with which a task begins: usually it is fetched from a home
 * (worker_fetch_state). The rest of this file is for states that no home has.
 *
 * With train.state_every = k, a path's state is uploaded only after every k-th phase.
 * In between, the homes have only its hash. The worker that made the state keeps it in
 * a file of its cache folder, so it usually begins the next phase at once. A worker
 * that gets the path from another worker makes the state again. A phase is a function
 * of module versions, data and state, so it can be repeated:
 *
 *   1. The first repeated phase begins with the newest state that was uploaded.
 *   2. Each repeated phase is a worker_task with `remakes`: it is fetched, trained and
 *      packed like any task, but nothing is sent. Each begins with the state that the
 *      one before it left, as when a lease is extended (worker_begin_after).
 *   3. The leased task continues from the last of them (task->after).
 *
 * The repeated phases run while the leased task is being fetched, so its lease is
 * renewed, and no other task begins. If a home does not answer, or does not know the
 * lease's seal after a restart of the hub, the fetch of a phase is tried again for as
 * long as the phases before it have taken, since they would have to be repeated again.
 *
 * The hash of the state made here must equal the hash that the first worker reported.
 * On a different kind of device it differs, because devices round differently. On the
 * same kind of device a difference shows that one of the two workers is faulty or lies.
 * In both cases the task continues with the state made here: it follows from what the
 * homes have, while the other state exists nowhere. So neither a lost nor a false state
 * can stop a path. The difference is logged as an error, and audits, which repeat the
 * same phases, find out which worker is wrong. */
#include "workers/worker_internal.h"

enum { WAIT_MS = 100 };

/* ---- the files with the newest two states of a path that this machine has made ----
 */
/* The name depends on the arm, the path, and whether `phase` is even, not on the
 * contents. So a folder has at most two files per path, and the state with which a
 * phase began stays until the next phase ends: the phase may have to be done again. */
static void state_file(const char *folder, const worker_task *task, int64_t phase,
                       char out[PL_PATH_MAX])
{
    char text[PL_HASH_TEXT + PL_MODULE_NAME_MAX + 8], name[PL_HASH_TEXT + 8];
    char hex[PL_HASH_TEXT];
    pl_hash key;
    pl_hash_format(&task->arm->blob, hex);
    int len =
        snprintf(text, sizeof text, "%s %s %d", hex, task->name, (int)(phase % 2));
    pl_hash_of("path state", text, (size_t)len, &key);
    snprintf(name, sizeof name, "%s.state", pl_hash_format(&key, hex));
    pl_join(out, folder, name);
}

static void note_unsaved(const worker_task *task, pl_status status)
{
    if (status != PL_OK)
        pl_log(PL_LOG_WARN, "state.unsaved", "task=%s phase=%lld reason=\"%s\"",
               task->name, (long long)task->phase, pl_last_error());
}

static bool saves_states(const worker_task *task)
{
    return task->arm->arm.outer.state_every > 1 && task->packed_bytes > 0;
}

static bool ends_path(const worker_task *task)
{
    return task->phase + 1 >= task->arm->arm.inner.phases;
}

void worker_save_state(const char *folder, const worker_task *task)
{
    char path[PL_PATH_MAX];
    if (!saves_states(task) || ends_path(task))
        return;
    state_file(folder, task, task->phase + 1, path);
    pl_status status = pl_make_folders(folder);
    if (status == PL_OK)
        status = pl_replace_file(path, task->packed_state, (size_t)task->packed_bytes);
    note_unsaved(task, status);
}

void worker_drop_states(const char *folder, const worker_task *task)
{
    char path[PL_PATH_MAX];
    for (int i = 0; saves_states(task) && ends_path(task) && i < 2; i++) {
        state_file(folder, task, i, path);
        if (pl_path_exists(path))
            note_unsaved(task, pl_remove_tree(path));
    }
}

/* Reads the state with this hash from the path's files; NULL if this machine does not
 * have it. */
static void *find_own_state(const worker *w, const worker_task *task,
                            const pl_hash *hash)
{
    const uint64_t want = pl_path_state_bytes(&task->arm->arm, task->n_params);
    char path[PL_PATH_MAX];
    pl_mapping file;
    pl_hash found;
    void *data = NULL;
    state_file(w->options->cache, task, task->phase, path);
    if (!pl_path_exists(path) || pl_map_file(path, &file) != PL_OK)
        return NULL;
    if (file.len == want) {
        data = pl_alloc((size_t)want + 1);
        memcpy(data, file.data, (size_t)want);
        pl_blob_hash(data, want, &found);
    }
    pl_unmap_file(&file);
    if (data && pl_hash_equal(&found, hash))
        return data;
    pl_free(data);
    return NULL;
}

/* ---- a state that exists ---- */
void worker_local_key(const worker_task *task, int64_t phase, pl_hash *key)
{
    char text[PL_MODULE_NAME_MAX + 32];
    int len = snprintf(text, sizeof text, "%s %lld", task->name, (long long)phase);
    pl_hash_of("local moments", text, (size_t)len, key);
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
    PL_CHECK(worker_fetch_blob(w, PL_MOMENTS_OBJECT, moments, known, &data));
    if (bytes > known)
        data = pl_grow(data, bytes);
    memset((char *)data + known, 0, bytes - known);
    task->state = data;
    return PL_OK;
}

pl_status worker_fetch_state(worker *w, worker_task *task)
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
    const bool restarts = worker_restarts(task);
    bool fresh = task->phase == 0 || restarts ||
                 (arm->outer.state != PL_STATE_LOCAL && pl_hash_none(&moments));
    const char *owner = task->name;
    char before[96], object[96];
    if (fresh && !restarts && !pl_hash_none(&arm->states)) {
        /* An arm that continues an earlier arm names the states that the paths had at
         * the end of that arm; zeros if a path ended without one. */
        const pl_topology *t = task->arm->topology;
        const int replicas = pl_topology_n_replicas(t);
        const size_t n = (size_t)(pl_topology_n_paths(t) * replicas);
        void *states = NULL;
        pl_arm_states_name(arm, object);
        pl_arm_before_name(arm, t, task->path, task->replica, before);
        PL_CHECK(
            worker_fetch_blob(w, object, &arm->states, n * sizeof(pl_hash), &states));
        moments = ((const pl_hash *)states)[task->path * replicas + task->replica];
        pl_free(states);
        owner = before;
        fresh = false;
    }
    if (task->phase == 0 && pl_hash_none(&arm->moments) && fresh)
        return PL_OK;
    uint64_t bytes = pl_path_state_bytes(arm, task->n_params);
    if (!blob && !fresh && bytes > 0 && !pl_hash_none(&moments))
        PL_CHECK(worker_fetch_blob(w, owner, &moments, bytes, &blob));
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
    if (arm->outer.state == PL_STATE_LOCAL) {
        /* The moments never leave a worker. A worker that does not have them starts the
         * phase with zeros. */
        const size_t local = 2 * task->n_params * sizeof *task->state;
        pl_hash key;
        uint64_t have = 0;
        worker_local_key(task, task->phase, &key);
        const void *kept = cache_get(w->moments, &key, &have);
        if (kept && have == local)
            memcpy(task->state, kept, local);
        else
            pl_log(PL_LOG_INFO, "state.fresh", "task=%s phase=%lld", task->name,
                   (long long)task->phase);
    }
done:
    pl_free(blob);
    return status;
}

/* ---- repeating phases ---- */
/* Drops a task that this worker no longer waits for. If another thread works on it, it
 * is freed when that thread gives it back (worker_end_remake). */
static void drop_remake(worker *w, worker_task *one)
{
    bool busy = one == w->training;
    for (int i = 0; i < w->n_sending; i++)
        busy = busy || w->sending[i] == one;
    w->remaking = NULL;
    if (!busy) {
        worker_task_free(&one);
        return;
    }
    worker_task_lose(one);
    if (one == w->training)
        trainer_cancel(w->inner);
}

void worker_end_remake(worker *w, worker_task *one)
{
    if (w->remaking == one)
        w->remaking = NULL;
    else
        worker_task_free(&one);
}

static pl_status wait_turn(worker *w)
{
    bool ready[4];
    int fds[] = {trainer_fd(w->inner), sender_packed_fd(w->out), sender_fd(w->out)};
    pl_wire_poll(&w->hub, 1, fds, 3, WAIT_MS, ready);
    return worker_go_on(w);
}

/* Fetches, trains and packs the task. */
static pl_status run_remake(worker *w, worker_task *one)
{
    PL_CHECK(worker_fetch_inputs(w, one));
    if (one->after)
        PL_CHECK(worker_begin_after(one, one->after));
    if (one->mixed)
        PL_CHECK(worker_fetch_merged(w, one));
    if (one->mixed && !one->merged)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "phase %lld of %s cannot be repeated: the homes do not have the "
                       "versions that were mixed in",
                       (long long)one->phase, one->name);
    while (w->training)
        PL_CHECK(wait_turn(w));
    w->remaking = one;
    worker_start(w, one);
    if (one->mixed)
        trainer_give_merged(w->inner, one->base);
    while (w->remaking)
        PL_CHECK(wait_turn(w));
    return one->status == PL_OK ? PL_OK : pl_fail(one->status, "%s", one->error);
}

/* A repeated phase of the task, which begins with the state that `before` left. */
static worker_task *make_remake(const worker_task *task, int64_t phase,
                                worker_task *before)
{
    worker_task *one = pl_alloc(sizeof *one);
    pl_copy_text(one->name, sizeof one->name, task->name);
    one->after = before;
    one->path = task->path;
    one->replica = task->replica;
    one->phase = phase;
    one->arm = task->arm;
    one->shard = task->shard;
    one->layout = task->layout;
    one->n_params = task->n_params;
    one->steps = task->arm->arm.inner.tau;
    one->again = one->remakes = true;
    one->known.phase = phase;
    one->known.moments = task->known.moments;
    if (phase + 1 == task->phase)
        one->wanted = task->known.made;
    return one;
}

/* Repeats the phases since the newest uploaded state. The leased task then continues
 * from the last of them, which it owns. */
static pl_status repeat_phases(worker *w, worker_task *task)
{
    const int64_t first = task->phase - task->known.repeats;
    const double began = pl_now();
    double worked_s = 0, waited_s = 0;
    worker_task *last = NULL;
    pl_log(PL_LOG_INFO, "state.repeating", "task=%s phase=%lld first=%lld worker=%s",
           task->name, (long long)task->phase, (long long)first, task->known.worker);
    for (int64_t phase = first; phase < task->phase;) {
        const double tried = pl_now();
        worker_task *one = make_remake(task, phase, last);
        pl_client_act_under(w->homes, worker_task_lease(task)); /* the newest seal */
        pl_status status = run_remake(w, one);
        if (status == PL_OK) {
            worker_task_free(&last);
            last = one;
            worked_s += pl_now() - tried;
            phase++;
            continue;
        }
        drop_remake(w, one);
        waited_s += pl_now() - tried;
        const bool passes = pl_is_unreached(status) || status == PL_ERR_STALE;
        if (passes && w->broken == PL_OK && waited_s < worked_s)
            status = wait_turn(w);
        if (status != PL_OK) {
            worker_task_free(&last);
            return status;
        }
    }
    if (!last)
        return PL_OK; /* there was nothing to repeat */
    if (!task->again && !pl_hash_equal(&last->state_hash, &task->known.made)) {
        char here[PL_HASH_TEXT], there[PL_HASH_TEXT];
        pl_hash_format(&last->state_hash, here);
        pl_log(PL_LOG_ERROR, "state.differs",
               "task=%s phase=%lld worker=%s reason=\"this worker (%s) made the state "
               "%.12s from the stored versions, but %s reported %.12s; if both run on "
               "the same kind of device, one of them is faulty, otherwise the devices "
               "round differently\"",
               task->name, (long long)task->phase, w->options->name, w->device, here,
               task->known.worker, pl_hash_format(&task->known.made, there));
    }
    pl_log(PL_LOG_INFO, "state.repeated", "task=%s phase=%lld phases=%lld seconds=%.2f",
           task->name, (long long)task->phase, (long long)task->known.repeats,
           pl_now() - began);
    last->packed = true;
    task->after = task->past = last;
    return PL_OK;
}

pl_status worker_find_state(worker *w, worker_task *task)
{
    const pl_arm *arm = &task->arm->arm;
    pl_path_state *known = &task->known;
    pl_client_act_under(w->homes, worker_task_lease(task));
    PL_CHECK(pl_client_get_path(w->homes, task->name, known));
    /* an audit repeats an earlier phase, so it uses the state before that phase */
    if (task->again) {
        known->phase = task->phase;
        known->moments = task->before;
        known->repeats = task->repeats;
        known->made = (pl_hash){{0}};
    }
    if (known->phase != task->phase)
        return pl_fail(PL_ERR_STALE,
                       "the home says that %s is in phase %lld, but this task is phase "
                       "%lld",
                       task->name, (long long)known->phase, (long long)task->phase);
    task->work_before = known->work;
    if (arm->outer.state_every <= 1 && known->repeats == 0)
        return PL_OK;
    if (!pl_phase_repeats(&arm->outer))
        return pl_fail(PL_ERR_PROTO,
                       "the state of %s was not uploaded, but phases of its arm cannot "
                       "be repeated",
                       task->name);
    const pl_hash *newest = known->repeats > 0 ? &known->made : &known->moments;
    if (!pl_hash_none(newest))
        task->own_state = find_own_state(w, task, newest);
    if (known->repeats == 0)
        return PL_OK;
    if (!task->own_state)
        return repeat_phases(w, task);
    known->moments = known->made;
    known->repeats = 0;
    return PL_OK;
}
