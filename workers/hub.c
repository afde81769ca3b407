/* The hub's loop and its answers to workers. hub_internal.h explains how the hub works
 * and what each file contains. */
#include "workers/hub_internal.h"

enum {
    TICK_MS = 50,
    PARK_MS = 1500,
    OVERDUE_MS = 1000,
    STOPPED_MS = 1000,
    REACHED_MS = 10000, /* time in which workers find a home that is back */
    HEARD_AT_ONCE = 256
};

pl_status hub_answer(hub *h, const pl_peer *peer, pl_message *a)
{
    pl_status status = pl_wire_give_to(h->socket, peer, a);
    pl_message_destroy(a);
    if (status == PL_ERR_ARG) /* the answer is too long for one message */
        pl_log(PL_LOG_ERROR, "answer.dropped", "error=\"%s\"", pl_last_error());
    /* ERR_NET: the peer is gone, and will repeat its question when it is back */
    return status == PL_ERR_NET || status == PL_ERR_ARG ? PL_OK : status;
}

pl_status hub_give_nothing(hub *h, hub_worker *w, pl_message *a)
{
    w->waiting = false;
    w->given_token = 0;
    a->request = w->answered = w->request;
    return hub_answer(h, &w->peer, a);
}

void hub_free_held(hub *h, int worker)
{
    hub_note_returned(h, worker, pl_now_ms());
    for (size_t i = 0; i < h->n_audits; i++)
        if (h->audits[i].lease.active && h->audits[i].lease.worker == worker)
            hub_audit_release(h, &h->audits[i], NULL);
    plan_release_worker(&h->tasks, worker);
    plan_withdraw(&h->tasks, worker);
    h->workers[worker].task[0] = '\0';
    h->workers[worker].waiting = false;
}

static pl_status send_task(hub *h, hub_worker *w)
{
    plan_arm *arm = &h->tasks.arms[w->given.arm];
    plan_path *path = &arm->paths[w->given.index];
    const int replicas = pl_topology_n_replicas(arm->topology);
    const hub_audit *audit = hub_audit_of(h, w->given_token, (int)(w - h->workers));
    /* Workers that offer the updates of this task's mates, at most one per slot. The
     * worker asks them before the homes, so that the homes have less work. */
    const int n_slots = pl_topology_n_slots(arm->topology);
    pl_msg_peer *peers = pl_alloc((size_t)n_slots * sizeof *peers);
    size_t n_peers = 0;
    const int *mates =
        w->given_phase > 0 ? plan_mates(arm, w->given.index, w->given_phase) : NULL;
    for (int slot = 0; mates && slot < n_slots; slot++) {
        const plan_path *mate = mates[slot] >= 0 ? &arm->paths[mates[slot]] : NULL;
        if (!mate || mate == path || mate->offered < w->given_phase)
            continue;
        const hub_worker *other = &h->workers[mate->offered_by];
        if (other->offers_at[0])
            peers[n_peers++] = (pl_msg_peer){other->offers_at, mate->name};
    }
    bool late = plan_is_late(arm, w->given.index, w->given_phase, pl_now_ms());
    pl_hash before = {{0}};
    int64_t repeats = 0;
    pl_sealed_lease sealed = {.len = 0};
    if (audit) {
        before = audit->row.before;
        repeats = audit->row.repeats;
    } else {
        pl_lease lease = {.path = w->given.index / replicas,
                          .replica = w->given.index % replicas,
                          .phase = w->given_phase,
                          .token = w->given_token,
                          .step = w->given_steps,
                          .late = late,
                          .key = w->key};
        pl_copy_text(lease.arm, sizeof lease.arm, arm->arm.name);
        pl_copy_text(lease.worker, sizeof lease.worker, w->name);
        pl_copy_text(lease.device, sizeof lease.device, w->device);
        pl_lease_seal(&h->secret, &lease, &sealed);
    }
    pl_message a = {.request = w->answered, .token = w->given_token};
    PL_SAY(&a, TASK, task, .secret = sealed.len > 0 ? sealed.key.bytes : NULL,
           .arm_blob = arm->blob, .path = w->given.index / replicas,
           .replica = w->given.index % replicas, .phase = w->given_phase,
           .task = path->name, .blob = before, .step = (uint64_t)w->given_steps,
           .peer = peers, .n_peer = n_peers, .late = late,
           .lease = {sealed.bytes, sealed.len}, .audit = audit != NULL,
           .repeats = repeats);
    pl_free(peers);
    return hub_answer(h, &w->peer, &a);
}

