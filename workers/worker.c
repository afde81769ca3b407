/* The worker's loop: lease, fetch, train, send. The trainer's thread computes; this
 * thread talks, and keeps the lease alive whatever it waits for. */
#include "workers/worker_parts.h"

#include <unistd.h>

enum { RESEND_MS = 1000, WAIT_MS = 100 };

/* ---- hub ---- */
static pl_status send_hub(worker *w, pl_message *m)
{
    if (m->request == 0)
        m->request = pl_wire_next_request();
    pl_status status = pl_wire_send(w->hub, m);
    return status == PL_ERR_NET ? PL_OK : status; /* sent again */
}

static void put_hello(worker *w, pl_message *m)
{
    pl_message_init(m, PL_MSG_HELLO);
    pl_put_text(&m->body, PL_TAG_NAME, w->options->name);
    pl_put_text(&m->body, PL_TAG_ROLE, "worker");
    pl_put_text(&m->body, PL_TAG_DEVICE, w->device);
    pl_put_u64(&m->body, PL_TAG_PID, (uint64_t)getpid());
}

static void put_report(worker *w, pl_message *m, uint16_t type)
{
    pl_message_init(m, type);
    m->token = w->task.token;
    pl_put_text(&m->body, PL_TAG_NAME, w->options->name);
    pl_put_u64(&m->body, PL_TAG_PHASE, (uint64_t)w->task.phase);
    pl_put_text(&m->body, PL_TAG_TASK, w->task.name);
}

static pl_status send_renew(worker *w)
{
    pl_message m;
    int step = 0;
    double loss = 0, rate = 0;
    trainer_progress(w->inner, &step, &loss, &rate);
    put_report(w, &m, PL_MSG_RENEW);
    pl_put_f64(&m.body, PL_TAG_LOSS, loss);
    pl_put_u64(&m.body, PL_TAG_STEP, (uint64_t)step);
    pl_put_f64(&m.body, PL_TAG_RATE, rate);
    pl_status status = send_hub(w, &m);
    pl_message_destroy(&m);
    w->task.renewed_ms = pl_now_ms();
    return status;
}

/* Messages that come while a task is under way. A hub that has started again does
 * not know us: introduce ourselves, the next RENEW takes the lease up again. */
static pl_status hear_hub(worker *w)
{
    pl_message m, hello;
    pl_status status;
    pl_message_init(&m, 0);
    while ((status = pl_wire_recv(w->hub, NULL, &m)) == PL_OK) {
        if (m.type == PL_MSG_LEASE_LOST)
            w->task.lost = true;
        if (m.type == PL_MSG_ERR) {
            put_hello(w, &hello);
            PL_TRY(send_hub(w, &hello));
            pl_message_destroy(&hello);
        }
    }
    if (status == PL_ERR_TIMEOUT)
        status = PL_OK;
done:
    pl_message_destroy(&m);
    return status;
}

pl_status worker_idle(void *context)
{
    worker *w = context;
    if (!w->task.active)
        return PL_OK;
    PL_RETURN_IF(hear_hub(w));
    if (w->task.lost)
        return pl_fail(PL_ERR_STALE, "the lease of %s was given to another worker",
                       w->task.name);
    if (pl_now_ms() - w->task.renewed_ms < w->ttl_ms / 4)
        return PL_OK;
    return send_renew(w);
}

/* ---- joining ---- */
static pl_status read_welcome(worker *w, const pl_message *a)
{
    pl_reader r;
    char addresses[PL_HOMES_MAX][PL_ADDRESS_MAX];
    const char *list[PL_HOMES_MAX];
    pl_reader_open(&r, "WELCOME", a->body.data, a->body.len);
    size_t n = pl_field_count(&r, PL_TAG_ADDRESS);
    if (n < 1 || n > PL_HOMES_MAX)
        return pl_fail(PL_ERR_PROTO, "the hub named %zu homes", n);
    for (size_t i = 0; i < n; i++) {
        pl_get_text(&r, PL_TAG_ADDRESS, i, addresses[i], sizeof addresses[i]);
        list[i] = addresses[i];
    }
    w->ttl_ms = (int)pl_get_u64(&r, PL_TAG_TTL_MS, 0);
    PL_RETURN_IF(pl_reader_status(&r));
    pl_client_options options = {.homes = list,
                                 .n_homes = (int)n,
                                 .patience_ms = w->options->patience_ms,
                                 .idle = worker_idle,
                                 .idle_context = w};
    pl_client_destroy(&w->homes);
    return pl_client_create(&options, &w->homes);
}

