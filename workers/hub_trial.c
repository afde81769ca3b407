/* Keeps workers that fail or are slow from delaying a job: counts failures, bars
 * workers for some time, puts keys on trial, and ends leases that are long overdue.
 *
 * A fault of a worker's machine (no disk space, no memory, no device, no way to the
 * homes) says nothing about the task. It bars the worker at once, for 5 s at first, and
 * never counts against the task.
 *
 * A worker that fails FAILURES_MAX tasks in a row is barred: for some time it gets no
 * task, each time twice as long as before. A job ends if a task has failed FAILURES_MAX
 * times and cannot be done. If workers of the operator are connected, only their
 * failures show that a task cannot be done. Without this rule, a person with many keys
 * could end any job. If no such worker is connected, workers with at least two
 * different keys must have failed at the task.
 *
 * A worker without one of the job's own keys is on trial until it has delivered a task,
 * again after one of its leases has expired or is late (hub_pace.c), and while one of
 * its results is audited. A worker on trial is served last, and its key has one lease
 * at a time. An idle worker that is not on trial also does the same task
 * (hub_backup.c). So a worker that takes tasks and never finishes them does not delay a
 * path as long as other workers are idle. */
#include "workers/hub_internal.h"
#include <math.h>

enum {
    FAILURES_MAX = 3,
    RESULTS_MAX = 1 << 20, /* of a key that are counted */
    BARRED_MS = 60000,
    MOVES_MS = 60000, /* without a byte for so long, a transfer stands still */
    FAULT_BARRED_MS = 5000,
    BARS_MAX = 6, /* 60 s << 6 is about an hour, 5 s << 6 about five minutes */
    OVERDUE_TIMES = 20,
    OVERDUE_TTLS = 10
};

/* Bars all workers with the key of this one (hub_same_holder): they get no task for
 * first_ms, and each time for twice as long. */
static void bar_workers(hub *h, int worker, int64_t first_ms, const char *text)
{
    const hub_worker *of = &h->workers[worker];
    const int n_bars = of->n_bars;
    const int64_t ms = first_ms << n_bars;
    pl_log(PL_LOG_WARN, "worker.barred", "worker=%s seconds=%lld reason=\"%s\"",
           of->name, (long long)ms / 1000, text);
    for (int i = 0; i < h->n_workers; i++) {
        hub_worker *w = &h->workers[i];
        if (!hub_same_holder(w, of))
            continue;
        w->barred_until_ms = pl_now_ms() + ms;
        w->n_failures = 0;
        w->n_bars = n_bars < BARS_MAX ? n_bars + 1 : BARS_MAX;
        w->waiting = false;
        pl_copy_text(w->failure, sizeof w->failure, text);
    }
}

void hub_note_fault(hub *h, int worker, const char *text)
{
    bar_workers(h, worker, FAULT_BARRED_MS, text);
}

/* Counts a failure of a worker. The failure counts for all workers with the same key
 * (hub_same_holder). After FAILURES_MAX failures in a row, bars these workers. */
static void count_failure(hub *h, int worker, const char *text)
{
    const hub_worker *of = &h->workers[worker];
    int n = of->n_failures + 1;
    for (int i = 0; i < h->n_workers; i++)
        if (hub_same_holder(&h->workers[i], of)) {
            h->workers[i].n_failures = n;
            pl_copy_text(h->workers[i].failure, sizeof h->workers[i].failure, text);
        }
    if (n >= FAILURES_MAX)
        bar_workers(h, worker, BARRED_MS, text);
}