static pl_status note_given(hub *h, hub_worker *w, plan_task task,
                            const plan_lease *lease)
{
    const pl_arm *arm = &h->tasks.arms[task.arm].arm;
    const plan_path *path = &h->tasks.arms[task.arm].paths[task.index];
    w->waiting = w->withheld.is = false;
    w->left_to_it = NULL;
    w->had_task = true;
    w->answered = w->request;
    w->given = task;
    w->given_token = lease->token;
    w->given_down = w->link.down;
    w->given_phase = lease->phase;
    w->given_steps = 0; /* all steps of the phase */
    /* With outer.dynamic_steps, slower workers get fewer steps, so that all workers
     * need about the same time for a phase. If workers with the job's own keys have
     * reported rates, the fastest of these is the standard: any other worker could
     * report a rate so high that all others would get only one step. */
    if (pl_steps_vary(&arm->outer)) {
        double top = 0, own = 0;
        for (int i = 0; i < h->n_workers; i++) {
            const hub_worker *other = &h->workers[i];
            top = other->rate > top ? other->rate : top;
            own = other->own_key && other->rate > own ? other->rate : own;
        }
        w->given_steps = pl_local_steps(arm->inner.tau, w->rate, own > 0 ? own : top);
    }
    /* if the worker still trains another task, it begins this task later */
    if (!w->task[0]) {
        pl_copy_text(w->task, sizeof w->task, path->name);
        w->phase = lease->phase;
        w->step = 0;
    }
    pl_log(PL_LOG_INFO, "lease.granted", "task=%s phase=%lld worker=%s token=%llu",
           path->name, (long long)lease->phase, w->name,
           (unsigned long long)lease->token);
    return send_task(h, w);
}

static pl_status give_task(hub *h, int worker, plan_task task)
{
    plan_path *path = &h->tasks.arms[task.arm].paths[task.index];
    plan_grant(&h->tasks, task, worker, pl_now_ms(),
               hub_ttl_ms(h, &h->tasks.arms[task.arm], 0));
    hub_note_left(&h->workers[worker], &h->tasks.arms[task.arm], path);
    PL_CHECK(pl_failpoint("hub.grant.after"));
    PL_CHECK(hub_fence(h, path));
    PL_CHECK(pl_failpoint("hub.fence.after"));
    return note_given(h, &h->workers[worker], task, &path->lease);
}

/* Gives a waiting worker an audit, a ready task, the next phase of the task that it
 * holds, or a backup of a slow task, in this order. If no task is ready for any worker,
 * *search becomes false, so that the hub does not search again for the next workers. */
static pl_status serve_worker(hub *h, int worker, int64_t now_ms, bool *search)
{
    hub_worker *w = &h->workers[worker];
    plan_task task;
    /* workers on trial with the same key have at most one lease together */
    const bool may_take = (h->n_audits > 0 || *search || w->held_token != 0) &&
                          !(hub_is_on_trial(h, w) && hub_n_held(h, w, HELD_BY_KEY) > 0);
    hub_audit *audit =
        may_take && h->n_audits > 0 ? hub_find_audit(h, worker, now_ms) : NULL;
    if (audit) {
        hub_grant_audit(h, audit, worker, now_ms);
        return note_given(h, w, audit->task, &audit->lease);
    }
    if (may_take && (*search || w->held_token != 0)) {
        bool full = plan_n_held(&h->tasks, worker) >= PLAN_HELD_MAX;
        bool found = *search && plan_choose(&h->tasks, worker, now_ms, &task);
        *search = found || (*search && (w->withheld.judged_ms == now_ms ||
                                        plan_leaves_out(&h->tasks, worker, now_ms)));
        bool goes_on = w->held_token != 0 &&
                       plan_continues(&h->tasks, w->held, w->held_phase, w->held_token,
                                      worker, now_ms) &&
                       hub_fits_next(h, worker, w->held, now_ms);
        if (goes_on && !(found && plan_is_better(&h->tasks, task, w->held, worker))) {
            hub_extend(h, w->held, now_ms);
            return note_given(h, w, w->held,
                              &h->tasks.arms[w->held.arm].paths[w->held.index].lease);
        }
        if (found && !full && hub_may_take(h, w))
            return give_task(h, worker, task);
    }
    if (*search || !hub_find_backup(h, worker, now_ms, &task))
        return PL_OK;
    plan_path *path = &h->tasks.arms[task.arm].paths[task.index];
    hub_end_late(h, task, now_ms);
    if (!pl_phase_repeats(&h->tasks.arms[task.arm].arm.outer))
        return give_task(h, worker, task);
    /* The homes still accept results of the first holder, because both holders deliver
     * the same bytes. */
    plan_grant_backup(&h->tasks, task, worker, now_ms,
                      hub_ttl_ms(h, &h->tasks.arms[task.arm], 0));
    PL_CHECK(hub_fence(h, path));
    pl_log(PL_LOG_INFO, "backup.granted", "task=%s phase=%lld worker=%s slow=%s",
           path->name, (long long)path->phase, w->name,
           h->workers[path->lease.worker].name);
    return note_given(h, w, task, &path->backup);
}

