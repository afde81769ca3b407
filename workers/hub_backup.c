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
 * A worker on trial (hub_names.c) may never finish its task, and nobody knows how long
 * a worker needs that was not measured. For them left >= 1.25 own is enough. If no
 * worker was measured, an idle worker begins the task of a worker on trial at once:
 * that is the first task of a job, for which all others wait. A worker that helps a
 * worker on trial may have a different kind of device, but must not be on trial itself,
 * unless no worker was measured. (Each worker names its device itself. If a worker on
 * trial named a device that no other worker has, no worker with the same device could
 * help.) If the method does not allow two workers at one task, the hub takes the task
 * from the worker on trial when that worker has held it for twice the time that the
 * idle worker would need.
 *
 * If no home has confirmed a worker's DONE after UNCONFIRMED_MS, the worker has
 * probably sent nothing to the homes: usually the homes' report reaches the hub before
 * the worker's DONE. But on a slow link the homes' report may come after the DONE. So
 * the hub also waits until each home has answered a question that was sent after the
 * DONE arrived. Then an idle worker begins the same task, if the method allows two
 * workers at one task. If the worker is on trial, idle workers do not wait for
 * UNCONFIRMED_MS. */
#include "workers/hub_internal.h"

enum { LOOK_MS = 50, BACKUP_FAILURES_MAX = 2, UNCONFIRMED_MS = 1500, SILENT_MS = 2000 };
/* for_ever_s: the value of `left` for leases that may never end, so that these come
 * first */
static const double gain_s = 0.2, for_ever_s = 1e12, sure_times = 2,
                    doubtful_times = 1.25;

/* ---- which worker did a finished phase ---- */
pl_status hub_settle(hub *h, plan_path *path)
{
    plan_said by;
    plan_lease lost;
    while (plan_settle(&h->tasks, path, &by, &lost)) {
        hub_note_success(h, by.worker, 1e-3 * (double)by.held_ms);
        pl_log(PL_LOG_INFO, "task.done",
               "task=%s phase=%lld worker=%s loss=%.4f seconds=%.2f", path->name,
               (long long)by.phase, h->workers[by.worker].name, by.work.loss,
               by.work.seconds);
        if (lost.worker >= 0 && lost.worker < h->n_workers) {
            pl_message m;
            plan_task task;
            hub_worker *other = &h->workers[lost.worker];
            pl_message_init(&m, 0);
            m.token = lost.token;
            hub_end_task(other, path);
            if (plan_find_task(&h->tasks, path->name, &task))
                hub_note_late(h, other, task.arm, &lost, &by, pl_now_ms());
            PL_SAY(&m, LEASE_LOST, lease_lost, .phase = by.phase);
            pl_log(PL_LOG_INFO, "backup.settled",
                   "task=%s phase=%lld first=%s stopped=%s", path->name,
                   (long long)by.phase, h->workers[by.worker].name, other->name);
            PL_CHECK(hub_answer(h, &other->peer, &m));
        }
    }
    return PL_OK;
}

/* ---- finding slow leases ---- */
/* Whether a second worker may begin the path's task. It must not begin if the holder
 * has reported the task as done, unless the holder is on trial or no home has confirmed
 * the report in time. */
static bool may_get_backup(const hub *h, const plan_path *path, int64_t now_ms)
{
    const plan_lease *l = &path->lease;
    if (!l->active || l->phase != path->phase || path->backup.active ||
        path->backups_failed >= BACKUP_FAILURES_MAX || l->worker < 0 ||
        l->worker >= h->n_workers)
        return false;
    if (!plan_is_said(path, l->token, path->phase) ||
        hub_is_on_trial(h, &h->workers[l->worker]))
        return true;
    /* If a worker reported a result before this time and no home has confirmed it, then
     * no home has received the result. */
    int64_t until_ms = now_ms - UNCONFIRMED_MS;
    for (int i = 0; i < h->n_homes; i++)
        if (h->homes[i].welcome && h->homes[i].fresh_ms <= until_ms)
            until_ms = h->homes[i].fresh_ms - 1;
    return plan_is_unconfirmed(path, l, until_ms);
}

