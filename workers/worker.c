/* The worker's loop. While one task trains, the previous task is sent and the next one
 * is fetched, so that the trainer's thread almost never waits. */
#include "workers/worker_internal.h"

#include <math.h>

enum {
    WAIT_MS = 100,
    HURRY_MS = 10,
    NO_HURRY_MS = 200,
    EARLY_MS = 250,
    REACH_MS = 1000, /* time for the first contact with a hub */
    /* A worker that leaves waits so long for a hub or home that is away. And a fetch
     * that has just begun waits no longer for a home: if it is this worker that does
     * not reach the home, another one can do the task. */
    AWAY_MS = 60000,
    DAY_MS = 86400000
};

static bool must_stop_worker(const worker *w)
{
    return w->finished || worker_is_told_to_stop(w->options);
}

static pl_status check_stop(const worker *w)
{
    if (must_stop_worker(w))
        return pl_fail(PL_ERR_CANCELLED, "the worker was told to stop");
    return PL_OK;
}

/* Whether `task` is a later phase of the lease of `other`. */
static bool follows(const worker_task *task, const worker_task *other)
{
    return task && task->token == other->token && task->phase > other->phase &&
           strcmp(task->name, other->name) == 0;
}

/* Drops tasks that continue from this task. They need the result of this task, and have
 * the same lease. */
static void drop_after(worker *w, const worker_task *task)
{
    if (follows(w->next, task))
        worker_task_free(&w->next);
    if (follows(w->training, task)) {
        worker_task_lose(w->training);
        trainer_cancel(w->inner);
    }
    if (follows(w->fetching, task))
        worker_task_lose(w->fetching);
    for (int i = 0; i < w->n_sending; i++)
        if (follows(w->sending[i], task))
            worker_task_lose(w->sending[i]);
}

/* Gives up a task, for example after a lost lease, a restart of a home or a rejected
 * update. The worker then asks for another task. The worker ends only if every further
 * task would fail in the same way. */
static pl_status give_task_up(worker *w, worker_task *task, pl_status why,
                              const char *text)
{
    /* A state that is gone means almost always that another worker has finished the
     * phase in the meantime. The hub knows whether that is so, and warns if it is not.
     */
    const bool is_late = worker_task_lost(task) || why == PL_ERR_NOT_FOUND;
    pl_log(is_late ? PL_LOG_INFO : PL_LOG_WARN, "task.abandoned",
           "task=%s phase=%lld reason=\"%s%s\"", task->name, (long long)task->phase,
           why == PL_ERR_NOT_FOUND ? "probably another worker has finished the phase: "
                                   : "",
           text);
    drop_after(w, task);
    w->shuns_peers = w->shuns_peers || task->deceived;
    if (why == PL_ERR_STALE || worker_task_lost(task))
        return PL_OK;
    PL_CHECK(worker_tell_release(w, task, why, text));
    w->ask_after_ms = pl_now_ms() + NO_HURRY_MS;
    const bool is_fatal = why == PL_ERR_DEVICE || why == PL_ERR_NOMEM ||
                          why == PL_ERR_UNSUPPORTED || why == PL_ERR_NOPERM;
    return is_fatal ? pl_fail(why, "%s", text) : PL_OK;
}

/* ---- fetched tasks ---- */
static bool is_local(const char *address)
{
    pl_address at;
    return pl_address_parse(address, &at) == PL_OK && at.is_local;
}