static pl_status say_no_work(hub *h, hub_worker *w)
{
    pl_message a = {0};
    char text[HUB_WITHHELD_TEXT_MAX];
    PL_SAY(&a, NO_WORK, no_work, .retry_ms = 0,
           .text = hub_withheld_text(h, w, text)[0] ? text : NULL);
    return hub_give_nothing(h, w, &a);
}

/* Serves all waiting workers in the order in which they asked, but workers on trial
 * come last. Thousands of workers may wait, so the hub searches for ready tasks only
 * after an event that may have made a task ready. */
static pl_status serve_waiting(hub *h)
{
    const int64_t now = pl_now_ms();
    const int64_t waited_ms = now - h->known_ms;
    bool ready = hub_homes_ready(h) && h->failure[0] == '\0';
    if (ready && h->tasks.epoch > 1 && waited_ms < HUB_RENEWED_MS) {
        /* After a restart of the hub, workers may still hold leases. The hub grants
         * none until workers had time to renew theirs: as long as a lease lives, at
         * most HUB_RENEWED_MS. */
        ready = waited_ms >= h->options->ttl_ms;
        if (ready && h->fleet_ms < h->known_ms)
            hub_look_at_fleet(h, now); /* it finds how long tasks take */
        for (int i = 0; ready && i < h->tasks.n_arms; i++)
            ready = waited_ms >= hub_ttl_ms(h, &h->tasks.arms[i], 0);
    }
    bool search = ready && h->stirred;
    int n_left = 0;
    for (int on_trial = 0; on_trial < 2 && ready; on_trial++)
        for (int q = 0; q < h->n_queued; q++) {
            hub_worker *w = &h->workers[h->queue[q]];
            if (w->drains)
                PL_CHECK(hub_let_go(h, h->queue[q]));
            if (w->waiting && !w->drains && !w->unchecked &&
                hub_is_on_trial(h, w) == on_trial && !hub_is_barred(w, now))
                PL_CHECK(serve_worker(h, h->queue[q], now, &search));
        }
    for (int q = 0; q < h->n_queued; q++) {
        hub_worker *w = &h->workers[h->queue[q]];
        if (w->waiting && now - w->waiting_since_ms > PARK_MS)
            PL_CHECK(say_no_work(h, w));
        w->queued = w->waiting;
        if (w->queued)
            h->queue[n_left++] = h->queue[q];
    }
    h->n_queued = n_left;
    if (ready)
        h->stirred = search && h->stirred;
    return PL_OK;
}

/* What messages of workers about a task have in common. `path` is NULL if this hub does
 * not know the task. */
typedef struct report {
    int worker;
    plan_task task;
    const plan_arm *arm;
    plan_path *path;
    int64_t phase;
} report;

static pl_status read_report(hub *h, const pl_peer *peer, const char *worker,
                             int64_t phase, const char *task, report *out)
{
    *out = (report){.phase = phase, .worker = hub_find_worker(h, worker)};
    if (out->worker < 0) /* for example because the hub has restarted */
        return pl_fail(PL_ERR_STALE, "this hub does not know the worker; send HELLO");
    PL_CHECK(hub_check_owner(&h->workers[out->worker], peer));
    PL_CHECK(hub_hear_from(h, out->worker, peer));
    if (plan_find_task(&h->tasks, task, &out->task)) {
        out->arm = &h->tasks.arms[out->task.arm];
        out->path = &out->arm->paths[out->task.index];
    }
    return PL_OK;
}