/* Whether the holder reported the task as done although the homes have no result. */
static bool is_said(const plan_path *path)
{
    return plan_is_said(path, path->lease.token, path->phase);
}

/* Lists the HUB_SLOW_MAX leases with the most time left. Leases with equal times stay
 * in the order of their tasks. */
static void find_slow_leases(hub *h, int64_t now_ms)
{
    h->n_slow = 0;
    h->slow_ms = now_ms;
    hub_look_at_fleet(h, now_ms);
    for (int a = 0; a < h->tasks.n_arms; a++) {
        const plan_arm *arm = &h->tasks.arms[a];
        bool both = pl_phase_repeats(&arm->arm.outer);
        for (int i = 0; i < arm->n_tasks; i++) {
            const plan_path *path = &arm->paths[i];
            const plan_lease *l = &path->lease;
            if (!may_get_backup(h, path, now_ms))
                continue;
            const bool on_trial = hub_is_on_trial(h, &h->workers[l->worker]);
            /* The hub may take a lease only from a holder on trial that has not
             * reported the task as done, because taking it counts as a failure of the
             * holder: perhaps the result has arrived, and a busy home has not reported
             * it yet. */
            if (!both && !(on_trial && !is_said(path)))
                continue;
            /* Nothing tells when such a lease will end. The first lease of a job is
             * backed up at once; if there are several, their reports will soon tell
             * which of them is slow. */
            const bool may_last_for_ever =
                is_said(path) ||
                (on_trial && arm->typical_s <= 0 &&
                 (arm->n_leased == 1 || now_ms - l->granted_ms > SILENT_MS));
            const double left_s = !both ? 1e-3 * (double)(now_ms - l->granted_ms)
                                  : may_last_for_ever
                                      ? for_ever_s
                                      : hub_left_s(h, arm, path, l, now_ms);
            int at = h->n_slow;
            while (at > 0 && h->slow[at - 1].left_s < left_s)
                at--;
            if (at == HUB_SLOW_MAX)
                continue;
            if (h->n_slow < HUB_SLOW_MAX)
                h->n_slow++;
            memmove(&h->slow[at + 1], &h->slow[at],
                    (size_t)(h->n_slow - 1 - at) * sizeof *h->slow);
            h->slow[at] = (hub_slow){{a, i}, left_s};
        }
    }
}

/* Whether the worker may do this path's task as a backup. Workers whose devices have
 * the same description deliver the same bytes. */
static bool may_do(const hub *h, int worker, const plan_arm *arm, const plan_path *path,
                   int64_t now_ms)
{
    const hub_worker *own = &h->workers[worker], *other;
    if (!may_get_backup(h, path, now_ms) || path->lease.worker == worker)
        return false;
    other = &h->workers[path->lease.worker];
    const bool same_kind =
        h->options->backup == PL_BACKUP_ANY || strcmp(own->device, other->device) == 0;
    if (is_said(path))
        return !hub_is_on_trial(h, own);
    if (hub_is_on_trial(h, other))
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
        /* the lease may end without a result, or its holder was not measured */
        const bool doubtful = pl_phase_repeats(&arm->arm.outer) &&
                              (hub_is_on_trial(h, holder) ||
                               hub_task_s(holder, &arm->arm) <= 0 || is_said(path));
        const double left_s = h->slow[i].left_s;
        double own_s = hub_task_s(w, &arm->arm);
        if (own_s <= 0 && doubtful)
            own_s = arm->typical_s;
        own_s *= (double)(1 + plan_repeats(path, worker));
        if (may_do(h, worker, arm, path, now_ms) &&
            (left_s >= for_ever_s ||
             (own_s > 0 && left_s >= own_s + gain_s &&
              left_s >= (doubtful ? doubtful_times : sure_times) * own_s))) {
            *out = task;
            return true;
        }
    }
    return false;
}