static pl_status read_task(const worker *w, pl_message *m, worker_task *task,
                           pl_hash *arm_blob)
{
    pl_msg_task said;
    pl_status status = PL_OK;
    PL_TRY(PL_HEAR(m, task, &said));
    PL_TRY(worker_take_lease(task, said.lease, said.secret));
    if (said.path < 0 || said.path > INT32_MAX || said.replica < 0 ||
        said.replica > INT32_MAX || said.phase < 0)
        PL_TRY(pl_fail(PL_ERR_PROTO,
                       "the hub sent a task of path %lld, replica %lld, phase %lld; "
                       "path and replica must be 0 to %d, and the phase 0 or more",
                       (long long)said.path, (long long)said.replica,
                       (long long)said.phase, (int)INT32_MAX));
    if (said.repeats < 0 || said.repeats > said.phase)
        PL_TRY(
            pl_fail(PL_ERR_PROTO,
                    "the hub sent a task of phase %lld whose state is %lld phases old",
                    (long long)said.phase, (long long)said.repeats));
    *arm_blob = said.arm_blob;
    task->path = (int)said.path;
    task->replica = (int)said.replica;
    task->phase = said.phase;
    pl_copy_text(task->name, sizeof task->name, said.task);
    task->steps = said.step < INT32_MAX ? (int)said.step : 0;
    task->late = said.late != 0;
    task->again = said.audit != 0;
    task->before = said.blob;
    task->repeats = said.repeats;
    task->peers = pl_alloc((said.n_peer + 1) * sizeof *task->peers);
    for (; task->n_peers < said.n_peer; task->n_peers++) {
        struct task_peer *p = &task->peers[task->n_peers];
        pl_copy_text(p->address, sizeof p->address, said.peer[task->n_peers].address);
        pl_copy_text(p->task, sizeof p->task, said.peer[task->n_peers].task);
        /* The hub may name a loopback address, which can be used only on the same
         * machine. This worker uses it only if its own address is a loopback address,
         * too. */
        if (is_local(p->address) && !is_local(w->offers_at))
            p->address[0] = '\0';
    }
    task->token = m->token;
    task->granted = pl_now();
    task->renewed_ms = pl_now_ms();
done:
    pl_free(said.peer);
    return status;
}

static bool goes_on_from(const worker_task *task, const worker_task *before)
{
    return before && follows(task, before) && task->phase == before->phase + 1 &&
           !worker_task_lost(before);
}

static pl_status begin_after(worker *w)
{
    worker_task *task = w->next;
    char text[1024];
    if (!task || task->begun || !task->after->packed)
        return PL_OK;
    pl_status status = worker_begin_after(task, task->after);
    if (status == PL_OK)
        return PL_OK;
    pl_copy_text(text, sizeof text, pl_last_error());
    status = give_task_up(w, task, status, text);
    worker_task_free(&w->next);
    return status;
}

static pl_status take_task(worker *w, pl_message *m)
{
    pl_hash arm_blob;
    char text[1024];
    worker_task *task = pl_alloc(sizeof *task);
    pl_status status = read_task(w, m, task, &arm_blob);
    w->question = 0;
    if (status == PL_OK)
        status = check_stop(w);
    if (status == PL_OK) {
        /* if this worker still has the task of the previous phase, this task begins
         * with its state, otherwise with the state that the home has */
        task->after = goes_on_from(task, w->training) ? w->training : NULL;
        for (int i = 0; i < w->n_sending && !task->after; i++)
            if (goes_on_from(task, w->sending[i]))
                task->after = w->sending[i];
        w->fetching = task;
        status = worker_fetch(w, task, &arm_blob);
        w->fetching = NULL;
        w->fetch_s = pl_now() - task->granted;
        pl_give_back_blocks();
    }
    if (status == PL_OK && worker_task_lost(task))
        status = pl_fail(PL_ERR_STALE,
                         "the lease of %s was lost, or its previous phase failed",
                         task->name);
    if (status == PL_OK) {
        w->next = task;
        return begin_after(w);
    }
    pl_copy_text(text, sizeof text, pl_last_error());
    if (w->broken != PL_OK) /* a failure of the worker itself, not of the task */
        status = pl_fail(w->broken, "%s", text);
    else
        status = give_task_up(w, task, status, text);
    worker_task_free(&task);
    return status;
}

/* ---- trained tasks ---- */
void worker_start(worker *w, worker_task *task)
{
    task->job =
        (train_job){.arm = &task->arm->arm,
                    .topology = task->arm->topology,
                    .shard = task->shard->tokens,
                    .path = task->path,
                    .replica = task->replica,
                    .first_step = task->first_step,
                    .steps = task->steps,
                    .start = task->start,
                    .n_vectors = task->layout.n_vectors,
                    .state = task->state,
                    .mix_step = task->mixed ? task->arm->arm.outer.method.overlap : -1,
                    .mix = task->arm->arm.outer.method.mix,
                    .mixed = task->mixed,
                    .held = task->held ? task->held->tokens : NULL};
    task->state = NULL;
    w->training = task;
    trainer_start(w->inner, &task->job);
}

/* Takes a task that the trainer has finished, and gives it to the sender. The task's
 * time outside inner steps (loading and saving) is added to exposed_s. */