static pl_status on_task_req(hub *h, const pl_peer *peer, pl_message *m)
{
    report rep;
    pl_msg_task_req q;
    PL_CHECK(PL_HEAR(m, task_req, &q));
    PL_CHECK(read_report(h, peer, q.name, q.phase, q.task ? q.task : "", &rep));
    hub_worker *w = &h->workers[rep.worker];
    w->held = rep.task;
    w->held_token = rep.path ? m->token : 0;
    w->held_phase = q.phase;
    /* The hub has answered this question before, but the answer was lost or came too
     * late: the worker gets the same answer, unless the lease in it has ended. The
     * answer to the worker's next question may have a new task. */
    if (m->request == w->answered) {
        w->request = m->request;
        const plan_lease *lease =
            w->given_token == 0
                ? NULL
                : plan_lease_of(&h->tasks.arms[w->given.arm].paths[w->given.index],
                                w->given_token, rep.worker);
        if (hub_audit_of(h, w->given_token, rep.worker) ||
            (lease && lease->active && lease->phase == w->given_phase))
            return send_task(h, w);
        return say_no_work(h, w);
    }
    w->asked_ms = pl_now_ms();
    w->unchecked = !hub_admits_device(h, w, w->asked_ms);
    if (!w->waiting)
        w->waiting_since_ms = w->asked_ms;
    if (!w->queued)
        h->queue[h->n_queued++] = rep.worker;
    w->waiting = w->queued = true;
    w->request = m->request;
    return PL_OK;
}

void hub_end_task(hub_worker *w, const plan_path *path)
{
    if (path && strcmp(w->task, path->name) == 0)
        w->task[0] = '\0';
}

/* Whether the message shows a lease for this phase and token that the previous hub has
 * sealed. Only with this proof does the hub accept a lease that it has not granted. */
static bool shows_lease(hub *h, pl_bytes sealed, const report *rep, uint64_t token,
                        pl_lease *lease)
{
    if (!h->has_before || !sealed.at ||
        pl_lease_open(&h->secret_before, sealed.at, sealed.len, lease) != PL_OK)
        return false;
    const hub_worker *w = &h->workers[rep->worker];
    return strcmp(lease->arm, rep->arm->arm.name) == 0 &&
           lease->path * pl_topology_n_replicas(rep->arm->topology) + lease->replica ==
               rep->task.index &&
           lease->phase == rep->phase && lease->token == token &&
           strcmp(lease->worker, w->name) == 0 && pl_pubkey_equal(&lease->key, &w->key);
}

static pl_status on_renew(hub *h, const pl_peer *peer, pl_message *m, pl_message *a)
{
    report rep;
    pl_msg_renew q;
    PL_CHECK(PL_HEAR(m, renew, &q));
    PL_CHECK(read_report(h, peer, q.name, q.phase, q.task, &rep));
    a->type = PL_MSG_RENEWED;
    if (!rep.path && !hub_homes_ready(h))
        return PL_OK; /* the hub has just started and cannot decide yet */
    hub_audit *audit = rep.path ? hub_audit_of(h, m->token, rep.worker) : NULL;
    pl_lease shown;
    const bool shows = rep.path && shows_lease(h, q.lease, &rep, m->token, &shown);
    const int64_t now_ms = pl_now_ms();
    const plan_lease *held = audit      ? &audit->lease
                             : rep.path ? plan_lease_of(rep.path, m->token, rep.worker)
                                        : NULL;
    const int ttl_ms =
        rep.path ? hub_ttl_ms(h, rep.arm, held ? now_ms - held->granted_ms : 0) : 0;
    if (audit)
        audit->lease.deadline_ms = now_ms + ttl_ms;
    else if (!rep.path || (!held && !shows) ||
             !plan_renew(&h->tasks, rep.path, rep.phase, m->token, rep.worker, now_ms,
                         ttl_ms)) {
        /* This hub does not have the lease. It cannot decide while it lacks the state
         * of a home. And if the worker no longer trains the task and the homes have the
         * results, its DONE will come soon. */
        bool refuses = !(rep.path && !q.trains && rep.phase < rep.path->phase);
        for (int i = 0; i < h->n_homes; i++)
            refuses = refuses && h->homes[i].known;
        if (refuses) {
            hub_end_task(&h->workers[rep.worker], rep.path);
            a->type = PL_MSG_LEASE_LOST;
        }
        return PL_OK;
    }
    if (rep.path->is_untold) /* the hub has taken up a lease of the previous hub */
        PL_CHECK(hub_fence(h, rep.path));
    if (shows && hub_homes_ready(h)) { /* all homes know the new secret */
        pl_sealed_lease sealed;
        pl_lease_seal(&h->secret, &shown, &sealed);
        PL_SAY(a, RENEWED, renewed, .secret = sealed.key.bytes,
               .lease = {sealed.bytes, sealed.len});
    }
    hub_note_renewal(h, rep.worker, rep.path,
                     audit ? &audit->lease
                           : plan_lease_of(rep.path, m->token, rep.worker),
                     &q, pl_now_ms());
    return PL_OK;
}

