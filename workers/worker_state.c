/* Finds the state with which a task begins, if no home has it.
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
 * renewed, and no other task begins.
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
    pl_hash_format(&key, hex);
    snprintf(name, sizeof name, "%s.state", hex);
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

static worker_task *remake_task(const worker_task *task, int64_t phase,
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
    return one;
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

static void compare_hash(const worker *w, const worker_task *task,
                         const worker_task *last)
{
    char here[PL_HASH_TEXT], there[PL_HASH_TEXT];
    if (task->again || pl_hash_equal(&last->state_hash, &task->known.made))
        return;
    pl_hash_format(&last->state_hash, here);
    pl_hash_format(&task->known.made, there);
    pl_log(PL_LOG_ERROR, "state.differs",
           "task=%s phase=%lld worker=%s reason=\"this worker (%s) made the state "
           "%.12s from the stored versions, but %s reported %.12s; if both run on the "
           "same kind of device, one of them is faulty, otherwise the devices round "
           "differently\"",
           task->name, (long long)task->phase, w->options->name, w->device, here,
           task->known.worker, there);
}

/* Repeats the phases since the newest uploaded state. The leased task then continues
 * from the last of them, which it owns. */
static pl_status repeat_phases(worker *w, worker_task *task)
{
    const int64_t first = task->phase - task->known.repeats;
    const double began = pl_now();
    worker_task *last = NULL;
    pl_log(PL_LOG_INFO, "state.repeating", "task=%s phase=%lld first=%lld worker=%s",
           task->name, (long long)task->phase, (long long)first, task->known.worker);
    for (int64_t phase = first; phase < task->phase; phase++) {
        worker_task *one = remake_task(task, phase, last);
        if (phase + 1 == task->phase)
            one->wanted = task->known.made;
        pl_status status = run_remake(w, one);
        worker_task_free(&last);
        if (status != PL_OK) {
            drop_remake(w, one);
            return status;
        }
        last = one;
    }
    if (!last)
        return PL_OK; /* there was nothing to repeat */
    compare_hash(w, task, last);
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