static pl_status take_trained(worker *w)
{
    worker_task *task = w->training;
    pl_status status = PL_OK;
    if (!task || w->merging || !trainer_take(w->inner))
        return PL_OK;
    w->training = NULL;
    if (!task->remakes) /* a repeated phase belongs to the task that waits for it */
        w->free_since = pl_now();
    task->exposed_s += task->job.overhead_s;
    task->waited_s += task->job.waited_s;
    if (worker_task_lost(task))
        task->job.status = PL_ERR_STALE;
    if (task->job.status == PL_OK) {
        task->sends = true;
        w->sending[w->n_sending++] = task;
        sender_push(w->out, task);
        return PL_OK;
    }
    /* If a shard has changed on disk, the task is given back and its shard will be
     * fetched again. This does not count as a failure. */
    status = task->job.status == PL_ERR_DAMAGED ? PL_ERR_BUSY : task->job.status;
    if (task->remakes) {
        task->status = status;
        pl_copy_text(task->error, sizeof task->error, task->job.error);
        worker_end_remake(w, task);
        return PL_OK;
    }
    status = give_task_up(w, task, status, task->job.error);
    worker_task_free(&task);
    return status;
}

/* ---- sent tasks ---- */
static pl_status take_packed(worker *w)
{
    worker_task *task;
    while ((task = sender_take_packed(w->out))) {
        task->packed = true;
        /* frees memory that packing used, because the state will be copied next */
        pl_give_back_blocks();
        if (w->offers && task->layout.last >= 0)
            PL_CHECK(worker_tell_offer(w, task));
    }
    return begin_after(w);
}

static bool uses_shard(const worker_task *task, const worker_shard *shard)
{
    return task && (task->shard == shard || task->held == shard);
}

/* Takes a task that the sender has sent, and frees it. But if the task that is being
 * fetched continues from the sent task, the sent task stays, because its state must be
 * copied first. */
static pl_status take_sent(worker *w)
{
    pl_status status = PL_OK;
    if (w->fetching && w->n_sending > 0 && w->fetching->after == w->sending[0])
        return PL_OK;
    worker_task *task = sender_take(w->out);
    if (!task)
        return PL_OK;
    PL_CHECK(take_packed(w));
    w->n_sending--;
    memmove(w->sending, w->sending + 1, (size_t)w->n_sending * sizeof *w->sending);
    if (task->remakes) {
        worker_end_remake(w, task);
        return PL_OK;
    }
    if (task->status == PL_OK) {
        const pl_outer *outer = &task->arm->arm.outer;
        /* The state stays in a cache, because this worker will probably continue the
         * path. A state that was saved in a file needs no memory (worker_state.c). */
        if (task->packed_bytes > 0 && outer->state_every <= 1) {
            if (task->packed_state == task->job.state)
                task->job.state = NULL;
            cache_put(w->blobs, &task->state_hash, task->packed_state,
                      task->packed_bytes);
            task->packed_state = NULL;
        }
        /* The moments of the phase before were kept so that a failed phase could be
         * repeated. */
        if (outer->state == PL_STATE_LOCAL) {
            const uint64_t bytes = 2 * task->n_params * sizeof(float);
            pl_hash key;
            worker_local_key(task, task->phase, &key);
            cache_drop(w->moments, &key);
            worker_local_key(task, task->phase + 1, &key);
            cache_put(w->moments, &key, pl_grow(task->job.state, bytes), bytes);
            task->job.state = NULL;
        }
        if (task->overruled)
            drop_after(w, task);
        status = worker_tell_done(w, task);
    } else {
        status = give_task_up(w, task, task->status, task->error);
    }
    worker_task_free(&task);
    /* gives back the memory of shards that no task uses, and of sent messages */
    for (int i = 0; i < w->n_shards; i++) {
        const worker_shard *shard = w->shards[i];
        bool used = uses_shard(w->fetching, shard) || uses_shard(w->next, shard) ||
                    uses_shard(w->training, shard);
        if (!used)
            pl_tokens_rest(shard->tokens);
    }
    pl_give_back_blocks();
    return status;
}

/* The hub may say why it keeps the ready tasks from this worker, or why it does not
 * take the worker yet. The log has the first reason, and then one per minute. */
static void tell_reason(worker *w, const char *reason)
{
    enum { SAY_MS = 60000 };
    if (w->told_ms > 0 && pl_now_ms() - w->told_ms < SAY_MS)
        return;
    w->told_ms = pl_now_ms();
    pl_log(PL_LOG_INFO, "worker.withheld", "reason=\"%s\"", reason);
}

