/* The worker's connection to the hub: HELLO, questions for tasks, renewals of leases,
 * and reports. */
#include "workers/worker_internal.h"

#include <math.h>
#include <unistd.h>

enum { RESEND_MS = 1000, RENEW_MS = 4000 };

static pl_status send_hub(worker *w, pl_message *m)
{
    if (m->request == 0)
        m->request = pl_wire_next_request();
    pl_status status = pl_wire_send(w->hub, m);
    pl_message_destroy(m);
    return status == PL_ERR_NET ? PL_OK : status; /* the message is sent again later */
}

/* Adds up what the worker's two clients have measured: one mostly fetches, and the
 * other one sends. */
static void measure_links(const worker *w, pl_link *l, uint64_t *reconnects)
{
    pl_link out = {0};
    pl_client_link(w->homes, l);
    sender_link(w->out, &out);
    const uint32_t first = (uint32_t)w->n_homes;
    *reconnects = (l->n_connects > first ? l->n_connects - first : 0) +
                  (out.n_connects > first ? out.n_connects - first : 0);
    l->up_bytes_per_s = out.up_bytes_per_s;
    if (l->rtt_ms == 0 || (out.rtt_ms > 0 && out.rtt_ms < l->rtt_ms))
        l->rtt_ms = out.rtt_ms;
    l->up_bytes += out.up_bytes;
    l->down_bytes += out.down_bytes;
    l->repeated_bytes += out.repeated_bytes;
}

pl_status worker_say_hello(worker *w)
{
    pl_message m = {0};
    pl_link l = {0};
    uint64_t reconnects;
    if (w->out)
        measure_links(w, &l, &reconnects);
    if (!w->process)
        w->process =
            (pl_random_fresh() >> 1 & ~(uint64_t)UINT32_MAX) | (uint32_t)getpid();
    PL_SAY(&m, HELLO, hello, .name = w->options->name, .role = "worker",
           .device = w->device, .pid = w->process, .down = l.down_bytes,
           .release = PL_VERSION, .address = w->offers_at[0] ? w->offers_at : NULL);
    return send_hub(w, &m);
}

pl_status worker_read_welcome(worker *w, pl_message *answer)
{
    pl_reader r;
    pl_msg_welcome said;
    char address[PL_ADDRESS_MAX];
    PL_CHECK(PL_HEAR(answer, welcome, &said));
    size_t n = said.address.n;
    pl_reader_open(&r, "WELCOME", answer->body.data, answer->body.len);
    if (n < 1 || n > PL_HOMES_MAX)
        return pl_fail(PL_ERR_PROTO, "the hub named %zu homes; a job has 1 to %d", n,
                       PL_HOMES_MAX);
    if (w->welcome && n != (size_t)w->n_homes) {
        w->moved = true;
        return pl_fail(PL_ERR_STALE, "the hub names %zu homes, and before it named %d",
                       n, w->n_homes);
    }
    if (w->options->n_homes > 0 && n != (size_t)w->options->n_homes)
        return pl_fail(PL_ERR_CONFIG,
                       "the job has %zu homes, but %d relays were given; give one "
                       "relay per home, in the order of the homes",
                       n, w->options->n_homes);
    for (size_t i = 0; i < n; i++) {
        pl_get_text(&r, PL_TAG_ADDRESS, i, address, sizeof address);
        PL_CHECK(pl_reader_status(&r));
        /* the address of the home, or of its relay */
        const char *at = w->options->n_homes > 0 ? w->options->homes[i] : address;
        if (w->welcome && strcmp(w->homes_at[i], at) != 0) {
            w->moved = true; /* the worker begins anew (pl_worker_run) */
            return pl_fail(PL_ERR_STALE,
                           "the hub names different homes than before (%s instead of "
                           "%s)",
                           at, w->homes_at[i]);
        }
        pl_copy_text(w->homes_at[i], sizeof w->homes_at[i], at);
    }
    w->n_homes = (int)n;
    w->ttl_ms = (int)said.ttl_ms;
    w->welcome = true;
    if (said.secret) {
        /* reads the key pair that workers use to ask each other for updates */
        pl_keypair_of(said.secret, &w->mates);
        w->has_mates = true;
        if (pl_gate_is_open())
            pl_gate_admit(&w->mates.open, PL_AS_WORKER);
    }
    return PL_OK;
}

/* Asks the hub for a task. Only one question is open at a time. The worker repeats the
 * question until the hub answers. */
pl_status worker_ask_task(worker *w)
{
    int64_t now = pl_now_ms();
    if (w->question != 0 && now - w->asked_ms < RESEND_MS)
        return PL_OK;
    if (w->question == 0)
        w->question = pl_wire_next_request();
    w->asked_ms = now;
    /* The question names the newest task that this worker trains or sends. Then the hub
     * may let the worker continue the same path before the results have arrived. */
    const worker_task *held = w->training;
    if (!held && w->n_sending > 0)
        held = w->sending[w->n_sending - 1];
    if (held && (held->remakes || worker_task_lost(held)))
        held = NULL;
    pl_message m = {.request = w->question, .token = held ? held->token : 0};
    PL_SAY(&m, TASK_REQ, task_req, .name = w->options->name,
           .phase = held ? held->phase : 0, .task = held ? held->name : NULL);
    return send_hub(w, &m);
}