static pl_status on_done(hub *h, const pl_peer *peer, pl_message *m)
{
    enum { SECONDS_MAX = 1000000000 };
    report rep;
    pl_msg_done q;
    PL_CHECK(PL_HEAR(m, done, &q));
    PL_CHECK(read_report(h, peer, q.name, q.phase, q.task, &rep));
    /* the hub adds these numbers to the worker's sums */
    const double seconds[] = {q.work.seconds, q.overhead, q.idle, q.waited};
    for (int i = 0; i < 4; i++)
        if (!(seconds[i] >= 0 && seconds[i] <= SECONDS_MAX))
            return pl_fail(PL_ERR_DATA,
                           "a DONE reports %g seconds, but a time must be 0 to 1e9 s",
                           seconds[i]);
    if (rep.path) {
        const pl_arm *arm = &rep.arm->arm;
        uint64_t most = pl_phase_samples(arm) * (uint64_t)arm->inner.context;
        if (q.work.n_tokens > most)
            return pl_fail(
                PL_ERR_DATA,
                "a DONE reports %llu tokens, but a phase of %s has at most %llu",
                (unsigned long long)q.work.n_tokens, rep.path->name,
                (unsigned long long)most);
    }
    hub_worker *w = &h->workers[rep.worker];
    hub_end_task(w, rep.path);
    w->idle_s += q.idle;
    w->inner_s += q.work.seconds;
    w->overhead_s += q.overhead;
    w->waited_s += q.waited;
    w->n_tokens += q.work.n_tokens;
    w->n_tasks++;
    if (q.work.seconds > 0)
        w->rate = hub_possible_rate((double)q.work.n_tokens / q.work.seconds);
    if (rep.path && !q.audit) {
        const plan_said said = {
            .phase = rep.phase, .token = m->token, .worker = rep.worker};
        plan_say_done(rep.path, &said, pl_now_ms(), h->options->ttl_ms);
    }
    hub_audit *audit = rep.path ? hub_audit_of(h, m->token, rep.worker) : NULL;
    if (audit)
        hub_note_done(h, w, rep.path, rep.phase, &audit->lease, q.work.seconds,
                      pl_now_ms());
    if (w->held_token == m->token && w->held_phase == rep.phase)
        w->held_token = 0; /* the worker no longer holds this task */
    if (audit) {
        pl_status status = hub_audit_done(h, audit, rep.worker, m);
        /* an audit whose DONE is malformed can be leased again */
        if (status == PL_ERR_PROTO)
            hub_audit_release(h, audit, "its worker reported no valid result");
        return status;
    }
    return PL_OK;
}

