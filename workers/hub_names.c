/* Keeps the names of workers, the keys to which the names belong, and counts of the
 * workers' failures.
 *
 * The hub assumes that all workers with the same key belong to one person. So a key may
 * have at most NAMES_PER_KEY names, and a failure of one of its workers counts for all
 * of them. The job's own keys belong to the operator, who may start any number of
 * workers. A failure of such a worker counts only for that worker.
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
    NAMES_PER_KEY = 64,
    WORKERS_MAX = 16384,
    BARRED_MS = 60000,
    MOVES_MS = 60000, /* without a byte for so long, a transfer stands still */
    FAULT_BARRED_MS = 5000,
    BARS_MAX = 6, /* 60 s << 6 is about an hour, 5 s << 6 about five minutes */
    OVERDUE_TIMES = 20,
    OVERDUE_TTLS = 10
};

int hub_find_worker(const hub *h, const char *name)
{
    return pl_name_table_get(h->worker_names, name);
}

int hub_find_maker(const hub *h, const char *name, const pl_pubkey *key)
{
    const int found = hub_find_worker(h, name);
    const bool is_it = found >= 0 && (pl_pubkey_none(key) ||
                                      pl_pubkey_equal(&h->workers[found].key, key));
    return is_it ? found : -1;
}

/* Whether both are the same worker, or have the same key, which is not one of the job's
 * own keys. */
static bool same_holder(const hub_worker *a, const hub_worker *b)
{
    return a == b || (!a->own_key && !b->own_key && pl_pubkey_equal(&a->key, &b->key));
}

/* Finds an entry for a new worker. If its key has too many names or the table is full,
 * that is the entry of a worker to which nothing refers any more: its name is
 * forgotten. */
static pl_status place_worker(hub *h, const hub_worker *fresh, int *out)
{
    const int64_t now = pl_now_ms();
    int n_names = 0;
    for (int i = 0; i < h->n_workers; i++)
        n_names += pl_pubkey_equal(&h->workers[i].key, &fresh->key);
    const bool crowded = !fresh->own_key && n_names >= NAMES_PER_KEY;
    const bool full = h->n_workers >= WORKERS_MAX;
    for (int i = 0; (crowded || full) && i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        if ((!crowded || pl_pubkey_equal(&w->key, &fresh->key)) &&
            hub_is_away(h, w, now) && !w->queued && !w->fenced[0] &&
            w->barred_until_ms <= now && !hub_is_audited(h, w) &&
            plan_forget_worker(&h->tasks, i)) {
            if (pl_log_may(w->own_key))
                pl_log(PL_LOG_INFO, "worker.forgotten", "worker=%s", w->name);
            pl_name_table_drop(h->worker_names, w->name);
            *out = i;
            return PL_OK;
        }
    }
    char text[PL_PUBKEY_TEXT];
    if (crowded)
        return pl_fail(
            PL_ERR_NOPERM,
            "the key %s already has %d workers, the most that one key may have, so %s "
            "cannot join with it; create another key with `pathloom key invite`",
            pl_pubkey_format(&fresh->key, text), NAMES_PER_KEY, fresh->name);
    if (full)
        return pl_fail(PL_ERR_BUSY,
                       "this hub already has %d workers, the most that it can have",
                       WORKERS_MAX);
    h->workers = pl_grow(h->workers, (size_t)(h->n_workers + 1) * sizeof *h->workers);
    h->queue = pl_grow(h->queue, (size_t)(h->n_workers + 1) * sizeof *h->queue);
    *out = h->n_workers++;
    return PL_OK;
}

/* Refuses names that only their owner may use: texts of keys, the names of the job's
 * own workers, and names that the list of keys assigns to other keys. This is checked
 * even if the hub has restarted and knows no worker yet. Any other name belongs to the
 * key that uses it first, until the list assigns the name to another key
 * (hub_enrol). */
static pl_status check_reserved(const char *name, const pl_peer *peer)
{
    pl_pubkey owner;
    if (pl_pubkey_parse(name, &owner) == PL_OK)
        return pl_fail(PL_ERR_NOPERM,
                       "the name %s is the text of a key; start this worker with a "
                       "different --name",
                       name);
    if (!peer->own && pl_key_name_is_jobs(name))
        return pl_fail(PL_ERR_NOPERM,
                       "the name %s is reserved for the job's own workers; start this "
                       "worker with a different --name",
                       name);
    if (peer->own || !pl_gate_key_named(name, &owner) ||
        pl_pubkey_equal(&owner, &peer->key))
        return PL_OK;
    return pl_fail(PL_ERR_NOPERM,
                   "the list of keys gives the name %s to another key; start this "
                   "worker with a different --name",
                   name);
}

static bool list_gives(const char *name, const pl_pubkey *key)
{
    pl_pubkey owner;
    return pl_gate_key_named(name, &owner) && pl_pubkey_equal(&owner, key);
}

/* Whether the worker keeps its name when the list gives the name to another key. A
 * worker that has shown that it delivers keeps its name, so that an invitation is not
 * enough to take the name from it. Any other worker that is not the job's own loses its
 * name, so that it cannot block names that others will need. */
static bool keeps_name(const hub_worker *w)
{
    return w->own_key || (w->proven && !w->fenced[0]);
}