static pl_status hear_message(worker *w, pl_message *m)
{
    const bool is_answer = w->question != 0 && m->request == w->question;
    pl_msg_lease_lost lost = {0};
    pl_msg_renewed renewed;
    pl_msg_no_work none;
    worker_task *task;
    pl_status status = PL_OK;
    switch (m->type) {
    case PL_MSG_WELCOME:
        return worker_read_welcome(w, m);
    case PL_MSG_RENEWED:
        /* a hub that restarted seals the lease anew */
        task = worker_held_task(w, m->request, 0, 0);
        PL_CHECK(PL_HEAR(m, renewed, &renewed));
        return task && m->request != 0
                   ? worker_take_lease(task, renewed.lease, renewed.secret)
                   : PL_OK;
    case PL_MSG_LEASE_LOST:
        /* the answer to a renewal; or without a question, if another worker finished
         * the task first */
        if (m->request == 0)
            PL_CHECK(PL_HEAR(m, lease_lost, &lost));
        task = worker_held_task(w, m->request, m->token, lost.phase);
        if (!task)
            return PL_OK;
        worker_task_lose(task);
        drop_after(w, task);
        if (task == w->training)
            trainer_cancel(w->inner);
        if (task == w->next) { /* no work has been done for this task yet */
            pl_log(PL_LOG_WARN, "task.lost", "task=%s phase=%lld", task->name,
                   (long long)task->phase);
            worker_task_free(&w->next);
        }
        return PL_OK;
    case PL_MSG_ERR:
        status = pl_wire_error_of(m);
        if (status == PL_ERR_CANCELLED) {
            /* the job is finished, or the worker was removed */
            pl_log(PL_LOG_INFO, "worker.dismissed", "text=\"%s\"", pl_last_error());
            w->finished = true;
            return PL_OK;
        }
        /* NOPERM, UNSUPPORTED, USAGE: the hub would refuse this worker again. BUSY: it
         * refused HELLO for now. After any other error the worker sends HELLO, because
         * a hub that restarted does not know it. */
        if (status == PL_ERR_NOPERM || status == PL_ERR_UNSUPPORTED ||
            status == PL_ERR_USAGE)
            return status;
        if (status == PL_ERR_BUSY)
            tell_reason(w, pl_last_error());
        /* while it joins, it sends HELLO every second anyway */
        return status == PL_ERR_BUSY || !w->welcome ? PL_OK : worker_say_hello(w);
    case PL_MSG_NO_WORK:
        if (!is_answer)
            return PL_OK;
        w->question = 0;
        PL_CHECK(PL_HEAR(m, no_work, &none));
        if (none.text)
            tell_reason(w, none.text);
        return PL_OK;
    case PL_MSG_TASK:
        return is_answer ? take_task(w, m) : PL_OK;
    default:
        return PL_OK;
    }
}

/* Silence counts only while this worker listens: not while it reads a large shard, or
 * while it was stopped. */
static pl_status hear_hub(worker *w)
{
    enum { LISTENS_MS = 1000 };
    const int64_t now_ms = pl_now_ms();
    pl_message m;
    pl_status status;
    if (now_ms - w->listened_ms > LISTENS_MS)
        w->heard_ms += now_ms - w->listened_ms;
    w->listened_ms = now_ms;
    pl_message_init(&m, 0);
    while ((status = pl_wire_recv(w->hub, NULL, &m)) == PL_OK) {
        w->heard_ms = pl_now_ms();
        PL_TRY(hear_message(w, &m));
    }
    if (status == PL_ERR_TIMEOUT)
        status = PL_OK;
done:
    pl_message_destroy(&m);
    return status;
}

/* Returns how long this worker waits for a hub that is silent. What it has worked on
 * would be lost, so it waits as long as it has worked, but at most a day. */
static double hub_patience_ms(const worker *w)
{
    double oldest = pl_now();
    const worker_task *held[] = {w->training, w->n_sending > 0 ? w->sending[0] : NULL};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        oldest = held[i] ? fmin(oldest, held[i]->granted) : oldest;
    /* The time since the grant contains the silence, so only half of it counts. */
    return fmax(w->options->patience_ms, fmin(500 * (pl_now() - oldest), DAY_MS));
}

/* Logs which of hub and homes are away. Returns for how long the one that was silent
 * longest has been silent. */