/* Renews a lease before it ends, and every few seconds even if it lives longer: the
 * answers show this worker that the hub is not away. The message reports progress only
 * for the task that trains.
 * The hub hears of the first step and of the end of the steps at once: from these times
 * it computes when the task will be done. */
static pl_status renew_late(worker *w, worker_task *task)
{
    int step = 0;
    double loss = 0, rate = 0;
    uint64_t reconnects = 0;
    pl_link l;
    if (!task || task->remakes || worker_task_lost(task))
        return PL_OK;
    const bool trains = task == w->training;
    const pl_sealed_lease *lease = worker_task_lease(task);
    if (trains)
        trainer_progress(w->inner, &step, &loss, &rate);
    const bool has_news =
        (step > 0 && !task->told_steps) || (task->sends && !task->told_sending);
    const double every_ms =
        fmin(fmin(w->ttl_ms, w->options->patience_ms) / 4, RENEW_MS);
    if ((double)(pl_now_ms() - task->renewed_ms) < every_ms && !has_news)
        return PL_OK;
    measure_links(w, &l, &reconnects);
    pl_message m = {.token = task->token};
    PL_SAY(&m, RENEW, renew, .name = w->options->name, .phase = task->phase,
           .task = task->name, .trains = trains, .loss = loss, .step = (uint64_t)step,
           .rate = rate, .lease = {lease ? lease->bytes : NULL, lease ? lease->len : 0},
           .memory_bytes = trains ? pl_memory_peak_bytes((int)getpid()) : 0,
           .up_rate = l.up_bytes_per_s, .down_rate = l.down_bytes_per_s,
           .rtt_ms = l.rtt_ms, .up = l.up_bytes, .down = l.down_bytes,
           .repeated = l.repeated_bytes, .reconnects = reconnects);
    task->told_steps = task->told_steps || step > 0;
    task->told_sending = task->sends;
    task->renewal = m.request = pl_wire_next_request();
    task->renewed_ms = pl_now_ms();
    return send_hub(w, &m);
}

pl_status worker_keep_leases(worker *w)
{
    /* Tasks of earlier phases come first, because a hub that restarted must learn of
     * their leases first. */
    for (int i = 0; i < w->n_sending; i++)
        PL_CHECK(renew_late(w, w->sending[i]));
    PL_CHECK(renew_late(w, w->training));
    PL_CHECK(renew_late(w, w->next));
    return renew_late(w, w->fetching);
}

worker_task *worker_held_task(worker *w, uint64_t renewal, uint64_t token,
                              int64_t phase)
{
    worker_task *held[3 + WORKER_TASKS_MAX] = {w->fetching, w->next, w->training};
    memcpy(held + 3, w->sending, (size_t)w->n_sending * sizeof *held);
    for (int i = 0; i < 3 + w->n_sending; i++)
        if (held[i] &&
            (renewal != 0 ? held[i]->renewal == renewal
                          : held[i]->token == token && held[i]->phase == phase))
            return held[i];
    return NULL;
}

pl_status worker_tell_offer(worker *w, const worker_task *task)
{
    pl_message m = {.token = task->token};
    PL_SAY(&m, OFFER, offer, .name = w->options->name, .phase = task->phase,
           .task = task->name);
    return send_hub(w, &m);
}

pl_status worker_tell_done(worker *w, const worker_task *task)
{
    pl_message m = {.token = task->token};
    PL_SAY(&m, DONE, done, .name = w->options->name, .phase = task->phase,
           .task = task->name,
           .blob = PL_ITEMS(task->made, task->again ? task->n_made : 0),
           .work = task->job.work, .overhead = task->exposed_s, .idle = task->idle_s,
           .waited = task->waited_s, .audit = task->again);
    PL_CHECK(pl_failpoint("worker.done.before"));
    PL_CHECK(send_hub(w, &m));
    return pl_failpoint("worker.done.after");
}

pl_status worker_tell_release(worker *w, const worker_task *task, pl_status why,
                              const char *reason)
{
    pl_message m = {.token = task->token};
    if (why == PL_ERR_STALE || (worker_is_passing(why) && !pl_is_unreached(why)))
        why = PL_OK;
    PL_SAY(&m, RELEASE, release, .status = why, .text = why != PL_OK ? reason : NULL,
           .name = w->options->name, .phase = task->phase, .task = task->name);
    return send_hub(w, &m);
}

pl_status worker_say_bye(worker *w)
{
    pl_message m = {0};
    PL_SAY(&m, RELEASE, leave, .name = w->options->name, .pid = w->process);
    return send_hub(w, &m);
}