pl_status hub_know_worker(hub *h, const char *name, const pl_peer *peer, int *out)
{
    hub_worker fresh = {.key = peer->key, .own_key = peer->own};
    PL_CHECK(pl_key_name_check(name));
    *out = hub_find_worker(h, name);
    if (*out >= 0) {
        /* A worker may have the name only because its key was the first to use it. Then
         * the job's own keys, and the key to which the list gives the name, have a
         * better right. */
        hub_worker *w = &h->workers[*out];
        if (w->own_key || list_gives(w->name, &w->key) ||
            !(peer->own || (!keeps_name(w) && list_gives(w->name, &peer->key))))
            return PL_OK;
        /* The entry gets a name with which no worker can join. */
        char old[PL_TEXT_MAX];
        pl_copy_text(old, sizeof old, w->name);
        pl_log(PL_LOG_WARN, "name.taken_back", "worker=%s", old);
        hub_free_held(h, *out);
        pl_name_table_drop(h->worker_names, old);
        snprintf(w->name, sizeof w->name, "?%d", *out);
        pl_name_table_put(h->worker_names, w->name, *out);
        w->left = true;
    }
    PL_CHECK(check_reserved(name, peer));
    pl_copy_text(fresh.name, sizeof fresh.name, name);
    PL_CHECK(place_worker(h, &fresh, out));
    h->workers[*out] = fresh;
    pl_name_table_put(h->worker_names, name, *out);
    /* the new worker gets the failures, bars and results of workers with its key */
    hub_worker *own = &h->workers[*out];
    for (int i = 0; i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        if (w == own || !same_holder(w, own))
            continue;
        own->n_failures = w->n_failures;
        own->n_bars = w->n_bars;
        own->barred_until_ms = w->barred_until_ms;
        own->n_results = w->n_results;
        own->trial_token = w->trial_token;
    }
    return PL_OK;
}

/* Checks that the worker is not fenced, and that the peer has the worker's key. A name
 * belongs to the key that used it first, so that no other key can take over the
 * worker's leases. Without encryption all keys are equal. */
pl_status hub_check_owner(const hub_worker *w, const pl_peer *peer)
{
    if (w->fenced[0])
        return pl_fail(PL_ERR_NOPERM, "%s", w->fenced);
    if (pl_pubkey_equal(&w->key, &peer->key))
        return PL_OK;
    return pl_fail(
        PL_ERR_NOPERM,
        "the name %s belongs to another key; start this worker with a different --name",
        w->name);
}

pl_status hub_enrol(hub *h, const pl_peer *peer, pl_message *m, pl_message *a)
{
    char text[PL_PUBKEY_TEXT];
    pl_msg_enrol q;
    pl_pubkey fresh;
    pl_key_role role;
    PL_CHECK(PL_HEAR(m, enrol, &q));
    if (peer->role != PL_AS_INVITE || !h->options->keys || !h->options->keys[0])
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "no key can be enrolled over this connection: the job is not "
                       "encrypted, or the connection does not use an invitation");
    memcpy(fresh.bytes, q.key, sizeof fresh.bytes);
    /* A worker may keep the name that it uses (keeps_name). pl_admission_enrol checks
     * the names of the list. */
    pl_pubkey owner;
    const int w = hub_find_worker(h, q.name);
    if (w >= 0 && keeps_name(&h->workers[w]) && !pl_gate_key_named(q.name, &owner) &&
        !pl_pubkey_equal(&h->workers[w].key, &fresh))
        return pl_fail(PL_ERR_EXISTS,
                       "a worker with another key uses the name %s; choose a different "
                       "name with --name",
                       q.name);
    PL_CHECK(pl_admission_enrol(h->options->keys, &peer->key, &fresh, q.name, &role));
    if (pl_log_may(peer->own))
        pl_log(PL_LOG_INFO, "key.enrolled", "key=%s name=%s role=%s",
               pl_pubkey_format(&fresh, text), q.name, pl_key_role_name(role));
    PL_SAY(a, ENROLLED, enrolled, .role = pl_key_role_name(role));
    return PL_OK;
}

/* ---- failures ---- */
/* Bars all workers with the key of this one (same_holder): they get no task for
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
        if (!same_holder(w, of))
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
 * (same_holder). After FAILURES_MAX failures in a row, bars these workers. */
static void count_failure(hub *h, int worker, const char *text)
{
    const hub_worker *of = &h->workers[worker];
    int n = of->n_failures + 1;
    for (int i = 0; i < h->n_workers; i++)
        if (same_holder(&h->workers[i], of)) {
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
        known =
            known || same_holder(&h->workers[path->failed_by[i]], &h->workers[worker]);
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
                if (same_holder(&h->workers[i], &h->workers[path->failed_by[k]])) {
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
        if (same_holder(&h->workers[i], of)) {
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
    return l->active && (by_key ? same_holder(&h->workers[l->worker], w)
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
            same_holder(&h->workers[i], of)) {
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
            if (same_holder(&h->workers[i], of))
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
 * Returns false if the lease is not overdue, or if no usual time is known. */
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
    /* It may go on if bytes of its task have just moved, and nobody else would take the
     * task. */
    const hub_worker *w = &h->workers[lease.worker];
    bool is_alone = true;
    for (int i = 0; i < h->n_workers && is_alone; i++) {
        const hub_worker *other = &h->workers[i];
        is_alone = !other->waiting || other->drains || other->fenced[0] ||
                   same_holder(other, w) || hub_is_barred(other, now_ms);
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