static int64_t note_away(worker *w)
{
    int64_t longest = pl_now_ms() - w->heard_ms;
    pl_absence_note(&w->hub_away, "hub", w->options->hub, "", longest,
                    (int64_t)hub_patience_ms(w));
    for (int i = 0; w->homes && i < w->n_homes; i++) {
        char what[32];
        const int64_t silent = pl_client_lost_ms(w->homes, i);
        snprintf(what, sizeof what, "home-%d", i + 1);
        /* a worker does not end because of a home */
        pl_absence_note(&w->home_away[i], what, w->homes_at[i], "", silent, 0);
        longest = silent > longest ? silent : longest;
    }
    return longest;
}

static pl_status check_hub(const worker *w)
{
    if ((double)(pl_now_ms() - w->heard_ms) <= hub_patience_ms(w))
        return PL_OK;
    return pl_fail(
        PL_ERR_TIMEOUT,
        "the hub at %s did not answer within %.0f s; check that the job still runs",
        w->options->hub, 1e-3 * hub_patience_ms(w));
}

/* No second fetch can begin in the meantime, because no question for a task is open. */
pl_status worker_go_on(void *context)
{
    worker *w = context;
    pl_status status;
    PL_TRY(hear_hub(w));
    (void)note_away(w);
    PL_TRY(take_trained(w));
    PL_TRY(take_packed(w));
    PL_TRY(take_sent(w));
    PL_TRY(worker_keep_leases(w));
    PL_TRY(check_hub(w));
done:
    w->broken = status;
    PL_CHECK(status);
    /* if a fetch has worked for longer than a minute, it waits as long again */
    if (w->fetching)
        pl_client_set_patience(
            w->homes, (int)fmin(DAY_MS, fmax(fmin(AWAY_MS, w->options->patience_ms),
                                             500 * (pl_now() - w->fetching->granted))));
    if (w->fetching)
        PL_CHECK(worker_check_lease(w->fetching));
    if (w->merging)
        PL_CHECK(worker_check_lease(w->training));
    return check_stop(w);
}

/* ---- the loop ---- */
static int n_held(const worker *w)
{
    return w->n_sending + (w->training != NULL) + (w->next != NULL);
}

static bool wants_merged(const worker *w)
{
    return w->training && w->training->mixed && !w->training->merged;
}

/* Whether to ask the hub for a task. The worker does not ask while the running task
 * waits for merged versions, because the new task would have to wait, too; nor before
 * the running task will end soon, because another worker could begin the new task at
 * once. */
static bool wants_task(const worker *w)
{
    int step = 0;
    double loss = 0, rate = 0;
    if (must_stop_worker(w) || wants_merged(w) || w->next ||
        n_held(w) == WORKER_TASKS_MAX || pl_now_ms() < w->ask_after_ms)
        return false;
    if (!w->training)
        return true;
    const pl_inner *in = &w->training->arm->arm.inner;
    trainer_progress(w->inner, &step, &loss, &rate);
    if (step >= w->training->steps)
        return true;
    if (step == 0 || rate <= 0)
        return false;
    double left_s =
        (double)(w->training->steps - step) * in->batch * in->context / rate;
    return left_s < EARLY_MS * 1e-3 + 2 * w->fetch_s;
}

/* Returns how many seconds the running task may wait for merged versions: 3 ttl_ms or,
 * if that is longer, the time that the task has taken so far. If the worker gave the
 * task back, this time would be lost. */
static double patience_for_merged(const worker *w)
{
    return fmax(3e-3 * w->ttl_ms, w->training->waits_since - w->training->granted);
}

/* Whether the running task has waited too long for merged versions. The time is counted
 * from the moment when the trainer waits and this worker has sent all its updates of
 * earlier phases, which these versions may need. */
static bool waits_too_long(const worker *w)
{
    double now = pl_now();
    int step = 0;
    double loss = 0, rate = 0;
    trainer_progress(w->inner, &step, &loss, &rate);
    bool sends_earlier = false;
    for (int i = 0; i < w->n_sending; i++)
        sends_earlier = sends_earlier || follows(w->training, w->sending[i]);
    if (step < w->training->job.mix_step || w->training->waits_since == 0 ||
        sends_earlier) {
        w->training->waits_since = now;
        w->training->homes_away_s = 0;
    }
    return now - w->training->waits_since - w->training->homes_away_s >
           patience_for_merged(w);
}

/* For streaming: fetches the versions that the trainer will wait for, as soon as they
 * exist. */