static pl_status on_release(hub *h, const pl_peer *peer, pl_message *m)
{
    report rep;
    pl_msg_release q;
    pl_reader r;
    pl_reader_open(&r, "release", m->body.data, m->body.len);
    if (pl_field_count(&r, PL_TAG_TASK) == 0)
        return hub_leave(h, peer, m);
    PL_CHECK(PL_HEAR(m, release, &q));
    PL_CHECK(read_report(h, peer, q.name, q.phase, q.task, &rep));
    if (q.status >= PL_STATUS_COUNT)
        return pl_fail(PL_ERR_PROTO, "a RELEASE has the unknown status %llu",
                       (unsigned long long)q.status);
    const bool unreached = pl_is_unreached((pl_status)q.status);
    /* a home that the hub does not reach either is not the worker's fault */
    const pl_status why = unreached && hub_reached_ms(h, pl_now_ms()) < REACHED_MS
                              ? PL_OK
                              : (pl_status)q.status;
    const char *text = q.text ? q.text : "";
    hub_end_task(&h->workers[rep.worker], rep.path);
    hub_audit *audit = hub_audit_of(h, m->token, rep.worker);
    const bool fault = pl_is_machine_fault(why) || pl_is_unreached(why);
    const bool failed = why != PL_OK && !fault;
    if (audit)
        hub_audit_release(h, audit, failed ? text : NULL);
    if (audit && fault)
        hub_note_fault(h, rep.worker, text);
    if (!rep.path || audit)
        return PL_OK;
    if (rep.phase > rep.path->phase) {
        plan_shorten(rep.path, m->token, rep.worker);
        return PL_OK;
    }
    bool held = plan_lease_of(rep.path, m->token, rep.worker) != NULL;
    if (held && (why == PL_OK || unreached))
        hub_note_returned(h, rep.worker, pl_now_ms());
    plan_release(&h->tasks, rep.path, m->token, rep.worker, failed);
    if (rep.path->is_untold)
        PL_CHECK(hub_fence(h, rep.path));
    if (held && pl_log_may(peer->own))
        pl_log(PL_LOG_WARN, "lease.released",
               "task=%s phase=%lld worker=%s reason=\"%s\"", rep.path->name,
               (long long)rep.phase, h->workers[rep.worker].name, text);
    if (held && fault)
        hub_note_fault(h, rep.worker, text);
    if (held && failed)
        return hub_note_failure(h, rep.path, rep.worker, why, text);
    return PL_OK;
}

static pl_status on_offer(hub *h, const pl_peer *peer, pl_message *m)
{
    report rep;
    pl_msg_offer q;
    PL_CHECK(PL_HEAR(m, offer, &q));
    PL_CHECK(read_report(h, peer, q.name, q.phase, q.task, &rep));
    /* mates of a path begin when its updates are offered, so the offer of a worker that
     * may never deliver does not count */
    if (rep.path && !hub_is_on_trial(h, &h->workers[rep.worker]))
        plan_offer(rep.path, rep.phase, m->token, rep.worker);
    return PL_OK;
}

pl_status hub_take(hub *h, const pl_peer *peer, pl_message *m)
{
    pl_message a = {.type = PL_MSG_OK};
    pl_status status = PL_OK;
    switch (m->type) {
    case PL_MSG_TASK_REQ:
        status = on_task_req(h, peer, m);
        if (status == PL_OK)
            return PL_OK; /* serve_waiting answers it */
        break;
    case PL_MSG_HELLO:
        status = hub_hello(h, peer, m, &a);
        break;
    case PL_MSG_ENROL:
        status = hub_enrol(h, peer, m, &a);
        break;
    case PL_MSG_RENEW:
        status = on_renew(h, peer, m, &a);
        break;
    case PL_MSG_DONE:
        status = on_done(h, peer, m);
        break;
    case PL_MSG_OFFER:
        status = on_offer(h, peer, m);
        break;
    case PL_MSG_RELEASE:
        status = on_release(h, peer, m);
        break;
    case PL_MSG_STATUS:
        a.type = PL_MSG_STATUS_IS;
        hub_status_json(h, &a.data);
        break;
    case PL_MSG_LOG:
        status = hub_log_lines(m, &a);
        break;
    case PL_MSG_DRAIN:
        status = hub_drain(h, m);
        break;
    case PL_MSG_STOP:
        h->stopping = true;
        break;
    default:
        status =
            pl_fail(PL_ERR_PROTO, "a hub does not understand message type %u", m->type);
    }
    if (status != PL_OK) {
        pl_message_destroy(&a);
        pl_wire_error(&a, m->request, status, pl_last_error());
    }
    PL_CHECK(pl_failpoint("hub.answer.before"));
    a.request = m->request;
    return hub_answer(h, peer, &a);
}