pl_status hub_note_failure(hub *h, plan_path *path, int worker, pl_status why,
                           const char *text)
{
    const int64_t now = pl_now_ms();
    bool known = false, own_is_there = false, strangers = false;
    for (int i = 0; i < path->n_failed_by; i++)
        known = known ||
                hub_same_holder(&h->workers[path->failed_by[i]], &h->workers[worker]);
    if (!known && path->n_failed_by < PLAN_FAILED_MAX)
        path->failed_by[path->n_failed_by++] = worker;
    path->own_failures += h->workers[worker].own_key;
    for (int i = 0; i < h->n_workers; i++)
        if (h->workers[i].own_key)
            own_is_there = own_is_there || !hub_is_away(h, &h->workers[i], now);
        else
            strangers = strangers || h->workers[i].delivered;
    const bool ends =
        path->lease.failures >= FAILURES_MAX && h->failure[0] == '\0' &&
        (own_is_there ? path->own_failures >= FAILURES_MAX : path->n_failed_by > 1);
    count_failure(h, worker, text);
    if (!ends)
        return PL_OK;
    /* A key that is not one of the job's own delivered the path's state, or one from
     * which it was made, and the updates are not finite or much too long. */
    const int maker = hub_find_maker(h, path->state_of, &path->state_key);
    if ((why == PL_ERR_DATA || why == PL_ERR_NUMERIC) && path->state_of[0] &&
        path->phase > 0 &&
        (maker < 0 || !h->workers[maker].own_key ||
         (strangers && why == PL_ERR_DATA))) {
        /* A state of which an audit may have agreed is not dropped because strangers
         * say so: the path waits for the job's own workers. */
        if (path->own_failures < FAILURES_MAX && h->tasks.audits)
            return PL_OK;
        pl_log(PL_LOG_WARN, "state.dropped",
               "task=%s phase=%lld worker=%s reason=\"no worker can continue from the "
               "state that it left: %s\"",
               path->name, (long long)path->phase, path->state_of, text);
        if (maker >= 0)
            hub_note_lost(h, maker, UINT64_MAX);
        /* the state caused the failures, not the workers */
        for (int i = 0; i < h->n_workers; i++)
            for (int k = 0; k < path->n_failed_by; k++)
                if (hub_same_holder(&h->workers[i], &h->workers[path->failed_by[k]])) {
                    h->workers[i].n_failures = 0;
                    h->workers[i].barred_until_ms = 0;
                }
        /* the path continues without a state, like one that has finished no phase */
        plan_drop_state(&h->tasks, path);
        return hub_fence(h, path);
    }
    h->failure_status = why;
    snprintf(h->failure, sizeof h->failure, "%s failed %d times in phase %lld: %s",
             path->name, path->lease.failures, (long long)path->phase, text);
    return PL_OK;
}

void hub_note_success(hub *h, int worker, bool late)
{
    hub_worker *of = &h->workers[worker];
    of->proven = of->proven || (of->delivered && !hub_is_audited(h, of));
    of->delivered = true;
    if (late && !of->own_key) {
        hub_put_on_trial(h, worker);
        return;
    }
    for (int i = 0; i < h->n_workers; i++)
        if (hub_same_holder(&h->workers[i], of)) {
            h->workers[i].n_failures = h->workers[i].n_bars = 0;
            h->workers[i].n_results += h->workers[i].n_results < RESULTS_MAX;
        }
}

/* ---- on trial ---- */
/* A result that is being audited may be a lie. */
bool hub_is_on_trial(const hub *h, const hub_worker *w)
{
    return !w->own_key && (w->n_results == 0 || hub_is_audited(h, w));
}

/* A key may have many names. Together they hold one task, and two more for each result,
 * so that one result does not let them hold many paths. */
bool hub_may_take(const hub *h, const hub_worker *w)
{
    return w->own_key ||
           hub_n_held(h, w, HELD_BY_KEY | HELD_BACKUPS) < 1 + 2 * w->n_results;
}

static bool holds(const hub *h, const hub_worker *w, bool by_key, const plan_lease *l)
{
    return l->active && (by_key ? hub_same_holder(&h->workers[l->worker], w)
                                : l->worker == (int)(w - h->workers));
}

int hub_n_held(const hub *h, const hub_worker *w, int also)
{
    const bool by_key = also & HELD_BY_KEY, backups = also & HELD_BACKUPS;
    int n = 0;
    for (plan_walk at = {.plan = &h->tasks}; plan_next(&at);)
        n += holds(h, w, by_key, &at.path->lease) +
             (backups && holds(h, w, by_key, &at.path->backup));
    for (size_t i = 0; i < h->n_audits; i++)
        n += holds(h, w, by_key, &h->audits[i].lease);
    return n;
}

void hub_put_on_trial(hub *h, int worker)
{
    const hub_worker *of = &h->workers[worker];
    for (int i = 0; i < h->n_workers; i++)
        if (!of->own_key && h->workers[i].n_results > 0 &&
            hub_same_holder(&h->workers[i], of)) {
            h->workers[i].n_results = 0;
            h->workers[i].trial_token = h->tasks.epoch << 32 | h->tasks.counter;
            plan_withdraw(&h->tasks, i); /* offers on trial do not count (on_offer) */
        }
}

/* Puts the worker on trial again, unless it has one of the job's own keys. A lost lease
 * counts as a failure only if the worker was on trial when it got the lease: perhaps
 * only the connection broke, all leases of the worker became late, and then they
 * expired. */
void hub_note_lost(void *hub_of, int worker, uint64_t token)
{
    hub *h = hub_of;
    const hub_worker *of = &h->workers[worker];
    if (hub_is_on_trial(h, of) && token > of->trial_token) {
        count_failure(h, worker, "it lost a lease without a usable result");
        /* a RENEW may bring the lease back, and it may expire again */
        for (int i = 0; token != UINT64_MAX && i < h->n_workers; i++)
            if (hub_same_holder(&h->workers[i], of))
                h->workers[i].trial_token = token;
    }
    hub_put_on_trial(h, worker);
}