static pl_status bring_merged(worker *w)
{
    worker_task *task = w->training;
    char text[1024];
    if (!wants_merged(w) || worker_task_lost(task))
        return PL_OK;
    const double began = pl_now();
    w->merging = true; /* set so that take_trained does not free the task */
    pl_status status = worker_fetch_merged(w, task);
    w->merging = false;
    if (w->broken != PL_OK)
        return w->broken;
    if (task->merged)
        trainer_give_merged(w->inner, task->base);
    if (task->merged || worker_task_lost(task))
        return PL_OK;
    /* A home that does not answer makes no versions. Its outage passes, and so does a
     * restart of the hub, after which a home may not know the lease's seal. */
    if (status == PL_ERR_TIMEOUT || status == PL_ERR_NET)
        task->homes_away_s += pl_now() - began;
    if (status == PL_OK)
        status = pl_fail(PL_ERR_BUSY,
                         "the versions that %s waits for were not made within %.1f s",
                         task->name, patience_for_merged(w));
    const bool passes = worker_is_passing(status) || status == PL_ERR_STALE;
    if (passes && status != PL_ERR_CANCELLED && !waits_too_long(w) &&
        task->homes_away_s <= fmax(1e-3 * AWAY_MS, patience_for_merged(w)))
        return PL_OK;
    /* A worker that should send an update for these versions may be gone. This worker
     * gives its task back, so that it is free to do that worker's task. */
    pl_copy_text(text, sizeof text, pl_last_error());
    w->ask_after_ms = pl_now_ms() + NO_HURRY_MS;
    worker_task_lose(task); /* a task cannot be finished without its merged versions */
    trainer_cancel(w->inner);
    return worker_tell_release(w, task, status, text);
}

static pl_status work_turn(worker *w)
{
    if (wants_task(w))
        PL_CHECK(worker_ask_task(w));
    bool ready[4];
    int fds[] = {trainer_fd(w->inner), sender_packed_fd(w->out), sender_fd(w->out)};
    pl_wire_poll(&w->hub, 1, fds, 3, wants_merged(w) ? HURRY_MS : WAIT_MS, ready);
    PL_CHECK(hear_hub(w));
    (void)note_away(w);
    PL_CHECK(take_trained(w));
    PL_CHECK(take_packed(w));
    worker_task *next = w->next;
    if (!w->training && next && next->begun && !must_stop_worker(w)) {
        const double now = pl_now(), idle = next->granted - w->free_since;
        next->idle_s = idle > 0 ? idle : 0;
        next->exposed_s = next->waited_s = now - w->free_since - next->idle_s;
        w->next = NULL;
        worker_start(w, next);
    }
    PL_CHECK(take_sent(w));
    PL_CHECK(bring_merged(w));
    PL_CHECK(worker_keep_leases(w));
    return w->question || n_held(w) > 0 ? check_hub(w) : PL_OK;
}

static pl_status give_back(worker *w, worker_task *task)
{
    worker_task_lose(task);
    pl_log(PL_LOG_INFO, "task.returned", "task=%s phase=%lld", task->name,
           (long long)task->phase);
    return worker_tell_release(w, task, PL_OK, "the worker leaves the job");
}

/* Stops the worker. Gives back a task that does not train yet. Finishes and sends the
 * other tasks. But if grace_ms ends or options->stop becomes 2, gives these tasks back,
 * too. */
static pl_status drain_worker(worker *w)
{
    int64_t start = pl_now_ms();
    pl_log(PL_LOG_INFO, "worker.draining", "tasks=%d grace_ms=%d", n_held(w),
           w->options->grace_ms);
    for (;;) {
        if (w->next) {
            PL_CHECK(worker_tell_release(w, w->next, PL_OK, ""));
            worker_task_free(&w->next);
        }
        if (n_held(w) == 0)
            return worker_say_bye(w);
        /* a worker that was told to leave does not wait for hub and homes as long as a
         * worker that stays */
        const int64_t stopping_ms = pl_now_ms() - start;
        bool late = (w->options->grace_ms > 0 && stopping_ms > w->options->grace_ms) ||
                    (note_away(w) > AWAY_MS && stopping_ms > AWAY_MS);
        if (late || __atomic_load_n(w->options->stop, __ATOMIC_RELAXED) > 1) {
            /* gives back all tasks unfinished, so that other workers need not wait
             * until the leases expire */
            if (w->training)
                trainer_cancel(w->inner);
            if (w->training && !w->training->remakes)
                PL_CHECK(give_back(w, w->training));
            for (int i = 0; i < w->n_sending; i++)
                if (!w->sending[i]->remakes)
                    PL_CHECK(give_back(w, w->sending[i]));
            return worker_say_bye(w);
        }
        PL_CHECK(work_turn(w));
    }
}

