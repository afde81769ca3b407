/* Backup tasks. If no task is ready, an idle worker may begin a task that another
 * worker holds. Usually it does so only if measurements show that it will finish the
 * task much earlier.
 *
 *   own   seconds that the idle worker needs for the task
 *   left  seconds until the task of the lease will be done
 *
 * hub_pace.c computes both. A backup begins if left >= 2 own and it saves at least
 * 0.2 s. A smaller gain is not certain, because reports are slightly old. Both workers
 * deliver the same bytes, so the homes need not know of the backup: the first delivery
 * counts, and the second one is a duplicate.
 *
 * What a holder reports can only bring a backup forward. A lease that is late by the
 * hub's clock (hub_is_late) gets a backup at once, and a backup that is late is
 * replaced by another one. So no worker delays a task for longer than until its lease
 * is late, if another worker is idle.
 *
 * A worker on trial (hub_trial.c) may never finish its task, and nobody knows how long
 * a worker needs that was not measured. For them left >= 1.25 own is enough. If no
 * worker was measured, an idle worker begins the task of a worker on trial at once:
 * that is the first task of a job, for which all others wait. A worker that helps a
 * worker on trial, or one whose lease is late, may have a different kind of device, but
 * must not be on trial itself, unless no worker was measured. (Each worker names its
 * device itself. If a worker on trial named a device that no other worker has, no
 * worker with the same device could help.)
 *
 * Workers that keep their paths leave no task for one that joins later, and nobody
 * would learn that it is faster. So an idle worker that was not measured also begins a
 * task that another worker holds, if at least half of a task's time is left, whatever
 * its kind of device. If it finishes first, it is measured and keeps the path. If not,
 * the time that it has spent is its measurement; but if it was still fetching, it may
 * try again, three times in all. (Workers on the hub's own machine do not do this: they
 * are alike, and would take the processors from the holder.)
 *
 * If the method does not allow two workers at one task, the hub takes the task away
 * when its lease is late or, from a worker on trial, when that worker has held it for
 * twice the time that the idle worker would need. In one phase of a path each lease has
 * twice as long as the one before until it is late, so that a task that suddenly takes
 * long ends all the same.
 *
 * If no home has confirmed a worker's DONE after UNCONFIRMED_MS, the worker has
 * probably sent nothing to the homes: usually the homes' report reaches the hub before
 * the worker's DONE. But on a slow link the homes' report may come after the DONE. So
 * the hub also waits until each home has answered a question that was sent after the
 * DONE arrived. Then an idle worker begins the same task, if the method allows two
 * workers at one task. If the worker is on trial, idle workers do not wait for
 * UNCONFIRMED_MS. */
#include "workers/hub_internal.h"

enum {
    LOOK_MS = 50,
    BACKUP_FAILURES_MAX = 2,
    UNCONFIRMED_MS = 1500,
    SILENT_MS = 2000,
    PROBES_MAX = 3
};
/* for_ever_s: the value of `left` for leases that may never end, so that these come
 * first */
static const double gain_s = 0.2, for_ever_s = 1e12, sure_times = 2,
                    doubtful_times = 1.25, probe_times = 0.5;

pl_status hub_settle(hub *h, plan_task task, const plan_news *news, int64_t now_ms)
{
    plan_path *path = &h->tasks.arms[task.arm].paths[task.index];
    plan_settled s;
    if (!plan_settle(&h->tasks, path, news, now_ms, &s))
        return PL_OK;
    const char *by = h->workers[s.done.worker].name;
    hub_note_settled(h, task, &s, now_ms);
    pl_log(PL_LOG_INFO, "task.done",
           "task=%s phase=%lld worker=%s loss=%.4f seconds=%.2f", path->name,
           (long long)s.phase, by, s.loss, s.seconds);
    if (s.lost.worker < 0 || s.lost.worker >= h->n_workers)
        return PL_OK;
    hub_worker *other = &h->workers[s.lost.worker];
    pl_message m = {.token = s.lost.token};
    hub_end_task(other, path);
    PL_SAY(&m, LEASE_LOST, lease_lost, .phase = s.phase);
    pl_log(PL_LOG_INFO, "backup.settled", "task=%s phase=%lld first=%s stopped=%s",
           path->name, (long long)s.phase, by, other->name);
    return hub_answer(h, &other->peer, &m);
}