pl_status hub_tend(hub *h, int64_t now_ms, bool *more)
{
    *more = hub_apply_some(h);
    PL_CHECK(hub_tend_homes(h, now_ms));
    if (now_ms - h->expired_ms >= TICK_MS) {
        /* A home is away, or the hub itself was stopped. */
        if (!hub_homes_ready(h) || now_ms - h->expired_ms > STOPPED_MS)
            plan_stand_still(&h->tasks, now_ms - h->expired_ms,
                             now_ms + h->options->ttl_ms);
        h->expired_ms = now_ms;
        /* Tasks can become ready without an event, for example when the wait after a
         * restart of the hub ends. */
        h->stirred = true;
        if (now_ms - h->overdue_ms >= OVERDUE_MS) {
            h->overdue_ms = now_ms;
            hub_end_overdue(h, now_ms);
        }
        int n = plan_expire(&h->tasks, now_ms, hub_note_lost, h);
        if (n > 0)
            pl_log(PL_LOG_WARN, "lease.expired", "count=%d", n);
        /* leases that ended without a new grant, so that nobody can use them */
        for (plan_walk at = {.plan = &h->tasks}; plan_next(&at);)
            if (at.path->is_untold)
                PL_CHECK(hub_fence(h, at.path));
    }
    PL_CHECK(hub_tend_audits(h, now_ms));
    return serve_waiting(h);
}

/* If all tasks and audits are done, tells all workers that the job has ended. Without
 * this, workers on other machines would wait for a hub that has ended. */
static void dismiss_finished(hub *h)
{
    bool has_mixture = false;
    for (int i = 0; i < h->tasks.n_arms; i++) {
        const plan_arm *arm = &h->tasks.arms[i];
        has_mixture |= strcmp(arm->arm.name, "base") != 0;
        if (!plan_arm_finished(arm))
            return;
    }
    if (!has_mixture)
        return;
    for (int i = 0; i < h->n_workers; i++) {
        pl_message a = {0};
        hub_worker *w = &h->workers[i];
        if (w->left)
            continue;
        pl_wire_error(&a, w->request, PL_ERR_CANCELLED, "the job is finished");
        /* a worker that is no longer connected does not get the message */
        (void)hub_answer(h, &w->peer, &a);
    }
}

pl_status pl_hub_run(const pl_hub_options *options)
{
    char bound[PL_ADDRESS_MAX];
    pl_status status = PL_OK;
    pl_socket *sockets[1 + PL_HOMES_MAX];
    bool ready[1 + PL_HOMES_MAX], more = false;
    pl_peer peer;
    pl_message m = {0};
    hub h = {.options = options,
             .worker_names = pl_name_table_create(),
             .tasks = {.fits = hub_fits_new, .audits = options->audits}};
    h.tasks.context = &h;
    PL_TRY(pl_wire_bind(options->bind, &h.socket, bound));
    pl_keypair_create(&h.mates);
    pl_lease_secret_create(&h.secret);
    h.started_ms = pl_now_ms();
    pl_copy_text(h.address, sizeof h.address, bound);
    PL_TRY(hub_open_homes(&h));
    if (options->ready_file && options->ready_file[0])
        PL_TRY(pl_write_output(options->ready_file, bound, strlen(bound)));
    pl_log(PL_LOG_INFO, "hub.ready", "address=%s homes=%d", bound, options->n_homes);
    sockets[0] = h.socket;
    for (int i = 0; i < h.n_homes; i++)
        sockets[1 + i] = h.homes[i].socket;
    /* a signal handler on any thread may set options->stop */
    while (!h.stopping &&
           !(options->stop && __atomic_load_n(options->stop, __ATOMIC_RELAXED))) {
        pl_wire_poll(sockets, 1 + (size_t)h.n_homes, NULL, 0, more ? 0 : TICK_MS,
                     ready);
        const int64_t now = pl_now_ms();
        /* The number of messages per turn is limited, so that workers in the queue need
         * not wait until all messages are handled. Most messages are renewals. A
         * renewal does not make a task ready, so it does not set `stirred`. */
        for (int i = 0; i < HEARD_AT_ONCE; i++) {
            status = pl_wire_recv(h.socket, &peer, &m);
            if (status == PL_ERR_TIMEOUT)
                break;
            PL_TRY(status);
            h.stirred = h.stirred || m.type != PL_MSG_RENEW;
            PL_TRY(hub_take(&h, &peer, &m));
        }
        for (int i = 0; i < h.n_homes; i++)
            PL_TRY(hub_hear_home(&h, i, now));
        PL_TRY(hub_tend(&h, now, &more));
    }
    dismiss_finished(&h);
done:
    pl_message_destroy(&m);
    pl_keypair_wipe(&h.mates);
    hub_close_homes(&h);
    hub_clear_audits(&h);
    plan_clear(&h.tasks);
    pl_name_table_destroy(&h.worker_names);
    pl_free_all(h.workers, h.queue);
    pl_wire_close(&h.socket);
    return status;
}