static bool must_stop(const worker *w)
{
    return w->options->stop && *w->options->stop;
}

/* Asks the hub until it answers; ERR_CANCELLED when told to stop meanwhile. */
static pl_status ask_hub(worker *w, pl_message *question, pl_message *answer)
{
    int64_t start = pl_now_ms(), sent = 0;
    question->request = pl_wire_next_request();
    for (;;) {
        int64_t now = pl_now_ms();
        bool ready = false;
        if (must_stop(w))
            return pl_fail(PL_ERR_CANCELLED, "stopped on request");
        if (now - start > w->options->patience_ms)
            return pl_fail(PL_ERR_TIMEOUT,
                           "the hub at %s did not answer within %d s; is the job still "
                           "running?",
                           w->options->hub, w->options->patience_ms / 1000);
        if (sent == 0 || now - sent > RESEND_MS) {
            PL_RETURN_IF(send_hub(w, question));
            sent = now;
        }
        pl_wire_poll(&w->hub, 1, NULL, 0, WAIT_MS, &ready);
        pl_status status = pl_wire_recv(w->hub, NULL, answer);
        if (status == PL_OK && answer->request == question->request)
            return PL_OK;
        if (status != PL_OK && status != PL_ERR_TIMEOUT)
            return status;
    }
}

static pl_status join(worker *w)
{
    pl_message q, a;
    put_hello(w, &q);
    pl_message_init(&a, 0);
    pl_status status = ask_hub(w, &q, &a);
    if (status == PL_OK && a.type != PL_MSG_WELCOME)
        status = pl_fail(PL_ERR_PROTO, "the hub answered HELLO with type %u", a.type);
    if (status == PL_OK)
        status = read_welcome(w, &a);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* ---- one task ---- */
static pl_status read_task(worker *w, const pl_message *m, pl_hash *arm_blob)
{
    pl_reader r;
    worker_task *task = &w->task;
    char arm[PL_ARM_NAME_MAX];
    pl_reader_open(&r, "TASK", m->body.data, m->body.len);
    pl_get_text(&r, PL_TAG_ARM, 0, arm, sizeof arm);
    *arm_blob = pl_get_hash(&r, PL_TAG_ARM_BLOB, 0);
    uint64_t path = pl_get_u64(&r, PL_TAG_PATH, 0);
    uint64_t replica = pl_get_u64(&r, PL_TAG_REPLICA, 0);
    task->phase = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
    PL_RETURN_IF(pl_reader_status(&r));
    if (path > INT32_MAX || replica > INT32_MAX || task->phase < 0)
        return pl_fail(PL_ERR_PROTO, "the hub sent an impossible task");
    task->path = (int)path;
    task->replica = (int)replica;
    task->token = m->token;
    task->started = pl_now();
    task->renewed_ms = pl_now_ms();
    snprintf(task->name, sizeof task->name, "%s/", arm); /* whole after worker_fetch */
    return PL_OK;
}

static void start_training(worker *w)
{
    worker_task *task = &w->task;
    task->job = (train_job){.arm = &task->arm->arm,
                            .topology = task->arm->topology,
                            .shard = task->shard->tokens,
                            .path = task->path,
                            .replica = task->replica,
                            .phase = task->phase,
                            .start = task->start,
                            .moments = task->moments};
    trainer_start(w->inner, &task->job);
}

/* Waits for the trainer; a lost lease ends it early. */
static pl_status train(worker *w)
{
    pl_status lease = PL_OK;
    start_training(w);
    while (!trainer_take(w->inner)) {
        bool ready[2];
        int fd = trainer_fd(w->inner);
        pl_wire_poll(&w->hub, 1, &fd, 1, WAIT_MS, ready);
        if (lease == PL_OK) {
            lease = worker_idle(w);
            if (lease != PL_OK)
                trainer_cancel(w->inner);
        }
    }
    PL_RETURN_IF(lease);
    if (w->task.job.status != PL_OK)
        return pl_fail(w->task.job.status, "%s", w->task.job.error);
    return PL_OK;
}

static pl_status tell_done(worker *w)
{
    pl_message m;
    const train_job *job = &w->task.job;
    put_report(w, &m, PL_MSG_DONE);
    pl_put_u64(&m.body, PL_TAG_TOKENS, job->n_tokens);
    pl_put_f64(&m.body, PL_TAG_LOSS, job->loss);
    pl_put_f64(&m.body, PL_TAG_SECONDS, job->seconds);
    pl_put_f64(&m.body, PL_TAG_OVERHEAD, pl_now() - w->task.started - job->seconds);
    pl_status status = send_hub(w, &m);
    pl_message_destroy(&m);
    return status;
}

static pl_status tell_release(worker *w, const char *reason)
{
    pl_message m;
    char text[200];
    pl_copy_text(text, sizeof text, reason);
    pl_message_init(&m, PL_MSG_RELEASE);
    m.token = w->task.token;
    pl_put_text(&m.body, PL_TAG_TEXT, text);
    pl_put_text(&m.body, PL_TAG_NAME, w->options->name);
    pl_put_u64(&m.body, PL_TAG_PHASE, (uint64_t)w->task.phase);
    pl_put_text(&m.body, PL_TAG_TASK, w->task.name);
    pl_status status = send_hub(w, &m);
    pl_message_destroy(&m);
    return status;
}

static pl_status do_task(worker *w, const pl_message *m)
{
    pl_hash arm_blob;
    PL_RETURN_IF(read_task(w, m, &arm_blob));
    PL_RETURN_IF(worker_fetch(w, &arm_blob));
    PL_RETURN_IF(train(w));
    PL_RETURN_IF(worker_send(w));
    return tell_done(w);
}

/* A lost lease, a restarted home, a rejected update: the task is given up and the
 * worker asks for another. Only what makes every further task fail ends it. */
static pl_status give_up(worker *w, pl_status why)
{
    char text[256];
    pl_copy_text(text, sizeof text, pl_last_error());
    pl_log(PL_LOG_WARN, "task.abandoned", "task=%s phase=%lld reason=\"%s\"",
           w->task.name, (long long)w->task.phase, text);
    if (why == PL_ERR_STALE)
        return PL_OK;
    bool is_passing = why == PL_ERR_BUSY || why == PL_ERR_NET || why == PL_ERR_TIMEOUT;
    PL_RETURN_IF(
        tell_release(w, is_passing ? "" : text)); /* no reason: not a failure */
    if (why == PL_ERR_DEVICE || why == PL_ERR_NOMEM || why == PL_ERR_UNSUPPORTED)
        return pl_fail(why, "%s", text);
    pl_sleep_ms(200);
    return PL_OK;
}

static pl_status next_task(worker *w)
{
    pl_message q, a;
    pl_message_init(&q, PL_MSG_TASK_REQ);
    pl_message_init(&a, 0);
    pl_put_text(&q.body, PL_TAG_NAME, w->options->name);
    pl_status status = ask_hub(w, &q, &a);
    if (status == PL_OK && a.type == PL_MSG_TASK) {
        status = do_task(w, &a);
        if (status != PL_OK)
            status = give_up(w, status);
        worker_task_clear(w);
    } else if (status == PL_OK && a.type == PL_MSG_ERR) {
        status = join(w);
    }
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_worker_run(const pl_worker_options *options)
{
    pl_status status = PL_OK;
    worker w = {.options = options};
    w.blobs = cache_create(options->cache_bytes);
    PL_TRY(trainer_create(&options->backend, &w.inner, w.device));
    PL_TRY(pl_wire_connect(options->hub, &w.hub));
    PL_TRY(join(&w));
    pl_log(PL_LOG_INFO, "worker.ready", "hub=%s device=\"%s\"", options->hub, w.device);
    while (!must_stop(&w))
        PL_TRY(next_task(&w));
done:
    if (status == PL_ERR_CANCELLED && must_stop(&w))
        status = PL_OK;
    worker_task_clear(&w);
    trainer_destroy(&w.inner);
    worker_forget(&w);
    cache_destroy(&w.blobs);
    pl_client_destroy(&w.homes);
    pl_wire_close(&w.hub);
    return status;
}