/* Whether the holder reported the task as done although the homes have no result. */
static bool is_said(const plan_path *path)
{
    return plan_is_said(path, path->lease.token, path->phase);
}

/* Whether a second worker may begin the path's task, or take it where the method allows
 * one holder. */
static bool may_get_backup(const hub *h, const plan_arm *arm, const plan_path *path,
                           int64_t now_ms)
{
    const plan_lease *l = &path->lease, *second = &path->backup;
    if (!l->active || l->worker < 0 || l->worker >= h->n_workers)
        return false;
    const bool both = pl_phase_repeats(&arm->arm.outer),
               late = hub_is_late(arm, path, l, path->phase, now_ms),
               on_trial = hub_is_on_trial(h, &h->workers[l->worker]);
    if (!late &&
        (l->phase != path->phase || path->backups_failed >= BACKUP_FAILURES_MAX))
        return false;
    if (second->active && !hub_is_late(arm, path, second, path->phase, now_ms))
        return false;
    if (!is_said(path))
        return both || late || on_trial;
    /* A report of the holder that came by until_ms is older than UNCONFIRMED_MS, and
     * older than the newest state of each home. If the homes still have not confirmed
     * the task, they have not received its results. */
    int64_t until_ms = now_ms - UNCONFIRMED_MS;
    for (int i = 0; i < h->n_homes; i++)
        if (h->homes[i].welcome && h->homes[i].fresh_ms <= until_ms)
            until_ms = h->homes[i].fresh_ms - 1;
    /* Without a backup the holder would lose a task whose results have perhaps arrived
     * at a busy home. */
    return (both && on_trial) ||
           ((both || late) && plan_is_unconfirmed(path, l, until_ms));
}

/* Lists the HUB_SLOW_MAX leases with the most time left. Leases with equal times stay
 * in the order of their tasks. */
static void find_slow_leases(hub *h, int64_t now_ms)
{
    h->n_slow = 0;
    h->slow_ms = now_ms;
    hub_look_at_fleet(h, now_ms);
    for (plan_walk at = {.plan = &h->tasks}; plan_next(&at);) {
        const plan_arm *arm = at.arm;
        const plan_path *path = at.path;
        const plan_lease *l = &path->lease;
        if (!may_get_backup(h, arm, path, now_ms))
            continue;
        const bool late = hub_is_late(arm, path, l, path->phase, now_ms),
                   both = pl_phase_repeats(&arm->arm.outer);
        /* Nothing tells when such a lease will end. The first lease of a job is backed
         * up at once; if there are several, their reports will soon tell which of them
         * is slow. */
        const bool may_last_for_ever =
            is_said(path) || late ||
            (hub_is_on_trial(h, &h->workers[l->worker]) && arm->typical_s <= 0 &&
             (arm->n_leased == 1 || now_ms - l->granted_ms > SILENT_MS));
        double n_tasks;
        const double held_s = hub_held_s(arm, path, l, path->phase, now_ms, &n_tasks);
        /* with no usual time a lease is late only if its holder stands still */
        const double left_s = !both && !(late && hub_usual_s(arm) <= 0) ? held_s
                              : may_last_for_ever ? for_ever_s + held_s
                                                  : hub_left_s(h, arm, path, l, now_ms);
        int place = h->n_slow;
        while (place > 0 && h->slow[place - 1].left_s < left_s)
            place--;
        if (place == HUB_SLOW_MAX)
            continue;
        if (h->n_slow < HUB_SLOW_MAX)
            h->n_slow++;
        memmove(&h->slow[place + 1], &h->slow[place],
                (size_t)(h->n_slow - 1 - place) * sizeof *h->slow);
        h->slow[place] = (hub_slow){at.task, left_s};
    }
}

