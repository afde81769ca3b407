/* The worker's connection to the hub: hello, questions for tasks, renewals, reports. */
#include "workers/worker_internal.h"

#include <unistd.h>

enum { RESEND_MS = 1000 };

static pl_status send_hub(worker *w, pl_message *m)
{
    if (m->request == 0)
        m->request = pl_wire_next_request();
    pl_status status = pl_wire_send(w->hub, m);
    pl_message_destroy(m);
    return status == PL_ERR_NET ? PL_OK : status; /* it is sent again */
}

pl_status worker_say_hello(worker *w)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_HELLO);
    pl_put_text(&m.body, PL_TAG_NAME, w->options->name);
    pl_put_text(&m.body, PL_TAG_ROLE, "worker");
    pl_put_text(&m.body, PL_TAG_DEVICE, w->device);
    pl_put_u64(&m.body, PL_TAG_PID, (uint64_t)getpid());
    if (w->offers_at[0])
        pl_put_text(&m.body, PL_TAG_ADDRESS, w->offers_at);
    return send_hub(w, &m);
}

/* The addresses of the first WELCOME stay valid while the job runs. Homes that are
 * added later are named by the homes whose names moved away. */
static pl_status know_home(worker *w, int i, const char *named)
{
    const char *address = w->options->n_homes > 0 ? w->options->homes[i] : named;
    if (w->welcome && i < w->n_homes && strcmp(w->homes_at[i], address) != 0)
        return pl_fail(PL_ERR_BUSY,
                       "the hub names other homes than before (%s instead of %s); "
                       "start this worker again",
                       address, w->homes_at[i]);
    pl_copy_text(w->homes_at[i], sizeof w->homes_at[i], address);
    return PL_OK;
}

/* Reads the key pair with which workers ask each other for updates. */
static pl_status read_mates(worker *w, pl_reader *r)
{
    size_t len = 0;
    if (pl_field_count(r, PL_TAG_SECRET) == 0)
        return PL_OK;
    const uint8_t *secret = pl_get_bytes(r, PL_TAG_SECRET, 0, &len);
    if (len != PL_PUBKEY_BYTES)
        return pl_fail(PL_ERR_PROTO, "the hub's secret has %zu bytes", len);
    pl_keypair_of(secret, &w->mates);
    w->has_mates = true;
    if (pl_gate_is_open())
        pl_gate_admit(&w->mates.open, PL_AS_WORKER);
    return PL_OK;
}

/* An older table does no harm, because homes know better. */
static pl_status read_table(worker *w, pl_reader *r)
{
    char text[PL_PLACES_TEXT];
    if (w->welcome || pl_field_count(r, PL_TAG_TEXT) == 0)
        return PL_OK;
    pl_get_text(r, PL_TAG_TEXT, 0, text, sizeof text);
    PL_RETURN_IF(pl_reader_status(r));
    return pl_places_parse(text, &w->places);
}

pl_status worker_read_welcome(worker *w, const pl_message *answer)
{
    pl_reader r;
    char address[PL_ADDRESS_MAX];
    pl_reader_open(&r, "WELCOME", answer->body.data, answer->body.len);
    size_t n = pl_field_count(&r, PL_TAG_ADDRESS);
    if (n < 1 || n > PL_HOMES_MAX || (w->welcome && n < (size_t)w->n_homes))
        return pl_fail(PL_ERR_PROTO, "the hub named %zu homes", n);
    if (w->welcome && n > (size_t)w->n_homes)
        n = (size_t)w->n_homes;
    if (w->options->n_homes > 0 && n != (size_t)w->options->n_homes)
        return pl_fail(PL_ERR_CONFIG,
                       "the job has %zu homes, and %d relays were given: give one for "
                       "each, in their order",
                       n, w->options->n_homes);
    for (size_t i = 0; i < n; i++) {
        pl_get_text(&r, PL_TAG_ADDRESS, i, address, sizeof address);
        PL_RETURN_IF(pl_reader_status(&r));
        PL_RETURN_IF(know_home(w, (int)i, address));
    }
    PL_RETURN_IF(read_table(w, &r));
    w->n_homes = (int)n;
    w->ttl_ms = (int)pl_get_u64(&r, PL_TAG_TTL_MS, 0);
    PL_RETURN_IF(pl_reader_status(&r));
    w->welcome = true;
    return read_mates(w, &r);
}

/* The newest task that this worker holds: its path may go on here before it has
 * arrived. */
static const worker_task *newest(const worker *w)
{
    const worker_task *task = w->training;
    if (!task && w->n_sending > 0)
        task = w->sending[w->n_sending - 1];
    return task && !worker_task_lost(task) ? task : NULL;
}