/* The time of the next lease begins anew, so a worker could delay a path by giving its
 * task back, or by restarting, again and again. But this is no failure: an honest
 * worker may be stopped, or may not reach a home. */
void hub_note_returned(hub *h, int worker, int64_t now_ms)
{
    for (plan_walk at = {.plan = &h->tasks}; plan_next(&at);) {
        const plan_path *path = at.path;
        const plan_lease *l = path->backup.active && path->backup.worker == worker
                                  ? &path->backup
                                  : &path->lease;
        double n_tasks;
        if (l->active && l->worker == worker && hub_usual_s(at.arm) > 0 &&
            hub_held_s(at.arm, path, l, path->phase, now_ms, &n_tasks) >
                hub_usual_s(at.arm) * n_tasks)
            hub_put_on_trial(h, worker);
    }
}

bool hub_is_barred(const hub_worker *w, int64_t now_ms)
{
    return w->barred_until_ms > now_ms;
}

/* ---- leases that are held too long ---- */
/* An honest worker does not need more than OVERDUE_TIMES the usual time of a task, plus
 * OVERDUE_TTLS lifetimes of a lease; each phase that it must repeat counts as a task.
 * Each further worker has twice as long, because the fast ones may have left. */
double hub_overdue_s(const hub *h, double usual_s)
{
    return 1e-3 * OVERDUE_TTLS * (double)h->options->ttl_ms + OVERDUE_TIMES * usual_s;
}

/* Ends a lease that its worker has held far too long. A worker that renews a lease
 * again and again and delivers nothing would stop the path. If it has delivered before,
 * and now only sends, its way to the homes is broken: that is a fault of its machine.
 * Returns false if the lease goes on: it is not overdue, no usual time is known, or
 * bytes of the task have just moved and nobody else would take the task. */
static bool end_overdue(hub *h, const plan_arm *arm, plan_path *path, hub_audit *audit,
                        int64_t now_ms)
{
    const plan_lease lease = audit ? audit->lease : path->lease;
    const int64_t phase = audit ? lease.phase : path->phase;
    const bool sends = !audit && (lease.phase > phase || lease.stage == PLAN_SENDS);
    const double usual_s = hub_usual_s(arm);
    double n_tasks;
    const double held_s = hub_held_s(arm, path, &lease, phase, now_ms, &n_tasks);
    char text[200];
    if (!lease.active || usual_s <= 0 ||
        held_s <= ldexp(hub_overdue_s(h, usual_s * n_tasks), path->n_taken))
        return false;
    const hub_worker *w = &h->workers[lease.worker];
    bool is_alone = true; /* whether nobody else would take the task */
    for (int i = 0; i < h->n_workers && is_alone; i++) {
        const hub_worker *other = &h->workers[i];
        is_alone = !other->waiting || other->drains || other->fenced[0] ||
                   hub_same_holder(other, w) || hub_is_barred(other, now_ms);
    }
    if (is_alone && lease.stage != PLAN_TRAINS && w->link.moved_ms > 0 &&
        now_ms - w->link.moved_ms < MOVES_MS)
        return false;
    const bool fault = sends && (w->own_key || w->proven);
    snprintf(text, sizeof text,
             "it held the lease of %.60s for %.0f s without delivering a result; such "
             "a task usually takes %.1f s",
             path->name, held_s, usual_s);
    path->n_taken += path->n_taken < PLAN_TAKEN_MAX;
    if (audit) {
        hub_audit_release(h, audit, NULL);
    } else {
        if (!fault)
            hub_note_taken(h, (int)(arm - h->tasks.arms), path, &lease, now_ms);
        plan_release(&h->tasks, path, lease.token, lease.worker, false);
    }
    pl_log(PL_LOG_WARN, "lease.overdue", "task=%s worker=%s reason=\"%s\"", path->name,
           w->name, text);
    if (fault)
        hub_note_fault(h, lease.worker, text);
    else
        count_failure(h, lease.worker, text);
    return true;
}

void hub_end_overdue(hub *h, int64_t now_ms)
{
    for (plan_walk at = {.plan = &h->tasks}; plan_next(&at);) {
        const plan_lease *l = &at.path->lease;
        if (l->active && !end_overdue(h, at.arm, at.path, NULL, now_ms) &&
            hub_is_late(at.arm, at.path, l, at.path->phase, now_ms))
            hub_put_on_trial(h, l->worker);
    }
    for (size_t i = 0; i < h->n_audits; i++) {
        const plan_arm *arm = &h->tasks.arms[h->audits[i].task.arm];
        end_overdue(h, arm, &arm->paths[h->audits[i].task.index], &h->audits[i],
                    now_ms);
    }
}