/* Whether the worker may do this path's task as a backup. Workers whose devices have
 * the same description deliver the same bytes. */
static bool may_do(const hub *h, int worker, const plan_arm *arm, const plan_path *path,
                   bool probes, int64_t now_ms)
{
    const hub_worker *own = &h->workers[worker], *other;
    if (!may_get_backup(h, arm, path, now_ms) || path->lease.worker == worker ||
        (path->backup.active && path->backup.worker == worker))
        return false;
    other = &h->workers[path->lease.worker];
    const bool same_kind = probes || h->options->backup == PL_BACKUP_ANY ||
                           strcmp(own->device, other->device) == 0;
    const bool late = hub_is_late(arm, path, &path->lease, path->phase, now_ms);
    if (is_said(path))
        return !hub_is_on_trial(h, own);
    if (hub_is_on_trial(h, other) || late)
        return !hub_is_on_trial(h, own) || (!arm->is_measured && same_kind);
    return same_kind;
}

bool hub_find_backup(hub *h, int worker, int64_t now_ms, plan_task *out)
{
    const hub_worker *w = &h->workers[worker];
    if (h->options->backup == PL_BACKUP_OFF || w->task[0] || w->held_token != 0)
        return false;
    if (now_ms - h->slow_ms >= LOOK_MS)
        find_slow_leases(h, now_ms);
    for (int i = 0; i < h->n_slow; i++) {
        plan_task task = h->slow[i].task;
        const plan_arm *arm = &h->tasks.arms[task.arm];
        const plan_path *path = &arm->paths[task.index];
        const hub_worker *holder = &h->workers[path->lease.worker];
        const bool both = pl_phase_repeats(&arm->arm.outer),
                   late = hub_is_late(arm, path, &path->lease, path->phase, now_ms);
        /* the lease may end without a result, or its holder was not measured */
        const bool doubtful =
            both && (hub_is_on_trial(h, holder) || hub_task_s(holder, &arm->arm) <= 0 ||
                     is_said(path));
        const double left_s = h->slow[i].left_s;
        double own_s = hub_task_s(w, &arm->arm);
        const bool probes = own_s <= 0 && both && !doubtful && !late &&
                            w->n_probes < PROBES_MAX && w->peer.role == PL_AS_WORKER &&
                            hub_n_held(h, w, HELD_BY_KEY | HELD_BACKUPS) == 0;
        if (own_s <= 0)
            own_s = arm->typical_s > 0 ? arm->typical_s : hub_usual_s(arm);
        own_s *= (double)(1 + plan_repeats(path, worker));
        if (may_do(h, worker, arm, path, probes, now_ms) &&
            (left_s >= for_ever_s ||
             (probes && own_s > 0 && left_s >= probe_times * own_s) ||
             (own_s > 0 && left_s >= own_s + gain_s &&
              left_s >= (doubtful ? doubtful_times : sure_times) * own_s))) {
            if (!hub_may_take(h, w))
                return false;
            h->workers[worker].n_probes += probes;
            *out = task;
            return true;
        }
    }
    return false;
}

void hub_end_late(hub *h, plan_task task, int64_t now_ms)
{
    const plan_arm *arm = &h->tasks.arms[task.arm];
    plan_path *path = &arm->paths[task.index];
    const bool both = pl_phase_repeats(&arm->arm.outer);
    const plan_lease late = both ? path->backup : path->lease;
    if (!late.active)
        return;
    if (!both)
        hub_note_taken(h, task.arm, path, &late, now_ms);
    plan_release(&h->tasks, path, late.token, late.worker, false);
    path->n_taken += !both && path->n_taken < PLAN_TAKEN_MAX;
    pl_log(PL_LOG_WARN, "lease.late", "task=%s phase=%lld worker=%s seconds=%.1f",
           path->name, (long long)path->phase, h->workers[late.worker].name,
           1e-3 * (double)(now_ms - late.granted_ms));
    hub_note_lost(h, late.worker, late.token);
}