static pl_status join_hub(worker *w)
{
    enum { HELLO_MS = 1000, BUSY_MS = 10000 };
    int64_t start = pl_now_ms(), said = 0;
    const char *list[PL_HOMES_MAX];
    w->heard_ms = w->listened_ms = start;
    w->hub_away.next_ms = REACH_MS;
    while (!w->welcome && !must_stop_worker(w)) {
        bool ready = false;
        /* told_ms: the hub has refused it for now, because its key has many workers */
        if (said == 0 || pl_now_ms() - said > (w->told_ms > 0 ? BUSY_MS : HELLO_MS)) {
            PL_CHECK(worker_say_hello(w));
            said = pl_now_ms();
        }
        pl_wire_poll(&w->hub, 1, NULL, 0, WAIT_MS, &ready);
        PL_CHECK(hear_hub(w));
        /* Before the first answer, a wrong address is as likely as a hub that is away.
         * The worker has nothing else to do yet, so it finds out at once which of both
         * it is. */
        const int64_t silent = pl_now_ms() - w->heard_ms;
        const char *why = "";
        if (pl_absence_is_due(&w->hub_away, silent) &&
            pl_wire_reach(w->options->hub, REACH_MS) != PL_OK)
            why = pl_last_error();
        pl_absence_note(&w->hub_away, "hub", w->options->hub, why, silent,
                        w->options->patience_ms);
        PL_CHECK(check_hub(w));
    }
    if (!w->welcome)
        return PL_OK;
    w->hub_away = (pl_absence){.next_ms = 0};
    for (int i = 0; i < w->n_homes; i++)
        list[i] = w->homes_at[i];
    pl_client_options options = {.homes = list,
                                 .n_homes = w->n_homes,
                                 .patience_ms = w->options->patience_ms,
                                 .direct = w->options->direct,
                                 .idle = worker_go_on,
                                 .idle_context = w};
    PL_CHECK(pl_client_create(&options, &w->homes));
    return sender_create(w, &w->out);
}

/* Runs the worker until it ends or, with *moved, until a home has moved. */
static pl_status run_worker(const pl_worker_options *options, bool *moved)
{
    pl_status status = PL_OK;
    worker w = {.options = options};
    w.blobs = cache_create(options->cache_bytes);
    w.moments = cache_create(options->cache_bytes);
    PL_TRY(trainer_create(&options->backend, options->recompute, &w.inner, w.device));
    PL_TRY(pl_wire_connect(options->hub, &w.hub));
    if (options->offers && options->offers[0])
        PL_TRY(peer_create(options->offers, &w.offers, w.offers_at));
    PL_TRY(join_hub(&w));
    pl_log(PL_LOG_INFO, "worker.ready", "hub=%s device=\"%s\"", options->hub, w.device);
    w.free_since = pl_now();
    while (!must_stop_worker(&w))
        PL_TRY(work_turn(&w));
    if (w.out)
        PL_TRY(w.finished ? worker_say_bye(&w) : drain_worker(&w));
done:
    *moved = w.moved && status == PL_ERR_STALE;
    for (int i = 0; i < w.n_sending; i++)
        worker_task_lose(w.sending[i]);
    trainer_destroy(&w.inner);
    sender_destroy(w.out);
    peer_destroy(w.offers);
    for (int i = 0; i < w.n_sending; i++)
        worker_task_free(&w.sending[i]);
    worker_task_free(&w.training);
    worker_task_free(&w.next);
    worker_forget(&w);
    cache_destroy(&w.blobs);
    cache_destroy(&w.moments);
    pl_client_destroy(&w.homes);
    pl_keypair_wipe(&w.mates);
    pl_wire_close(&w.hub);
    return status;
}

/* If a home has moved, the tasks that the worker holds are dropped: others, or this
 * worker, do them again with the same result. */
pl_status pl_worker_run(const pl_worker_options *options)
{
    bool moved = false;
    pl_status status;
    do {
        if (moved)
            pl_log(PL_LOG_WARN, "homes.moved", "reason=\"%s\"", pl_last_error());
        status = run_worker(options, &moved);
    } while (moved);
    return status;
}