/* Asks one question at a time and repeats it until it is answered. */
pl_status worker_ask_task(worker *w)
{
    int64_t now = pl_now_ms();
    pl_message m;
    if (w->question != 0 && now - w->asked_ms < RESEND_MS)
        return PL_OK;
    if (w->question == 0)
        w->question = pl_wire_next_request();
    w->asked_ms = now;
    pl_message_init(&m, PL_MSG_TASK_REQ);
    m.request = w->question;
    pl_put_text(&m.body, PL_TAG_NAME, w->options->name);
    if (newest(w)) {
        m.token = newest(w)->token;
        pl_put_u64(&m.body, PL_TAG_PHASE, (uint64_t)newest(w)->phase);
        pl_put_text(&m.body, PL_TAG_TASK, newest(w)->name);
    }
    return send_hub(w, &m);
}

static void put_report(const worker *w, const worker_task *task, pl_message *m)
{
    m->token = task->token;
    pl_put_text(&m->body, PL_TAG_NAME, w->options->name);
    pl_put_u64(&m->body, PL_TAG_PHASE, (uint64_t)task->phase);
    pl_put_text(&m->body, PL_TAG_TASK, task->name);
}

/* Only the task that trains reports its progress. */
static pl_status renew(worker *w, worker_task *task)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_RENEW);
    put_report(w, task, &m);
    if (task == w->training) {
        int step = 0;
        double loss = 0, rate = 0;
        trainer_progress(w->inner, &step, &loss, &rate);
        pl_put_f64(&m.body, PL_TAG_LOSS, loss);
        pl_put_u64(&m.body, PL_TAG_STEP, (uint64_t)step);
        pl_put_f64(&m.body, PL_TAG_RATE, rate);
    }
    if (task->lease_bytes > 0)
        pl_put_bytes(&m.body, PL_TAG_LEASE, task->lease, task->lease_bytes);
    task->renewal = m.request = pl_wire_next_request();
    task->renewed_ms = pl_now_ms();
    return send_hub(w, &m);
}

static pl_status renew_late(worker *w, worker_task *task)
{
    if (!task || worker_task_lost(task) ||
        pl_now_ms() - task->renewed_ms < w->ttl_ms / 4)
        return PL_OK;
    return renew(w, task);
}

pl_status worker_keep_leases(worker *w)
{
    /* Earlier phases come first, because a hub that restarted takes leases up in order.
     */
    for (int i = 0; i < w->n_sending; i++)
        PL_RETURN_IF(renew_late(w, w->sending[i]));
    PL_RETURN_IF(renew_late(w, w->training));
    PL_RETURN_IF(renew_late(w, w->next));
    return renew_late(w, w->fetching);
}

static bool is_renewal(const worker_task *task, uint64_t request)
{
    return task && task->renewal == request;
}

worker_task *worker_task_of_renewal(worker *w, uint64_t request)
{
    worker_task *held[] = {w->fetching, w->next, w->training};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (is_renewal(held[i], request))
            return held[i];
    for (int i = 0; i < w->n_sending; i++)
        if (is_renewal(w->sending[i], request))
            return w->sending[i];
    return NULL;
}

pl_status worker_tell_offer(worker *w, const worker_task *task)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_OFFER);
    put_report(w, task, &m);
    return send_hub(w, &m);
}

pl_status worker_tell_done(worker *w, const worker_task *task)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_DONE);
    put_report(w, task, &m);
    for (size_t i = 0; task->again && i < task->n_made; i++)
        pl_put_hash(&m.body, PL_TAG_BLOB, &task->made[i]);
    pl_put_u64(&m.body, PL_TAG_TOKENS, task->job.n_tokens);
    pl_put_f64(&m.body, PL_TAG_LOSS, task->job.loss);
    pl_put_f64(&m.body, PL_TAG_SECONDS, task->job.seconds);
    pl_put_f64(&m.body, PL_TAG_OVERHEAD, task->exposed_s);
    pl_put_f64(&m.body, PL_TAG_IDLE, task->idle_s);
    pl_put_f64(&m.body, PL_TAG_WAITED, task->waited_s);
    if (task->again)
        pl_put_u64(&m.body, PL_TAG_AUDIT, 1);
    if (task->likeness)
        pl_buf_append(&m.data, task->likeness, task->n_seeds * sizeof *task->likeness);
    PL_RETURN_IF(pl_failpoint("worker.done.before"));
    PL_RETURN_IF(send_hub(w, &m));
    return pl_failpoint("worker.done.after");
}

pl_status worker_tell_release(worker *w, const worker_task *task, pl_status why,
                              const char *reason)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_RELEASE);
    if (why != PL_OK) {
        pl_put_u64(&m.body, PL_TAG_STATUS, (uint64_t)why);
        pl_put_text(&m.body, PL_TAG_TEXT, reason);
    }
    put_report(w, task, &m);
    return send_hub(w, &m);
}

pl_status worker_say_bye(worker *w)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_RELEASE);
    pl_put_text(&m.body, PL_TAG_NAME, w->options->name);
    pl_put_u64(&m.body, PL_TAG_PID, (uint64_t)getpid());
    return send_hub(w, &m);
}
